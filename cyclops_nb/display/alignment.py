"""Which messages of branches stand beside one another.

Rows are aligned by turn: what answers the n-th question stands beside what answers it in the other branches, the steps
of a turn from its top and its final answer in its last row, however many steps each branch took. A summary stands
beside the messages that it has replaced, so that a compacted session lies beside what it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TypeAlias

from cyclops_nb.display.branch import Branch
from cyclops_nb.display.units import Unit, units
from cyclops_nb.messages import AssistantMessage, SummaryMessage, UserMessage

__all__ = ["Row", "rows"]

Row: TypeAlias = list[Unit | None]
"""What the branches say at one place: a unit, or None, for each."""


def rows(branches: Sequence[Branch]) -> Iterator[Row]:
    """Return the messages of the branches in rows.

    Parameters
    ----------
    branches : sequence of Branch
        What is compared.

    Returns
    -------
    iterator of Row
        From the first message after the common part on.
    """
    all_units = [units(branch.own, branch.shared) for branch in branches]
    summed_up = max(map(_replaced, all_units), default=0)
    replaced = [_up_to(own, summed_up) for own in all_units]
    for row in zip_longest(*(own[:end] for own, end in zip(all_units, replaced, strict=True))):
        yield list(row)
    turns = [_turns(own[end:]) for own, end in zip(all_units, replaced, strict=True)]
    for turn in zip_longest(*turns, fillvalue=()):
        yield from _of_turn(turn)


def _of_turn(turn: Sequence[Sequence[Unit]]) -> Iterator[Row]:
    leads = [list(part[:-1] if part and _is_final(part[-1]) else part) for part in turn]
    finals = [part[-1] if part and _is_final(part[-1]) else None for part in turn]
    for row in zip_longest(*leads):
        yield list(row)
    if any(finals):
        yield finals


def _turns(own: Sequence[Unit]) -> list[list[Unit]]:
    turns: list[list[Unit]] = []
    for unit in own:
        if not turns or isinstance(unit.message, UserMessage):
            turns.append([])
        turns[-1].append(unit)
    return turns


def _is_final(unit: Unit) -> bool:
    return isinstance(unit.message, AssistantMessage) and not unit.calls


def _replaced(own: Sequence[Unit]) -> int:
    """Return how many messages the summary has replaced that a conversation begins with."""
    first = own[0] if own else None
    return first.message.replaced if first and not first.index and isinstance(first.message, SummaryMessage) else 0


def _up_to(own: Sequence[Unit], summed_up: int) -> int:
    """Return how many units stood among the first `summed_up` messages before any was replaced."""
    offset = max(_replaced(own) - 1, 0)
    return sum(
        unit.index + offset < summed_up or (not place and bool(_replaced(own))) for place, unit in enumerate(own)
    )
