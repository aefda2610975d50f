"""Answers of the Responses API, streamed or not, out of the same replies that make chat completions.

Text that stands together is one message, reasoning that stands together one reasoning item with a summary, and each
call an item of its own. A reasoning item comes encrypted where the request asks for that.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from cyclops_nb.testing.gates import Gate
from cyclops_nb.testing.http_answers import CREATED, Answer, Collected, document_answer, stream_answer
from cyclops_nb.testing.pieces import Call, Cut, Delay, End, Reply, StreamError, Text, dump, joined
from cyclops_nb.testing.reports import RESPONSES_NAMES, usage_report

__all__ = ["responses_answer"]

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_ENCRYPTED = "reasoning.encrypted_content"


def responses_answer(reply: Reply, body: Mapping[str, Any], number: int) -> Answer:
    """Give the answer that a reply makes to a request of the Responses API."""
    stream = _Stream(reply, body, number)
    for piece in reply.pieces:
        stream.take(piece)
    if not (reply.pieces and isinstance(reply.pieces[-1], StreamError | Cut | End)):
        stream.finish()
    if body.get("stream") is True:
        return stream_answer(stream.actions())
    stream.close_item()
    ended = bool(reply.pieces) and isinstance(reply.pieces[-1], End)
    return document_answer(reply, stream.response("in_progress" if ended else stream.status))


class _Stream(Collected):
    """Collects the events of one answer, and the items that they make."""

    def __init__(self, reply: Reply, body: Mapping[str, Any], number: int) -> None:
        super().__init__()
        self._reply = reply
        self._number = number
        self._model = reply.model or str(body.get("model") or "scripted")
        self._usage = usage_report(reply, body, RESPONSES_NAMES)
        self._is_encrypted = _ENCRYPTED in (body.get("include") or ())
        self._output: list[dict[str, Any]] = []
        self._texts: list[str] = []
        self._open = ""
        """The type of the item that is being written, if there is one."""
        self._count = 0
        self.status = "incomplete" if reply.finish_reason in _INCOMPLETE else "completed"

    def take(self, piece: Any) -> None:
        """Send one piece of the reply."""
        match piece:
            case Text():
                self._text(piece)
            case Call():
                self.close_item()
                self._call(piece)
            case Delay() | Gate() | Cut():
                self.stop(piece)
            case StreamError():
                facts = {name: piece.error.get(name) for name in ("code", "message", "param")}
                self._event("error", **facts)

    def finish(self) -> None:
        """Send the end."""
        self.close_item()
        self._event(f"response.{self.status}", response=self.response(self.status))

    def response(self, status: str) -> dict[str, Any]:
        """Return the response as it stands in the first events, in the last one, and by itself."""
        has_ended = status != "in_progress"
        reason = _INCOMPLETE.get(self._reply.finish_reason or "")
        return {
            "id": f"resp_{self._number}",
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": reason} if has_ended and reason else None,
            "model": self._model,
            "output": list(self._output),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": self._usage if has_ended else None,
        }

    def _text(self, piece: Text) -> None:
        kind = "message" if piece.field == "content" else "reasoning"
        if self._open != kind:
            self.close_item()
            self._begin(kind)
        name = "output_text" if kind == "message" else "reasoning_summary_text"
        for number, chunk in enumerate(piece.chunks):
            if number and piece.delay:
                self.stop(Delay(piece.delay))
            self._event(f"response.{name}.delta", **self._place(), delta=chunk)
        self._texts.append(piece.text)

    def _begin(self, kind: str) -> None:
        self._open, self._texts = kind, []
        self._event("response.output_item.added", output_index=self._index, item=self._item("", "in_progress"))
        name = "content_part" if kind == "message" else "reasoning_summary_part"
        self._event(f"response.{name}.added", **self._place(), part=self._part(""))

    def close_item(self) -> None:
        """End the message or the reasoning that is being written."""
        if not self._open:
            return
        text = joined(self._texts)
        of_text, of_part = (
            ("output_text", "content_part")
            if self._open == "message"
            else ("reasoning_summary_text", "reasoning_summary_part")
        )
        self._event(f"response.{of_text}.done", **self._place(), text=text)
        self._event(f"response.{of_part}.done", **self._place(), part=self._part(text))
        self._done(self._item(text, self.status))
        self._open = ""

    def _call(self, call: Call) -> None:
        self._count += 1
        item = {
            "id": self._id("fc"),
            "type": "function_call",
            "status": "in_progress",
            "call_id": f"call_{self._count}" if call.id is None else call.id,
            "name": call.name,
            "arguments": "",
        }
        place = {"item_id": item["id"], "output_index": self._index}
        self._event("response.output_item.added", output_index=self._index, item=item)
        for number, chunk in enumerate(call.chunks):
            if number and call.delay:
                self.stop(Delay(call.delay))
            self._event("response.function_call_arguments.delta", **place, delta=chunk)
        self._event("response.function_call_arguments.done", **place, name=call.name, arguments=call.arguments)
        self._done({**item, "status": self.status, "arguments": call.arguments})

    def _done(self, item: dict[str, Any]) -> None:
        self._event("response.output_item.done", output_index=self._index, item=item)
        self._output.append(item)

    def _item(self, text: str, status: str) -> dict[str, Any]:
        if self._open == "message":
            content = [self._part(text)] if status != "in_progress" else []
            return {
                "id": self._id("msg"),
                "type": "message",
                "status": status,
                "role": "assistant",
                "content": content,
            }
        summary = [self._part(text)] if status != "in_progress" else []
        item: dict[str, Any] = {"id": self._id("rs"), "type": "reasoning", "summary": summary}
        if self._is_encrypted:
            # what stands in the first event of an item is not yet what has to be sent back
            item["encrypted_content"] = _encrypted(text) if status != "in_progress" else "unfinished"
        return item

    def _part(self, text: str) -> dict[str, Any]:
        if self._open == "message":
            return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        return {"type": "summary_text", "text": text}

    def _place(self) -> dict[str, Any]:
        is_message = self._open == "message"
        part = "content_index" if is_message else "summary_index"
        return {"item_id": self._id("msg" if is_message else "rs"), "output_index": self._index, part: 0}

    @property
    def _index(self) -> int:
        return len(self._output)

    def _id(self, kind: str) -> str:
        return f"{kind}_{self._number}_{self._index}"

    _sequence = 0

    def _event(self, type_: str, **facts: Any) -> None:
        """Send an event, and before the first one those that say that there is an answer."""
        if not self._sequence:
            self._send_event("response.created", response=self.response("in_progress"))
            self._send_event("response.in_progress", response=self.response("in_progress"))
        self._send_event(type_, **facts)

    def _send_event(self, type_: str, **facts: Any) -> None:
        event = {"type": type_, **facts, "sequence_number": self._sequence}
        self._sequence += 1
        self.send(b"event: " + type_.encode() + b"\ndata: " + dump(event) + b"\n\n")


def _encrypted(text: str) -> str:
    return "scripted:" + base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()
