"""The one engine: an async generator of the events of a run. Every way in is a reading of it.

The transcript changes only here, between two events, and always by whole steps. So wherever the reading stops (an
error, a cancel, a closed generator) what stands in the session is what had been told, and it is valid.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from cyclops_nb.engine import steps
from cyclops_nb.engine.compaction import ask_in_window, compact
from cyclops_nb.engine.completions import answer_of
from cyclops_nb.engine.owned import Owned
from cyclops_nb.engine.persistence import GRACE_SECONDS, Saver, note_store_error, uncancelled
from cyclops_nb.engine.state import RunState
from cyclops_nb.engine.tool_calls import ToolStep
from cyclops_nb.events import Compacted, Event, RunFinished, RunStarted, StepFinished
from cyclops_nb.messages import AssistantMessage, Message, UserMessage
from cyclops_nb.session import release

__all__ = ["run_events"]


async def run_events(state: RunState) -> AsyncGenerator[Event, None]:
    """Run to the end and tell what happens.

    An error ends the generator after `RunFinished` and stands in ``state.error``; a cancel is raised again once
    everything is in order.
    """
    plan = state.plan
    state.claim()
    saver = Saver(plan.store, state.session, plan.durability)
    is_closed = True  # what holds at each yield, should the reader never ask for more
    try:
        failure = _begin(state)
        try:
            yield RunStarted(session_id=state.session.id, model=plan.config.model, **state.place)
            is_closed = False
            async with Owned(_steps(state, saver, failure)) as events:
                async for event in events:
                    is_closed = True
                    yield event
                    is_closed = False
        except Exception as error:  # noqa: BLE001 - whatever it is, it is how the run ended
            state.error = error
        except BaseException as error:  # noqa: BLE001 - raised again below, when all is in order
            state.interrupt = _innermost(error)
        await _finish(state, saver)
    finally:
        release(state.session, state.run.id)
    if is_closed:
        return
    yield RunFinished(run=state.run, content=state.content(), **state.place)
    if state.interrupt is not None:
        raise state.interrupt


def _begin(state: RunState) -> Exception | None:
    """Begin, or return what a filter of texts has failed with: the session is as before then, and is not saved."""
    try:
        state.begin()
    except Exception as error:  # noqa: BLE001 - filters are the user's own
        return error
    return None


def _innermost(error: BaseException) -> BaseException:
    """Return the interrupt itself: the HTTP library's task groups wrap what comes to them while they wait."""
    while isinstance(error, BaseExceptionGroup):
        error = next((item for item in error.exceptions if not isinstance(item, Exception)), error.exceptions[0])
    return error


async def _finish(state: RunState, saver: Saver) -> None:
    """Write down how the run ended and save it; neither can be cut short by a cancel."""
    state.end()
    for _ in range(2):  # a loop that is ending cancels all tasks, that of the save as well: then it is begun anew
        task = asyncio.create_task(_save_end(state, saver))
        interrupt = await uncancelled(task, within=None if state.interrupt is None else GRACE_SECONDS)
        if not task.done():
            _add_store_error(state, TimeoutError("the store did not finish saving in time; save the session yourself"))
            state.end()
        stopped_by = _stopped_by(task)
        state.interrupt = state.interrupt or interrupt or stopped_by
        if stopped_by is None:
            return


def _stopped_by(task: asyncio.Task[None]) -> BaseException | None:
    """Return what has stopped a task that nobody here has stopped."""
    if not task.done():
        return None
    return asyncio.CancelledError() if task.cancelled() else task.exception()


async def _save_end(state: RunState, saver: Saver) -> None:
    try:
        await saver.settle()
    except Exception as error:  # noqa: BLE001 - a store may raise anything
        _add_store_error(state, error)
    state.end()
    if not state.is_begun:
        return
    try:
        await saver.run_ended()
    except Exception as error:  # noqa: BLE001 - as above
        _add_store_error(state, error)
        state.end()


def _add_store_error(state: RunState, error: Exception) -> None:
    """Let the run fail with what the store raised, or note it on the error that the run has already."""
    if state.error is None and state.interrupt is None:
        state.error = error
    elif state.error is not error:
        first = state.error or state.interrupt
        if first is not None:
            note_store_error(first, error)


async def _steps(state: RunState, saver: Saver, failure: Exception | None) -> AsyncGenerator[Event, None]:
    if failure is not None:
        raise failure
    if state.plan.kind == "compaction":
        yield Compacted(message=await compact(state), **state.place)
        return
    limit = state.plan.config.max_iterations
    complaints = 0
    for step in range(1, limit + 1):
        state.step = step
        await state.keep_pace()
        async with Owned(ask_in_window(state, saver)) as events:
            async for event in events:
                yield event
        await state.keep_pace()
        answer = answer_of(state)
        kept = state.filters.message(answer)  # an answer whose filter fails is neither kept nor acted upon
        if answer.tool_calls:
            async with Owned(_use_tools(state, answer, kept)) as events:
                async for event in events:
                    yield event
            if step == limit:
                state.out_of_steps = True
                raise steps.out_of_steps(limit)
        else:
            tries = complaints + 1
            complaint = _keep_answer(state, answer, kept, tries, is_last_try=bool(complaints) or step == limit)
            state.is_answered = complaint is None
            yield _step_finished(state, kept)
            if complaint is None:
                return
            complaints += 1
        await saver.step_done()


def _keep_answer(
    state: RunState, answer: AssistantMessage, kept: AssistantMessage, tries: int, *, is_last_try: bool
) -> str | None:
    """Put a final answer into the transcript; return what is wrong with it if the model is to try again."""
    added: list[Message] = [kept]
    complaint = None
    wanted = state.plan.output
    if wanted is not None:
        verdict = wanted.judge(answer.text)
        complaint = None if verdict.complaint is None else state.filters.text(verdict.complaint)
        state.output = verdict.output
        if complaint is not None and not is_last_try:
            added.append(UserMessage(complaint, run_id=state.run.id))
    state.add(added)
    state.finish_step()
    if complaint is not None and is_last_try and wanted is not None:
        raise wanted.error(complaint, tries)
    return complaint


async def _use_tools(state: RunState, answer: AssistantMessage, kept: AssistantMessage) -> AsyncGenerator[Event, None]:
    """Run the calls of an answer; answer and results enter the transcript together, however this ends."""
    work = ToolStep(state, answer.tool_calls, kept.tool_calls)
    if steps.what_next(answer) == "refuse_tools":
        state.add([kept, *work.refused(steps.CUT_BY_LENGTH)])
        state.finish_step()
        yield _step_finished(state, kept)
        return
    try:
        async with Owned(work.events()) as events:
            async for event in events:
                yield event
        await state.keep_pace()
        if work.interrupt is not None:
            raise work.interrupt
    finally:
        state.add([kept, *work.results()])
        state.finish_step()
        fatal = work.fatal
        await work.stop()
    yield _step_finished(state, kept)
    if fatal is not None:
        raise fatal


def _step_finished(state: RunState, answer: AssistantMessage) -> StepFinished:
    return StepFinished(message=answer, usage=answer.usage, cost=answer.cost, **state.place)
