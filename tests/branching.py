"""Conversations that part, as tests make them."""

from datetime import UTC, datetime

from cyclops_nb.messages import AssistantMessage, TextPart, ToolCall, ToolMessage, UserMessage
from cyclops_nb.runs import Run
from cyclops_nb.session import Session
from cyclops_nb.usage import Usage

START = datetime(2026, 1, 2, tzinfo=UTC)


def ask(session, question, *answer, run_id, **fields):
    """Put a run into a session: a question, what answers it, and the record."""
    made = [UserMessage(question), *answer]
    session.messages += [message.model_copy(update={"run_id": run_id}) for message in made]
    steps = sum(message.role == "assistant" for message in made)
    given = {"model": "m", "stop_reason": "completed", "duration": 1.0, "cost": 0.001, "usage": Usage(steps, 100, 10)}
    session.runs.append(Run(id=run_id, session_id=session.id, steps=steps, **{**given, **fields}))
    return session


def origin():
    return ask(Session("origin", title="Origin"), "Hello", AssistantMessage("Hi."), run_id="r1")


def two():
    """Return two forks of one conversation: the second calls a tool and costs more."""
    first, second = origin().fork(title="A"), origin().fork(title="B")
    ask(first, "Is it cold?", AssistantMessage("Yes."), run_id="ra")
    called = AssistantMessage([TextPart("I look."), ToolCall("c1", "look", '{"at": "sky"}')])
    ask(
        second, "Is it warm?", called, ToolMessage("c1", "look", "blue"), AssistantMessage("No.", model="big"),
        run_id="rb", usage=Usage(2, 300, 25, 50, 5), cost=0.0034, duration=2.5, model="big",
    )  # fmt: skip
    return first, second
