"""A transcript as one text, for the model that is to summarise it. Pure.

A text and not the messages themselves: it is a valid request for every server whatever calls, pictures and ids stand in
the messages, it can be made as short as it must be, and no model takes it for a conversation that it is to go on with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from cyclops_nb.engine.window import estimated_tokens
from cyclops_nb.messages import (
    FilePart,
    InputPart,
    Message,
    SummaryMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from cyclops_nb.models.sendable import sent_parts

__all__ = ["digest"]

_Piece: TypeAlias = tuple[str, str]
"""Who, and what."""
_SHORTEST = 40
"""Characters of a text that is cut, at least."""


def digest(messages: Sequence[Message], *, tokens: int | None = None) -> str:
    """Return what was said, called and found, each part under the name of who said it.

    Parameters
    ----------
    messages : sequence of messages
        What is to be summarised.
    tokens : int, optional
        Estimated tokens that it may have; for it the longest texts are cut in the middle.

    Examples
    --------
    >>> print(digest([UserMessage("Hello"), SummaryMessage("They met.", 2)]))
    [User]
    Hello
    <BLANKLINE>
    [Summary of what came before]
    They met.
    """
    pieces = [piece for message in messages for piece in _pieces(message)]

    def fits(text: str) -> bool:
        return tokens is None or estimated_tokens([UserMessage(text)]) <= tokens

    whole = _joined(pieces)
    if fits(whole):
        return whole
    longest = _greatest(_SHORTEST, max(len(said) for _, said in pieces), lambda size: fits(_joined(_cut(pieces, size))))
    cut = _cut(pieces, longest)
    if fits(_joined(cut)):
        return _joined(cut)
    count = _greatest(0, len(cut) // 2, lambda kept: fits(_joined(_without_middle(cut, kept))))
    return _joined(_without_middle(cut, count))


def _greatest(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Return the greatest number that fits, or `low`."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _joined(pieces: Sequence[_Piece]) -> str:
    return "\n\n".join(f"[{head}]\n{said}" for head, said in pieces)


def _cut(pieces: Sequence[_Piece], longest: int) -> list[_Piece]:
    """Return pieces without the middle of those whose text is too long."""
    half = longest // 2
    return [
        (head, said if len(said) <= longest else f"{said[:half]} […] {said[len(said) - half :]}")
        for head, said in pieces
    ]


def _without_middle(pieces: Sequence[_Piece], kept: int) -> list[_Piece]:
    left_out = len(pieces) - 2 * kept
    return [*pieces[:kept], ("Left out", f"{left_out} parts"), *pieces[len(pieces) - kept :]]


def _pieces(message: Message) -> list[_Piece]:
    if isinstance(message, ToolMessage):
        status = "" if message.status == "ok" else f", {message.status}"
        return [(f"Result of {message.name}{status}", _told(message.content))]
    if isinstance(message, SummaryMessage):
        return [("Summary of what came before", message.text)]
    if isinstance(message, UserMessage):
        return [("User", _told(message.content))]
    pieces = []
    for part in message.content:
        if isinstance(part, ToolCall):
            pieces.append((f"Assistant calls {part.name}", part.arguments))
        elif isinstance(part, TextPart):
            pieces.append(("Assistant", part.text))
    return pieces


def _told(content: Sequence[InputPart]) -> str:
    """Return what a model gets to read of parts: text files as their text."""
    return " ".join(_told_of(part) for part in sent_parts(content))


def _told_of(part: InputPart) -> str:
    if isinstance(part, TextPart):
        return part.text
    return f"(a file, {part.name})" if isinstance(part, FilePart) else "(an image)"
