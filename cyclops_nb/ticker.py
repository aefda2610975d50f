"""Lets a kernel's stop button be seen while an async run waits for its model.

ipykernel turns an interrupt of a cell that awaits something into a callback on the kernel's loop, added in a way that
does not wake the loop. An idle loop, waiting for a slow model, would see it only with the next byte; a timer wakes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import weakref
from collections.abc import Iterator

__all__ = ["TICK_SECONDS", "ticking"]

TICK_SECONDS = 0.2


class _Ticker:
    """One timer for a loop, however many runs want it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._users = 0
        self._timer: asyncio.TimerHandle | None = None

    def enter(self) -> None:
        self._users += 1
        if self._timer is None:
            self._tick()

    def leave(self) -> None:
        self._users -= 1
        if not self._users and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        loop = self._loop()
        self._timer = None if loop is None else loop.call_later(TICK_SECONDS, self._tick)


_TICKERS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Ticker] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def ticking() -> Iterator[None]:
    """Wake the running loop regularly, if this process is a Jupyter kernel."""
    if "ipykernel" not in sys.modules:
        yield
        return
    loop = asyncio.get_running_loop()
    ticker = _TICKERS.get(loop)
    if ticker is None:
        ticker = _TICKERS[loop] = _Ticker(loop)
    ticker.enter()
    try:
        yield
    finally:
        ticker.leave()
