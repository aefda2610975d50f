"""What runs have cost, summed, as a table.

A session's own numbers stand at its foot (`usage_table` of this package); these are sums over any number of sessions.
"""

from __future__ import annotations

from markupsafe import Markup

from cyclops_nb.display.html import head, page, table
from cyclops_nb.frames.tables import text_table
from cyclops_nb.frames.usage import UsageTable
from cyclops_nb.render.escape import fragment, label
from cyclops_nb.render.words import count

__all__ = ["usage_sums_page", "usage_sums_text"]

_ROWS = 100
_NUMBERS = range(1, 10)


def usage_sums_page(sums: UsageTable) -> Markup:
    """Return sums as HTML."""
    words = sums.words(_ROWS)
    rows = [[label(name), *cells] for name, *cells in words.rows]
    shown = (
        table([label(words.header[0]), *words.header[1:]], rows, footer=words.footer, numbers=_NUMBERS, label="usage")
        if rows
        else ""
    )
    notes = [fragment('<div class="cy-note">{}</div>', note) for note in _notes(sums)]
    return page(head(label(_title(sums)), _of(sums)), shown, *notes, kind="usage")


def usage_sums_text(sums: UsageTable) -> str:
    """Return sums in words."""
    parts = [f"{_title(sums)}: {_of(sums)}"]
    if sums.rows:
        parts.append(text_table(sums.words(_ROWS)))
    return "\n\n".join([*parts, *_notes(sums)])


def _title(sums: UsageTable) -> str:
    return f"Usage by {sums.by.removeprefix('config.').replace('_', ' ')}"


def _of(sums: UsageTable) -> str:
    return f"{count(sums.session_count, 'session')}, {count(len(sums.total.runs), 'run')}"


def _notes(sums: UsageTable) -> list[str]:
    left = len(sums.rows) - _ROWS
    notes = [f"… {count(left, 'more row')} in to_frame()"] if left > 0 else []
    if sum(len(row.runs) for row in sums.rows) > len(sums.total.runs):
        notes.append("Runs that branches have in common are in the row of each, and once in the last row.")
    return notes
