"""Whether OpenAI would take the messages of a request: their shape, and the order of calls and results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cyclops_nb.testing.pieces import Failure
from cyclops_nb.testing.strict_parts import content_problems
from cyclops_nb.testing.wording import (
    choice_problems,
    list_problems,
    missing,
    object_problems,
    refusal,
    text_problems,
    wrong_type,
)

__all__ = ["argument_problems", "message_problems", "turn_problems"]

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_PLAIN_ROLES = ("user", "assistant")
_NAME = r"[^\s<|\\/>]+"


def message_problems(messages: list[Any]) -> Iterator[Failure]:
    """Look at each message by itself."""
    for index, message in enumerate(messages):
        if _is_plain(message):
            continue
        where = f"messages[{index}]"
        yield from object_problems(where, message, ("role",))
        role = message["role"]
        yield from choice_problems(f"{where}.role", role, _ROLES)
        if role in {"system", "developer"} and index:
            yield refusal(
                f"Invalid '{where}.role': a system message is taken once at most, at the beginning.",
                f"{where}.role",
                "invalid_value",
            )
        if message.get("name") is not None:
            yield from text_problems(f"{where}.name", message["name"], _NAME)
        if role == "tool":
            yield from _result_id_problems(f"{where}.tool_call_id", message)
        if role == "assistant" and "tool_calls" in message:
            yield from _call_problems(f"{where}.tool_calls", message["tool_calls"])
        yield from content_problems(index, message)


def _is_plain(message: Any) -> bool:
    """Whether it is what most messages of a long transcript are, which must not cost a benchmark much."""
    if not isinstance(message, dict) or message.keys() != {"role", "content"}:
        return False
    return message["role"] in _PLAIN_ROLES and type(message["content"]) is str and message["content"] != ""


def turn_problems(messages: list[dict[str, Any]]) -> Iterator[Failure]:
    """Look at whether every tool call is answered once, before anyone else speaks."""
    called: dict[str, int | None] = {}
    """The ids of the calls that may be answered now, with the index of the message that answered."""
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            yield from _result_problems(index, message["tool_call_id"], called)
            called[message["tool_call_id"]] = index
            continue
        if called:
            yield from _unanswered(called, f"messages.[{index}].role")
            called = {}
        for call in message.get("tool_calls") or []:
            if call["id"] in called:
                message_text = f"Invalid parameter: Duplicate value for 'id' of '{call['id']}' in 'tool_calls'."
                yield refusal(message_text, f"messages.[{index}].tool_calls")
            called[call["id"]] = None
    yield from _unanswered(called, f"messages.[{len(messages) - 1}].role")


def _result_problems(index: int, call_id: str, called: dict[str, int | None]) -> Iterator[Failure]:
    param = f"messages.[{index}].tool_call_id"
    if not called:
        yield refusal(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
            "'tool_calls'.",
            f"messages.[{index}].role",
        )
    of = f"'tool_call_id' of '{call_id}'"
    if call_id not in called:
        yield refusal(f"Invalid parameter: {of} not found in 'tool_calls' of previous message.", param)
    if (earlier := called[call_id]) is not None:
        yield refusal(
            f"Invalid parameter: Duplicate value for {of}, in messages[{earlier}] and messages[{index}].",
            param,
        )


def _unanswered(called: dict[str, int | None], param: str) -> Iterator[Failure]:
    if unanswered := [call_id for call_id, answered in called.items() if answered is None]:
        yield refusal(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: " + ", ".join(unanswered),
            param,
        )


def _result_id_problems(where: str, message: dict[str, Any]) -> Iterator[Failure]:
    if "tool_call_id" not in message:
        yield missing(where)
    if not isinstance(message["tool_call_id"], str):
        yield wrong_type(where, "a string", message["tool_call_id"])


def _call_problems(where: str, calls: Any) -> Iterator[Failure]:
    yield from list_problems(where, calls)
    for index, call in enumerate(calls):
        at = f"{where}[{index}]"
        yield from object_problems(at, call, ("id", "type", "function"))
        yield from text_problems(f"{at}.id", call["id"])
        yield from choice_problems(f"{at}.type", call["type"], ("function",))
        function = call["function"]
        yield from object_problems(f"{at}.function", function, ("name", "arguments"))
        yield from text_problems(f"{at}.function.name", function["name"], "[a-zA-Z0-9_-]+", 64)
        yield from argument_problems(f"{at}.function.arguments", function["arguments"])


def argument_problems(where: str, arguments: Any) -> Iterator[Failure]:
    """Refuse arguments of a call that are no string with a JSON object in it."""
    if not isinstance(arguments, str):
        yield wrong_type(where, "a string", arguments)
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        message = f"Invalid '{where}': expected a string that holds a JSON object, but got {arguments!r}."
        yield refusal(message, where, "invalid_value")
