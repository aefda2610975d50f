"""Sessions as DataFrames: one row a run, or one row a message.

Every column has a documented dtype which is the same for no rows at all, so that frames of different days can be put
together. Unknown is ``<NA>`` and never 0. What forks share is counted once: the sum of a column is then what was
really spent, however often a conversation was forked.

pandas is loaded on first use, since a script that only asks a model should not wait for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Any, TypeAlias

from cyclops_nb.errors import InputError
from cyclops_nb.messages import AssistantMessage, FilePart, ImagePart, Message, ToolMessage
from cyclops_nb.runs import Run
from cyclops_nb.session import Session
from cyclops_nb.usage import Usage

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["messages_frame", "runs_frame"]

_Columns: TypeAlias = Mapping[str, str | tuple[str, ...]]

_RUN_COLUMNS: _Columns = {
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
_MESSAGE_COLUMNS: _Columns = {
    "session_id": "string",
    "index": "Int64",
    "message_id": "string",
    "run_id": "string",
    "role": ("user", "assistant", "tool", "summary"),
    "created_at": "time",
    "text": "string",
    "reasoning": "string",
    "tool_calls": "Int64",
    "call_id": "string",
    "tool_name": "string",
    "status": ("ok", "error", "cancelled"),
    "model": "string",
    "finish_reason": "string",
    "input_tokens": "Int64",
    "output_tokens": "Int64",
    "cached_tokens": "Int64",
    "reasoning_tokens": "Int64",
    "cost": "Float64",
    "duration": "Float64",
    "images": "Int64",
    "files": "Int64",
    "bytes": "Int64",
    "inherited": "boolean",
}
_TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
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
    sessions = list(_sessions(sources))
    holders = _Holders(inherited)
    rows: list[dict[str, Any]] = []
    settings: list[Mapping[str, Any] | None] = []
    for session in sessions:
        holders.note(session, ((run.id, run.session_id != session.id) for run in tuple(session.runs)))
    for session in sessions:
        for index, run in enumerate(tuple(session.runs)):
            if holders.shows(session, run.id):
                rows.append(_run_row(session, index, run))
                settings.append(session.configs.get(run.config) if run.config is not None else None)
    frame = _frame(rows, _RUN_COLUMNS)
    for name in _differing(settings):
        frame[f"config.{name}"] = _setting_column([None if item is None else item.get(name) for item in settings])
    return frame


def messages_frame(*sources: Any, inherited: bool = False) -> pd.DataFrame:
    """Return a DataFrame with one row for each message.

    Parameters
    ----------
    *sources : Session, AgentResponse, or list of these
        Where the messages stand; of a response, all messages of its session.
    inherited : bool
        Show messages that sessions share by forking in each of them. By default a message is shown once: in the
        session that it was said in, or, where that is not among the sources, in the first that has it.

    Returns
    -------
    pandas.DataFrame
        In the order of the sources, with the columns

        ================  ===================  ================================================================
        session_id        string               the session that the row stands in
        index             Int64                place in ``session.messages``
        message_id        string
        run_id            string               the run that put it there
        role              category             ``user``, ``assistant``, ``tool`` or ``summary``
        created_at        datetime64[us, UTC]
        text              string               all text parts put together
        reasoning         string               of answers; ``<NA>`` if there is none
        tool_calls        Int64                how many calls an answer has
        call_id           string               of tool results: the call that is answered
        tool_name         string               of tool results
        status            category             of tool results: ``ok``, ``error`` or ``cancelled``
        model             string               of answers
        finish_reason     string               of answers
        input_tokens      Int64                of answers; the cached ones included
        output_tokens     Int64                of answers; the reasoning included
        cached_tokens     Int64                of answers
        reasoning_tokens  Int64                of answers
        cost              Float64              of answers: dollars
        duration          Float64              of answers and tool results: seconds
        images            Int64                how many pictures are in it
        files             Int64                how many files are in it
        bytes             Int64                size of these pictures and files
        inherited         boolean              whether it came from the session that this one was forked from
        ================  ===================  ================================================================

        What a message does not have is ``<NA>``. The data of pictures and files is never in the frame.

    Raises
    ------
    InputError
        If a source is none of these.

    Examples
    --------
    >>> session = Session("study-1")
    >>> session.messages.extend([UserMessage("Hello"), AssistantMessage("Hi!")])
    >>> messages_frame(session)[["index", "text"]].values.tolist()
    [[0, 'Hello'], [1, 'Hi!']]
    """
    contents = [(session, tuple(session.messages), _inherited_runs(session)) for session in _sessions(sources)]
    holders = _Holders(inherited)
    for session, messages, runs in contents:
        flags = (_is_inherited(session, index, message, runs) for index, message in enumerate(messages))
        holders.note(session, zip((message.id for message in messages), flags, strict=True))
    rows = [
        _message_row(session, index, message, inherited=_is_inherited(session, index, message, runs))
        for session, messages, runs in contents
        for index, message in enumerate(messages)
        if holders.shows(session, message.id)
    ]
    return _frame(rows, _MESSAGE_COLUMNS)


class _Holders:
    """Decides which session shows what several have: the one it was made in, else the first."""

    def __init__(self, everywhere: bool) -> None:
        self._everywhere = everywhere
        self._first: dict[str, int] = {}
        self._own: dict[str, int] = {}
        self._in_session: dict[tuple[str, str], int] = {}

    def note(self, session: Session, items: Iterable[tuple[str, bool]]) -> None:
        """Take the ids of what a session holds, and whether each is inherited."""
        for item_id, inherited in items:
            self._first.setdefault(item_id, id(session))
            self._in_session.setdefault((session.id, item_id), id(session))
            if not inherited:
                self._own.setdefault(item_id, id(session))

    def shows(self, session: Session, item_id: str) -> bool:
        """Return whether `session` shows the item."""
        if self._everywhere:  # a session and a loaded copy of it are one
            return self._in_session.get((session.id, item_id)) == id(session)
        return self._own.get(item_id, self._first.get(item_id)) == id(session)


def _sessions(sources: Iterable[Any]) -> Iterator[Session]:
    """Yield each session of the sources once."""
    seen: set[int] = set()
    for session in _flattened(sources):
        if id(session) not in seen:
            seen.add(id(session))
            yield session


def _flattened(sources: Iterable[Any]) -> Iterator[Session]:
    for source in sources:
        if isinstance(source, Session):
            yield source
        elif isinstance(getattr(source, "session", None), Session):
            yield source.session
        elif isinstance(source, Iterable) and not isinstance(source, str | bytes | Mapping):
            yield from _flattened(source)
        else:
            raise InputError(
                f"a {type(source).__name__} has no runs or messages to show: give sessions, responses of an agent, "
                "or lists of these"
            )


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
        **_tokens(run.usage),
        "cost": run.cost,
        "usage_complete": run.usage_complete,
        "stop_reason": run.stop_reason,
        "error": None if run.error is None else f"{run.error.type}: {run.error.message}",
        "warnings": "; ".join(run.warnings) or None,
        "inherited": run.session_id != session.id,
    }


def _message_row(session: Session, index: int, message: Message, *, inherited: bool) -> dict[str, Any]:
    row = {
        "session_id": session.id,
        "index": index,
        "message_id": message.id,
        "run_id": message.run_id,
        "role": message.role,
        "created_at": message.created_at,
        "text": message.text,
        "images": sum(isinstance(part, ImagePart) for part in message.content),
        "files": sum(isinstance(part, FilePart) for part in message.content),
        "bytes": sum(_decoded_size(part) for part in message.content if isinstance(part, ImagePart | FilePart)),
        "inherited": inherited,
    }
    if isinstance(message, AssistantMessage):
        row |= {
            "reasoning": message.reasoning or None,
            "tool_calls": len(message.tool_calls),
            "model": message.model,
            "finish_reason": message.finish_reason,
            "cost": message.cost,
            "duration": message.duration,
            **_tokens(message.usage),
        }
    elif isinstance(message, ToolMessage):
        row |= {
            "call_id": message.call_id,
            "tool_name": message.name,
            "status": message.status,
            "duration": message.duration,
        }
    return row


def _tokens(usage: Usage | None) -> dict[str, int | None]:
    return {name: None if usage is None else getattr(usage, name) for name in _TOKENS}


def _inherited_runs(session: Session) -> dict[str, bool]:
    return {run.id: run.session_id != session.id for run in tuple(session.runs)}


def _is_inherited(session: Session, index: int, message: Message, runs: Mapping[str, bool]) -> bool:
    """Say whether a message is the origin's: by its run, which holds after a compaction too, else by its place."""
    known = None if message.run_id is None else runs.get(message.run_id)
    if known is not None:
        return known
    return session.parent is not None and index < session.parent.message_count


