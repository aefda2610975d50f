"""The style in which the JSON of a notebook is written: as nbformat and JupyterLab do, or as the file is already.

A file that another program wrote with other line ends, indentation or order of keys keeps them, so that version
control shows what was said and not how it was written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any

__all__ = ["Style", "style_of"]

_ESCAPED_LETTER = re.compile(r"\\u(?:00[89a-f]|0[1-9a-f]|[1-9a-f])[0-9a-f]", re.IGNORECASE)
_FIRST_LINE = re.compile(r"\s*\{(\r?\n)([ \t]*)")


@dataclass(frozen=True)
class Style:
    """How JSON is written."""

    indent: str | None = " "
    """What one level is indented by; None for everything on one line."""
    newline: str = "\n"
    key_separator: str = ": "
    item_separator: str = ", "
    """Used where everything is on one line."""
    is_ascii: bool = False
    cell_keys: tuple[str, ...] = ()
    """The order of keys in a cell, if it is not that of the alphabet."""
    splits_lines: bool = True
    """Whether a source is a list of lines."""
    ids: bool = True
    """Whether cells have ids, as they do from version 4.5 on."""
    _strings: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_strings", encode_basestring_ascii if self.is_ascii else encode_basestring)

    def break_at(self, depth: int) -> str:
        """Return what stands before an item at a depth."""
        return "" if self.indent is None else self.newline + self.indent * depth

    @property
    def comma(self) -> str:
        """What stands between two items, before the break."""
        return self.item_separator if self.indent is None else ","

    def text(self, value: Any, depth: int = 0) -> str:
        """Return JSON data as text, as it stands at a depth; keys are sorted, as nbformat does."""
        if isinstance(value, str):
            return str(self._strings(value))
        if isinstance(value, Mapping):
            return self.object({key: self.text(item, depth + 1) for key, item in sorted(value.items())}, depth)
        if isinstance(value, list | tuple):
            return self.array([self.text(item, depth + 1) for item in value], depth)
        return json.dumps(value)

    def object(self, texts: Mapping[str, str], depth: int) -> str:
        """Return an object of which the values are text already."""
        return self._put(
            "{", [self._strings(key) + self.key_separator + text for key, text in texts.items()], "}", depth
        )

    def array(self, texts: Sequence[str], depth: int) -> str:
        """Return an array of which the items are text already."""
        return self._put("[", texts, "]", depth)

    def _put(self, opening: str, items: Sequence[str], closing: str, depth: int) -> str:
        if not items:
            return opening + closing
        inner = self.break_at(depth + 1)
        return opening + inner + (self.comma + inner).join(items) + self.break_at(depth) + closing

    def source(self, lines: Sequence[str]) -> str | list[str]:
        """Return the lines of a source as they are kept in a cell."""
        text = "\n".join(lines)
        if not self.splits_lines:
            return text
        return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1:] != [""] else []) if text else []

    def cell(self, cell: Mapping[str, str]) -> str:
        """Return a cell of which the values are text already."""
        known = [key for key in self.cell_keys if key in cell]
        return self.object({key: cell[key] for key in [*known, *sorted(cell.keys() - set(known))]}, 2)


def style_of(text: str, cells: Iterable[Mapping[str, Any]], minor: int) -> Style:
    """Return the style of a notebook file.

    Parameters
    ----------
    text : str
        The file.
    cells : iterable of mapping
        Its cells.
    minor : int
        The minor version of its format.
    """
    first = _FIRST_LINE.match(text)
    sample = next((cell for cell in cells if cell.get("cell_type") == "markdown"), {})
    keys = tuple(sample)
    source = sample.get("source")
    compact_key = re.match(r'\s*\{\s*"[^"]*"(\s*:\s*)', text)
    return Style(
        indent=first[2] if first else None,
        newline=first[1] if first else "\n",
        key_separator=compact_key[1] if compact_key else ": ",
        item_separator=", " if compact_key and compact_key[1] == ": " else ",",
        is_ascii=text.isascii() and _ESCAPED_LETTER.search(text) is not None,
        cell_keys=() if keys == tuple(sorted(keys)) else keys,
        splits_lines=not isinstance(source, str),
        ids=minor >= 5,  # noqa: PLR2004 - version 4.5 brought ids
    )
