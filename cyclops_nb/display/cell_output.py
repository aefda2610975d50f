"""One output of a cell, whose content can be replaced later: a widget first, then the HTML that stays.

An output is made in the cell it belongs to, on the thread of that cell; from then on only its display id is used, since
that alone reaches the right cell from any thread and from tasks that outlive the cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle

__all__ = ["CellOutput", "is_interactive"]


class CellOutput:
    """One output of the cell that makes it.

    Examples
    --------
    >>> output = CellOutput()
    >>> output.begin({"text/plain": "working"})
    {'text/plain': 'working'}
    """

    def __init__(self) -> None:
        self._handle: Any = DisplayHandle()  # type: ignore[no-untyped-call]

    def begin(self, bundle: Mapping[str, Any]) -> None:
        """Show it in the cell that runs now.

        Parameters
        ----------
        bundle : mapping
            Its content by media type.
        """
        self._handle.display(dict(bundle), raw=True)

    def update(self, bundle: Mapping[str, Any]) -> None:
        """Replace its content, from any thread.

        Parameters
        ----------
        bundle : mapping
            The new content by media type.
        """
        self._handle.update(dict(bundle), raw=True)


def is_interactive() -> bool:
    """Say whether somebody sits before the cell: who only executes a notebook would keep the widgets in its file."""
    shell: Any = get_ipython()
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    return bool(parent.get("content", {}).get("allow_stdin"))
