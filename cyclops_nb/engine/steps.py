"""What follows from an answer. Pure decisions, no await: the loop asks here and acts on it."""

from __future__ import annotations

from typing import Literal

from cyclops_nb import transcript
from cyclops_nb.errors import InputError, MaxIterationsError
from cyclops_nb.messages import AssistantMessage, Message, SummaryMessage, ToolMessage, UserMessage
from cyclops_nb.session import Session, check_free

__all__ = ["CUT_BY_LENGTH", "check_runnable", "out_of_steps", "what_next"]

CUT_BY_LENGTH = (
    "This call was not run: the answer was cut off by its length limit, so the arguments may be incomplete. "
    "Make the call again with shorter arguments, or in several smaller calls."
)

Next = Literal["finish", "run_tools", "refuse_tools"]


def what_next(message: AssistantMessage) -> Next:
    """Decide what to do with an answer: its calls decide, not its finish reason, which servers get wrong.

    Examples
    --------
    >>> what_next(AssistantMessage("Hello"))
    'finish'
    """
    if not message.tool_calls:
        return "finish"
    return "refuse_tools" if message.finish_reason == "length" else "run_tools"


def check_runnable(session: Session, added: list[Message]) -> None:
    """Raise unless a run may begin that adds some messages to a session; nothing is changed.

    Raises
    ------
    SessionBusyError
        If the session is in a run.
    TranscriptError
        If its transcript is invalid, or would be with what is added.
    InputError
        If it would not end with something that a model can answer.
    """
    check_free(session)
    messages = [*session.messages, *added]
    transcript.check(messages)
    if not messages:
        raise InputError("there is nothing to answer: the session is empty and the run has no input")
    if not isinstance(messages[-1], UserMessage | ToolMessage | SummaryMessage):
        raise InputError(
            "there is nothing to answer: the transcript ends with the assistant's own message; give an input, or "
            "truncate the session to ask again"
        )


def out_of_steps(limit: int) -> MaxIterationsError:
    """Return the error of a run that used up its steps."""
    return MaxIterationsError(
        f"the model still called tools after {limit} steps; raise max_iterations, or go on with agent.run(session=...)"
    )
