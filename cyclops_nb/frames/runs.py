"""One row a run, and the settings in which runs differ.

Settings are columns only where they differ among the rows: what one varied stands beside what it cost, and the many
settings that were the same for all do not hide it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cyclops_nb.frames.columns import Columns, make_frame, tokens
from cyclops_nb.frames.ratings import Annotations, mean
from cyclops_nb.frames.settings import differing_settings, setting_column
from cyclops_nb.frames.sources import find_runs, find_sessions
from cyclops_nb.runs import Run

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["runs_frame"]

_COLUMNS: Columns = {
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
    "rating": "Float64",
    "inherited": "boolean",
}


def runs_frame(*sources: Any, inherited: bool = False) -> pd.DataFrame:
    """Return a DataFrame with one row for each run.

    Parameters
    ----------
    *sources : Session, AgentResponse, store, or list of these
        Where the runs stand; of a response, all runs of its session; of a store, all sessions that it lists.
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
        rating                Float64              mean of those of its messages, from ``session.annotate``
        inherited             boolean              whether the run was made in another session
        ``config.<setting>``  boolean, Int64,      for each setting that differs among the rows; lists and
                              Float64 or string    objects as JSON text
        ====================  ===================  ============================================================

        The usage columns are ``<NA>`` for a run that reported none.

    Raises
    ------
    InputError
        If a source is none of these.

    Warns
    -----
    UserWarning
        If a session in a store cannot be read; it is left out.

    Examples
    --------
    >>> session = Session("study-1")
    >>> session.runs.append(Run(session_id="study-1", model="m", usage=Usage(1, 10, 5)))
    >>> frame = runs_frame(session, session.fork())
    >>> len(frame), int(frame["input_tokens"].sum())
    (1, 10)
    """
    sessions = find_sessions(sources)
    annotations = Annotations.of_sessions(sessions, everywhere=inherited)
    rows: list[dict[str, Any]] = []
    settings: list[Mapping[str, Any] | None] = []
    for part in find_runs(sessions, everywhere=inherited):
        session = part.session
        for place in part.shown:
            run = part.items[place]
            row = _row(session.id, place, run, inherited=part.inherited[place])
            rows.append(row | {"rating": mean(annotations.ratings(session.id, run.id))})
            settings.append(session.configs.get(run.config) if run.config is not None else None)
    frame = make_frame(rows, _COLUMNS)
    for name in differing_settings(settings):
        frame[f"config.{name}"] = setting_column([None if item is None else item.get(name) for item in settings])
    return frame


def _row(session_id: str, index: int, run: Run, *, inherited: bool) -> dict[str, Any]:
    return {
        "session_id": session_id,
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
        "inherited": inherited,
    }
