"""The numbers of a comparison in words, each with its difference from the first branch."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from cyclops_nb.display.branch import Branch
from cyclops_nb.display.branches import Comparison
from cyclops_nb.render.text import one_line
from cyclops_nb.render.words import MINUS, UNKNOWN, difference, money, number, seconds, spent
from cyclops_nb.usage import Usage, total

__all__ = ["Metrics", "metrics"]

Line: TypeAlias = tuple[str, list[str]]
Metrics: TypeAlias = list[tuple[str, list[Line]]]
"""Groups of lines: a name and a text for each branch."""


def metrics(comparison: Comparison) -> Metrics:
    """Return the numbers of a comparison.

    Parameters
    ----------
    comparison : Comparison
        What is compared.

    Returns
    -------
    Metrics
        Three groups at most: the branches after the common part, their whole sessions, the settings that differ.
    """
    branches = comparison.branches
    groups: Metrics = [("after the common part" if comparison.shared else "messages and runs", _of_branch(branches))]
    groups.append(("whole session", _of_session(branches)))
    if settings := comparison.differing_settings:
        groups.append(("settings that differ", [(one_line(name, 60), _settings(branches, name)) for name in settings]))
    return groups


def _of_branch(branches: Sequence[Branch]) -> list[Line]:
    def tokens(pick: Callable[[Usage], int]) -> list[float | None]:
        return [None if usage is None else pick(usage) for usage, _ in known]

    complete = [branch.usage_complete for branch in branches]
    known = [spent(branch.usage, branch.cost, complete=branch.usage_complete) for branch in branches]
    return [
        ("messages", _numbers([len(branch.own) for branch in branches])),
        ("steps", _numbers([len(branch.answers) for branch in branches])),
        ("tool calls", _numbers([branch.tool_calls for branch in branches])),
        ("tokens in", _numbers(tokens(lambda usage: usage.input_tokens), complete)),
        ("of them cached", _numbers(tokens(lambda usage: usage.cached_tokens), complete)),
        ("tokens out", _numbers(tokens(lambda usage: usage.output_tokens), complete)),
        ("of them reasoning", _numbers(tokens(lambda usage: usage.reasoning_tokens), complete)),
        ("cost", _numbers([cost for _, cost in known], complete, of="money")),
        ("time", _numbers([branch.duration for branch in branches], of="seconds")),
        ("tokens per second", _speeds([branch.tokens_per_second for branch in branches])),
        ("model", [one_line(", ".join(branch.models)) or "none" for branch in branches]),
        ("stop reason", [branch.stop_reason or ("not ended" if branch.runs else "none") for branch in branches]),
    ]


def _of_session(branches: Sequence[Branch]) -> list[Line]:
    complete = [all(run.usage_complete for run in branch.session_runs) for branch in branches]
    cost = [
        spent(total(run.usage for run in branch.session_runs), branch.session_cost, complete=reported)[1]
        for branch, reported in zip(branches, complete, strict=True)
    ]
    return [
        ("messages", _numbers([len(branch.messages) for branch in branches])),
        ("runs", _numbers([len(branch.session_runs) for branch in branches])),
        ("cost", _numbers(cost, complete, of="money")),
    ]


def _numbers(values: Sequence[float | None], complete: Sequence[bool] = (), of: str = "") -> list[str]:
    """Return numbers in words, each with its difference from the first."""
    first = values[0]
    shown = []
    for place, value in enumerate(values):
        text = _number(value, complete=complete[place] if complete else True, of=of)
        change = difference(value, first, of=of) if place and value is not None and first is not None else ""
        shown.append(f"{text} ({change})" if change else text)
    return shown


def _speeds(values: Sequence[float | None]) -> list[str]:
    """Return output tokens per second in words, with one digit behind the point."""
    shown = [UNKNOWN if value is None else f"{value:,.1f}" for value in values]
    first = values[0]
    for place, value in enumerate(values[1:], 1):
        if value is not None and first is not None and shown[place] != shown[0]:
            shown[place] += f" ({'+' if value > first else MINUS}{abs(value - first):,.1f})"
    return shown


def _number(value: float | None, *, complete: bool, of: str) -> str:
    if of == "seconds":
        return seconds(value)
    return money(value, complete=complete) if of == "money" else number(value, complete=complete)


def _settings(branches: Sequence[Branch], name: str) -> list[str]:
    return [_setting(branch.settings, name) for branch in branches]


def _setting(settings: Mapping[str, Any], name: str) -> str:
    if not settings:
        return UNKNOWN
    if name not in settings:
        return "(default)"
    value = settings[name]
    if name == "tools" and isinstance(value, Sequence):
        names = [tool.get("name") if isinstance(tool, Mapping) else tool for tool in value]
        return one_line(", ".join(str(tool) for tool in names), 300)
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str), 300)
