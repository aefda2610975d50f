"""A store that keeps each session in a notebook, which reads as a conversation and comes back as the same session.

A save replaces the file by one written whole beside it, an addition copies what stands and encodes only what is new.
The notebook belongs to two: the user may edit messages in it, and put cells of their own between them. So the store
remembers our part of what a file held. If other things changed, they are taken over; if our part did, nothing is
written.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cyclops_nb.errors import TranscriptError
from cyclops_nb.messages import Message
from cyclops_nb.session import Session
from cyclops_nb.stores.base import SessionInfo, first_asked
from cyclops_nb.stores.files import Stamp, alone, backed_up, read, replacement, stamp_of
from cyclops_nb.stores.folder import Entry
from cyclops_nb.stores.folder_store import FolderStore, conflict, not_found
from cyclops_nb.stores.lines import Record, encode
from cyclops_nb.stores.notebooks.arranging import FootWriter, arranged
from cyclops_nb.stores.notebooks.cells import cell_id, message_cell
from cyclops_nb.stores.notebooks.foot import RunTexts, foot_cell
from cyclops_nb.stores.notebooks.layout import Layout, extended, layout_of
from cyclops_nb.stores.notebooks.listing import info_in
from cyclops_nb.stores.notebooks.portable import settled
from cyclops_nb.stores.notebooks.reading import Reading
from cyclops_nb.stores.notebooks.reading import read as read_notebook

__all__ = ["NotebookSessionStore"]

_KERNEL_OF = "JPY_SESSION_NAME"
"""Where a Jupyter server tells a kernel the path of its notebook."""


@dataclass(frozen=True)
class _Seen:
    """What a session's file held when this store last read or wrote it."""

    record: Record
    digest: hashlib.blake2b
    """A running digest of the messages."""
    stamp: Stamp
    layout: Layout
    runs: RunTexts
    head: tuple[Any, ...]
    """What is read in the first cell."""
    is_clean: bool = True
    """Whether all of ours stands as this store would write it; not so where something was edited."""
    has_note: bool = False
    """Whether the last cell holds something of the user's, which must not go with it."""


