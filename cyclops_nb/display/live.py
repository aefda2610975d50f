"""Shows a run in the cell that asks for it, while it goes on.

The work is done on a thread that ends with the run. Whatever fails in it concerns the view: the run knows nothing of
it. When the run is over, the widgets are gone, and what stays in the notebook is what the response looks like, which
needs neither a kernel nor a widget.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any

from IPython.core.getipython import get_ipython
from markupsafe import Markup

from cyclops_nb.display.cell_output import CellOutput, is_interactive
from cyclops_nb.display.html import fold, notice, page
from cyclops_nb.display.live_progress import LiveProgress
from cyclops_nb.display.live_state import LiveState, ShownOutput
from cyclops_nb.display.live_widgets import LiveWidgets
from cyclops_nb.display.parts import arguments_line
from cyclops_nb.display.register import mimebundle
from cyclops_nb.display.responses import response_page
from cyclops_nb.displayable import has_kernel
from cyclops_nb.handle import RunHandle
from cyclops_nb.messages import ToolCall, ToolMessage
from cyclops_nb.render.escape import fragment, label, root
from cyclops_nb.render.text import one_line
from cyclops_nb.response import AgentResponse

__all__ = ["LiveView", "show_live"]

_BESIDE = '<div style="padding:0 .6em"><div class="cy-body">{}</div></div>'
"""As far from the edge as the text of messages."""


class LiveView:
    """A run that is shown in a cell; made by `show_live`.

    Parameters
    ----------
    handle : RunHandle
        The run.
    is_waiting : bool
        Whether the cell waits for it.
    """

    def __init__(self, handle: RunHandle, *, is_waiting: bool) -> None:
        self._handle = handle
        self._progress = LiveProgress(handle)  # first: its tools may be at work
        self._display = CellOutput()
        self._widgets: LiveWidgets | None = None
        self._thread: threading.Thread | None = None
        self._is_shown = False
        """Whether there is nothing more to be shown."""
        if not has_kernel():
            return
        if handle.done:
            self._progress.end()
            self._show_end(self._display.begin)
            return
        if is_interactive():
            with contextlib.suppress(Exception):  # without widgets the run is shown when it is over
                self._widgets = LiveWidgets(None if is_waiting else handle.cancel, self._progress.wake)
        self._display.begin(_unfinished(handle, self._widgets))
        self._thread = threading.Thread(target=self._in_no_cell, name="cyclops_nb live", daemon=True)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the run is over and its last update was sent.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.

        Returns
        -------
        bool
            Whether that is so.
        """
        if self._thread is not None:
            self._thread.join(timeout)
            return not self._thread.is_alive()
        if not self._is_shown:  # there is no kernel, and a terminal cannot take anything back
            try:
                self._handle.result(timeout)
            except TimeoutError:
                return False
            if get_ipython() is not None:
                self._show_end(self._display.begin)
        return True

    def _show_end(self, show: Callable[[dict[str, Any]], None]) -> None:
        self._is_shown = True
        show(_static(self._handle.result(), self._progress.state))

    def _in_no_cell(self) -> None:
        # what this thread sends belongs to the cell that runs at that moment: whoever executes a notebook without a
        # front end hears no other
        contextvars.Context().run(self._work)

    def _work(self) -> None:
        try:
            self._progress.follow(self._show)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on
            self._give_up(error)
        self._handle.result()
        self._progress.end()
        if self._widgets is None:
            _in_next_cell(lambda: self._show_end(self._display.update))
        self._show_end(self._display.update)
        if self._widgets is not None:
            self._widgets.close()

    def _show(self, state: LiveState, elapsed: float) -> int:
        return 0 if self._widgets is None else self._widgets.show(state, elapsed)

    def _give_up(self, error: Exception) -> None:
        said = (
            f"this run cannot be shown while it goes on ({type(error).__name__}: {error}); it is shown when it is over"
        )
        with contextlib.suppress(Exception):
            self._display.update({"text/html": str(page(notice(said), kind="response")), "text/plain": said})


def show_live(handle: RunHandle, *, is_waiting: bool = False) -> LiveView:
    """Show a run in the cell that calls this, from now until it is over; return at once.

    Parameters
    ----------
    handle : RunHandle
        The run.
    is_waiting : bool
        Whether the cell itself waits for the run, so that a click on a button would come too late.

    Returns
    -------
    LiveView
        To wait for the last update.

    Examples
    --------
    >>> view = show_live(agent.start("Hello"))
    >>> view.wait()
    True
    """
    return LiveView(handle, is_waiting=is_waiting)


def _in_next_cell(function: Callable[[], None]) -> None:
    """Call `function` when the next cell begins: who executes a notebook hears nothing between two cells."""
    shell: Any = get_ipython()

    def call(*_: object) -> None:
        shell.events.unregister("pre_run_cell", call)
        function()

    shell.events.register("pre_run_cell", call)


def _static(response: AgentResponse, state: LiveState) -> dict[str, Any]:
    """Return what stays: the look of the response, and what its tools have shown to the reader alone."""
    bundle: dict[str, Any] = dict(mimebundle(response))
    with contextlib.suppress(Exception):  # tools display anything
        shown = state.tools_with_output()
        folds = [fold(_whose(it.call), it.output.html, kind="call", is_open=True) for it in shown]
        said = "".join(f"\noutput of {one_line(it.call.name)}: {it.output.text}" for it in shown)
        places = [it.place if _has_result(response, it) else -1 for it in shown]
        html = response_page(
            response, {place: fragment(_BESIDE, fold) for place, fold in zip(places, folds, strict=True) if place >= 0}
        )
        rest = [fold for place, fold in zip(places, folds, strict=True) if place < 0]
        bundle["text/html"] = str(html) + (str(root(*rest, kind="cy-response")) if rest else "")
        bundle["text/plain"] += said
    return bundle


def _has_result(response: AgentResponse, shown: ShownOutput) -> bool:
    """Say whether the call is in the transcript: not so if its answer was asked for once more."""
    message = response.messages[shown.place] if shown.place < len(response.messages) else None
    return isinstance(message, ToolMessage) and message.call_id == shown.call.id


def _whose(call: ToolCall) -> Markup:
    return fragment("output of <code>{}</code>({})", label(call.name), label(arguments_line(call.arguments)))


def _unfinished(handle: RunHandle, widgets: LiveWidgets | None) -> dict[str, Any]:
    said = "This run goes on. Its answer is shown here when it is complete."
    texts = {"text/html": str(root(notice(said, kind="info"), kind="cy-response")), "text/plain": f"{handle!r}\n{said}"}
    return {**(widgets.mimebundle() if widgets is not None else {}), **texts}
