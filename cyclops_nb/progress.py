"""A progress bar for what may take long, in a terminal or a notebook."""

from __future__ import annotations

from typing import Any

__all__ = ["progress_bar"]


def progress_bar(label: str, total: int, **options: Any) -> Any:
    """Return a bar that is gone once it is closed.

    Parameters
    ----------
    label : str
        What is going on.
    total : int
        How much there is to do.
    **options
        What else tqdm is to know, such as the unit.

    Returns
    -------
    tqdm
        A context manager; ``.update(n)`` says how much more was done.

    Examples
    --------
    >>> with progress_bar("Counting", 3, disable=True) as bar:
    ...     bar.update(3)
    """
    # what takes no time needs no bar, and in a notebook this import loads the widgets
    from tqdm.auto import tqdm

    # without the monitor, because its thread would outlive the bar
    quiet = type("Bar", (tqdm,), {"monitor_interval": 0})
    return quiet(total=total, desc=label, leave=False, **options)
