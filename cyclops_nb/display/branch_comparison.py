"""Some of the branches that are explored, side by side; one picks which."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets

from cyclops_nb.display.branch_list import BranchLine
from cyclops_nb.display.branch_set import BranchSet
from cyclops_nb.display.branches import compare
from cyclops_nb.display.comparison import comparison_page
from cyclops_nb.display.html import notice
from cyclops_nb.display.looks import Looks
from cyclops_nb.render.escape import root
from cyclops_nb.session import Session

__all__ = ["BranchComparison"]

_ROWS = 8
_FEWEST = 2


class BranchComparison:
    """A list of branches, and below it those that are picked in it, side by side.

    Parameters
    ----------
    looks : Looks
        What widgets have in common.
    branches : BranchSet
        The branches.
    picked : callable
        Called with the ids of those that are picked.
    """

    def __init__(self, looks: Looks, branches: BranchSet, picked: Callable[[Sequence[str]], None]) -> None:
        self._branches = branches
        self._picked = picked
        self._drawn_by = 0
        self._list = ipywidgets.SelectMultiple(
            options=[], rows=_ROWS, layout=ipywidgets.Layout(margin="0", width="auto")
        )
        self._list.observe(self._changed, "value")
        self._shown = looks.html()
        self.box = ipywidgets.VBox([self._list, self._shown], layout=looks.wide)

    def show(self, lines: Sequence[BranchLine], *, is_seen: bool) -> None:
        """Show the branches that are picked, if they are to be seen."""
        self._drawn_by = threading.get_ident()
        try:
            self._show_list(lines)
        finally:
            self._drawn_by = 0
        self._shown.value = self._page() if is_seen else ""

    def _show_list(self, lines: Sequence[BranchLine]) -> None:
        options = tuple((str(line), line.id) for line in lines)
        if self._list.options == options:
            return
        kept = [name for name in self._list.value if name in self._branches.entries]
        self._list.options = options
        self._list.value = tuple(kept)

    def _page(self) -> str:
        names = self._list.value or dict.fromkeys([next(iter(self._branches.entries)), self._branches.current])
        values = [self._branches.entries[name].value for name in names]
        sessions = [value for value in values if isinstance(value, Session)]
        if len(sessions) < _FEWEST:
            words = "pick two or more branches (with Ctrl or Shift) to put them side by side"
            return str(root(notice(words, kind="info")))
        return str(comparison_page(compare(*sessions)))

    def _changed(self, _: Any) -> None:
        if self._drawn_by != threading.get_ident():
            self._picked(self._list.value)

    def widgets(self) -> list[ipywidgets.Widget]:
        """Return all widgets of this."""
        return [self._list, self._list.style, self._list.layout, self._shown, self.box]
