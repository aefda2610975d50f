"""What a run hands back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from cyclops_nb.displayable import Displayable, OnceDisplayable
from cyclops_nb.messages import AssistantMessage, Message, ToolCall, ToolMessage
from cyclops_nb.runs import Run, StopReason
from cyclops_nb.session import Session
from cyclops_nb.usage import Usage

__all__ = ["AgentResponse", "Answer"]


class Answer(Displayable, str):
    """The text of an answer: a `str` like any other, which a notebook shows as Markdown.

    Parameters
    ----------
    text : str
        The text.
    response : AgentResponse, optional
        What it is the answer of; copies of the text do not have it.

    Examples
    --------
    >>> Answer("**Hello**") == "**Hello**"
    True
    """

    __slots__ = ("response",)

    response: AgentResponse | None
    """All that came of the run."""

    def __new__(cls, text: object = "", response: AgentResponse | None = None) -> Self:
        """Make one of a text."""
        new = super().__new__(cls, text)
        new.response = response
        return new

    def __reduce__(self) -> tuple[type[Answer], tuple[str]]:
        """Copy and pickle the text alone."""
        return Answer, (str.__str__(self),)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002 - IPython's protocol
        """Show the text itself; IPython would print any str as a quoted literal."""
        printer.text(str.__str__(self))


@dataclass(frozen=True, eq=False)
class AgentResponse(OnceDisplayable):
    """All that came of one run, however it ended.

    Examples
    --------
    >>> response = agent.run_with_response("Hello")
    >>> response.content, response.stop_reason
    ('Hello! How can I help?', 'completed')
    """

    run: Run = field(repr=False)
    """The record of the run, as the session keeps it."""
    content: str
    """The text of the last answer; empty if there is none."""
    output: Any = field(default=None, repr=False)
    """The answer as the type that was asked for with ``response_model=``, else the same as `content`."""
    messages: tuple[Message, ...] = field(default=(), repr=False)
    """The messages that the run put into the transcript, the input first."""
    error: BaseException | None = None
    """What the run failed with."""
    partial: str = ""
    """Text of a completion that was cut off; it stands in no transcript."""
    session: Session = field(default_factory=Session, repr=False)
    """The session that was extended; a fresh one if none was given."""
    start: int = field(default=0, repr=False)
    """The index that the first of `messages` had in the session when the run ended, counted back from the last one:
    where that comes to stand before the session's first message, a compaction in the run has summed it up."""
    runs: tuple[Run, ...] = field(default=(), repr=False)
    """The record of the run, followed by those of the compactions that it needed."""

    @property
    def id(self) -> str:
        """The run's id."""
        return self.run.id

    @property
    def stop_reason(self) -> StopReason | None:
        """``"completed"``, ``"error"``, ``"cancelled"`` or ``"max_iterations"``."""
        return self.run.stop_reason

    @property
    def usage(self) -> Usage | None:
        """Tokens of the run; None if a completion reported none."""
        return self.run.usage

    @property
    def cost(self) -> float | None:
        """Dollars; None if unknown."""
        return self.run.cost

    @property
    def steps(self) -> int:
        """Completed steps."""
        return self.run.steps

    @property
    def duration(self) -> float | None:
        """Seconds from start to end."""
        return self.run.duration

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may be wrong with the answer, in words."""
        return self.run.warnings

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """All calls that the model made in the run."""
        return tuple(call for answer in self._answers() for call in answer.tool_calls)

    @property
    def tool_results(self) -> tuple[ToolMessage, ...]:
        """All results, in the order of the calls; ``.value`` is the object that the tool returned."""
        return tuple(message for message in self.messages if isinstance(message, ToolMessage))

    @property
    def model(self) -> str:
        """The model that answered last, as the server names it, else the one that was asked."""
        answers = self._answers()
        return (answers[-1].model if answers else None) or self.run.model

    @property
    def finish_reason(self) -> str | None:
        """Why the model ended its last answer, in the server's word."""
        answers = self._answers()
        return answers[-1].finish_reason if answers else None

    def _answers(self) -> list[AssistantMessage]:
        return [message for message in self.messages if isinstance(message, AssistantMessage)]
