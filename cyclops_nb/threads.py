"""Runs blocking functions in threads of their own, so that they neither block an event loop nor outlive their use.

The default executor of asyncio keeps idle threads, waits for busy ones when the loop closes, and has a bounded number
of them, so one tool that hangs can starve all others. A fresh daemon thread for each call costs some tens of
microseconds and has none of that: it is gone when its function returns, and never holds up the interpreter's exit.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar, cast

__all__ = ["Outcome", "run_in_thread", "start_in_thread"]

_T = TypeVar("_T")
_P = ParamSpec("_P")


class Outcome(Generic[_T]):
    """What a function returned or raised.

    A future holds this rather than the exception itself: nobody is told off for never retrieving it, and exceptions
    that a future refuses (``StopIteration``) or mistakes for its own end (``CancelledError``) come through as well.
    """

    def __init__(self, value: _T | None, error: BaseException | None) -> None:
        self._value = value
        self._error = error

    @classmethod
    def of(cls, function: Callable[[], _T]) -> Outcome[_T]:
        """Call `function` and return its outcome."""
        try:
            return cls(function(), None)
        except BaseException as error:  # noqa: BLE001 - whoever takes the outcome raises it
            return cls(None, error)

    def take(self) -> _T:
        """Return the value, or raise the exception; once, for it is not kept.

        The traceback knows the thread's frames, and these know the outcome: together they would stay in memory, with
        all that the function had at hand, until a garbage collection.
        """
        error, self._error = self._error, None
        if error is None:
            return cast("_T", self._value)
        try:
            raise error
        finally:
            del error


def start_in_thread(function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> asyncio.Future[Outcome[_T]]:
    """Start `function` in a daemon thread of its own, at once, and return a future for its outcome.

    Like `run_in_thread`, for callers to whom it matters that the thread has started when this returns.

    Raises
    ------
    RuntimeError
        If no event loop is running, or the system has no more threads; nothing was started then.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Outcome[_T]] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(outcome: Outcome[_T]) -> None:
        if not future.done():
            future.set_result(outcome)

    def work() -> None:
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now: nobody waits any more
            loop.call_soon_threadsafe(deliver, Outcome.of(lambda: context.run(function, *args, **kwargs)))

    name = getattr(function, "__name__", type(function).__name__)
    try:
        threading.Thread(target=work, name=f"cyclops_nb {name}", daemon=True).start()
    except RuntimeError as error:
        if "interpreter shutdown" not in str(error):
            raise
        work()  # Python 3.12 starts no threads while it ends, but what a cancelled run has got to is still to be saved
    return future


async def run_in_thread(function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run a blocking function in a daemon thread of its own and return its result.

    The thread has a copy of the caller's context variables. When the awaiting task is cancelled, the function goes on
    to its end, for a thread cannot be stopped, and what it returns or raises is dropped without a word.

    Parameters
    ----------
    function : callable
        The blocking function.
    *args, **kwargs
        Its arguments.

    Returns
    -------
    object
        What the function returns.

    Raises
    ------
    BaseException
        What the function raises.

    Examples
    --------
    >>> import asyncio
    >>> asyncio.run(run_in_thread(sum, [1, 2]))
    3
    """
    return (await start_in_thread(function, *args, **kwargs)).take()
