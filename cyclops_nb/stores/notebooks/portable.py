"""Data that come through other programs as they are.

Jupyter sorts the keys of all metadata, and programs in JavaScript put keys that are numbers first, know no large whole
numbers and write 1.0 as 1. Most data do not mind. Those that would change stand in the metadata as a text, which
everybody leaves alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

__all__ = ["plain", "portable", "settled"]

_LIMIT = 2**53
"""From here on not every number is one in JavaScript."""
_POWER = 1e21
"""From here on JavaScript writes whole numbers with an exponent."""
_LOST_KEY = "__proto__"


def portable(data: Any, *parts: Any) -> Any:
    """Return JSON data as they are, or as a text where another program would change them.

    Parameters
    ----------
    data : JSON data
        No text.
    *parts : JSON data or BaseModel
        What could change in them, if that is not all of it: a model puts the keys of its own fields back in order.
    """
    return settled(data) if all(map(_is_kept, parts or (data,))) else json.dumps(data, ensure_ascii=False)


def settled(data: Any) -> Any:
    """Return JSON data with 1 for 1.0, as JavaScript writes it; who reads it must know where such a number is meant."""
    if isinstance(data, Mapping):
        return {key: settled(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [settled(value) for value in data]
    is_whole = isinstance(data, float) and data.is_integer() and abs(data) < _POWER
    return int(Decimal(repr(data))) if is_whole and math.copysign(1, data) > 0 else data


def plain(value: Any) -> Any:
    """Return the data that `portable` was given, in whatever order another program has put their keys."""
    return json.loads(value) if isinstance(value, str) else _in_order(value)


def _in_order(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _in_order(item) for key, item in sorted(value.items())}
    return [_in_order(item) for item in value] if isinstance(value, list) else value


def _is_kept(value: Any) -> bool:
    if isinstance(value, str | bool) or value is None:
        return True
    if isinstance(value, float):
        return math.isfinite(value) and not value.is_integer()
    if isinstance(value, int):
        return abs(value) < _LIMIT
    if isinstance(value, Mapping):
        is_sorted = all(one < another for one, another in pairwise(value))
        return is_sorted and _LOST_KEY not in value and all(map(_is_kept, value.values()))
    if isinstance(value, BaseModel):
        # unknown fields keep the order in which they come
        fields = (getattr(value, name) for name in type(value).model_fields)
        return _is_kept(value.model_extra or {}) and all(_is_number(field) or _is_kept(field) for field in fields)
    return not isinstance(value, list | tuple) or all(map(_is_kept, value))


def _is_number(value: Any) -> bool:
    """Whether this value of a field is read as the number that it is, however it is written."""
    return isinstance(value, float) and math.isfinite(value)
