"""OpenAI's rules for schemas that answers are held to: which schema keeps them, and how one is made to. Pure.

With ``"strict": true`` the server lets the model write only what the schema allows. A schema that breaks one of the
rules is refused, and the request with it, so the flag is for schemas that keep all of them: each object is closed and
all its fields are required, each value has a type, only some keywords occur, and the whole is not too large.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["is_strict", "strict_form"]

_MAPS = ("properties", "$defs", "definitions")
"""Keywords that hold schemas by name."""
_KEYWORDS = {
    *_MAPS, "type", "required", "additionalProperties", "items", "anyOf", "enum", "const", "$ref",
    "title", "description", "pattern", "format", "minLength", "maxLength", "minItems", "maxItems",
    "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
}  # fmt: skip
_MEANINGLESS = {"$comment", "deprecated", "discriminator", "readOnly", "writeOnly"}
"""Keywords that say nothing about what an answer may be, or nothing that is not said beside them."""
_NOTED = ("default", "examples", "format", "pattern", "uniqueItems")
"""Keywords that a description can stand in for: the type itself is checked when the answer is there."""
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
_LOOKAROUNDS = ("(?=", "(?!", "(?<=", "(?<!")
_SHAPES: dict[str, Any] = {
    **dict.fromkeys(_MAPS, Mapping),
    **dict.fromkeys(("required", "anyOf", "enum"), list | tuple),
    **dict.fromkeys(("pattern", "format"), str),
    "type": str | list | tuple,
}
_TYPES: dict[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}

_MOST_PROPERTIES = 5000
_MOST_LEVELS = 10
_MOST_CHARACTERS = 120_000
_MOST_CHOICES = 1000
_MANY_CHOICES = 250
_MOST_CHARACTERS_OF_MANY = 15_000


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Say whether a schema keeps all rules, so that it may be sent with ``"strict": true``.

    Parameters
    ----------
    schema : mapping
        The JSON schema of an answer.

    Examples
    --------
    >>> city = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    >>> is_strict(city), is_strict(city | {"additionalProperties": False})
    (False, True)
    """
    if schema.get("type") != "object" or "anyOf" in schema:
        return False
    parts = list(_parts(schema, 1))
    return all(_keeps_rules(part) for part, _ in parts) and _is_small(parts)


