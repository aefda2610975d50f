"""Short names in the source of a Markdown cell, such that they are text and nothing else, whatever renders it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cyclops_nb.render.text import one_line
from cyclops_nb.render.urls import is_safe_url

__all__ = ["BACKSLASH", "DOLLAR", "ENTITIES", "address", "bold", "folded", "inert"]

_LINKED = re.compile(r":(?=//)|(?<=www)\.|@", re.IGNORECASE)
"""What programs make a link of by itself."""
_EDGE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")  # elsewhere it emphasises nothing
DOLLAR = "<span>&#36;</span>"
BACKSLASH = "<span>&#92;</span>"
ENTITIES = {ord(mark): f"&#{ord(mark)};" for mark in "$`*[]\\!|~#"} | {
    ord("&"): "&amp;",
    ord("<"): "&lt;",
    ord(">"): "&gt;",
}
_INERT = ENTITIES | {ord("$"): DOLLAR, ord("\\"): BACKSLASH}  # of entities front ends would make formulas


def inert(text: str, limit: int = 120) -> str:
    """Return a short name such that it is nothing but text, in Markdown and in HTML.

    Examples
    --------
    >>> inert("<b> *x*")
    '&lt;b&gt; &#42;x&#42;'
    """
    shown = _EDGE.sub("&#95;", one_line(text, limit).translate(_INERT))
    return _LINKED.sub(lambda found: f"&#{ord(found[0])};", shown)


def address(url: str, limit: int = 300) -> str:
    """Return an address such that programs make a link of it, if it may be clicked and is no longer than `limit`.

    Examples
    --------
    >>> address("https://a.example/b"), address("https://a…")
    ('https://a.example/b', 'https&#58;//a…')
    """
    shown = inert(url, limit)
    return shown.replace("&#58;//", "://", 1) if len(url) <= limit and is_safe_url(url) else shown


def bold(name: str) -> str:
    """Return a short name in bold, for the summary of a fold, where Markdown means nothing."""
    return f"<b>{inert(name)}</b>"


def folded(summary: str, lines: Sequence[str]) -> list[str]:
    """Return lines of Markdown in a fold below a summary, which is `inert` or made of such."""
    return ["<details>", f"<summary>{summary}</summary>", "", *lines, "", "</details>"]
