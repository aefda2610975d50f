"""A session as HTML: its head, its messages, how its runs ended, and what they cost.

Where a fork left its parent is a line between messages. A run that failed, warned or was broken off says so right
after its last message; the foot has all runs in numbers and the settings that made them. A warning that many runs have,
as all runs on a server of one's own may have, is said after the first of them alone; the foot has each run's.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from markupsafe import Markup

from cyclops_nb.display.conversation import STYLES, conversation
from cyclops_nb.display.html import facts, head, notice, page
from cyclops_nb.display.usage_table import cost_words, foot, model_names
from cyclops_nb.messages import Message
from cyclops_nb.render.escape import EMPTY, fragment, join, label
from cyclops_nb.render.text import one_line
from cyclops_nb.render.words import count, error_words, money, short_id, spent, tokens
from cyclops_nb.runs import Run
from cyclops_nb.session import Session
from cyclops_nb.transcript import find_problems

__all__ = ["run_ends", "run_notices", "session_facts", "session_page"]

_PROBLEMS = 5


def run_ends(
    runs: Sequence[Run], messages: Sequence[Message], *, start: int = 0, is_busy: bool = False
) -> dict[int, Markup]:
    """Return what is to be said after messages: that the run they end did not end well, or warns.

    Parameters
    ----------
    runs : sequence of Run
        The runs of the session.
    messages : sequence of messages
        Its transcript.
    start : int
        The index of the first message that is shown: a warning is said at its first run from there.
    is_busy : bool
        Whether a run extends the session right now.

    Returns
    -------
    dict
        Notices by the index of the last message of a run.
    """
    last = {message.run_id: index for index, message in enumerate(messages) if message.run_id is not None}
    ends: dict[int, Markup] = {}
    said: set[str] = set()
    for number, run in enumerate(runs):
        end = last.get(run.id, -1)
        if end < start:
            continue
        notices = join(run_notices(number, run, is_running=is_busy and number == len(runs) - 1, said=said))
        said.update(run.warnings)
        if notices:
            ends[end] = ends.get(end, EMPTY) + notices
    return ends


def run_notices(number: int | None, run: Run, *, is_running: bool, said: Container[str] = ()) -> list[Markup]:
    """Return what is to be said about the end of a run, if it did not end well or warns.

    Parameters
    ----------
    number : int or None
        Which run of its session it is; None where there is only one.
    run : Run
        The run.
    is_running : bool
        Whether it goes on right now.
    said : container of str
        Warnings that were said before, and are left out.

    Returns
    -------
    list of Markup
        Notices.
    """
    name = "the run" if number is None else f"run [{number}]"
    notices = []
    if run.error is not None:
        what = error_words(run.error.type, run.error.message)
        notices.append(notice(f"{name} failed with {what}", kind="error"))
    elif run.stop_reason is None:
        state = "goes on right now" if is_running else "has no end: it still runs, or its process was killed"
        notices.append(notice(f"{name} {state}", kind="info"))
    elif run.stop_reason != "completed":
        notices.append(notice(f"{name} was stopped: {run.stop_reason}"))
    fresh = [text for text in dict.fromkeys(run.warnings) if text not in said]
    return [*notices, *(notice(f"{name}: {one_line(text, 500)}") for text in fresh[:10])]


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
    title = label(session.title) if session.title else fragment("Session <code>{}</code>", label(session.id))
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
    usage, cost = spent(session.usage, session.cost, complete=complete)
    return facts(
        [
            fragment("session <code>{}</code>", label(session.id)) if session.title else "",
            count(len(session.messages), "message"),
            count(len(session.runs), "run"),
            join(map(label, model_names(session)), ", "),
            tokens(usage, complete=complete) if session.runs else "",
            fragment("<b>{}</b>", cost_words(cost, complete=complete)) if session.runs else "",
            "in a run now" if session.busy else "",
        ]
    )


def _parentage(session: Session) -> Markup | str:
    if session.parent is None:
        return ""
    shared = session.parent.message_count
    where = f"after message [{shared - 1}]" if shared else "before the first message"
    origin = fragment("forked from <code>{}</code> {}", label(session.parent.session_id), where)
    own = [run for run in session.runs if run.session_id == session.id]
    complete = all(run.usage_complete for run in own)
    cost = spent(session.own_usage, session.own_cost, complete=complete)[1]
    return facts([origin, f"cost since then {money(cost, complete=complete)}" if own else ""])


def _fork_line(session: Session) -> dict[int, Markup]:
    if session.parent is None:
        return {}
    shared = session.parent.message_count
    above = f": {count(shared, 'message')} above {'is' if shared == 1 else 'are'} shared with it" if shared else ""
    line = fragment(
        '<div class="cy-fork" style="border-top:1px dashed #888;margin:.5em 0;text-align:center">'
        '<span class="cy-meta">forked from {}{}</span></div>',
        short_id(session.parent.session_id),
        above,
    )
    return {shared: line}


def _problem_notice(messages: Sequence[Message]) -> Markup | str:
    problems = find_problems(messages)
    if not problems:
        return ""
    said = [f"[{problem.index}] {one_line(problem.text, 200)}" for problem in problems[:_PROBLEMS]]
    more = f"; and {len(problems) - _PROBLEMS} more" if len(problems) > _PROBLEMS else ""
    return notice(f"this transcript is invalid: {'; '.join(said)}{more}. session.repair() mends it.")
