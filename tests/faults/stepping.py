"""Stops a run at its n-th await: wraps the coroutines of all tasks of a loop, and counts each time one is suspended.

Nothing of the library is replaced. A task's coroutine is handed to asyncio inside an object that passes everything on,
so at each suspension the injector knows where it is and can act before anything else on the loop does.
"""

import asyncio
import gc
import inspect
import signal
import threading
import types
from collections.abc import AsyncGenerator, Coroutine
from pathlib import Path

import cyclops_nb

PACKAGE = Path(cyclops_nb.__file__).parent


class InjectedError(Exception):
    """What an await raises, or a call of a store, tool or middleware."""


class Injector:
    """Counts suspensions, or calls of the user's code, and at one of them stops the run.

    `kind` is one of:

    ``cancel``
        The run is cancelled while it is suspended there, or has come to that call.
    ``cancel twice``
        The same, and once more at the next place.
    ``signal``
        Ctrl-C comes to the main thread, which waits for the run.
    ``error``, ``interrupt``, ``own cancel``
        The await or call raises `InjectedError`, `KeyboardInterrupt` (as a signal handler would in that place), or a
        `CancelledError` that nobody has asked for.
    ``interrupt in a kernel``
        As ``interrupt``, on a loop that just goes on then; otherwise all tasks are cancelled, as ``asyncio.run`` does.
    """

    def __init__(self, kind=None, at=None, counts="awaits"):
        self.kind = kind
        self.at = at
        self.counts = counts
        self.count = 0
        self.fired = False
        self.stop = lambda: None
        """Stops the run from outside."""
        self.before = lambda: None
        """Called right before the stop, to note how things stand."""
        self.where = ""
        self.seen = set()
        """File and line of each await of the library at which something was suspended."""
        self.is_watching = False

    def task(self, loop, coroutine, **settings):
        """Make a task of a loop; the loop's task factory."""
        return asyncio.Task(Stepped(coroutine, self), loop=loop, **settings)

    def suspended(self, stepped):
        """Act on a suspension, if it is the one."""
        if self.is_watching:
            self.seen.update(places(stepped.coroutine))
        if self.counts == "awaits":
            stepped.pending = self._reach(lambda: describe(stepped.coroutine))

    def called(self, where):
        """Act on a call of the user's code, if it is the one."""
        error = self._reach(lambda: where) if self.counts == "calls" else None
        if error is not None:
            raise error

    def _reach(self, describe_place):
        """Count a place; stop the run from outside, or return what is to be raised."""
        self.count += 1
        is_second = self.kind == "cancel twice" and self.fired and self.count == self.at + 1
        if self.count != self.at and not is_second:
            return None
        if not is_second:
            self.before()
            self.where = describe_place()
            self.fired = True
        if self.kind in _RAISED:
            return _RAISED[self.kind]("injected")
        self.stop()
        return None


_RAISED = {
    "error": InjectedError,
    "interrupt": KeyboardInterrupt,
    "interrupt in a kernel": KeyboardInterrupt,
    "own cancel": asyncio.CancelledError,
}
current = Injector()
"""That of the run that goes on."""


def called(where):
    """Tell the injector that code of the user's is at some place."""
    current.called(where)


class Stepped(Coroutine):
    """A coroutine that tells an injector each time it is suspended."""

    def __init__(self, coroutine, injector):
        self.coroutine = coroutine
        self.injector = injector
        self.pending = None
        self.__name__ = coroutine.__name__
        self.__qualname__ = coroutine.__qualname__

    def send(self, value):
        return self._passed(self.coroutine.send, value)

    def throw(self, *error):
        return self._passed(self.coroutine.throw, *error)

    def close(self):
        self.coroutine.close()

    def __await__(self):
        return (yield from self.coroutine.__await__())

    def _passed(self, resume, *value):
        pending, self.pending = self.pending, None
        awaited = resume(*value) if pending is None else self.coroutine.throw(pending)
        self.injector.suspended(self)
        return awaited

    # what libraries look at to know whether a task has begun
    cr_frame = property(lambda self: self.coroutine.cr_frame)
    cr_running = property(lambda self: self.coroutine.cr_running)
    cr_await = property(lambda self: self.coroutine.cr_await)
    cr_code = property(lambda self: self.coroutine.cr_code)


def _chain(awaited):
    """Yield the frames from a task's coroutine down to the innermost await."""
    while awaited is not None:
        if isinstance(awaited, Stepped):
            awaited = awaited.coroutine
        if isinstance(awaited, types.CoroutineType):
            frame, awaited = awaited.cr_frame, awaited.cr_await
        elif isinstance(awaited, AsyncGenerator):
            frame, awaited = awaited.ag_frame, awaited.ag_await
        elif inspect.isgenerator(awaited):
            frame, awaited = awaited.gi_frame, awaited.gi_yieldfrom
        else:
            # an await of an async generator's next item does not say whose it is, but the collector knows
            inner = [item for item in gc.get_referents(awaited) if isinstance(item, AsyncGenerator)]
            frame, awaited = None, inner[0] if inner else None
        if frame is not None:
            yield frame


def places(coroutine):
    """Return file and line of each await of the library in which a suspended coroutine stands."""
    found = []
    for frame in _chain(coroutine):
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE) and "testing" not in path.parts:
            found.append((str(path.relative_to(PACKAGE)), frame.f_lineno))
    return found


def describe(coroutine):
    """Return where a suspended coroutine stands, in short."""
    found = places(coroutine)
    return " < ".join(f"{name}:{line}" for name, line in reversed(found)) or coroutine.__qualname__


def interrupt_main():
    """Do what Ctrl-C does to the main thread."""
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
