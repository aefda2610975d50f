"""Tools: Python functions that a model may call, and the JSON schema that tells it how.

The schema comes from the signature, through pydantic, and the docstring; the same model validates what the model
wrote, so the function gets real objects (enum members, models, dates) and never an argument it did not declare.
"""

from __future__ import annotations

import datetime as dt
import enum
import functools
import inspect
import json
import math
import numbers
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, overload

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model
from pydantic.fields import FieldInfo

from cyclops_nb.errors import ConfigError, InputError
from cyclops_nb.session import Session
from cyclops_nb.values import clean_json

__all__ = ["RunContext", "Tool", "as_tools", "tool"]

ToolThread = Literal["worker", "caller"]
_DATA = {"default", "const", "enum", "examples"}
"""Keys of a JSON schema that hold data and no schema."""
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")


@dataclass(frozen=True)
class RunContext:
    """What a tool may know of the run it is called in; a parameter annotated with it is injected.

    Examples
    --------
    >>> def remember(note: str, context: RunContext) -> str:
    ...     context.session.metadata["note"] = note
    ...     return "noted"
    >>> list(tool(remember).parameters["properties"])
    ['note']
    """

    session: Session
    run_id: str
    step: int
    call_id: str
    agent: Any


class Tool:
    """A function that a model may call.

    Made by `tool` from a Python function, or directly for anything that has a JSON schema.

    Parameters
    ----------
    name : str
        What the model calls it by: letters, digits, ``_`` and ``-``, at most 64.
    description : str
        What the model is told about it.
    parameters : mapping
        The JSON schema of its arguments, an object.
    function : callable
        Called with the arguments by keyword; sync or async.
    thread : {"worker", "caller"}
        Where a sync function runs: in a thread of its own, or on the thread that waits for the run.
    timeout : float, optional
        Seconds that a call may take.

    Raises
    ------
    ConfigError
        If one of them is not of that kind.

    Examples
    --------
    >>> def now() -> str:
    ...     "Tell the time."
    ...     return "12:00"
    >>> Tool("now", "Tell the time.", {"type": "object", "properties": {}}, now).name
    'now'
    """

    def __init__(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
        function: Callable[..., Any],
        *,
        thread: ToolThread = "worker",
        timeout: float | None = None,
    ) -> None:
        _check_options(name, description, thread, timeout)
        if not callable(function):
            raise ConfigError(f"tool {name!r}: {function!r} cannot be called")
        self.name = name
        self.description = description
        self.parameters: dict[str, Any] = _checked_parameters(name, parameters)
        self.function = function
        self.thread = thread
        self.timeout = None if timeout is None else float(timeout)
        self._signature: _Signature | None = None

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as if it were no tool."""
        return self.function(*args, **kwargs)

    @property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function, which runs on the run's event loop."""
        function = self.function
        while isinstance(function, functools.partial):
            function = function.func
        call = function if inspect.isroutine(function) else type(function).__call__
        return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)

    def schema(self) -> dict[str, Any]:
        """Return name, description and parameters."""
        return {"name": self.name, "description": self.description, "parameters": self.parameters}

    def bind(self, arguments: str, context: RunContext) -> Callable[[], Any]:
        """Return the call, ready to be made, that `arguments` ask for.

        Parameters
        ----------
        arguments : str
            The JSON text that the model wrote.
        context : RunContext
            Injected where the function asks for it.

        Raises
        ------
        InputError
            If the text is no JSON object or does not fit the parameters; its text is meant for the model.
        """
        values = _parse(arguments)
        if self._signature is not None:
            return self._signature.bind(self.function, values, context)
        _check_schema(self.parameters, values)
        return functools.partial(self.function, **values)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    thread: ToolThread = "worker",
    timeout: float | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Any = inspect.Parameter.empty,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    thread: ToolThread = "worker",
    timeout: float | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function; use it as ``@tool`` or as ``@tool(name=…)``.

    Parameters
    ----------
    function : callable
        Sync or async, with annotated parameters. Parameter texts of its docstring go into the schema.
    name, description : str, optional
        Instead of the function's name and docstring.
    thread : {"worker", "caller"}
        Where a sync function runs. ``"caller"`` keeps it on the thread that waits in a sync entry point, which
        sqlite connections and plots want.
    timeout : float, optional
        Seconds that a call may take.

    Raises
    ------
    ConfigError
        If the signature cannot be described: ``*args``, ``**kwargs``, or annotations that JSON does not know; or
        if it is no function, or an option has a wrong value.

    Examples
    --------
    >>> @tool
    ... def add(a: int, b: int = 1) -> int:
    ...     "Add two numbers."
    ...     return a + b
    >>> add.name, add.parameters["required"], add(1, 2)
    ('add', ['a'], 3)
    """
    if isinstance(function, Tool):
        return function
    _check_options("tool" if name is None else name, description or "", thread, timeout)
    if function is inspect.Parameter.empty:
        return functools.partial(_make_tool, name=name, description=description, thread=thread, timeout=timeout)
    return _make_tool(function, name=name, description=description, thread=thread, timeout=timeout)


def _make_tool(
    function: Any, *, name: str | None, description: str | None, thread: ToolThread, timeout: float | None
) -> Tool:
    if not callable(function):
        raise ConfigError(
            f"a tool is made of a function, not of a {type(function).__name__}: write @tool above the function, or "
            '@tool(name="…") to name it'
        )
    base = function
    while isinstance(base, functools.partial):
        base = base.func
    name = name or str(getattr(base, "__name__", type(base).__name__))
    documented = base if inspect.isroutine(base) else type(base).__call__
    text, texts = _read_docstring(inspect.getdoc(base) if documented is base else inspect.getdoc(documented))
    signature = _Signature(name, function, texts)
    made = Tool(name, description or text, signature.parameters, function, thread=thread, timeout=timeout)
    made._signature = signature  # noqa: SLF001 - this is the constructor for functions
    return made


def as_tools(functions: typing.Iterable[Tool | Callable[..., Any]]) -> tuple[Tool, ...]:
    """Return tools for functions and tools, or raise `ConfigError` if one is neither or two share a name."""
    if isinstance(functions, str | bytes | Mapping) or not isinstance(functions, typing.Iterable):
        raise ConfigError(f"tools must be a list of functions, such as tools=[f], not a {type(functions).__name__}")
    tools = tuple(item if isinstance(item, Tool) else tool(item) for item in functions)
    names = [item.name for item in tools]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise ConfigError(f"two tools are named {double!r}: give one another name with tool(name=…)")
    return tools


def _check_options(name: Any, description: Any, thread: Any, timeout: Any) -> None:
    if not isinstance(name, str) or not _NAME.match(name):
        raise ConfigError(f"tool name {name!r}: models accept 1 to 64 letters, digits, '_' and '-'; pass tool(name=…)")
    if not isinstance(description, str):
        raise ConfigError(f"tool {name!r}: the description must be text, not a {type(description).__name__}")
    if thread not in ("worker", "caller"):
        raise ConfigError(f"tool {name!r}: thread must be 'worker' or 'caller', not {thread!r}")
    is_number = isinstance(timeout, numbers.Real) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and 0 < timeout < math.inf):
        raise ConfigError(f"tool {name!r}: timeout must be seconds above 0, or None for no limit, not {timeout!r}")


def _checked_parameters(name: str, parameters: Any) -> dict[str, Any]:
    """Return a schema of arguments as all servers take it: an object that says which properties it has."""
    try:
        schema: dict[str, Any] = {"type": "object", "properties": {}, **clean_json(parameters)}
        is_fit = schema["type"] == "object" and isinstance(schema["properties"], dict)
    except (TypeError, ValueError):  # no mapping, or no JSON
        is_fit = False
    if not is_fit:
        example = '{"type": "object", "properties": {"city": {"type": "string"}}}'
        raise ConfigError(f"tool {name!r}: parameters must be a schema such as {example}, not {parameters!r:.100}")
    return schema


class _Signature:
    """A function's parameters as a pydantic model.

    The model's fields carry names of their own and the parameters' names as aliases, since pydantic reserves some
    names (``schema``, ``copy``, ``model_…``) that functions use freely.
    """

    def __init__(self, name: str, function: Callable[..., Any], texts: Mapping[str, str]) -> None:
        try:
            self._parameters = inspect.signature(function).parameters
        except ValueError as error:
            raise ConfigError(f"tool {name!r}: {error}; wrap it in a function of yours") from None
        hints = _hints(name, function)
        self._context = [key for key in self._parameters if _is_context(hints.get(key))]
        self._fields: dict[str, str] = {}
        fields: dict[str, Any] = {}
        for key, parameter in self._parameters.items():
            if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
                raise ConfigError(f"tool {name!r}: a model cannot fill {str(parameter)!r}; name each parameter")
            if key in self._context:
                continue
            self._fields[key] = f"p{len(fields)}"
            fields[self._fields[key]] = (hints.get(key, Any), _field(parameter, texts.get(key)))
        try:
            self._model: type[BaseModel] = create_model(
                name, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False), **fields
            )
            self.parameters = _without_titles(self._model.model_json_schema())
        except PydanticUserError as error:
            raise ConfigError(f"tool {name!r}: its parameters cannot be described: {error.message}") from None

    def bind(self, function: Callable[..., Any], values: Mapping[str, Any], context: RunContext) -> Callable[[], Any]:
        try:
            valid = self._model.model_validate(values)
        except ValidationError as error:
            raise InputError(_explain(error)) from None
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for key, parameter in self._parameters.items():
            value = context if key in self._context else getattr(valid, self._fields[key])
            if parameter.kind is parameter.POSITIONAL_ONLY:
                args.append(value)
            else:
                kwargs[key] = value
        return functools.partial(function, *args, **kwargs)


def _hints(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    while isinstance(function, functools.partial):
        function = function.func
    target = inspect.unwrap(function if inspect.isroutine(function) else type(function).__call__)
    # what a tool returns is nobody's business, and often annotated with a name that only type checkers import
    annotations = {key: hint for key, hint in getattr(target, "__annotations__", {}).items() if key != "return"}
    wanted = types.SimpleNamespace(__annotations__=annotations)
    try:
        return typing.get_type_hints(wanted, getattr(target, "__globals__", {}), include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise ConfigError(f"tool {name!r}: an annotation cannot be resolved: {error}") from None


def _is_context(hint: Any) -> bool:
    """Say whether an annotation asks for the run's context, as it is, optional, or annotated."""
    if typing.get_origin(hint) in {typing.Union, types.UnionType, typing.Annotated}:
        return any(_is_context(item) for item in typing.get_args(hint))
    return hint is RunContext


