"""Whether OpenAI would take a request, in its own words where it would not.

Many servers forgive what OpenAI refuses, so that a program tested against them fails on the day it meets the
real one. In three points this goes beyond what OpenAI refuses itself, because other servers do: only one
system message, at the beginning; arguments of a tool call that hold a JSON object; assistant messages that
say something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cyclops_nb.testing.pieces import Failure
from cyclops_nb.testing.recorded import RecordedRequest
from cyclops_nb.testing.strict_messages import message_problems, turn_problems
from cyclops_nb.testing.strict_tools import format_problems, tool_problems
from cyclops_nb.testing.wording import (
    choice_problems,
    key_problems,
    list_problems,
    missing,
    number_problems,
    refusal,
    wrong_type,
)

__all__ = ["chat_refusal", "json_refusal"]

_PARAMETERS = frozenset(
    {
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "metadata",
        "modalities",
        "model",
        "moderation",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    }
)

_NUMBERS: dict[str, tuple[str, float | None, float | None]] = {
    "frequency_penalty": ("a decimal", -2, 2),
    "max_completion_tokens": ("an integer", 1, None),
    "max_tokens": ("an integer", 1, None),
    "n": ("an integer", 1, 128),
    "presence_penalty": ("a decimal", -2, 2),
    "seed": ("an integer", None, None),
    "temperature": ("a decimal", 0, 2),
    "top_logprobs": ("an integer", 0, 20),
    "top_p": ("a decimal", 0, 1),
}
_BOOLEANS = ("logprobs", "parallel_tool_calls", "store", "stream")
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_MOST_STOPS = 4


def json_refusal(request: RecordedRequest) -> Failure | None:
    """Refuse a request whose body is not JSON."""
    if request.problem is None:
        return None
    return refusal(
        "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your "
        "HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid "
        f"JSON.) The problem: {request.problem}."
    )


def chat_refusal(body: Mapping[str, Any]) -> Failure | None:
    """Refuse a chat completion that OpenAI would refuse.

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
        yield refusal("you must provide a model parameter")
    if not isinstance(body["model"], str):
        yield wrong_type("model", "a string", body["model"])
    yield from key_problems("", body, _PARAMETERS)
    if "messages" not in body:
        yield missing("messages")
    messages = body["messages"]
    yield from list_problems("messages", messages)
    yield from _setting_problems(body)
    yield from message_problems(messages)
    yield from turn_problems(messages)
    yield from tool_problems(body)
    yield from format_problems(body)


def _setting_problems(body: Mapping[str, Any]) -> Iterator[Failure]:
    given = {name: value for name, value in body.items() if value is not None}
    for name, (expected, low, high) in _NUMBERS.items():
        if name in given:
            yield from number_problems(name, given[name], expected, low, high)
    for name in _BOOLEANS:
        if not isinstance(given.get(name, False), bool):
            yield wrong_type(name, "a boolean", given[name])
    yield from choice_problems("reasoning_effort", given.get("reasoning_effort", "none"), _EFFORTS)
    if "max_tokens" in given and "max_completion_tokens" in given:
        yield refusal("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
    yield from _stop_problems(given.get("stop"))
    yield from _stream_problems(given)


def _stop_problems(stop: Any) -> Iterator[Failure]:
    if stop is None or isinstance(stop, str):
        return
    if not isinstance(stop, list) or not all(isinstance(item, str) for item in stop):
        yield wrong_type("stop", "one of a string or array of strings", stop)
    if len(stop) > _MOST_STOPS:
        message = (
            f"Invalid 'stop': array too long. Expected an array with maximum length {_MOST_STOPS}, "
            f"but got an array with length {len(stop)} instead."
        )
        yield refusal(message, "stop", "array_above_max_length")


def _stream_problems(given: Mapping[str, Any]) -> Iterator[Failure]:
    if "stream_options" not in given:
        return
    if given.get("stream") is not True:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield refusal(message, "stream_options")
    options = given["stream_options"]
    if not isinstance(options, dict):
        yield wrong_type("stream_options", "an object", options)
    for name in options:
        if name not in {"include_usage", "include_obfuscation"}:
            param = f"stream_options.{name}"
            yield refusal(f"Unknown parameter: '{param}'.", param, "unknown_parameter")
