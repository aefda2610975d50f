"""What runs consumed and how they ended, as small tables.

Sums follow the session's own rule: one unknown part makes the sum unknown, and a completion that was stopped before
its report makes it a lower bound. Neither is ever shown as a number that looks complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from cyclops_nb.display.html import Cell, facts, fold, head, notice, page, table
from cyclops_nb.display.settings import settings_blocks
from cyclops_nb.messages import AssistantMessage, Message
from cyclops_nb.render.escape import fragment, join, json_block, label
from cyclops_nb.render.text import one_line
from cyclops_nb.render.words import (
    UNKNOWN,
    count,
    error_words,
    index_range,
    moment,
    money,
    number,
    seconds,
    spent,
    tokens,
)
from cyclops_nb.runs import Run
from cyclops_nb.session import Session
from cyclops_nb.usage import Usage

__all__ = ["cost_words", "ending", "foot", "model_names", "run_page", "run_spans", "usage_page"]

_RUNS = 60
_MODELS = 3
_NUMBERS = range(4, 9)
_COLUMNS = ("run", "messages", "model", "ended", "steps", "tokens in", "tokens out", "cost", "time", "started (UTC)")


def cost_words(cost: float | None, *, complete: bool = True) -> str:
    """Return a cost as a fact, also when it is unknown."""
    return f"cost {UNKNOWN}" if cost is None else money(cost, complete=complete)


def model_names(session: Session) -> list[str]:
    """Return the models that answered in a session, the latest first, or those that were asked; some of many."""
    answered = [
        message.model for message in session.messages if isinstance(message, AssistantMessage) and message.model
    ]
    names = list(dict.fromkeys(reversed(answered or [run.model for run in session.runs])))
    more = [f"{len(names) - _MODELS} more"] if len(names) > _MODELS else []
    return [*(one_line(name) for name in names[:_MODELS]), *more]


def usage_page(usage: Usage) -> Markup:
    """Return tokens as HTML."""
    return page(
        table(
            (),
            [
                ("requests", number(usage.requests)),
                ("input tokens", number(usage.input_tokens)),
                ("of them cached", number(usage.cached_tokens)),
                ("output tokens", number(usage.output_tokens)),
                ("of them reasoning", number(usage.reasoning_tokens)),
                ("all tokens", number(usage.total_tokens)),
            ],
            numbers=[1],
            label="usage",
        ),
        kind="usage",
    )


def ending(run: Run) -> str:
    """Return how a run ended, in words."""
    return run.stop_reason or "not ended"


def run_page(run: Run) -> Markup:
    """Return the record of a run as HTML."""
    usage, cost = spent(run.usage, run.cost, complete=run.usage_complete)
    rows: list[Sequence[Cell]] = [
        ("run", fragment("<code>{}</code>", label(run.id))),
        ("session", fragment("<code>{}</code>", label(run.session_id))),
        ("started", moment(run.started_at)),
        ("time", seconds(run.duration)),
        ("steps", number(run.steps)),
        ("usage", tokens(usage, complete=run.usage_complete)),
        ("cost", money(cost, complete=run.usage_complete)),
    ]
    if run.input_limit is not None:
        rows.append(("context window", f"{number(run.input_limit)} tokens"))
    kind = "Run" if run.kind == "run" else "Compaction"
    title = fragment("{}: {}, {}", kind, label(run.model), ending(run))
    return page(head(title), *_remarks([(None, run)]), table((), rows, label="run"), kind="run")


def _remarks(runs: Sequence[tuple[int | None, Run]]) -> list[Markup]:
    """Return what went wrong in runs, each with the number of its run."""
    said = []
    for index, run in runs:
        which = "" if index is None else f"[{index}] "
        if run.error is not None:
            said.append(notice(which + error_words(run.error.type, run.error.message), kind="error"))
        said += [notice(f"{which}{one_line(text, 500)}") for text in run.warnings[:10]]
    return said


def foot(session: Session) -> Markup:
    """Return the foot of a session: its runs, their settings, its own notes.

    Parameters
    ----------
    session : Session
        Any session.

    Returns
    -------
    Markup
        Something to open, or nothing for a session that has none of it.
    """
    runs = list(session.runs)
    parts: list[Markup] = []
    if runs:
        failed = sum(run.stop_reason not in (None, "completed") for run in runs)
        warned = sum(bool(run.warnings) for run in runs)
        summary = facts(
            [
                count(len(runs), "run"),
                f"{failed:,} not completed" if failed else "",
                f"{warned:,} with warnings" if warned else "",
                "tokens, cost and settings",
            ]
        )
        parts.append(fold(summary, _runs_table(session, runs), *settings_blocks(session), kind="foot"))
    if session.metadata:
        parts.append(fold("metadata", json_block(dict(session.metadata), 4_000), kind="foot"))
    return join(parts)


def _runs_table(session: Session, runs: Sequence[Run]) -> Markup:
    spans = run_spans(session.messages)
    shown = list(enumerate(runs))[-_RUNS:]
    rows = [_run_row(index, run, spans, inherited=run.session_id != session.id) for index, run in shown]
    footer = [_sum_row("all runs", session.usage, session.cost, runs)] if len(runs) > 1 else []
    own = [run for run in runs if run.session_id == session.id]
    if len(own) < len(runs):
        footer.append(_sum_row("own runs", session.own_usage, session.own_cost, own))
    earlier = fragment('<div class="cy-note">{}</div>', f"… {count(len(runs) - len(shown), 'earlier run')} not listed")
    remarks = _remarks([(index, run) for index, run in shown if run.error or run.warnings][-20:])
    return join(
        [
            earlier if len(shown) < len(runs) else "",
            table(_COLUMNS, rows, footer=footer, numbers=_NUMBERS, label="runs"),
            *remarks,
        ]
    )


def run_spans(messages: Sequence[Message]) -> dict[str, tuple[int, int]]:
    """Return the first and the last message of each run, by the run's id."""
    spans: dict[str, tuple[int, int]] = {}
    for index, message in enumerate(messages):
        if message.run_id is not None:
            spans[message.run_id] = (spans.get(message.run_id, (index, index))[0], index)
    return spans


