"""From a reply to what goes over the wire, decided before the first byte is sent.

An answer is a list of actions: bytes to send, and points at which the server waits or stops. All bytes
between two such points are made in one go and sent in one write, so that what a benchmark measures is its
client and not this server. The frames of a stream differ in their delta alone, and the deltas of a text are
encoded once for all requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cyclops_nb.testing.gates import Gate
from cyclops_nb.testing.pieces import (
    Call,
    Cut,
    Delay,
    End,
    Failure,
    Raw,
    Reply,
    StreamError,
    Text,
    dump,
)

__all__ = ["Action", "Answer", "answer_to", "json_answer"]

Action = bytes | Delay | Gate | Cut

# no clock in the answers: what is built on them stays the same from run to run
_CREATED = 1_760_000_000


@dataclass(frozen=True)
class Answer:
    """An HTTP answer: its head, and the actions that give its body."""

    status: int
    headers: tuple[tuple[str, str], ...]
    actions: tuple[Action, ...]
    chunked: bool = False
    """Whether each bytes object is an HTTP chunk of its own; otherwise they are one body of known length."""


@dataclass(frozen=True)
class _Message:
    """What is said about one assistant message, in the stream and in the JSON form alike."""

    reply: Reply
    id: str
    model: str
    finish_reason: str
    usage: dict[str, Any] | None

    def calls(self) -> list[tuple[str, Call]]:
        calls = [piece for piece in self.reply.pieces if isinstance(piece, Call)]
        return [(f"call_{n}" if call.id is None else call.id, call) for n, call in enumerate(calls, 1)]


def json_answer(status: int, body: Any, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    """Give an answer that is a JSON document."""
    return Answer(status, (("content-type", "application/json"), *headers), (dump(body),))


def answer_to(reply: Reply | Failure | Raw, body: Mapping[str, Any], number: int) -> Answer:
    """Give the answer that a reply makes to a request.

    Parameters
    ----------
    reply
        What the script says.
    body : mapping
        The request's JSON.
    number : int
        The number of the reply, from 1; it makes the completion's id.

    Returns
    -------
    Answer
        For the connection to send.
    """
    if isinstance(reply, Failure):
        return json_answer(reply.status, reply.body, reply.headers)
    if isinstance(reply, Raw):
        size = reply.split or max(len(reply.body), 1)
        pieces = tuple(reply.body[start : start + size] for start in range(0, len(reply.body), size))
        headers = (("content-type", reply.content_type), *reply.headers)
        return Answer(reply.status, headers, pieces, chunked=reply.split is not None)
    calls = any(isinstance(piece, Call) for piece in reply.pieces)
    message = _Message(
        reply,
        id=f"chatcmpl-{number}",
        model=reply.model or str(body.get("model") or "scripted"),
        finish_reason=reply.finish_reason or ("tool_calls" if calls else "stop"),
        usage=_usage(reply, body),
    )
    if body.get("stream") is True:
        options = body.get("stream_options")
        return _stream(message, include_usage=isinstance(options, dict) and bool(options.get("include_usage")))
    return _completion(message)


def _usage(reply: Reply, body: Mapping[str, Any]) -> dict[str, Any] | None:
    match reply.usage:
        case None:
            return None
        case Mapping() as given:
            usage = dict(given)
        case "counted":
            usage = _tokens(_words(body.get("messages")), _answer_words(reply))
        case (prompt, completion):
            usage = _tokens(prompt, completion)
    if reply.cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": reply.cached}
    if reply.reasoning_tokens is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": reply.reasoning_tokens}
    if reply.cost is not None:
        usage["cost"] = reply.cost
    return usage


def _tokens(prompt: int, completion: int) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _answer_words(reply: Reply) -> int:
    words = [piece.words for piece in reply.pieces if isinstance(piece, Text)]
    words += [len(piece.arguments.split()) for piece in reply.pieces if isinstance(piece, Call)]
    return sum(words)


def _words(value: object) -> int:
    """Count the words of all texts in a request's messages; pictures and files have none."""
    if isinstance(value, str):
        return len(value.split())
    if isinstance(value, list):
        return sum(map(_words, value))
    if not isinstance(value, dict):
        return 0
    keys = ("content", "tool_calls", "function", "text", "arguments")
    return sum(_words(value[key]) for key in keys if key in value)


