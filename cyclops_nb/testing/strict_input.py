"""Whether OpenAI would take the input items of a request of the Responses API: each by itself, and their order.

In three points this goes beyond what OpenAI refuses itself, because other servers pair calls and results by their
place or by one table of ids: a call is answered before the user speaks again, its id stands for it alone, and its
arguments hold a JSON object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cyclops_nb.testing.pieces import Failure
from cyclops_nb.testing.strict_messages import argument_problems
from cyclops_nb.testing.strict_parts import IMAGE_TYPES, data_url_problems
from cyclops_nb.testing.wording import (
    choice_problems,
    empty,
    key_problems,
    list_problems,
    object_problems,
    refusal,
    text_problems,
    wrong_type,
)

__all__ = ["input_problems"]

_TYPES = ("message", "function_call", "function_call_output", "reasoning")
_ROLES = ("assistant", "system", "developer", "user")
_STATUSES = ("in_progress", "completed", "incomplete")
_KEYS = {
    "message": ("type", "role", "content", "id", "status", "phase"),
    "function_call": ("type", "call_id", "name", "arguments", "id", "status"),
    "function_call_output": ("type", "call_id", "output", "id", "status"),
    "reasoning": ("type", "id", "summary", "content", "encrypted_content"),
}
_PART_KEYS = {
    "input_text": ("type", "text"),
    "input_image": ("type", "image_url", "file_id", "detail"),
    "input_file": ("type", "filename", "file_data", "file_id", "file_url"),
    "output_text": ("type", "text", "annotations", "logprobs"),
    "refusal": ("type", "refusal"),
}
_SAID = ("output_text", "refusal")
_SHOWN = ("input_text", "input_image", "input_file")
_NAME = "[a-zA-Z0-9_-]+"
_LONGEST = 64


def input_problems(items: Any) -> Iterator[Failure]:
    """Look at the input of a request."""
    if isinstance(items, str):
        if not items:
            yield empty("input", "string")
        return
    if not isinstance(items, list):
        yield wrong_type("input", "one of a string or array of objects", items)
    yield from list_problems("input", items)
    for index, item in enumerate(items):
        yield from _item_problems(f"input[{index}]", item)
    yield from _order_problems(items)


def _type_of(item: dict[str, Any]) -> Any:
    return item.get("type", "message")


def _item_problems(where: str, item: Any) -> Iterator[Failure]:
    yield from object_problems(where, item)
    kind = _type_of(item)
    yield from choice_problems(f"{where}.type" if "type" in item else where, kind, _TYPES)
    yield from key_problems(where, item, _KEYS[kind])
    match kind:
        case "message":
            yield from _message_problems(where, item)
        case "function_call":
            yield from object_problems(where, item, ("call_id", "name", "arguments"))
            yield from text_problems(f"{where}.call_id", item["call_id"], longest=_LONGEST)
            yield from text_problems(f"{where}.name", item["name"], _NAME, _LONGEST)
            yield from argument_problems(f"{where}.arguments", item["arguments"])
        case "function_call_output":
            yield from object_problems(where, item, ("call_id", "output"))
            yield from text_problems(f"{where}.call_id", item["call_id"], longest=_LONGEST)
            if not isinstance(item["output"], str):
                yield from _part_list_problems(f"{where}.output", item["output"], _SHOWN)
        case "reasoning":
            yield from _reasoning_problems(where, item)
    if item.get("status") is not None:
        yield from choice_problems(f"{where}.status", item["status"], _STATUSES)


def _message_problems(where: str, item: dict[str, Any]) -> Iterator[Failure]:
    yield from object_problems(where, item, ("role", "content"))
    yield from choice_problems(f"{where}.role", item["role"], _ROLES)
    if isinstance(item["content"], str):
        return
    yield from _part_list_problems(
        f"{where}.content", item["content"], _SAID if item["role"] == "assistant" else _SHOWN
    )


def _part_list_problems(where: str, parts: Any, kinds: tuple[str, ...]) -> Iterator[Failure]:
    if not isinstance(parts, list):
        yield wrong_type(where, "one of an array of objects or string", parts)
    yield from list_problems(where, parts)
    for index, part in enumerate(parts):
        yield from _part_problems(f"{where}[{index}]", part, kinds)


def _part_problems(where: str, part: Any, kinds: tuple[str, ...]) -> Iterator[Failure]:
    yield from object_problems(where, part, ("type",))
    yield from choice_problems(f"{where}.type", part["type"], kinds)
    yield from key_problems(where, part, _PART_KEYS[part["type"]])
    match part["type"]:
        case "input_image":
            yield from _image_problems(where, part)
        case "input_file":
            yield from _file_problems(where, part)
        case kind:
            key = "refusal" if kind == "refusal" else "text"
            yield from object_problems(where, part, (key,))
            if not isinstance(part[key], str):
                yield wrong_type(f"{where}.{key}", "a string", part[key])


def _image_problems(where: str, part: dict[str, Any]) -> Iterator[Failure]:
    yield from choice_problems(f"{where}.detail", part.get("detail") or "auto", ("low", "high", "auto", "original"))
    if part.get("file_id") is None:
        yield from object_problems(where, part, ("image_url",))
        yield from text_problems(f"{where}.image_url", part["image_url"])
        if not re.match(r"https?://.", part["image_url"]):
            yield from data_url_problems(f"{where}.image_url", part["image_url"], IMAGE_TYPES)


def _file_problems(where: str, part: dict[str, Any]) -> Iterator[Failure]:
    if part.get("file_id") is not None or part.get("file_url") is not None:
        return
    yield from object_problems(where, part, ("file_data", "filename"))
    yield from text_problems(f"{where}.filename", part["filename"])
    yield from text_problems(f"{where}.file_data", part["file_data"])
    yield from data_url_problems(f"{where}.file_data", part["file_data"], None)


def _reasoning_problems(where: str, item: dict[str, Any]) -> Iterator[Failure]:
    yield from object_problems(where, item, ("summary",))
    if not isinstance(item["summary"], list):
        yield wrong_type(f"{where}.summary", "an array of objects", item["summary"])
    for index, part in enumerate(item["summary"]):
        at = f"{where}.summary[{index}]"
        yield from object_problems(at, part, ("type", "text"))
        yield from choice_problems(f"{at}.type", part["type"], ("summary_text",))
    if "id" in item:
        yield from text_problems(f"{where}.id", item["id"])
    encrypted = item.get("encrypted_content")
    if not encrypted and not item.get("content"):
        yield refusal(
            f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false. Try "
            "again with `store` set to true, or remove this item from your input.",
            "input",
        )
    if encrypted is not None and not isinstance(encrypted, str):
        yield wrong_type(f"{where}.encrypted_content", "a string", encrypted)


def _order_problems(items: list[dict[str, Any]]) -> Iterator[Failure]:
    """Look at whether each call has its one result, and each reasoning item what it has led to."""
    called: dict[str, bool] = {}
    """Whether the calls so far have been answered, by their ids."""
    for index, item in enumerate(items):
        match _type_of(item):
            case "function_call":
                if item["call_id"] in called:
                    yield refusal(f"Duplicate function call with call_id {item['call_id']}.", f"input[{index}].call_id")
                called[item["call_id"]] = False
            case "function_call_output":
                yield from _output_problems(index, item["call_id"], called)
                called[item["call_id"]] = True
            case "reasoning":
                yield from _follower_problems(item, items[index + 1 : index + 2])
            case _ if item["role"] != "assistant":
                yield from _open_problems(called)
    yield from _open_problems(called)


def _output_problems(index: int, call_id: str, called: dict[str, bool]) -> Iterator[Failure]:
    if call_id not in called:
        yield refusal(f"No tool call found for function call output with call_id {call_id}.", "input")
    if called[call_id]:
        yield refusal(f"Duplicate function call output with call_id {call_id}.", f"input[{index}].call_id")


def _open_problems(called: dict[str, bool]) -> Iterator[Failure]:
    for call_id, is_answered in called.items():
        if not is_answered:
            yield refusal(f"No tool output found for function call {call_id}.", "input")


def _follower_problems(item: dict[str, Any], following: list[dict[str, Any]]) -> Iterator[Failure]:
    belongs = [
        other
        for other in following
        if _type_of(other) in {"reasoning", "function_call"} or other.get("role") == "assistant"
    ]
    if not belongs:
        yield refusal(
            f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item.", "input"
        )
