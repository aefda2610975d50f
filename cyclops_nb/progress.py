"""Progress bars for what may take long: nothing is seen of what is over soon, or where nobody looks.

tqdm knows how to draw in a terminal and in a notebook. In a notebook its bars are widgets, which in a saved notebook
are dead: "model not found". So a bar here is one output that is emptied when the bar ends, and there is none at all
when a notebook is executed with no front end to watch it. On a stream that is no terminal there is none either: in a
log a bar is a thousand lines.
"""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sized
from typing import Any, TypeVar

__all__ = ["progress", "progress_bar"]

_T = TypeVar("_T")
_DELAY = 1.0
"""Seconds in which work is short."""
_EMPTY = {"text/html": "", "text/plain": ""}


def progress(items: Iterable[_T], label: str, *, unit: str = "it") -> Iterator[_T]:
    """Yield the items, from the second second on under a bar.

    Parameters
    ----------
    items : iterable
        What is worked on between one item and the next.
    label : str
        What is done, such as ``"Reading sessions"``.
    unit : str
        What an item is.

    Yields
    ------
    object
        The items.

    Examples
    --------
    >>> sum(progress([1, 2, 3], "Adding"))
    6
    """
    count = len(items) if isinstance(items, Sized) else None
    began, bar = time.monotonic(), None
    with contextlib.ExitStack() as stack:
        for done, item in enumerate(items):
            if bar is not None:
                bar.update()
            elif time.monotonic() - began > _DELAY:
                bar = stack.enter_context(progress_bar(label, count, initial=done, unit=f" {unit}"))
            yield item


def progress_bar(label: str, total: float | None = None, **settings: Any) -> Any:
    """Return a bar that goes when it is closed.

    Parameters
    ----------
    label : str
        What is done.
    total : float, optional
        How much there is to do.
    **settings
        Those of ``tqdm``, such as ``unit``.

    Returns
    -------
    tqdm.tqdm
        A context manager with ``update(n)``.

    Examples
    --------
    >>> with progress_bar("Adding", 3) as bar:
    ...     bar.update(3)
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without widgets there is no bar in a notebook: that is no trouble
        from tqdm.auto import tqdm

    is_notebook = hasattr(tqdm, "status_printer") and "tqdm.notebook" in {kind.__module__ for kind in tqdm.__mro__}
    # without the monitor, because its thread would outlive the bar
    kind = type("Bar", (_CellBar, tqdm) if is_notebook else (tqdm,), {"monitor_interval": 0})
    if not (_is_front_end() if is_notebook else _is_terminal()):
        settings["disable"] = True
    return kind(desc=label, total=total, leave=False, **settings)


class _CellBar:
    """Mixin for tqdm's bars of notebooks: an output that is emptied at the end."""

    def __init__(self: Any, **settings: Any) -> None:
        super().__init__(**settings, display=False)  # type: ignore[call-arg]
        self._output = None
        if not self.disable:
            from IPython.display import DisplayHandle

            self._output = DisplayHandle()  # type: ignore[no-untyped-call]
            self._output.display(self.container._repr_mimebundle_(), raw=True)

    def close(self: Any) -> None:
        """End, and leave nothing."""
        output, self._output = self._output, None
        super().close()  # type: ignore[misc]
        if output is not None:
            output.update(_EMPTY, raw=True)
            for widget in (*self.container.children, self.container):
                for part in (widget, widget.layout, getattr(widget, "style", None)):
                    if part is not None:
                        part.close()


def _is_front_end() -> bool:
    """Say whether somebody sits before the cell: who only executes a notebook would keep the widget in its file."""
    shell = sys.modules["IPython"].get_ipython()
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    return bool(parent.get("content", {}).get("allow_stdin"))


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
