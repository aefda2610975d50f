"""Saves a session while a run extends it, as often as `durability` says.

A store gets a snapshot taken when a step ended, never the live session, and calls of one run never overlap. The first
is ``save``, since the session may have changed since the store last saw it; later ones pass only what is new. After a
failure nothing is known of what the store holds, so the next call is a ``save`` again.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from cyclops_nb.config import Durability
from cyclops_nb.engine.mailbox import is_fault
from cyclops_nb.errors import ConfigError
from cyclops_nb.session import Session

if TYPE_CHECKING:
    from cyclops_nb.stores.base import SessionStore

__all__ = ["GRACE_SECONDS", "Saver", "awaitable", "note_store_error", "uncancelled"]

_T = TypeVar("_T")
GRACE_SECONDS = 10.0
"""How long the last save may take once the run has been cancelled."""


class Saver:
    """The saves of one run.

    Parameters
    ----------
    store : SessionStore or None
        None saves nothing.
    session : Session
        The live session.
    durability : {"async", "sync", "exit"}
        When to save.
    """

    def __init__(self, store: SessionStore | None, session: Session, durability: Durability) -> None:
        self._store = store
        self._session = session
        self._durability = durability
        self._saved_messages: int | None = None
        """How many messages the store holds; None when it must get everything."""
        self._is_replaced = False
        self._pending: asyncio.Task[None] | None = None

    def transcript_replaced(self) -> None:
        """Take note that what the store holds is no beginning of the transcript any more."""
        self._is_replaced = True

    async def step_done(self) -> None:
        """Save a step after which another one follows; raises what the store raised for an earlier step."""
        if self._store is None or self._durability == "exit":
            return
        await self.settle()
        self._pending = asyncio.create_task(self._save())
        if self._durability == "sync":
            await self.settle()

    async def settle(self) -> None:
        """Wait for a save that is under way, and raise its error; a cancel does not cut it, and is raised after it."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        interrupt = await uncancelled(pending)
        if interrupt is None:
            pending.result()
            return
        error = pending.exception() if pending.done() and not pending.cancelled() else None
        if error is not None:
            note_store_error(interrupt, error)
        raise interrupt

    async def run_ended(self) -> None:
        """Save once more, all that has not been saved."""
        if self._store is not None:
            await self._save()

    def _save(self) -> Coroutine[Any, Any, None]:
        """Take the snapshot now, and return the saving of it."""
        known, self._saved_messages = None if self._is_replaced else self._saved_messages, None
        self._is_replaced = False
        return self._save_snapshot(copy.copy(self._session), known)

    async def _save_snapshot(self, snapshot: Session, known: int | None) -> None:
        assert self._store is not None  # noqa: S101 - for the type checker
        try:
            if known is None:
                await awaitable(self._store, "save", self._store.save(snapshot))
            else:
                adding = self._store.add_messages(snapshot, snapshot.messages[known:])
                await awaitable(self._store, "add_messages", adding)
        except BaseException as error:
            if isinstance(error, Exception) or not is_fault(error):
                raise
            raise RuntimeError(f"the store raised {error!r}") from error
        self._saved_messages = len(snapshot.messages)


def awaitable(store: SessionStore, method: str, result: Awaitable[_T]) -> Awaitable[_T]:
    """Return what a method of a store has returned, or raise `ConfigError` if that cannot be awaited."""
    if not inspect.isawaitable(result):
        raise ConfigError(
            f"{type(store).__name__}.{method} must be async: write `async def {method}`, it returned "
            f"{type(result).__name__}"
        )
    return result


def note_store_error(first: BaseException, error: BaseException) -> None:
    """Note on what has ended a run already that the store failed, too."""
    first.add_note(f"The session could not be saved either: {type(error).__name__}: {error}")


async def uncancelled(task: asyncio.Task[Any], *, within: float | None = None) -> BaseException | None:
    """Wait until `task` has ended even if the waiting is stopped, and return what was to stop it.

    That is a cancel, or a Ctrl-C that comes while this is waited for; a second Ctrl-C is raised at once. Its result, or
    its error, is left in the task. A task that takes too long after the stop, or longer than `within` seconds, is given
    up.
    """
    interrupt: BaseException | None = None
    loop = asyncio.get_running_loop()
    deadline = None if within is None else loop.time() + within
    while not task.done():
        left = None if deadline is None else deadline - loop.time()
        if left is not None and left <= 0:
            task.cancel()
            break
        try:
            await asyncio.wait((task,), timeout=left)
        except BaseException as error:
            if isinstance(interrupt, KeyboardInterrupt) and isinstance(error, KeyboardInterrupt):
                task.cancel()
                raise
            interrupt = interrupt or error
            deadline = deadline or loop.time() + GRACE_SECONDS
    return interrupt
