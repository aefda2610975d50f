"""What the widgets of one output have in common: layouts and styles, each made once and shared."""

from __future__ import annotations

import ipywidgets

from cyclops_nb.display.html import stylesheet
from cyclops_nb.render.escape import root

__all__ = ["Looks"]


class Looks:
    """Layouts and styles; a widget of its own for each would double the number of widgets.

    Parameters
    ----------
    *sheets : str
        Parts of the style sheet that the HTML in the widgets needs.
    """

    def __init__(self, *sheets: str) -> None:
        self.wide = ipywidgets.Layout(margin="0", width="auto")
        self.filled = ipywidgets.Layout(display="block", margin="0", width="auto")
        """For HTML with formulas, which is as narrow as its text else."""
        self.bar = ipywidgets.Layout(flex_flow="row wrap", margin="4px 0", width="auto")
        self.indented = ipywidgets.Layout(flex_flow="row wrap", margin="0 0 4px 42px", width="auto")
        """As far from the edge as the text of messages."""
        self.hidden = ipywidgets.Layout(display="none")
        self._small = ipywidgets.Layout(flex="0 0 auto", height="24px", margin="0 4px 2px 0", width="auto")
        self.sheet = ipywidgets.HTML(layout=self.wide, value=str(root(css=stylesheet("base", *sheets))))
        """To be put before all others."""
        self._button = ipywidgets.ButtonStyle(font_size="12px")

    def html(self, value: object = "") -> ipywidgets.HTML:
        """Return a place for HTML.

        Parameters
        ----------
        value : Markup
            What stands there at first.
        """
        return ipywidgets.HTML(value=str(value), layout=self.wide, style=self.sheet.style)

    def button(self, words: str, tooltip: str) -> ipywidgets.Button:
        """Return a small button.

        Parameters
        ----------
        words : str
            What stands on it.
        tooltip : str
            What it does.
        """
        return ipywidgets.Button(description=words, tooltip=tooltip, layout=self._small, style=self._button)

    def set_shown(self, button: ipywidgets.Button, *, is_shown: bool) -> None:
        """Show a button of ours, or do not."""
        button.layout = self._small if is_shown else self.hidden

    def widgets(self) -> list[ipywidgets.Widget]:
        """Return what is shared, to be closed last."""
        return [
            self.sheet,
            self.sheet.style,
            self.wide,
            self.filled,
            self.bar,
            self.indented,
            self.hidden,
            self._small,
            self._button,
        ]
