"""What a user has written into the first and the last cell of a session.

These cells are written anew, so what is not ours in them must be kept elsewhere. It is told from ours where all that we
wrote still stands there. Where it does not, the cell was changed in a way that need not be understood: it is kept as
it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from cyclops_nb.session import Session
from cyclops_nb.stores.base import session_info
from cyclops_nb.stores.notebooks.cells import head_lines
from cyclops_nb.stores.notebooks.foot import foot_lines
from cyclops_nb.stores.notebooks.markdown import SourceLine
from cyclops_nb.stores.notebooks.raw_text import raw_lines
from cyclops_nb.stores.notebooks.unseen import marks, unmarked

__all__ = ["HeadText", "added_to_foot", "read_head"]

_TITLE = re.compile(r"#(?: (?P<title>.*))?")


class HeadText(NamedTuple):
    """What an edited first cell says."""

    title: str | None
    added: str
    """What is the user's in it, beside the title."""


def read_head(session: Session, source: str) -> HeadText:
    """Return what an edited first cell says.

    Parameters
    ----------
    session : Session
        The session as it was when the cell was written.
    source : str
        The edited source.
    """
    first, _, facts = _even(head_lines(session))
    lines = _even(source.split("\n"))
    title = session.title
    begin = next(filter(None, lines), "")
    if first not in lines and (match := _TITLE.fullmatch(begin)):
        old = title or ""
        (text,) = raw_lines([SourceLine((match["title"] or "").strip(), None)], old)
        title = unmarked(text, marks(old, in_line=True)) or None
        first = begin
    elif begin == facts:
        title = None
    return HeadText(title, _added(source, [[first], [facts]]))


def added_to_foot(session: Session, source: str) -> str:
    """Return what is the user's in the last cell; for the parameters see `read_head`."""
    return _added(source, [list(foot_lines(session, session_info(session, 0, "")))])


def _even(lines: Sequence[str]) -> list[str]:
    return [line.rstrip() for line in lines]  # blanks at the end of a line are lost in many programs


def _added(source: str, blocks: Sequence[Sequence[str]]) -> str:
    """Return what is left of a source without blocks of lines of ours, if any line in it is none of them."""
    lines = source.split("\n")
    ours = {line for block in blocks for line in _even(block)}
    if all(line in ours for line in _even(lines) if line):
        return ""
    for block in map(_even, blocks):
        size, even = len(block), _even(lines)
        place = next((start for start in range(len(even)) if even[start : start + size] == block), None)
        if place is not None:
            before, behind = (_trimmed(some) for some in (lines[:place], lines[place + size :]))
            lines = [*before, *([""] if before and behind else []), *behind]
    return "\n".join(_trimmed(lines))


def _trimmed(lines: Sequence[str]) -> list[str]:
    """Return lines without the blank ones at their begin and end."""
    stand = [place for place, line in enumerate(lines) if line.strip()]
    return list(lines[stand[0] : stand[-1] + 1]) if stand else []
