"""Reads the chunks of a Chat Completions stream. Pure: bytes in, events out, no network.

Servers that call themselves OpenAI-compatible differ in everything that clients do not strictly need. The rules here
are what recorded streams taught: calls are matched by id before index, since several servers number every call 0;
empty strings and null mean "not given"; the usage that counts is the last report, field by field; a stream is complete
with a finish reason or with ``[DONE]``, and has failed with neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import from_json

from cyclops_nb.errors import ModelError
from cyclops_nb.events import Event, Place, ReasoningDelta, TextDelta
from cyclops_nb.messages import ReasoningPart, TextPart
from cyclops_nb.models.base import Completion
from cyclops_nb.models.calls import CallReader
from cyclops_nb.models.sse import Frame, SSEDecoder
from cyclops_nb.models.surrogates import SurrogateJoiner
from cyclops_nb.usage import Usage

__all__ = ["ChatReader", "parse_json", "read_error", "read_usage"]

_KNOWN_DELTA_FIELDS = {
    "role", "content", "tool_calls", "function_call", "refusal",
    "reasoning_content", "reasoning", "reasoning_details",
}  # fmt: skip
_REASONING_FIELDS = ("reasoning_content", "reasoning")


def parse_json(data: bytes | str) -> Any:
    """Return parsed JSON; half surrogate pairs, which strict parsers refuse, are let through."""
    try:
        return from_json(data)
    except ValueError:
        return json.loads(data)


def read_error(error: Any) -> ModelError:
    """Return the failure that an ``error`` object of a server stands for."""
    if isinstance(error, Mapping):
        inner = error.get("error")
        if isinstance(inner, Mapping):
            error = inner
        code = error.get("code") or error.get("type")
        message = error.get("message") or json.dumps(error)
        return ModelError(str(message), code=None if code is None else str(code))
    return ModelError(str(error))


def read_usage(report: Mapping[str, Any]) -> Usage | None:
    """Return the usage that a report (all its chunks merged) stands for, or None if it says nothing."""

    def number(source: Any, *names: str) -> int:
        for name in names:
            value = source.get(name) if isinstance(source, Mapping) else None
            if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
                return int(value)
        return 0

    if not any(isinstance(report.get(name), int | float) for name in ("prompt_tokens", "completion_tokens")):
        return None
    cached = number(report.get("prompt_tokens_details"), "cached_tokens")
    return Usage(
        1,
        number(report, "prompt_tokens"),
        number(report, "completion_tokens"),
        cached or number(report, "prompt_cache_hit_tokens"),
        number(report.get("completion_tokens_details"), "reasoning_tokens"),
    )


def _merge(target: dict[str, Any], source: Mapping[str, Any]) -> None:
    """Let later reports replace earlier ones field by field; null erases nothing."""
    for name, value in source.items():
        if isinstance(value, Mapping) and isinstance(target.get(name), dict):
            _merge(target[name], value)
        elif value is not None:
            target[name] = dict(value) if isinstance(value, Mapping) else value


class ChatReader:
    """Reads one answer, from the bytes of its stream, into a completion.

    Parameters
    ----------
    completion : Completion
        What is read goes there.
    run_id, step : str and int
        For the events.
    """

    def __init__(self, completion: Completion, run_id: str = "", step: int = 0) -> None:
        self._completion = completion
        self._place: Place = {"run_id": run_id, "step": step}
        self._decoder = SSEDecoder()
        self._usage: dict[str, Any] = {}
        self._calls = CallReader(completion.accumulator, self._place)
        self._text = SurrogateJoiner()
        self._reasoning = SurrogateJoiner()
        self._has_plain_reasoning = False
        self.done = False
        """Whether ``[DONE]`` has come; nothing is read after it."""
        self.frames = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        """Take more bytes of the stream and yield what they say."""
        for frame in self._decoder.feed(data):
            yield from self._frame(frame)

    def close(self) -> Iterator[Event]:
        """Say that the stream is over; yields what was held back.

        Raises
        ------
        ModelError
            If the answer is not complete.
        """
        for frame in self._decoder.close():
            yield from self._frame(frame)
        yield from self._reasoning_events(self._reasoning.flush(), None)
        yield from self._text_events(self._text.flush())
        yield from self._calls.close()
        if not self.done and self._completion.finish_reason is None:
            raise ModelError("the stream ended early: neither a finish_reason nor [DONE] came")
        self._completion.finished = True

    def whole(self, body: Mapping[str, Any]) -> Iterator[Event]:
        """Read an answer that came as one JSON object, not as a stream."""
        choices = body.get("choices")
        if not body.get("error") and not (isinstance(choices, list) and choices):
            raise ModelError("the server's answer has no choices")
        choices = [
            {**choice, "delta": choice.get("message") or {}} for choice in choices or () if isinstance(choice, Mapping)
        ]
        self._calls.whole = True
        yield from self._chunk({**body, "choices": choices})
        self.done = True
        yield from self.close()

    def _frame(self, frame: Frame) -> Iterator[Event]:
        if self.done:
            return
        self.frames += 1
        if frame.data.strip() == b"[DONE]":
            self.done = True
            return
        try:
            chunk = parse_json(frame.data)
        except (ValueError, RecursionError):
            shown = frame.data[:200].decode("utf-8", "replace")
            raise ModelError(f"the server sent a chunk that is no JSON: {shown!r}") from None
        if frame.event == "error":
            if isinstance(chunk, Mapping):
                self._report(chunk)
            raise read_error(chunk)
        if isinstance(chunk, Mapping):
            yield from self._chunk(chunk)

    def _chunk(self, chunk: Mapping[str, Any]) -> Iterator[Event]:
        self._report(chunk)
        if chunk.get("error"):
            raise read_error(chunk["error"])
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

    def _report(self, chunk: Mapping[str, Any]) -> None:
        """Take the usage that a chunk reports, if any."""
        report = chunk.get("usage")
        if not report and isinstance(chunk.get("x_groq"), Mapping):
            report = chunk["x_groq"].get("usage")
        if isinstance(report, Mapping):
            _merge(self._usage, report)
            self._completion.usage = read_usage(self._usage)
            cost = self._usage.get("cost")
            if isinstance(cost, int | float) and not isinstance(cost, bool) and cost >= 0:
                self._completion.reported_cost = float(cost)

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
                yield from self._reasoning_events(self._reasoning.push(text), {"field": name})
                break
        if not self._has_plain_reasoning:
            yield from self._reasoning_events(self._reasoning.push(_text_of_details(delta)), None)
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
                    yield from self._reasoning_events(self._reasoning.push(text), {"field": "thinking"})
            elif isinstance(part.get("text"), str):
                yield from self._text_events(self._text.push(part["text"]))

    def _text_events(self, text: str) -> Iterator[Event]:
        if text:
            event = TextDelta(text=text, **self._place)
            self._completion.accumulator.add(event)
            yield event

    def _reasoning_events(self, text: str, metadata: Mapping[str, Any] | None) -> Iterator[Event]:
        if text:
            event = ReasoningDelta(text=text, **self._place)
            self._completion.accumulator.add(event)
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
