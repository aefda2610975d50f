"""Whether the messages of a request are ones that OpenAI takes.

Each check is a generator that yields what is wrong, in the order in which it looks; whoever calls takes the first and
stops there, so code after a ``yield`` may rely on what was checked before it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import Any

from cyclops_nb.testing.pieces import Failure
from cyclops_nb.testing.wording import below_minimum, missing, refusal, text_problem, unsupported, wrong_type

__all__ = ["message_problems", "turn_problems"]

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_SYSTEM_ROLES = ("system", "developer")
_PARTS = ("text", "image_url", "input_audio", "refusal", "file")
_PARTS_OF_ROLE = {"user": ("text", "image_url", "input_audio", "file"), "assistant": ("text", "refusal")}
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_NAME = r"[^\s<|\\/>]+"


def message_problems(messages: list[Any]) -> Iterator[Failure]:
    """Look at each message by itself."""
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, dict):
            yield wrong_type(where, "an object", message)
        if "role" not in message:
            yield missing(f"{where}.role")
        role = message["role"]
        if role not in _ROLES:
            yield unsupported(f"{where}.role", role, _ROLES)
        if role in _SYSTEM_ROLES and index:
            yield refusal(
                f"Invalid '{where}.role': a {role} message must stand alone at the beginning.",
                f"{where}.role",
                "invalid_value",
            )
        if message.get("name") is not None and (
            problem := text_problem(f"{where}.name", message["name"], _NAME)
        ):
            yield problem
        if role == "tool" and "tool_call_id" not in message:
            yield missing(f"{where}.tool_call_id")
        if role == "tool" and not isinstance(message["tool_call_id"], str):
            yield wrong_type(f"{where}.tool_call_id", "a string", message["tool_call_id"])
        if role == "assistant" and "tool_calls" in message:
            yield from _call_problems(f"{where}.tool_calls", message["tool_calls"])
        yield from _content_problems(index, message)


def turn_problems(messages: list[dict[str, Any]]) -> Iterator[Failure]:
    """Look at whether every tool call is answered once, before anyone else speaks."""
    called: dict[str, int | None] = {}
    """The ids of the calls that may be answered now, with the index of the message that answered."""
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            yield from _result_problems(index, message["tool_call_id"], called)
            called[message["tool_call_id"]] = index
            continue
        yield from _unanswered(called, f"messages.[{index}].role")
        called = {}
        for call in message.get("tool_calls") or []:
            if call["id"] in called:
                yield refusal(
                    f"Invalid parameter: Duplicate value for 'tool_calls' id '{call['id']}' in messages[{index}].",
                    f"messages.[{index}].tool_calls",
                )
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
    if call_id not in called:
        yield refusal(
            f"Invalid parameter: 'tool_call_id' of '{call_id}' not found in 'tool_calls' of previous message.",
            param,
        )
    if (earlier := called[call_id]) is not None:
        yield refusal(
            f"Invalid parameter: Duplicate value for 'tool_call_id' of '{call_id}', in messages[{earlier}] and "
            f"messages[{index}].",
            param,
        )


def _unanswered(called: dict[str, int | None], param: str) -> Iterator[Failure]:
    if unanswered := [call_id for call_id, answered in called.items() if answered is None]:
        yield refusal(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(unanswered),
            param,
        )


def _call_problems(where: str, calls: Any) -> Iterator[Failure]:
    if not isinstance(calls, list):
        yield wrong_type(where, "an array of objects", calls)
    if not calls:
        yield below_minimum(where, calls)
    for index, call in enumerate(calls):
        at = f"{where}[{index}]"
        if not isinstance(call, dict):
            yield wrong_type(at, "an object", call)
        for key in ("id", "type"):
            if key not in call:
                yield missing(f"{at}.{key}")
        if problem := text_problem(f"{at}.id", call["id"]):
            yield problem
        if call["type"] != "function":
            yield unsupported(f"{at}.type", call["type"], ("function",))
        function = call.get("function")
        if not isinstance(function, dict):
            yield missing(f"{at}.function")
        for key in ("name", "arguments"):
            if key not in function:
                yield missing(f"{at}.function.{key}")
        if problem := text_problem(f"{at}.function.name", function["name"], "[a-zA-Z0-9_-]+", 64):
            yield problem
        yield from _argument_problems(f"{at}.function.arguments", function["arguments"])


def _argument_problems(where: str, arguments: Any) -> Iterator[Failure]:
    if not isinstance(arguments, str):
        yield wrong_type(where, "a string", arguments)
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        yield refusal(
            f"Invalid '{where}': expected a string that holds a JSON object, but got {arguments!r}.",
            where,
            "invalid_value",
        )


def _content_problems(index: int, message: dict[str, Any]) -> Iterator[Failure]:
    where, role, content = f"messages[{index}].content", message["role"], message.get("content")
    says_otherwise = any(message.get(key) for key in ("tool_calls", "function_call", "refusal", "audio"))
    if role == "assistant" and says_otherwise and content is None:
        return
    if "content" not in message and role != "assistant":
        yield missing(where)
    empty = role == "assistant" and not says_otherwise and not _has_content(content)
    if content is None or (empty and content != []):
        yield refusal(
            "Invalid value for 'content': expected a string, got null.", f"messages.[{index}].content"
        )
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        yield wrong_type(where, "one of a string or array of objects", content)
    if not content:
        yield below_minimum(where, content)
    for number, part in enumerate(content):
        yield from _part_problems(index, f"{where}[{number}]", role, part)


def _has_content(content: Any) -> bool:
    if isinstance(content, list):
        return any(not isinstance(part, dict) or part.get("text") != "" for part in content)
    return content not in ("", None)


def _part_problems(index: int, where: str, role: str, part: Any) -> Iterator[Failure]:
    if not isinstance(part, dict):
        yield wrong_type(where, "an object", part)
    if "type" not in part:
        yield missing(f"{where}.type")
    name = part["type"]
    if name not in _PARTS:
        yield unsupported(f"{where}.type", name, _PARTS)
    if name == "image_url" and role != "user":
        yield refusal(
            f"Invalid 'messages[{index}]'. Image URLs are only allowed for messages with role 'user', but this message "
            f"with role '{role}' contains an image URL.",
            f"messages[{index}]",
            "invalid_value",
        )
    if name not in (supported := _PARTS_OF_ROLE.get(role, ("text",))):
        yield unsupported(f"{where}.type", name, supported)
    if name not in part:
        yield missing(f"{where}.{name}")
    value, at = part[name], f"{where}.{name}"
    if name in {"text", "refusal"}:
        if not isinstance(value, str):
            yield wrong_type(at, "a string", value)
        return
    if not isinstance(value, dict):
        yield wrong_type(at, "an object", value)
    checks = {"image_url": _image_problems, "file": _file_problems, "input_audio": _audio_problems}
    yield from checks[name](at, value)


def _image_problems(where: str, image: dict[str, Any]) -> Iterator[Failure]:
    if "url" not in image:
        yield missing(f"{where}.url")
    url, at = image["url"], f"{where}.url"
    if not isinstance(url, str):
        yield wrong_type(at, "a string", url)
    if image.get("detail", "auto") not in {"auto", "low", "high"}:
        yield unsupported(f"{where}.detail", image["detail"], ("low", "high", "auto"))
    if re.match(r"https?://.", url):
        return
    expected = "an image MIME type (e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU=')"
    media_type, problem = _read_data_url(url)
    if problem is None and media_type not in _IMAGE_TYPES:
        problem = f"unsupported MIME type '{media_type}'"
    if problem is not None:
        message = f"Invalid '{at}'. Expected a base64-encoded data URL with {expected}, but got {problem}."
        yield refusal(message, at, "invalid_value")


def _file_problems(where: str, file: dict[str, Any]) -> Iterator[Failure]:
    if "file_data" not in file:
        if "file_id" not in file:
            yield missing(f"{where}.file_id")
        return
    data, at = file["file_data"], f"{where}.file_data"
    if not isinstance(data, str):
        yield wrong_type(at, "a string", data)
    if problem := text_problem(f"{where}.filename", file.get("filename")):
        yield problem
    _, problem_of_url = _read_data_url(data)
    if problem_of_url is not None:
        message = (
            f"Invalid '{at}'. Expected a base64-encoded data URL with a MIME type "
            f"(e.g. 'data:application/pdf;base64,aW1nIGJ5dGVzIGhlcmU='), but got {problem_of_url}."
        )
        yield refusal(message, at, "invalid_value")


def _audio_problems(where: str, audio: dict[str, Any]) -> Iterator[Failure]:
    for key in ("data", "format"):
        if key not in audio:
            yield missing(f"{where}.{key}")


def _read_data_url(url: str) -> tuple[str, str | None]:
    """Give the media type of a data URL, and what is wrong with it or None."""
    if not url.startswith("data:"):
        return "", "a value without the 'data:' prefix"
    head, _, data = url.partition(",")
    media_type, *parameters = head.removeprefix("data:").split(";")
    if "base64" not in parameters:
        return media_type, "a value without the 'base64' marker"
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return media_type, "a value that is not valid base64"
    return media_type, None if decoded else "a value without data"
