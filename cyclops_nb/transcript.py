"""What makes a transcript valid, as pure functions over messages.

The rule is the providers' own: every tool call of an assistant message is answered by exactly one tool message before
the next user, assistant or summary message. Calls and results are matched within that turn alone, because ids repeat
over a conversation in real data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import ValidationError

from cyclops_nb.annotations import ANNOTATION
from cyclops_nb.errors import InputError, TranscriptError
from cyclops_nb.messages import AssistantMessage, Message, Part, TextPart, ToolCall, ToolMessage, UserMessage

__all__ = [
    "Problem",
    "calls_with_results",
    "check",
    "edited",
    "find_problems",
    "open_calls",
    "repaired",
    "with_unique_call_ids",
]

_NOT_OF_AN_EDIT = {
    "id", "run_id", "created_at", "content", "provider_metadata", "usage", "cost", "duration", "finish_reason",
}  # fmt: skip
_Calls: TypeAlias = list[tuple[ToolCall, tuple[int, ToolMessage] | None]]
_A = {"user": "a user", "assistant": "an assistant", "tool": "a tool", "summary": "a summary"}


@dataclass(frozen=True)
class Problem:
    """A place where a transcript is invalid."""

    index: int
    message_id: str
    text: str


def find_problems(messages: Sequence[Message]) -> list[Problem]:
    """Return the places where `messages` are no valid transcript, in order.

    Examples
    --------
    >>> from cyclops_nb.messages import AssistantMessage, ToolCall
    >>> [p.text for p in find_problems([AssistantMessage(ToolCall("c1", "now"))])]
    ["tool call 'c1' has no result"]
    """
    problems: list[Problem] = []
    waiting: dict[str, int] = {}
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if message.call_id not in waiting:
                text = f"tool result for {message.call_id!r} belongs to no open call"
                problems.append(Problem(index, message.id, text))
            waiting.pop(message.call_id, None)
            continue
        problems.extend(_unanswered(messages, waiting))
        waiting = {}
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                if not call.id:
                    problems.append(Problem(index, message.id, f"a tool call to {call.name!r} has no id"))
                if call.id in waiting:
                    problems.append(Problem(index, message.id, f"two tool calls share the id {call.id!r}"))
                waiting[call.id] = index
    problems.extend(_unanswered(messages, waiting))
    return sorted(problems, key=lambda problem: problem.index)


def _unanswered(messages: Sequence[Message], waiting: dict[str, int]) -> list[Problem]:
    return [
        Problem(index, messages[index].id, f"tool call {call_id!r} has no result") for call_id, index in waiting.items()
    ]


def check(messages: Sequence[Message]) -> None:
    """Raise `TranscriptError` if `messages` are no valid transcript, naming the first place."""
    problems = find_problems(messages)
    if problems:
        first = problems[0]
        raise TranscriptError(
            f"the transcript is invalid at message {first.index} (id {first.message_id!r}): {first.text}; "
            "session.repair() answers open calls and drops stray results"
        )


def open_calls(messages: Sequence[Message]) -> list[ToolCall]:
    """Return the calls of the last turn of `messages` that have no result yet."""
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.call_id)
        elif isinstance(message, AssistantMessage):
            return [call for call in message.tool_calls if call.id not in answered]
        else:
            return []
    return []


def calls_with_results(messages: Sequence[Message]) -> dict[int, _Calls]:
    """Return the calls of each message that has any, by its index: each with its result, and where that stands.

    Parameters
    ----------
    messages : sequence of messages
        A transcript, which may be invalid: of calls that share an id within a turn the first gets the first result.

    Returns
    -------
    dict
        Calls in their order, each with the index of its result and the result; None where there is none.

    Examples
    --------
    >>> from cyclops_nb.messages import AssistantMessage, ToolCall, ToolMessage
    >>> found = calls_with_results([AssistantMessage(ToolCall("c1", "now")), ToolMessage("c1", "now", "12:00")])
    >>> [(call.id, result[0]) for call, result in found[0]]
    [('c1', 1)]
    """
    found: dict[int, _Calls] = {}
    calls: _Calls = []
    waiting: dict[str, list[int]] = {}  # the id of a call -> places in `calls`
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if places := waiting.get(message.call_id):
                place = places.pop(0)
                calls[place] = (calls[place][0], (index, message))
            continue
        waiting, calls = {}, []
        if isinstance(message, AssistantMessage) and message.tool_calls:
            calls = found[index] = [(call, None) for call in message.tool_calls]
            for place, (call, _) in enumerate(calls):
                waiting.setdefault(call.id, []).append(place)
    return found


def repaired(messages: Sequence[Message]) -> tuple[list[Message], list[ToolMessage]]:
    """Return valid messages made of `messages`, and the error results that were added.

    Open calls get an error result, results without a call are dropped, calls that share an id get ids of their own.
    """
    result: list[Message] = []
    added: list[ToolMessage] = []
    waiting: list[tuple[str, ToolCall]] = []  # the id that results carry, and the call as it is kept

    def close() -> None:
        for _, call in waiting:
            text = "No result of this call was recorded."
            added.append(ToolMessage(call.id, call.name, text, status="error"))
            result.append(added[-1])
        waiting.clear()

    for message in messages:
        if isinstance(message, ToolMessage):
            match = next((pair for pair in waiting if pair[0] == message.call_id), None)
            if match is not None:
                waiting.remove(match)
                kept_id = match[1].id
                result.append(
                    message if kept_id == message.call_id else message.model_copy(update={"call_id": kept_id})
                )
            continue
        close()
        if isinstance(message, AssistantMessage) and message.tool_calls:
            unique = with_unique_call_ids(message)
            waiting.extend((old.id, new) for old, new in zip(message.tool_calls, unique.tool_calls, strict=True))
            result.append(unique)
        else:
            result.append(message)
    close()
    return result, added


def with_unique_call_ids(message: AssistantMessage) -> AssistantMessage:
    """Return `message` with a new id for each call whose id is empty or stands before it in the same message."""
    seen: set[str] = set()
    content: list[Part] = []
    for part in message.content:
        if isinstance(part, ToolCall):
            new_id = _unique(part.id or "call", seen)
            seen.add(new_id)
            content.append(part if new_id == part.id else part.model_copy(update={"id": new_id}))
        else:
            content.append(part)
    return message if tuple(content) == message.content else message.model_copy(update={"content": tuple(content)})


def _unique(wanted: str, seen: set[str]) -> str:
    name, number = wanted, 1
    while name in seen:
        number += 1
        name = f"{wanted}_{number}"
    return name


def edited(old: Message, content: Any) -> Message:
    """Return `old` with other content; what was measured, or thought, of the old content is not claimed of the new one.

    Raises
    ------
    InputError
        If that message cannot have such content, or a question would be empty.
    """
    kept = {name: value for name, value in old if name not in _NOT_OF_AN_EDIT}
    noted = {name: value for name, value in old.metadata.items() if name != ANNOTATION}
    kept["metadata"] = {**noted, "edited_from": old.id}
    try:
        new = type(old).model_validate({**kept, "content": content})
    except ValidationError:
        parts = "ReasoningParts and ToolCalls" if isinstance(old, AssistantMessage) else "ImageParts and FileParts"
        raise InputError(
            f"the content of {_A[old.role]} message must be text, a part, or a list of TextParts, {parts}; "
            f"this {type(content).__name__} is not"
        ) from None
    if isinstance(new, UserMessage) and not any(
        not isinstance(part, TextPart) or part.text.strip() for part in new.content
    ):
        raise InputError("an empty question cannot be asked: give text, an image or a file as content")
    return new