def _completion(message: _Message) -> Answer:
    """Answer with one JSON document, after all that the reply waits for."""
    waits: list[Action] = []
    for piece in message.reply.pieces:
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
    document = json_answer(200, _document(message))
    return Answer(200, document.headers, (*waits, *document.actions))


def _document(message: _Message) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    for piece in message.reply.pieces:
        if isinstance(piece, Text):
            said[piece.field] = (said.get(piece.field) or "") + piece.text
    if calls := message.calls():
        said["tool_calls"] = [
            {"id": id_, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for id_, call in calls
        ]
    ended = bool(message.reply.pieces) and isinstance(message.reply.pieces[-1], End)
    reason = None if ended else message.finish_reason
    document = {
        "id": message.id,
        "object": "chat.completion",
        "created": _CREATED,
        "model": message.model,
        "choices": [{"index": 0, "message": said, "logprobs": None, "finish_reason": reason}],
    }
    if message.usage is not None and not ended:
        document["usage"] = message.usage
    return document


class _Frames:
    """Collects the frames of one stream, and the points where it waits."""

    def __init__(self, message: _Message, *, include_usage: bool) -> None:
        head = {
            "id": message.id,
            "object": "chat.completion.chunk",
            "created": _CREATED,
            "model": message.model,
        }
        self._head = b"data: " + dump(head)[:-1]
        self._before = self._head + b',"choices":[{"index":0,"delta":'
        self._null_usage = b',"usage":null' if include_usage else b""
        self._after = b',"logprobs":null,"finish_reason":null}]' + self._null_usage + b"}\n\n"
        self._pending: list[bytes] = []
        self._actions: list[Action] = []

    def deltas(self, deltas: Iterable[bytes], delay: float = 0.0) -> None:
        if delay:
            for number, delta in enumerate(deltas):
                if number:
                    self.stop(Delay(delay))
                self._pending.append(self._before + delta + self._after)
        elif body := (self._after + self._before).join(deltas):
            self._pending.append(self._before + body + self._after)

    def finish(self, reason: str, usage: dict[str, Any] | None) -> None:
        ending = b',"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":' + dump(reason) + b"}]"
        self._pending.append(self._head + ending + self._null_usage + b"}\n\n")
        if usage is not None:
            self._pending.append(self._head + b',"choices":[],"usage":' + dump(usage) + b"}\n\n")
        self._pending.append(b"data: [DONE]\n\n")

    def error(self, error: Mapping[str, Any]) -> None:
        self._pending.append(b"data: " + dump({"error": error}) + b"\n\n")

    def stop(self, action: Delay | Gate | Cut) -> None:
        self._flush()
        self._actions.append(action)

    def actions(self) -> tuple[Action, ...]:
        self._flush()
        return tuple(self._actions)

    def _flush(self) -> None:
        if self._pending:
            self._actions.append(b"".join(self._pending))
            self._pending = []


def _stream(message: _Message, *, include_usage: bool) -> Answer:
    frames = _Frames(message, include_usage=include_usage)
    usage = message.usage if include_usage else None
    calls = iter(enumerate(message.calls()))
    begun = False
    finished = True
    for piece in message.reply.pieces:
        if isinstance(piece, Text | Call) and not begun:
            begun = True
            frames.deltas([dump({"role": "assistant", "content": "" if isinstance(piece, Text) else None})])
        match piece:
            case Text():
                frames.deltas(piece.deltas, piece.delay)
            case Call():
                index, (id_, call) = next(calls)
                frames.deltas(_call_deltas(index, id_, call), call.delay)
            case Delay() | Gate() | Cut():
                frames.stop(piece)
            case StreamError():
                frames.error(piece.error)
        finished = not isinstance(piece, StreamError | Cut | End)
    if finished:
        if not begun:
            frames.deltas([dump({"role": "assistant", "content": ""})])
        frames.finish(message.finish_reason, usage)
    headers = (("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"))
    return Answer(200, headers, frames.actions(), chunked=True)


def _call_deltas(index: int, id_: str, call: Call) -> list[bytes]:
    first = {
        "index": index,
        "id": id_,
        "type": "function",
        "function": {"name": call.name, "arguments": ""},
    }
    rest = [{"index": index, "function": {"arguments": chunk}} for chunk in call.chunks]
    return [dump({"tool_calls": [delta]}) for delta in (first, *rest)]
