"""Whether the tools and the answer format of a request are ones that OpenAI takes.

As in the checks of messages, each is a generator whose first problem counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cyclops_nb.testing.pieces import Failure
from cyclops_nb.testing.wording import below_minimum, missing, refusal, text_problem, unsupported, wrong_type

__all__ = ["format_problems", "tool_problems"]

_CHOICES = ("none", "auto", "required")
_FORMATS = ("json_object", "json_schema", "text")
_NAME = "[a-zA-Z0-9_-]+"
_LONGEST_NAME = 64


def tool_problems(body: Mapping[str, Any]) -> Iterator[Failure]:
    """Look at ``tools`` and the parameters that belong to them."""
    tools = body.get("tools")
    if tools is None:
        for param in ("tool_choice", "parallel_tool_calls"):
            if body.get(param) is not None:
                message = (
                    f"Invalid value for '{param}': '{param}' is only allowed when 'tools' are specified."
                )
                yield refusal(message, param)
        return
    if not isinstance(tools, list):
        yield wrong_type("tools", "an array of objects", tools)
    if not tools:
        yield below_minimum("tools", tools)
    names: set[str] = set()
    for index, tool in enumerate(tools):
        yield from _definition_problems(f"tools[{index}]", tool)
        name = tool["function"]["name"]
        if name in names:
            param = f"tools[{index}].function.name"
            yield refusal(
                f"Invalid '{param}': the name '{name}' is used by another tool.", param, "invalid_value"
            )
        names.add(name)
    yield from _choice_problems(body.get("tool_choice"), names)


def format_problems(body: Mapping[str, Any]) -> Iterator[Failure]:
    """Look at ``response_format``."""
    answer_format = body.get("response_format")
    if answer_format is None:
        return
    if not isinstance(answer_format, dict):
        yield wrong_type("response_format", "an object", answer_format)
    if answer_format.get("type") not in _FORMATS:
        yield unsupported("response_format.type", answer_format.get("type"), _FORMATS)
    if answer_format["type"] == "json_object" and "json" not in str(body["messages"]).lower():
        yield refusal(
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
            "messages",
        )
    if answer_format["type"] != "json_schema":
        return
    where = "response_format.json_schema"
    wanted = answer_format.get("json_schema")
    if not isinstance(wanted, dict):
        yield missing(where)
    if "name" not in wanted:
        yield missing(f"{where}.name")
    if problem := text_problem(f"{where}.name", wanted["name"], _NAME, _LONGEST_NAME):
        yield problem
    if not isinstance(wanted.get("schema"), dict):
        yield missing(f"{where}.schema")
    of = f"response_format '{wanted['name']}'"
    for problem_text in _schema_problems(wanted["schema"], strict=wanted.get("strict") is True):
        yield refusal(f"Invalid schema for {of}: {problem_text}", "response_format")


def _definition_problems(where: str, tool: Any) -> Iterator[Failure]:
    if not isinstance(tool, dict):
        yield wrong_type(where, "an object", tool)
    if "type" not in tool:
        yield missing(f"{where}.type")
    if tool["type"] != "function":
        yield unsupported(f"{where}.type", tool["type"], ("function",))
    function = tool.get("function")
    if not isinstance(function, dict):
        yield missing(f"{where}.function")
    if "name" not in function:
        yield missing(f"{where}.function.name")
    if problem := text_problem(f"{where}.function.name", function["name"], _NAME, _LONGEST_NAME):
        yield problem
    if not isinstance(function.get("description", ""), str):
        yield wrong_type(f"{where}.function.description", "a string", function["description"])
    if "parameters" not in function:
        return
    param = f"{where}.function.parameters"
    if not isinstance(function["parameters"], dict):
        yield wrong_type(param, "an object", function["parameters"])
    for problem_text in _schema_problems(function["parameters"], strict=function.get("strict") is True):
        message = f"Invalid schema for function '{function['name']}': {problem_text}"
        yield refusal(message, param, "invalid_function_parameters")


def _choice_problems(choice: Any, names: set[str]) -> Iterator[Failure]:
    if isinstance(choice, str) and choice not in _CHOICES:
        yield unsupported("tool_choice", choice, _CHOICES)
    if choice is None or isinstance(choice, str):
        return
    if not isinstance(choice, dict):
        yield wrong_type("tool_choice", "one of a string or object", choice)
    if choice.get("type") != "function":
        yield unsupported("tool_choice.type", choice.get("type"), ("function",))
    function = choice.get("function")
    if not isinstance(function, dict) or "name" not in function:
        yield missing("tool_choice.function.name")
    if function["name"] not in names:
        message = f"Invalid value for 'tool_choice': function '{function['name']}' is not in 'tools'."
        yield refusal(message, "tool_choice", "invalid_value")


def _schema_problems(schema: dict[str, Any], *, strict: bool) -> Iterator[str]:
    """Say what OpenAI dislikes in a schema whose root must be an object."""
    if schema.get("type") != "object":
        yield f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'."
    if "properties" not in schema and not strict:
        yield "In context=(), object schema missing properties."
    yield from _nested_problems(schema, (), strict=strict)


def _nested_problems(schema: Any, context: tuple[str, ...], *, strict: bool) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "array" and not {"items", "prefixItems"} & schema.keys():
        yield f"In context={context}, array schema missing items."
    if strict and schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            yield f"In context={context}, 'additionalProperties' is required to be supplied and to be false."
        required = schema.get("required") or []
        if absent := [name for name in schema.get("properties") or {} if name not in required]:
            yield (
                f"In context={context}, 'required' is required to be supplied and to be an array including every key "
                f"in properties. Missing '{absent[0]}'."
            )
    for key in ("properties", "$defs", "definitions"):
        if isinstance(schema.get(key), dict):
            for name, nested in schema[key].items():
                yield from _nested_problems(nested, (*context, key, name), strict=strict)
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if isinstance(schema.get(key), list):
            for index, nested in enumerate(schema[key]):
                yield from _nested_problems(nested, (*context, key, str(index)), strict=strict)
    for key in ("items", "additionalProperties"):
        yield from _nested_problems(schema.get(key), (*context, key), strict=strict)
