"""How types that users hold get their look in a notebook without knowing anything about screens.

Front ends call ``_repr_mimebundle_`` and ``_repr_html_`` on whatever a cell returns. Both ask the display package,
which is loaded only then, or when a run is to be seen: the core never imports it otherwise, and a script never pays
for it.
"""

from __future__ import annotations

import sys
from typing import Any
from weakref import WeakKeyDictionary

__all__ = ["Displayable", "LiveDisplayable", "OnceDisplayable", "comparison_widget", "follow", "has_kernel"]

_LAST_UPDATE_SECONDS = 10.0
_SHOWN_BY: WeakKeyDictionary[object, int] = WeakKeyDictionary()
"""What a cell has shown while it came, and the number of that cell."""


class Displayable:
    """Mixin: shown by the display package as HTML and as plain text."""

    __slots__ = ()

    def _repr_mimebundle_(self, **_wishes: Any) -> dict[str, Any]:
        from cyclops_nb.display.register import mimebundle

        return mimebundle(self)

    def _repr_html_(self) -> str:
        return str(self._repr_mimebundle_()["text/html"])


class LiveDisplayable(Displayable):
    """Mixin: a run, which a notebook shows while it goes on."""

    __slots__ = ()

    def _ipython_display_(self) -> None:
        """Show the run in the cell; a front end that is no notebook is asked for the other forms."""
        if not has_kernel():
            raise NotImplementedError
        from cyclops_nb.display.live import show_live

        show_live(self)  # type: ignore[arg-type]


class OnceDisplayable(Displayable):
    """Mixin: what came of a run; not shown as the result of a cell that has shown the run already."""

    def _ipython_display_(self) -> None:
        """Show nothing, once, in such a cell; everywhere else the front end is asked for the other forms."""
        shown_by = _SHOWN_BY.pop(self, None)
        if shown_by is None or shown_by != getattr(_shell(), "execution_count", None):
            raise NotImplementedError


def follow(handle: Any, waiter: Any, *, whole: bool) -> None:
    """Show a run while the calling thread waits for it: live in the cell, or where there is none as text that comes.

    Parameters
    ----------
    handle : RunHandle
        The run.
    waiter : Waiter
        The waiting side of it.
    whole : bool
        Whether text is to be printed when a step is final, not as it comes.
    """
    if not has_kernel():
        from cyclops_nb.display.printing import print_run

        print_run(handle, waiter, whole=whole)
    else:
        from cyclops_nb.display.live import show_live

        view = show_live(handle, is_waiting=True)
        try:
            waiter.wait(handle)
        finally:
            if handle.done:
                view.wait(_LAST_UPDATE_SECONDS)
    count = getattr(_shell(), "execution_count", None)
    if count is not None:
        _SHOWN_BY[handle.result()] = count


def comparison_widget(comparison: Any) -> Any:
    """Return the widget of a comparison, which loads ipywidgets."""
    from cyclops_nb.display.comparison_widget import ComparisonWidget

    return ComparisonWidget(comparison)


def _shell() -> Any:
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def has_kernel() -> bool:
    """Say whether cells are run by a kernel, whose outputs can change."""
    return getattr(_shell(), "kernel", None) is not None
