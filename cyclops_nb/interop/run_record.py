"""What an output keeps of a run beside what is read, so that sessions can be put together from a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

from pydantic import Field

from cyclops_nb.messages import AnyMessage, Message, SummaryMessage, UserMessage
from cyclops_nb.response import AgentResponse
from cyclops_nb.runs import Run
from cyclops_nb.session import Parent
from cyclops_nb.values import FrozenJson, Text, Timestamp, Value, clean_json

__all__ = ["MEDIA_TYPE", "VERSION", "RunRecord", "run_record"]

MEDIA_TYPE = "application/vnd.cyclops.run+json"
"""Under which it stands in a MIME bundle; front ends keep what they do not know."""
VERSION = 1
"""The version of what is written there."""
_BEFORE = 20


class RunRecord(Value):
    """What a run did to a session.

    Examples
    --------
    >>> response = agent.run_with_response("Hello")
    >>> record = run_record(response)
    >>> record.start, len(record.messages), record.runs[0].stop_reason
    (0, 2, 'completed')
    """

    version: Literal[1] = 1
    session_id: Text
    created_at: Timestamp
    """When the session was begun: another conversation may take its id."""
    title: Text | None = None
    parent: Parent | None = None
    metadata: FrozenJson = Field(default_factory=dict)
    start: int = Field(ge=0)
    """The index of the first message."""
    messages: tuple[AnyMessage, ...]
    """What the run added, behind what was put or asked there before; an earlier part may stand in the summary."""
    before: tuple[Text, ...] = ()
    """The ids of the messages that stood right before them, up to 20: they tell where a run went on after a cut."""
    summary: SummaryMessage | None = None
    """The summary that the session began with, and behind it `start - 1` messages before the run's own."""
    runs: tuple[Run, ...]
    """The run, the compactions within it, and the one that made the summary."""
    configs: dict[Text, FrozenJson] = Field(default_factory=dict)
    """The settings that these name."""


def run_record(response: AgentResponse) -> RunRecord:
    """Return what an output keeps of a run.

    Parameters
    ----------
    response : AgentResponse
        What came of the run.

    Returns
    -------
    RunRecord
        ``.model_dump(mode="json")`` is what stands in the output.
    """
    session = response.session
    held = session.messages
    end = response.run.started_at + timedelta(seconds=response.run.duration or 0)
    first = held[0] if held else None
    summary = first if isinstance(first, SummaryMessage) and first.created_at <= end else None
    start = max(response.start, 0 if summary is None else 1)
    added = response.messages[start - response.start :]
    stands = not added or (start < len(held) and held[start].id == added[0].id)
    question = _question(held, start) if stands and not (added and isinstance(added[0], UserMessage)) else start
    made = {run.id for run in session.runs}
    while stands and question > (summary is not None) and held[question - 1].run_id not in made:
        question -= 1  # no run has put it there, so no other record has it
    known = response.runs or (response.run,)
    makers = [run for run in session.runs if summary is not None and run.id == summary.run_id and run not in known]
    return RunRecord(
        session_id=session.id,
        created_at=session.created_at,
        title=session.title,
        parent=session.parent,
        metadata=clean_json(session.metadata),
        start=question,
        messages=(*held[question:start], *added),
        before=tuple(message.id for message in held[max(question - _BEFORE, 0) : question]) if stands else (),
        summary=summary,
        runs=(*known, *makers),
        configs={run.config: session.configs[run.config] for run in (*known, *makers) if run.config in session.configs},
    )


def _question(messages: Sequence[Message], start: int) -> int:
    """Return the index of the question that a run without an input of its own answered; `start` if there is none."""
    places = (place for place in range(start - 1, -1, -1) if isinstance(messages[place], UserMessage))
    return next(places, start)
