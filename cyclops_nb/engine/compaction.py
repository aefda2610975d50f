"""Replaces the older messages of a session by a summary that the model writes of them.

The transcript changes in one assignment, once the summary is there and is good: whatever stops or fails it before that
leaves the old one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator
from typing import Any

from cyclops_nb.config import AgentConfig, Compaction
from cyclops_nb.engine.completions import answer_of, ask
from cyclops_nb.engine.digest import digest
from cyclops_nb.engine.owned import Owned
from cyclops_nb.engine.persistence import Saver
from cyclops_nb.engine.state import RunPlan, RunState
from cyclops_nb.engine.window import (
    cut_point,
    estimated_tokens,
    limit_told_in,
    scale_of_estimates,
    tokens_beside,
    tokens_of_request,
)
from cyclops_nb.errors import ContextOverflowError, CyclopsError, OutputError, error_text
from cyclops_nb.events import Compacted, Event
from cyclops_nb.messages import Message, SummaryMessage, UserMessage
from cyclops_nb.models.base import Model
from cyclops_nb.values import new_id

__all__ = ["PROMPT", "ask_in_window", "compact", "compaction_plan", "messages_to_replace"]

PROMPT = """\
You are given a conversation between a user and an assistant. Write a summary of it that takes its place: the \
assistant goes on with the summary alone. Keep what it will need: what the user wants, facts, names, numbers and \
results word for word, decisions with their reasons, what was tried and failed, and what is left to do. Write in the \
language of the conversation, as briefly as that allows. Answer with the summary and nothing else."""

_REQUEST = "The conversation:\n\n{text}\n\nWrite the summary now."
_SMALL_WINDOW = 32_000
_SUMMARY_SHARE = 6
_SHORTEST_SUMMARY = 10
"""Estimated tokens; nothing shorter is worth a request."""
_MARGIN = 0.9


async def ask_in_window(state: RunState, saver: Saver) -> AsyncGenerator[Event, None]:
    """Ask for the next completion of a run; what has grown too long for the model is compacted before it."""
    if state.plan.compaction is not None:
        async with Owned(_ask_compacted(state, saver, state.plan.compaction)) as events:
            async for event in events:
                yield event
        return
    async with Owned(ask(state, state.request())) as events:
        async for event in events:
            yield event


async def _ask_compacted(state: RunState, saver: Saver, settings: Compaction) -> AsyncGenerator[Event, None]:
    if state.input_limit is None:
        state.learn_input_limit(await state.plan.model.context_window())
    if not state.is_past_compaction and _is_near_limit(state, settings):
        compacted = await _compact_in_run(state, saver)
        if compacted is not None:
            yield compacted
            await state.keep_pace()
    async with Owned(ask(state, state.request())) as events:
        async for event in events:
            yield event
    overflow = state.overflow()
    if overflow is None or state.is_past_compaction:
        return
    told = limit_told_in(overflow.message)
    if told is not None and state.input_limit is None:
        state.learn_input_limit(told)
        state.plan.model.learn_context_window(told)
    compacted = await _compact_in_run(state, saver, overflow=overflow)
    if compacted is None:
        return
    yield compacted
    await state.keep_pace()
    async with Owned(ask(state, state.request())) as events:
        async for event in events:
            yield event


def _is_near_limit(state: RunState, settings: Compaction) -> bool:
    limit = state.input_limit
    if limit is None:
        return False
    tokens = tokens_of_request(state.session.messages, _beside(state.plan))
    most = settings.trigger * limit
    if state.config.max_tokens is not None:  # servers want room for the answer that is allowed
        most = min(most, max(limit - state.config.max_tokens, limit / 2))
    return tokens >= most


async def _compact_in_run(
    state: RunState, saver: Saver, overflow: ContextOverflowError | None = None
) -> Compacted | None:
    """Compact the session of a run, as a run of its own; what fails is a warning, and is not tried again."""
    work = RunState(_plan_within(state))
    work.learn_input_limit(state.input_limit)
    if estimated_tokens(messages_to_replace(work)) < _SHORTEST_SUMMARY:
        return None
    work.begin()
    try:
        summary = await compact(work)
        saver.transcript_replaced()
    except CyclopsError as error:
        work.error = error
        state.is_past_compaction = True
        told = f"the session could not be compacted: {error_text(error)}"
        state.warn(told)
        if overflow is not None:
            overflow.add_note(told[:1].upper() + told[1:])
        return None
    except Exception as error:
        work.error = error
        raise
    except BaseException as error:
        work.interrupt = error
        raise
    finally:
        work.end()
    return Compacted(message=summary, **state.place)


def _plan_within(state: RunState) -> RunPlan:
    plan = compaction_plan(state.plan, state.plan.summariser or state.plan.model)
    return dataclasses.replace(plan, run_id=new_id(), store=None)


def compaction_plan(plan: RunPlan, model: Model) -> RunPlan:
    """Return the plan of a compaction for a session with which `plan` would go on."""
    settings = plan.compaction or Compaction()
    changes: dict[str, Any] = {"system_prompt": settings.prompt or PROMPT}
    # what shapes the agent's own answers would spoil a summary
    changes |= {"tool_choice": None, "parallel_tool_calls": None, "stop": None, "max_tokens": None}
    if settings.model not in (None, plan.config.model):
        changes["prices"] = None  # they are the other model's
    return dataclasses.replace(
        plan,
        kind="compaction",
        config=plan.config.replace(model=settings.model or plan.config.model, **changes),
        model=model,
        compaction=settings,
        input=(),
        output=None,
        tools={},
        tokens_beside=_beside(plan),
    )


def messages_to_replace(state: RunState) -> list[Message]:
    """Return the messages that a summary is to stand for; none if there is nothing to cut."""
    settings = state.plan.compaction or Compaction()
    messages = state.session.messages
    room = None
    if state.input_limit is not None:
        beside = _beside(state.plan)
        most = settings.trigger * state.input_limit * _MARGIN
        room = max(int(most / scale_of_estimates(messages, beside)) - beside, 0)
    return messages[: cut_point(messages, settings.keep_last, room=room)]


async def compact(state: RunState) -> SummaryMessage:
    """Have the older messages of the session summarised, and put the summary in their place.

    Raises
    ------
    OutputError
        If the summary is empty, or no shorter than what it would replace: the transcript is as it was.
    """
    session = state.session
    replaced = messages_to_replace(state)
    text = _REQUEST.format(text=digest(replaced, tokens=_room_for_digest(state)))
    request = state.request().replace(config=_with_room(state), messages=(UserMessage(text),))
    async with Owned(ask(state, request)) as events:
        async for _ in events:
            pass
    text = state.filters.text(answer_of(state).text.strip())
    before = sum(message.replaced if isinstance(message, SummaryMessage) else 1 for message in replaced)
    summary = SummaryMessage(text, before, run_id=state.run.id)
    _check(summary, replaced)
    session.messages[: len(replaced)] = [summary]
    if session.parent is not None:
        session.parent = session.parent.model_copy(update={"message_count": 0})
    state.messages.append(summary)
    state.completion = None
    state.is_answered = True
    state.step = 1
    state.finish_step()
    return summary


def _check(summary: SummaryMessage, replaced: list[Message]) -> None:
    if not any(letter.isalnum() for letter in summary.text):
        raise OutputError("the model's summary is empty; the transcript is as it was")
    if estimated_tokens([summary]) >= estimated_tokens(replaced):
        raise OutputError(
            f"the model's summary ({len(summary.text)} characters) is no shorter than the {len(replaced)} messages it "
            "would replace; the transcript is as it was"
        )


def _with_room(state: RunState) -> AgentConfig:
    """Return the settings of the request; in a small window the length of a summary is limited."""
    limit = state.input_limit
    if limit is None or limit > _SMALL_WINDOW:
        return state.config
    return state.config.replace(max_tokens=max(limit // _SUMMARY_SHARE, 1))


def _room_for_digest(state: RunState) -> int | None:
    """Return how many estimated tokens of the conversation fit into the request for its summary."""
    if state.input_limit is None:
        return None
    room = state.input_limit * _MARGIN / scale_of_estimates(state.session.messages, _beside(state.plan))
    prompt = estimated_tokens([UserMessage((state.config.system_prompt or "") + _REQUEST)])
    return max(int(room * (1 - 1 / _SUMMARY_SHARE)) - prompt, 0)


def _beside(plan: RunPlan) -> int:
    """Return about how many tokens each request of the conversation has beside its messages."""
    if plan.kind == "compaction":
        return plan.tokens_beside
    return tokens_beside(plan.config.system_prompt, [tool.schema() for tool in plan.tools.values()])
