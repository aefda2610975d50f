"""What a run hands back, as HTML and as plain text.

A response shows the messages that the run added, under the indices that they have in their session, and what the
session does not hold: the error, and the text of a completion that was cut off.
"""

from __future__ import annotations

from markupsafe import Markup
from pydantic_core import to_jsonable_python

from cyclops_nb.display.conversation import STYLES, conversation
from cyclops_nb.display.html import facts, head, notice, page
from cyclops_nb.display.plain import conversation_text, run_remarks, shortened
from cyclops_nb.display.transcript import run_notices
from cyclops_nb.display.usage_table import cost_words, ending
from cyclops_nb.display.words import count, index_range, seconds, tokens
from cyclops_nb.render.escape import fragment, json_block, label
from cyclops_nb.render.markdown import to_html
from cyclops_nb.render.text import one_line, visible
from cyclops_nb.response import AgentResponse, Answer

__all__ = ["answer_page", "response_page", "response_text", "start_of"]


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


def response_page(response: AgentResponse) -> Markup:
    """Return a response as HTML: facts, the new messages, and how the run ended."""
    run, start = response.run, start_of(response)
    partial = ""
    if response.partial:
        said = "the text below was cut off and stands in no transcript"
        partial = fragment('<div class="cy-partial">{}{}</div>', notice(said, kind="info"), to_html(response.partial))
    return page(
        head(
            fragment("Response of {}", label(response.model)),
            facts(
                [
                    ending(run),
                    count(response.steps, "step"),
                    "" if response.duration is None else seconds(response.duration),
                    tokens(response.usage, complete=run.usage_complete),
                    cost_words(response.cost, complete=run.usage_complete),
                ]
            ),
            _place(response, start),
        ),
        conversation(response.messages, start=start),
        partial,
        *run_notices(None, run, is_running=response.session.busy),
        _error_of_its_own(response),
        _output(response),
        kind="response",
        styles=STYLES,
    )


def _place(response: AgentResponse, start: int) -> Markup | str:
    if not response.messages:
        return ""
    span = index_range(start, start + len(response.messages) - 1)
    return fragment("messages {} of session <code>{}</code>", span, label(response.session.id))


def _error_of_its_own(response: AgentResponse) -> Markup | str:
    if response.error is None or response.run.error is not None:
        return ""
    return notice(fragment("{}: {}", type(response.error).__name__, one_line(str(response.error), 500)), kind="error")


def _output(response: AgentResponse) -> Markup | str:
    if response.output is None or isinstance(response.output, str):
        return ""
    name = type(response.output).__name__
    try:
        data = to_jsonable_python(response.output, fallback=repr)
    except ValueError:  # text that cannot be encoded, and what refers to itself
        data = repr(response.output)
    return fragment('<div class="cy-label">output: {}</div>{}', label(name), json_block(data))


def response_text(response: AgentResponse) -> str:
    """Return a response in words."""
    run = response.run
    said = [
        ending(run),
        count(response.steps, "step"),
        "" if response.duration is None else seconds(response.duration),
        tokens(response.usage, complete=run.usage_complete),
        cost_words(response.cost, complete=run.usage_complete),
    ]
    lines = [f"Response of {one_line(response.model)}: " + ", ".join(fact for fact in said if fact)]
    if response.messages:
        lines.append(conversation_text(response.messages, start_of(response)))
    if response.partial:
        lines.append(f"(cut off, in no transcript) {shortened(response.partial, 4_000)}")
    lines += run_remarks(run)
    if response.error is not None and run.error is None:
        lines.append(f"    Error: {type(response.error).__name__}: {one_line(str(response.error), 500)}")
    if response.output is not None and not isinstance(response.output, str):
        lines.append(f"output: {visible(repr(response.output)[:4_000])}")
    return "\n".join(lines)
