"""Messages: what a transcript is made of.

All of them are frozen values with an order of parts that is the order in which they came, so a message can be shared
by any number of forks, snapshots and threads. A message is never changed; an edit is another message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PrivateAttr

from cyclops_nb.displayable import Displayable
from cyclops_nb.parts import (
    AssistantPart,
    BasePart,
    FilePart,
    ImagePart,
    InputPart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    is_empty,
    is_none,
)
from cyclops_nb.usage import Usage
from cyclops_nb.values import FrozenDict, FrozenJson, Memo, Text, Timestamp, Value, new_id, now, positional

__all__ = [
    "AnyMessage",
    "AssistantMessage",
    "AssistantPart",
    "FilePart",
    "ImagePart",
    "InputPart",
    "Message",
    "Part",
    "ReasoningPart",
    "SummaryMessage",
    "TextPart",
    "ToolCall",
    "ToolMessage",
    "ToolStatus",
    "UserMessage",
]

ToolStatus = Literal["ok", "error", "cancelled"]


def _as_parts(value: Any) -> Any:
    """Let ``content`` be given as text, or as one part."""
    if isinstance(value, str):
        return (TextPart(value),)
    return (value,) if isinstance(value, BasePart) else value


_InputContent = Annotated[tuple[Annotated[InputPart, Field(discriminator="type")], ...], BeforeValidator(_as_parts)]
_AssistantContent = Annotated[
    tuple[Annotated[AssistantPart, Field(discriminator="type")], ...], BeforeValidator(_as_parts)
]


class _Message(Displayable, Value):
    role: str
    id: Text = Field(default_factory=new_id)
    run_id: Text | None = None
    """The run that put the message into the transcript."""
    created_at: Timestamp = Field(default_factory=now)
    metadata: FrozenJson = Field(default_factory=FrozenDict, exclude_if=is_empty)
    """The user's own notes about the message."""
    provider_metadata: FrozenJson = Field(default_factory=FrozenDict, exclude_if=is_empty)
    """What the provider sent beside the message; opaque, sent back to the same provider untouched."""

    if TYPE_CHECKING:
        content: tuple[Any, ...]

        def __init__(self, **fields: Any) -> None: ...

    @property
    def text(self) -> str:
        """The plain text: all text parts put together."""
        return "".join(part.text for part in self.content if isinstance(part, TextPart))


class UserMessage(_Message):
    """What the user said or showed.

    Parameters
    ----------
    content : str, part, or sequence of parts
        Text, images and files.

    Examples
    --------
    >>> UserMessage("Hello").text
    'Hello'
    """

    role: Literal["user"] = "user"
    content: _InputContent

    @positional
    def __init__(self, content: str | InputPart | Sequence[InputPart], **fields: Any) -> None:
        super().__init__(content=content, **fields)


class AssistantMessage(_Message):
    """What a model answered in one completion.

    Parameters
    ----------
    content : str, part, or sequence of parts
        Reasoning, text and tool calls, in the order they came.

    Examples
    --------
    >>> AssistantMessage([TextPart("Wait."), ToolCall("call_1", "now")]).tool_calls[0].name
    'now'
    """

    role: Literal["assistant"] = "assistant"
    model: Text | None = None
    """The model that the server says has answered."""
    finish_reason: Text | None = None
    duration: float | None = None
    """Seconds from request to end of the answer."""
    usage: Usage | None = None
    cost: float | None = Field(default=None, exclude_if=is_none)
    """Dollars, or None if unknown."""
    content: _AssistantContent

    @positional
    def __init__(self, content: str | AssistantPart | Sequence[AssistantPart], **fields: Any) -> None:
        super().__init__(content=content, **fields)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls in it, in order."""
        return tuple(part for part in self.content if isinstance(part, ToolCall))

    @property
    def reasoning(self) -> str:
        """All reasoning text put together."""
        return "".join(part.text for part in self.content if isinstance(part, ReasoningPart))


class ToolMessage(_Message):
    """The result of one tool call.

    Parameters
    ----------
    call_id : str
        The id of the call that it answers.
    name : str
        The tool's name.
    content : str, part, or sequence of parts
        What the model gets to see.
    status : {"ok", "error", "cancelled"}
        How the call ended.

    Examples
    --------
    >>> ToolMessage("call_1", "get_weather", "11 °C").status
    'ok'
    """

    role: Literal["tool"] = "tool"
    call_id: Text
    name: Text
    status: ToolStatus = "ok"
    duration: float | None = None
    """Seconds that the tool took."""
    content: _InputContent
    _value: Memo = PrivateAttr(default_factory=Memo)

    @positional
    def __init__(
        self,
        call_id: str,
        name: str,
        content: str | InputPart | Sequence[InputPart],
        status: ToolStatus = "ok",
        **fields: Any,
    ) -> None:
        super().__init__(call_id=call_id, name=name, content=content, status=status, **fields)

    @property
    def value(self) -> Any:
        """The object that the tool returned, as long as it is in memory; None for a loaded message."""
        return self._value.value

    def remember(self, value: Any) -> None:
        """Keep the object that the tool returned, in memory only."""
        self._value.value = value


class SummaryMessage(_Message):
    """Stands for older messages that were summarised.

    Parameters
    ----------
    content : str, part, or sequence of parts
        The summary.
    replaced : int
        How many messages it stands for.

    Examples
    --------
    >>> SummaryMessage("They greeted each other.", 2).replaced
    2
    """

    role: Literal["summary"] = "summary"
    replaced: int = Field(default=0, ge=0)
    content: _InputContent

    @positional
    def __init__(self, content: str | InputPart | Sequence[InputPart], replaced: int = 0, **fields: Any) -> None:
        super().__init__(content=content, replaced=replaced, **fields)


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage | SummaryMessage
"""Any message, for ``isinstance`` and annotations."""
AnyMessage = Annotated[Message, Field(discriminator="role")]
"""Any message, for reading: the role decides, so that a bad field gives one error and not four."""
