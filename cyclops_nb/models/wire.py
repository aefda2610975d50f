"""Reads the chunks of a Chat Completions stream. Pure: bytes in, events out, no network.

Servers that call themselves OpenAI-compatible differ in everything that clients do not strictly need. The rules here
are what recorded streams taught: calls are matched by id before index, since several servers number every call 0;
empty strings and null mean "not given"; the usage that counts is the last report, field by field; a stream is complete
with a finish reason or with ``[DONE]``, and has failed with neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cyclops_nb.errors import ModelError
from cyclops_nb.events import Event
from cyclops_nb.messages import ReasoningPart, TextPart
from cyclops_nb.models.base import Completion
from cyclops_nb.models.calls import CallReader
from cyclops_nb.models.reading import StreamReader
from cyclops_nb.models.surrogates import SurrogateJoiner

__all__ = ["ChatReader"]

_KNOWN_DELTA_FIELDS = {
    "role", "content", "tool_calls", "function_call", "refusal",
    "reasoning_content", "reasoning", "reasoning_details",
}  # fmt: skip
_REASONING_FIELDS = ("reasoning_content", "reasoning")


class ChatReader(StreamReader):
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
        self._text = SurrogateJoiner()
        self._reasoning = SurrogateJoiner()
        self._has_plain_reasoning = False

    def whole(self, body: Mapping[str, Any]) -> Iterator[Event]:
        """Read an answer that came as one JSON object, not as a stream."""
        choices = body.get("choices")
        if not body.get("error") and not (isinstance(choices, list) and choices):
            raise ModelError("the server's answer has no choices")
        choices = [
            {**choice, "delta": choice.get("message") or {}} for choice in choices or () if isinstance(choice, Mapping)
        ]
        self._calls.whole = True
        yield from self._object({**body, "choices": choices})
        self.done = True
        yield from self.close()

    def _finish(self) -> Iterator[Event]:
        yield from self._thoughts(self._reasoning.flush(), None)
        yield from self._text_events(self._text.flush())
        yield from self._calls.close()
        if not self.done and self._completion.finish_reason is None:
            raise ModelError("the stream ended early: neither a finish_reason nor [DONE] came")

    def _report_in(self, chunk: Mapping[str, Any]) -> Any:
        report = chunk.get("usage")
        if not report and isinstance(chunk.get("x_groq"), Mapping):
            report = chunk["x_groq"].get("usage")
        return report

    def _chunk(self, chunk: Mapping[str, Any], event: str) -> Iterator[Event]:  # noqa: ARG002 - chunks say what they are
        model = chunk.get("model")
        if model and isinstance(model, str):
            self._completion.model = model
        for choice in chunk.get("choices") or ():
            if not isinstance(choice, Mapping) or choice.get("index"):
                continue  # one answer is asked for; others would be mixed into it
            delta = choice.get("delta")
            if isinstance(delta, Mapping):
                yield from self._delta(delta)
            reason = choice.get("finish_reason")
            if reason and isinstance(reason, str):
                self._completion.finish_reason = reason

    def _delta(self, delta: Mapping[str, Any]) -> Iterator[Event]:
        yield from self._reasoning_delta(delta)
        content = delta.get("content")
        if isinstance(content, str):
            yield from self._text_events(self._text.push(content))
        elif isinstance(content, list):
            yield from self._content_list(content)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            yield from self._text_events(refusal)
            self._completion.accumulator.metadata(TextPart)["refusal"] = True
        calls = delta.get("tool_calls")
        if isinstance(calls, list):
            for call in calls:
                if isinstance(call, Mapping):
                    yield from self._calls.read(call)
        for name, value in delta.items():
            if name not in _KNOWN_DELTA_FIELDS and value not in (None, "", [], {}):
                self._completion.provider_metadata[name] = value

    def _reasoning_delta(self, delta: Mapping[str, Any]) -> Iterator[Event]:
        for name in _REASONING_FIELDS:
            text = delta.get(name)
            if text and isinstance(text, str):
                self._has_plain_reasoning = True
                yield from self._thoughts(self._reasoning.push(text), {"field": name})
                break
        if not self._has_plain_reasoning:
            yield from self._thoughts(self._reasoning.push(_text_of_details(delta)), None)
        details = delta.get("reasoning_details")
        if isinstance(details, list) and details:
            metadata = self._completion.accumulator.metadata(ReasoningPart)
            metadata["field"] = "reasoning_details"
            _merge_details(metadata.setdefault("reasoning_details", []), details)

    def _content_list(self, content: list[Any]) -> Iterator[Event]:
        """Read content that came as a list of parts."""
        for part in content:
            if isinstance(part, str):
                yield from self._text_events(self._text.push(part))
            elif not isinstance(part, Mapping):
                continue
            elif part.get("type") == "thinking":
                inner = part.get("thinking")
                texts = [inner] if isinstance(inner, str) else [item.get("text") or "" for item in inner or ()]
                for text in texts:
                    yield from self._thoughts(self._reasoning.push(text), {"field": "thinking"})
            elif isinstance(part.get("text"), str):
                yield from self._text_events(self._text.push(part["text"]))

    def _thoughts(self, text: str, metadata: Mapping[str, Any] | None) -> Iterator[Event]:
        for event in self._reasoning_events(text):
            if metadata:
                known = self._completion.accumulator.metadata(ReasoningPart)
                for name, value in metadata.items():
                    known.setdefault(name, value)
            yield event


def _text_of_details(delta: Mapping[str, Any]) -> str:
    """Return the readable text of reasoning details, for servers that send it nowhere else."""
    details = delta.get("reasoning_details")
    texts = [
        item.get("text") or item.get("summary")
        for item in (details if isinstance(details, list) else ())
        if isinstance(item, Mapping)
    ]
    return "".join(text for text in texts if isinstance(text, str))


def _merge_details(known: list[dict[str, Any]], details: list[Any]) -> None:
    """Join pieces of one reasoning detail: same type and index, texts put together, other fields replaced."""
    for detail in details:
        if not isinstance(detail, Mapping):
            continue
        last = known[-1] if known else {}
        if known and all(last.get(name) == detail.get(name) for name in ("type", "index")):
            for name, value in detail.items():
                if name in {"text", "summary", "data"} and isinstance(value, str):
                    last[name] = (last.get(name) or "") + value
                elif value is not None:
                    last[name] = value
        else:
            known.append(dict(detail))
