"""What the readers of all APIs share: frames, JSON, and what servers report of usage and errors. Pure, no network."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import from_json

from cyclops_nb.errors import ModelError
from cyclops_nb.events import Event, Place, ReasoningDelta, TextDelta
from cyclops_nb.models.base import Completion
from cyclops_nb.models.sse import Frame, SSEDecoder
from cyclops_nb.pricing import reported_cost
from cyclops_nb.usage import Usage

__all__ = ["StreamReader", "parse_json", "read_error", "read_usage"]

_PROMPT_TOKENS = ("prompt_tokens", "input_tokens")
_ANSWER_TOKENS = ("completion_tokens", "output_tokens")


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
        return ModelError(str(message), code=None if code in (None, "error") else str(code))
    return ModelError(str(error))


def read_usage(report: Mapping[str, Any]) -> Usage | None:
    """Return the usage that a report (all its chunks merged) stands for, or None if it says nothing."""

    def number(source: Any, *names: str) -> int:
        for name in names:
            value = source.get(name) if isinstance(source, Mapping) else None
            if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
                return int(value)
        return 0

    def detail(of: tuple[str, ...], name: str) -> int:
        return max(number(report.get(f"{side}_details"), name) for side in of)

    if not any(isinstance(report.get(name), int | float) for name in (*_PROMPT_TOKENS, *_ANSWER_TOKENS)):
        return None
    return Usage(
        1,
        number(report, *_PROMPT_TOKENS),
        number(report, *_ANSWER_TOKENS),
        detail(_PROMPT_TOKENS, "cached_tokens") or number(report, "prompt_cache_hit_tokens"),
        detail(_ANSWER_TOKENS, "reasoning_tokens"),
    )


def _merge(target: dict[str, Any], source: Mapping[str, Any]) -> None:
    """Let later reports replace earlier ones field by field; null erases nothing."""
    for name, value in source.items():
        if isinstance(value, Mapping) and isinstance(target.get(name), dict):
            _merge(target[name], value)
        elif value is not None:
            target[name] = dict(value) if isinstance(value, Mapping) else value


class StreamReader(ABC):
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
        self.done = False
        """Whether the answer has come to its end; nothing is read after it."""
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
        yield from self._finish()
        self._completion.finished = True

    @abstractmethod
    def whole(self, body: Mapping[str, Any]) -> Iterator[Event]:
        """Read an answer that came as one JSON object, not as a stream."""

    @abstractmethod
    def _chunk(self, chunk: Mapping[str, Any], event: str) -> Iterator[Event]:
        """Read the object of one frame, which has no error in it."""

    @abstractmethod
    def _finish(self) -> Iterator[Event]:
        """Hand on what was held back; raise if the answer is not complete."""

    @abstractmethod
    def _report_in(self, chunk: Mapping[str, Any]) -> Any:
        """Return the report of usage in the object of a frame, if there is one."""

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
        if isinstance(chunk, Mapping):
            yield from self._object(chunk, frame.event)
        elif frame.event == "error":
            raise read_error(chunk)

    def _object(self, chunk: Mapping[str, Any], event: str = "") -> Iterator[Event]:
        report = self._report_in(chunk)
        if isinstance(report, Mapping):
            self._take_report(report)
        if chunk.get("error") or event == "error" or chunk.get("type") == "error":
            raise read_error(chunk.get("error") or chunk)
        yield from self._chunk(chunk, event)

    def _take_report(self, report: Mapping[str, Any]) -> None:
        _merge(self._usage, report)
        self._completion.usage = read_usage(self._usage)
        self._completion.reported_cost = reported_cost(self._usage)

    def _text_events(self, text: str) -> Iterator[Event]:
        if text:
            event = TextDelta(text=text, **self._place)
            self._completion.accumulator.add(event)
            yield event

    def _reasoning_events(self, text: str) -> Iterator[Event]:
        if text:
            event = ReasoningDelta(text=text, **self._place)
            self._completion.accumulator.add(event)
            yield event
