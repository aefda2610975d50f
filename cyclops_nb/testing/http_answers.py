"""What goes over the wire as an answer, decided before the first byte is sent.

An answer is a list of actions: bytes to send, and points at which the server waits or stops. All bytes between two
such points are made in one go and sent in one write, so that what a benchmark measures is its client and not this
server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cyclops_nb.testing.gates import Gate
from cyclops_nb.testing.pieces import Call, Cut, Delay, Reply, StreamError, Text, dump

__all__ = ["CREATED", "Action", "Answer", "Collected", "document_answer", "json_answer", "stream_answer"]

Action = bytes | Delay | Gate | Cut

# no clock in the answers: what is built on them stays the same from run to run
CREATED = 1_760_000_000


@dataclass(frozen=True)
class Answer:
    """An HTTP answer: its head, and the actions that give its body."""

    status: int
    headers: tuple[tuple[str, str], ...]
    actions: tuple[Action, ...]
    chunked: bool = False
    """Whether each bytes object is an HTTP chunk of its own; otherwise they are one body of known length."""


class Collected:
    """Collects the frames of one stream, and the points where it waits."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._actions: list[Action] = []

    def send(self, frame: bytes) -> None:
        """Append bytes."""
        self._pending.append(frame)

    def stop(self, action: Delay | Gate | Cut) -> None:
        """Append a point where the server waits or stops; what stands before it is sent first."""
        self._flush()
        self._actions.append(action)

    def actions(self) -> tuple[Action, ...]:
        """Return all of it."""
        self._flush()
        return tuple(self._actions)

    def _flush(self) -> None:
        if self._pending:
            self._actions.append(b"".join(self._pending))
            self._pending = []


def json_answer(status: int, body: Any, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    """Give an answer that is a JSON document."""
    return Answer(status, (("content-type", "application/json"), *headers), (dump(body),))


def stream_answer(actions: tuple[Action, ...]) -> Answer:
    """Give an answer that is a stream of events."""
    headers = (("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"))
    return Answer(200, headers, actions, chunked=True)


def document_answer(reply: Reply, document: Mapping[str, Any]) -> Answer:
    """Answer with one JSON document, after all that the reply waits for."""
    waits: list[Action] = []
    for piece in reply.pieces:
        match piece:
            case Delay() | Gate():
                waits.append(piece)
            case Text() | Call() if piece.delay:
                waits.append(Delay(piece.delay * max(len(piece.chunks) - 1, 0)))
            case Cut():
                return Answer(200, (), (*waits, piece))
            case StreamError():
                failed = json_answer(500, {"error": piece.error})
                return Answer(500, failed.headers, (*waits, *failed.actions))
    whole = json_answer(200, document)
    return Answer(200, whole.headers, (*waits, *whole.actions))
