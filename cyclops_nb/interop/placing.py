"""Puts the messages of runs in line again, each where its record says that it stood.

A line is a conversation of which some messages may not be known: it has them by their indices. A run goes on from a
line of its session, or from one of its origin; which one is told by the ids of the messages that stood before it. What
a run does not go on from is kept as a line of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple, TypeAlias

from cyclops_nb.interop.run_record import RunRecord
from cyclops_nb.messages import Message
from cyclops_nb.session import Parent, Session

__all__ = ["Line", "Placed", "Placing", "Thread"]

_ID_ROOM = 100


class Placed(NamedTuple):
    """A message, and the number of the cell that holds it."""

    message: Message
    cell: int


Line: TypeAlias = dict[int, Placed]


@dataclass
class Thread:
    """A session that is being put together."""

    session: Session
    """Without its messages."""
    line: Line = field(default_factory=dict)
    cut: list[Thread] = field(default_factory=list)
    """What it was before something was cut off."""
    replaced: list[Line] = field(default_factory=list)
    """What it was before a summary took the place of messages."""

    @property
    def lines(self) -> list[Line]:
        """All that it was, the present first."""
        return [self.line, *(thread.line for thread in reversed(self.cut)), *reversed(self.replaced)]


class Placing:
    """All sessions of a notebook, put together run by run, in the order in which the runs began."""

    def __init__(self) -> None:
        self._threads: dict[tuple[str, Any], Thread] = {}
        self._known: dict[str, tuple[Placed, Thread]] = {}

    def take(self, cell: int, record: RunRecord) -> None:
        """Do to a session what a run did to it."""
        key = record.session_id, record.created_at
        is_new = key not in self._threads
        thread = self._threads.setdefault(key, Thread(Session(record.session_id, created_at=record.created_at)))
        summary = [] if record.summary is None else [Placed(record.summary, cell)]
        new = {record.start + place: Placed(message, cell) for place, message in enumerate(record.messages)}
        self._known.update((item.message.id, (item, thread)) for item in [*summary, *new.values()])
        front, source = self._front(thread, record)
        if is_new and source is not None and source is not thread:
            inherited = [run for run in source.session.runs if run.started_at <= record.created_at]
            keys = {run.config for run in inherited}
            thread.session.runs.extend(inherited)
            thread.session.configs.update((key, item) for key, item in source.session.configs.items() if key in keys)
        if summary and record.start:
            front[0] = summary[0]
        _go_on(thread, {**front, **new}, record)
        thread.session.title, thread.session.parent = record.title, record.parent
        thread.session.metadata = record.model_dump(mode="json", include={"metadata"})["metadata"]
        thread.session.configs.update(record.configs)
        known = {run.id for run in thread.session.runs}
        thread.session.runs.extend(run for run in record.runs if run.id not in known)

    def threads(self) -> Iterator[Thread]:
        """Yield all sessions, and what was cut off one unless another one goes on from there."""
        stands = {(index, item.message.id) for thread in self._threads.values() for index, item in thread.line.items()}
        numbers: dict[str, int] = {}
        for thread in self._threads.values():
            yield thread
            for cut in thread.cut:
                last = max(cut.line)
                if (last, cut.line[last].message.id) in stands:
                    continue
                stands.update((index, item.message.id) for index, item in cut.line.items())
                name = thread.session.id
                numbers[name] = numbers.get(name, 0) + 1
                cut.session.id = f"{name[:_ID_ROOM]}-before-cut-{numbers[name]}"
                cut.session.parent = Parent(session_id=name, message_count=_common(cut.line, thread.line))
                yield cut

    def _front(self, thread: Thread, record: RunRecord) -> tuple[Line, Thread | None]:
        """Return what stood before a run, as far as it is known, and the session that this comes from."""
        first = record.start - len(record.before)
        best: Line = {}
        source, most, kept = None, -1, 0
        for other, line, limit in self._candidates(thread, record):
            matches, agreement = _agreement(line, first, record.before)
            if line and matches > most:
                best, source, most, kept = line, other, matches, min(agreement, limit)
        found = {first + place: self._known[name][0] for place, name in enumerate(record.before) if name in self._known}
        return {**found, **{index: item for index, item in best.items() if index < kept}}, source

    def _candidates(self, thread: Thread, record: RunRecord) -> Iterator[tuple[Thread, Line, int]]:
        """Yield lines that a run may have gone on from, and how many messages of each at most."""
        start, parent = record.start, record.parent
        for line in thread.lines:
            yield thread, _summarised(line, record), start
        if parent is not None:
            limit = start if record.before else min(start, parent.message_count)
            for (name, begun), other in reversed(self._threads.items()):
                if name == parent.session_id and begun <= record.created_at and other is not thread:
                    for line in other.lines:
                        yield other, _summarised(line, record), limit
        if record.before and record.before[-1] in self._known:
            other = self._known[record.before[-1]][1]
            for line in other.lines:
                yield other, line, start


def _summarised(line: Line, record: RunRecord) -> Line:
    """Return a line of which the summary that its session begins with has replaced all but the messages behind it."""
    if record.summary is None or (0 in line and line[0].message.id == record.summary.id):
        return line
    gone = max(line, default=-1) + 2 - record.start
    return {index - gone + 1: item for index, item in line.items() if index >= gone} if gone > 0 else {}


def _agreement(line: Line, first: int, before: Sequence[str]) -> tuple[int, int]:
    """Return how many messages before a run stand in a line, and up to where it is not known to differ."""
    matches = 0
    for index, name in enumerate(before, first):
        if index in line:
            if line[index].message.id != name:
                return matches, index if matches or not first else 0
            matches += 1
    return matches, first + len(before)


def _go_on(thread: Thread, line: Line, record: RunRecord) -> None:
    """Make `line` what a session is now, and keep what it was if something of that is gone."""
    old = thread.line
    stays = {item.message.id for item in line.values()}
    if any(item.message.id not in stays for item in old.values()):
        has_summary = record.summary is None or record.summary.id in {item.message.id for item in old.values()}
        if has_summary:
            thread.cut.append(Thread(copy.copy(thread.session), old))
        else:
            thread.replaced.append(old)
    thread.line = line


def _common(line: Line, other: Line) -> int:
    """Return the index up to which two lines are the same."""
    same = takewhile(lambda index: index in other and other[index].message.id == line[index].message.id, sorted(line))
    return max(same, default=-1) + 1
