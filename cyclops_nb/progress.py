"""A progress bar for what may take long, in a terminal or a notebook, that leaves nothing behind.

A bar in a notebook is a widget. In the saved notebook a widget that is gone reads as an error, or as 0 % for ever, so
at its end the bar's place in the output is made empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(label: str, total: int, **options: Any) -> Iterator[Any]:
    """Show a bar until the block ends.

    Parameters
    ----------
    label : str
        What is going on.
    total : int
        How much there is to do.
    **options
        What else tqdm is to know, such as the unit.

    Yields
    ------
    tqdm
        ``.update(n)`` says how much more was done, ``.n`` is how much was.

    Examples
    --------
    >>> with progress_bar("Counting", 3, disable=True) as bar:
    ...     bar.update(3)
    """
    # what takes no time needs no bar, and in a notebook this import loads the widgets
    from tqdm.auto import tqdm

    # without the monitor, because its thread would outlive the bar
    quiet = type("Bar", (tqdm,), {"monitor_interval": 0})
    place = None
    if any(base.__module__ == "tqdm.notebook" for base in quiet.__mro__):
        # with a delay, because it would show itself at once, where nobody can take it away again
        bar = quiet(total=total, desc=label, leave=False, delay=1e-6, **options)
        if hasattr(bar, "container"):
            from IPython.display import display

            place = display(bar.container, display_id=True)  # type: ignore[no-untyped-call]
            bar.displayed = True
    else:
        bar = quiet(total=total, desc=label, leave=False, **options)
    try:
        with bar:
            yield bar
    finally:
        if place is not None:
            place.update({"text/plain": ""}, raw=True)
