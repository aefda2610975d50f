"""Sessions out of the outputs of a notebook that someone worked in.

Each run that a cell shows leaves a record in its output. Put together in the order in which the runs were made they are
the sessions again, as far as the cells showed them.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cyclops_nb.displayable import Displayable
from cyclops_nb.errors import SessionFormatError, TranscriptError
from cyclops_nb.family import family
from cyclops_nb.interop.run_record import MEDIA_TYPE, RunRecord
from cyclops_nb.messages import Message
from cyclops_nb.session import Parent, Session
from cyclops_nb.stores.notebooks.document import Document, parse
from cyclops_nb.stores.notebooks.reading import EXPORT, read, read_export

__all__ = ["FoundSessions", "MissingPiece", "sessions_in_notebook"]

_SHOWN = 200
"""Characters of a reason that are shown."""
_ID_ROOM = 100


@dataclass(frozen=True)
class MissingPiece:
    """Something of a session that no output holds."""

    cell: int
    """The number of the cell where that was noticed, from 0."""
    session_id: str | None
    text: str
    """What is missing, in words."""

    def __str__(self) -> str:
        return f"cells[{self.cell}]: {self.text}"


class FoundSessions(Displayable, list[Session]):
    """The sessions that were found, in the order in which they were begun; `missing` says what was not.

    Examples
    --------
    >>> FoundSessions([Session("study-1")]).missing
    ()
    """

    missing: tuple[MissingPiece, ...] = ()


def sessions_in_notebook(path: str | os.PathLike[str]) -> FoundSessions:
    """Put sessions together from the saved outputs of a notebook; nothing in it is run.

    Every cell that shows a run's answer or response keeps what that run added. What was said between, in runs that no
    cell shows, is named as missing. Where a session was truncated and asked anew, what it held before is there as a
    session of its own, a branch. The notebook of a `NotebookSessionStore` and what `export_notebook` wrote are read,
    too.

    Parameters
    ----------
    path : str or path
        A notebook of version 4 of the format.

    Returns
    -------
    FoundSessions
        A list of sessions, with ``.missing``: what is missing, and at which cell that was noticed.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    SessionFormatError
        If it is no notebook.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = export_notebook(Session("study-1"), Path(folder) / "study.ipynb")
    ...     [session.id for session in sessions_in_notebook(path)]
    ['study-1']
    """
    path = Path(path)
    data = path.read_bytes()
    document = parse(data, repr(str(path)))
    if document.ours is not None and document.ours.get("kind") == EXPORT:
        return _exported(document, repr(str(path)))
    if document.ours is not None:
        return FoundSessions([read(data, None, repr(str(path))).session])
    found = _Found()
    for cell, record in sorted(_records(document, found), key=lambda pair: pair[1].runs[0].started_at):
        found.take(cell, record)
    result = FoundSessions(found.sessions())
    result.missing = tuple(sorted(found.missing, key=lambda piece: piece.cell))
    return result


def _exported(document: Document, where: str) -> FoundSessions:
    parts = read_export(document, where)
    shared = {part.session.id: part.shared for part in parts}
    missing = []
    sessions = {branch.value.id: branch.value for branch in family(part.session for part in parts)}
    for session in sessions.values():  # each behind its origin, which is whole by then
        count, origin = shared[session.id], sessions.get(session.parent.session_id) if session.parent else None
        held = origin.messages[:count] if origin is not None and origin is not session else []
        session.messages[:0] = held
        if len(held) < count:
            text = f"messages [{len(held)}] to [{count - 1}] of session {session.id!r} stood in its origin, above"
            number = next(part.cell for part in parts if part.session is session)
            missing.append(MissingPiece(number, session.id, text))
    result = FoundSessions(sessions[part.session.id] for part in parts)
    result.missing = tuple(missing)
    return result


def _records(document: Document, found: _Found) -> Iterator[tuple[int, RunRecord]]:
    """Yield the records in all outputs, each run once: a cell may show it that another one shows, too."""
    seen = set()
    for number, cell in enumerate(document.cells):
        for data in _data_in(cell):
            try:
                record = RunRecord.model_validate(json.loads(data) if isinstance(data, str) else data)
            except (ValidationError, SessionFormatError, TranscriptError, ValueError, RecursionError) as error:
                found.missing.append(MissingPiece(number, None, f"the record of a run is damaged ({_reason(error)})"))
                continue
            if record.runs and record.runs[0].id not in seen:
                seen.add(record.runs[0].id)
                yield number, record


def _data_in(cell: dict[str, Any]) -> Iterator[Any]:
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        bundle = output.get("data") if isinstance(output, dict) else None
        if isinstance(bundle, dict) and MEDIA_TYPE in bundle:
            data = bundle[MEDIA_TYPE]
            # some programs keep JSON as lines of text
            yield "".join(map(str, data)) if isinstance(data, list) else data


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:_SHOWN]
    return f"{type(error).__name__}: {error}"[:_SHOWN]


@dataclass
class _Thread:
    """A session that is being put together."""

    session: Session
    """Without its messages."""
    slots: list[Message | None] = field(default_factory=list)
    """Its messages at their indices, None for those that no output holds."""

    def whole(self) -> Session:
        """Return the session, with the messages that there are."""
        self.session.messages[:] = [message for message in self.slots if message is not None]
        self.session.runs.sort(key=lambda run: run.started_at)
        if self.session.parent is not None:
            shared = self.slots[: self.session.parent.message_count]
            count = sum(message is not None for message in shared)
            self.session.parent = self.session.parent.model_copy(update={"message_count": count})
        return self.session


@dataclass
class _Found:
    """What has been put together so far."""

    missing: list[MissingPiece] = field(default_factory=list)
    _threads: dict[tuple[str, Any], _Thread] = field(default_factory=dict)
    _before_cuts: dict[str, list[_Thread]] = field(default_factory=dict)
    """By the id of a session: what it held before it was truncated."""

    def sessions(self) -> list[Session]:
        """Return all sessions, in the order in which they were begun."""
        threads = [*self._threads.values(), *chain.from_iterable(self._before_cuts.values())]
        return sorted((thread.whole() for thread in threads), key=lambda session: session.created_at)

    def take(self, cell: int, record: RunRecord) -> None:
        """Do to a session what a run did to it."""
        thread = self._threads.get((record.session_id, record.created_at)) or self._begun(record)
        slots, start = thread.slots, record.start
        if record.summary is not None and not (slots and slots[0] is not None and slots[0].id == record.summary.id):
            kept = start - 1
            self._miss(cell, record, 1 + len(slots[-kept:]) if kept else start)
            slots[:] = [record.summary, *([None] * (kept - len(slots))), *(slots[-kept:] if kept else [])]
        elif len(slots) > start:
            if not {message.id for message in slots[start:] if message} <= {message.id for message in record.messages}:
                self._keep(thread, start)
            del slots[start:]
        else:
            self._miss(cell, record, len(slots))
            slots += [None] * (start - len(slots))
        last = slots[-1] if slots else None
        if last is not None and record.before is not None and last.id != record.before:
            text = f"session {record.session_id!r} was changed by hand before this run, and no output holds how"
            self.missing.append(MissingPiece(cell, record.session_id, text))
        slots.extend(record.messages)
        thread.session.title = record.title
        thread.session.metadata = record.model_dump(mode="json", include={"metadata"})["metadata"]
        thread.session.configs.update(record.configs)
        known = {run.id for run in thread.session.runs}
        thread.session.runs.extend(run for run in record.runs if run.id not in known)

    def _begun(self, record: RunRecord) -> _Thread:
        """Begin a session, with what it has from its origin, if that is there."""
        session = Session(record.session_id, created_at=record.created_at, parent=record.parent)
        thread = self._threads[record.session_id, record.created_at] = _Thread(session)
        origin = None if record.parent is None else self._origin(record.parent, session)
        if origin is not None and record.parent is not None:
            thread.slots.extend(origin.slots[: record.parent.message_count])
            session.runs.extend(run for run in origin.session.runs if run.started_at <= session.created_at)
            session.configs.update(origin.session.configs)
        return thread

    def _origin(self, parent: Parent, fork: Session) -> _Thread | None:
        """Return what a fork was made of: the session as it is, or as it was before it was truncated."""
        own = [thread for (name, _), thread in self._threads.items() if name == parent.session_id]
        known = [thread for thread in own if thread.session.created_at <= fork.created_at][-1:]
        known += reversed(self._before_cuts.get(parent.session_id, []))
        long_enough = (thread for thread in known if len(thread.slots) >= parent.message_count)
        return next(long_enough, known[0] if known else None)

    def _keep(self, thread: _Thread, start: int) -> None:
        """Keep what a session held before it was truncated, as a branch."""
        session, before = thread.session, self._before_cuts.setdefault(thread.session.id, [])
        branch = copy.copy(session)
        branch.id = f"{session.id[:_ID_ROOM]}-before-cut-{len(before) + 1}"
        branch.parent = Parent(session_id=session.id, message_count=start)
        before.append(_Thread(branch, list(thread.slots)))

    def _miss(self, cell: int, record: RunRecord, first: int) -> None:
        """Note that messages from an index to the record's first one are missing, if there are any."""
        if first < record.start:
            what = f"message [{first}]" if record.start - first == 1 else f"messages [{first}] to [{record.start - 1}]"
            text = f"{what} of session {record.session_id!r} stood before this run, and no output holds what added them"
            self.missing.append(MissingPiece(cell, record.session_id, text))
