"""When two messages say the same.

Branches share messages that were made at other times, in other runs and under other ids, so sameness is what was said:
the role, the parts, and which call a result answers, by its place and not by its id. A message that somebody has edited
is never the same as one that was said, whatever its words.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence

from cyclops_nb.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    SummaryMessage,
    TextPart,
    ToolCall,
    ToolMessage,
)

__all__ = ["common_prefix", "content_keys"]


def content_keys(messages: Sequence[Message]) -> list[Hashable]:
    """Return a key for each message that is equal for messages with the same content.

    Parameters
    ----------
    messages : sequence of messages
        A transcript from its beginning; it may be invalid.

    Returns
    -------
    list of hashable
        Free of ids, times, runs, models and what was measured.

    Examples
    --------
    >>> from cyclops_nb.messages import UserMessage
    >>> content_keys([UserMessage("Hi")]) == content_keys([UserMessage("Hi")])
    True
    """
    keys: list[Hashable] = []
    places: dict[str, int] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            place = places.get(message.call_id, -1)
            keys.append((message.role, message.name, message.status, place, _parts(message.content)))
            continue
        calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
        places = {call.id: place for place, call in enumerate(calls)}
        replaced = message.replaced if isinstance(message, SummaryMessage) else None
        keys.append((message.role, replaced, "edited_from" in message.metadata, _parts(message.content)))
    return keys


def _parts(parts: Sequence[Part]) -> tuple[Hashable, ...]:
    """Return the keys of the parts, with neighbouring texts as one: how a stream was cut is no content."""
    keys: list[tuple[str, ...]] = []
    for part in parts:
        key = _key(part)
        if keys and part.type in ("text", "reasoning") and keys[-1][0] == part.type:
            keys[-1] = (part.type, keys[-1][1] + key[1])
        elif key != ("text", ""):
            keys.append(key)
    return tuple(keys)


def _key(part: Part) -> tuple[str, ...]:
    match part:
        case TextPart() | ReasoningPart():
            return (part.type, part.text)
        case ToolCall():
            return (part.type, part.name, _arguments(part.arguments))
        case ImagePart():
            return (part.type, part.data or "", part.url or "")
        case FilePart():
            return (part.type, part.name, part.data)


def _arguments(text: str) -> str:
    """Return arguments in one way of writing: blanks and the order of keys are no content."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def common_prefix(branches: Sequence[Sequence[Hashable]]) -> int:
    """Return how many elements all sequences have in common from their beginning.

    Examples
    --------
    >>> common_prefix(["abc", "abd", "ab"])
    2
    """
    for index, column in enumerate(zip(*branches, strict=False)):
        if any(key != column[0] for key in column):
            return index
    return min(map(len, branches), default=0)
