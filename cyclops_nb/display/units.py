"""Messages in the groups in which people read them, and how many of these an output shows.

A tool call and its result are one thing to a reader, so an assistant message and the results that answer it make a
unit. An output is bounded: of a long conversation the beginning and the end are seen, the middle is folded, and what
does not fit even there is one line, or a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from cyclops_nb.messages import Message, ToolCall, ToolMessage
from cyclops_nb.transcript import calls_with_results

__all__ = ["Choice", "Result", "Unit", "choose", "split", "units"]

_HEAD = 8  # units at the beginning of a long conversation that are seen without opening anything
_TAIL = 16  # and at its end
_FEWEST = 6  # units that are worth folding
_LINES = 500  # units that are shown as one line each
_T = TypeVar("_T", bound=str)


@dataclass(frozen=True)
class Result:
    """A tool result, and where it stands in the transcript."""

    index: int
    message: ToolMessage


@dataclass(frozen=True)
class Unit:
    """A message, and the results that belong to it if it calls tools."""

    index: int
    """Where the message stands in the transcript."""
    message: Message
    calls: tuple[tuple[ToolCall, Result | None], ...] = ()
    """Each call of the message with its result, if there is one."""

    @property
    def last(self) -> int:
        """The index of the last message in it."""
        return max(self.indices)

    @property
    def indices(self) -> list[int]:
        """Where the message and the results stand."""
        return [self.index, *(result.index for _, result in self.calls if result)]


def units(messages: Sequence[Message], start: int = 0) -> list[Unit]:
    """Return `messages` grouped into units; results without a call are units of their own.

    Parameters
    ----------
    messages : sequence of messages
        A transcript, or a part of one; it may be invalid.
    start : int
        The index of the first of them.

    Returns
    -------
    list of Unit
        In the order of the transcript.
    """
    pairs = calls_with_results(messages)
    answers = {result[0] for calls in pairs.values() for _, result in calls if result}
    return [
        Unit(
            start + index,
            message,
            tuple((call, result and Result(start + result[0], result[1])) for call, result in pairs.get(index, ())),
        )
        for index, message in enumerate(messages)
        if index not in answers
    ]


class Choice(NamedTuple):
    """What is shown of a conversation, and of which units it is made."""

    head: list[Unit]
    middle: list[Unit]
    """To be folded; empty in a short conversation."""
    tail: list[Unit]


def split(all_units: Sequence[Unit]) -> Choice:
    """Return the beginning, the middle and the end of a conversation; a short one is all beginning."""
    if len(all_units) < _HEAD + _TAIL + _FEWEST:
        return Choice(list(all_units), [], [])
    return Choice(list(all_units[:_HEAD]), list(all_units[_HEAD:-_TAIL]), list(all_units[-_TAIL:]))


def choose(
    choice: Choice,
    room: int,
    *,
    full: Callable[[Unit], tuple[_T, int]],
    line: Callable[[Unit], _T],
    omitted: Callable[[Unit, Unit], _T],
) -> dict[int, _T]:
    """Return what is shown for each unit, in no more than about `room` characters.

    Parameters
    ----------
    choice : Choice
        The conversation.
    room : int
        Characters that whole units may take.
    full : callable
        Makes the whole of a unit, and says how many characters of it count.
    line : callable
        Makes one line of a unit.
    omitted : callable
        Makes what stands for the units from the first to the last that it is given.

    Returns
    -------
    dict
        By the index of the unit; of units that are left out only the first of a row is in it.
    """
    made: dict[int, _T] = {}
    # the end matters most, then how it began
    for unit in [*reversed(choice.tail), *choice.head, *reversed(choice.middle)]:
        whole, size = full(unit)
        room -= size
        if room < 0:
            break
        made[unit.index] = whole
    rest = [unit for unit in [*choice.head, *choice.middle, *choice.tail] if unit.index not in made]
    left_out, lines = rest[: max(len(rest) - _LINES, 0)], rest[max(len(rest) - _LINES, 0) :]
    made.update((unit.index, line(unit)) for unit in lines)
    if left_out:
        made[left_out[0].index] = omitted(left_out[0], left_out[-1])
    return made
