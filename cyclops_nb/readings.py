"""How the engine's events become what the entry points give: events, texts, or the answer.

An async stream is an object and no generator. Its run is driven by a task of its own, which goes on only when the
reader asks for more, so leaving the stream at any event leaves the session as it was at that event. A stream that is
just dropped, in a loop that is just ending, is then cleaned up with all other tasks; a generator would be torn down in
the middle of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

from cyclops_nb.engine.loop import run_events
from cyclops_nb.engine.owned import Owned
from cyclops_nb.engine.persistence import uncancelled
from cyclops_nb.engine.state import RunState
from cyclops_nb.errors import CyclopsError
from cyclops_nb.events import Event, StepFinished, TextDelta
from cyclops_nb.response import AgentResponse, Answer
from cyclops_nb.ticker import ticking

__all__ = ["EventStream", "Feed", "TextStream", "call_here", "output_of", "raise_failure", "run_here", "texts_there"]


async def call_here(function: Callable[[], Any]) -> Any:
    """Run a ``thread="caller"`` tool of an async form: the caller's thread is the loop's."""
    return function()


async def run_here(state: RunState) -> AgentResponse:
    """Run to the end on the running loop, in the caller's task."""
    with ticking():
        async with Owned(run_events(state)) as events:
            async for _ in events:
                pass
    return state.response()


class Feed:
    """Events on their way from the task of a run to a reader on the same loop, who sets the pace."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        self._asking: asyncio.Future[None] | None = None
        self._pacing: asyncio.Future[None] | None = None

    async def pace(self) -> None:
        """Wait until all events have been taken and another one is asked for."""
        while self.events or self._asking is None or self._asking.done():
            self._pacing = asyncio.get_running_loop().create_future()
            await self._pacing

    @property
    def is_asked(self) -> bool:
        """Whether a reader waits."""
        return self._asking is not None

    async def ask(self) -> None:
        """Ask for another event, and wait until something has happened."""
        self._asking = asyncio.get_running_loop().create_future()
        if self._pacing is not None and not self._pacing.done():
            self._pacing.set_result(None)
        try:
            await self._asking
        finally:
            self._asking = None

    def wake(self, _task: object = None) -> None:
        """Say that something has happened."""
        if self._asking is not None and not self._asking.done():
            self._asking.set_result(None)

    async def drive(self, state: RunState) -> None:
        """Run, putting the events here."""
        with ticking():  # not only while an event is awaited: a stop may come while the reader awaits something else
            async with Owned(run_events(state)) as told:
                async for event in told:
                    self.events.append(event)
                    self.wake()


_KEPT: set[asyncio.Task[None]] = set()
"""A loop only keeps weak references to its tasks, and a stream in a reference cycle would take its own along."""


class EventStream(AsyncIterator[Event]):
    """The events of a run on the running loop, begun with the first one that is asked for.

    The task of the run knows the feed and not the stream, so a stream that nobody holds any more goes, and takes its
    run with it.
    """

    def __init__(self, feed: Feed, state: RunState) -> None:
        self._feed = feed
        self._state: RunState | None = state
        self._task: asyncio.Task[None] | None = None

    async def __anext__(self) -> Event:
        if self._state is None:
            raise StopAsyncIteration
        feed = self._feed
        if self._task is None:
            self._task = asyncio.create_task(feed.drive(self._state))
            self._task.add_done_callback(feed.wake)
            _KEPT.add(self._task)
            self._task.add_done_callback(_KEPT.discard)
        self._check_loop(self._task)
        if feed.is_asked:
            raise CyclopsError("another task is waiting for the next event of this stream: it has one reader at a time")
        while not feed.events and not self._task.done():
            try:
                await feed.ask()
            except BaseException:  # a cancel, or a Ctrl-C
                await self.aclose()
                raise
        if feed.events:
            return feed.events.popleft()
        await self._finish()
        raise StopAsyncIteration

    @staticmethod
    def _check_loop(task: asyncio.Task[None]) -> None:
        if not task.done() and task.get_loop() is not asyncio.get_running_loop():
            raise CyclopsError("the stream was begun on another event loop: read and close it there")

    async def _finish(self) -> None:
        """Raise what the run failed with, once."""
        state, self._state = self._state, None
        if self._task is not None:
            await self._task
        if state is not None and state.error is not None:
            raise state.error

    async def aclose(self) -> None:
        """Leave the stream: cancel the run and wait until its session is in order."""
        self._state = None
        task = self._task
        if task is not None and not task.done():
            self._check_loop(task)
            task.cancel()
            interrupt = await uncancelled(task)
            if interrupt is not None:
                raise interrupt

    def __del__(self) -> None:
        task = self._task
        if task is not None and not task.done():
            with contextlib.suppress(RuntimeError):  # the loop is closed, and has ended its tasks
                task.get_loop().call_soon_threadsafe(task.cancel)


class TextStream(AsyncIterator[str]):
    """The text in a stream of events.

    Parameters
    ----------
    events : EventStream
        Closed with this.
    whole : bool
        Whether text is given when a step is final, not as it comes.
    """

    def __init__(self, events: EventStream, *, whole: bool) -> None:
        self._events = events
        self._whole = whole

    async def __anext__(self) -> str:
        while True:
            text = _text_of(await anext(self._events), whole=self._whole)
            if text:
                return text

    async def aclose(self) -> None:
        """Leave the stream: cancel the run and wait until its session is in order."""
        await self._events.aclose()


def texts_there(events: Generator[Event, None, None], *, whole: bool) -> Generator[str, None, None]:
    """Yield the text in events; closing this closes them, which cancels the run."""
    with contextlib.closing(events):
        for event in events:
            text = _text_of(event, whole=whole)
            if text:
                yield text


def _text_of(event: Event, *, whole: bool) -> str:
    if isinstance(event, TextDelta):
        return "" if whole else event.text
    return event.message.text if whole and isinstance(event, StepFinished) else ""


def output_of(response: AgentResponse) -> Any:
    """Return what `run` returns, or raise what the run failed with."""
    raise_failure(response)
    if response.output is not response.content:
        return response.output
    return Answer(response.content, response)


def raise_failure(response: AgentResponse) -> None:
    """Raise what the run failed with, if it did."""
    if response.error is not None:
        raise response.error
