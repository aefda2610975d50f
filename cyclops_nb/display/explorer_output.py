"""The output of a cell that shows an explorer: a widget while it is used, and plain HTML from then on.

A saved widget is dead: a reader sees "model not found" in place of a conversation. So the widget can be exchanged for
the HTML of what it shows, through the display id of the output; where nobody could click, it is that HTML at once.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, cast

from IPython.core.getipython import get_ipython

from cyclops_nb.display.cell_output import CellOutput, is_interactive
from cyclops_nb.display.explorer_page import explorer_page, explorer_text
from cyclops_nb.display.explorer_view import ExplorerView

if TYPE_CHECKING:
    from cyclops_nb.display.explorer import Explorer

__all__ = ["ExplorerOutput"]

_BY_CELL: dict[str, weakref.ref[ExplorerOutput]] = {}
"""The last output of each cell: when a cell is run again, what it showed before is gone from the page."""


class ExplorerOutput:
    """An explorer in the cell that makes this.

    Parameters
    ----------
    explorer : Explorer
        What is shown.
    """

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        self._shell = cast("Any", get_ipython())
        self._output = CellOutput()
        self._view = ExplorerView(explorer, self.freeze) if is_interactive() else None
        self._replace_older()
        if self._view is not None:
            self._shell.events.register("post_run_cell", self._after_cell)
        self._output.begin({**(self._view.mimebundle() if self._view else {}), **self._static()})

    def draw(self) -> None:
        """Show what has changed."""
        if self._view is not None:
            self._view.draw()

    def freeze(self) -> None:
        """Leave HTML in place of the widget; what is HTML already is brought up to date."""
        self._output.update(self._static())
        self.close()

    def close(self) -> None:
        """Remove the widgets, and change no more."""
        if self._view is not None:
            self._shell.events.unregister("post_run_cell", self._after_cell)
            self._view.close()
            self._view = None

    def _static(self) -> dict[str, Any]:
        with self._explorer.lock:
            branches = self._explorer.branches
            return {"text/html": str(explorer_page(branches)), "text/plain": explorer_text(branches)}

    def _after_cell(self, *_: object) -> None:
        self.draw()

    def _replace_older(self) -> None:
        parent = self._shell.get_parent() if hasattr(self._shell, "get_parent") else {}
        cell = parent.get("metadata", {}).get("cellId")
        older = _BY_CELL[cell]() if cell in _BY_CELL else None
        if older is not None:
            older.close()
        if cell is not None:
            _BY_CELL[cell] = weakref.ref(self)
