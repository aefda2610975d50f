"""A notebook file as text of which each cell's place is known, so that cells can be put in without touching others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cyclops_nb.errors import SessionFormatError
from cyclops_nb.stores.notebooks.style import Style, style_of

__all__ = ["FORMAT", "KEY", "NAME", "VERSION", "Document", "is_foreign", "parse", "source_of"]

KEY = "cyclops_nb"
"""Where this library's data stand in metadata."""
VERSION = 1
"""The version of what stands there."""
NAME = "cell"
"""The key of the name under which the cell of a message was written. Other programs may give it another id."""
FORMAT = (4, 5)
"""The version of the notebook format that new files have."""

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODE = json.JSONDecoder().raw_decode
_MARK = "\ufeff"


@dataclass(frozen=True)
class Document:
    """A notebook file that was read."""

    text: str
    cells: list[dict[str, Any]]
    spans: list[tuple[int, int]]
    """Where in the text each cell begins and ends."""
    array: tuple[int, int]
    """Where what is between the brackets of the cells begins and ends."""
    rest: dict[str, Any]
    """All but the cells."""

    @cached_property
    def style(self) -> Style:
        """How it is written."""
        return style_of(self.text.removeprefix(_MARK), self.cells, self.rest.get("nbformat_minor", 0))

    @property
    def ours(self) -> Mapping[str, Any] | None:
        """What this library has put into the notebook's own metadata, if there is anything."""
        return _ours(self.rest)

    def cell_data(self, number: int) -> Mapping[str, Any] | None:
        """Return this library's data in a cell, if there are any."""
        return _ours(self.cells[number])

    def names(self, numbers: Iterable[int]) -> set[str]:
        """Return what new cells must not be called: the ids of these cells, and the names under which we wrote them."""
        cells = [(self.cells[number], self.cell_data(number) or {}) for number in numbers]
        return {str(name) for cell, data in cells for name in (cell.get("id"), data.get(NAME)) if name is not None}

    def cell_text(self, number: int) -> str:
        """Return a cell as it is written."""
        start, end = self.spans[number]
        return self.text[start:end]

    def gap(self, number: int) -> str:
        """Return what stands between a cell and the next one."""
        return self.text[self.spans[number][1] : self.spans[number + 1][0]]


def _ours(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    metadata = data.get("metadata")
    found = metadata.get(KEY) if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else None


def source_of(cell: Mapping[str, Any]) -> str:
    r"""Return the source of a cell as one text, with ``\n`` at the ends of lines and none at its own end."""
    source = cell.get("source", "")
    text = "".join(map(str, source)) if isinstance(source, list) else str(source)
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


def parse(data: bytes, where: str) -> Document:
    """Read a notebook file.

    Parameters
    ----------
    data : bytes
        The file.
    where : str
        What to name in errors.

    Raises
    ------
    SessionFormatError
        If it is no notebook of version 4 of the format.
    """
    try:
        found = _parse(data.decode())
    except RecursionError:
        raise _no_notebook(where, "it is nested too deeply") from None
    except IndexError:
        raise _no_notebook(where, "it is no whole JSON") from None
    except ValueError as error:
        raise _no_notebook(where, f"it is no JSON ({error})") from None
    major = found.rest.get("nbformat")
    if isinstance(major, int) and major != FORMAT[0]:
        raise SessionFormatError(
            f"{where} has version {major} of the notebook format, but sessions are kept in version {FORMAT[0]}: open "
            "it in JupyterLab and save it there, or move it away; it was left untouched"
        )
    has_version = isinstance(major, int) and isinstance(found.rest.get("nbformat_minor", 0), int)
    if not has_version or found.array[0] < 0 or not all(isinstance(cell, dict) for cell in found.cells):
        raise _no_notebook(where, "it has no version, or no list of cells")
    return found


def is_foreign(data: bytes) -> bool:
    """Whether a file holds nothing that tells that it is, or was, a notebook with sessions."""
    if f'"{KEY}"'.encode() not in data:
        return True
    try:
        return parse(data, "").ours is None  # in the outputs of other notebooks settings name this library
    except SessionFormatError:
        return False


def _no_notebook(where: str, why: str) -> SessionFormatError:
    return SessionFormatError(f"{where} cannot be read as a notebook: {why}; it was left untouched, mend or move it")


def _parse(text: str) -> Document:
    rest: dict[str, Any] = {}
    cells: list[dict[str, Any]] = []
    spans: list[tuple[int, int]] = []
    array = (-1, -1)
    place = _skip(text, len(_MARK) if text.startswith(_MARK) else 0)
    if text[place] != "{":
        raise ValueError("no object")
    place = _skip(text, place + 1)
    while text[place] != "}":
        key, place = _key(text, place)
        if key == "cells" and text[place] == "[":
            start = place + 1
            place = _cells(text, _skip(text, start), cells, spans)
            array = (start, place - 1)
        else:
            rest[key], place = _DECODE(text, place)
        place = _skip(text, place)
        if text[place] == ",":
            place = _skip(text, place + 1)
        elif text[place] != "}":
            raise ValueError(f"no comma at character {place}")
    if _skip(text, place + 1) != len(text):
        raise ValueError("something stands behind it")
    return Document(text, cells, spans, array, rest)


def _key(text: str, place: int) -> tuple[str, int]:
    if text[place] != '"':
        raise ValueError(f"no key at character {place}")
    key, place = _DECODE(text, place)
    place = _skip(text, place)
    if text[place] != ":":
        raise ValueError(f"no colon at character {place}")
    return key, _skip(text, place + 1)


def _cells(text: str, place: int, cells: list[dict[str, Any]], spans: list[tuple[int, int]]) -> int:
    """Read cells up to the end of their array, and return the place behind it."""
    while text[place] != "]":
        cell, end = _DECODE(text, place)
        cells.append(cell)
        spans.append((place, end))
        place = _skip(text, end)
        if text[place] == ",":
            place = _skip(text, place + 1)
        elif text[place] != "]":
            raise ValueError(f"no comma at character {place}")
    return place + 1


def _skip(text: str, place: int) -> int:
    match = _BLANK.match(text, place)
    return match.end() if match else place
