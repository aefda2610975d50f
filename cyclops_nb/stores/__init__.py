"""Where sessions are kept between runs and processes."""

from __future__ import annotations

from cyclops_nb.stores.base import SessionInfo, SessionStore
from cyclops_nb.stores.file import FileSessionStore, read_session
from cyclops_nb.stores.memory import InMemorySessionStore

__all__ = ["FileSessionStore", "InMemorySessionStore", "SessionInfo", "SessionStore", "read_session"]
