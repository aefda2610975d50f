"""What a frame is of: sessions, and which of them shows what several have.

A fork holds the runs and messages of its origin, under the same ids. Shown in both they would be paid twice in every
sum, so each is shown where it was made, whatever the order of the sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cyclops_nb.errors import InputError
from cyclops_nb.frames.stored import is_store, load_all
from cyclops_nb.messages import Message
from cyclops_nb.runs import Run
from cyclops_nb.session import Session

__all__ = ["Part", "find_messages", "find_runs", "find_sessions"]

_T = TypeVar("_T", Message, Run)


@dataclass(frozen=True)
class Part(Generic[_T]):
    """The messages of a session, or its runs, as they were at one moment."""

    session: Session
    items: tuple[_T, ...]
    inherited: list[bool]
    """Of each, whether it was made in another session."""
    shown: list[int]
    """The places of those that this session shows."""


def find_sessions(sources: Iterable[Any]) -> list[Session]:
    """Return each session of the sources once."""
    return list({id(session): session for session in _flattened(sources)}.values())


def _flattened(sources: Iterable[Any]) -> Iterator[Session]:
    for source in sources:
        if isinstance(source, Session):
            yield source
        elif isinstance(getattr(source, "session", None), Session):
            yield source.session
        elif is_store(source):
            yield from load_all(source)
        elif isinstance(source, Iterable) and not isinstance(source, str | bytes | Mapping):
            yield from _flattened(source)
        else:
            raise InputError(
                f"a {type(source).__name__} has no runs or messages to show: give sessions, responses of an agent, "
                "a store that can list what is in it, or lists of these"
            )


def find_runs(sessions: Iterable[Session], *, everywhere: bool) -> list[Part[Run]]:
    """Return the runs of sessions, and which of them each shows.

    Parameters
    ----------
    sessions : iterable of Session
        Each of them once.
    everywhere : bool
        Whether each shows all that it has, and not each is shown once.
    """
    parts = []
    for session in sessions:
        runs = tuple(session.runs)
        parts.append((session, runs, [run.session_id != session.id for run in runs]))
    return _shown(parts, everywhere=everywhere)


def find_messages(sessions: Iterable[Session], *, everywhere: bool) -> list[Part[Message]]:
    """Return the messages of sessions, and which of them each shows; see `find_runs`."""
    parts = []
    for session in sessions:
        messages = tuple(session.messages)
        runs = {run.id: run.session_id != session.id for run in tuple(session.runs)}
        shared = 0 if session.parent is None else session.parent.message_count
        # by its run, which holds after a compaction too, else by its place
        inherited = [
            runs.get(message.run_id, index < shared) if message.run_id is not None else index < shared
            for index, message in enumerate(messages)
        ]
        parts.append((session, messages, inherited))
    return _shown(parts, everywhere=everywhere)


def _shown(parts: Sequence[tuple[Session, tuple[_T, ...], list[bool]]], *, everywhere: bool) -> list[Part[_T]]:
    holders: dict[Any, int] = {}
    rest: list[tuple[str, int]] = []
    for number, (session, items, inherited) in enumerate(parts):
        for item, is_inherited in zip(items, inherited, strict=True):
            if everywhere:  # a session and a loaded copy of it are one
                holders.setdefault((session.id, item.id), number)
            elif is_inherited:
                rest.append((item.id, number))
            else:
                holders.setdefault(item.id, number)
    for item_id, number in rest:
        holders.setdefault(item_id, number)
    return [
        Part(
            session,
            items,
            inherited,
            [
                place
                for place, item in enumerate(items)
                if holders[(session.id, item.id) if everywhere else item.id] == number
            ],
        )
        for number, (session, items, inherited) in enumerate(parts)
    ]