def _field(parameter: inspect.Parameter, text: str | None) -> Any:
    facts: dict[str, Any] = {"alias": parameter.name}
    if text:  # an empty one would hide what Annotated says
        facts["description"] = text
    default = parameter.default
    if isinstance(default, FieldInfo):
        info = default if default.description else FieldInfo.merge_field_infos(default, description=text)
        name = parameter.name
        return FieldInfo.merge_field_infos(info, alias=name, validation_alias=name, serialization_alias=name)
    if default is parameter.empty:
        return Field(**facts)
    plain = default.value if isinstance(default, enum.Enum) else default
    if plain is None or type(plain) in {str, int, float, bool, dt.date, dt.datetime, dt.time}:
        return Field(default, **facts)
    # arrays, frames, numpy's numbers and the like have no JSON form, and comparing them is no yes or no
    return Field(default_factory=lambda: default, **facts)


def _without_titles(schema: Any) -> Any:
    """Drop the titles that pydantic makes up of field names: they are noise to a model."""
    if isinstance(schema, dict):
        named = schema.get("properties")
        kept = {key: value for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
        cleaned = {key: value if key in _DATA else _without_titles(value) for key, value in kept.items()}
        if named is not None:
            cleaned["properties"] = {key: _without_titles(value) for key, value in named.items()}
        return {key: cleaned[key] for key in kept}
    return [_without_titles(item) for item in schema] if isinstance(schema, list) else schema


def _read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return what a docstring says of the whole, and of each parameter."""
    if not text:
        return "", {}
    import docstring_parser

    parsed = docstring_parser.parse(text)
    description = "\n\n".join(filter(None, (parsed.short_description, parsed.long_description)))
    return description, {item.arg_name: item.description for item in parsed.params if item.description}


def _parse(arguments: str) -> dict[str, Any]:
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the arguments are not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise InputError(f"the arguments must be a JSON object, got {type(values).__name__}")
    return values


def _explain(error: ValidationError) -> str:
    problems = [f"{'.'.join(str(place) for place in item['loc'])}: {item['msg']}" for item in error.errors()]
    return "the arguments do not fit: " + "; ".join(problems)


def _check_schema(schema: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    import jsonschema

    try:
        jsonschema.validate(values, schema)
    except jsonschema.ValidationError as error:
        raise InputError(f"the arguments do not fit: {error.json_path}: {error.message}") from None
    except jsonschema.SchemaError as error:
        raise ConfigError(f"the tool's parameters are no JSON schema: {error.message}") from None
