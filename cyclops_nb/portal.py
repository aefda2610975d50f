"""The library's own event loop, in a thread, for the entry points that are not async.

A notebook's kernel runs on an event loop already. Running a nested call on that loop loses kernel messages, so sync
forms and ``start()`` never touch it: their runs live on one private loop in a thread, and the caller's thread waits.

Only code that runs on the private loop itself (an async tool that calls ``agent.run``) cannot wait for another thread.
For it the loop is made re-entrant by ``nest_asyncio``, at that moment. The patch concerns a private class of loop, and
what ``nest_asyncio`` changes in the ``asyncio`` module for everybody is put back at once.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401 - what it does at exit is to come after what we do
import contextlib
import contextvars
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sized
from typing import Any, TypeVar

from cyclops_nb.errors import CyclopsError

__all__ = ["Portal", "portal"]

_T = TypeVar("_T")
if sys.platform == "win32":
    from asyncio import ProactorEventLoop as _BaseLoop
else:
    from asyncio import SelectorEventLoop as _BaseLoop
_SHUTDOWN_SECONDS = 5.0
_LAST_NESTABLE = (3, 13)


class _PortalLoop(_BaseLoop):
    """A class of its own, so that making it re-entrant concerns no other loop."""


class Portal:
    """One loop in one thread, started at its first use."""

    def __init__(self) -> None:
        self._loop = _PortalLoop()
        self._thread = threading.Thread(target=self._serve, name="cyclops-nb", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while True:
            try:
                self._loop.run_forever()
            except (KeyboardInterrupt, SystemExit):
                continue  # asyncio lets these through, from tasks that have them as their errors already
            return

    @property
    def is_here(self) -> bool:
        """Whether the calling code runs on the portal's thread."""
        return threading.current_thread() is self._thread

    def call(self, function: Callable[[], object]) -> None:
        """Have `function` called on the loop, soon, from whatever thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the interpreter is going down
            self._loop.call_soon_threadsafe(function)

    def spawn(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a task on the loop, in the caller's context."""
        context = contextvars.copy_context()

        def begin() -> None:
            task = self._loop.create_task(make(), context=context)
            _KEPT.add(task)
            task.add_done_callback(_KEPT.discard)

        self._loop.call_soon_threadsafe(begin)

    def run(self, waiting: Coroutine[Any, Any, _T]) -> _T:
        """Run a short coroutine on the loop and return its result; the calling thread waits."""
        results: list[_T] = []
        errors: list[BaseException] = []
        ended = threading.Event()

        async def work() -> None:
            try:
                results.append(await waiting)
            except BaseException as error:  # noqa: BLE001 - raised again on the thread that asked
                errors.append(error)
            finally:
                ended.set()

        if self.is_here:
            self.run_nested(work())
        else:
            self.spawn(work)
            ended.wait()
        if errors:
            raise errors[0]
        return results[0]

    def run_nested(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Run the loop from within itself until `waiting` is over; nested calls end last in, first out."""
        if sys.version_info[:2] > _LAST_NESTABLE:
            waiting.close()
            raise CyclopsError(
                "an async tool cannot call a sync entry point on this version of Python: use await agent.arun(...)"
            )
        with _asyncio_left_alone():
            import nest_asyncio

            nest_asyncio.apply(self._loop)
        queue: Sized = self._loop._ready  # type: ignore[attr-defined]  # noqa: SLF001
        count = len(queue)
        try:
            self._loop.run_until_complete(waiting)
        finally:
            # asyncio's own loop, below the first nested call, has counted these and takes as many
            for _ in range(count - len(queue)):
                self._loop.call_soon(lambda: None)

    def end_runs(self) -> None:
        """Cancel all runs, and wait until their sessions are in order and saved."""
        if self._loop.is_closed():
            return
        ended = threading.Event()

        async def end() -> None:
            try:
                await _cancel_others()
            finally:
                ended.set()

        self.spawn(end)
        ended.wait(_SHUTDOWN_SECONDS + 1)

    def shut_down(self) -> None:
        """End all runs, close what the loop holds, and the loop."""
        if self._loop.is_closed():
            return
        ended = threading.Event()

        async def wind_up() -> None:
            await _cancel_others()
            await self._loop.shutdown_asyncgens()
            ended.set()
            self._loop.stop()

        self.spawn(wind_up)
        if ended.wait(_SHUTDOWN_SECONDS + 1):
            self._thread.join(1)
            if not self._thread.is_alive():
                self._loop.close()


async def _cancel_others() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_SHUTDOWN_SECONDS)


_KEPT: set[asyncio.Task[None]] = set()
"""A loop only keeps weak references to its tasks."""
_LOCK = threading.Lock()
_portal: Portal | None = None


def portal() -> Portal:
    """Return the portal of this process."""
    global _portal  # noqa: PLW0603 - there is one by design
    with _LOCK:
        if _portal is None:
            _portal = Portal()
        return _portal


def _shut_down() -> None:
    if _portal is not None:
        _portal.shut_down()


def _end_runs() -> None:
    if _portal is not None:
        _portal.end_runs()


def _forget() -> None:
    """Begin anew in a forked process, which has no copy of the thread."""
    global _portal, _LOCK  # noqa: PLW0603 - as above
    _portal = None
    _LOCK = threading.Lock()


atexit.register(_shut_down)
# before the pools of concurrent.futures are shut down, and threads refused: a store may need them for its last save
getattr(threading, "_register_atexit", atexit.register)(_end_runs)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@contextlib.contextmanager
def _asyncio_left_alone() -> Iterator[None]:
    """Put back what ``nest_asyncio.apply`` changes for all loops: module names, and a method of the policy."""
    places: list[Any] = [asyncio, asyncio.tasks, asyncio.futures, asyncio.events]
    places.append(type(asyncio.get_event_loop_policy()))
    if "tornado.concurrent" in sys.modules:
        places.append(sys.modules["tornado.concurrent"])
    before = [dict(vars(place)) for place in places]
    try:
        yield
    finally:
        for place, names in zip(places, before, strict=True):
            for name in set(vars(place)) - set(names):
                delattr(place, name)
            for name, value in names.items():
                if vars(place).get(name) is not value:
                    setattr(place, name, value)
