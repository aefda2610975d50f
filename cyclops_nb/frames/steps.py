"""One row a step: a completion, with all the tools that it asked for.

Steps are read off the transcript. What was truncated or summarised is not among them, though it was paid for: sums of
what was spent are those of runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cyclops_nb.frames.columns import Columns, make_frame, tokens
from cyclops_nb.frames.sources import Part, find_messages, find_sessions
from cyclops_nb.messages import AssistantMessage, Message, ToolMessage
from cyclops_nb.transcript import calls_with_results
from cyclops_nb.usage import Usage

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["steps_frame"]

_COLUMNS: Columns = {
    "session_id": "string",
    "index": "Int64",
    "message_id": "string",
    "run_id": "string",
    "step": "Int64",
    "created_at": "time",
    "model": "string",
    "finish_reason": "string",
    "text": "string",
    "reasoning": "string",
    "tool_calls": "Int64",
    "failed_calls": "Int64",
    "input_tokens": "Int64",
    "output_tokens": "Int64",
    "cached_tokens": "Int64",
    "reasoning_tokens": "Int64",
    "cost": "Float64",
    "duration": "Float64",
    "tools_duration": "Float64",
    "tokens_per_second": "Float64",
    "inherited": "boolean",
}


def steps_frame(*sources: Any, inherited: bool = False) -> pd.DataFrame:
    """Return a DataFrame with one row for each step: a completion, with all the tools that it asked for.

    Parameters
    ----------
    *sources : Session, AgentResponse, store, or list of these
        Where the steps stand; of a response, all steps of its session; of a store, all sessions that it lists.
    inherited : bool
        Show steps that sessions share by forking in each of them. By default a step is shown once, like a message in
        `messages_frame`.

    Returns
    -------
    pandas.DataFrame
        In the order of the sources, with the columns

        =================  ===================  ===============================================================
        session_id         string               the session that the row stands in
        index              Int64                place of the answer in ``session.messages``
        message_id         string               of the answer
        run_id             string               the run that made it
        step               Int64                which of the run's steps that are there, from 1
        created_at         datetime64[us, UTC]
        model              string               the one that answered
        finish_reason      string
        text               string               all text parts put together
        reasoning          string               ``<NA>`` if there is none
        tool_calls         Int64                how many calls it has
        failed_calls       Int64                of these, how many have no result of status ``ok``
        input_tokens       Int64                the cached ones included
        output_tokens      Int64                the reasoning included
        cached_tokens      Int64
        reasoning_tokens   Int64
        cost               Float64              dollars
        duration           Float64              seconds until the answer was there
        tools_duration     Float64              seconds of the tool that took longest: they run at the same time
        tokens_per_second  Float64              of output, while the model answered
        inherited          boolean              whether it came from the session that this one was forked from
        =================  ===================  ===============================================================

        What is unknown is ``<NA>``. Steps that were truncated or summarised are not there.

    Raises
    ------
    InputError
        If a source is none of these.

    Warns
    -----
    UserWarning
        If a session in a store cannot be read; it is left out.

    Examples
    --------
    >>> session = Session("study-1")
    >>> session.messages.append(AssistantMessage("Hi!", duration=0.5, usage=Usage(1, 10, 20)))
    >>> steps_frame(session)[["tool_calls", "tokens_per_second"]].values.tolist()
    [[0, 40.0]]
    """
    parts = find_messages(find_sessions(sources), everywhere=inherited)
    return make_frame([row for part in parts for row in _rows(part)], _COLUMNS)


def _rows(part: Part[Message]) -> list[dict[str, Any]]:
    calls = calls_with_results(part.items)
    steps: Counter[str] = Counter()
    numbers: dict[int, int] = {}
    for place, message in enumerate(part.items):
        if isinstance(message, AssistantMessage) and message.run_id is not None:
            steps[message.run_id] += 1
            numbers[place] = steps[message.run_id]
    rows = []
    for place in part.shown:
        message = part.items[place]
        if isinstance(message, AssistantMessage):
            results = [result[1] if result else None for _, result in calls.get(place, ())]
            where = {"session_id": part.session.id, "index": place, "inherited": part.inherited[place]}
            rows.append({**where, "step": numbers.get(place), **_row(message, results)})
    return rows


def _row(message: AssistantMessage, results: Sequence[ToolMessage | None]) -> dict[str, Any]:
    usage, duration = message.usage, message.duration
    return {
        "message_id": message.id,
        "run_id": message.run_id,
        "created_at": message.created_at,
        "model": message.model,
        "finish_reason": message.finish_reason,
        "text": message.text,
        "reasoning": message.reasoning or None,
        "tool_calls": len(results),
        "failed_calls": sum(result is None or result.status != "ok" for result in results),
        **tokens(usage),
        "cost": message.cost,
        "duration": duration,
        "tools_duration": max(
            (result.duration for result in results if result and result.duration is not None), default=None
        ),
        "tokens_per_second": _speed(usage, duration),
    }


def _speed(usage: Usage | None, duration: float | None) -> float | None:
    if usage is None or duration is None or duration <= 0:
        return None
    try:
        speed = usage.output_tokens / duration
    except OverflowError:  # more than any server counts: a damaged file
        return None
    return speed if math.isfinite(speed) else None
