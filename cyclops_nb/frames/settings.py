"""The settings of runs as columns: which of them differ, and what is one setting written in two ways."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cyclops_nb.frames.columns import make_column

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["differing_settings", "setting_column", "setting_key", "setting_text"]

_INT64 = range(-(2**63), 2**63)


def differing_settings(settings: Iterable[Mapping[str, Any] | None]) -> list[str]:
    """Return the names of settings that are not the same in all rows whose settings are known."""
    known = [item for item in {id(item): item for item in settings}.values() if item is not None]
    names = dict.fromkeys(name for item in known for name in item)
    return [name for name in names if len({setting_key(item.get(name)) for item in known}) > 1]


def setting_key(value: Any) -> Any:
    """Return what is equal for equal settings: 0 and 0.0 are one."""
    return value if value is None or _is_number(value) else _as_json(value)


def setting_text(value: Any) -> str:
    """Return a setting as text: lists and objects as JSON."""
    return value if isinstance(value, str) else _as_json(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def setting_column(values: list[Any]) -> pd.Series[Any]:
    """Return the column of a setting: of its values' dtype if they have one, else text."""
    given = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in given):
        return make_column(values, "boolean")
    if all(_is_number(value) for value in given):
        if not all(isinstance(value, int) for value in given):
            return make_column(values, "Float64")
        if all(value in _INT64 for value in given):
            return make_column(values, "Int64")
    return make_column([None if value is None else setting_text(value) for value in values], "string")
