"""Turns what people have in a notebook into message parts: text, data, tables, figures, images, files.

Optional types (DataFrames, figures, images) are recognised by what they can do, without importing their packages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic_core import PydanticSerializationError, to_jsonable_python

from cyclops_nb.errors import InputError
from cyclops_nb.files import part_of_file
from cyclops_nb.media import checked
from cyclops_nb.messages import InputPart, Message, TextPart, UserMessage
from cyclops_nb.pictures import comes_from, other_looks, picture_of
from cyclops_nb.values import clean_json

__all__ = ["MAX_TABLE_ROWS", "input_messages", "input_parts", "result_parts", "special_part"]

MAX_TABLE_ROWS = 200
"""A longer table is sent as its first and last rows, with its true size below."""
_WIDE = 20_000
"""Characters from which on a table that is mostly blanks is sent without its alignment."""

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
    for index, item in enumerate(items):
        try:
            found = _message_or_parts(item)
        except InputError as error:
            if len(items) == 1:
                raise
            raise InputError(f"input[{index}]: {error}") from error.__cause__
        if isinstance(found, list):
            parts.extend(found)
            continue
        if parts:
            messages.append(UserMessage(parts))
            parts = []
        messages.append(found)
    if parts:
        messages.append(UserMessage(parts))
    if not messages or any(_is_blank(message) for message in messages):
        raise InputError("the input is empty: give some text, or an image or a file; input=None answers what stands")
    return messages


def _message_or_parts(item: Any) -> Message | list[InputPart]:
    if not isinstance(item, _MESSAGE_TYPES):
        return input_parts(item)
    message: Message = item
    for part in message.content:
        if isinstance(part, _PART_TYPES):
            checked(part)
    return message


def _is_blank(message: Message) -> bool:
    return isinstance(message, UserMessage) and all(
        isinstance(part, TextPart) and not part.text.strip() for part in message.content
    )


def input_parts(value: Any) -> list[InputPart]:
    """Return the parts that one thing of a run's input stands for, or raise `InputError`."""
    if isinstance(value, str):
        return [TextPart(value)]
    if isinstance(value, Path):
        return [part_of_file(value)]
    part = special_part(value)
    if part is None:
        hint = other_looks(value) or (
            "give text, an ImagePart or FilePart, a message, a Path, a figure or image, a DataFrame, or a list of these"
        )
        raise InputError(f"a {type(value).__name__} cannot be sent to a model: {hint}")
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
    part = special_part(value)
    if part is not None:
        return [part]
    if isinstance(value, list | tuple):
        found = [special_part(item) for item in value]
        if any(part is not None for part in found):
            pairs = zip(value, found, strict=True)
            return [part for item, special in pairs for part in ([special] if special else result_parts(item))]
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
        hint = other_looks(value) or "return text, JSON data, a DataFrame, a figure, an image, or parts"
        raise InputError(f"a {type(value).__name__} cannot be sent to a model as text: {hint}") from None


def _plain(value: Any) -> Any:
    """Turn tables, numpy's scalars and arrays, and anything shaped like them, into Python's own."""
    if comes_from(value, "pandas", "DataFrame"):
        return value.to_dict("records")  # going through it would give the names of its columns alone
    if comes_from(value, "polars", "DataFrame"):
        return value.to_dicts()
    if comes_from(value, "pandas", "NAType"):
        return None
    for method in ("tolist", "item"):
        convert = getattr(value, method, None)
        if callable(convert) and not isinstance(value, type):
            return convert()
    if isinstance(value, Mapping):
        return dict(value)
    # a chart that is gone through gives the names of its fields
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | memoryview) and not other_looks(value):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON data")


def special_part(value: Any) -> InputPart | None:
    """Return the part for a part, table, figure or image, or None for anything else.

    Raises
    ------
    InputError
        If it is one of these, and cannot be sent.
    """
    if isinstance(value, _PART_TYPES):
        found: InputPart = value
        return checked(found)
    if value is None or isinstance(value, str | int | float | dict | list | tuple | bytes):
        return None
    if comes_from(value, "pandas", "DataFrame", "Series"):
        return TextPart(_table(value))
    if comes_from(value, "polars", "DataFrame", "Series"):
        return TextPart(str(value))
    return picture_of(value)


def _table(table: Any) -> str:
    """Return a table of pandas as text: all columns, whole texts, and of long tables the first and last rows."""
    import pandas as pd

    cut = len(table) > MAX_TABLE_ROWS
    # each class has its own way to be asked how large a cut table is, and what a column is called
    more = {"show_dimensions": cut} if hasattr(table, "columns") else {"length": cut, "name": True}
    with pd.option_context("display.max_colwidth", None):
        return _without_padding(str(table.to_string(max_rows=MAX_TABLE_ROWS, **more)))


def _without_padding(text: str) -> str:
    """Return a table's text without most of its blanks where one long cell has made all its rows as wide."""
    if len(text) < _WIDE or text.count(" ") * 2 < len(text):
        return text
    return re.sub(" {2,}", "  ", text)
