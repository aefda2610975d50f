"""What a run hands back, as HTML and as plain text.

A response shows the messages that the run added, under the indices that they have in their session, and what the
session does not hold: the error, and the text of a completion that was cut off.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping

from markupsafe import Markup
from pydantic_core import to_jsonable_python

from cyclops_nb.display.conversation import STYLES, conversation
from cyclops_nb.display.html import facts, head, notice, page
from cyclops_nb.display.plain import conversation_text, run_remarks, shortened
from cyclops_nb.display.transcript import run_notices
from cyclops_nb.display.usage_table import cost_words, ending
from cyclops_nb.handle import RunHandle
from cyclops_nb.render.escape import fragment, json_block, label
from cyclops_nb.render.markdown import to_html
from cyclops_nb.render.text import one_line, visible
from cyclops_nb.render.words import count, error_words, index_range, seconds, spent, tokens
from cyclops_nb.response import AgentResponse, Answer

__all__ = ["answer_page", "handle_page", "handle_text", "response_page", "response_text", "start_of"]


def answer_page(answer: Answer) -> Markup:
    """Return the text of an answer as HTML made of its Markdown."""
    return page(to_html(str(answer)), kind="answer")


def start_of(response: AgentResponse) -> int:
    """Return the index that the first message of a response has in its session, or 0 if it is not there any more."""
    if not response.messages:
        return 0
    first = response.messages[0].id
    places = [index for index, message in enumerate(response.session.messages) if message.id == first]
    return places[-1] if places else 0


def response_page(response: AgentResponse, after: Mapping[int, Markup] | None = None) -> Markup:
    """Return a response as HTML: facts, the new messages, and how the run ended.

    Parameters
    ----------
    response : AgentResponse
        The response.
    after : mapping, optional
        What stands after one of its messages, by the place of that among them.

    Returns
    -------
    Markup
        A whole output.
    """
    run, start = response.run, start_of(response)
    *told, cost = _facts(response)
    partial = ""
    if response.partial:
        said = "the text below was cut off and stands in no transcript"
        partial = fragment(
            '<div class="cy-partial" style="border:1px dashed #888;padding:.3em .6em">{}{}</div>',
            notice(said, kind="info"),
            to_html(response.partial),
        )
    return page(
        head(
            fragment("Response of {}", label(response.model)),
            facts([*told, fragment("<b>{}</b>", cost)]),
            _place(response, start),
        ),
        conversation(response.messages, start=start, after={start + place: it for place, it in (after or {}).items()}),
        partial,
        *run_notices(None, run, is_running=response.session.busy),
        _error_notice(response),
        _output(response),
        kind="response",
        styles=STYLES,
    )


def _facts(response: AgentResponse) -> list[str]:
    complete = response.run.usage_complete
    usage, cost = spent(response.usage, response.cost, complete=complete)
    return [
        ending(response.run),
        count(response.steps, "step"),
        "" if response.duration is None else seconds(response.duration),
        tokens(usage, complete=complete),
        cost_words(cost, complete=complete),
    ]


def _place(response: AgentResponse, start: int) -> Markup | str:
    if not response.messages:
        return ""
    span = index_range(start, start + len(response.messages) - 1)
    return fragment("messages {} of session <code>{}</code>", span, label(response.session.id))


def _error_of_its_own(response: AgentResponse) -> tuple[str, str]:
    """Return what is said of an exception that the record of the run does not have: how bad it is, and the words."""
    error = response.error
    if error is None or response.run.error is not None:
        return "", ""
    if isinstance(error, CancelledError):
        return "info", error_words("Cancelled", str(error))
    return "error", error_words(type(error).__name__, str(error))


def _error_notice(response: AgentResponse) -> Markup | str:
    kind, said = _error_of_its_own(response)
    # a notice above says already that the run was cancelled
    return notice(said, kind=kind) if said and not (said == "Cancelled" and response.run.stop_reason) else ""


def _output(response: AgentResponse) -> Markup | str:
    if response.output is None or isinstance(response.output, str):
        return ""
    name = type(response.output).__name__
    try:
        data = to_jsonable_python(response.output, fallback=repr)
    except ValueError:  # text that cannot be encoded, and what refers to itself
        data = repr(response.output)
    return fragment('<div class="cy-label">output: {}</div>{}', label(name), json_block(data))


def handle_page(handle: RunHandle) -> Markup:
    """Return a run in the background as HTML: what came of it, or that it goes on."""
    if handle.response is not None:
        return response_page(handle.response)
    return page(notice(fragment("run <code>{}</code> goes on right now", label(handle.id)), kind="info"), kind="handle")


def handle_text(handle: RunHandle) -> str:
    """Return a run in the background in words."""
    return f"run {handle.id} goes on right now" if handle.response is None else response_text(handle.response)


def response_text(response: AgentResponse) -> str:
    """Return a response in words."""
    run = response.run
    lines = [f"Response of {one_line(response.model)}: " + ", ".join(fact for fact in _facts(response) if fact)]
    if response.messages:
        start = start_of(response)
        span = index_range(start, start + len(response.messages) - 1)
        lines.append(f"messages {span} of session {one_line(response.session.id)}")
        lines.append(conversation_text(response.messages, start))
    if response.partial:
        lines.append(f"(cut off, in no transcript) {shortened(response.partial, 4_000)}")
    lines += run_remarks(run)
    kind, said = _error_of_its_own(response)
    if said:
        lines.append(f"    Error: {said}" if kind == "error" else f"    {said}")
    if response.output is not None and not isinstance(response.output, str):
        lines.append(f"output: {visible(repr(response.output)[:4_000])}")
    return "\n".join(lines)
