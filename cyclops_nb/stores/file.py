"""A store that keeps each session in a JSON lines file.

A save replaces the file by one written whole beside it; an addition is one write at the end, flushed to the disk, and
costs the same however long the conversation is.
"""

from __future__ import annotations

import builtins
import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from cyclops_nb.errors import SessionFormatError
from cyclops_nb.messages import Message
from cyclops_nb.session import Session
from cyclops_nb.stores.base import SessionInfo
from cyclops_nb.stores.files import Content, append, backed_up, read, replacement
from cyclops_nb.stores.folder import Entry
from cyclops_nb.stores.folder_store import FolderStore, conflict, not_found
from cyclops_nb.stores.lines import Record, encode, parse, to_session
from cyclops_nb.stores.listing import info_in

__all__ = ["FileSessionStore", "torn"]


@dataclass(frozen=True)
class _Seen:
    """What a session's file held when this store last read or wrote it."""

    record: Record
    content: Content
    end: int
    """The byte up to which it is sound."""
    closed: bool = True
    """Whether its last sound line ends with a line feed."""


class FileSessionStore(FolderStore[_Seen]):
    """Keeps each session in ``<directory>/<id>.jsonl``: the session on the first line, then a line for each addition.

    Files are never half-written. If someone else changed a file since this store read or wrote it, nothing is written
    and `SessionConflictError` is raised. A session that takes the id of another conversation (a notebook that is run
    anew makes ``Session("study-1")`` again) replaces it, but the old file is kept as ``<id>.backup-<n>.jsonl``.

    A last line that is torn, as a crash leaves it, is left out with a warning when the session is loaded. A list reads
    no more of each file than its end, where the last addition says what there is to tell. It is believed if it stands
    where it was written: an edit by hand that keeps the length of the file is not noticed there. Files that end
    otherwise (a torn line, an edit, another program's) are read whole.

    Parameters
    ----------
    directory : str or path
        The folder; made when first needed.

    Examples
    --------
    >>> import asyncio, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = FileSessionStore(folder)
    ...     asyncio.run(store.save(Session("study-1")))
    ...     asyncio.run(store.load("study-1")).id
    'study-1'
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        super().__init__(directory, ".jsonl")

    def _load(self, session_id: str, notes: builtins.list[str]) -> Session | None:
        path = self._folder.path(session_id)
        found = read(path)
        if found is None:
            self._seen[session_id] = None
            return None
        data, info = found
        parsed = parse(data, where := repr(str(path)))
        session = to_session(parsed, session_id, where)
        self._seen[session_id] = _Seen(Record.of(session), Content.of(data, info), parsed.end, parsed.closed)
        if parsed.end < len(data):
            notes.append(torn(where))
        return session

    def _save(self, session: Session, notes: builtins.list[str]) -> None:
        path = self._folder.path(session.id)
        data, record = encode(session)
        self._folder.make()
        if self._seen.get(session.id) is None:
            self._folder.refuse_case_clash(session.id)
        with contextlib.ExitStack() as stack:
            move = stack.enter_context(replacement(path, data))
            if path.is_file():
                self._check(path, session.id, path.stat())
                note = self._worth_keeping(path, session)
                if note is not None:
                    backup = self._folder.free_backup(session.id)
                    stack.enter_context(backed_up(path, backup))
                    notes.append(f"{note}; it is kept as {str(backup)!r}")
            self._seen[session.id] = _Seen(record, Content.of(data, move()), len(data))

    def _worth_keeping(self, path: Path, session: Session) -> str | None:
        """Say why a save of `session` must not simply replace what stands at `path`, or return None if it may."""
        seen = self._seen.get(session.id)
        if seen is None:
            data = path.read_bytes()
            if not data:
                return None
            try:
                parsed = parse(data, "")
                created_at = to_session(parsed, session.id, "").created_at
            except SessionFormatError:
                return f"what was stored as {session.id!r} cannot be read by this version"
            if parsed.end < len(data):
                return f"what was stored as {session.id!r} ends with a torn line"
        else:
            created_at = seen.record.created_at
        return None if created_at == session.created_at else f"another conversation was stored as {session.id!r}"

    def _add(self, session: Session, messages: tuple[Message, ...], notes: builtins.list[str]) -> None:
        path = self._folder.path(session.id)
        if self._seen.get(session.id) is None:
            self._load(session.id, notes)
        seen = self._seen[session.id]
        if seen is None:
            raise not_found(session.id, path)
        gap = b"" if seen.closed else b"\n"
        line, record = seen.record.addition(session, messages, seen.end + len(gap))
        data = gap + line
        try:
            info = append(path, data, seen.end, lambda found: self._check(path, session.id, found))
            content = None if info is None else _after(seen, data, path, info)
        except FileNotFoundError:
            raise not_found(session.id, path) from None
        if content is None:
            raise conflict(session.id, path)
        self._seen[session.id] = _Seen(record, content, seen.end + len(data))

    def _check(self, path: Path, session_id: str, info: os.stat_result) -> None:
        """Raise if this store knows what the file held and it holds something else now."""
        if session_id not in self._seen:
            return
        seen = self._seen[session_id]
        if seen is None or not seen.content.still_in(path, info):
            raise conflict(session_id, path)

    def _info(self, entry: Entry) -> SessionInfo | None:
        return info_in(entry)


def _after(seen: _Seen, data: bytes, path: Path, info: os.stat_result) -> Content | None:
    """Return what the file holds after `data` was added, or None if someone put another file in its place meanwhile."""
    if seen.end < seen.content.stamp.size:
        content = Content.of(path.read_bytes(), info)  # a torn line was cut off: rare, so it may take longer
    else:
        content = seen.content.followed_by(data, info)
    return content if content.still_in(path, path.stat()) else None


def torn(where: str) -> str:
    """Return the words for a last line that was left out."""
    return f"{where} ends with a torn line, which was left out: a program was stopped while it wrote it"
