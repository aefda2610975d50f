"""An explorer in a cell: draws its branches with core widgets, and turns clicks into calls of its methods.

Callbacks come on whatever thread, and what they raise or print is seen by nobody. So each is wrapped: its error is
shown in the view, and then everything is drawn as it is now. Nothing here decides what may be done; the explorer does,
and says why it refuses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets

from cyclops_nb.display.branch_comparison import BranchComparison
from cyclops_nb.display.branch_list import branch_lines
from cyclops_nb.display.branch_set import titled
from cyclops_nb.display.explorer_page import code_block, usage_pages
from cyclops_nb.display.followed_run import FollowedRun
from cyclops_nb.display.html import head, notice
from cyclops_nb.display.inline_question import InlineQuestion
from cyclops_nb.display.looks import Looks
from cyclops_nb.display.message_rows import Action, MessageRow, MessageRows
from cyclops_nb.display.transcript import run_ends, session_facts
from cyclops_nb.display.units import units
from cyclops_nb.handle import RunHandle
from cyclops_nb.messages import UserMessage
from cyclops_nb.render.escape import label, root
from cyclops_nb.render.words import error_words

if TYPE_CHECKING:
    from cyclops_nb.display.explorer import Explorer

__all__ = ["ExplorerView"]

_FEWEST, _MOST = 2, 10
"""Branches that are seen without scrolling."""
_COMPARE, _USAGE = 1, 2


class ExplorerView:
    """The widgets of an explorer in one cell.

    Parameters
    ----------
    explorer : Explorer
        What is shown.
    keep : callable
        Called to leave plain HTML in place of the widgets.
    """

    def __init__(self, explorer: Explorer, keep: Callable[[], None]) -> None:
        self._explorer = explorer
        self._branches = explorer.branches
        self._looks = Looks("transcript", "comparison", "live")
        self._lock = threading.RLock()
        self._drawn_by = 0
        """The thread that draws: changes that it makes are nobody's wish."""
        self._is_closed = False
        self._question: InlineQuestion | None = None
        self._asked_at: MessageRow | None = None
        self._problem = ""
        self._followed: dict[str, FollowedRun] = {}
        """The runs that are shown while they go on, by their ids."""
        self._shown_branch = ""
        looks = self._looks
        self._head, self._status, self._code, self._usage = (looks.html() for _ in range(4))
        self._rows = MessageRows(self._act, self._guarded(self._show_earlier), looks)
        self._live = ipywidgets.VBox([], layout=looks.wide)
        self._input = ipywidgets.Textarea(
            placeholder="Ask something in this branch", rows=3, layout=looks.wide, continuous_update=False
        )
        self._tree = ipywidgets.Select(options=[], rows=_FEWEST, layout=looks.wide)
        self._tree.observe(self._picked, "value")
        self._compared = BranchComparison(looks, self._branches, self._compare)
        self._place = ipywidgets.VBox([], layout=looks.wide)
        """Of questions about the whole branch."""
        self._tab = ipywidgets.Tab([], layout=looks.wide)
        self._root = self._arranged(keep)
        self.draw()

    def _button(self, words: str, tooltip: str, function: Callable[[], None]) -> ipywidgets.Button:
        button = self._looks.button(words, tooltip)
        button.on_click(self._guarded(function))
        return button

    def _arranged(self, keep: Callable[[], None]) -> ipywidgets.Widget:
        looks = self._looks
        self._send = self._button("Send", "Ask this in the current branch", self._sent)
        rename = self._button("Rename", "Give the current branch another title", self._ask_for_title)
        delete = self._button("Delete", "Delete the current branch; asks first", self._ask_for_delete)
        kept = self._button(
            "Keep in notebook", "Leave this as plain HTML, which needs no kernel, in the notebook", keep
        )
        refresh = self._button(
            "Refresh", "Show what other cells and other programs have changed", self._explorer.refresh
        )
        talk = ipywidgets.VBox(
            [
                self._rows.box,
                self._live,
                self._input,
                ipywidgets.HBox([self._send, refresh, kept], layout=looks.bar),
                self._code,
            ],
            layout=looks.wide,
        )
        self._tab.children = (talk, self._compared.box, self._usage)
        self._tab.titles = ("Conversation", "Compare", "Usage")
        self._tab.observe(lambda _: self.draw(), "selected_index")
        bar = ipywidgets.HBox([rename, delete], layout=looks.bar)
        self._own = [*talk.children, talk, bar, rename, delete, refresh, kept, self._send]
        parts = [looks.sheet, self._tree, bar, self._place, self._head, self._status, self._tab]
        return ipywidgets.VBox(parts, layout=ipywidgets.Layout(margin="0", max_width="66em", width="auto"))

    def mimebundle(self) -> dict[str, Any]:
        """Return what a front end needs to show this."""
        return dict(self._root._repr_mimebundle_())

    # what is clicked

    def _guarded(self, function: Callable[[], object]) -> Callable[..., None]:
        """Return a callback that shows what goes wrong in it, and how things are afterwards."""

        def called(*_: object) -> None:
            if self._is_closed:
                return
            try:
                self._problem = ""
                function()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is to be seen
                self._problem = error_words(type(error).__name__, str(error))
            self.draw()

        return called

    def _picked(self, change: Any) -> None:
        if self._drawn_by != threading.get_ident() and change["new"] is not None:
            self._guarded(lambda: self._explorer.switch(change["new"]))()

    def _compare(self, names: Sequence[str]) -> None:
        self._guarded(lambda: [self._explorer.load(name) for name in names])()

    def _sent(self) -> None:
        text = self._input.value
        if not text.strip():
            self._problem = "there is nothing to ask yet: type a question first"
            return
        self._explorer.send(text)
        self._input.value = ""

    def _show_earlier(self) -> None:
        self._rows.more()

    def _act(self, action: Action, row: MessageRow) -> None:
        """Do, or ask about, what a button of a message says."""
        unit = row.unit
        if unit is None:
            return
        explorer = self._explorer
        match action:
            case "fork":
                self._guarded(lambda: explorer.fork(unit.last))()
            case "retry":
                self._guarded(lambda: explorer.retry(unit.index))()
            case "truncate":
                self._guarded(lambda: self._ask_for_cut(row, unit.index))()
            case "edit":
                self._guarded(lambda: self._ask_for_text(row, unit.index))()

    def _ask_for_cut(self, row: MessageRow, index: int) -> None:
        explorer, session = self._explorer, self._branches.current
        count = len(explorer.session.messages) - index
        words = (
            f"Cut message [{index}] and all below it ({count} in all)? "
            "They stay in a branch of their own, unless you discard them."
        )
        answers = {
            "Truncate": lambda _: self._of(session).truncate(index),
            "Truncate and discard": lambda _: self._of(session).truncate(index, keep=False),
        }
        self._ask(words, answers, row)

    def _ask_for_text(self, row: MessageRow, index: int) -> None:
        explorer, session = self._explorer, self._branches.current
        message = explorer.session.messages[index]
        asks = isinstance(message, UserMessage) and explorer.agent is not None
        answers = {"Save and ask" if asks else "Save": lambda text: self._of(session).edit(index, text)}
        self._ask(f"Message [{index}] in a new branch:", answers, row, text=message.text, is_long=True)

    def _ask_for_title(self) -> None:
        session = self._branches.current
        title = self._explorer.session.title or ""
        answers = {"Save": lambda text: self._explorer.rename(text, session)}
        self._ask("Title of this branch:", answers, text=title)

    def _ask_for_delete(self) -> None:
        session = self._branches.current
        store = "" if self._explorer.store is None else ", also from the store"
        words = f"Delete {titled(self._explorer.session)!r}{store}?"
        self._ask(words, {"Delete branch": lambda _: self._explorer.delete(session)})

    def _of(self, session: str) -> Explorer:
        """Return the explorer at the branch that was asked about."""
        if self._branches.current != session:
            self._explorer.switch(session)
        return self._explorer

    def _ask(
        self, words: str, answers: Mapping[str, Callable[[str], object]], row: MessageRow | None = None, **text: Any
    ) -> None:
        self._drop_question()

        def answered(answer: Callable[[str], object]) -> Callable[[str], None]:
            def called(given: str) -> None:
                answer(given)
                self._drop_question()

            return lambda given: self._guarded(lambda: called(given))()

        buttons = {name: answered(answer) for name, answer in answers.items()}
        buttons["Cancel"] = answered(lambda _: None)
        self._question = InlineQuestion(words, buttons, self._looks, **text)
        self._asked_at = row
        if row is None:
            self._place.children = (self._question.box,)
        else:
            row.ask(self._question.box)

    def _drop_question(self) -> None:
        if self._asked_at is not None:
            self._asked_at.ask(None)
        self._place.children = ()
        if self._question is not None:
            self._question.close()
        self._question = self._asked_at = None

    # what is drawn

    def draw(self) -> None:
        """Bring the widgets up to date; called from any thread."""
        with self._explorer.lock, self._lock:
            if self._is_closed or self._drawn_by:
                return
            self._drawn_by = threading.get_ident()
            try:
                self._draw()
            except Exception as error:  # noqa: BLE001 - whoever has changed something must not suffer from its picture
                said = f"this cannot be drawn: {error_words(type(error).__name__, str(error))}"
                self._status.value = str(root(notice(said, kind="error")))
            finally:
                self._drawn_by = 0

    def _draw(self) -> None:
        branches, session = self._branches, self._branches.session
        if self._shown_branch != session.id:
            self._drop_question()
            self._rows.reset()
            self._keep_draft(session.id)
        run = self._explorer.run
        messages = list(session.messages)
        runs = list(session.runs)
        start = len(messages)
        if run is not None:
            start = max(min(run.start, start), 0)
            runs = [each for each in runs if each.id != run.id]
        self._head.value = str(root(head(label(titled(session)), session_facts(session)), kind="cy-session"))
        busy = "" if run is not None or not session.busy else "a run goes on in this branch that was begun elsewhere"
        said = [notice(self._problem, kind="error")] if self._problem else []
        said += [notice(busy, kind="info")] if busy else []
        self._status.value = str(root(*said)) if said else ""
        self._rows.show(units(messages[:start]), run_ends(runs, messages[:start]), branches.actions)
        self._draw_live(run)
        self._send.disabled = session.busy
        self._code.value = str(root(code_block(self._explorer.code)))
        lines = branch_lines(branches)
        options = [(str(line), line.id) for line in lines]
        if self._tree.options != tuple(options):
            self._tree.options = options
            self._tree.rows = min(max(len(options), _FEWEST), _MOST)
        self._tree.value = branches.current
        tab = self._tab.selected_index
        self._usage.value = str(usage_pages(branches)) if tab == _USAGE else ""
        self._compared.show(lines, is_seen=tab == _COMPARE)

    def _keep_draft(self, session_id: str) -> None:
        """Keep what was typed and not sent with its branch."""
        old = self._branches.entries.get(self._shown_branch)
        if old is not None:
            old.draft = self._input.value
        self._shown_branch = session_id
        self._input.value = self._branches.entry.draft

    def _draw_live(self, run: RunHandle | None) -> None:
        """Show the run of the current branch while it goes on."""
        if run is not None and run.id not in self._followed:
            name = run.id
            self._followed[name] = FollowedRun(run, lambda: self._run_ended(name))
        children = () if run is None else (self._followed[run.id].box,)
        if self._live.children != children:
            self._live.children = children

    def _run_ended(self, name: str) -> None:
        self.draw()
        with self._explorer.lock, self._lock:
            run = self._followed.pop(name, None)
        if run is not None:
            run.close()

    def close(self) -> None:
        """Remove all widgets, here and in the front end."""
        with self._explorer.lock, self._lock:
            self._is_closed = True
            self._drop_question()
            looks = self._looks
            parts = [self._head, self._status, self._code, self._usage, self._live, self._input, self._input.style]
            parts += [self._tree, self._tree.style, self._place, self._tab, self._root, self._root.layout]
            parts += [*self._own, *self._rows.widgets(), *self._compared.widgets(), *looks.widgets()]
            for widget in parts:
                widget.close()
