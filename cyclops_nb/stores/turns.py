"""Blocking calls in threads, those about one session strictly in the order in which they were asked for.

A lock alone would keep them apart but not in order, and order matters most just where nobody waits any more: a save
whose task was cancelled goes on in its thread, and the next save must not be overtaken by it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from cyclops_nb.threads import Outcome, start_in_thread

__all__ = ["Turns"]

_T = TypeVar("_T")


class Turns:
    """Gives each call about a key its turn; any number of event loops and threads may ask.

    Examples
    --------
    >>> turns = Turns()
    >>> asyncio.run(turns.run("study-1", lambda: 1))
    1
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[str, threading.Event] = {}

    async def run(self, key: str, function: Callable[[], _T]) -> _T:
        """Run `function` in a thread once all earlier calls for `key` have ended, and return its result."""
        return (await self._start(key, function)).take()

    def _start(self, key: str, function: Callable[[], _T]) -> asyncio.Future[Outcome[_T]]:
        ended = threading.Event()
        with self._lock:
            before = self._last.get(key)

            def work() -> _T:
                try:
                    if before is not None:
                        before.wait()
                    return function()
                finally:
                    ended.set()
                    self._forget(key, ended)

            # if no thread can be started, this raises and the order stays as it was
            future = start_in_thread(work)
            self._last[key] = ended
        return future

    def _forget(self, key: str, ended: threading.Event) -> None:
        with self._lock:
            if self._last.get(key) is ended:
                del self._last[key]
