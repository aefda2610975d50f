"""The branches that are explored, a line each: how they descend from one another, how long they are, what they cost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cyclops_nb.display.branch_set import BranchSet, Entry, titled
from cyclops_nb.family import Branch, family
from cyclops_nb.render.words import count, money, number, spent
from cyclops_nb.session import Parent, Session
from cyclops_nb.stores.base import SessionInfo

__all__ = ["BranchLine", "branch_lines"]


class BranchLine(NamedTuple):
    """A branch in words."""

    id: str
    tree: str
    """Lines that lead from its parent to it."""
    title: str
    about: str
    """How long it is, and what it cost."""

    def __str__(self) -> str:
        return f"{self.tree}{self.title} · {self.about}"


def branch_lines(branches: BranchSet) -> list[BranchLine]:
    """Return the branches, each before those that left it.

    Examples
    --------
    >>> [str(line) for line in branch_lines(BranchSet({"a": Entry(Session("a", title="Trip"))}, "a"))]
    ['Trip · 0 messages']
    """
    return [_line(place) for place in family(_Place(entry) for entry in branches.entries.values())]


class _Place:
    """An entry, as something that has a parent."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    @property
    def id(self) -> str:
        return self.entry.id

    @property
    def parent(self) -> Parent | None:
        return self.entry.value.parent


def _line(place: Branch[_Place]) -> BranchLine:
    value = place.value.entry.value
    above = "".join("\u2003" if is_last else "│\u2002" for is_last in place.path)
    own = ("└ " if place.is_last else "├ ") if place.depth else ""
    at = f"after [{place.forked_at - 1}]" if place.depth and place.forked_at else ""
    return BranchLine(value.id, above + own, titled(value), " · ".join(filter(None, [*_about(value), at])))


def _about(value: Session | SessionInfo) -> Iterable[str]:
    if isinstance(value, SessionInfo):
        length, runs, usage, cost, complete = value.message_count, value.run_count, value.usage, value.cost, True
    else:
        complete = all(run.usage_complete for run in value.runs)
        length, runs, usage, cost = len(value.messages), len(value.runs), value.usage, value.cost
    yield count(length, "message")
    if runs:
        usage, cost = spent(usage, cost, complete=complete)
        if usage is not None:
            yield f"{number(usage.input_tokens + usage.output_tokens, complete=complete)} tokens"
        yield f"cost {money(cost, complete=complete)}" if cost is None else money(cost, complete=complete)
    if isinstance(value, Session) and value.busy:
        yield "in a run"
