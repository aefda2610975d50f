"""The values that a script is made of: what the server is to send, in pieces.

They are frozen and checked when they are made, so that a mistake in a script shows at the line that holds it
and not as an odd answer to some later request. A `Reply` is one assistant message: the order of its pieces is
the order on the wire, and what is no text (a pause, a gate, a cut) is a piece as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypedDict

from cyclops_nb.errors import ConfigError
from cyclops_nb.testing.gates import Gate

__all__ = [
    "Call",
    "Cut",
    "Delay",
    "End",
    "Failure",
    "Piece",
    "Raw",
    "Reply",
    "Settings",
    "StreamError",
    "Text",
    "Usage",
    "dump",
    "joined",
]

Usage = tuple[int, int] | Mapping[str, Any] | Literal["counted"] | None
"""Prompt and completion tokens, or a usage object to send as it is, or words counted, or no report at all."""


def dump(value: object) -> bytes:
    """Give compact JSON in UTF-8, as servers send it; half of a surrogate pair is left an escape."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def joined(chunks: Iterable[str]) -> str:
    """Put chunks together, and the halves of a surrogate pair that lies in two of them."""
    return "".join(chunks).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


@dataclass(frozen=True)
class Text:
    """Text or reasoning, in the chunks in which it is streamed; ``field`` names the key that carries it."""

    chunks: tuple[str, ...]
    field: str = "content"
    delay: float = 0.0

    @cached_property
    def text(self) -> str:
        """The whole text, put together from the chunks."""
        return joined(self.chunks)

    @cached_property
    def words(self) -> int:
        """How many words it has."""
        return len(self.text.split())

    @cached_property
    def deltas(self) -> tuple[bytes, ...]:
        """The JSON delta of each chunk, encoded once for all requests that get this reply."""
        return tuple(dump({self.field: chunk}) for chunk in self.chunks)


@dataclass(frozen=True)
class Call:
    """A tool call; an ``id`` of None is numbered by its place in the reply."""

    id: str | None
    name: str
    arguments: str
    chunks: tuple[str, ...]
    delay: float = 0.0


@dataclass(frozen=True)
class Delay:
    """A pause of some seconds."""

    seconds: float


@dataclass(frozen=True)
class StreamError:
    """An error frame within the stream, which ends there."""

    error: Mapping[str, Any]


@dataclass(frozen=True)
class Cut:
    """The connection is closed at that point."""


@dataclass(frozen=True)
class End:
    """The body ends in good order, but without finish_reason and ``[DONE]``."""


Piece = Text | Call | Delay | Gate | StreamError | Cut | End


class Settings(TypedDict, total=False):
    """What can be said of a whole message; all of it is optional and explained at `text`."""

    usage: Usage
    model: str | None
    finish_reason: str | None
    cached: int | None
    reasoning_tokens: int | None
    cost: float | None


@dataclass(frozen=True)
class Reply:
    """One assistant message in pieces, with what is reported about it; made by `text`, `reply` and so on."""

    pieces: tuple[Piece, ...]
    usage: Usage = "counted"
    model: str | None = None
    finish_reason: str | None = None
    cached: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None

    def __post_init__(self) -> None:
        for piece in self.pieces[:-1]:
            if isinstance(piece, StreamError | Cut | End):
                name = {StreamError: "error_in_stream", Cut: "cut", End: "end"}[type(piece)]
                raise ConfigError(f"a reply ends with {name}(): nothing can follow it, so put it last")
        if self.usage is None and (self.cached, self.reasoning_tokens, self.cost) != (None, None, None):
            raise ConfigError(
                "cached, reasoning_tokens and cost are parts of the usage report, but usage=None says that "
                "the server sends none: leave out one or the other"
            )


@dataclass(frozen=True)
class Failure:
    """An HTTP error with OpenAI's error JSON; made by `error`."""

    status: int
    message: str
    type: str
    code: str | None = None
    param: str | None = None
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def body(self) -> dict[str, Any]:
        """The JSON that OpenAI sends with an error."""
        facts = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return {"error": facts}


@dataclass(frozen=True)
class Raw:
    """An HTTP answer in bytes, as they stand; made by `raw` and `replay`."""

    body: bytes
    content_type: str = "text/event-stream"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    split: int | None = None
