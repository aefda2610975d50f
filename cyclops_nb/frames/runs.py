"""One row a run, and the settings in which runs differ.

Settings are columns only where they differ among the rows: what one varied stands beside what it cost, and the many
settings that were the same for all do not hide it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cyclops_nb.frames.columns import Columns, make_column, make_frame, tokens
from cyclops_nb.frames.sources import Holders, find_sessions
from cyclops_nb.runs import Run
from cyclops_nb.session import Session

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["runs_frame"]

_RUN_COLUMNS: Columns = {
    "session_id": "string",
    "index": "Int64",
    "run_id": "string",
    "kind": ("run", "compaction"),
    "model": "string",
    "config": "string",
    "started_at": "time",
    "duration": "Float64",
    "steps": "Int64",
    "requests": "Int64",
    "input_tokens": "Int64",
    "output_tokens": "Int64",
    "cached_tokens": "Int64",
    "reasoning_tokens": "Int64",
    "cost": "Float64",
    "usage_complete": "boolean",
    "stop_reason": "string",
    "error": "string",
    "warnings": "string",
    "inherited": "boolean",
}


_INT64 = range(-(2**63), 2**63)


def runs_frame(*sources: Any, inherited: bool = False) -> pd.DataFrame:
    """Return a DataFrame with one row for each run.

    Parameters
    ----------
    *sources : Session, AgentResponse, or list of these
        Where the runs stand; of a response, all runs of its session.
    inherited : bool
        Show runs that sessions share by forking in each of them. By default a run is shown once: in the session that
        it was made in, or, where that is not among the sources, in the first that has it.

    Returns
    -------
    pandas.DataFrame
        In the order of the sources, with the columns

        ====================  ===================  ============================================================
        session_id            string               the session that the row stands in
        index                 Int64                place in ``session.runs``
        run_id                string
        kind                  category             ``run`` or ``compaction``
        model                 string
        config                string               key into ``session.configs``
        started_at            datetime64[us, UTC]
        duration              Float64              seconds
        steps                 Int64
        requests              Int64                completions that reported their usage
        input_tokens          Int64                the cached ones included
        output_tokens         Int64                the reasoning included
        cached_tokens         Int64
        reasoning_tokens      Int64
        cost                  Float64              dollars
        usage_complete        boolean              False: the run used more than it could report
        stop_reason           string               ``<NA>`` while the run goes on
        error                 string               class and text
        warnings              string               joined by ``"; "``
        inherited             boolean              whether the run was made in another session
        ``config.<setting>``  boolean, Int64,      for each setting that differs among the rows; lists and
                              Float64 or string    objects as JSON text
        ====================  ===================  ============================================================

        The usage columns are ``<NA>`` for a run that reported none.

    Raises
    ------
    InputError
        If a source is none of these.

    Examples
    --------
    >>> session = Session("study-1")
    >>> session.runs.append(Run(session_id="study-1", model="m", usage=Usage(1, 10, 5)))
    >>> frame = runs_frame(session, session.fork())
    >>> len(frame), int(frame["input_tokens"].sum())
    (1, 10)
    """
    sessions = list(find_sessions(sources))
    holders = Holders(inherited)
    rows: list[dict[str, Any]] = []
    settings: list[Mapping[str, Any] | None] = []
    for session in sessions:
        holders.note(session, ((run.id, run.session_id != session.id) for run in tuple(session.runs)))
    for session in sessions:
        for index, run in enumerate(tuple(session.runs)):
            if holders.shows(session, run.id):
                rows.append(_run_row(session, index, run))
                settings.append(session.configs.get(run.config) if run.config is not None else None)
    frame = make_frame(rows, _RUN_COLUMNS)
    for name in _differing(settings):
        frame[f"config.{name}"] = _setting_column([None if item is None else item.get(name) for item in settings])
    return frame


def _run_row(session: Session, index: int, run: Run) -> dict[str, Any]:
    return {
        "session_id": session.id,
        "index": index,
        "run_id": run.id,
        "kind": run.kind,
        "model": run.model,
        "config": run.config,
        "started_at": run.started_at,
        "duration": run.duration,
        "steps": run.steps,
        "requests": None if run.usage is None else run.usage.requests,
        **tokens(run.usage),
        "cost": run.cost,
        "usage_complete": run.usage_complete,
        "stop_reason": run.stop_reason,
        "error": None if run.error is None else f"{run.error.type}: {run.error.message}",
        "warnings": "; ".join(run.warnings) or None,
        "inherited": run.session_id != session.id,
    }


def _differing(settings: Iterable[Mapping[str, Any] | None]) -> list[str]:
    """Return the names of settings that are not the same in all rows whose settings are known."""
    known = [item for item in settings if item is not None]
    names = dict.fromkeys(name for item in known for name in item)
    return [name for name in names if len({_as_key(item.get(name)) for item in known}) > 1]


def _as_key(value: Any) -> Any:
    if value is None or _is_number(value):
        return value  # 0 and 0.0 are one setting
    return _as_json(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _setting_column(values: list[Any]) -> pd.Series[Any]:
    given = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in given):
        return make_column(values, "boolean")
    if all(_is_number(value) for value in given):
        if not all(isinstance(value, int) for value in given):
            return make_column(values, "Float64")
        if all(value in _INT64 for value in given):
            return make_column(values, "Int64")
    return make_column(
        [value if value is None or isinstance(value, str) else _as_json(value) for value in values], "string"
    )
