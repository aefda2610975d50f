"""Whether the content of a message is one that OpenAI takes: a text, or a list of parts."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

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

__all__ = ["IMAGE_TYPES", "content_problems", "data_url_problems"]

_PARTS = ("text", "image_url", "input_audio", "refusal", "file")
_PARTS_OF_ROLE = {"user": ("text", "image_url", "input_audio", "file"), "assistant": ("text", "refusal")}
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def content_problems(index: int, message: dict[str, Any]) -> Iterator[Failure]:
    """Look at the content of a message that stands at an index."""
    where, role, content = f"messages[{index}].content", message["role"], message.get("content")
    if role == "assistant":
        speaks = any(message.get(key) for key in ("tool_calls", "function_call", "refusal", "audio"))
        if speaks and content is None:
            return
        if not speaks and not _says_something(content):
            content = None
    elif "content" not in message:
        yield missing(where)
    if content is None:
        message_text = "Invalid value for 'content': expected a string, got null."
        yield refusal(message_text, f"messages.[{index}].content")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        yield wrong_type(where, "one of a string or array of objects", content)
    yield from list_problems(where, content)
    for number, part in enumerate(content or ()):
        yield from _part_problems(index, f"{where}[{number}]", role, part)


def _says_something(content: Any) -> bool:
    if isinstance(content, list):
        return any(not isinstance(part, dict) or part.get("text") != "" for part in content) or not content
    return content not in ("", None)


def _part_problems(index: int, where: str, role: str, part: Any) -> Iterator[Failure]:
    yield from object_problems(where, part, ("type",))
    name = part["type"]
    yield from choice_problems(f"{where}.type", name, _PARTS)
    if name == "image_url" and role != "user":
        yield refusal(
            f"Invalid 'messages[{index}]'. Image URLs are only allowed for messages with role 'user', but "
            f"this message with role '{role}' contains an image URL.",
            f"messages[{index}]",
            "invalid_value",
        )
    yield from choice_problems(f"{where}.type", name, _PARTS_OF_ROLE.get(role, ("text",)))
    yield from object_problems(where, part, (name,))
    value, at = part[name], f"{where}.{name}"
    match name:
        case "image_url":
            yield from _image_problems(at, value)
        case "file":
            yield from _file_problems(at, value)
        case "input_audio":
            yield from object_problems(at, value, ("data", "format"))
        case _ if not isinstance(value, str):
            yield wrong_type(at, "a string", value)


def _image_problems(where: str, image: Any) -> Iterator[Failure]:
    yield from object_problems(where, image, ("url",))
    yield from text_problems(f"{where}.url", image["url"])
    yield from choice_problems(f"{where}.detail", image.get("detail", "auto"), ("low", "high", "auto"))
    if not re.match(r"https?://.", image["url"]):
        yield from data_url_problems(f"{where}.url", image["url"], IMAGE_TYPES)


def _file_problems(where: str, file: Any) -> Iterator[Failure]:
    yield from object_problems(where, file)
    if "file_data" in file:
        yield from object_problems(where, file, ("filename",))
        yield from text_problems(f"{where}.filename", file["filename"])
        yield from text_problems(f"{where}.file_data", file["file_data"])
        yield from data_url_problems(f"{where}.file_data", file["file_data"], None)
    elif "file_id" not in file:
        yield missing(f"{where}.file_id")


def data_url_problems(where: str, url: str, types: tuple[str, ...] | None) -> Iterator[Failure]:
    """Refuse what is no base64 data URL, of one of the types if there are any."""
    head, _, data = url.partition(",")
    media_type, *parameters = head.removeprefix("data:").split(";")
    problem = None
    if not head.startswith("data:"):
        problem = "a value without the 'data:' prefix"
    elif not media_type or (types is not None and media_type not in types):
        problem = f"unsupported MIME type '{media_type}'"
    elif "base64" not in parameters or not _is_base64(data):
        problem = "a value that is not base64-encoded"
    if problem is not None:
        expected, example = ("an image", "image/png") if types else ("a", "application/pdf")
        message = (
            f"Invalid '{where}'. Expected a base64-encoded data URL with {expected} MIME type "
            f"(e.g. 'data:{example};base64,aW1nIGJ5dGVzIGhlcmU='), but got {problem}."
        )
        yield refusal(message, where, "invalid_value")


def _is_base64(data: str) -> bool:
    try:
        return bool(base64.b64decode(data, validate=True))
    except ValueError:
        return False
