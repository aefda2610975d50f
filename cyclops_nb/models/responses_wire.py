"""Reads the events of a Responses API stream. Pure: bytes in, events out, no network.

Servers that speak this API differ as much as those of the other one: deltas may be missing where the whole item comes,
and the last event may repeat everything or nothing. What stands in a whole item is told as far as no delta has told it.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from cyclops_nb.errors import ModelError
from cyclops_nb.events import Event
from cyclops_nb.messages import ReasoningPart, TextPart
from cyclops_nb.models.base import Completion
from cyclops_nb.models.calls import CallReader
from cyclops_nb.models.output_items import OutputItem, OutputItems, text_of
from cyclops_nb.models.reading import StreamReader, read_error

__all__ = ["ResponsesReader"]

_PARTS: dict[str, type[TextPart | ReasoningPart] | None] = {
    "message": TextPart,
    "reasoning": ReasoningPart,
    "function_call": None,
}
"""The kinds of items that are read, and the parts that they become."""
_DELTAS = {
    "output_text": "message",
    "refusal": "message",
    "reasoning_summary_text": "reasoning",
    "reasoning_text": "reasoning",
    "function_call_arguments": "function_call",
}
_TEXTS = ("delta", "text", "refusal", "arguments")
_ENDS = ("completed", "incomplete", "failed", "cancelled")
_BREAK = "\n\n"
"""Between the parts of a summary."""


class ResponsesReader(StreamReader):
    """Reads one answer, from the bytes of its stream, into a completion.

    Parameters
    ----------
    completion : Completion
        What is read goes there.
    run_id, step : str and int
        For the events.
    """

    def __init__(self, completion: Completion, run_id: str = "", step: int = 0) -> None:
        super().__init__(completion, run_id, step)
        self._calls = CallReader(completion.accumulator, self._place)
        self._items = OutputItems()

    def whole(self, body: Mapping[str, Any]) -> Iterator[Event]:
        """Read an answer that came as one JSON object, not as a stream."""
        if not isinstance(body.get("output"), list):
            yield from self._object(body)
            raise ModelError("the server's answer has no output")
        status = body.get("status") or "completed"
        if status not in _ENDS:
            raise ModelError(f"the server has not finished its answer: its status is {status!r}")
        yield from self._object({"type": f"response.{status}", "response": body})
        yield from self.close()

    def _finish(self) -> Iterator[Event]:
        for item in self._items.all:
            yield from self._tell(item, item.flush())
        yield from self._calls.close()
        if not self.done:
            raise ModelError("the stream ended early: it did not say that the response is complete")

    def _report_in(self, chunk: Mapping[str, Any]) -> Any:
        response = chunk.get("response")
        return (response.get("usage") if isinstance(response, Mapping) else None) or chunk.get("usage")

    def _chunk(self, chunk: Mapping[str, Any], event: str) -> Iterator[Event]:
        name = text_of(chunk.get("type") or event).removeprefix("response.")
        what, _, step = name.rpartition(".")
        item, response = chunk.get("item"), chunk.get("response")
        if what in _DELTAS:
            yield from self._piece(chunk, what, step)
        elif what == "output_item" and isinstance(item, Mapping):
            yield from self._item_event(item, chunk.get("output_index"), step)
        elif isinstance(response, Mapping):
            yield from self._response(response, name)

    def _piece(self, chunk: Mapping[str, Any], what: str, step: str) -> Iterator[Event]:
        """Read a piece of an item, or all of it where an event says that it is done."""
        text = next((chunk[name] for name in _TEXTS if isinstance(chunk.get(name), str)), "")
        if step not in {"delta", "done"} or not text:
            return
        kind, sent_id, index = _DELTAS[what], text_of(chunk.get("item_id")), chunk.get("output_index")
        item = self._items.of_piece(kind, sent_id, index) or (yield from self._begin(kind, {"id": sent_id}, index))
        if kind == "reasoning" and item.source not in {"", what}:
            return
        item.source = what
        if what == "refusal":
            item.metadata["refusal"] = True
        if step == "delta":
            place = chunk.get("summary_index", chunk.get("content_index"))
            if kind == "reasoning" and item.place is not None and item.place != place:
                yield from self._tell(item, item.more(_BREAK))
            item.place = place
            yield from self._tell(item, item.more(text))
        elif what == "function_call_arguments" or item.is_empty:
            yield from self._tell(item, item.rest(text))

    def _item_event(self, facts: Mapping[str, Any], index: Any, step: str) -> Iterator[Event]:
        kind = text_of(facts.get("type"))
        if kind not in _PARTS:
            self._note_unknown(kind)
        elif step == "added":
            yield from self._begin(kind, facts, index)
        elif step == "done":
            item = self._items.of_whole(kind, facts, index) or (yield from self._begin(kind, facts, index))
            item.is_done = True
            yield from self._fill(item, facts)

    def _begin(self, kind: str, facts: Mapping[str, Any], index: Any) -> Generator[Event, None, OutputItem]:
        item = self._items.begin(kind, text_of(facts.get("id")), index)
        part = _PARTS[kind]
        if part is not None:
            item.metadata = self._completion.accumulator.begin(part)
        else:
            item.call_id = text_of(facts.get("call_id"))
            function = {"name": facts.get("name")}
            yield from self._calls.read({"id": item.call_id or item.id, "index": item.number, "function": function})
        return item

    def _note_unknown(self, kind: str) -> None:
        """Remember that reasoning led to something that is not kept: it must not be sent back without that."""
        if self._items.all and self._items.all[-1].kind == "reasoning":
            self._items.all[-1].metadata.setdefault("led_to", kind)

    def _fill(self, item: OutputItem, facts: Mapping[str, Any]) -> Iterator[Event]:
        """Tell what a whole item has and no delta has told."""
        if item.kind == "function_call":
            if text_of(facts.get("name")):
                yield from self._calls.read({"index": item.number, "function": {"name": facts["name"]}})
            arguments = facts.get("arguments")
            is_text = isinstance(arguments, str) or arguments is None
            text = text_of(arguments) if is_text else json.dumps(arguments, ensure_ascii=False)
        elif item.kind == "reasoning":
            text = _reasoning_text(item, facts)
            known = item.metadata.get("item") or {}
            if not known.get("encrypted_content"):
                item.metadata["item"] = dict(facts)
        else:
            parts = _mappings(facts.get("content"))
            text = "".join(text_of(part.get("text")) or text_of(part.get("refusal")) for part in parts)
            notes = [note for part in parts for note in _mappings(part.get("annotations"))]
            facts_to_keep = {
                "refusal": any(part.get("type") == "refusal" for part in parts),
                "annotations": notes,
                "phase": facts.get("phase"),
            }
            item.metadata.update((name, value) for name, value in facts_to_keep.items() if value)
        yield from self._tell(item, item.rest(text))

    def _tell(self, item: OutputItem, text: str) -> Iterator[Event]:
        if item.kind == "message":
            yield from self._text_events(text)
        elif item.kind == "reasoning":
            yield from self._reasoning_events(text)
        elif text:
            yield from self._calls.read({"index": item.number, "function": {"arguments": text}})

    def _response(self, response: Mapping[str, Any], name: str) -> Iterator[Event]:
        """Read an event about the whole response."""
        self._completion.model = text_of(response.get("model")) or self._completion.model
        if name not in _ENDS:
            return
        status = response["status"] if response.get("status") in _ENDS else name
        if response.get("error"):
            raise read_error(response["error"])
        if status in {"failed", "cancelled"}:
            raise ModelError(f"the server says that the response has {status}, and not why")
        yield from self._output(response)
        self._completion.finish_reason = self._finish_reason(response, status)
        self.done = True

    def _output(self, response: Mapping[str, Any]) -> Iterator[Event]:
        """Read what the last event repeats, and what only it brings."""
        numbers = dict.fromkeys(_PARTS, 0)
        for facts in _mappings(response.get("output")):
            kind = text_of(facts.get("type"))
            if kind not in numbers:
                self._note_unknown(kind)
                continue
            item = self._items.of_number(kind, facts, numbers[kind]) or (yield from self._begin(kind, facts, None))
            numbers[kind] += 1
            yield from self._fill(item, facts)

    def _finish_reason(self, response: Mapping[str, Any], status: str) -> str:
        """Return why the answer has ended, in the words of the other API."""
        if status == "incomplete":
            details = response.get("incomplete_details")
            reason = text_of(details.get("reason")) if isinstance(details, Mapping) else ""
            return "length" if reason in {"", "max_output_tokens", "max_tokens"} else reason
        return "tool_calls" if any(item.kind == "function_call" for item in self._items.all) else "stop"


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _reasoning_text(item: OutputItem, facts: Mapping[str, Any]) -> str:
    """Return the summary of reasoning, or its own text where that is what the deltas brought, or all there is."""
    summary, content = (
        _BREAK.join(text_of(part.get("text")) for part in _mappings(facts.get(name))) for name in ("summary", "content")
    )
    return content if item.source == "reasoning_text" or not summary else summary
