"""Asks the model for one completion, with the middleware around it, in a task of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

from cyclops_nb.engine.mailbox import Mailbox, is_fault, stop_tasks
from cyclops_nb.engine.middleware import ModelCall, around_model
from cyclops_nb.engine.owned import Owned
from cyclops_nb.engine.state import RunState
from cyclops_nb.events import Event, StepStarted
from cyclops_nb.messages import AssistantMessage
from cyclops_nb.models.base import Completion, ModelRequest
from cyclops_nb.transcript import with_unique_call_ids

__all__ = ["answer_of", "ask"]


async def ask(state: RunState, request: ModelRequest) -> AsyncGenerator[Event, None]:
    """Ask, and tell the deltas of the answer; `answer_of` returns it then, or raises what went wrong."""
    mailbox = Mailbox()
    is_retry = False

    async def ask_model(request: ModelRequest) -> AssistantMessage:
        nonlocal is_retry
        request = state.filtered(request)
        if is_retry:
            mailbox.put(StepStarted(**state.place))
        is_retry = True
        completion = state.completion = Completion()
        started = time.perf_counter()
        cost: float | None = None
        try:
            await state.plan.model.complete(request, completion, mailbox.put)
        finally:
            cost = state.record(completion)
        duration = time.perf_counter() - started
        return completion.message(run_id=state.run.id, duration=duration, cost=cost)

    yield StepStarted(**state.place)
    call = around_model(state.plan.middleware, ask_model)
    task = asyncio.create_task(_awaited(call, request))
    state.answering = task
    try:
        async with Owned(mailbox.until_done((task,))) as events:
            async for event in events:
                yield event
    finally:
        await stop_tasks((task,))


async def _awaited(call: ModelCall, request: ModelRequest) -> AssistantMessage:
    try:
        message: Any = await call(request)
    except BaseException as error:
        if isinstance(error, Exception) or not is_fault(error):
            raise
        raise RuntimeError(f"the model call, or middleware around it, raised {error!r}") from error
    if not isinstance(message, AssistantMessage):
        raise TypeError(f"wrap_model_call must return an AssistantMessage, got {type(message).__name__}")
    return message


def answer_of(state: RunState) -> AssistantMessage:
    """Return the answer of the completion that has just ended, or raise what it failed with."""
    assert state.answering is not None  # noqa: S101 - for the type checker
    message = with_unique_call_ids(state.answering.result())  # middleware may have made it up
    return message if message.run_id == state.run.id else message.model_copy(update={"run_id": state.run.id})
