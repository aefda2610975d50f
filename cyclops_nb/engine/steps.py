"""What follows from an answer. Pure decisions, no await: the loop asks here and acts on it."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter, ValidationError

from cyclops_nb.errors import InputError, MaxIterationsError, OutputError
from cyclops_nb.messages import AssistantMessage, Message, SummaryMessage, ToolMessage, UserMessage

__all__ = ["CUT_BY_LENGTH", "Verdict", "check_answerable", "judge_output", "out_of_steps", "what_next"]

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


def check_answerable(messages: list[Message]) -> None:
    """Raise `InputError` unless the transcript ends with something that a model can answer."""
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


class Verdict(NamedTuple):
    """Whether an answer fits the asked-for type."""

    output: Any = None
    complaint: str | None = None


def judge_output(adapter: TypeAdapter[Any], text: str) -> Verdict:
    """Validate the text of an answer as JSON of the asked-for type.

    Examples
    --------
    >>> judge_output(TypeAdapter(list[int]), "[1, 2]").output
    [1, 2]
    """
    try:
        return Verdict(adapter.validate_json(_without_fence(text)))
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or 'answer'}: {item['msg']}" for item in error.errors()
        )
        return Verdict(complaint=f"The answer does not fit the required JSON schema: {problems}. Answer with JSON alone.")


def output_error(complaint: str, schema: dict[str, Any]) -> OutputError:
    """Return the error of a run whose answers never fitted."""
    return OutputError(f"{complaint} (asked twice; schema: {json.dumps(schema)[:200]})")


def _without_fence(text: str) -> str:
    """Drop a Markdown fence around JSON, which models add unasked."""
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```") and "\n" in stripped:
        return stripped[stripped.index("\n") + 1 : -3]
    return stripped