def _decoded_size(part: ImagePart | FilePart) -> int:
    """Return how many bytes a part's base64 stands for, without decoding it."""
    data = part.data or ""
    if data.startswith("data:"):
        data = data.partition(",")[2]
    return (len(data) - sum(map(data.count, "=\n\r\t "))) * 3 // 4


def _frame(rows: list[dict[str, Any]], columns: _Columns) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({name: _column([row.get(name) for row in rows], dtype) for name, dtype in columns.items()})


def _column(values: list[Any], dtype: str | tuple[str, ...]) -> pd.Series[Any]:
    import pandas as pd

    if isinstance(dtype, tuple):
        return pd.Series(values, dtype=pd.CategoricalDtype(list(dtype)))
    if dtype == "time":
        moments = [value.astimezone(UTC).replace(tzinfo=None) for value in values]
        return pd.Series(moments, dtype="datetime64[us]").dt.tz_localize("UTC")
    return pd.Series(values, dtype=dtype)


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
        return _column(values, "boolean")
    if all(_is_number(value) for value in given):
        if not all(isinstance(value, int) for value in given):
            return _column(values, "Float64")
        if all(value in _INT64 for value in given):
            return _column(values, "Int64")
    return _column(
        [value if value is None or isinstance(value, str) else _as_json(value) for value in values], "string"
    )
