"""Which sessions a frame is of, and which of them shows what several have.

A fork holds the runs and messages of its origin, under the same ids. Shown in both they would be paid twice in every
sum, so each is shown where it was made, whatever the order of the sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cyclops_nb.errors import InputError
from cyclops_nb.session import Session

__all__ = ["Holders", "find_sessions"]


class Holders:
    """Decides which session shows what several have: the one it was made in, else the first."""

    def __init__(self, everywhere: bool) -> None:
        self._everywhere = everywhere
        self._first: dict[str, int] = {}
        self._own: dict[str, int] = {}
        self._in_session: dict[tuple[str, str], int] = {}

    def note(self, session: Session, items: Iterable[tuple[str, bool]]) -> None:
        """Take the ids of what a session holds, and whether each is inherited."""
        for item_id, inherited in items:
            self._first.setdefault(item_id, id(session))
            self._in_session.setdefault((session.id, item_id), id(session))
            if not inherited:
                self._own.setdefault(item_id, id(session))

    def shows(self, session: Session, item_id: str) -> bool:
        """Return whether `session` shows the item."""
        if self._everywhere:  # a session and a loaded copy of it are one
            return self._in_session.get((session.id, item_id)) == id(session)
        return self._own.get(item_id, self._first.get(item_id)) == id(session)


def find_sessions(sources: Iterable[Any]) -> Iterator[Session]:
    """Yield each session of the sources once."""
    seen: set[int] = set()
    for session in _flattened(sources):
        if id(session) not in seen:
            seen.add(id(session))
            yield session


def _flattened(sources: Iterable[Any]) -> Iterator[Session]:
    for source in sources:
        if isinstance(source, Session):
            yield source
        elif isinstance(getattr(source, "session", None), Session):
            yield source.session
        elif isinstance(source, Iterable) and not isinstance(source, str | bytes | Mapping):
            yield from _flattened(source)
        else:
            remedy = "give sessions, responses of an agent, or lists of these"
            if callable(getattr(source, "list", None)) and callable(getattr(source, "load", None)):
                remedy = "of a store, give [await store.load(info.id) for info in await store.list()]"
            raise InputError(f"a {type(source).__name__} has no runs or messages to show: {remedy}")
