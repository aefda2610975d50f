"""A question inside a widget: some words, perhaps a text to be changed, and a button for each answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import ipywidgets

from cyclops_nb.display.looks import Looks
from cyclops_nb.render.escape import fragment, root

__all__ = ["InlineQuestion"]


class InlineQuestion:
    """Something that is asked where it belongs.

    Parameters
    ----------
    words : str
        What is asked.
    answers : mapping of str to callable
        What each button does, by what stands on it; called with the text.
    looks : Looks
        What widgets have in common.
    text : str, optional
        A text to be changed; none for a question that is answered by a button alone.
    is_long : bool
        Whether the text may have several lines.
    """

    def __init__(
        self,
        words: str,
        answers: Mapping[str, Callable[[str], None]],
        looks: Looks,
        *,
        text: str | None = None,
        is_long: bool = False,
    ) -> None:
        asked = looks.html(root(fragment('<div role="status">{}</div>', words), kind="cy-question"))
        self._text: ipywidgets.Widget | None = None
        if text is not None:
            kind = ipywidgets.Textarea if is_long else ipywidgets.Text
            rows = {"rows": min(max(text.count("\n") + len(text) // 80 + 1, 2), 12)} if is_long else {}
            self._text = kind(value=text, layout=looks.wide, continuous_update=False, **rows)
        buttons = [looks.button(name, name) for name in answers]
        for button, answer in zip(buttons, answers.values(), strict=True):
            button.on_click(lambda _, answer=answer: answer(self.text))
        bar = ipywidgets.HBox(buttons, layout=looks.bar)
        self.box = ipywidgets.VBox([asked, *([self._text] if self._text else []), bar], layout=looks.wide)
        self._widgets = [asked, *buttons, bar, self.box, *([self._text, self._text.style] if self._text else [])]

    @property
    def text(self) -> str:
        """The text as it is now; empty without one."""
        return "" if self._text is None else str(self._text.value)

    def close(self) -> None:
        """Remove it."""
        for widget in self._widgets:
            widget.close()
