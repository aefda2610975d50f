"""Where in the bytes of a notebook an addition goes, so that what stands is copied and never looked at."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, NamedTuple

from cyclops_nb.stores.base import first_asked
from cyclops_nb.stores.files import Piece, Section
from cyclops_nb.stores.notebooks.document import KEY
from cyclops_nb.stores.notebooks.foot import Foot, placed
from cyclops_nb.stores.notebooks.reading import Reading
from cyclops_nb.stores.notebooks.style import Style

__all__ = ["LastCell", "Layout", "Spots", "extended", "front_text", "laid_out", "layout_of"]


class Spots(NamedTuple):
    """The bytes of a file between which an addition goes."""

    foot_start: int
    foot_end: int
    behind_start: int
    """Where the first cell behind our last one begins; the same as `foot_end` if there is none."""
    cells_end: int
    """Where the last cell ends."""


class LastCell(NamedTuple):
    """What is known of the last cell of ours without its text."""

    name: str
    """Its id."""
    theirs: Mapping[str, Any]
    """All of it that is not ours."""

    @classmethod
    def of(cls, cell: Mapping[str, Any], name: str) -> LastCell:
        """Return what is known of a cell that stands somewhere."""
        metadata = {key: value for key, value in cell.get("metadata", {}).items() if key != KEY}
        return cls(name, {**cell, "metadata": metadata, "source": ""})


class Front(NamedTuple):
    """The begin of a file, up to the end of the first question; all before our last cell if nothing was asked yet.

    What a list tells of a session that is not in the last cell stands there, so a list looks whether it was changed.
    """

    text: str
    """Its size and a hash of it."""
    has_question: bool

    @classmethod
    def of(cls, data: bytes, question: bytes | None) -> Front:
        """Return the begin of `data`, the bytes before our last cell, of which one is the first question's cell."""
        end = len(data) if question is None else data.index(question) + len(question)
        return cls(front_text(data[:end]), question is not None)


def front_text(data: bytes) -> str:
    """Return the size of the begin of a file, and a hash of it."""
    return f"{len(data)} {hashlib.blake2b(data, digest_size=8).hexdigest()}"


@dataclass(frozen=True)
class Layout:
    """A notebook as it is to be written."""

    data: Sequence[Piece]
    """Its bytes, in pieces."""
    spots: Spots
    style: Style
    ids: set[str]
    """The ids of its cells."""
    last: LastCell
    front: Front

    def without_data(self) -> Layout:
        """Return the same without the file itself."""
        return replace(self, data=())


def laid_out(  # noqa: PLR0917 - what a file is made of
    before: str,
    last: LastCell,
    foot: Foot,
    behind: tuple[str, str],
    rest: str,
    style: Style,
    ids: set[str],
    question: str | None,
) -> Layout:
    """Return a notebook of which the text is known.

    Parameters
    ----------
    before : str
        What stands before our last cell.
    last, foot : LastCell, Foot
        Our last cell.
    behind : tuple of str
        A gap and the cells that stand behind it, both empty if there are none.
    rest : str
        What stands behind all cells.
    style : Style
        How it is written.
    ids : set of str
        The ids of its cells.
    question : str or None
        The text of the cell of the first question, if there is one.
    """
    first = before.encode()
    front = Front.of(first, None if question is None else question.encode())
    pieces = placed(foot, len(first), front.text)
    gap, cells = (text.encode() for text in behind)
    foot_end = len(first) + sum(map(len, pieces))
    spots = Spots(len(first), foot_end, foot_end + len(gap), foot_end + len(gap) + len(cells))
    return Layout([first, *pieces, gap, cells, rest.encode()], spots, style, ids, last, front)


def extended(  # noqa: PLR0917 - what is new in a file
    file: BinaryIO, layout: Layout, ids: set[str], cells: Sequence[str], foot: Foot, question: str | None
) -> Layout:
    """Return a notebook with cells put in behind its last message, and another last cell.

    Parameters
    ----------
    file : binary file
        The notebook, open for as long as its parts are to be copied.
    layout : Layout
        How it was laid out.
    ids : set of str
        The ids of the cells, the new ones among them.
    cells : sequence of str
        The texts of the new cells.
    foot : Foot
        The text of the last cell.
    question : str or None
        The text of the cell of the first question among the new cells, if there is one.
    """
    spots, style = layout.spots, layout.style
    comma = (style.comma + style.break_at(2)).encode()
    before: list[Piece] = [Section(file, 0, spots.foot_start)]
    behind = Section(file, spots.foot_end, spots.cells_end)
    if cells and len(behind):
        before += [Section(file, spots.behind_start, spots.cells_end), comma]
        behind = Section(file, 0, 0)
    before += itertools.chain.from_iterable((cell.encode(), comma) for cell in cells)
    start = sum(map(len, before))
    front = layout.front
    if not front.has_question:
        data = b"".join(piece if isinstance(piece, bytes) else piece.read() for piece in before)
        front = Front.of(data, None if question is None else question.encode())
    pieces = placed(foot, start, front.text)
    foot_end = start + sum(map(len, pieces))
    gap = spots.behind_start - spots.foot_end if len(behind) else 0
    new_spots = Spots(start, foot_end, foot_end + gap, foot_end + len(behind))
    rest = Section(file, spots.cells_end, file.seek(0, os.SEEK_END))
    return Layout([*before, *pieces, behind, rest], new_spots, style, ids, layout.last, front)


def layout_of(reading: Reading) -> Layout:
    """Return how a notebook that was read is laid out."""
    document, number = reading.document, reading.foot
    text, spans = document.text, document.spans
    start, end = spans[number]
    behind = spans[number + 1][0] if number + 1 < len(spans) else end
    places, at, last = [], 0, 0
    for place in (start, end, behind, spans[-1][1]):
        at += len(text[last:place].encode())
        last = place
        places.append(at)
    asked = first_asked(reading.session.messages)
    end = start if asked is None else spans[reading.cells[asked].number][1]
    front = Front(front_text(text[:end].encode()), asked is not None)
    ids = document.names(range(len(document.cells)))
    cell = document.cells[number]
    return Layout((), Spots(*places), document.style, ids, LastCell.of(cell, str(cell.get("id", "foot"))), front)
