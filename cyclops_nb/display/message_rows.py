"""The messages of a branch as widgets, each with its buttons.

To make a widget takes a browser longer than to change one. So there is a pool of rows, for the last messages first and
for earlier ones when they are asked for; going to another branch fills the same rows with other messages. A row that
is not needed is hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from typing import Literal, TypeAlias

import ipywidgets
from markupsafe import Markup

from cyclops_nb.display.branch_set import Actions
from cyclops_nb.display.conversation import unit_block
from cyclops_nb.display.looks import Looks
from cyclops_nb.display.parts import Images, Room
from cyclops_nb.display.units import Unit
from cyclops_nb.render.escape import join, root
from cyclops_nb.render.formulas import MATH_ON

__all__ = ["Action", "MessageRow", "MessageRows"]

Action: TypeAlias = Literal["fork", "truncate", "edit", "retry"]
_BUTTONS: Mapping[Action, tuple[str, str]] = {
    "fork": ("Fork here", "Begin a branch that ends with this message"),
    "truncate": ("Truncate here", "Cut this message and all below it; asks first"),
    "edit": ("Edit", "Begin a branch in which this message says something else"),
    "retry": ("Retry", "Ask the question again in a new branch"),
}
_PAGE = 20


class MessageRow:
    """The place of a message, and of what is asked about it.

    Parameters
    ----------
    act : callable
        Called with the action and this row when a button is pressed.
    looks : Looks
        What widgets have in common.
    """

    def __init__(self, act: Callable[[Action, MessageRow], None], looks: Looks) -> None:
        self.unit: Unit | None = None
        """What stands here."""
        self._looks = looks
        self._text = looks.html()
        self._math: ipywidgets.HTMLMath | None = None
        self._buttons: dict[Action, ipywidgets.Button] = {}
        for action, (words, tooltip) in _BUTTONS.items():
            button = looks.button(words, tooltip)
            button.on_click(lambda _, action=action: act(action, self))
            self._buttons[action] = button
        self._bar = ipywidgets.HBox(list(self._buttons.values()), layout=looks.indented)
        self._question: ipywidgets.Widget | None = None
        self.box = ipywidgets.VBox([self._text, self._bar], layout=looks.wide)

    def show(self, unit: Unit, more: Markup, actions: Actions) -> None:
        """Show a message, what is said after it, and what can be done at it."""
        self.unit = unit
        html = str(root(unit_block(unit, Room(images=Images())), more, kind="cy-session cy-row"))
        text = self._text
        if MATH_ON in html:
            if self._math is None:
                self._math = ipywidgets.HTMLMath(layout=self._looks.filled)
            text = self._math
        text.value = html
        for button, is_offered in zip(self._buttons.values(), astuple(actions), strict=True):
            self._looks.set_shown(button, is_shown=is_offered)
        self._arrange(text)
        self.box.layout = self._looks.wide

    def hide(self) -> None:
        """Show nothing."""
        self.unit = None
        self.box.layout = self._looks.hidden

    def ask(self, question: ipywidgets.Widget | None) -> None:
        """Put a question below the message in place of the buttons, or the buttons again."""
        self._question = question
        self._arrange(self.box.children[0])

    def _arrange(self, text: ipywidgets.Widget) -> None:
        children = (text, self._question or self._bar)
        if self.box.children != children:
            self.box.children = children

    def widgets(self) -> list[ipywidgets.Widget]:
        """Return all widgets of the row."""
        math = [self._math, self._math.style] if self._math is not None else []
        return [self._text, *math, *self._buttons.values(), self._bar, self.box]


class MessageRows:
    """The rows of a branch, the last ones of a long one.

    Parameters
    ----------
    act : callable
        Called with the action and the row when a button is pressed.
    earlier : callable
        Called when more rows are wanted.
    looks : Looks
        What widgets have in common.
    """

    def __init__(self, act: Callable[[Action, MessageRow], None], earlier: Callable[[], None], looks: Looks) -> None:
        self._act = act
        self._looks = looks
        self._rows: list[MessageRow] = []
        self._wanted = _PAGE
        self._more = looks.button("Earlier messages", "Show messages before these")
        self._more.on_click(lambda _: earlier())
        self.box = ipywidgets.VBox([self._more], layout=looks.wide)

    def more(self) -> None:
        """Have more rows from now on."""
        self._wanted += _PAGE

    def reset(self) -> None:
        """Have as many rows as at first."""
        self._wanted = _PAGE

    def show(self, units: Sequence[Unit], ends: Mapping[int, Markup], actions: Callable[[int, int], Actions]) -> None:
        """Show the messages of a branch.

        Parameters
        ----------
        units : sequence of Unit
            All of them.
        ends : mapping of int to Markup
            What is to be said after messages, by their index.
        actions : callable
            Says what can be done at the message with an index, the last of whose results stands at another.
        """
        shown = units[-self._wanted :]
        self._looks.set_shown(self._more, is_shown=len(shown) < len(units))
        if len(self._rows) < len(shown):
            self._rows += [MessageRow(self._act, self._looks) for _ in range(len(shown) - len(self._rows))]
            self.box.children = (self._more, *(row.box for row in self._rows))
        for row, unit in zip(self._rows, shown, strict=False):
            more = join(ends[index] for index in unit.indices if index in ends)
            row.show(unit, more, actions(unit.index, unit.last))
        for row in self._rows[len(shown) :]:
            row.hide()

    def widgets(self) -> list[ipywidgets.Widget]:
        """Return all widgets of the rows."""
        return [self._more, self.box, *(widget for row in self._rows for widget in row.widgets())]
