"""Chat completions, streamed or not, out of the replies of a script.

The frames of a stream differ in their delta alone, and the deltas of a text are encoded once for all requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cyclops_nb.testing.gates import Gate
from cyclops_nb.testing.http_answers import CREATED, Answer, Collected, document_answer, stream_answer
from cyclops_nb.testing.pieces import Call, Cut, Delay, End, Reply, StreamError, Text, dump
from cyclops_nb.testing.reports import CHAT_NAMES, usage_report

__all__ = ["chat_answer"]


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


def chat_answer(reply: Reply, body: Mapping[str, Any], number: int) -> Answer:
    """Give the answer that a reply makes to a request for a chat completion."""
    calls = any(isinstance(piece, Call) for piece in reply.pieces)
    message = _Message(
        reply,
        id=f"chatcmpl-{number}",
        model=reply.model or str(body.get("model") or "scripted"),
        finish_reason=reply.finish_reason or ("tool_calls" if calls else "stop"),
        usage=usage_report(reply, body, CHAT_NAMES),
    )
    if body.get("stream") is True:
        options = body.get("stream_options")
        return _stream(message, include_usage=isinstance(options, dict) and bool(options.get("include_usage")))
    return document_answer(reply, _document(message))


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
        "created": CREATED,
        "model": message.model,
        "choices": [{"index": 0, "message": said, "logprobs": None, "finish_reason": reason}],
    }
    if message.usage is not None and not ended:
        document["usage"] = message.usage
    return document


class _Frames(Collected):
    """Collects the frames of one stream."""

    def __init__(self, message: _Message, *, include_usage: bool) -> None:
        super().__init__()
        head = {
            "id": message.id,
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": message.model,
        }
        self._head = b"data: " + dump(head)[:-1]
        self._before = self._head + b',"choices":[{"index":0,"delta":'
        self._null_usage = b',"usage":null' if include_usage else b""
        self._after = b',"logprobs":null,"finish_reason":null}]' + self._null_usage + b"}\n\n"

    def deltas(self, deltas: Iterable[bytes], delay: float = 0.0) -> None:
        if delay:
            for number, delta in enumerate(deltas):
                if number:
                    self.stop(Delay(delay))
                self.send(self._before + delta + self._after)
        elif body := (self._after + self._before).join(deltas):
            self.send(self._before + body + self._after)

    def finish(self, reason: str, usage: dict[str, Any] | None) -> None:
        ending = b',"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":' + dump(reason) + b"}]"
        self.send(self._head + ending + self._null_usage + b"}\n\n")
        if usage is not None:
            self.send(self._head + b',"choices":[],"usage":' + dump(usage) + b"}\n\n")
        self.send(b"data: [DONE]\n\n")

    def error(self, error: Mapping[str, Any]) -> None:
        self.send(b"data: " + dump({"error": error}) + b"\n\n")


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
    return stream_answer(frames.actions())


def _call_deltas(index: int, id_: str, call: Call) -> list[bytes]:
    first = {
        "index": index,
        "id": id_,
        "type": "function",
        "function": {"name": call.name, "arguments": ""},
    }
    rest = [{"index": index, "function": {"arguments": chunk}} for chunk in call.chunks]
    return [dump({"tool_calls": [delta]}) for delta in (first, *rest)]
