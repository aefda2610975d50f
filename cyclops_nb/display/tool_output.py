"""What a tool has printed and displayed while it worked: for the reader, the model does not see it."""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from cyclops_nb.render.escape import EMPTY, fragment, image, join, text_block
from cyclops_nb.render.markdown import sanitised, to_html
from cyclops_nb.render.text import left_out, visible

__all__ = ["WIDGET", "ToolOutput"]

WIDGET = "application/vnd.jupyter.widget-view+json"
"""The type of a widget in what is displayed, such as a progress bar."""
_BEGIN = 1_000
_END = 1_000
_A_WIDGET = "[a widget, seen while the run went on]"
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_HTML = 20_000
_ITEMS = 20
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n|$)")


class _Printed:
    """Text of which only the beginning and the end are kept when it is long."""

    def __init__(self) -> None:
        self._begin = ""
        self._end = ""
        self._omitted = 0

    def add(self, text: str) -> None:
        free = _BEGIN - len(self._begin)
        self._begin += text[: max(free, 0)]
        self._end += text[max(free, 0) :]
        if len(self._end) > 4 * _END:
            self._omitted += len(self._end) - _END
            self._end = self._end[-_END:]

    @property
    def text(self) -> str:
        middle = f"\n{left_out(self._omitted)}\n" if self._omitted else ""
        # a progress bar writes its line again and again
        return _OVERWRITTEN.sub("", _COLOURS.sub("", self._begin + middle + self._end))


class ToolOutput:
    """What one call has printed and displayed.

    Examples
    --------
    >>> output = ToolOutput()
    >>> output.write("looking up Paris")
    >>> output.text
    'looking up Paris'
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: list[_Printed | Mapping[str, Any]] = []
        self._displayed: dict[str, int] = {}
        """Where the output of a display id stands."""

    def write(self, text: str) -> None:
        """Add what was printed."""
        with self._lock:
            if not self._items or not isinstance(self._items[-1], _Printed):
                self._items.append(_Printed())
            printed = self._items[-1]
            if isinstance(printed, _Printed):
                printed.add(text)

    def display(self, data: Mapping[str, Any], display_id: str | None = None) -> None:
        """Add what was displayed, or put it in the place of what was displayed under that id."""
        with self._lock:
            place = self._displayed.get(display_id or "")
            if place is not None:
                self._items[place] = data
                return
            if display_id:
                self._displayed[display_id] = len(self._items)
            self._items.append(data)

    def clear(self) -> None:
        """Forget all of it, as ``clear_output`` asks."""
        with self._lock:
            self._items.clear()
            self._displayed.clear()

    @property
    def html(self) -> Markup:
        """All of it as HTML; empty if there is nothing."""
        return self._html(self._shown_items())

    @property
    def live_html(self) -> Markup:
        """All of it that is no widget."""
        return self._html([item for item in self._shown_items() if isinstance(item, _Printed) or WIDGET not in item])

    @property
    def widgets(self) -> list[str]:
        """The ids of the widgets that were displayed."""
        views = [item[WIDGET] for item in self._shown_items() if not isinstance(item, _Printed) and WIDGET in item]
        return list(dict.fromkeys(view["model_id"] for view in views))

    def _shown_items(self) -> list[_Printed | Mapping[str, Any]]:
        with self._lock:
            return self._items[:_ITEMS]

    def _html(self, items: list[_Printed | Mapping[str, Any]]) -> Markup:
        left = len(self._items) - _ITEMS
        shown = [_as_html(item) for item in items]
        return join([*shown, fragment('<div class="cy-note">{}</div>', f"… {left} more") if left > 0 else ""])

    @property
    def text(self) -> str:
        """All of it in words."""
        return "\n".join(map(_as_text, self._shown_items()))


def _as_html(item: _Printed | Mapping[str, Any]) -> Markup:
    if isinstance(item, _Printed):
        return text_block(item.text, None) if item.text.strip() else EMPTY
    if WIDGET in item:
        return fragment('<div class="cy-note">{}</div>', _A_WIDGET)
    for kind in _PICTURES:
        if data := item.get(kind):
            encoded = base64.b64encode(data).decode() if isinstance(data, bytes) else str(data)
            return image(encoded, kind, "displayed by the tool")
    html = item.get("text/html")
    if isinstance(html, str) and len(html) <= _HTML and (shown := sanitised(html)):
        return shown
    if isinstance(item.get("text/markdown"), str):
        return to_html(item["text/markdown"], limit=_HTML)
    return text_block(_as_text(item), _BEGIN + _END)


def _as_text(item: _Printed | Mapping[str, Any]) -> str:
    if isinstance(item, _Printed):
        return visible(item.text)
    if WIDGET in item:
        return _A_WIDGET
    text, html = str(item.get("text/plain", ", ".join(item))), item.get("text/html")
    if text.startswith("<IPython.core.display.") and isinstance(html, str):  # an object that is nothing but its HTML
        text = sanitised(html).striptags()
    return visible(text)
