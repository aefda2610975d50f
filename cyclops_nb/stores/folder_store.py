"""What all stores that keep a file for each session do alike.

The store object remembers what each file held when it last read or wrote it. That is how it knows what is new, and
how it finds out that someone else wrote to the file: then it refuses, rather than mix two conversations or lose one.
Files are read and written in threads, for each session one after the other.
"""

from __future__ import annotations

import abc
import builtins
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from cyclops_nb.errors import SessionConflictError, SessionFormatError, SessionNotFoundError, TranscriptError
from cyclops_nb.messages import Message
from cyclops_nb.progress import progress
from cyclops_nb.session import Session
from cyclops_nb.stores.base import SessionInfo, newest_first
from cyclops_nb.stores.files import stands
from cyclops_nb.stores.folder import Entry, SessionFolder
from cyclops_nb.stores.ids import check_id
from cyclops_nb.stores.lines import snapshot
from cyclops_nb.stores.turns import Turns
from cyclops_nb.threads import run_in_thread

__all__ = ["FolderStore", "conflict", "not_found"]

_T = TypeVar("_T")
_S = TypeVar("_S")


class FolderStore(abc.ABC, Generic[_S]):
    """Keeps each session in a file of one folder; what such a file holds is the subclass's own.

    Parameters
    ----------
    directory : str or path
        The folder; made when first needed.
    suffix : str
        What the files' names end with.
    """

    def __init__(self, directory: str | os.PathLike[str], suffix: str) -> None:
        self._folder = SessionFolder(directory, suffix)
        self._turns = Turns()
        self._seen: dict[str, _S | None] = {}  # None: looked for, and not there

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.directory)!r})"

    @property
    def directory(self) -> Path:
        """The folder."""
        return self._folder.directory

    async def load(self, session_id: str) -> Session | None:
        """Return the session stored under `session_id`, or None if there is none.

        Raises
        ------
        InputError
            A ValueError too: if no session can have that id.
        SessionFormatError
            If the file is damaged, or holds another session.
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

        Parameters
        ----------
        backups : bool
            Whether to show the older conversations, too, that were kept when another one took their id.
        """
        infos, notes = await run_in_thread(self._list, backups)
        for note in notes:
            warnings.warn(note, UserWarning, stacklevel=2)
        return infos

    @abc.abstractmethod
    def _load(self, session_id: str, notes: builtins.list[str]) -> Session | None: ...

    @abc.abstractmethod
    def _save(self, session: Session, notes: builtins.list[str]) -> None: ...

    @abc.abstractmethod
    def _add(self, session: Session, messages: tuple[Message, ...], notes: builtins.list[str]) -> None: ...

    @abc.abstractmethod
    def _info(self, entry: Entry) -> SessionInfo | None:
        """Return what there is to tell about a file, or None if it is none of the store's."""

    async def _in_turn(self, session_id: str, work: Callable[[builtins.list[str]], _T]) -> _T:
        """Run `work` in a thread; what it notes is said as warnings here, where filters and cells know the caller."""
        notes: builtins.list[str] = []
        result = await self._turns.run(session_id, lambda: work(notes))
        for note in notes:
            warnings.warn(note, UserWarning, stacklevel=3)
        return result

    def _delete(self, session_id: str) -> None:
        path = self._folder.path(session_id)
        if stands(path):
            path.unlink(missing_ok=True)
        self._seen[session_id] = None

    def _list(self, backups: bool) -> tuple[builtins.list[SessionInfo], builtins.list[str]]:
        infos: builtins.list[SessionInfo] = []
        notes: builtins.list[str] = []
        entries = [entry for entry in self._folder.entries() if backups or not entry.backup]
        for entry in progress(entries, f"Reading {self.directory.name}", unit="sessions"):
            try:
                info = self._info(entry)
            except FileNotFoundError:
                continue  # deleted meanwhile
            except (OSError, SessionFormatError, TranscriptError) as error:
                notes.append(f"left out: {error}")
            else:
                infos.extend(() if info is None else (info,))
        return newest_first(infos), notes


def conflict(session_id: str, path: Path) -> SessionConflictError:
    """Return the error for a file that someone else has changed."""
    return SessionConflictError(
        f"session {session_id!r} cannot be stored: {str(path)!r} was changed by someone else since this store "
        "last read or wrote it, and was left as it is; load it again to go on from there, or save session.fork() to "
        "keep both"
    )


def not_found(session_id: str, path: Path) -> SessionNotFoundError:
    """Return the error for a session that was never stored."""
    return SessionNotFoundError(
        f"no session {session_id!r} is stored (there is no {str(path)!r}), so nothing can be added: save it first"
    )
