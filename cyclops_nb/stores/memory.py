"""A store that lasts as long as the process.

It keeps the same lines as `FileSessionStore` writes, not objects: so a session that it takes is one that a file can
hold too, what it gives back is as fresh as from a file, and trying something out with it proves something.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from cyclops_nb.errors import InputError, SessionNotFoundError
from cyclops_nb.messages import Message
from cyclops_nb.session import Session
from cyclops_nb.stores.base import SessionInfo, newest_first
from cyclops_nb.stores.ids import check_id
from cyclops_nb.stores.lines import Record, encode, parse, snapshot, to_session

__all__ = ["InMemorySessionStore"]


@dataclass(frozen=True)
class _Stored:
    record: Record
    lines: tuple[bytes, ...]


class InMemorySessionStore:
    """Keeps sessions in the process.

    What is stored is a copy: later changes of a session do not reach it, and each `load` gives a new object. It can be
    used from any number of event loops and threads.

    Examples
    --------
    >>> import asyncio
    >>> store = InMemorySessionStore()
    >>> asyncio.run(store.save(Session("study-1")))
    >>> asyncio.run(store.load("study-1")).id
    'study-1'
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stored: dict[str, _Stored] = {}

    def __repr__(self) -> str:
        return f"<InMemorySessionStore of {len(self._stored)} sessions>"

    async def load(self, session_id: str) -> Session | None:
        """Return the session stored under `session_id`, or None if there is none.

        Raises
        ------
        InputError
            A ValueError too: if no session can have that id.
        """
        stored = self._stored.get(check_id(session_id))
        if stored is None:
            return None
        where = f"session {session_id!r} in memory"
        return to_session(parse(b"".join(stored.lines), where), session_id, where)

    async def save(self, session: Session) -> None:
        """Store `session` in place of what stands under its id.

        Raises
        ------
        InputError
            A ValueError too: if its id or something in it cannot be stored.
        """
        session_id = check_id(session.id)
        line, record = encode(snapshot(session))
        with self._lock:
            self._refuse_case_clash(session_id)
            self._stored[session_id] = _Stored(record, (line,))

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
            If no session was saved under the id.
        SessionConflictError
            If another conversation was saved under the id.
        InputError
            A ValueError too: if the id or something in it cannot be stored.
        """
        session_id, new = check_id(session.id), snapshot(session)
        with self._lock:
            stored = self._stored.get(session_id)
            if stored is None:
                raise SessionNotFoundError(
                    f"no session {session_id!r} was saved, so nothing can be added: save it first"
                )
            line, record = stored.record.addition(new, messages, sum(map(len, stored.lines)))
            self._stored[session_id] = _Stored(record, (*stored.lines, line))

    async def delete(self, session_id: str) -> None:
        """Remove the session stored under `session_id`; nothing happens if there is none.

        Raises
        ------
        InputError
            A ValueError too: if no session can have that id.
        """
        self._stored.pop(check_id(session_id), None)

    async def list(self, backups: bool = False) -> builtins.list[SessionInfo]:  # noqa: ARG002 - as all stores have it
        """Return what is stored, the latest first.

        Parameters
        ----------
        backups : bool
            Changes nothing here: this store keeps none.
        """
        with self._lock:
            return newest_first(stored.record.info for stored in self._stored.values())

    def _refuse_case_clash(self, session_id: str) -> None:
        if session_id in self._stored:
            return
        for other in self._stored:
            if other.lower() == session_id.lower():
                raise InputError(
                    f"session {session_id!r} cannot be saved: {other!r} is stored already, which differs by case "
                    "alone, and many disks cannot hold both; take another id"
                )
