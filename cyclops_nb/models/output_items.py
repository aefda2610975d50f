"""The items of a response while they are read, and which of them an event is about. Pure.

Servers are not to be relied on: item ids may change from event to event, indexes may be missing or all 0, and an item
may never be announced. So an item is found by its id, else by its index, else as the one of its kind that is being
written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cyclops_nb.models.surrogates import SurrogateJoiner
from cyclops_nb.values import clean_text

__all__ = ["OutputItem", "OutputItems", "text_of"]


def text_of(value: Any) -> str:
    """Return a text, or an empty one for what is none."""
    return clean_text(value) if isinstance(value, str) else ""


class OutputItem:
    """One item of the output while it is read."""

    def __init__(self, kind: str, sent_id: str, index: Any, number: int) -> None:
        self.kind = kind
        self.id = sent_id
        self.index = index
        self.number = number
        self.call_id = ""
        self.metadata: dict[str, Any] = {}
        """Provider data of the part that it becomes."""
        self.is_done = False
        self.source = ""
        """Which kind of delta brings its text: a server may send the same reasoning as two."""
        self.place: Any = None
        """The index of the piece of the item that is being written."""
        self._told: list[str] = []
        self._joiner = SurrogateJoiner()

    @property
    def is_empty(self) -> bool:
        """Whether nothing of its text has come yet."""
        return not self._told

    def more(self, delta: str) -> str:
        """Take a delta and return what can be handed on."""
        self._told.append(self._joiner.push(delta))
        return self._told[-1]

    def rest(self, whole: str) -> str:
        """Take the whole text and return what no delta has brought; where they contradict, the deltas count."""
        told, whole = "".join(self._told), clean_text(whole)
        held = self._joiner.flush()
        self._told.append(whole[len(told) :] if whole.startswith(told) else held)
        return self._told[-1]

    def flush(self) -> str:
        """Return what was held back, now that nothing follows."""
        return self._joiner.flush()


class OutputItems:
    """All items of a response so far."""

    def __init__(self) -> None:
        self.all: list[OutputItem] = []

    def begin(self, kind: str, sent_id: str, index: Any) -> OutputItem:
        """Add an item."""
        item = OutputItem(kind, sent_id, index, len(self.all))
        self.all.append(item)
        return item

    def of_piece(self, kind: str, sent_id: str, index: Any) -> OutputItem | None:
        """Return the item that a piece belongs to, or None if it begins one."""
        current: OutputItem | None = None
        with_index: OutputItem | None = None
        for item in reversed(self.all):
            if item.kind != kind:
                continue
            if sent_id and item.id == sent_id:
                return item
            current = current or item
            if with_index is None and index is not None and item.index == index:
                with_index = item
        if with_index is not None or current is None or current.is_done:
            return with_index
        # where ids change with each event, pieces of a text may be put together all the same, those of calls may not
        has_another_id = kind == "function_call" and sent_id and current.id
        has_another_index = index is not None and current.index is not None
        return None if has_another_id or has_another_index else current

    def of_whole(self, kind: str, facts: Mapping[str, Any], index: Any) -> OutputItem | None:
        """Return the item that an event gives whole, or None if nothing has been read of it."""
        known = self._by_ids(kind, facts)
        if known is not None:
            return known
        waiting = [item for item in self.all if item.kind == kind and not item.is_done]
        same = [item for item in waiting if index is not None and item.index == index]
        return next(iter(same or waiting), None)

    def of_number(self, kind: str, facts: Mapping[str, Any], number: int) -> OutputItem | None:
        """Return the item that the last event repeats as the one of that number, from 0, among those of its kind."""
        known = self._by_ids(kind, facts)
        items = [item for item in self.all if item.kind == kind]
        return known or (items[number] if number < len(items) else None)

    def _by_ids(self, kind: str, facts: Mapping[str, Any]) -> OutputItem | None:
        sent_id, call_id = text_of(facts.get("id")), text_of(facts.get("call_id"))
        for item in self.all:
            if item.kind == kind and ((sent_id and item.id == sent_id) or (call_id and item.call_id == call_id)):
                return item
        return None
