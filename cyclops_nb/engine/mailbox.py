"""Brings what happens in tasks to the one generator that tells of it.

Completions and tools run in tasks of their own; the engine only reads. So a transcript changes in one place, between
two events, and stopping the reader at any event leaves exactly what was told so far.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection
from typing import Any

from cyclops_nb.events import Event

__all__ = ["CLEANUP_SECONDS", "Mailbox", "is_fault", "is_own_cancel", "stop_tasks"]

CLEANUP_SECONDS = 5.0
"""How long tasks that were cancelled may take to end."""


class Mailbox:
    """Events on their way from tasks to the reader, all on one event loop."""

    def __init__(self) -> None:
        self._items: deque[Event] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def put(self, event: Event) -> None:
        """Leave an event for the reader."""
        self._items.append(event)
        self._wake()

    def _wake(self, _task: object = None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def until_done(
        self, tasks: Collection[asyncio.Task[Any]], is_over: Callable[[], bool] = lambda: False
    ) -> AsyncGenerator[Event, None]:
        """Yield events until all `tasks` are done, or `is_over` says so.

        Parameters
        ----------
        tasks : collection of tasks
            Their results and exceptions are left for the caller to look at.
        is_over : callable
            Asked whenever something has happened.
        """
        for task in tasks:
            task.add_done_callback(self._wake)
        while True:
            # made before looking, so that nothing that happens from here on is missed
            self._waiter = asyncio.get_running_loop().create_future()
            while self._items:
                yield self._items.popleft()
            if is_over() or all(task.done() for task in tasks):
                break
            await self._waiter
        while self._items:
            yield self._items.popleft()


def is_own_cancel(error: BaseException) -> bool:
    """Say whether a `CancelledError` was raised by the code of the running task, which nobody has cancelled."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and not task.cancelling()


def is_fault(error: BaseException) -> bool:
    """Say whether code of the user's has failed with `error`, as opposed to being stopped by it from outside."""
    if isinstance(error, asyncio.CancelledError):
        return is_own_cancel(error)
    if isinstance(error, KeyboardInterrupt):  # Ctrl-C only ever comes to the main thread
        return threading.current_thread() is not threading.main_thread()
    return not isinstance(error, GeneratorExit)


async def stop_tasks(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended, but not for ever: a tool may refuse to be cancelled."""
    pending = {task for task in tasks if not task.done()}
    for task in pending:
        task.cancel()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + CLEANUP_SECONDS
    interrupt: BaseException | None = None
    while pending and (left := deadline - loop.time()) > 0:
        try:
            _, pending = await asyncio.wait(pending, timeout=left)
        except BaseException as error:  # noqa: BLE001 - we are being stopped already: once more changes nothing
            interrupt = interrupt or error
            pending = {task for task in pending if not task.done()}
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # looked at, so that asyncio does not report it as never retrieved
    if interrupt is not None:
        raise interrupt
