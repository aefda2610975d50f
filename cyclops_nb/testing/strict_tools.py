"""Whether the tools and the answer format of a request are ones that OpenAI takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from cyclops_nb.testing.pieces import Failure
from cyclops_nb.testing.wording import (
    choice_problems,
    list_problems,
    missing,
    object_problems,
    refusal,
    text_problems,
    wrong_type,
)

__all__ = ["answer_schema_problems", "definition_problems", "format_problems", "lonely_problems", "tool_problems"]

_CHOICES = ("none", "auto", "required")
_FORMATS = ("json_object", "json_schema", "text")
_NAME = "[a-zA-Z0-9_-]+"
_LONGEST_NAME = 64
_T = TypeVar("_T")


def tool_problems(body: Mapping[str, Any]) -> Iterator[Failure]:
    """Look at ``tools`` and the parameters that belong to them."""
    tools = body.get("tools")
    if tools is None:
        yield from lonely_problems(body)
        return
    yield from list_problems("tools", tools)
    names: set[str] = set()
    for index, tool in enumerate(tools):
        yield from object_problems(f"tools[{index}]", tool, ("type", "function"))
        yield from choice_problems(f"tools[{index}].type", tool["type"], ("function",))
        yield from definition_problems(f"tools[{index}].function", tool["function"])
        name = tool["function"]["name"]
        if name in names:
            param = f"tools[{index}].function.name"
            yield refusal(f"Invalid '{param}': another tool has the name '{name}'.", param, "invalid_value")
        names.add(name)
    if (choice := body.get("tool_choice")) is not None:
        yield from _tool_choice_problems(choice, names)


def lonely_problems(body: Mapping[str, Any]) -> Iterator[Failure]:
    """Refuse parameters that belong to tools where there are none."""
    for param in ("tool_choice", "parallel_tool_calls"):
        if body.get(param) is not None:
            message = f"Invalid value for '{param}': '{param}' is only allowed when 'tools' are specified."
            yield refusal(message, param)


def format_problems(body: Mapping[str, Any]) -> Iterator[Failure]:
    """Look at ``response_format``."""
    answer_format = body.get("response_format")
    if answer_format is None:
        return
    yield from object_problems("response_format", answer_format, ("type",))
    yield from choice_problems("response_format.type", answer_format["type"], _FORMATS)
    if answer_format["type"] == "json_schema":
        yield from object_problems("response_format", answer_format, ("json_schema",))
        yield from answer_schema_problems(
            "response_format", "response_format.json_schema", answer_format["json_schema"]
        )
    elif answer_format["type"] == "json_object" and "json" not in str(body["messages"]).lower():
        yield refusal(
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
            "messages",
        )


def answer_schema_problems(param: str, where: str, wanted: Any) -> Iterator[Failure]:
    """Look at the name and the schema of an answer's form."""
    yield from object_problems(where, wanted, ("name", "schema"))
    yield from text_problems(f"{where}.name", wanted["name"], _NAME, _LONGEST_NAME)
    yield from object_problems(f"{where}.schema", wanted["schema"])
    for problem in _schema_problems(wanted["schema"], strict=wanted.get("strict") is True):
        yield refusal(f"Invalid schema for response_format '{wanted['name']}': {problem}", param)


def definition_problems(at: str, function: Any) -> Iterator[Failure]:
    """Look at the name, description and parameters of a function."""
    yield from object_problems(at, function, ("name",))
    yield from text_problems(f"{at}.name", function["name"], _NAME, _LONGEST_NAME)
    if not isinstance(function.get("description", ""), str):
        yield wrong_type(f"{at}.description", "a string", function["description"])
    if "parameters" not in function:
        return
    param = f"{at}.parameters"
    yield from object_problems(param, function["parameters"])
    for problem in _schema_problems(function["parameters"], strict=function.get("strict") is True):
        message = f"Invalid schema for function '{function['name']}': {problem}"
        yield refusal(message, param, "invalid_function_parameters")


def _tool_choice_problems(choice: Any, names: set[str]) -> Iterator[Failure]:
    if isinstance(choice, str):
        yield from choice_problems("tool_choice", choice, _CHOICES)
        return
    if not isinstance(choice, dict):
        yield wrong_type("tool_choice", "one of a string or object", choice)
    yield from object_problems("tool_choice", choice, ("type",))
    yield from choice_problems("tool_choice.type", choice["type"], ("function",))
    function = choice.get("function")
    if not isinstance(function, dict) or "name" not in function:
        yield missing("tool_choice.function.name")
    yield from text_problems("tool_choice.function.name", function["name"])
    if function["name"] not in names:
        message = f"Invalid value for 'tool_choice': function '{function['name']}' is not in 'tools'."
        yield refusal(message, "tool_choice", "invalid_value")


def _schema_problems(schema: dict[str, Any], *, strict: bool) -> Iterator[str]:
    """Say what OpenAI dislikes in a schema whose root must be an object."""
    if schema.get("type") != "object":
        yield f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'."
    if "properties" not in schema:
        yield "In context=(), object schema missing properties."
    for context, nested in _subschemas(schema, ()):
        if nested.get("type") == "array" and not {"items", "prefixItems"} & nested.keys():
            yield f"In context={context}, array schema missing items."
        if strict and nested.get("type") == "object":
            yield from _strict_problems(context, nested)


def _strict_problems(context: tuple[str, ...], schema: dict[str, Any]) -> Iterator[str]:
    if schema.get("additionalProperties") is not False:
        yield f"In context={context}, 'additionalProperties' is required to be supplied and to be false."
    required = schema.get("required")
    for name in _as(dict, schema.get("properties")):
        if not isinstance(required, list) or name not in required:
            yield (
                f"In context={context}, 'required' is required to be supplied and to be an array including "
                f"every key in properties. Missing '{name}'."
            )


def _subschemas(schema: Any, context: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Give a schema and all that are nested in it, each with the keys that lead to it."""
    if not isinstance(schema, dict):
        return
    yield context, schema
    for key in ("properties", "$defs", "definitions"):
        for name, nested in _as(dict, schema.get(key)).items():
            yield from _subschemas(nested, (*context, key, name))
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for index, nested in enumerate(_as(list, schema.get(key))):
            yield from _subschemas(nested, (*context, key, str(index)))
    for key in ("items", "additionalProperties"):
        yield from _subschemas(schema.get(key), (*context, key))


def _as(kind: type[_T], value: Any) -> _T:
    """Give an empty one of a kind for what is none, which is not this check's matter."""
    return value if isinstance(value, kind) else kind()
