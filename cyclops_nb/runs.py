"""The record of a run that a session keeps: what made its answers, what it cost, how it ended."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cyclops_nb.displayable import Displayable
from cyclops_nb.usage import Usage
from cyclops_nb.values import Text, Timestamp, Value, new_id, now

__all__ = ["Run", "RunError", "RunKind", "StopReason"]

RunKind = Literal["run", "compaction"]
StopReason = Literal["completed", "error", "cancelled", "max_iterations"]


class RunError(Value):
    """Why a run failed, as data."""

    type: Text
    """The name of the exception's class."""
    message: Text


class Run(Displayable, Value):
    """One run of an agent on a session.

    A run in progress has a record too, with `stop_reason` None; each finished step replaces it by a newer one.

    Examples
    --------
    >>> Run(session_id="s", model="gpt-4o-mini").stop_reason is None
    True
    """

    id: Text = Field(default_factory=new_id)
    session_id: Text
    """The session that the run was made in; a fork inherits runs of its origin."""
    kind: RunKind = "run"
    config: Text | None = None
    """Key into the session's `configs`: the settings that made the run."""
    model: Text
    started_at: Timestamp = Field(default_factory=now)
    duration: float | None = None
    """Seconds from start to end."""
    steps: int = 0
    """Completed steps: a completion with all the tools it asked for."""
    usage: Usage | None = Field(default_factory=Usage)
    """None once a finished completion reported no usage."""
    usage_complete: bool = True
    """False if a completion was stopped before it could report what it used."""
    cost: float | None = 0.0
    """Dollars; None if unknown."""
    input_limit: int | None = None
    """The model's context window in tokens, if known."""
    stop_reason: StopReason | None = None
    error: RunError | None = None
    warnings: tuple[Text, ...] = ()
