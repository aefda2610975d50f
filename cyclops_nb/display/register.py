"""One place that knows how each type of this library looks.

The types themselves know nothing of screens: `cyclops_nb.displayable` asks `mimebundle`, and what that returns is what
every front end gets. Displaying never fails: where something cannot be drawn, its `repr` is shown and the reason said,
because an exception out of a repr hides the very thing that one wanted to look at.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, NamedTuple

from markupsafe import Markup

from cyclops_nb.display.branches import Comparison
from cyclops_nb.display.comparison import comparison_page, comparison_text
from cyclops_nb.display.conversation import message_page
from cyclops_nb.display.family_tree import SessionTree
from cyclops_nb.display.html import notice, page
from cyclops_nb.display.infos import found_page, found_text, info_page, info_text, infos_page, infos_text
from cyclops_nb.display.plain import message_text, run_text, session_text, shortened, usage_text
from cyclops_nb.display.responses import answer_page, handle_page, handle_text, response_page, response_text
from cyclops_nb.display.transcript import session_page
from cyclops_nb.display.tree_picture import tree_page, tree_text
from cyclops_nb.display.usage_sums import usage_sums_page, usage_sums_text
from cyclops_nb.display.usage_table import run_page, usage_page
from cyclops_nb.frames.usage import UsageTable
from cyclops_nb.handle import RunHandle
from cyclops_nb.interop.run_record import MEDIA_TYPE, run_record
from cyclops_nb.interop.working_notebook import FoundSessions
from cyclops_nb.messages import AssistantMessage, SummaryMessage, ToolMessage, UserMessage
from cyclops_nb.render.escape import text_block
from cyclops_nb.response import AgentResponse, Answer
from cyclops_nb.runs import Run
from cyclops_nb.session import Session
from cyclops_nb.stores.base import SessionInfo, SessionInfos
from cyclops_nb.usage import Usage

__all__ = ["View", "mimebundle", "register", "view"]

_REPR_LIMIT = 10_000


class View(NamedTuple):
    """How something looks."""

    html: Markup
    text: str


@singledispatch
def view(value: Any) -> View:
    """Return how `value` looks; types are added with `register`."""
    text = repr(value)
    return View(page(text_block(text, _REPR_LIMIT), kind="repr"), shortened(text, _REPR_LIMIT))


def register(kind: type, html: Callable[[Any], Markup], text: Callable[[Any], str]) -> None:
    """Say how values of a type look.

    Parameters
    ----------
    kind : type
        The type; its subclasses look the same.
    html, text : callable
        Make the HTML and the plain text of a value.
    """
    view.register(kind)(lambda value: View(html(value), text(value)))


def mimebundle(value: object) -> dict[str, Any]:
    """Return how `value` looks in a notebook.

    Parameters
    ----------
    value : object
        Anything; types of this library have a look of their own.

    Returns
    -------
    dict
        ``text/html`` and ``text/plain``; of what came of a run also its record, from which `sessions_in_notebook`
        puts the session together.

    Examples
    --------
    >>> mimebundle(Usage(1, 10, 5))["text/plain"]
    '1 request: 10 tokens in, 5 out, 15 in all'
    """
    try:
        shown = view(value)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not hide the value
        shown = _fallback(value, error)
    return {**_record(value), "text/html": str(shown.html), "text/plain": shown.text}


def _record(value: object) -> dict[str, Any]:
    response = value.response if isinstance(value, Answer | RunHandle) else value
    if not isinstance(response, AgentResponse):
        return {}
    try:
        return {MEDIA_TYPE: run_record(response).model_dump(mode="json")}
    except Exception:  # noqa: BLE001 - whatever it is, it must not hide the value
        return {}


def _fallback(value: object, error: Exception) -> View:
    said = (
        f"this {type(value).__name__} cannot be drawn ({type(error).__name__}: {_safely(str, error)[:500]}); its repr:"
    )
    text = _safely(repr, value)
    html = page(notice(said), text_block(text, _REPR_LIMIT), kind="repr")
    return View(html, f"{shortened(said, 1_000)}\n{shortened(text, _REPR_LIMIT)}")


def _safely(words: Callable[[object], str], value: object) -> str:
    try:
        return words(value)
    except Exception as error:  # noqa: BLE001 - a repr may fail in any way
        return f"<{type(value).__name__}, whose {words.__name__} raises {type(error).__name__}>"


register(Session, session_page, session_text)
for _kind in (UserMessage, AssistantMessage, ToolMessage, SummaryMessage):
    register(_kind, message_page, message_text)
register(Run, run_page, run_text)
register(Usage, usage_page, usage_text)
register(SessionInfo, info_page, info_text)
register(SessionInfos, infos_page, infos_text)
register(FoundSessions, found_page, found_text)
register(RunHandle, handle_page, handle_text)
register(AgentResponse, response_page, response_text)
register(Answer, answer_page, str)
register(Comparison, comparison_page, comparison_text)
register(SessionTree, tree_page, tree_text)
register(UsageTable, usage_sums_page, usage_sums_text)
