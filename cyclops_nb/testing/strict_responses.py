"""Whether OpenAI would take a request of the Responses API, in its own words where it would not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cyclops_nb.testing.pieces import Failure
from cyclops_nb.testing.strict_input import input_problems
from cyclops_nb.testing.strict_tools import answer_schema_problems, definition_problems, lonely_problems
from cyclops_nb.testing.wording import (
    choice_problems,
    key_problems,
    list_problems,
    missing,
    number_problems,
    object_problems,
    refusal,
    text_problems,
    unsupported,
    wrong_type,
)

__all__ = ["responses_refusal"]

_PARAMETERS = (
    "access_programs",
    "background",
    "background_options",
    "context_management",
    "conversation",
    "image",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "moderation",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
)
_NUMBERS: dict[str, tuple[str, float | None, float | None]] = {
    "max_output_tokens": ("an integer", 16, None),
    "max_tool_calls": ("an integer", 1, None),
    "temperature": ("a decimal", 0, 2),
    "top_logprobs": ("an integer", 0, 20),
    "top_p": ("a decimal", 0, 1),
}
_BOOLEANS = ("background", "parallel_tool_calls", "store", "stream")
_INCLUDABLE = (
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
)
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_SUMMARIES = ("auto", "concise", "detailed")
_REASONING_KEYS = ("context", "effort", "generate_summary", "mode", "summary")
_FORMATS = {
    "json_object": ("type",),
    "json_schema": ("type", "name", "schema", "strict", "description"),
    "text": ("type",),
}
_CHOICES = ("none", "auto", "required")
_TOOL_KEYS = ("type", "name", "description", "parameters", "strict")


def responses_refusal(body: Mapping[str, Any]) -> Failure | None:
    """Refuse a request of the Responses API that OpenAI would refuse.

    Parameters
    ----------
    body : mapping
        The request's JSON.

    Returns
    -------
    Failure or None
        What OpenAI would answer, or None where it would take the request.
    """
    return next(_problems(body), None)


def _problems(body: Mapping[str, Any]) -> Iterator[Failure]:
    if not body.get("model"):
        yield missing("model")
    if not isinstance(body["model"], str):
        yield wrong_type("model", "a string", body["model"])
    yield from key_problems("", body, _PARAMETERS)
    if "input" not in body:
        yield missing("input")
    given = {name: value for name, value in body.items() if value is not None}
    yield from _setting_problems(given)
    yield from _tool_problems(given)
    yield from _text_problems(given.get("text"))
    yield from input_problems(body["input"])


def _setting_problems(given: Mapping[str, Any]) -> Iterator[Failure]:
    for name, (expected, low, high) in _NUMBERS.items():
        if name in given:
            yield from number_problems(name, given[name], expected, low, high)
    for name in _BOOLEANS:
        if not isinstance(given.get(name, False), bool):
            yield wrong_type(name, "a boolean", given[name])
    if not isinstance(given.get("instructions", ""), str):
        yield wrong_type("instructions", "a string", given["instructions"])
    yield from _include_problems(given.get("include", []))
    if "reasoning" in given:
        yield from _reasoning_problems(given["reasoning"])
    if "stream_options" in given:
        yield from _stream_problems(given)


def _include_problems(include: Any) -> Iterator[Failure]:
    if not isinstance(include, list):
        yield wrong_type("include", "an array of strings", include)
    for index, name in enumerate(include):
        yield from choice_problems(f"include[{index}]", name, _INCLUDABLE)


def _reasoning_problems(reasoning: Any) -> Iterator[Failure]:
    yield from object_problems("reasoning", reasoning)
    yield from key_problems("reasoning", reasoning, _REASONING_KEYS)
    given = {name: value for name, value in reasoning.items() if value is not None}
    yield from choice_problems("reasoning.effort", given.get("effort", "none"), _EFFORTS)
    yield from choice_problems("reasoning.summary", given.get("summary", "auto"), _SUMMARIES)


def _stream_problems(given: Mapping[str, Any]) -> Iterator[Failure]:
    if given.get("stream") is not True:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield refusal(message, "stream_options")
    yield from object_problems("stream_options", given["stream_options"])
    yield from key_problems("stream_options", given["stream_options"], ("include_obfuscation",))


def _tool_problems(given: Mapping[str, Any]) -> Iterator[Failure]:
    tools = given.get("tools")
    if tools is None:
        yield from lonely_problems(given)
        return
    yield from list_problems("tools", tools)
    names: list[str] = []
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        yield from object_problems(where, tool, ("type",))
        yield from choice_problems(f"{where}.type", tool["type"], ("function",))
        yield from key_problems(where, tool, _TOOL_KEYS)
        yield from definition_problems(where, tool)
        if tool["name"] in names:
            param = f"{where}.name"
            yield refusal(f"Invalid '{param}': another tool has the name '{tool['name']}'.", param, "invalid_value")
        names.append(tool["name"])
    if "tool_choice" in given:
        yield from _choice_problems(given["tool_choice"], names)


def _choice_problems(choice: Any, names: list[str]) -> Iterator[Failure]:
    if isinstance(choice, str):
        yield from choice_problems("tool_choice", choice, _CHOICES)
        return
    if not isinstance(choice, dict):
        yield wrong_type("tool_choice", "one of a string or object", choice)
    yield from object_problems("tool_choice", choice, ("type", "name"))
    yield from key_problems("tool_choice", choice, ("type", "name"))
    yield from choice_problems("tool_choice.type", choice["type"], ("function",))
    yield from text_problems("tool_choice.name", choice["name"])
    if choice["name"] not in names:
        message = f"Tool choice 'function' with name '{choice['name']}' not found in 'tools' parameter."
        yield refusal(message, "tool_choice")


def _text_problems(text: Any) -> Iterator[Failure]:
    if text is None:
        return
    yield from object_problems("text", text)
    yield from key_problems("text", text, ("format", "verbosity"))
    wanted = text.get("format")
    if wanted is None:
        return
    yield from object_problems("text.format", wanted, ("type",))
    if not isinstance(wanted["type"], str) or wanted["type"] not in _FORMATS:
        yield unsupported("text.format.type", wanted["type"], tuple(_FORMATS))
    yield from key_problems("text.format", wanted, _FORMATS[wanted["type"]])
    if wanted["type"] == "json_schema":
        yield from answer_schema_problems("text.format.schema", "text.format", wanted)