def _run_row(index: int, run: Run, spans: Mapping[str, tuple[int, int]], *, inherited: bool) -> list[Cell]:
    where = index_range(*spans[run.id]) if run.id in spans else "none kept"
    notes = ["inherited" if inherited else "", "compaction" if run.kind == "compaction" else ""]
    name = facts([f"[{index}]", *notes])
    return [
        name,
        where,
        label(run.model),
        ending(run),
        number(run.steps),
        *_amounts(run.usage, run.cost, complete=run.usage_complete),
        seconds(run.duration),
        _stacked(*moment(run.started_at).removesuffix(" UTC").split(" ")),
    ]


def _amounts(usage: Usage | None, cost: float | None, *, complete: bool) -> list[Cell]:
    usage, cost = spent(usage, cost, complete=complete)
    if usage is None:
        return [UNKNOWN, UNKNOWN, money(cost, complete=complete)]
    cached = f"({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    reasoning = f"({usage.reasoning_tokens:,} reasoning)" if usage.reasoning_tokens else ""
    return [
        _stacked(number(usage.input_tokens, complete=complete), cached),
        _stacked(number(usage.output_tokens, complete=complete), reasoning),
        money(cost, complete=complete),
    ]


def _stacked(*lines: str) -> Markup:
    """Return a cell of short lines: ten columns have no room for long ones."""
    first, *more = lines
    return join([fragment("{}", first), *(fragment("<div>{}</div>", line) for line in more if line)])


def _sum_row(name: str, usage: Usage | None, cost: float | None, runs: Sequence[Run]) -> list[Cell]:
    durations = [run.duration for run in runs if run.duration is not None]
    complete = all(run.usage_complete for run in runs)
    steps = number(sum(run.steps for run in runs))
    return [name, "", "", "", steps, *_amounts(usage, cost, complete=complete), seconds(sum(durations)), ""]
