"""Messages and their parts: what a transcript is made of.

All of them are frozen values with an order of parts that is the order in which they came, so a message can be shared
by any number of forks, snapshots and threads. A message is never changed; an edit is another message.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from cyclops_nb.displayable import Displayable
from cyclops_nb.errors import InputError
from cyclops_nb.usage import Usage
from cyclops_nb.values import (
    FrozenDict,
    FrozenJson,
    Memo,
    Text,
    Timestamp,
    Value,
    clean_json,
    clean_text,
    new_id,
    now,
    positional,
)

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


def _is_empty(value: Any) -> bool:
    return not value


def _is_none(value: Any) -> bool:
    return value is None


def _as_base64(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes | bytearray | memoryview) else value


def _as_arguments(value: Any) -> Any:
    """Return tool call arguments as the text of a JSON object; servers send them in five ways."""
    if isinstance(value, str):
        return clean_text(value) if value.strip() else "{}"
    if value is None:
        return "{}"
    return json.dumps(clean_json(value), ensure_ascii=False) if isinstance(value, dict | list) else value


class _Part(Value):
    if TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None: ...

    provider_metadata: FrozenJson = Field(default_factory=FrozenDict, exclude_if=_is_empty)
    """What the provider sent beside the part; opaque, sent back to the same provider untouched."""


class TextPart(_Part):
    """A piece of text.

    Examples
    --------
    >>> TextPart("Hello").text
    'Hello'
    """

    type: Literal["text"] = "text"
    text: Text

    @positional
    def __init__(self, text: str, **fields: Any) -> None:
        super().__init__(text=text, **fields)


class ReasoningPart(_Part):
    """What a model thought before or between its answers, as far as the provider shows it.

    Encrypted or signed reasoning stands in `provider_metadata`; its `text` may be empty.

    Examples
    --------
    >>> ReasoningPart("The user greets.").text
    'The user greets.'
    """

    type: Literal["reasoning"] = "reasoning"
    text: Text

    @positional
    def __init__(self, text: str = "", **fields: Any) -> None:
        super().__init__(text=text, **fields)


class ToolCall(_Part):
    """A model's wish to have a tool called.

    Parameters
    ----------
    id : str
        The call's id, which its result repeats.
    name : str
        The tool's name.
    arguments : str
        The arguments as the model wrote them, meant to be a JSON object; nothing or blank is stored as ``"{}"``.

    Examples
    --------
    >>> ToolCall("call_1", "get_weather", '{"city": "Paris"}').args
    {'city': 'Paris'}
    """

    type: Literal["tool_call"] = "tool_call"
    id: Text
    name: Text
    arguments: Annotated[str, BeforeValidator(_as_arguments)] = "{}"

    @positional
    def __init__(self, id: str, name: str, arguments: Any = "{}", **fields: Any) -> None:  # noqa: A002
        super().__init__(id=id, name=name, arguments=arguments, **fields)

    @property
    def args(self) -> dict[str, Any]:
        """The parsed arguments.

        Raises
        ------
        InputError
            If the model wrote something that is no JSON object.
        """
        try:
            value = json.loads(self.arguments)
        except ValueError as error:
            raise InputError(f"the arguments of call {self.id!r} to {self.name!r} are not valid JSON: {error}") from None
        if not isinstance(value, dict):
            raise InputError(
                f"the arguments of call {self.id!r} to {self.name!r} must be a JSON object, got {type(value).__name__}"
            )
        return value


class ImagePart(_Part):
    """A picture, by its data or by its address.

    Parameters
    ----------
    data : str or bytes, optional
        The image file in base64 (kept exactly as given), or its bytes.
    url : str, optional
        Where the image stands, instead of `data`.
    media_type : str, optional
        Such as ``"image/png"``; needed with `data`.

    Examples
    --------
    >>> ImagePart(url="https://example.org/cat.png").url
    'https://example.org/cat.png'
    """

    type: Literal["image"] = "image"
    media_type: Text | None = Field(default=None, exclude_if=_is_none)
    data: Annotated[Text | None, BeforeValidator(_as_base64)] = Field(default=None, exclude_if=_is_none, repr=False)
    url: Text | None = Field(default=None, exclude_if=_is_none)

    @positional
    def __init__(
        self, data: str | bytes | None = None, url: str | None = None, media_type: str | None = None, **fields: Any
    ) -> None:
        super().__init__(data=data, url=url, media_type=media_type, **fields)

    @model_validator(mode="after")
    def _one_source(self) -> ImagePart:
        if (self.data is None) == (self.url is None):
            raise ValueError("an ImagePart needs either data= or url=")
        if self.data is not None and not self.media_type:
            raise ValueError('an ImagePart with data= needs media_type=, such as "image/png"')
        return self


class FilePart(_Part):
    """A file that is sent whole.

    Parameters
    ----------
    name : str
        The file's name, without a folder.
    data : str or bytes
        Its content in base64 (kept exactly as given), or its bytes.
    media_type : str
        Such as ``"application/pdf"``.

    Examples
    --------
    >>> FilePart("a.txt", b"hello", "text/plain").data
    'aGVsbG8='
    """

    type: Literal["file"] = "file"
    name: Text
    media_type: Text
    data: Annotated[Text, BeforeValidator(_as_base64)] = Field(repr=False)

    @positional
    def __init__(self, name: str, data: str | bytes, media_type: str, **fields: Any) -> None:
        super().__init__(name=name, data=data, media_type=media_type, **fields)


Part: TypeAlias = TextPart | ReasoningPart | ToolCall | ImagePart | FilePart
InputPart: TypeAlias = TextPart | ImagePart | FilePart
AssistantPart: TypeAlias = TextPart | ReasoningPart | ToolCall


def _as_parts(value: Any) -> Any:
    """Let ``content`` be given as text, or as one part."""
    if isinstance(value, str):
        return (TextPart(value),)
    return (value,) if isinstance(value, _Part) else value


_InputContent = Annotated[
    tuple[Annotated[InputPart, Field(discriminator="type")], ...], BeforeValidator(_as_parts)
]
_AssistantContent = Annotated[
    tuple[Annotated[AssistantPart, Field(discriminator="type")], ...], BeforeValidator(_as_parts)
]


class _Message(Displayable, Value):
    role: str
    id: Text = Field(default_factory=new_id)
    run_id: Text | None = None
    """The run that put the message into the transcript."""
    created_at: Timestamp = Field(default_factory=now)
    metadata: FrozenJson = Field(default_factory=FrozenDict, exclude_if=_is_empty)
    """The user's own notes about the message."""
    provider_metadata: FrozenJson = Field(default_factory=FrozenDict, exclude_if=_is_empty)
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
    cost: float | None = Field(default=None, exclude_if=_is_none)
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
