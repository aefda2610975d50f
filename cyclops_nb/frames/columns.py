"""Columns of documented dtypes, made of plain values; None is ``<NA>``.

Each column is built with its dtype instead of being guessed from its values: what pandas guesses differs between an
empty column, one of missing values and a full one, and between its versions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from cyclops_nb.messages import FilePart, ImagePart, Part
from cyclops_nb.usage import Usage

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Columns", "attachments", "in_utc", "make_column", "make_frame", "tokens"]

Columns: TypeAlias = Mapping[str, str | tuple[str, ...]]
"""Names of columns, each with its dtype, ``"time"``, or its categories."""
TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")

_TOLD_TYPE = re.compile(r"data:([\w.+-]{1,80}/[\w.+-]{1,80})[;,]")
_INT64 = range(-(2**63), 2**63)


def make_frame(rows: list[dict[str, Any]], columns: Columns) -> pd.DataFrame:
    """Return a frame with just these columns; what a row does not have is missing."""
    import pandas as pd

    return pd.DataFrame({name: make_column([row.get(name) for row in rows], dtype) for name, dtype in columns.items()})


def make_column(values: Sequence[Any], dtype: str | tuple[str, ...]) -> pd.Series[Any]:
    """Return a column: of that dtype, of these categories, or of moments in UTC (``"time"``)."""
    import pandas as pd

    if isinstance(dtype, tuple):
        return pd.Series(values, dtype=pd.CategoricalDtype(list(dtype)))
    if dtype == "time":
        moments = [in_utc(value) for value in values]
        column: pd.Series[Any] = pd.Series(moments, dtype="datetime64[us]").dt.tz_localize("UTC")
        return column
    try:
        return pd.Series(values, dtype=dtype)
    except (OverflowError, TypeError):  # more than any server counts: a damaged file
        return pd.Series([value if value in _INT64 else None for value in values], dtype=dtype)


def in_utc(moment: datetime | None) -> datetime | None:
    """Return a moment without its zone, since pandas is quicker with those."""
    if moment is None:
        return None
    try:
        return moment.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:  # on the first and the last day that there are
        return None


def tokens(usage: Usage | None) -> dict[str, int | None]:
    """Return the cells of the token columns."""
    return {name: None if usage is None else getattr(usage, name) for name in TOKENS}


def attachments(content: Sequence[Part]) -> dict[str, int | str | None]:
    """Return the cells for the pictures and files among the parts of a message: how many, of what kinds, how large."""
    found = [part for part in content if isinstance(part, ImagePart | FilePart)]
    if not found:
        return {"images": 0, "files": 0, "bytes": 0}
    return {
        "images": sum(isinstance(part, ImagePart) for part in found),
        "files": sum(isinstance(part, FilePart) for part in found),
        "media_types": ", ".join(dict.fromkeys(filter(None, map(_media_type, found)))) or None,
        "bytes": sum(map(_size, found)),
    }


def _data(part: ImagePart | FilePart) -> str:
    url = part.url if isinstance(part, ImagePart) else None
    return url if url and url.startswith("data:") else part.data or ""


def _media_type(part: ImagePart | FilePart) -> str | None:
    told = _TOLD_TYPE.match(_data(part))
    return part.media_type or (told[1] if told else None)


def _size(part: ImagePart | FilePart) -> int:
    """Return how many bytes a part's base64 stands for, without decoding it."""
    data = _data(part)
    if data.startswith("data:"):
        data = data.partition(",")[2]
    return (len(data) - sum(map(data.count, "=\n\r\t "))) * 3 // 4
