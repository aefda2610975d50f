"""What runs consumed, how they ended, and which settings made them, as small tables.

Sums follow the session's own rule: one unknown part makes the sum unknown, and a completion that was stopped before
its report makes it a lower bound. Neither is ever shown as a number that looks complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from cyclops_nb.display.html import Cell, facts, fold, head, notice, page, table
from cyclops_nb.messages import Message
from cyclops_nb.render.escape import fragment, join, json_block, label, text_block
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

__all__ = ["cost_words", "foot", "run_page", "usage_page"]

_RUNS = 60
_CONFIGS = 5
_SETTINGS = 60
_SPECIAL = {"model", "host", "api", "tools", "system_prompt", "cyclops_nb"}
_NUMBERS = range(4, 9)
_COLUMNS = ("run", "messages", "model", "ended", "steps", "tokens in", "tokens out", "cost", "time", "started (UTC)")


def cost_words(cost: float | None, *, complete: bool = True) -> str:
    """Return a cost as a fact, also when it is unknown."""
    return f"cost {UNKNOWN}" if cost is None else money(cost, complete=complete)


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
        parts.append(fold(summary, _runs_table(session, runs), *_settings(session, runs), kind="foot"))
    if session.metadata:
        parts.append(fold("metadata", json_block(dict(session.metadata), 4_000), kind="foot"))
    return join(parts)


def _runs_table(session: Session, runs: Sequence[Run]) -> Markup:
    spans = _spans(session.messages)
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


def _spans(messages: Sequence[Message]) -> dict[str, tuple[int, int]]:
    """Return the first and the last message of each run."""
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


def _settings(session: Session, runs: Sequence[Run]) -> list[Markup]:
    """Return the settings that made the runs, the latest first."""
    used: dict[str, list[int]] = {}
    for index, run in reversed(list(enumerate(runs))):
        if run.config is not None and run.config in session.configs:
            used.setdefault(run.config, []).insert(0, index)
    shown = [_setting(session.configs[key], numbers) for key, numbers in list(used.items())[:_CONFIGS]]
    if len(used) > _CONFIGS:
        rest = f"… {count(len(used) - _CONFIGS, 'earlier set')} of settings in session.configs"
        shown.append(fragment('<div class="cy-note">{}</div>', rest))
    return shown


def _setting(config: Mapping[str, Any], runs: Sequence[int]) -> Markup:
    some = ", ".join(f"[{index}]" for index in runs[:8]) + (" …" if len(runs) > 8 else "")  # noqa: PLR2004 - a line's worth
    where = fragment(" at {}", label(str(config["host"]))) if config.get("host") else ""
    summary = fragment(
        "settings of {} {}: {}{}",
        "run" if len(runs) == 1 else "runs",
        some,
        label(str(config.get("model", UNKNOWN))),
        where,
    )
    prompt = config.get("system_prompt")
    rows = [
        (one_line(name, 60), _value(value)) for name, value in list(config.items())[:_SETTINGS] if name not in _SPECIAL
    ]
    rows += [(name, label(str(config[name]))) for name in ("api", "cyclops_nb") if config.get(name)]
    tools = config.get("tools") or ()
    return fold(
        summary,
        _titled("system prompt", text_block(str(prompt), 6_000)) if prompt else "",
        table((), rows, label="settings") if rows else "",
        fold(_tool_names(tools), json_block(tools, 6_000), kind="settings") if tools else "",
        kind="settings",
    )


def _tool_names(tools: Sequence[Any]) -> Markup:
    names = [str(tool.get("name", "")) if isinstance(tool, Mapping) else str(tool) for tool in tools[:20]]
    return fragment("{}: {}", count(len(tools), "tool"), label(", ".join(names)))


def _value(value: Any) -> Cell:
    return json_block(value, 2_000) if isinstance(value, Mapping | list | tuple) else one_line(str(value), 500)


def _titled(name: str, block: Markup) -> Markup:
    return fragment('<div class="cy-label">{}</div>{}', name, block)
