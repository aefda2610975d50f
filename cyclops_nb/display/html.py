"""The few shapes that all outputs are made of: page, head, fold, notice, table.

A style sheet repeats in each output of a notebook, so there is one of some kilobytes in parts, and an output carries
the parts it needs. Front ends drop it from notebooks that are not trusted; the elements are therefore chosen to read
well without it, and nothing is hidden by style.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.resources import files

from markupsafe import Markup

from cyclops_nb.render.escape import fragment, join, root

__all__ = ["Cell", "facts", "fold", "head", "notice", "page", "scrolling", "stylesheet", "table"]

_NOT_NEEDED = re.compile(r"/\*.*?\*/|\s+|;(?=\s*\})", re.DOTALL)
_SPACED_MARK = re.compile(r"\s*([{};,])\s*|(:)\s+")
Cell = object
"""What stands in a table: text, or `Markup`."""


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
    template = (
        '<details class="cy-{}" open><summary>{}</summary>{}</details>'
        if is_open
        else '<details class="cy-{}"><summary>{}</summary>{}</details>'
    )
    return fragment(template, kind, summary, join(body))


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
    word = "" if kind == "info" else fragment("<b>{}:</b> ", kind.capitalize())
    return fragment('<div class="cy-notice cy-{}">{}{}</div>', kind, word, text)


def scrolling(content: object, label: str) -> Markup:
    """Return something wide in a frame of its own that scrolls sideways, also by keyboard."""
    return fragment('<div class="cy-scroll" role="region" tabindex="0" aria-label="{}">{}</div>', label, content)


def table(
    header: Sequence[Cell], rows: Iterable[Sequence[Cell]], *, footer: Sequence[Sequence[Cell]] = (), label: str
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
    label : str
        What the table is, for screen readers.

    Returns
    -------
    Markup
        A ``<table>`` in a frame that scrolls sideways where it must.
    """
    parts = []
    if header:
        parts.append(
            fragment("<thead><tr>{}</tr></thead>", join(fragment('<th scope="col">{}</th>', c) for c in header))
        )
    parts.append(fragment("<tbody>{}</tbody>", join(map(_row, rows))))
    if footer:
        parts.append(fragment("<tfoot>{}</tfoot>", join(map(_row, footer))))
    return scrolling(fragment('<table class="cy-table">{}</table>', join(parts)), label)


def _row(cells: Sequence[Cell]) -> Markup:
    name, *values = cells
    return fragment(
        '<tr><th scope="row">{}</th>{}</tr>', name, join(fragment("<td>{}</td>", value) for value in values)
    )
