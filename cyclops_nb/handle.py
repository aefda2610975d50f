"""A run on the library's own loop, seen from any thread: what `Agent.start` returns and all sync forms wait for."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import Any

from cyclops_nb.displayable import LiveDisplayable
from cyclops_nb.engine.loop import run_events
from cyclops_nb.engine.owned import Owned
from cyclops_nb.engine.state import CURRENT_RUN, RunState
from cyclops_nb.events import Event
from cyclops_nb.messages import Message
from cyclops_nb.portal import portal
from cyclops_nb.response import AgentResponse
from cyclops_nb.ticker import ticking

__all__ = ["RunHandle"]

_POLL_SECONDS = 0.1
"""Waiting for ever on a lock cannot be interrupted on Windows."""


class RunHandle(LiveDisplayable):
    """A run in progress.

    Examples
    --------
    >>> handle = agent.start("Hello")
    >>> handle.result().content
    'Hello! How can I help?'
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._events: list[Event] = []
        self._listeners: list[Callable[[], None]] = []
        self._ended = threading.Event()
        self._response: AgentResponse | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancel_asked = False
        self._portal = portal()
        parent = CURRENT_RUN.get()
        if parent is not None:
            parent.nested.append(self)

    def begin(self) -> None:
        """Start the run; called once. Its session is taken when this returns, not only when the loop gets to it."""
        self._state.claim()
        self._portal.spawn(self._drive)

    async def _drive(self) -> None:
        self._task = asyncio.current_task()
        if self._cancel_asked and self._task is not None:
            self._task.cancel()
        try:
            async with Owned(run_events(self._state)) as events:
                async for event in events:
                    self._events.append(event)
                    self._tell()
        except asyncio.CancelledError:
            pass  # it stands in the response
        except Exception as error:  # noqa: BLE001 - such as a session that another run was faster to claim
            self._state.error = self._state.error or error
        finally:
            self._response = self._state.response()
            self._ended.set()
            self._tell()

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()

    @property
    def id(self) -> str:
        """The run's id."""
        return self._state.run.id

    @property
    def done(self) -> bool:
        """Whether the run is over and everything is saved."""
        return self._ended.is_set()

    @property
    def response(self) -> AgentResponse | None:
        """What came of the run; None while it goes on."""
        return self._response

    @property
    def input(self) -> tuple[Message, ...]:
        """The messages that the run was given, as they stand in the transcript; empty before it has begun."""
        return tuple(self._state.messages[: len(self._state.plan.input)])

    @property
    def start(self) -> int:
        """The index that its first message has in the session, or will have; below 0 once that was compacted away."""
        before = len(self._state.session.messages)  # first: what is added from here on is found by its id
        places = {message.id: place for place, message in enumerate(tuple(self._state.messages))}
        for index, message in reversed(list(enumerate(tuple(self._state.session.messages)))):
            if message.id in places:
                return index - places[message.id]
        return before

    def _repr_mimebundle_(self, **wishes: Any) -> dict[str, Any]:
        response = self._response
        return super()._repr_mimebundle_(**wishes) if response is None else response._repr_mimebundle_(**wishes)

    def __repr__(self) -> str:
        return f"<RunHandle {self.id} {self._response.stop_reason if self._response else 'running'}>"

    def cancel(self) -> None:
        """Ask the run to stop, from any thread. Its session stays valid, `response` then says "cancelled"."""
        if not self._cancel_asked:
            self._cancel_asked = True
            self._portal.call(self._cancel_task)

    def call(self, function: Callable[[], object]) -> None:
        """Have `function` called on the loop of the run."""
        self._portal.call(function)

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def result(self, timeout: float | None = None) -> AgentResponse:
        """Wait for the run and return what came of it; never raises what the run failed with.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.

        Raises
        ------
        TimeoutError
            If the run is not over by then; it goes on.
        """
        if self._portal.is_here and not self.done:
            self._portal.run_nested(asyncio.wait_for(self.ended(), timeout))
        if not self._ended.wait(timeout):
            raise TimeoutError(f"run {self.id} is not over after {timeout} s; it goes on")
        assert self._response is not None  # noqa: S101 - set before the event
        return self._response

    async def ended(self) -> None:
        """Wait, on any loop, until the run is over."""
        with self._listening() as woken, ticking():
            while not self.done:
                await woken.wait()
                woken.clear()

    def __await__(self) -> Generator[Any, None, AgentResponse]:
        yield from self.ended().__await__()
        return self.result()

    async def events(self) -> AsyncIterator[Event]:
        """Yield all events of the run from its start; any number of readers, on any loop."""
        told = 0
        with self._listening() as woken, ticking():
            while True:
                is_over = self.done
                while told < len(self._events):
                    told += 1
                    yield self._events[told - 1]
                if is_over:
                    return
                await woken.wait()
                woken.clear()

    @contextlib.contextmanager
    def _listening(self) -> Iterator[asyncio.Event]:
        """Give an event of the running loop that is set whenever something has happened."""
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()

        def wake() -> None:
            if not woken.is_set():
                with contextlib.suppress(RuntimeError):  # the reader's loop is gone
                    loop.call_soon_threadsafe(woken.set)

        with self.listener(wake):
            yield woken

    @contextlib.contextmanager
    def listener(self, listener: Callable[[], None]) -> Iterator[None]:
        """Have `listener` called, on the run's thread, whenever something has happened."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def event(self, index: int) -> Event | None:
        """Return the event of that index, or None if it has not come."""
        return self._events[index] if index < len(self._events) else None

    def has_come(self, index: int | None) -> bool:
        """Say whether the run is over, or the event of that index has come."""
        return self.done or (index is not None and index < len(self._events))


class Waiter:
    """The waiting side of a sync form: takes events, runs the tools that want its thread, and hears Ctrl-C."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._handle: RunHandle | None = None
        self._wanted = 0
        """Which event a reader has asked for."""
        self._pacing: asyncio.Future[None] | None = None
        self._is_hearing = False
        self._is_stopping = False
        """Whether the run was cancelled from this side: what waits for this thread is not run any more."""
        self._is_working = False
        """Whether this thread is inside a tool."""
        self._interrupts = 0
        self._is_nested = False
        """Whether the reader itself runs on the portal."""

    def on_this_thread(self, function: Callable[[], Any]) -> Awaitable[Any]:
        """Have the waiting thread call `function`; called on the loop of the run."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def work() -> None:
            if self._is_stopping:
                return
            self._is_working = True
            try:
                result, error = function(), None
            except KeyboardInterrupt:  # heard by the function, for instance by a run that it waited for
                self._interrupts += 1
                self._cancel()
                return
            except BaseException as raised:  # noqa: BLE001 - it belongs to the run, not to this thread
                result, error = None, raised
            finally:
                self._is_working = False
            loop.call_soon_threadsafe(_settle, future, result, error)

        self._queue.put(work)
        return future

    async def pace(self) -> None:
        """Wait, on the loop of the run, until all events have been taken and another one is asked for."""
        if not self._is_hungry():
            self._pacing = asyncio.get_running_loop().create_future()
            await self._pacing

    def _is_hungry(self) -> bool:
        return self._handle is not None and self._handle.event(self._wanted) is None

    def _release(self) -> None:
        if self._pacing is not None and not self._pacing.done() and self._is_hungry():
            self._pacing.set_result(None)

    def wait(self, handle: RunHandle, *, for_event: int | None = None) -> None:
        """Wait until `handle` is done, or has more than `for_event` events.

        Raises
        ------
        KeyboardInterrupt
            After a Ctrl-C, once the run has been cancelled and cleaned up.
        """
        self._handle = handle
        if portal().is_here:
            handle.result()
        with handle.listener(self._wake), self.hearing_interrupts():
            if self._interrupts:  # heard before there was a run to cancel
                self._cancel()
            while not handle.has_come(for_event):
                with contextlib.suppress(queue.Empty):
                    work = self._queue.get(timeout=_POLL_SECONDS)
                    if work is not None:
                        work()
        if self._interrupts:
            raise KeyboardInterrupt(f"run {handle.id} was cancelled")

    def events(self, handle: RunHandle) -> Iterator[Event]:
        """Yield all events of `handle` as they come."""
        self._handle = handle
        self._is_nested = portal().is_here
        while True:
            if not handle.has_come(self._wanted):
                handle.call(self._release)
                self.wait(handle, for_event=self._wanted)
            event = handle.event(self._wanted)
            if event is None:
                return
            yield event
            self._wanted += 1

    def _wake(self) -> None:
        self._queue.put(None)

    def leave(self, handle: RunHandle) -> None:
        """Cancel `handle`, if it is not done, and wait until its session is in order, or for a second Ctrl-C."""
        self._handle = handle
        self._cancel()
        # the garbage collector closes a forgotten stream on whatever thread it runs: the portal's must not wait
        is_collected = portal().is_here and not self._is_nested
        if not handle.done and self._interrupts <= 1 and not is_collected:
            self.wait(handle)

    def _cancel(self) -> None:
        self._is_stopping = True
        if self._handle is not None:
            self._handle.cancel()

    @contextlib.contextmanager
    def hearing_interrupts(self) -> Iterator[None]:
        """On the main thread, let Ctrl-C cancel the run; a second one cuts its clean-up short."""

        def interrupt(*_: object) -> None:
            if self._is_working and not self._interrupts:
                raise KeyboardInterrupt("the tool was interrupted")  # out of the tool; the run is cancelled then
            self._interrupts += 1
            if self._interrupts > 1:
                raise KeyboardInterrupt("the run is still being cancelled")
            self._cancel()

        is_main = threading.current_thread() is threading.main_thread()
        if self._is_hearing or not is_main or signal.getsignal(signal.SIGINT) in {None, signal.SIG_IGN}:
            yield
            return
        before = signal.signal(signal.SIGINT, interrupt)
        self._is_hearing = True
        try:
            yield
        finally:
            self._is_hearing = False
            signal.signal(signal.SIGINT, before)


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):
        future.set_exception(RuntimeError("the tool raised StopIteration"))  # futures refuse to carry it
    else:
        future.set_exception(error)
