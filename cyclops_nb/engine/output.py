"""The type that ``response_model=`` asks for: its JSON schema, and the judgement of an answer.

Servers take schemas of objects with named fields only. Another type (a list, a number, a dict of any keys) is asked for
as an object with one field, and an answer that gives the bare value, as models without schema support do, is taken too.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import SchemaError, from_json, to_json

from cyclops_nb.errors import ConfigError, OutputError

__all__ = ["OutputType", "Verdict"]

_FIELD = "answer"


class Verdict(NamedTuple):
    """Whether an answer fits the asked-for type."""

    output: Any = None
    complaint: str | None = None


class OutputType:
    """A type that answers are to have.

    Parameters
    ----------
    kind : type
        Anything that pydantic can validate and describe by a JSON schema.

    Raises
    ------
    ConfigError
        If it cannot.

    Examples
    --------
    >>> OutputType(list[int]).judge('{"answer": [1, 2]}').output
    [1, 2]
    """

    def __init__(self, kind: Any) -> None:
        if isinstance(kind, str | Mapping | BaseModel) or inspect.isroutine(kind):  # pydantic has other uses for these
            raise ConfigError(
                f"response_model must be a type, not a {type(kind).__name__}: give a pydantic model, a TypedDict, a "
                "dataclass, or a type such as list[str]"
            )
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
            schema = self._adapter.json_schema()
        except (PydanticUserError, SchemaError, TypeError, NameError) as error:
            reason = str(error).partition("\n")[0].partition(". Set ")[0]
            raise ConfigError(f"response_model {kind!r} cannot be described by a JSON schema: {reason}") from None
        self._is_wrapped = schema.get("type") != "object" or "properties" not in schema
        self.schema: dict[str, Any] = _wrapped(schema) if self._is_wrapped else schema

    def judge(self, text: str) -> Verdict:
        """Validate the text of an answer as JSON of the type."""
        text = _without_fence(text)
        bare = self._bare(text)
        try:
            return Verdict(self._adapter.validate_json(bare))
        except ValidationError as error:
            if bare is not text:  # a dict that was given bare may have a key of that name itself
                with contextlib.suppress(ValidationError):
                    return Verdict(self._adapter.validate_json(text))
            problems = "; ".join(
                f"{'.'.join(map(str, item['loc'])) or _FIELD}: {item['msg']}" for item in error.errors()
            )
            return Verdict(
                complaint=f"The answer does not fit the required JSON schema: {problems}. Answer with JSON alone."
            )

    def error(self, complaint: str) -> OutputError:
        """Return the error of a run whose answers never fitted."""
        return OutputError(f"{complaint} (asked twice; schema: {str(self.schema)[:200]})")

    def _bare(self, text: str) -> str:
        """Return the JSON of the value itself."""
        value = _parsed(text) if self._is_wrapped else None
        if not isinstance(value, Mapping) or set(value) != {_FIELD}:
            return text
        return to_json(value[_FIELD]).decode()


def _parsed(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return None


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    inner = {name: value for name, value in schema.items() if name != "$defs"}
    outer = {"type": "object", "properties": {_FIELD: inner}, "required": [_FIELD], "additionalProperties": False}
    return {**outer, "$defs": schema["$defs"]} if "$defs" in schema else outer


def _without_fence(text: str) -> str:
    """Drop a Markdown fence around JSON, which models add unasked."""
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```") and "\n" in stripped:
        return stripped[stripped.index("\n") + 1 : -3]
    return stripped
