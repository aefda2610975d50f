"""Where sessions are kept between runs and processes."""

from __future__ import annotations

from cyclops_nb.stores.base import SessionInfo, SessionStore
from cyclops_nb.stores.file import FileSessionStore
from cyclops_nb.stores.memory import InMemorySessionStore
from cyclops_nb.stores.notebook import NotebookSessionStore
from cyclops_nb.stores.reading import read_session

__all__ = [
    "FileSessionStore",
    "InMemorySessionStore",
    "NotebookSessionStore",
    "SessionInfo",
    "SessionStore",
    "read_session",
]
