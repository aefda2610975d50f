"""Where the cells of a session stand in its notebook, beside the cells that its user has put there.

A cell of the user's stays behind the message behind which it stood. Cells of ours that say the same as before are
copied as they are, so that a save changes what has changed and nothing else.
"""

from __future__ import annotations

import itertools
import platform
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from cyclops_nb.messages import Message
from cyclops_nb.session import Session
from cyclops_nb.stores.base import first_asked
from cyclops_nb.stores.notebooks.cells import cell_id, fingerprint, head_lines, message_cell, note_cell, own_cell
from cyclops_nb.stores.notebooks.document import FORMAT, KEY, VERSION, source_of
from cyclops_nb.stores.notebooks.foot import NEW_FOOT, Foot
from cyclops_nb.stores.notebooks.layout import LastCell, Layout, laid_out
from cyclops_nb.stores.notebooks.reading import Reading
from cyclops_nb.stores.notebooks.style import Style

__all__ = ["FootWriter", "around", "arranged"]

FootWriter = Callable[[Style, str, Mapping[str, Any]], Foot]

_LANGUAGE = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
    "version": platform.python_version(),
}
"""What a kernel of this Python says of itself, which JupyterLab puts in when it opens a notebook."""
_KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
"""Without one JupyterLab asks for a kernel before it shows anything."""


class _Cell(NamedTuple):
    text: str
    number: int | None = None
    """Of the cell whose place it takes."""


def arranged(session: Session, write_foot: FootWriter, reading: Reading | None) -> Layout:
    """Return the notebook of a session.

    Parameters
    ----------
    session : Session
        The session.
    write_foot : callable
        Makes the last cell, given the style, its id and the cell whose place it takes.
    reading : Reading, optional
        What stands in the file already, of which all that is not ours is kept.
    """
    return _new(session, write_foot) if reading is None else _renewed(session, write_foot, reading)


def _new(session: Session, write_foot: FootWriter) -> Layout:
    style = Style()
    ids: set[str] = set()
    names = [cell_id(wanted, ids) for wanted in ("head", "foot")]
    cells = [_head(style, session, names[0])]
    cells += [
        message_cell(style, message, index, cell_id(message.id, ids), session.id)
        for index, message in enumerate(session.messages)
    ]
    last = LastCell(names[1], NEW_FOOT)
    data = {"created_at": session.model_dump(mode="json")["created_at"], "id": session.id, "version": VERSION}
    before, behind = around(style, cells, data)
    asked = first_asked(session.messages)
    question = None if asked is None else cells[asked + 1]
    return laid_out(before, last, write_foot(style, *last), ("", ""), behind, style, ids, question)


def around(
    style: Style, cells: Sequence[str], data: Mapping[str, Any], theirs: Mapping[str, Any] | None = None
) -> tuple[str, str]:
    """Return what stands before and behind the last cell of a new notebook.

    Parameters
    ----------
    style : Style
        How it is written.
    cells : sequence of str
        The texts of the cells before it.
    data : mapping
        What stands in the notebook's metadata under this library's key.
    theirs : mapping, optional
        What is to stand there under other keys.
    """
    metadata = {"kernelspec": _KERNEL, "language_info": _LANGUAGE, **(theirs or {}), KEY: data}
    mark = "\0"
    rest = {"metadata": style.text(metadata, 1), "nbformat": str(FORMAT[0]), "nbformat_minor": str(FORMAT[1])}
    before, _, behind = style.object({"cells": style.array([*cells, mark], 1), **rest}, 0).partition(mark)
    return before, f"{behind}\n"


def _head(style: Style, session: Session, name: str, old: dict[str, Any] | None = None) -> str:
    lines = head_lines(session)
    data = {"hash": fingerprint("\n".join(lines)), "kind": "head", "version": VERSION}
    return own_cell(style, name, lines, {key: style.text(value, 5) for key, value in data.items()}, old)


