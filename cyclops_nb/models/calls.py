"""Puts the pieces of tool calls together.

``index``, ``id`` and ``name`` are all unreliable: servers number every call 0, leave the index out, send the id once
or with each piece or as an empty string, and repeat the name or not. What holds for all that were recorded: a known id
continues its call, a new id with a name begins one, and what has neither id nor index continues the current call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from cyclops_nb.accumulator import Accumulator
from cyclops_nb.errors import ModelError
from cyclops_nb.events import Event, Place, ToolCallDelta, ToolCallStarted
from cyclops_nb.models.surrogates import SurrogateJoiner
from cyclops_nb.values import clean_text, new_id

__all__ = ["CallReader"]


class _Call:
    __slots__ = ("arguments", "id", "index", "joiner", "name", "sent_id", "started", "unknown", "waiting")

    def __init__(self, sent_id: str, own_id: str, index: Any) -> None:
        self.sent_id = sent_id
        self.id = own_id
        self.index = index
        self.name = ""
        self.arguments = ""
        self.waiting = ""
        self.started = False
        self.joiner = SurrogateJoiner()
        self.unknown: dict[str, Any] = {}


class CallReader:
    """Reads the ``tool_calls`` entries of the deltas of one answer."""

    def __init__(self, accumulator: Accumulator, place: Place) -> None:
        self._accumulator = accumulator
        self._place = place
        self._calls: list[_Call] = []
        self.whole = False
        """Whether each entry is a whole call, as in answers that are no stream."""

    def read(self, entry: Mapping[str, Any]) -> Iterator[Event]:
        """Read one entry."""
        function = entry.get("function")
        function = function if isinstance(function, Mapping) else {}
        sent_id = _text(entry.get("id"))
        name = _text(function.get("name"))
        index = entry.get("index")
        arguments = function.get("arguments")
        call = None if self.whole else self._continued(sent_id, name, index, has_arguments=bool(arguments))
        if call is None:
            call = self._begin(sent_id, index)
        if name and not call.name:
            call.name = name
        self._keep_unknown(call, entry, function)
        if isinstance(arguments, Mapping | list):
            arguments = json.dumps(arguments, ensure_ascii=False)
        call.waiting += call.joiner.push(arguments) if isinstance(arguments, str) else ""
        if call.name:
            yield from self._emit(call)

    def close(self) -> Iterator[Event]:
        """Hand on what was held back, and check that each call has a name."""
        for call in self._calls:
            call.waiting += call.joiner.flush()
            if not call.name:
                raise ModelError("the model sent a tool call without a name")
            yield from self._emit(call)

    def _continued(self, sent_id: str, name: str, index: Any, *, has_arguments: bool) -> _Call | None:
        """Return the call that an entry goes on with, or None if it begins one."""
        if not self._calls:
            return None
        if sent_id:
            known = next((call for call in reversed(self._calls) if call.sent_id == sent_id), None)
            if known is not None:
                begins_another = name and index is not None and known.index is not None and index != known.index
                return None if begins_another else known
            if name:
                return None
        if index is not None:
            call = next((call for call in reversed(self._calls) if call.index == index), None)
            return None if call is None or (has_arguments and _is_another(name, call)) else call
        current = self._calls[-1]
        return None if _is_another(name, current) else current

    def _begin(self, sent_id: str, index: Any) -> _Call:
        taken = {call.id for call in self._calls}
        own_id = sent_id if sent_id and sent_id not in taken else f"call_{new_id()[:24]}"
        call = _Call(sent_id, own_id, index)
        self._calls.append(call)
        return call

    def _keep_unknown(self, call: _Call, entry: Mapping[str, Any], function: Mapping[str, Any]) -> None:
        """Keep fields that only the provider understands (signatures, for one): it wants them back."""
        unknown = {name: entry[name] for name in entry if name not in {"id", "type", "function", "index"}}
        inner = {name: function[name] for name in function if name not in {"name", "arguments"}}
        if inner:
            unknown["function"] = inner
        call.unknown.update((name, value) for name, value in unknown.items() if value is not None)
        if call.started and call.unknown:
            self._accumulator.note_call(call.id, call.unknown)

    def _emit(self, call: _Call) -> Iterator[Event]:
        if not call.started:
            call.started = True
            started = ToolCallStarted(call_id=call.id, name=call.name, **self._place)
            self._accumulator.add(started)
            if call.unknown:
                self._accumulator.note_call(call.id, call.unknown)
            yield started
        if call.waiting:
            delta = ToolCallDelta(call_id=call.id, arguments=call.waiting, **self._place)
            call.arguments += call.waiting
            call.waiting = ""
            self._accumulator.add(delta)
            yield delta


def _text(value: Any) -> str:
    return clean_text(value) if isinstance(value, str) else ""


def _is_another(name: str, call: _Call) -> bool:
    """Say whether a piece that is named, and has no id to go by, is no piece of `call` but a call of its own."""
    written = call.arguments + call.waiting
    return bool(name and call.name) and (_is_complete(written) or (name != call.name and not written.strip()))


def _is_complete(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False
