"""Brings what tools print and display to the view of their run.

A tool works on a thread or loop of the library's own, where ``print`` and ``display`` reach the cell that began the
run, or with some kernels whatever cell ran last. While a run is shown, ``sys.stdout``, ``sys.stderr`` and the display
publisher ask first whether the code that calls them belongs to a tool of that run. All other code finds them unchanged,
and when no run is shown they are what they were.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from IPython.core.getipython import get_ipython

from cyclops_nb.display.tool_output import ToolOutput
from cyclops_nb.engine.state import CURRENT_CALL

__all__ = ["Outputs", "begin_capture", "end_capture"]

Outputs: TypeAlias = dict[tuple[int, str], ToolOutput]
"""By the number of a step and the id of a call."""


class _Run:
    """A run that is shown, in one cell or in several."""

    def __init__(self) -> None:
        self.outputs: Outputs = {}
        self.views = 0


_RUNS: dict[str, _Run] = {}
_LOCK = threading.Lock()
_publishers: list[Any] = []
"""Display publishers that ask."""


def _output() -> ToolOutput | None:
    """Return where the output of the code that runs at this moment belongs, if it belongs to a call that is shown."""
    call = CURRENT_CALL.get()
    while call is not None:
        run = _RUNS.get(call.run_id)
        if run is not None:
            return run.outputs.setdefault((call.step, call.call_id), ToolOutput())
        call = call.outer
    return None


class _Stream:
    """A text stream in front of another one."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        output = _output()
        if output is None:
            return int(self._stream.write(text) or 0)
        output.write(str(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _ask_first(publisher: Any) -> None:
    """Have a display publisher ask where what is displayed belongs."""
    publish, clear = publisher.publish, publisher.clear_output

    def publish_there(data: Mapping[str, Any], *args: Any, **others: Any) -> None:
        output = _output()
        if output is None:
            publish(data, *args, **others)
        else:
            output.display(data, (others.get("transient") or {}).get("display_id"))

    def clear_there(wait: bool = False) -> None:
        output = _output()
        if output is None:
            clear(wait)
        else:
            output.clear()

    publisher.publish, publisher.clear_output = publish_there, clear_there
    _publishers.append(publisher)


def begin_capture(run_id: str) -> Outputs:
    """Keep what tools of a run print and display, until `end_capture`, which must be called as often.

    Parameters
    ----------
    run_id : str
        The run.

    Returns
    -------
    dict
        What they have printed and displayed so far, by step and id of the call; filled by whatever thread.
    """
    with _LOCK:
        run = _RUNS.setdefault(run_id, _Run())
        run.views += 1
        for name in ("stdout", "stderr"):
            if not isinstance(getattr(sys, name), _Stream):
                setattr(sys, name, _Stream(getattr(sys, name)))
        publisher = getattr(get_ipython(), "display_pub", None)
        if publisher is not None and publisher not in _publishers:
            _ask_first(publisher)
        return run.outputs


def end_capture(run_id: str) -> None:
    """Leave what tools of a run still print to the cell."""
    with _LOCK:
        _RUNS[run_id].views -= 1
        if not _RUNS[run_id].views:
            del _RUNS[run_id]
        if _RUNS:
            return
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if isinstance(stream, _Stream):  # else somebody has put a stream before ours, and lets it be asked still
                setattr(sys, name, stream._stream)  # noqa: SLF001 - of this module
        for publisher in _publishers:
            del publisher.publish, publisher.clear_output
        _publishers.clear()
