"""What an output keeps of a run beside what is read, so that sessions can be put together from a notebook."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cyclops_nb.messages import AnyMessage, SummaryMessage
from cyclops_nb.response import AgentResponse
from cyclops_nb.runs import Run
from cyclops_nb.session import Parent
from cyclops_nb.values import FrozenJson, Text, Timestamp, Value

__all__ = ["MEDIA_TYPE", "RunRecord", "run_record"]

MEDIA_TYPE = "application/vnd.cyclops.run+json"
"""Under which it stands in a MIME bundle; front ends keep what they do not know."""


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
    start: int = Field(ge=0)
    """The index of the first message."""
    messages: tuple[AnyMessage, ...]
    """What the run added, of which an earlier part may stand in the summary."""
    summary: SummaryMessage | None = None
    """What took the place of older messages in this run: all but the `start - 1` before the run's own."""
    runs: tuple[Run, ...]
    """The run, and the compactions within it."""
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
    made_by = {run.id for run in response.runs}
    first = session.messages[0] if session.messages else None
    summary = first if isinstance(first, SummaryMessage) and first.run_id in made_by else None
    start = max(response.start, 0 if summary is None else 1)
    return RunRecord(
        session_id=session.id,
        created_at=session.created_at,
        title=session.title,
        parent=session.parent,
        start=start,
        messages=response.messages[start - response.start :],
        summary=summary,
        runs=response.runs or (response.run,),
        configs={run.config: session.configs[run.config] for run in response.runs if run.config in session.configs},
    )
