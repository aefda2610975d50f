"""Which runs belong together, for sums of what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from cyclops_nb.config import AgentConfig
from cyclops_nb.errors import InputError
from cyclops_nb.frames.columns import in_utc
from cyclops_nb.frames.ratings import Annotations
from cyclops_nb.frames.settings import setting_key, setting_text
from cyclops_nb.frames.sources import find_runs, find_sessions
from cyclops_nb.frames.usage import OF_SESSION, UsageRow, UsageTable
from cyclops_nb.render.labels import session_labels
from cyclops_nb.runs import Run
from cyclops_nb.session import Session

__all__ = ["usage_table"]

_SETTING = "config."
_DEFAULT = "(default)"


def _day(run: Run) -> str | None:
    moment = in_utc(run.started_at)
    return None if moment is None else moment.date().isoformat()


_OF_RUN: Mapping[str, Callable[[Run], str | None]] = {
    "model": lambda run: run.model,
    "kind": lambda run: run.kind,
    "day": _day,
    "stop_reason": lambda run: run.stop_reason or "not ended",
}


def usage_table(*sources: Any, by: str = "model") -> UsageTable:
    """Return what runs have cost, summed by what they have in common.

    Parameters
    ----------
    *sources : Session, AgentResponse, store, or list of these
        Where the runs stand; of a response, all runs of its session; of a store, all sessions that it lists.
    by : str
        ``"model"``: as it was asked for. ``"session"``: the one that a run was made in. ``"branch"``: all that led to
        the end of a session, what it inherited included, so that rows have runs in common. ``"kind"``: ``run`` or
        ``compaction``. ``"day"``, in UTC. ``"stop_reason"``. ``"config.temperature"`` and so on: a setting.

    Returns
    -------
    UsageTable
        Shown by a notebook; ``.to_frame()``, ``.to_csv()``, ``.to_markdown()`` and ``.to_latex()`` give it to others.
        What forks share is counted once, but for what ``by="branch"`` says.

    Raises
    ------
    InputError
        A ValueError too: if a source is none of these, or there is no such `by`.

    Warns
    -----
    UserWarning
        If a session in a store cannot be read; it is left out.

    Examples
    --------
    >>> session = Session("study-1")
    >>> session.runs.append(Run(session_id="study-1", model="m", usage=Usage(1, 10, 5), cost=0.25))
    >>> print(usage_table(session, session.fork()))
    Usage by model: 2 sessions, 1 run
    <BLANKLINE>
    model  runs  steps  tokens in  tokens out     cost     time
    m         1      0         10           5  $0.2500  unknown
    """
    sessions = find_sessions(sources)
    name_of = _grouping(by, sessions)
    once = _counted(sessions, everywhere=False)
    rows = _by_session(sessions, once, by) if name_of is None else _by_name(once, name_of)
    if by == "day":
        rows.sort(key=lambda row: row.name or "")
    all_runs = tuple(entry.run for entry in once)
    return UsageTable(by, tuple(rows), UsageRow("all", all_runs, _ratings(once)), len({one.id for one in sessions}))


class _Entry(NamedTuple):
    """A run in the session that shows it."""

    session: Session
    run: Run
    ratings: list[float]


def _counted(sessions: Sequence[Session], *, everywhere: bool) -> list[_Entry]:
    annotations = Annotations.of_sessions(sessions, everywhere=everywhere)
    return [
        _Entry(part.session, run, annotations.ratings(part.session.id, run.id))
        for part in find_runs(sessions, everywhere=everywhere)
        for run in (part.items[place] for place in part.shown)
    ]


def _ratings(entries: Sequence[_Entry]) -> tuple[float, ...]:
    ratings = {entry.run.id: entry.ratings for entry in entries}  # ids that come again share theirs
    return tuple(rating for some in ratings.values() for rating in some)


def _by_session(sessions: Sequence[Session], once: list[_Entry], by: str) -> list[UsageRow]:
    distinct: dict[str, Session] = {}
    for session in sessions:  # a session and a loaded copy of it are one
        distinct.setdefault(session.id, session)
    groups: dict[str, list[_Entry]] = {session_id: [] for session_id in distinct}
    for entry in once if by == "session" else _counted(sessions, everywhere=True):
        groups[entry.session.id].append(entry)
    labels = session_labels(list(distinct.values()))
    return [
        UsageRow(label, tuple(entry.run for entry in entries), _ratings(entries), session_id)
        for label, (session_id, entries) in zip(labels, groups.items(), strict=True)
    ]


def _by_name(entries: Sequence[_Entry], name_of: Callable[[Session, Run], _Name]) -> list[UsageRow]:
    groups: dict[Any, tuple[str | None, list[_Entry]]] = {}
    for entry in entries:
        name = name_of(entry.session, entry.run)
        groups.setdefault(name.key, (name.text, []))[1].append(entry)
    return [UsageRow(name, tuple(entry.run for entry in some), _ratings(some)) for name, some in groups.values()]


class _Name(NamedTuple):
    key: Any
    """Equal for what is the same."""
    text: str | None


def _refused(by: object) -> InputError:
    known = ", ".join(map(repr, (*_OF_RUN, *OF_SESSION)))
    return InputError(
        f"usage cannot be summed by {by!r}: give {known}, or a setting such as {_SETTING + 'temperature'!r}"
    )


def _grouping(by: str, sessions: Sequence[Session]) -> Callable[[Session, Run], _Name] | None:
    """Return what names the row that a run belongs to, or None if that is its session."""
    if not isinstance(by, str):
        raise _refused(by)
    if by in OF_SESSION:
        return None
    if by in _OF_RUN:
        of_run = _OF_RUN[by]
        return lambda _, run: _Name(name := of_run(run), name)
    setting = by.removeprefix(_SETTING)
    if setting == by or not (
        setting in AgentConfig.model_fields
        or any(setting in config for session in sessions for config in session.configs.values())
    ):
        raise _refused(by)

    def of_setting(session: Session, run: Run) -> _Name:
        config = session.configs.get(run.config) if run.config is not None else None
        if config is None:
            return _Name((), None)
        value = config.get(setting)
        return _Name((_DEFAULT,), _DEFAULT) if value is None else _Name(setting_key(value), setting_text(value))

    return of_setting
