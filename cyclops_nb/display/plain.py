"""Sessions, messages and runs as plain text, for terminals and for readers of a saved notebook without HTML.

The same facts in the same order as in HTML. Control characters are shown by name, since a terminal would obey them,
and so would a notebook's plain text output.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cyclops_nb.display.parts import PART_LIMIT, about, arguments_line, file_line
from cyclops_nb.display.settings import settings_text
from cyclops_nb.display.units import split, units
from cyclops_nb.display.usage_table import cost_words, ending, model_names, run_spans
from cyclops_nb.messages import FilePart, ImagePart, Message, Part, ReasoningPart, TextPart, ToolCall, ToolMessage
from cyclops_nb.render.text import cut, json_text, left_out, one_line, visible
from cyclops_nb.render.words import (
    count,
    error_words,
    index_range,
    moment,
    money,
    number,
    seconds,
    short_id,
    speaker,
    spent,
    tokens,
)
from cyclops_nb.runs import Run
from cyclops_nb.session import Session
from cyclops_nb.transcript import find_problems
from cyclops_nb.usage import Usage

__all__ = ["conversation_text", "message_text", "run_remarks", "run_text", "session_text", "shortened", "usage_text"]

_TEXT = 4_000
_BLOCK = 1_000
_RUNS = 20
_ALL = 100_000
"""Characters of a conversation, however many parts its messages have."""


def shortened(text: str, limit: int) -> str:
    """Return `text` fit for a terminal, its middle cut out when it is long."""
    begin, omitted, end = cut(text, limit)
    return visible(f"{begin}\n{left_out(omitted)}\n{end}" if omitted else begin)


def _indented(text: str) -> str:
    return re.sub(r"\n(?=[^\n])", "\n    ", text)


def message_text(message: Message, index: int | None = None) -> str:
    """Return a message in words.

    Parameters
    ----------
    message : message
        Any message.
    index : int, optional
        Where it stands in its transcript.

    Returns
    -------
    str
        ``[index] role (what is known about it): text``, further lines indented.

    Examples
    --------
    >>> from cyclops_nb.messages import UserMessage
    >>> message_text(UserMessage("Hello"), 0)
    '[0] user: Hello'
    """
    number_of_it = "" if index is None else f"[{index}] "
    told = ", ".join(text for text, _ in about(message))
    limit = _BLOCK if isinstance(message, ToolMessage) else _TEXT
    said = [_part(part, limit) for part in message.content[:PART_LIMIT]]
    if len(message.content) > PART_LIMIT:
        said.append(f"… {count(len(message.content) - PART_LIMIT, 'more part')}")
    who = f"{speaker(message)} ({told})" if told else speaker(message)
    text = "\n".join(said).rstrip() if said else "(empty)"
    return _indented(f"{number_of_it}{who}: " + shortened(text, _ALL))


def _part(part: Part, limit: int) -> str:
    match part:
        case TextPart():
            return shortened(part.text, limit)
        case ReasoningPart():
            return f"(reasoning) {shortened(part.text, _BLOCK)}" if part.text.strip() else "(reasoning, not shown)"
        case ToolCall():
            return f"→ {one_line(part.name)}({arguments_line(part.arguments)})"
        case ImagePart():
            return f"(image {one_line(part.media_type or '' if part.url is None else part.url, 80)})"
        case FilePart():
            return f"(file {file_line(part)})"


def conversation_text(messages: Sequence[Message], start: int = 0, *, marks: Mapping[int, str] | None = None) -> str:
    """Return messages one below the other, the middle of a long conversation as a number.

    Parameters
    ----------
    messages : sequence of messages
        A transcript, or a part of one.
    start : int
        The index of the first of them.
    marks : mapping, optional
        Lines that stand before the message with an index.

    Returns
    -------
    str
        Lines, without a line end after the last.
    """
    choice = split(units(messages, start))
    first_left, first_back = (choice.middle[0].index, choice.tail[0].index) if choice.middle else (0, 0)
    lines: list[str] = []
    for index, message in enumerate(messages, start):
        if marks and index in marks:
            lines.append(marks[index])
        if index == first_left < first_back:
            left = count(first_back - first_left, "message")
            lines.append(f"… {left} not shown here: session.messages[{first_left}:{first_back}] …")
        if not first_left <= index < first_back:
            lines.append(message_text(message, index))
    end = start + len(messages)
    return shortened("\n".join([*lines, *(line for index, line in (marks or {}).items() if index >= end)]), _ALL)


def session_text(session: Session) -> str:
    """Return a session in words: its head, its messages, its runs."""
    messages, runs = list(session.messages), list(session.runs)
    parts = [_head(session, runs)]
    if problems := find_problems(messages):
        first = problems[0]
        parts.append(
            f"Warning: this transcript is invalid at [{first.index}]: {one_line(first.text, 200)}. "
            "session.repair() mends it."
        )
    marks = {}
    if session.parent is not None:
        marks[session.parent.message_count] = f"--- forked here from {short_id(session.parent.session_id)} ---"
    parts.append(conversation_text(messages, marks=marks) if messages or marks else "(no messages yet)")
    if runs:
        shown, spans = list(enumerate(runs))[-_RUNS:], run_spans(messages)
        lines = [
            "Runs:" if len(shown) == len(runs) else f"Runs ({count(len(runs) - len(shown), 'earlier one')} not shown):"
        ]
        lines += [
            _run_line(index, run, spans.get(run.id), inherited=run.session_id != session.id) for index, run in shown
        ]
        parts.append("\n".join(lines))
    parts.append(settings_text(session))
    if session.metadata:
        parts.append(f"Metadata: {one_line(json_text(dict(session.metadata)), _BLOCK)}")
    return "\n\n".join(part for part in parts if part)


def _head(session: Session, runs: Sequence[Run]) -> str:
    named = (
        f"{one_line(session.title)} (session {one_line(session.id)})"
        if session.title
        else f"Session {one_line(session.id)}"
    )
    complete = all(run.usage_complete for run in runs)
    facts = [count(len(session.messages), "message"), count(len(runs), "run"), *model_names(session)]
    if runs:
        usage, cost = spent(session.usage, session.cost, complete=complete)
        facts += [tokens(usage, complete=complete), cost_words(cost, complete=complete)]
    if session.busy:
        facts.append("in a run now")
    lines = [named, ", ".join(facts)]
    if session.parent is not None:
        shared = session.parent.message_count
        where = f"after message [{shared - 1}]" if shared else "before the first message"
        own = [run for run in runs if run.session_id == session.id]
        complete = all(run.usage_complete for run in own)
        cost = spent(session.own_usage, session.own_cost, complete=complete)[1]
        since = f", cost since then {money(cost, complete=complete)}" if own else ""
        lines.append(f"forked from {one_line(session.parent.session_id)} {where}{since}")
    return "\n".join(lines)


def _run_line(index: int, run: Run, span: tuple[int, int] | None, *, inherited: bool) -> str:
    complete = run.usage_complete
    usage, cost = spent(run.usage, run.cost, complete=complete)
    facts = [
        "" if run.kind == "run" else run.kind,
        one_line(run.model),
        ending(run),
        count(run.steps, "step"),
        tokens(usage, complete=complete),
        cost_words(cost, complete=complete),
        seconds(run.duration) if run.duration is not None else "",
        f"messages {index_range(*span)}" if span else "no messages kept",
        f"started {moment(run.started_at)}",
        "inherited" if inherited else "",
    ]
    return "\n".join([f"[{index}] " + ", ".join(fact for fact in facts if fact), *run_remarks(run)])


def run_remarks(run: Run) -> list[str]:
    """Return what went wrong in a run, an indented line each."""
    said = [] if run.error is None else [f"    Error: {error_words(run.error.type, run.error.message)}"]
    return [*said, *(f"    Warning: {one_line(text, 500)}" for text in run.warnings[:10])]


def run_text(run: Run) -> str:
    """Return the record of a run in words."""
    name = "Run" if run.kind == "run" else "Compaction"
    usage, cost = spent(run.usage, run.cost, complete=run.usage_complete)
    lines = [
        f"{name}: {one_line(run.model)}, {ending(run)}",
        f"    {one_line(run.id)} in session {one_line(run.session_id)}, started {moment(run.started_at)}",
        f"    {count(run.steps, 'step')}, {seconds(run.duration)}, {tokens(usage, complete=run.usage_complete)}, "
        + cost_words(cost, complete=run.usage_complete),
    ]
    if run.input_limit is not None:
        lines.append(f"    context window {number(run.input_limit)} tokens")
    return "\n".join([*lines, *run_remarks(run)])


def usage_text(usage: Usage) -> str:
    """Return tokens in words."""
    return f"{count(usage.requests, 'request')}: {tokens(usage)}, {number(usage.total_tokens)} in all"
