"""The type that ``response_model=`` asks for: its JSON schema, and the judgement of an answer.

Servers take schemas of objects with named fields only. Another type (a list, a number, a dict of any keys) is asked for
as an object with one field, and an answer that gives the bare value, as models without schema support do, is taken too.
The schema only guides the model; what counts is pydantic's judgement of the answer by the type itself.
"""

from __future__ import annotations

import json
import re
import traceback
import typing
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import core_schema, from_json
from typing_extensions import TypeAliasType

from cyclops_nb.errors import ConfigError, OutputError
from cyclops_nb.models.strictness import is_strict, strict_form
from cyclops_nb.values import clean_json

__all__ = ["OutputType", "Verdict"]

_FIELD = "answer"
_WRAPPED = re.compile(rf'\s*\{{\s*"{_FIELD}"\s*:(.*)\}}\s*', re.DOTALL)
_BRACKET = re.compile(r"[\[{]")
_REMARK = re.compile(r"\[[^\[\]{}\"']*\]")
"""Brackets around words, as in "[see below]"."""
_REQUEST = " Answer with JSON alone, of this schema: "
_MOST_PROBLEMS = 10
_EMPTY: dict[type, Any] = {list: [], dict: {}, set: [], frozenset: [], tuple: []}
_DECODER = json.JSONDecoder()


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
        if not _is_type(kind):  # pydantic has other uses for some of these
            raise ConfigError(
                f"response_model must be a type, not an instance of {type(kind).__name__}: give a pydantic model, a "
                "TypedDict, a dataclass, or a type such as list[str]"
            )
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
            schema = clean_json(self._adapter.json_schema(schema_generator=_Schema))
            self._is_wrapped = schema.get("type") != "object" or "properties" not in schema
            self.schema: dict[str, Any] = _sent(_wrapped(schema) if self._is_wrapped else schema)
        except Exception as error:  # noqa: BLE001 - of pydantic, or of what the type does to describe itself
            reason = (str(error) or type(error).__name__).partition("\n")[0].partition(". Set ")[0]
            raise ConfigError(f"response_model {kind!r} cannot be described by a JSON schema: {reason}") from None

    def judge(self, text: str) -> Verdict:
        """Validate the text of an answer as JSON of the type."""
        text = _json_in(text)
        match = _WRAPPED.fullmatch(text) if self._is_wrapped else None
        if match is None or not _is_json(match[1]):
            return self._judge(text)
        verdict = self._judge(match[1], _FIELD)
        if verdict.complaint is None:
            return verdict
        bare = self._judge(text)  # a dict that was given bare may have a key of that name itself
        return bare if bare.complaint is None else verdict

    def error(self, complaint: str, tries: int = 2) -> OutputError:
        """Return the error of a run whose answers never fitted."""
        asked = "once" if tries == 1 else "twice"
        problem = complaint.partition(_REQUEST)[0]
        return OutputError(f"{problem} (asked {asked}; say more in the prompt, or try a simpler type or another model)")

    def _judge(self, text: str, *place: str) -> Verdict:
        try:
            return Verdict(self._adapter.validate_json(text))
        except ValidationError as error:
            problems = _problems(error, place) if text else "it is empty"
        except Exception as error:  # noqa: BLE001 - a validator of the user's stumbled over the answer
            frame = traceback.extract_tb(error.__traceback__)[-1]
            problems = f"{type(error).__name__}: {error} (raised by {frame.name}, line {frame.lineno})"
        schema = json.dumps(self.schema, ensure_ascii=False)
        return Verdict(complaint=f"The answer does not fit the required JSON schema: {problems}.{_REQUEST}{schema}")


class _Schema(GenerateJsonSchema):
    """Describes types so that models can answer and servers can enforce it."""

    ignored_warning_kinds: ClassVar[set[JsonSchemaWarningKind]] = {  # type: ignore[misc]
        "skipped-choice",
        "non-serializable-default",
    }

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's signature
        """Leave out titles that only repeat a field's name."""
        return False

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        """Show ``default_factory=list`` as the default that it is; other factories may give anything."""
        factory: Any = schema.get("default_factory")
        is_known = isinstance(factory, type) and factory in _EMPTY
        return _EMPTY[factory] if is_known else super().get_default_value(schema)

    def named_tuple_schema(self, schema: Any) -> JsonSchemaValue:
        """Describe a NamedTuple by the names of its fields: an array with a type for each place is rarely enforced."""
        fields = {self._name(field): field["schema"] for field in schema["fields"]}
        return {
            "type": "object",
            "properties": {name: self.generate_inner(inner) for name, inner in fields.items()},
            "required": [name for name, inner in fields.items() if inner["type"] != "default"],
            "additionalProperties": False,
        }

    def arguments_schema(self, schema: core_schema.ArgumentsSchema) -> JsonSchemaValue:
        """Same as `named_tuple_schema`, for pydantic before 2.14."""
        return self.kw_arguments_schema(schema["arguments_schema"], None)

    @staticmethod
    def _name(field: Any) -> str:
        alias = field.get("validation_alias")
        return alias if isinstance(alias, str) else str(field["name"])


def _is_type(kind: Any) -> bool:
    if kind is BaseModel:  # the base of models, which describes nothing
        return False
    if isinstance(kind, type | typing.NewType | TypeAliasType) or typing.get_origin(kind) is not None:
        return True
    return isinstance(kind, getattr(typing, "TypeAliasType", ())) or kind is Any


def _sent(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that servers are sent: the strict form if there is one, else as it is."""
    strict = strict_form(schema)
    return strict if is_strict(strict) else schema


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    inner = {name: value for name, value in schema.items() if name != "$defs"}
    outer = {"type": "object", "properties": {_FIELD: inner}, "required": [_FIELD], "additionalProperties": False}
    return {**outer, "$defs": schema["$defs"]} if "$defs" in schema else outer


def _problems(error: ValidationError, place: tuple[str, ...]) -> str:
    """Return what is wrong with which fields."""
    items = error.errors(include_url=False, include_context=False, include_input=False)
    texts = [": ".join(filter(None, (".".join(map(str, (*place, *item["loc"]))), item["msg"]))) for item in items]
    if items[0]["type"] == "json_invalid" and "EOF" in texts[0]:
        texts[0] += ", it ends too early"
    more = len(texts) - _MOST_PROBLEMS
    return "; ".join(texts[:_MOST_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")


def _json_in(text: str) -> str:
    """Return the JSON of an answer: all of it, what a Markdown fence holds, or what stands alone among words."""
    text = text.strip()
    candidates = (text, _without_fence(text), _only_json(text))
    return next((item for item in candidates if item is not None and _is_json(item)), text)


def _is_json(text: str) -> bool:
    try:
        from_json(text)
    except ValueError:
        return False
    return True


def _without_fence(text: str) -> str | None:
    is_fenced = text.startswith("```") and text.endswith("```") and "\n" in text
    return text[text.index("\n") + 1 : -3] if is_fenced else None


def _only_json(text: str) -> str | None:
    """Return the one JSON object or array in a text; nothing if there are several, or one that is broken or cut."""
    found: str | None = None
    position = 0
    while (bracket := _BRACKET.search(text, position)) is not None:
        try:
            _, position = _DECODER.raw_decode(text, bracket.start())
        except (ValueError, RecursionError):
            remark = _REMARK.match(text, bracket.start())
            if remark is None:  # what stands inside of it would be a part of an answer
                return None
            position = remark.end()
            continue
        if found is not None:
            return None
        found = text[bracket.start() : position]
    return found
