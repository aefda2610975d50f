"""Prints a run as text while it goes on, where there is no notebook to show it.

What was printed cannot be taken back, so text that may turn out to be void is printed when it is final. Control
characters are shown by name: a terminal would obey them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cyclops_nb.display.parts import about, arguments_line
from cyclops_nb.events import Event, StepFinished, TextDelta, ToolCallReady, ToolResult
from cyclops_nb.render.text import one_line, visible

if TYPE_CHECKING:
    from cyclops_nb.handle import RunHandle, Waiter

__all__ = ["print_run", "write"]


def print_run(handle: RunHandle, waiter: Waiter, *, whole: bool = False) -> None:
    """Print text and tool calls of a run as they come, until it is over.

    Parameters
    ----------
    handle : RunHandle
        The run.
    waiter : Waiter
        The waiting side of it; what it raises for a Ctrl-C is raised here, once the run is cancelled.
    whole : bool
        Whether text is printed when a step is final.
    """
    printer = _Printer(whole=whole)
    try:
        for event in waiter.events(handle):
            printer.take(event)
    finally:
        printer.end_line()


class _Printer:
    """Writes to stdout, and knows where in it it stands."""

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._is_within_line = False

    def take(self, event: Event) -> None:
        match event:
            case TextDelta() if not self._whole:
                self._write(event.text)
            case StepFinished():
                if self._whole:
                    self._write(event.message.text)
                self.end_line()
            case ToolCallReady():
                self._line(f"→ {one_line(event.call.name)}({arguments_line(event.call.arguments)})")
            case ToolResult():
                told = ", ".join(words for words, _ in about(event.message))
                self._line(f"← {'' if event.message.status == 'ok' else f'({told}) '}{one_line(event.message.text)}")

    def _line(self, text: str) -> None:
        self.end_line()
        self._write(f"{text}\n")

    def end_line(self) -> None:
        """End the line, if one was begun."""
        if self._is_within_line:
            self._write("\n")

    def _write(self, text: str) -> None:
        if not text:
            return
        write(text)
        self._is_within_line = not text.endswith("\n")


def write(text: str) -> None:
    """Write to stdout, at once, what a terminal can show and does not obey."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(visible(text).encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()
