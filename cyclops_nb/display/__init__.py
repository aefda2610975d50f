"""What a notebook shows: sessions, runs and comparisons as HTML and as plain text.

The core knows nothing of this package; a type that users hold reaches it through `cyclops_nb.displayable` when a cell
shows it for the first time. What is made here stays readable in a saved notebook: no script, no ids, no fetching, and
the same session gives the same bytes.
"""

from __future__ import annotations

__all__: list[str] = []
