"""A comparison to be held in the hand: pick branches, swap two, hide what is equal.

What is shown is a `ComparisonChoice`, a value that the widgets only draw: each change makes a new one and sets one
piece of HTML. Callbacks may come on any thread, where nobody sees their exceptions, so each of them runs under a lock
and says in the widget what went wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ipywidgets

from cyclops_nb.display.branches import Comparison
from cyclops_nb.display.cell_output import CellOutput, is_interactive
from cyclops_nb.display.comparison import comparison_page, comparison_text
from cyclops_nb.display.html import notice, page
from cyclops_nb.displayable import has_kernel
from cyclops_nb.errors import InputError
from cyclops_nb.render.text import one_line

__all__ = ["ComparisonChoice", "ComparisonWidget"]


@dataclass(frozen=True)
class ComparisonChoice:
    """What of a comparison is shown, and how."""

    order: tuple[str, ...]
    """All branches, by their labels."""
    picked: frozenset[str]
    """Those that are shown."""
    hides_equal: bool = False
    is_folded: bool = True

    @property
    def shown(self) -> list[str]:
        """The labels of the branches that are shown, in their order."""
        return [name for name in self.order if name in self.picked]

    def swapped(self, one: str, other: str) -> ComparisonChoice:
        """Return the choice with two branches at each other's place."""
        if one == other or not {one, other} <= set(self.order):
            raise InputError(f"two different branches can be swapped, got {one!r} and {other!r}: they are {self.order}")
        places = {one: other, other: one}
        return replace(self, order=tuple(places.get(name, name) for name in self.order))


