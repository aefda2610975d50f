"""A store that keeps each session in a JSON lines file.

A save replaces the file by one written whole beside it; an addition is one write at the end, flushed to the disk, and
costs the same however long the conversation is. All of it happens in threads, one after the other for each session.

The store object remembers what each file held when it last read or wrote it. That is how it knows what is new, and
how it finds out that someone else wrote to the file: then it refuses, rather than mix two conversations or lose one.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cyclops_nb.errors import SessionConflictError, SessionFormatError, SessionNotFoundError
from cyclops_nb.messages import Message
from cyclops_nb.session import Session
from cyclops_nb.stores.base import SessionInfo, newest_first
from cyclops_nb.stores.files import Content, append, backed_up, read, replacement, stands
from cyclops_nb.stores.folder import SessionFolder
from cyclops_nb.stores.ids import check_id
from cyclops_nb.stores.lines import Record, encode, parse, snapshot, to_session
from cyclops_nb.stores.listing import info_in
from cyclops_nb.stores.turns import Turns
from cyclops_nb.threads import run_in_thread

__all__ = ["FileSessionStore", "read_session"]

_T = TypeVar("_T")


@dataclass(frozen=True)
class _Seen:
    """What a session's file held when this store last read or wrote it."""

    record: Record
    content: Content
    end: int
    """The byte up to which it is sound."""
    closed: bool = True
    """Whether its last sound line ends with a line feed."""


def read_session(path: str | os.PathLike[str]) -> Session:
    """Return the session in a file of a `FileSessionStore`, such as a backup, wherever it stands.

    A last line that is torn is left out with a warning.

    Parameters
    ----------
    path : str or path
        The file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    SessionFormatError
        If it holds no session, or is damaged elsewhere than in its last line.

    Examples
    --------
    >>> import asyncio, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(FileSessionStore(folder).save(Session("study-1", title="First try")))
    ...     read_session(f"{folder}/study-1.jsonl").title
    'First try'
    """
    data, where = Path(path).read_bytes(), repr(str(path))
    parsed = parse(data, where)
    session = to_session(parsed, None, where)
    if parsed.end < len(data):
        warnings.warn(_torn(where), UserWarning, stacklevel=2)
    return session


