"""Conversations as HTML: who said what, what the tools did, where a fork left its parent, how runs ended.

Every message shows its index, since that is what `fork`, `truncate` and `edit` take. A result is shown with the call
that it answers and carries its own index there. Transcripts that are no valid ones are shown like all others, with a
notice; looking at one is how its fault is found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from cyclops_nb.display.html import facts, fold, head, notice, page
from cyclops_nb.display.parts import PART_LIMIT, Images, Room, call, content, preview, stray_result
from cyclops_nb.display.units import Unit, choose, split, units
from cyclops_nb.display.usage_table import foot
from cyclops_nb.display.words import count, index_range, moment, money, seconds, short_id, tokens
from cyclops_nb.messages import AssistantMessage, Message, SummaryMessage, ToolCall, ToolMessage
from cyclops_nb.render.escape import fragment, join, label
from cyclops_nb.render.text import one_line
from cyclops_nb.runs import Run
from cyclops_nb.session import Session
from cyclops_nb.transcript import find_problems

__all__ = ["STYLES", "conversation", "message_page", "run_ends", "session_page", "speaker", "unit_block"]

STYLES = ("transcript",)
"""Parts of the style sheet that an output with messages needs."""
_ROOM = 500_000  # characters of HTML for whole messages, so that an output stays below 1 MB
_USUAL_ENDS = {None, "stop", "tool_calls", "end_turn", "tool_use", "completed"}
_PROBLEMS = 5


def speaker(message: Message) -> str:
    """Return who speaks in a message, in words."""
    if isinstance(message, ToolMessage):
        return f"tool {one_line(message.name)}"
    return f"summary of {count(message.replaced, 'message')}" if isinstance(message, SummaryMessage) else message.role


def unit_block(unit: Unit, room: Room, *, expected: bool = True, is_indexed: bool = True) -> Markup:
    """Return a message with all that belongs to it.

    Parameters
    ----------
    unit : Unit
        The message, and the results of its calls.
    room : Room
        The space there is.
    expected : bool
        Whether a call without a result is said to have none.
    is_indexed : bool
        Whether the message stands in a transcript, and its index is shown.

    Returns
    -------
    Markup
        A ``<div>`` that is a group for screen readers.
    """
    message = unit.message
    if isinstance(message, ToolMessage):
        body = stray_result(message, room)
    elif isinstance(message, AssistantMessage):
        body = _answer(unit, room, expected=expected)
    else:
        body = content(message.content[:PART_LIMIT], room)
    rest = len(message.content) - PART_LIMIT
    more = fragment('<div class="cy-note">{}</div>', f"… {count(rest, 'more part')}") if rest > 0 else ""
    empty = "" if message.content else fragment('<div class="cy-note">{}</div>', "(empty)")
    return fragment(
        '<div class="cy-m cy-{}" role="group" aria-label="{}">{}<div class="cy-body">{}{}{}</div></div>',
        message.role,
        f"message {unit.index}, {speaker(message)}" if is_indexed else speaker(message),
        _byline(unit, is_indexed=is_indexed),
        body,
        more,
        empty,
    )


def _answer(unit: Unit, room: Room, *, expected: bool) -> Markup:
    """Return the parts of an answer in their order, each call with its result."""
    shown: list[Markup] = []
    calls = iter(unit.calls)
    waiting = []
    for part in unit.message.content[:PART_LIMIT]:
        if not isinstance(part, ToolCall):
            waiting.append(part)
            continue
        shown.append(content(waiting, room))
        waiting = []
        shown.append(call(part, next(calls, (part, None))[1], room, expected=expected))
    return join([*shown, content(waiting, room)])


def _byline(unit: Unit, *, is_indexed: bool) -> Markup:
    message = unit.message
    index = fragment('<span class="cy-i">[{}]</span> ', unit.index) if is_indexed else ""
    return fragment(
        '<div class="cy-by" title="{}">{}<b class="cy-who">{}</b> <span class="cy-meta">{}</span></div>',
        moment(message.created_at),
        index,
        label(speaker(message)),
        facts(_about(message)),
    )


def _about(message: Message) -> list[object]:
    """Return what is known about a message beside its content."""
    about: list[object] = []
    if isinstance(message, AssistantMessage):
        about = [
            label(message.model) if message.model else "",
            "" if message.duration is None else seconds(message.duration),
            "" if message.usage is None else tokens(message.usage),
            "" if message.cost is None else money(message.cost),
        ]
        if message.finish_reason not in _USUAL_ENDS:
            about.append(fragment('<span class="cy-bad">ended by {}</span>', label(message.finish_reason or "")))
    elif isinstance(message, ToolMessage):
        kind = "meta" if message.status == "ok" else "bad"
        about = [
            fragment('<span class="cy-{}">{}</span>', kind, message.status),
            "" if message.duration is None else seconds(message.duration),
        ]
    return [*about, *_notes(message.metadata)]


def _notes(metadata: Mapping[str, object]) -> list[Markup]:
    notes = {name: value for name, value in metadata.items() if name != "edited_from"}
    shown = [fragment("<span>edited</span>")] if len(notes) < len(metadata) else []
    if notes:
        shown.append(label(", ".join(f"{name}: {value}" for name, value in notes.items())))
    return shown


def unit_line(unit: Unit) -> Markup:
    """Return a message in one line, for the middle of a very long conversation."""
    message = unit.message
    text = preview(message) if isinstance(message, ToolMessage) else one_line(message.text, 100)
    calls = ", ".join(one_line(called.name, 40) for called, _ in unit.calls[:5])
    return fragment(
        '<div class="cy-line"><span class="cy-i">{}</span> <b class="cy-who">{}</b> {} <span class="cy-meta">{}</span></div>',
        index_range(unit.index, unit.last),
        speaker(message),
        text,
        f"calls {calls}" if calls else "",
    )


def conversation(
    messages: Sequence[Message],
    *,
    start: int = 0,
    before: Mapping[int, Markup] | None = None,
    after: Mapping[int, Markup] | None = None,
    expected: bool = True,
    room: int = _ROOM,
) -> Markup:
    """Return messages one below the other; the middle of a long conversation is folded.

    Parameters
    ----------
    messages : sequence of messages
        A transcript, or a part of one.
    start : int
        The index of the first of them.
    before, after : mapping, optional
        What stands before, and after, the message with an index.
    expected : bool
        Whether a call without a result is said to have none.
    room : int
        About how many characters of HTML the messages may take.

    Returns
    -------
    Markup
        A sequence of blocks.
    """
    images = Images()
    choice = split(units(messages, start))
    made = choose(
        choice,
        room,
        full=lambda unit: unit_block(unit, Room(images=images), expected=expected),
        line=unit_line,
        omitted=_omitted,
    )
    lines = dict(before or {})

    def block(chosen: Sequence[Unit]) -> Markup:
        parts: list[object] = []
        for unit in chosen:
            due = [index for index in lines if index <= unit.index]
            parts += [lines.pop(index) for index in sorted(due)]
            parts.append(made.get(unit.index, ""))
            parts += [(after or {}).get(index, "") for index in _indices(unit)]
        return join(parts)

    head_html, middle_html, tail_html = block(choice.head), block(choice.middle), block(choice.tail)
    if choice.middle:
        span = index_range(choice.middle[0].index, choice.middle[-1].last)
        number = sum(len(_indices(unit)) for unit in choice.middle)
        middle_html = fold(f"{span}: {count(number, 'more message')}", middle_html, kind="middle")
    return join([head_html, middle_html, tail_html, *(lines[index] for index in sorted(lines))])


def _indices(unit: Unit) -> list[int]:
    return [unit.index, *(result.index for _, result in unit.calls if result)]


def _omitted(first: Unit, last: Unit) -> Markup:
    text = f"… {index_range(first.index, last.last)} are not shown: session.messages[{first.index}:{last.last + 1}]"
    return fragment('<div class="cy-line cy-note">{}</div>', text)


def run_ends(runs: Sequence[Run], messages: Sequence[Message], *, is_busy: bool = False) -> dict[int, Markup]:
    """Return what is to be said after messages: that the run they end did not end well, or warns.

    Parameters
    ----------
    runs : sequence of Run
        The runs of the session.
    messages : sequence of messages
        Its transcript.
    is_busy : bool
        Whether a run extends the session right now.

    Returns
    -------
    dict
        Notices by the index of the last message of a run.
    """
    last = {message.run_id: index for index, message in enumerate(messages) if message.run_id is not None}
    ends: dict[int, Markup] = {}
    for number, run in enumerate(runs):
        notices = join(_run_notices(number, run, is_running=is_busy and number == len(runs) - 1))
        if notices and run.id in last:
            ends[last[run.id]] = ends.get(last[run.id], Markup("")) + notices
    return ends


def _run_notices(number: int, run: Run, *, is_running: bool) -> list[Markup]:
    notices = []
    if run.error is not None:
        what = fragment("run [{}] failed: {}: {}", number, label(run.error.type), one_line(run.error.message, 500))
        notices.append(notice(what, kind="error"))
    elif run.stop_reason is None:
        said = "is in progress" if is_running else "has no end: it still runs, or its process was killed"
        notices.append(notice(f"run [{number}] {said}", kind="info"))
    elif run.stop_reason != "completed":
        notices.append(notice(f"run [{number}] ended early: {run.stop_reason}", kind="warning"))
    notices += [notice(fragment("run [{}]: {}", number, one_line(text, 500))) for text in run.warnings]
    return notices


def session_page(session: Session) -> Markup:
    """Return a session as HTML.

    Parameters
    ----------
    session : Session
        Valid or not, in a run or not.

    Returns
    -------
    Markup
        A whole output: head, messages, and a foot with runs and settings.
    """
    messages = list(session.messages)
    runs = list(session.runs)
    title = label(session.title) if session.title else fragment("Session {}", label(session.id))
    body = conversation(
        messages,
        before=_fork_line(session),
        after=run_ends(runs, messages, is_busy=session.busy),
    )
    return page(
        head(title, session_facts(session), _parentage(session)),
        _problem_notice(messages),
        body if messages else fragment('<div class="cy-note">{}</div>', "no messages yet"),
        foot(session),
        kind="session",
        styles=STYLES,
    )


def session_facts(session: Session) -> Markup:
    """Return the head line of a session: what it is, which models, how much."""
    complete = all(run.usage_complete for run in session.runs)
    return facts(
        [
            fragment("session <code>{}</code>", label(session.id)),
            count(len(session.messages), "message"),
            count(len(session.runs), "run"),
            models(session),
            tokens(session.usage, complete=complete) if session.runs else "",
            cost_words(session.cost, complete=complete) if session.runs else "",
            "in a run now" if session.busy else "",
        ]
    )


def cost_words(cost: float | None, *, complete: bool = True) -> str:
    """Return a cost as a fact, also when it is unknown."""
    return "cost unknown" if cost is None else money(cost, complete=complete)


def models(session: Session) -> Markup:
    """Return the models that answered in a session, the latest first, or those that were asked."""
    answered = [message.model for message in session.messages if isinstance(message, AssistantMessage) and message.model]
    names = list(dict.fromkeys(reversed(answered or [run.model for run in session.runs])))
    more = [f"{len(names) - 3} more"] if len(names) > 3 else []  # noqa: PLR2004 - a line's worth
    return join([*map(label, names[:3]), *more], ", ")


def _parentage(session: Session) -> Markup | str:
    if session.parent is None:
        return ""
    shared = session.parent.message_count
    where = f"after message [{shared - 1}]" if shared else "before the first message"
    complete = all(run.usage_complete for run in session.runs)
    own = f"{cost_words(session.own_cost, complete=complete)} since then" if session.runs else ""
    return facts([fragment("forked from <code>{}</code> {}", label(session.parent.session_id), where), own])


def _fork_line(session: Session) -> dict[int, Markup]:
    if session.parent is None:
        return {}
    shared = session.parent.message_count
    above = f": {count(shared, 'message')} above {'is' if shared == 1 else 'are'} shared with it" if shared else ""
    line = fragment(
        '<div class="cy-fork"><span>forked from {}{}</span></div>', short_id(session.parent.session_id), above
    )
    return {shared: line}


def _problem_notice(messages: Sequence[Message]) -> Markup | str:
    problems = find_problems(messages)
    if not problems:
        return ""
    said = [f"[{problem.index}] {one_line(problem.text, 200)}" for problem in problems[:_PROBLEMS]]
    more = f"; and {len(problems) - _PROBLEMS} more" if len(problems) > _PROBLEMS else ""
    return notice(f"this transcript is invalid: {'; '.join(said)}{more}. session.repair() mends it.")


def message_page(message: Message) -> Markup:
    """Return one message as HTML, without an index since it does not know where it stands."""
    unit = Unit(0, message, tuple((part, None) for part in getattr(message, "tool_calls", ())))
    return page(unit_block(unit, Room(), expected=False, is_indexed=False), kind="message", styles=STYLES)
