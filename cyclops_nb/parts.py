"""The parts of a message: text, reasoning, tool calls, images and files, all of them frozen values."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from cyclops_nb.errors import InputError
from cyclops_nb.values import FrozenDict, FrozenJson, Text, Value, clean_json, clean_text, positional

__all__ = [
    "AssistantPart",
    "BasePart",
    "FilePart",
    "ImagePart",
    "InputPart",
    "Part",
    "ReasoningPart",
    "TextPart",
    "ToolCall",
    "is_empty",
    "is_none",
]


def is_empty(value: Any) -> bool:
    """Say whether a field holds nothing, so that JSON leaves it out."""
    return not value


def is_none(value: Any) -> bool:
    """Say whether a field is not set, so that JSON leaves it out."""
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


class BasePart(Value):
    """What all parts have."""

    if TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None: ...

    provider_metadata: FrozenJson = Field(default_factory=FrozenDict, exclude_if=is_empty)
    """What the provider sent beside the part; opaque, sent back to the same provider untouched."""


class TextPart(BasePart):
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


class ReasoningPart(BasePart):
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


class ToolCall(BasePart):
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
    def __init__(self, id: str, name: str, arguments: Any = "{}", **fields: Any) -> None:
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
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"the arguments of call {self.id!r} to {self.name!r} are not valid JSON: {error}"
            ) from None
        if not isinstance(value, dict):
            raise InputError(
                f"the arguments of call {self.id!r} to {self.name!r} must be a JSON object, got {type(value).__name__}"
            )
        return value


class ImagePart(BasePart):
    """A picture, by its data or by its address.

    Whether models can take it is checked when it is given to a run, not here: what is stored can always be loaded.

    Parameters
    ----------
    data : str or bytes, optional
        The image file in base64 (kept exactly as given), or its bytes.
    url : str, optional
        Where a server can load the image, on the web, instead of `data`; or an address that holds it, ``data:...``.
    media_type : str, optional
        ``"image/png"``, ``"image/jpeg"``, ``"image/webp"`` or ``"image/gif"``; needed with `data`.

    Examples
    --------
    >>> ImagePart(url="https://example.org/cat.png").url
    'https://example.org/cat.png'
    """

    type: Literal["image"] = "image"
    media_type: Text | None = Field(default=None, exclude_if=is_none)
    data: Annotated[Text | None, BeforeValidator(_as_base64)] = Field(default=None, exclude_if=is_none, repr=False)
    url: Text | None = Field(default=None, exclude_if=is_none)

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


class FilePart(BasePart):
    """A file that is sent whole; its data is checked when it is given to a run.

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
