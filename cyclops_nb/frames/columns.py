"""Columns of documented dtypes, made of plain values; None is ``<NA>``.

Each column is built with its dtype instead of being guessed from its values: what pandas guesses differs between an
empty column, one of missing values and a full one, and between its versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Any, TypeAlias

from cyclops_nb.usage import Usage

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Columns", "make_column", "make_frame", "tokens"]

Columns: TypeAlias = Mapping[str, str | tuple[str, ...]]
"""Names of columns, each with its dtype, ``"time"``, or its categories."""
TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


def make_frame(rows: list[dict[str, Any]], columns: Columns) -> pd.DataFrame:
    """Return a frame with just these columns; what a row does not have is missing."""
    import pandas as pd

    return pd.DataFrame({name: make_column([row.get(name) for row in rows], dtype) for name, dtype in columns.items()})


def make_column(values: list[Any], dtype: str | tuple[str, ...]) -> pd.Series[Any]:
    """Return a column: of that dtype, of these categories, or of moments in UTC (``"time"``)."""
    import pandas as pd

    if isinstance(dtype, tuple):
        return pd.Series(values, dtype=pd.CategoricalDtype(list(dtype)))
    if dtype == "time":
        moments = [value.astimezone(UTC).replace(tzinfo=None) for value in values]
        return pd.Series(moments, dtype="datetime64[us]").dt.tz_localize("UTC")
    return pd.Series(values, dtype=dtype)


def tokens(usage: Usage | None) -> dict[str, int | None]:
    """Return the cells of the token columns."""
    return {name: None if usage is None else getattr(usage, name) for name in TOKENS}
