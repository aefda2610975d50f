"""Turns the deltas of a completion into parts.

The engine writes the transcript with it and the display draws with it, so what was read in the cell and what is kept
cannot disagree. How a stream was cut into deltas never matters: only what they add up to does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cyclops_nb.events import Event, ReasoningDelta, StepStarted, TextDelta, ToolCallDelta, ToolCallStarted
from cyclops_nb.messages import AssistantPart, ReasoningPart, TextPart, ToolCall

__all__ = ["Accumulator"]


class _Draft:
    """A part that is still being written."""

    __slots__ = ("fragments", "id", "kind", "metadata", "name")

    def __init__(self, kind: type[AssistantPart], id: str = "", name: str = "") -> None:
        self.kind = kind
        self.id = id
        self.name = name
        self.fragments: list[str] = []
        self.metadata: dict[str, Any] = {}

    @property
    def text(self) -> str:
        return "".join(self.fragments)

    def finished(self) -> AssistantPart:
        if self.kind is ToolCall:
            return ToolCall(self.id, self.name, self.text, provider_metadata=self.metadata)
        if self.kind is ReasoningPart:
            return ReasoningPart(self.text, provider_metadata=self.metadata)
        return TextPart(self.text, provider_metadata=self.metadata)


class Accumulator:
    """Parts of one assistant message, as they grow.

    Examples
    --------
    >>> from cyclops_nb.events import TextDelta
    >>> accumulator = Accumulator()
    >>> for piece in ("Hel", "lo"):
    ...     accumulator.add(TextDelta(text=piece))
    >>> accumulator.text
    'Hello'
    """

    def __init__(self) -> None:
        self._drafts: list[_Draft] = []
        self._calls: dict[str, _Draft] = {}

    def add(self, event: Event) -> None:
        """Take one event; all but deltas and the beginning of a step are ignored."""
        if isinstance(event, TextDelta | ReasoningDelta):
            if event.text:  # an empty one would part what belongs together
                self._last(TextPart if isinstance(event, TextDelta) else ReasoningPart).fragments.append(event.text)
        elif isinstance(event, ToolCallDelta):
            self._calls[event.call_id].fragments.append(event.arguments)
        elif isinstance(event, ToolCallStarted):
            draft = _Draft(ToolCall, event.call_id, event.name)
            self._calls[event.call_id] = draft
            self._drafts.append(draft)
        elif isinstance(event, StepStarted):
            self._drafts.clear()
            self._calls.clear()

    def note_call(self, call_id: str, metadata: Mapping[str, Any]) -> None:
        """Keep provider data with a tool call."""
        self._calls[call_id].metadata.update(metadata)

    def begin(self, kind: type[TextPart | ReasoningPart]) -> dict[str, Any]:
        """Begin another part, even after one of the same kind, and return its provider data, to extend.

        Examples
        --------
        >>> accumulator = Accumulator()
        >>> for piece in ("One.", "Two."):
        ...     _ = accumulator.begin(TextPart)
        ...     accumulator.add(TextDelta(text=piece))
        >>> [part.text for part in accumulator.parts]
        ['One.', 'Two.']
        """
        self._drafts.append(_Draft(kind))
        return self._drafts[-1].metadata

    def metadata(self, kind: type[AssistantPart]) -> dict[str, Any]:
        """Return the provider data of the part of `kind` being written (begun if there is none), to extend."""
        return self._last(kind).metadata

    @property
    def parts(self) -> tuple[AssistantPart, ...]:
        """The parts so far; empty texts without provider data are left out."""
        return tuple(
            draft.finished()
            for draft in self._drafts
            if draft.kind is ToolCall or draft.metadata or any(draft.fragments)
        )

    @property
    def text(self) -> str:
        """The text of the answer so far."""
        return "".join(draft.text for draft in self._drafts if draft.kind is TextPart)

    def arguments(self, call_id: str) -> str:
        """Return the arguments of a call as written so far."""
        return self._calls[call_id].text

    def _last(self, kind: type[AssistantPart]) -> _Draft:
        if not self._drafts or self._drafts[-1].kind is not kind:
            self._drafts.append(_Draft(kind))
        return self._drafts[-1]