class NotebookSessionStore(FolderStore[_Seen]):
    """Keeps each session in a notebook, ``<directory>/<id>.ipynb``, that reads as a conversation in any viewer.

    A text that is edited in Jupyter is the text that the session goes on from, and the user's own cells stay where they
    stand. Files are never half-written. If someone else changed the session in a file since this store read or wrote
    it, nothing is written and `SessionConflictError` is raised. A file that is no session's is never overwritten.
    A session that takes the id of another conversation replaces it, but the old file is kept as
    ``<id>.backup-<n>.ipynb``.

    Do not take the notebook that you work in: an open tab and a program overwrite each other.

    Parameters
    ----------
    directory : str or path
        The folder; made when first needed.

    Examples
    --------
    >>> import asyncio, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = NotebookSessionStore(folder)
    ...     asyncio.run(store.save(Session("study-1")))
    ...     asyncio.run(store.load("study-1")).id
    'study-1'
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        super().__init__(directory, ".ipynb")
        self._warned: set[str] = set()

    def _load(self, session_id: str, notes: list[str]) -> Session | None:  # noqa: ARG002 - nothing is to be noted
        path = self._folder.path(session_id)
        found = read(path)
        if found is None:
            self._seen[session_id] = None
            return None
        data, info = found
        reading = read_notebook(data, session_id, repr(str(path)))
        self._seen[session_id] = _seen_in(reading, data, info)
        return reading.session

    def _save(self, session: Session, notes: list[str]) -> None:
        path = self._folder.path(session.id)
        _, record = encode(session)
        self._warn_of_open_tab(path, session.id, notes)
        self._folder.make()
        if self._seen.get(session.id) is None:
            self._folder.refuse_case_clash(session.id)
        if self._saved_as_addition(session, record):
            return
        with contextlib.ExitStack() as stack:
            reading, stamp = self._standing(path, session.id)
            if reading is not None:
                note = self._worth_keeping(session, reading)
                if note is not None:
                    backup = self._folder.free_backup(session.id)
                    stack.enter_context(backed_up(path, backup))
                    notes.append(f"{note}; it is kept as {str(backup)!r}")
                if reading.session.created_at != session.created_at:
                    reading = None
            self._write(path, session, record, reading, stamp)

    def _saved_as_addition(self, session: Session, record: Record) -> bool:
        """Save what is new alone, if all else stands in the file already: each run begins with a save."""
        seen = self._seen.get(session.id)
        if seen is None or not seen.is_clean or seen.has_note or seen.record.created_at != session.created_at:
            return False
        count = seen.record.info.message_count
        if seen.head != _head(session) or _digest(session.messages[:count]).digest() != seen.digest.digest():
            return False
        return self._extend(session, session.messages[count:], record, seen)

    def _standing(self, path: Path, session_id: str) -> tuple[Reading | None, Stamp | None]:
        """Return what stands in the file, if it may be written to: what this store has not seen must be a session.

        Raises
        ------
        SessionFormatError, TranscriptError
            If something else stands there.
        SessionConflictError
            If someone else changed the session in it.
        """
        found = read(path)
        if found is None or not found[0]:
            return None, found and stamp_of(found[1])
        data, info = found
        if session_id in self._seen:
            seen = self._seen[session_id]
            if seen is None:
                raise conflict(session_id, path)
            reading = read_notebook(data, session_id, repr(str(path)))
            if stamp_of(info) != seen.stamp and not _is_same(reading, seen):
                raise conflict(session_id, path)
        else:
            reading = read_notebook(data, session_id, repr(str(path)))
        return reading, stamp_of(info)

    def _worth_keeping(self, session: Session, reading: Reading) -> str | None:
        """Say why a save of `session` must not simply take the place of what stands there, or return None if it may."""
        if reading.session.created_at != session.created_at:
            return f"another conversation was stored as {session.id!r}"
        if reading.is_edited and self._seen.get(session.id) is None:
            return f"what was stored as {session.id!r} had been edited since, which this store has not read"
        return None

    def _write(
        self, path: Path, session: Session, record: Record, reading: Reading | None, stamp: Stamp | None
    ) -> None:
        runs = RunTexts()
        layout = arranged(session, _foot_writer(session, record, runs), reading)
        with replacement(path, layout.data) as move, alone(path):
            _check(path, session.id, stamp)
            info = move()
        self._seen[session.id] = _Seen(
            record, _digest(session.messages), stamp_of(info), layout.without_data(), runs, _head(session)
        )

    def _add(self, session: Session, messages: tuple[Message, ...], notes: list[str]) -> None:
        path = self._folder.path(session.id)
        if self._seen.get(session.id) is None:
            self._load(session.id, notes)
        seen = self._seen[session.id]
        if seen is None:
            raise not_found(session.id, path)
        _, record = seen.record.addition(session, messages, 0)
        self._warn_of_open_tab(path, session.id, notes)
        if seen.head == _head(session) and not seen.has_note and self._extend(session, messages, record, seen):
            return
        reading, stamp = self._standing(path, session.id)
        if reading is None:
            raise not_found(session.id, path)
        session.messages[:] = [*reading.session.messages, *messages]
        self._write(path, session, record, reading, stamp)

    def _extend(self, session: Session, messages: Sequence[Message], record: Record, seen: _Seen) -> bool:
        """Write the file with new messages and another last cell, if it is the one that was seen."""
        path = self._folder.path(session.id)
        with contextlib.ExitStack() as stack:
            try:
                file = stack.enter_context(path.open("rb", buffering=0))
            except FileNotFoundError:
                return False
            if stamp_of(os.fstat(file.fileno())) != seen.stamp:
                return False
            style, ids = seen.layout.style, set(seen.layout.ids)
            start = seen.record.info.message_count
            cells = [
                message_cell(style, message, start + place, cell_id(message.id, ids), session.id)
                for place, message in enumerate(messages)
            ]
            runs = seen.runs.copy()
            foot = _foot_writer(session, record, runs)(style, *seen.layout.last)
            asked = first_asked(messages)
            layout = extended(file, seen.layout, ids, cells, foot, None if asked is None else cells[asked])
            move = stack.enter_context(replacement(path, layout.data))
            stack.enter_context(alone(path))
            _check(path, session.id, seen.stamp)
            file.close()  # not every system replaces files that are open
            info = move()
        self._seen[session.id] = replace(
            seen,
            record=record,
            digest=_digest(messages, seen.digest),
            stamp=stamp_of(info),
            layout=layout.without_data(),
            runs=runs,
        )
        return True

    def _warn_of_open_tab(self, path: Path, session_id: str, notes: list[str]) -> None:
        """Note once that the program runs in the very notebook that it writes to."""
        here = os.environ.get(_KERNEL_OF)
        if here and session_id not in self._warned and os.path.realpath(here) == os.path.realpath(path):
            self._warned.add(session_id)
            notes.append(
                f"session {session_id!r} is stored in the notebook that this kernel runs in, {str(path)!r}: "
                "the open tab and the store overwrite each other; run the agent from another notebook"
            )

    def _delete(self, session_id: str) -> None:
        """Remove the notebook of a session; one that does not hold it is somebody else's, and stays.

        Raises
        ------
        SessionFormatError
            If it does not hold the session, or is damaged.
        """
        path = self._folder.path(session_id)
        found = read(path)
        if found is not None and found[0]:
            with contextlib.suppress(TranscriptError):  # it is this session, which an edit has torn
                read_notebook(found[0], session_id, repr(str(path)))
        super()._delete(session_id)

    def _info(self, entry: Entry) -> SessionInfo | None:
        return info_in(entry)


def _check(path: Path, session_id: str, stamp: Stamp | None) -> None:
    """Raise if the file is not the one any more that was looked at."""
    try:
        found = stamp_of(path.stat())
    except FileNotFoundError:
        found = None
    if found != stamp:
        raise conflict(session_id, path)


def _foot_writer(session: Session, record: Record, runs: RunTexts) -> FootWriter:
    return lambda style, name, old: foot_cell(style, session, record.head, record.info, runs, name, old)


def _head(session: Session) -> tuple[Any, ...]:
    return session.title, session.parent


def _digest(messages: Iterable[Message], before: hashlib.blake2b | None = None) -> hashlib.blake2b:
    digest = hashlib.blake2b() if before is None else before.copy()
    for message in messages:
        digest.update(message.model_dump_json().encode())
    return digest


def _seen_in(reading: Reading, data: bytes, info: os.stat_result) -> _Seen:
    session = reading.session
    return _Seen(
        Record.of(session),
        _digest(session.messages),
        Stamp(len(data), info.st_mtime_ns, info.st_ino),
        layout_of(reading),
        RunTexts(),
        _head(session),
        is_clean=not reading.is_edited and not reading.head_is_edited and reading.head is not None,
        has_note=bool(reading.added.get(reading.foot)),
    )


def _is_same(reading: Reading, seen: _Seen) -> bool:
    """Whether our part of a notebook is what it was."""
    found, known = Record.of(reading.session), seen.record
    return (
        _digest(reading.session.messages).digest() == seen.digest.digest()
        and found.created_at == known.created_at
        and found.head == known.head
        and found.runs == known.runs
        and settled(found.configs) == settled(known.configs)  # lists that were put in by hand come back as tuples
    )
