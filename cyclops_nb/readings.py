"""How the engine's events become what the entry points give: events, texts, or the answer."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from cyclops_nb.engine.loop import run_events
from cyclops_nb.engine.state import RunState
from cyclops_nb.events import Event, StepFinished, TextDelta
from cyclops_nb.response import AgentResponse, Answer
from cyclops_nb.ticker import ticking

__all__ = ["call_here", "events_here", "output_of", "raise_failure", "texts_here", "texts_there"]


async def call_here(function: Callable[[], Any]) -> Any:
    """Run a ``thread="caller"`` tool of an async form: the caller's thread is the loop's."""
    return function()


async def events_here(state: RunState, *, is_raising: bool = False) -> AsyncGenerator[Event, None]:
    """Yield the events of a run on the running loop."""
    with ticking():
        async with contextlib.aclosing(run_events(state)) as events:
            async for event in events:
                yield event
    if is_raising and state.error is not None:
        raise state.error


def texts_there(events: Generator[Event, None, None], *, whole: bool) -> Generator[str, None, None]:
    """Yield the text in events; closing this closes them, which cancels the run."""
    with contextlib.closing(events):
        for event in events:
            text = _text_of(event, whole=whole)
            if text:
                yield text


async def texts_here(events: AsyncGenerator[Event, None], *, whole: bool) -> AsyncGenerator[str, None]:
    """Same as `texts_there`, for async events."""
    async with contextlib.aclosing(events):
        async for event in events:
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
    return Answer(response.content)


def raise_failure(response: AgentResponse) -> None:
    """Raise what the run failed with, if it did."""
    if response.error is not None:
        raise response.error
