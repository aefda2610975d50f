"""The widgets in which a run is seen while it goes on. They take the blocks of a `LiveState`, and send what is new.

A message costs more than half a kilobyte before it says anything, and a list of children names all of them. So the
blocks stand in groups, and share one layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ipywidgets

from cyclops_nb.display.conversation import STYLES
from cyclops_nb.display.html import stylesheet
from cyclops_nb.display.live_state import Block, LiveState
from cyclops_nb.render.escape import fragment, root
from cyclops_nb.render.formulas import MATH_ON

__all__ = ["LiveWidgets"]

_GROUP = 16
_MESSAGE = 700
"""Bytes of a message that says nothing yet."""
_WIDGET = 2_500
"""Bytes that a new widget takes beside what is in it, until it is closed again."""
_KEYS = fragment('<span class="cy-note">stop with the kernel\'s stop key</span>')


class LiveWidgets:
    """A head with a button, and the blocks below it.

    Parameters
    ----------
    cancel : callable or None
        Stops the run; None where a click could not be heard.
    woken : callable
        Called when a click has changed what is to be shown.
    """

    def __init__(self, cancel: Callable[[], None] | None, woken: Callable[[], None]) -> None:
        self._cancel = cancel
        self._woken = woken
        self._complaint = ""
        self._sent = 0
        self._layout = ipywidgets.Layout(margin="0", width="auto")
        self._style = ipywidgets.HTML(layout=self._layout, value=str(root(css=stylesheet("base", *STYLES, "live"))))
        # the button stays where it is whatever the head says
        self._wide = ipywidgets.Layout(flex="1 1 auto", margin="0", max_width="62em")
        self._head = ipywidgets.HTML(layout=self._wide, style=self._style.style)
        self._math: dict[str, ipywidgets.Widget] = {}
        """The style of formulas, when there are any."""
        self._seconds = -1
        self._step = ""
        self._button = None
        if cancel is not None:
            self._button = ipywidgets.Button(
                description="Stop", tooltip="Stop this run", layout=ipywidgets.Layout(flex="0 0 auto", width="auto")
            )
            self._button.on_click(self._stop)
            _hear_at_once(self._button)
        self._bar = ipywidgets.HBox([self._head, *([self._button] if self._button else [])], layout=self._wide)
        self._shown: dict[str, tuple[Block, ipywidgets.Widget]] = {}
        self._groups: list[ipywidgets.VBox] = []
        self._root = ipywidgets.VBox([self._style, self._bar], layout=self._layout)

    def _html(self, value: str, *, has_math: bool = False) -> ipywidgets.Widget:
        if not has_math:
            return ipywidgets.HTML(value=value, layout=self._layout, style=self._style.style)
        widget = ipywidgets.HTMLMath(value=value, layout=self._layout, **self._math)
        self._math = {"style": widget.style}
        return widget

    @property
    def box(self) -> ipywidgets.VBox:
        """The widget that all others stand in."""
        return self._root

    def mimebundle(self) -> dict[str, object]:
        """Return what a front end needs to show this."""
        bundle: dict[str, object] = self._root._repr_mimebundle_()
        return bundle

    def _stop(self, _button: object) -> None:
        """Stop the run; called on whatever thread, where an error would be seen by nobody."""
        try:
            if self._button is not None and self._cancel is not None:
                self._button.disabled = True
                self._cancel()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is to be seen
            self._complaint = f"the run could not be stopped: {type(error).__name__}: {error}"
        self._woken()

    def show(self, state: LiveState, elapsed: float) -> int:
        """Bring the widgets up to date.

        Parameters
        ----------
        state : LiveState
            The run.
        elapsed : float
            Seconds since it was shown.

        Returns
        -------
        int
            About how many bytes were sent for that.
        """
        self._sent = 0
        self._show_head(state, elapsed)
        blocks = state.blocks()
        for name in self._shown.keys() - {block.name for block in blocks}:
            self._close(*self._shown.pop(name))
        for block in blocks:
            self._show_block(block)
        self._arrange([self._shown[block.name][1] for block in blocks])
        return self._sent

    def _show_head(self, state: LiveState, elapsed: float) -> None:
        """Show the head again when the step has changed, or a second has passed."""
        news = f"{state.step} {state.note} {self._complaint}"
        if int(elapsed) > self._seconds or news != self._step:
            self._seconds, self._step = int(elapsed), news
            self._head.value = str(state.head(elapsed, self._complaint or ("" if self._cancel else _KEYS)))
            self._sent += _MESSAGE + len(self._head.value)

    def _show_block(self, block: Block) -> None:
        shown, widget = self._shown.get(block.name, (None, None))
        if shown is not None and shown.html == block.html and widget is not None and widget.comm is not None:
            return
        self._sent += _MESSAGE + len(block.html)
        if block.widget:
            widget = ipywidgets.widget_serialization["from_json"](f"IPY_MODEL_{block.widget}", None)
            if not isinstance(widget, ipywidgets.Widget):  # the tool has closed it
                block, widget = block._replace(widget=""), self._html("")
        elif widget is not None and not _has_math(block):
            widget.value = str(block.html)
        else:
            if widget is not None:
                widget.close()
            widget = self._html(str(block.html), has_math=_has_math(block))
            self._sent += _WIDGET
        self._shown[block.name] = (block, widget)

    @staticmethod
    def _close(block: Block, widget: ipywidgets.Widget) -> None:
        if not block.widget:  # else it is the tool's
            widget.close()

    def _arrange(self, widgets: Sequence[ipywidgets.Widget]) -> None:
        """Put the blocks below each other."""
        chunks = [tuple(widgets[start : start + _GROUP]) for start in range(0, len(widgets), _GROUP)]
        for group, chunk in zip(self._groups, chunks, strict=False):
            if group.children != chunk:
                group.children = chunk
        fresh = [ipywidgets.VBox(chunk, layout=self._layout) for chunk in chunks[len(self._groups) :]]
        for group in self._groups[len(chunks) :]:
            group.close()
        if fresh or len(self._groups) > len(chunks):
            self._groups = [*self._groups[: len(chunks)], *fresh]
            self._root.children = (self._style, self._bar, *self._groups)

    def close(self) -> None:
        """Remove all of them, here and in the front end."""
        parts = [
            self._head,
            self._style,
            self._style.style,
            self._layout,
            self._wide,
            self._bar,
            self._root,
            *self._groups,
        ]
        parts += self._math.values()
        if self._button is not None:
            parts += [self._button, self._button.style, self._button.layout]
        for shown in self._shown.values():
            self._close(*shown)
        for widget in parts:
            widget.close()


def _hear_at_once(button: ipywidgets.Button) -> None:
    """Have a click come in while a cell runs, where the front end asks for that.

    JupyterLab sends it to a subshell of the kernel, which is another thread; ipykernel 7.4 brings it to the thread that
    the widget was made on, which is the one of the cells.
    """
    if hasattr(button.comm, "_reply_subshell_for"):
        button.comm._reply_subshell_for = lambda _data, asked_for: asked_for  # noqa: SLF001 - there is no public way


def _has_math(block: Block) -> bool:
    return block.is_final and MATH_ON in block.html
