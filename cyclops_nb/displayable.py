"""How types that users hold get their look in a notebook without knowing anything about screens.

Front ends call ``_repr_mimebundle_`` and ``_repr_html_`` on whatever a cell returns. Both ask the display package,
which is loaded only then: the core never imports it otherwise, and a script never pays for it.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["Displayable", "LiveDisplayable"]


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
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        if getattr(shell, "kernel", None) is None:
            raise NotImplementedError
        from cyclops_nb.display.live import show_live

        show_live(self)  # type: ignore[arg-type]