class ComparisonWidget:
    """A comparison with buttons; made by `Comparison.widget`, shown as the last line of a cell.

    Parameters
    ----------
    comparison : Comparison
        What can be shown.

    Examples
    --------
    >>> from cyclops_nb import Session, compare
    >>> a = Session(title="A")
    >>> widget = compare(a, a.fork(title="B"), a.fork(title="C")).widget()
    >>> widget.pick("C", "A")
    >>> widget.comparison.labels
    ['C', 'A']
    """

    def __init__(self, comparison: Comparison) -> None:
        self._all = comparison
        self._choice = ComparisonChoice(tuple(comparison.labels), frozenset(comparison.labels))
        self._lock = threading.RLock()
        self._outputs: list[CellOutput] = []
        self._is_frozen = False
        self._is_setting = False
        """Whether the controls are set by a method, which is no click."""
        self._build()
        self._draw()

    @property
    def comparison(self) -> Comparison:
        """What is shown now."""
        return self._all.pick(*self._choice.shown)

    def pick(self, *branches: str | int) -> None:
        """Show these branches, in this order.

        Parameters
        ----------
        *branches : str or int
            Two or more labels or indices.
        """
        names = self._all.pick(*branches).labels
        rest = [name for name in self._choice.order if name not in names]
        self._change(replace(self._choice, order=(*names, *rest), picked=frozenset(names)))

    def swap(self, one: str, other: str) -> None:
        """Let two branches change places.

        Parameters
        ----------
        one, other : str
            Their labels.
        """
        self._change(self._choice.swapped(one, other))

    def hide_equal(self, hides: bool = True) -> None:
        """Hide rows of messages and numbers that are the same in all, or show them again.

        Parameters
        ----------
        hides : bool
            Whether they are hidden.
        """
        self._change(replace(self._choice, hides_equal=hides))

    def fold(self, is_folded: bool = True) -> None:
        """Fold the common part, or open it.

        Parameters
        ----------
        is_folded : bool
            Whether it is folded.
        """
        self._change(replace(self._choice, is_folded=is_folded))

    def freeze(self) -> None:
        """Leave in the notebook what is shown, as HTML that needs no kernel, and take the widgets away."""
        with self._lock:
            if self._is_frozen:
                return
            self._is_frozen = True
            for output in self._outputs:
                output.update(self._static())
            for widget in (self._root, *_inner(self._root), self._narrow, self._wide, self._line):
                widget.close()

    def _change(self, choice: ComparisonChoice) -> None:
        with self._lock:
            self._choice = choice
            if not self._is_frozen:
                self._draw()

    def _build(self) -> None:
        self._narrow = ipywidgets.Layout(width="auto", margin="0 .8em 0 0")
        self._wide = ipywidgets.Layout(width="auto", margin="0")
        self._line = ipywidgets.Layout(flex_flow="row wrap", align_items="center", width="100%")
        self._boxes = {
            name: ipywidgets.Checkbox(
                value=True, description=name, indent=False, layout=self._narrow, tooltip=f"Show {name}"
            )
            for name in self._all.labels
        }
        self._one, self._other = (
            ipywidgets.Dropdown(
                options=self._all.labels, index=place, layout=self._narrow, tooltip="Branch to be swapped"
            )
            for place in (0, 1)
        )
        self._hide = ipywidgets.Checkbox(
            description="Hide what is equal", indent=False, layout=self._narrow,
            tooltip="Hide rows and numbers that are the same in all branches",
        )  # fmt: skip
        self._fold = ipywidgets.Checkbox(
            value=True, description="Fold common part", indent=False, layout=self._narrow,
            tooltip="Fold the messages that all branches begin with",
        )  # fmt: skip
        swap = self._button("Swap", "Let these two branches change places", self._swap_clicked)
        keep = self._button(
            "Keep in notebook", "Put plain HTML of what is shown in the place of this widget", self.freeze
        )
        for box in (*self._boxes.values(), self._hide, self._fold):
            box.observe(self._guarded(self._boxes_changed), names="value")
        self._said = ipywidgets.HTML(layout=self._wide)
        self._shown = ipywidgets.HTMLMath(layout=self._wide)
        rows = [
            [*self._boxes.values()],
            [self._one, self._other, swap, self._hide, self._fold, keep],
        ]
        lines = [ipywidgets.HBox(row, layout=self._line) for row in rows]
        self._root = ipywidgets.VBox([*lines, self._said, self._shown], layout=self._wide)

    def _button(self, name: str, tooltip: str, action: Callable[[], None]) -> ipywidgets.Button:
        button = ipywidgets.Button(description=name, tooltip=tooltip, layout=self._narrow)
        button.on_click(self._guarded(action))
        return button

    def _guarded(self, action: Callable[[], None]) -> Callable[[object], None]:
        def call(_told: object) -> None:
            with self._lock:
                if self._is_setting or self._is_frozen:
                    return
                try:
                    self._said.value = ""
                    action()
                except Exception as error:  # noqa: BLE001 - whatever it is, it is to be seen
                    self._complain(error)

        return call

    def _complain(self, error: Exception) -> None:
        said = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        self._said.value = str(page(notice(one_line(said, 500), kind="error"), kind="comparison"))

    def _swap_clicked(self) -> None:
        if self._one.value == self._other.value:
            raise InputError("choose two different branches to be swapped")
        self.swap(self._one.value, self._other.value)

    def _boxes_changed(self) -> None:
        picked = frozenset(name for name, box in self._boxes.items() if box.value)
        if len(picked) < 2:  # noqa: PLR2004 - one alone has nothing to be compared with
            raise InputError("two branches at least can be compared: what is shown is the choice before")
        self._change(replace(self._choice, picked=picked, hides_equal=self._hide.value, is_folded=self._fold.value))

    def _draw(self) -> None:
        choice = self._choice
        self._is_setting = True
        try:
            for name, box in self._boxes.items():
                box.value = name in choice.picked
            self._hide.value, self._fold.value = choice.hides_equal, choice.is_folded
        finally:
            self._is_setting = False
        self._shown.value = self._html()

    def _html(self) -> str:
        choice = self._choice
        return str(comparison_page(self.comparison, is_open=not choice.is_folded, hides_equal=choice.hides_equal))

    def _static(self) -> dict[str, Any]:
        return {"text/html": self._html(), "text/plain": comparison_text(self.comparison)}

    def __repr__(self) -> str:
        return f"<ComparisonWidget of {', '.join(self._choice.shown)}>"

    def _ipython_display_(self) -> None:
        """Show the widget in the cell; where nobody can click, what it shows."""
        if not has_kernel():
            raise NotImplementedError
        with self._lock:
            output = CellOutput()
            if self._is_frozen or not is_interactive():
                output.begin(self._static())
                return
            output.begin({**self._root._repr_mimebundle_(), **self._static()})
            self._outputs.append(output)

    def _repr_mimebundle_(self, **_wishes: Any) -> dict[str, Any]:
        return self._static()


def _inner(widget: ipywidgets.Widget) -> Sequence[ipywidgets.Widget]:
    """Return all that stands in a widget, with their styles."""
    found = []
    for child in getattr(widget, "children", ()):
        found += [child, *_inner(child)]
        if isinstance(getattr(child, "style", None), ipywidgets.Widget):
            found.append(child.style)
    return found