def _renewed(session: Session, write_foot: FootWriter, reading: Reading) -> Layout:
    document = reading.document
    style = document.style
    places = _matched(reading, session.messages)
    gone = {reading.cells[place].number for place in set(range(len(reading.cells))).difference(places)}
    ids = document.names(number for number in range(len(document.cells)) if number not in gone)
    head_stands = _head_stands(session, reading)
    notes = {
        number: [_Cell(note_cell(style, cell_id("note", ids), text, document.cells[number].get("attachments")))]
        for number, text in reading.added.items()
        if text and not (number == reading.head and head_stands)
    }
    theirs = _their_cells(reading, places, notes)

    def name(number: int | None, wanted: str) -> str:
        old = None if number is None else document.cells[number].get("id")
        return cell_id(wanted, ids) if old is None else str(old)

    head_name, foot_name = name(reading.head, "head"), name(reading.foot, "foot")
    old_head = None if reading.head is None else _without_note(document.cells[reading.head], reading.head in notes)
    head = document.cell_text(reading.head or 0) if head_stands else _head(style, session, head_name, old_head)
    cells = [*theirs.first, _Cell(head, reading.head), *theirs.behind[-1]]
    messages: list[_Cell] = []
    for index, (message, place) in enumerate(zip(session.messages, places, strict=True)):
        number = None if place is None else reading.cells[place].number
        cell_name = name(number, message.id)
        if place is not None and _stands(reading, place, message, index):
            text = document.cell_text(reading.cells[place].number)
        else:
            old = None if number is None else document.cells[number]
            text = message_cell(style, message, index, cell_name, session.id, old)
        messages.append(_Cell(text, number))
        cells += [messages[index], *theirs.behind[index]]
    last = LastCell.of(_without_note(document.cells[reading.foot], reading.foot in notes), foot_name)
    before, behind, rest = _joined(reading, cells, theirs.last)
    asked = first_asked(session.messages)
    question = None if asked is None else messages[asked].text
    return laid_out(before, last, write_foot(style, *last), behind, rest, style, ids, question)


def _matched(reading: Reading, messages: Sequence[Message]) -> list[int | None]:
    """Return for each message its place among the cells that stand there, if it has one."""
    places: dict[str, deque[int]] = defaultdict(deque)
    for place, message in enumerate(reading.session.messages):
        places[message.id].append(place)
    return [places[message.id].popleft() if places[message.id] else None for message in messages]


def _stands(reading: Reading, place: int, message: Message, index: int) -> bool:
    cell = reading.cells[place]
    return not cell.is_edited and cell.index == index and reading.session.messages[place] == message


class _Theirs(NamedTuple):
    """The user's cells."""

    first: list[_Cell]
    """Before all of ours."""
    behind: dict[int, list[_Cell]]
    """By the index of the message behind which they stand, -1 for the first cell of ours."""
    last: list[_Cell]
    """Behind all of ours."""


def _their_cells(reading: Reading, places: Sequence[int | None], notes: Mapping[int, list[_Cell]]) -> _Theirs:
    document = reading.document
    new_index = {place: index for index, place in enumerate(places) if place is not None}
    place_of = {cell.number: place for place, cell in enumerate(reading.cells)}
    found = _Theirs([], defaultdict(list), [])
    anchor, index = found.first, -1
    for number in range(len(document.cells)):
        if number == reading.head:
            anchor = found.behind[-1]
            anchor += notes.get(number, [])
        elif number in place_of:
            # what stood behind a message that is gone stays behind the one before it
            index = new_index.get(place_of[number], index)
            anchor = found.behind[index]
        elif number == reading.foot:
            anchor += notes.get(number, [])
            anchor = found.last
        else:
            anchor.append(_Cell(document.cell_text(number), number))
    if index + 1 < len(places):
        found.behind[index].extend(found.last)  # new messages come behind them
        found.last.clear()
    return found


def _head_stands(session: Session, reading: Reading) -> bool:
    """Whether the first cell says what is true."""
    if reading.head is None:
        return False
    source, lines = source_of(reading.document.cells[reading.head]), head_lines(session)
    if reading.head_is_edited:
        found = source.split("\n")
        has_title = reading.session.title == session.title and (session.title is not None or lines[0] in found)
        return has_title and lines[-1] in found
    return source == "\n".join(lines)


def _without_note(cell: dict[str, Any], has_note: bool) -> dict[str, Any]:
    """Return a cell of ours without the images of what the user has written into it."""
    return {key: value for key, value in cell.items() if key != "attachments"} if has_note else cell


def _joined(reading: Reading, cells: list[_Cell], behind: list[_Cell]) -> tuple[str, tuple[str, str], str]:
    """Return what stands before the last cell of ours, the gap and what stands behind it, and the rest of the file."""
    document, style = reading.document, reading.document.style
    comma = style.comma + style.break_at(2)
    foot = _Cell("", reading.foot)

    def gap(one: _Cell, next_one: _Cell) -> str:
        stand = one.number is not None and next_one.number == one.number + 1
        return document.gap(one.number) if stand and one.number is not None else comma

    def text(some: Sequence[_Cell]) -> str:
        gaps = [gap(*pair) for pair in itertools.pairwise(some)]
        return "".join(cell.text + behind for cell, behind in zip(some, [*gaps, ""], strict=False))

    before = document.text[: document.spans[0][0]] + text([*cells, foot])
    behind_gap = gap(foot, behind[0]) if behind else ""
    return before, (behind_gap, text(behind)), document.text[document.spans[-1][1] :]
