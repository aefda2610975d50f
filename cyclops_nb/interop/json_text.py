"""Takes values out of JSON text and leaves every other character as it is.

Reading and writing anew would not: numbers come back in another form or not at all, and escapes, blanks and keys that
stand twice are lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

__all__ = ["Path", "Rule", "without"]

Path: TypeAlias = tuple[str | int, ...]
"""The keys and places that lead to a value."""
Rule: TypeAlias = Callable[[Path, Any], bool | None]
"""Says of a value whether it goes: True, False, or None if something in it may."""

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODE = json.JSONDecoder().raw_decode


class _Item(NamedTuple):
    start: int
    """Where it begins, with its key."""
    value_start: int
    end: int
    key: str | int
    value: Any


def without(text: str, start: int, rule: Rule, path: Path = ()) -> str:
    """Return the object or array that begins at `start`, without what goes.

    Parameters
    ----------
    text : str
        JSON text that can be read.
    start : int
        Where the value begins.
    rule : callable
        Says what goes; it is asked for each value once, the outer ones first.
    path : tuple
        What leads to the value.

    Examples
    --------
    >>> without('{"a": 1.50, "b": [2, 3]}', 0, lambda path, value: value == 3 if path[0] == "b" and path[1:] else None)
    '{"a": 1.50, "b": [2]}'
    """
    first = _skip(text, start + 1)
    done: list[str] = []
    last = start + 1
    for item in _items(text, start):
        decision = rule((*path, item.key), item.value)
        if not decision:
            # what stood before the first of all stands before the first that is left
            done.append(text[last : item.start] if done else text[start + 1 : first])
            done.append(text[item.start : item.value_start])
            is_open = decision is None and isinstance(item.value, dict | list)
            value = text[item.value_start : item.end]
            done.append(without(text, item.value_start, rule, (*path, item.key)) if is_open else value)
        last = item.end
    end = _skip(text, last)
    return "".join([text[start], *done, text[last:end] if done or last == start + 1 else "", text[end]])


def _items(text: str, start: int) -> Iterator[_Item]:
    """Yield what an object or an array holds."""
    is_object = text[start] == "{"
    place, number = _skip(text, start + 1), 0
    while text[place] not in "]}":
        key: str | int = number
        value_start = place
        if is_object:
            key, end = _DECODE(text, place)
            value_start = _skip(text, _skip(text, end) + 1)
        value, end = _DECODE(text, value_start)
        yield _Item(place, value_start, end, key, value)
        number += 1
        place = _skip(text, end)
        if text[place] == ",":
            place = _skip(text, place + 1)


def _skip(text: str, place: int) -> int:
    match = _BLANK.match(text, place)
    return match.end() if match else place
