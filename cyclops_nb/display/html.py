"""The few shapes that all outputs are made of: page, head, fold, notice, table.

A style sheet repeats in each output of a notebook, so there is one of some kilobytes in parts, and an output carries
the parts it needs. JupyterLab drops it from notebooks that are not trusted, as those of a colleague are at first; the
elements are therefore chosen to read well without it, nothing is hidden by style, and the few lines and indents without
which one could not tell who speaks are literals at the elements, which JupyterLab keeps.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from importlib.resources import files

from markupsafe import Markup

from cyclops_nb.render.escape import fragment, join, root

__all__ = ["Cell", "cell", "facts", "fold", "head", "notice", "page", "scrolling", "stylesheet", "table"]

_NOT_NEEDED = re.compile(r"/\*.*?\*/|\s+|;(?=\s*\})", re.DOTALL)
_SPACED_MARK = re.compile(r"\s*([{};,])\s*|(:)\s+")
Cell = object
"""What stands in a table: text, or `Markup`."""
_FOLDS = {
    False: '<details class="cy-{}" style="border-left:2px solid #8885;margin:.3em 0;padding-left:.6em">'
    "<summary>{}</summary>{}</details>",
    True: '<details class="cy-{}" style="border-left:2px solid #8885;margin:.3em 0;padding-left:.6em" open>'
    "<summary>{}</summary>{}</details>",
}
_NOTICES = {
    "warning": '<div class="cy-notice" style="border-left:3px solid #fb8c00;margin:.4em 0;padding:.25em .7em">'
    "<b>Warning:</b> {}</div>",
    "error": '<div class="cy-notice cy-error" style="border-left:3px solid #e53935;margin:.4em 0;padding:.25em .7em">'
    "<b>Error:</b> {}</div>",
    "info": '<div class="cy-notice cy-info" style="border-left:3px solid #8888;margin:.4em 0;padding:.25em .7em">'
    "{}</div>",
}


@lru_cache
def stylesheet(*names: str) -> str:
    """Return parts of the style sheet, without comments and spare blanks.

    Parameters
    ----------
    *names : str
        Names of files in ``assets``, without their ending.

    Returns
    -------
    str
        CSS in which each selector begins with the class of the outermost element.
    """
    folder = files("cyclops_nb.display") / "assets"
    text = "\n".join((folder / f"{name}.css").read_text(encoding="utf-8") for name in names)
    squeezed = _NOT_NEEDED.sub(lambda found: " " if found.group().isspace() else "", text)
    return _SPACED_MARK.sub(lambda found: found[1] or found[2], squeezed).strip()


def page(*parts: object, kind: str, styles: Sequence[str] = ()) -> Markup:
    """Return a whole output.

    Parameters
    ----------
    *parts : object
        What is shown.
    kind : str
        What it is: the class name ``cy-<kind>``.
    styles : sequence of str
        Parts of the style sheet beside the basic one.

    Returns
    -------
    Markup
        HTML for a ``text/html`` bundle.
    """
    return root(*parts, kind=f"cy-{kind}", css=stylesheet("base", *styles))


def facts(items: Iterable[object]) -> Markup:
    """Return short statements in a line, parted by dots; empty ones are left out."""
    return join([item for item in items if item], " · ")


def head(title: object, *lines: object) -> Markup:
    """Return the head of an output.

    Parameters
    ----------
    title : object
        What it is about.
    *lines : object
        More of it, a line each; empty ones are left out.

    Returns
    -------
    Markup
        A title that is a heading for screen readers, but not for a notebook's table of contents.
    """
    rest = join(fragment('<div class="cy-facts">{}</div>', line) for line in lines if line)
    return fragment(
        '<div class="cy-head"><div class="cy-title" role="heading" aria-level="3"><b>{}</b></div>{}</div>', title, rest
    )


def fold(summary: object, *body: object, kind: str, is_open: bool = False) -> Markup:
    """Return something that can be folded away.

    Parameters
    ----------
    summary : object
        The line that is always seen.
    *body : object
        What it opens.
    kind : str
        What it is: the class name ``cy-<kind>``.
    is_open : bool
        Whether it is open at first.

    Returns
    -------
    Markup
        A ``<details>`` element.
    """
    return fragment(_FOLDS[is_open], kind, summary, join(body))


def notice(text: object, *, kind: str = "warning") -> Markup:
    """Return a statement that must not be missed.

    Parameters
    ----------
    text : object
        What is to be said.
    kind : {"warning", "error", "info"}
        How bad it is.

    Returns
    -------
    Markup
        A ``<div>`` that says its kind also without colours.
    """
    return fragment(_NOTICES[kind], text)


def scrolling(content: object, label: str) -> Markup:
    """Return something wide in a frame of its own that scrolls sideways, also by keyboard."""
    return fragment('<div class="cy-scroll" role="region" tabindex="0" aria-label="{}">{}</div>', label, content)


def table(
    header: Sequence[Cell],
    rows: Iterable[Sequence[Cell]],
    *,
    footer: Sequence[Sequence[Cell]] = (),
    numbers: Container[int] = (),
    label: str,
) -> Markup:
    """Return a table of facts whose rows begin with their names.

    Parameters
    ----------
    header : sequence
        The names of the columns; none for a table of names and values.
    rows : iterable of sequences
        What stands in it, the name of the row first.
    footer : sequence of sequences
        Sums, as rows.
    numbers : container of int
        The columns of numbers, which stand below each other to the right.
    label : str
        What the table is, for screen readers.

    Returns
    -------
    Markup
        A ``<table>`` in a frame that scrolls sideways where it must.
    """

    def lines(cells: Iterable[Sequence[Cell]]) -> Markup:
        return join(_row(row, numbers) for row in cells)

    parts = []
    if header:
        names = join(cell(name, kind="column", is_number=place in numbers) for place, name in enumerate(header))
        parts.append(fragment("<thead><tr>{}</tr></thead>", names))
    parts.append(fragment("<tbody>{}</tbody>", lines(rows)))
    if footer:
        parts.append(fragment("<tfoot>{}</tfoot>", lines(footer)))
    return scrolling(fragment('<table class="cy-table">{}</table>', join(parts)), label)


def _row(cells: Sequence[Cell], numbers: Container[int]) -> Markup:
    name, *values = cells
    shown = [cell(value, is_number=place in numbers) for place, value in enumerate(values, 1)]
    return fragment("<tr>{}{}</tr>", cell(name, kind="row"), join(shown))


_CELLS = {
    ("", False): '<td style="text-align:left">{}</td>',
    ("", True): '<td style="text-align:right">{}</td>',
    ("row", False): '<th scope="row" style="text-align:left">{}</th>',
    ("column", False): '<th scope="col" style="text-align:left">{}</th>',
    ("column", True): '<th scope="col" style="text-align:right">{}</th>',
}


def cell(value: Cell, *, kind: str = "", is_number: bool = False) -> Markup:
    """Return a cell of a table; without a side of its own it would stand where the front end has its cells.

    Parameters
    ----------
    value : object
        What stands in it.
    kind : {"", "row", "column"}
        Whether it is the name of its row or column.
    is_number : bool
        Whether it stands to the right.

    Returns
    -------
    Markup
        A ``<td>`` or ``<th>``.
    """
    return fragment(_CELLS[kind, is_number], value)
