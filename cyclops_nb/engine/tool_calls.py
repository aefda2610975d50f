"""Runs the tools of a step: together, each in its place, each with a result whatever happens."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import time
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, NamedTuple

from cyclops_nb.content import result_parts
from cyclops_nb.engine.mailbox import CLEANUP_SECONDS, Mailbox, is_fault, stop_tasks
from cyclops_nb.engine.middleware import around_tool
from cyclops_nb.engine.owned import Owned
from cyclops_nb.engine.state import CURRENT_CALL, CURRENT_RUN, CallPlace, NestedRun, RunState
from cyclops_nb.errors import InputError, error_text
from cyclops_nb.events import Event, ToolCallReady, ToolResult
from cyclops_nb.messages import ToolCall, ToolMessage
from cyclops_nb.threads import run_in_thread
from cyclops_nb.tools import RunContext, Tool

__all__ = ["ToolStep"]

_CANCELLED = "This call was cancelled before it had a result."
_WITHHELD = "The result is withheld: it could not be filtered."
_OTHER_LOOP = ("different loop", "different event loop", "attached to a different")
_LOOP_HINT = (
    " (This tool uses something made on another event loop, such as a client or lock made in a notebook cell: make it"
    " inside the tool, or use the async entry points, await agent.arun(...), which run on the cell's own loop.)"
)


class _Outcome(NamedTuple):
    message: ToolMessage
    fatal: Exception | None = None
    """What ends the run: raised by middleware, or by a tool under ``on_tool_error="raise"``."""


class ToolStep:
    """The tool calls of one assistant message.

    Parameters
    ----------
    state : RunState
        The run.
    calls : sequence of ToolCall
        What the model asked for.
    kept : sequence of ToolCall
        The same calls as the transcript keeps them.
    """

    def __init__(self, state: RunState, calls: tuple[ToolCall, ...], kept: tuple[ToolCall, ...]) -> None:
        self._state = state
        self._calls = calls
        self._kept = kept
        self._mailbox = Mailbox()
        self._tasks: list[asyncio.Task[_Outcome]] = []

    async def events(self) -> AsyncGenerator[Event, None]:
        """Run all calls, telling what happens; the results stand in `results` also when this is stopped early."""
        place = self._state.place
        for call in self._kept:
            yield ToolCallReady(call=call, **place)
        await self._state.keep_pace()
        context = contextvars.copy_context()
        context.run(CURRENT_RUN.set, self._state)
        self._tasks.extend(
            asyncio.create_task(self._run(call, kept), context=context.copy())
            for call, kept in zip(self._calls, self._kept, strict=True)
        )
        async with Owned(self._mailbox.until_done(self._tasks, self._has_failed)) as events:
            async for event in events:
                yield event

    async def stop(self) -> None:
        """End what still runs, the runs that tools have started first: their tools wait for them."""
        nested = [asyncio.create_task(_cancelled(run)) for run in self._state.nested]
        if nested and any(not task.done() for task in self._tasks):
            await asyncio.wait(nested, timeout=CLEANUP_SECONDS)
        await stop_tasks([*nested, *self._tasks])

    def _has_failed(self) -> bool:
        return self.fatal is not None or self.interrupt is not None

    @property
    def fatal(self) -> Exception | None:
        """What ends the run, if a call has failed in that way."""
        return next((outcome.fatal for outcome in map(_finished, self._tasks) if outcome and outcome.fatal), None)

    @property
    def interrupt(self) -> BaseException | None:
        """What has stopped a call that nobody cancelled: a Ctrl-C that came while it was at work."""
        ended = (task for task in self._tasks if task.done() and not task.cancelled())
        return next((error for error in (task.exception() for task in ended) if error is not None), None)

    def results(self) -> list[ToolMessage]:
        """Return a result for each call, in call order; what has not finished counts as cancelled."""
        outcomes = [_finished(task) for task in self._tasks]
        outcomes += [None] * (len(self._kept) - len(outcomes))
        return [
            outcome.message if outcome else self._message(call, _CANCELLED, "cancelled")
            for call, outcome in zip(self._kept, outcomes, strict=True)
        ]

    def refused(self, text: str) -> list[ToolMessage]:
        """Return an error result for each call, none of which is run."""
        return [self._message(call, text, "error") for call in self._kept]

    def _message(self, call: ToolCall, content: Any, status: Any, **fields: Any) -> ToolMessage:
        return ToolMessage(call.id, call.name, content, status=status, run_id=self._state.run.id, **fields)

    async def _run(self, call: ToolCall, kept: ToolCall) -> _Outcome:
        """Run one call through all middleware; never raises but when it is cancelled."""
        started = time.perf_counter()
        CURRENT_CALL.set(CallPlace(self._state.run.id, self._state.step, call.id, CURRENT_CALL.get()))
        run = around_tool(self._state.plan.middleware, self._execute)
        try:
            returned = await run(call)
            outcome = _Outcome(self._checked(call, returned))
        except BaseException as error:
            if not is_fault(error):
                raise
            message = self._message(call, describe(error), "error")
            outcome = _Outcome(message, error if isinstance(error, Exception) else RuntimeError(describe(error)))
        outcome = self._filtered(outcome, kept)
        duration = time.perf_counter() - started
        message = outcome.message.model_copy(update={"duration": duration})
        place = self._state.place
        self._mailbox.put(ToolResult(message=message, duration=duration, **place))
        return _Outcome(message, outcome.fatal)

    def _filtered(self, outcome: _Outcome, kept: ToolCall) -> _Outcome:
        """Return `outcome` as it may be kept; what cannot be filtered is withheld."""
        try:
            return outcome._replace(message=self._state.filters.message(outcome.message))
        except Exception as error:  # noqa: BLE001 - filters are the user's own
            return _Outcome(self._message(kept, _WITHHELD, "error"), outcome.fatal or error)

    def _checked(self, call: ToolCall, returned: Any) -> ToolMessage:
        """Return what middleware gave back, tied to this call."""
        if not isinstance(returned, ToolMessage):
            raise TypeError(f"wrap_tool_call must return a ToolMessage, got {type(returned).__name__}")
        return returned.model_copy(update={"call_id": call.id, "run_id": self._state.run.id})

    async def _execute(self, call: ToolCall) -> ToolMessage:
        """Run the tool itself and turn what it returns, or raises, into a result."""
        tool = self._state.plan.tools.get(call.name)
        if tool is None:
            known = ", ".join(map(repr, self._state.plan.tools)) or "none"
            return self._message(call, f"There is no tool {call.name!r}; the tools are {known}.", "error")
        try:
            context = RunContext(
                self._state.session, self._state.run.id, self._state.step, call.id, self._state.plan.agent
            )
            value = await self._call(tool, tool.bind(call.arguments, context))
            message = self._message(call, tuple(result_parts(value)), "ok")
        except BaseException as error:
            is_raised = self._state.plan.config.on_tool_error == "raise" and not isinstance(error, InputError)
            if is_raised or not is_fault(error):
                raise
            return self._message(call, describe(error), "error")
        message.remember(value)
        return message

    async def _call(self, tool: Tool, function: Callable[[], Any]) -> Any:
        seconds = tool.timeout or self._state.plan.config.tool_timeout
        try:
            async with asyncio.timeout(seconds) as deadline:
                return await self._call_in_place(tool, function)
        except TimeoutError:
            if deadline.expired():
                raise TimeoutError(f"no result within {seconds} s") from None
            raise

    async def _call_in_place(self, tool: Tool, function: Callable[[], Any]) -> Any:
        if tool.is_async:
            value = await function()
        elif tool.thread == "caller" and self._state.plan.caller is not None:
            value = await self._state.plan.caller(partial(_call_sync, function))
        else:
            value = await run_in_thread(_call_in_worker, function)
        if inspect.isawaitable(value):
            value = await value
        if inspect.isasyncgen(value):
            value = [item async for item in value]
        return value


async def _cancelled(run: NestedRun) -> None:
    run.cancel()
    await run.ended()


def _call_sync(function: Callable[[], Any]) -> Any:
    """Call a sync function; what a generator yields is collected while still on its thread."""
    value = function()
    return list(value) if inspect.isgenerator(value) else value


def _call_in_worker(function: Callable[[], Any]) -> Any:
    try:
        return _call_sync(function)
    except KeyboardInterrupt as error:  # Ctrl-C only ever comes to the main thread
        raise RuntimeError(describe(error)) from error


def _finished(task: asyncio.Task[_Outcome]) -> _Outcome | None:
    return task.result() if task.done() and not task.cancelled() and task.exception() is None else None


def describe(error: BaseException) -> str:
    """Return an error for the model to read: its type, which some messages are empty without, and its text."""
    name = type(error).__name__
    text = error_text(error)
    if isinstance(error, InputError):
        return text
    if any(words in text for words in _OTHER_LOOP):
        text += _LOOP_HINT
    return f"{name}: {text}" if text else name
