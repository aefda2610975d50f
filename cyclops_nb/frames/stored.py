"""Loads all sessions of a store, for a caller that cannot await.

Looking at a store changes nothing in it. A store of files remembers what it has read, so as to notice when someone else
changes it; its files are therefore read past it, or a frame would make it believe that its user has seen the change.
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeGuard, TypeVar

from cyclops_nb.errors import SessionFormatError, TranscriptError
from cyclops_nb.portal import portal
from cyclops_nb.progress import progress
from cyclops_nb.session import Session
from cyclops_nb.stores.base import SessionInfo
from cyclops_nb.stores.folder_store import FolderStore
from cyclops_nb.stores.reading import read_session

__all__ = ["ListedStore", "is_store", "list_all", "load_all"]

_T = TypeVar("_T")


class ListedStore(Protocol):
    """A store that tells what is in it."""

    async def list(self) -> list[SessionInfo]:
        """Return what there is to tell about each session."""
        ...

    async def load(self, session_id: str) -> Session | None:
        """Return a session, or None if there is none under that id."""
        ...


def is_store(value: Any) -> TypeGuard[ListedStore]:
    """Return whether all sessions of a value can be loaded."""
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in ("list", "load"))


def list_all(store: ListedStore) -> list[SessionInfo]:
    """Return what a store tells about each of its sessions; none is loaded."""
    return list(_await(store.list))


def load_all(store: ListedStore) -> list[Session]:
    """Return the sessions of a store in the order of its list; what cannot be read is left out with a warning."""
    infos = progress(_await(store.list), "Loading sessions", unit="sessions")
    return [session for info in infos if (session := _load(store, info)) is not None]


def _load(store: ListedStore, info: SessionInfo) -> Session | None:
    """Return a session, or None if it cannot be read, or is deleted meanwhile."""
    try:
        if isinstance(store, FolderStore) and isinstance(info.path, Path):
            return read_session(info.path)
        return _await(lambda: store.load(info.id))
    except FileNotFoundError:
        return None
    except (OSError, SessionFormatError, TranscriptError) as error:
        warnings.warn(f"left out: {error}", UserWarning, stacklevel=2)
        return None


def _await(call: Callable[[], Awaitable[_T]]) -> _T:
    async def called() -> _T:
        return await call()

    return portal().run(called())
