"""What happens in a run, as data.

Events carry no exceptions, tasks or callables, so they can be stored, sent and compared. All have ``type`` (the class
name in snake case), ``run_id`` and ``step`` (counted from 1; 0 before the first).
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, TypedDict

from pydantic import BaseModel, ConfigDict, Field

from cyclops_nb.messages import AssistantMessage, SummaryMessage, ToolCall, ToolMessage
from cyclops_nb.runs import Run
from cyclops_nb.usage import Usage

__all__ = [
    "AnyEvent",
    "Compacted",
    "Event",
    "Place",
    "ReasoningDelta",
    "RequestRetried",
    "RunFinished",
    "RunStarted",
    "StepFinished",
    "StepStarted",
    "TextDelta",
    "ToolCallDelta",
    "ToolCallReady",
    "ToolCallStarted",
    "ToolResult",
]


class Place(TypedDict):
    """Where an event belongs: the fields that all events have."""

    run_id: str
    step: int


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    run_id: str = ""
    step: int = 0


class RunStarted(_Event):
    """A run begins; always the first event."""

    type: Literal["run_started"] = "run_started"
    session_id: str
    model: str


class StepStarted(_Event):
    """A completion is asked for. A second one with the same step means a retry: deltas since the first are void."""

    type: Literal["step_started"] = "step_started"


class RequestRetried(_Event):
    """A request is sent again, because it failed on the way or the server was too busy; nothing was read of it."""

    type: Literal["request_retried"] = "request_retried"
    attempt: int
    """Which try after the first it is, from 1."""
    reason: str
    """What came of the try before, such as ``"429 Too Many Requests"`` or ``"connection failed"``."""


class TextDelta(_Event):
    """A piece of the answer."""

    type: Literal["text_delta"] = "text_delta"
    text: str


class ReasoningDelta(_Event):
    """A piece of reasoning."""

    type: Literal["reasoning_delta"] = "reasoning_delta"
    text: str


class ToolCallStarted(_Event):
    """The model begins to write a tool call."""

    type: Literal["tool_call_started"] = "tool_call_started"
    call_id: str
    name: str


class ToolCallDelta(_Event):
    """A piece of a tool call's arguments."""

    type: Literal["tool_call_delta"] = "tool_call_delta"
    call_id: str
    arguments: str


class ToolCallReady(_Event):
    """A tool call is complete, its tool is about to run."""

    type: Literal["tool_call_ready"] = "tool_call_ready"
    call: ToolCall


class ToolResult(_Event):
    """A tool has ended, well or not; results come in the order in which tools end."""

    type: Literal["tool_result"] = "tool_result"
    message: ToolMessage
    duration: float
    """Seconds."""


class StepFinished(_Event):
    """A completion and all its tools are done and stand in the transcript."""

    type: Literal["step_finished"] = "step_finished"
    message: AssistantMessage
    usage: Usage | None
    cost: float | None
    """Dollars."""


class Compacted(_Event):
    """Older messages were replaced by a summary."""

    type: Literal["compacted"] = "compacted"
    message: SummaryMessage


class RunFinished(_Event):
    """The run is over, however it ended; always the last event, and it always comes."""

    type: Literal["run_finished"] = "run_finished"
    run: Run
    content: str
    """The text of the last answer."""


Event: TypeAlias = (
    RunStarted
    | StepStarted
    | RequestRetried
    | TextDelta
    | ReasoningDelta
    | ToolCallStarted
    | ToolCallDelta
    | ToolCallReady
    | ToolResult
    | StepFinished
    | Compacted
    | RunFinished
)
"""Any event, for ``isinstance`` and annotations."""
AnyEvent = Annotated[Event, Field(discriminator="type")]
"""Any event, for reading from JSON: the type decides."""