class FileSessionStore:
    """Keeps each session in ``<directory>/<id>.jsonl``: the session on the first line, then a line for each addition.

    Files are never half-written. If someone else changed a file since this store read or wrote it, nothing is written
    and `SessionConflictError` is raised. A session that takes the id of another conversation (a notebook that is run
    anew makes ``Session("study-1")`` again) replaces it, but the old file is kept as ``<id>.backup-<n>.jsonl``.

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
        self._folder = SessionFolder(directory, ".jsonl")
        self._turns = Turns()
        self._seen: dict[str, _Seen | None] = {}  # None: looked for, and not there

    def __repr__(self) -> str:
        return f"FileSessionStore({str(self.directory)!r})"

    @property
    def directory(self) -> Path:
        """The folder."""
        return self._folder.directory

    async def load(self, session_id: str) -> Session | None:
        """Return the session stored under `session_id`, or None if there is none.

        A last line that is torn, as a crash leaves it, is left out with a warning.

        Raises
        ------
        InputError
            A ValueError too: if no session can have that id.
        SessionFormatError
            If the file is damaged elsewhere, or holds another session.
        """
        check_id(session_id)
        return await self._in_turn(session_id, lambda notes: self._load(session_id, notes))

    async def save(self, session: Session) -> None:
        """Store `session` in place of what stands under its id.

        Raises
        ------
        InputError
            A ValueError too: if its id or something in it cannot be stored.
        SessionConflictError
            If someone else changed the file since this store last read or wrote it.
        OSError
            If it cannot be written; what stood there is still there.
        """
        session_id, stored = check_id(session.id), snapshot(session)
        await self._in_turn(session_id, lambda notes: self._save(stored, notes))

    async def add_messages(self, session: Session, messages: Sequence[Message]) -> None:
        """Add `messages` to the end of a session saved before, and store its usage.

        Parameters
        ----------
        session : Session
            Whose id says where to add. Its runs, title, metadata and so on are stored, its `messages` are not.
        messages : sequence of Message
            The new messages; none if only the session's runs are new.

        Raises
        ------
        SessionNotFoundError
            If no session is stored under the id.
        SessionConflictError
            If someone else changed the file since this store last read or wrote it, or it holds another conversation.
        InputError
            A ValueError too: if the id or something in it cannot be stored.
        OSError
            If it cannot be written; then nothing of it was.
        """
        session_id, stored, new = check_id(session.id), snapshot(session), tuple(messages)
        await self._in_turn(session_id, lambda notes: self._add(stored, new, notes))

    async def delete(self, session_id: str) -> None:
        """Remove the session stored under `session_id`, but not its backups; nothing happens if there is none.

        That is whatever stands there now, also if someone else has changed it.

        Raises
        ------
        InputError
            A ValueError too: if no session can have that id.
        """
        check_id(session_id)
        await self._in_turn(session_id, lambda _: self._delete(session_id))

    async def list(self, backups: bool = False) -> builtins.list[SessionInfo]:
        """Return what is stored, the latest first. Files that cannot be read are left out with a warning.

        Of each file no more than its end is read, where the last addition says what there is to tell. It is believed if
        it stands where it was written: an edit by hand that keeps the length of the file is not noticed here. Files
        that end otherwise (a torn line, an edit, another program's) are read whole.

        Parameters
        ----------
        backups : bool
            Whether to show the older conversations, too, that were kept when another one took their id.
        """
        infos, notes = await run_in_thread(self._list, backups)
        for note in notes:
            warnings.warn(note, UserWarning, stacklevel=2)
        return infos

    async def _in_turn(self, session_id: str, work: Callable[[builtins.list[str]], _T]) -> _T:
        """Run `work` in a thread; what it notes is said as warnings here, where filters and cells know the caller."""
        notes: builtins.list[str] = []
        result = await self._turns.run(session_id, lambda: work(notes))
        for note in notes:
            warnings.warn(note, UserWarning, stacklevel=3)
        return result

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
            notes.append(_torn(where))
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
            self._seen[session.id] = _Seen(record, move(), len(data))

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
            raise _not_found(session.id, path)
        gap = b"" if seen.closed else b"\n"
        line, record = seen.record.addition(session, messages, seen.end + len(gap))
        data = gap + line
        try:
            info = append(path, data, seen.end, lambda found: self._check(path, session.id, found))
            content = None if info is None else _after(seen, data, path, info)
        except FileNotFoundError:
            raise _not_found(session.id, path) from None
        if content is None:
            raise _conflict(session.id, path)
        self._seen[session.id] = _Seen(record, content, seen.end + len(data))

    def _check(self, path: Path, session_id: str, info: os.stat_result) -> None:
        """Raise if this store knows what the file held and it holds something else now."""
        if session_id not in self._seen:
            return
        seen = self._seen[session_id]
        if seen is None or not seen.content.still_in(path, info):
            raise _conflict(session_id, path)

    def _delete(self, session_id: str) -> None:
        path = self._folder.path(session_id)
        if stands(path):
            path.unlink(missing_ok=True)
        self._seen[session_id] = None

    def _list(self, backups: bool) -> tuple[builtins.list[SessionInfo], builtins.list[str]]:
        infos: builtins.list[SessionInfo] = []
        notes: builtins.list[str] = []
        for entry in self._folder.entries():
            if entry.backup and not backups:
                continue
            try:
                info = info_in(entry)
            except FileNotFoundError:
                continue  # deleted meanwhile
            except (OSError, SessionFormatError) as error:
                notes.append(f"left out: {error}")
            else:
                infos.extend(() if info is None else (info,))
        return newest_first(infos), notes


def _after(seen: _Seen, data: bytes, path: Path, info: os.stat_result) -> Content | None:
    """Return what the file holds after `data` was added, or None if someone put another file in its place meanwhile."""
    if seen.end < seen.content.stamp.size:
        content = Content.of(path.read_bytes(), info)  # a torn line was cut off: rare, so it may take longer
    else:
        content = seen.content.followed_by(data, info)
    return content if content.still_in(path, path.stat()) else None


def _torn(where: str) -> str:
    return f"{where} ends with a torn line, which was left out: a program was stopped while it wrote it"


def _conflict(session_id: str, path: Path) -> SessionConflictError:
    return SessionConflictError(
        f"session {session_id!r} cannot be stored: {str(path)!r} was changed by someone else since this store "
        "last read or wrote it, and was left as it is; load it again to go on from there, or save session.fork() to "
        "keep both"
    )


def _not_found(session_id: str, path: Path) -> SessionNotFoundError:
    return SessionNotFoundError(
        f"no session {session_id!r} is stored (there is no {str(path)!r}), so nothing can be added: save it first"
    )
