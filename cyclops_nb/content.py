"""Turns what people have in a notebook into message parts: text, data, tables, figures, images, files.

Optional types (DataFrames, figures, images) are recognised by what they can do, without importing their packages.
"""

from __future__ import annotations

import io
import json
import mimetypes
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic_core import PydanticSerializationError, to_jsonable_python

from cyclops_nb.errors import InputError
from cyclops_nb.messages import FilePart, ImagePart, InputPart, Message, TextPart, UserMessage
from cyclops_nb.values import clean_json

__all__ = ["MAX_TABLE_ROWS", "input_messages", "input_parts", "result_parts"]

MAX_TABLE_ROWS = 200
"""A longer table is sent as its first and last rows, with its true size below."""

_PART_TYPES = get_args(InputPart)
_MESSAGE_TYPES = get_args(Message)


def input_messages(value: Any) -> list[Message]:
    """Return the messages that a run's input stands for.

    Parameters
    ----------
    value : str, part, message, notebook object, path, or list of these
        Neighbouring texts and parts become one user message; messages stay as they are.

    Raises
    ------
    InputError
        If something in it cannot be sent, or there is nothing to send.

    Examples
    --------
    >>> [message.text for message in input_messages("Hello")]
    ['Hello']
    """
    items = list(value) if isinstance(value, list | tuple) else [value]
    messages: list[Message] = []
    parts: list[InputPart] = []
    for item in items:
        if isinstance(item, _MESSAGE_TYPES):
            if parts:
                messages.append(UserMessage(parts))
                parts = []
            messages.append(item)
        else:
            parts.extend(input_parts(item))
    if parts:
        messages.append(UserMessage(parts))
    if not messages or any(_is_blank(message) for message in messages):
        raise InputError("the input is empty: give some text, or an image or a file; input=None answers what stands")
    for message in messages:
        _refuse_empty_data(message)
    return messages


def _refuse_empty_data(message: Message) -> None:
    for part in message.content:
        if isinstance(part, ImagePart | FilePart) and part.data == "":
            what = f"the file {part.name!r}" if isinstance(part, FilePart) else f"an image ({part.media_type})"
            raise InputError(f"the input is empty: there is no data in {what}; was it written completely?")


def _is_blank(message: Message) -> bool:
    return isinstance(message, UserMessage) and all(
        isinstance(part, TextPart) and not part.text.strip() for part in message.content
    )


def input_parts(value: Any) -> list[InputPart]:
    """Return the parts that one thing of a run's input stands for, or raise `InputError`."""
    if isinstance(value, str):
        return [TextPart(value)]
    if isinstance(value, Path):
        return [_from_path(value)]
    part = _special_part(value)
    if part is None:
        raise InputError(
            f"a {type(value).__name__} cannot be sent to a model: give text, an ImagePart or FilePart, a message, a "
            "Path, a figure or image, a DataFrame, or a list of these"
        )
    return [part]


def result_parts(value: Any) -> list[InputPart]:
    """Return the parts that a tool's result stands for.

    Raises
    ------
    InputError
        If it is nothing that can be put into words or pictures.

    Examples
    --------
    >>> result_parts({"a": 1})[0].text
    '{"a": 1}'
    """
    if isinstance(value, str):
        return [TextPart(value)]
    part = _special_part(value)
    if part is not None:
        return [part]
    if isinstance(value, list | tuple) and any(_special_part(item) is not None for item in value):
        return [part for item in value for part in result_parts(item)]
    return [TextPart(_as_json(value))]


def _as_json(value: Any) -> str:
    try:
        return json.dumps(clean_json(value), ensure_ascii=False)
    except (ValueError, RecursionError):
        pass  # not JSON as it stands: models, dates, arrays and the like are made so
    try:
        data = to_jsonable_python(value, fallback=_plain, serialize_unknown=False)
        return json.dumps(clean_json(data), ensure_ascii=False)
    except (PydanticSerializationError, ValueError, TypeError, RecursionError, UnicodeError):
        raise InputError(
            f"a {type(value).__name__} cannot be sent to a model as text: return text, JSON data, a DataFrame, "
            "a figure, an image, or parts"
        ) from None


def _plain(value: Any) -> Any:
    """Turn tables, numpy's scalars and arrays, and anything shaped like them, into Python's own."""
    if _comes_from(value, "pandas", {"DataFrame"}):
        return value.to_dict("records")  # going through it would give the names of its columns alone
    if _comes_from(value, "polars", {"DataFrame"}):
        return value.to_dicts()
    if _comes_from(value, "pandas", {"NAType"}):
        return None
    for method in ("tolist", "item"):
        convert = getattr(value, method, None)
        if callable(convert) and not isinstance(value, type):
            return convert()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | memoryview):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON data")


def _special_part(value: Any) -> InputPart | None:
    """Return the part for a part, table, figure or image, or None for anything else."""
    if isinstance(value, _PART_TYPES):
        found: InputPart = value
        return found
    if isinstance(value, type | str | int | float | dict | bytes):
        return None
    if _comes_from(value, "pandas", {"DataFrame", "Series"}):
        return TextPart(value.to_string(max_rows=MAX_TABLE_ROWS, **_dimensions(value)))
    if _comes_from(value, "polars", {"DataFrame", "Series"}):
        return TextPart(str(value))
    return _image_part(value)


def _dimensions(table: Any) -> dict[str, bool]:
    """Say how large a cut table is, and what a column is called, in the way its class spells it."""
    cut = len(table) > MAX_TABLE_ROWS
    return {"show_dimensions": cut} if hasattr(table, "columns") else {"length": cut, "name": True}


def _comes_from(value: Any, package: str, names: set[str]) -> bool:
    return any(kind.__name__ in names and kind.__module__.partition(".")[0] == package for kind in type(value).__mro__)


def _image_part(value: Any) -> ImagePart | None:
    """Return the picture that a figure or image object shows in a notebook, or None."""
    try:
        return _drawn(value)
    except Exception as error:
        raise InputError(
            f"a {type(value).__name__} cannot be drawn: {type(error).__name__}: {error}; does it show in a cell?"
        ) from error


def _drawn(value: Any) -> ImagePart | None:
    if callable(getattr(value, "savefig", None)):
        buffer = io.BytesIO()
        value.savefig(buffer, format="png", bbox_inches="tight")
        return ImagePart(buffer.getvalue(), media_type="image/png")
    for method, media_type in (("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg")):
        represent = getattr(value, method, None)
        data = represent() if callable(represent) else None
        if isinstance(data, tuple):
            data = data[0]  # IPython allows (data, metadata)
        if isinstance(data, bytes | str) and data:
            return ImagePart(data, media_type=media_type)
    url = getattr(value, "url", None)
    if _comes_from(value, "IPython", {"Image"}) and isinstance(url, str):
        return ImagePart(url=url)
    return None


def _from_path(path: Path) -> InputPart:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror or error}") from None
    if not data:
        raise InputError(f"the input is empty: the file {str(path)!r} has no data; was it written completely?")
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    if media_type in {"image/png", "image/jpeg", "image/gif", "image/webp"}:
        return ImagePart(data, media_type=media_type)
    return FilePart(path.name, data, media_type)