def strict_form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema as strict as it can be made with nothing lost.

    Objects with named fields are closed, fields that have a default are required, and keywords that servers do not take
    move into the description. What would lose something stays: an object of any keys, a field that may be left out and
    has no default, a tuple of several types. Then `is_strict` says no of the result.

    Parameters
    ----------
    schema : mapping
        The JSON schema of an answer. It is not changed.

    Returns
    -------
    dict
        Another schema. What fits it fits `schema`.

    Examples
    --------
    >>> depth = {"type": "object", "properties": {"depth": {"type": "integer", "default": 3}}}
    >>> strict_form(depth)["properties"], strict_form(depth)["required"]
    ({'depth': {'type': 'integer', 'description': 'default: 3'}}, ['depth'])
    """
    return _strict_mapping(schema, schema)


def _parts(schema: Any, level: int) -> Iterator[tuple[Any, int]]:
    """Give a schema and all in it, each with the number of objects that it is inside of, itself included."""
    yield schema, level
    if not isinstance(schema, Mapping):
        return
    for name in _MAPS:
        nested = schema.get(name)
        for item in nested.values() if isinstance(nested, Mapping) else ():
            yield from _parts(item, level + 1 if name == "properties" else 1)
    choices = schema.get("anyOf")
    for item in choices if isinstance(choices, list | tuple) else ():
        yield from _parts(item, level)
    if "items" in schema:
        yield from _parts(schema["items"], level)


def _keeps_rules(part: Any) -> bool:
    """Say whether a schema keeps the rules, apart from what is nested in it."""
    if not isinstance(part, Mapping) or not part.keys() <= _KEYWORDS:
        return False
    if not all(isinstance(part[key], kinds) for key, kinds in _SHAPES.items() if key in part):
        return False
    if "$ref" in part:
        return len(part) == 1
    kinds = part.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    return (
        ("anyOf" in part or bool(kinds))
        and ("object" not in kinds or _is_closed(part))
        and ("array" not in kinds or "items" in part)
        and part.get("format", "date") in _FORMATS
        and not _looks_around(part.get("pattern", ""))
    )


def _is_closed(part: Mapping[str, Any]) -> bool:
    """Say whether an object has exactly the fields that are named."""
    fields, required = part.get("properties"), part.get("required", ())
    if fields is None or part.get("additionalProperties") is not False:
        return False
    return len(required) == len(fields) and all(name in required for name in fields)


def _looks_around(pattern: str) -> bool:
    return any(mark in pattern for mark in _LOOKAROUNDS)


def _is_small(parts: list[tuple[Any, int]]) -> bool:
    """Say whether a schema keeps within the limits."""
    schemas = [part for part, _ in parts]
    names = [name for part in schemas for key in _MAPS for name in part.get(key, ())]
    choices = [part.get("enum", ()) for part in schemas]
    values = [value for some in choices for value in some] + [part.get("const") for part in schemas]
    return (
        sum(len(part.get("properties", ())) for part in schemas) <= _MOST_PROPERTIES
        and max(level for part, level in parts if part.get("type") == "object") <= _MOST_LEVELS
        and _characters(names) + _characters(values) <= _MOST_CHARACTERS
        and sum(map(len, choices)) <= _MOST_CHOICES
        and all(len(some) <= _MANY_CHOICES or _characters(some) <= _MOST_CHARACTERS_OF_MANY for some in choices)
    )


def _characters(values: Any) -> int:
    return sum(len(value) for value in values if isinstance(value, str))


def _strict(part: Any, root: Mapping[str, Any]) -> Any:
    return _strict_mapping(part, root) if isinstance(part, Mapping) else part


def _strict_mapping(part: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    result = _plain(part)
    for name in _MAPS:
        if isinstance(result.get(name), Mapping):
            result[name] = {key: _strict(value, root) for key, value in result[name].items()}
    if isinstance(result.get("anyOf"), list):
        result["anyOf"] = [_strict(choice, root) for choice in result["anyOf"]]
    if "items" in result:
        result["items"] = _strict(result["items"], root)
    if isinstance(part.get("properties"), Mapping) and part.get("additionalProperties", False) is False:
        result["required"] = list(_required(part, root))
        result["additionalProperties"] = False
    _note(result)
    if "$ref" in result and len(result) > 1:  # nothing may stand beside a reference
        result["anyOf"] = [{"$ref": result.pop("$ref")}]
    return result


def _plain(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that says the same in the keywords that servers take, where they have them."""
    result = {key: value for key, value in part.items() if key not in _MEANINGLESS}
    if "anyOf" not in result and "oneOf" in result:  # pydantic writes it where a field tells the choices apart
        result["anyOf"] = result.pop("oneOf")
    places = result.get("prefixItems")
    if places and result.get("maxItems") == len(places) and all(place == places[0] for place in places):
        result["items"] = result.pop("prefixItems")[0]
    kinds = {type(value) for value in result.get("enum", ())}
    if "type" not in result and kinds and kinds <= _TYPES.keys():
        result["type"] = [name for kind, name in _TYPES.items() if kind in kinds]
    return result


def _required(part: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[str]:
    """Give the fields that must be there, and those that may be left out only because they have a default."""
    required = part.get("required", ())
    for name, field in part["properties"].items():
        default = field.get("default", ...) if isinstance(field, Mapping) else ...
        # a model cannot give the default of ``x: int = None``
        if name in required or (default is not ... and (default is not None or _is_nullable(field, root))):
            yield name


def _is_nullable(part: Any, root: Mapping[str, Any], depth: int = 0) -> bool:
    if not isinstance(part, Mapping) or depth > _MOST_LEVELS:
        return False
    name = part.get("$ref")
    if name is not None:
        return _is_nullable(root.get("$defs", {}).get(str(name).rpartition("/")[2]), root, depth + 1)
    choices = part.get("anyOf", part.get("oneOf"))
    if choices is not None:
        return any(_is_nullable(choice, root, depth + 1) for choice in choices)
    if "enum" in part:
        return None in part["enum"]
    kinds = part.get("type", "null")
    return kinds == "null" or (isinstance(kinds, list) and "null" in kinds)


def _note(part: dict[str, Any]) -> None:
    """Move into the description what cannot stand in the schema."""
    notes = []
    for key in _NOTED:
        if key not in part or (key == "format" and part[key] in _FORMATS):
            continue
        if key == "pattern" and not _looks_around(part[key]):
            continue
        value = part.pop(key)
        if not (key == "default" and (value is None or "const" in part)):  # such a default says nothing new
            notes.append(f"{key}: {json.dumps(value, ensure_ascii=False)}")
    if notes:
        text, said = "; ".join(notes), part.get("description")
        part["description"] = f"{said} ({text})" if said else text
