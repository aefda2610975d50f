r"""The format of a stored session: JSON lines, the session first, then one line for each addition.

An addition holds what is new since the line before, so that its cost does not grow with the conversation:

``start``
    How many messages stand before it. Two writers that mixed their lines are found by it.
``messages``
    The new messages.
``runs``, ``configs``
    The records that are new or changed. A run in progress is recorded anew at each step; the last record counts.
``session``
    The session without its lists, if something of it (title, metadata, …) changed.

Each line, the first one too, ends with ``session_info``, what a list tells about the session as of that line. It is no
part of the session, and nothing but lists reads it.

Lines end at ``\n`` alone: U+2028 and its kin stand raw inside JSON texts and end nothing. A last line that is no
complete JSON is what a crash leaves, so it is left out; the same anywhere else is damage.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from cyclops_nb.errors import InputError, SessionConflictError, SessionFormatError
from cyclops_nb.messages import AnyMessage, Message
from cyclops_nb.runs import Run
from cyclops_nb.session import Session
from cyclops_nb.stores.base import SessionInfo, first_question, session_info
from cyclops_nb.stores.summaries import with_summary
from cyclops_nb.values import FrozenJson, clean_json

__all__ = ["Parsed", "Record", "encode", "parse", "snapshot", "to_info", "to_session"]

_SHOWN = 200
"""Characters of a reason that are shown: it may quote what it complains about."""
_LISTS = {"messages", "runs", "configs"}
_RECORDS = (*get_args(Message), Run)
_MESSAGES = TypeAdapter(list[AnyMessage], config=ConfigDict(defer_build=True))
_M = TypeVar("_M", bound=BaseModel)


def _is_empty(value: Any) -> bool:
    return not value


def _is_none(value: Any) -> bool:
    return value is None


class _Addition(BaseModel):
    model_config = ConfigDict(defer_build=True)

    start: int = Field(ge=0)
    messages: list[AnyMessage] = Field(default_factory=list)
    runs: list[Run] = Field(default_factory=list, exclude_if=_is_empty)
    configs: dict[str, FrozenJson] = Field(default_factory=dict, exclude_if=_is_empty)
    session: Session | None = Field(None, exclude_if=_is_none)


def snapshot(session: Session) -> Session:
    """Return a copy of `session` that no later change reaches.

    Raises
    ------
    InputError
        If its metadata holds something that cannot be copied, and so could not be stored either.
    """
    try:
        return copy.copy(session)
    except Exception as error:
        raise _unsaveable(session, _reason(error)) from error


def encode(session: Session) -> tuple[bytes, Record]:
    """Return the first line, which is the whole session, and the record of it.

    Raises
    ------
    InputError
        If it holds something that is no message, or that JSON cannot hold.
    """
    _check_records(session, [*session.messages, *session.runs])
    _check_rest(session)
    line, record = _dumped(session, session, exclude=None), Record.of(session)
    return with_summary(line, record.info, 0), record


@dataclass(frozen=True)
class Record:
    """What is known to be stored of a session: enough to tell what is new in it."""

    info: SessionInfo
    created_at: datetime
    head: str
    """The session without its lists, as JSON."""
    runs: list[Run]
    configs: dict[str, Any]
    question: str
    """What its title is while it has none of its own."""

    @classmethod
    def of(cls, session: Session) -> Record:
        """Return the record of a session that was just stored or read."""
        question = first_question(session.messages)
        return cls(
            info=session_info(session, len(session.messages), question),
            created_at=session.created_at,
            head=_head(session),
            runs=list(session.runs),
            configs=dict(session.configs),
            question=question,
        )

    def addition(self, session: Session, messages: Sequence[Message], start: int) -> tuple[bytes, Record]:
        """Return the line that adds `messages` and what else is new in `session`, and the record after it.

        Parameters
        ----------
        session : Session
            The session as it is now.
        messages : sequence of Message
            The new messages.
        start : int
            How many bytes stand before the line.

        Raises
        ------
        InputError
            If something in it cannot be stored.
        SessionConflictError
            If another conversation is stored under the id.
        """
        if session.created_at != self.created_at:
            raise SessionConflictError(
                f"another conversation is stored under the id {session.id!r} (begun {self.created_at:%Y-%m-%d %H:%M}, "
                f"this one {session.created_at:%Y-%m-%d %H:%M}), so nothing was added to it: load that one and go on "
                "with it, or save this one first"
            )
        head = _head(session)
        runs = _changed(session.runs, self.runs)
        configs = {key: value for key, value in session.configs.items() if self.configs.get(key) != value}
        _check_records(session, [*messages, *runs])
        if configs or head != self.head:
            _check_rest(session)
        count = self.info.message_count
        line = _Addition.model_construct(
            start=count,
            messages=list(messages),
            runs=runs,
            configs=configs,
            session=session if head != self.head else None,
        )
        question = self.question or first_question(messages)
        after = Record(
            info=session_info(session, count + len(messages), question),
            created_at=self.created_at,
            head=head,
            runs=list(session.runs),
            configs={**self.configs, **configs},
            question=question,
        )
        data = _dumped(line, session, exclude={"session": _LISTS})
        return with_summary(data, after.info, start), after


def _changed(runs: list[Run], known: list[Run]) -> list[Run]:
    """Return those of `runs` that are not in `known`."""
    same = max(len(known) - 1, 0)
    if runs[:same] != known[:same]:
        same = 0
    # as a rule all but the last are the very same objects, which lists find out without looking into them
    records = {run.id: run for run in known[same:]}
    return [run for run in runs[same:] if records.get(run.id) != run]


def _check_records(session: Session, records: Sequence[Any]) -> None:
    """Refuse what is no message and no run; it would be written without a word, and could not be read."""
    for record in records:
        if not isinstance(record, _RECORDS):
            raise _unsaveable(session, f"a {type(record).__name__} stands among its messages or runs")


def _check_rest(session: Session) -> None:
    """Refuse a session whose other fields could not be read: they can be set to anything."""
    try:
        Session.model_validate(_loads(_dumped(session, session, exclude={"messages", "runs"})))
    except (ValidationError, SessionFormatError) as error:
        raise _unsaveable(session, _reason(error)) from error


def _head(session: Session) -> str:
    return _dumped(session, session, exclude=_LISTS).decode()


def _dumped(model: BaseModel, session: Session, exclude: Any) -> bytes:
    """Return `model` as a line. Whatever could not be read back the same is refused here."""
    try:
        return model.model_dump_json(exclude=exclude, warnings="error").encode() + b"\n"
    except (ValueError, TypeError, RecursionError) as error:
        raise _unsaveable(session, _reason(error)) from error


def _unsaveable(session: Session, reason: str) -> InputError:
    return InputError(f"session {session.id!r} cannot be stored: {reason}")


class Parsed(NamedTuple):
    """Stored lines as JSON data."""

    lines: list[tuple[int, dict[str, Any]]]
    """The line's number, from 1, and its object."""
    end: int
    """Up to which byte the data is sound; what follows is a torn line."""
    closed: bool
    """Whether the last sound line ends with a line feed."""


def parse(data: bytes, where: str) -> Parsed:
    """Read stored lines.

    Parameters
    ----------
    data : bytes
        All that is stored of a session.
    where : str
        What to name in errors, such as the file.

    Raises
    ------
    SessionFormatError
        If a line other than the last is damaged, or there is no session at all.
    """
    lines: list[tuple[int, dict[str, Any]]] = []
    end = sound = 0
    torn: tuple[int, str] | None = None
    for number, line in enumerate(data.split(b"\n"), 1):
        end = min(end + len(line) + 1, len(data))
        if line.strip():
            if torn is not None:
                raise _damage(where, *torn)
            try:
                value = _loads(line)
            except (ValueError, RecursionError) as error:
                torn = number, f"is no complete JSON ({error})"
                continue
            if not isinstance(value, dict):
                raise _damage(where, number, f"holds a {type(value).__name__} instead of an object")
            lines.append((number, value))
        if torn is None:
            sound = end
    if not lines:
        raise _damage(where, *(torn or (1, "is missing: nothing is stored there")))
    return Parsed(lines, sound, data.endswith(b"\n", 0, sound))


def _loads(line: bytes) -> Any:
    try:
        return from_json(line)
    except ValueError:
        # the fast reader refuses deep nesting and escaped lone surrogates, which other programs write
        return clean_json(json.loads(line.decode()))


def _damage(where: str, number: int, text: str) -> SessionFormatError:
    return SessionFormatError(
        f"{where}, line {number}, {text}: the stored session is damaged there and was left untouched; "
        "mend the line by hand, or move the file away"
    )


def to_session(parsed: Parsed, session_id: str | None, where: str) -> Session:
    """Return the session that stored lines hold; with a `session_id`, only if that is its id.

    Raises
    ------
    SessionFormatError
        If a line holds no session data, or another session's, or is of a format that is not known.
    """
    session, messages = _assemble(parsed, session_id, where)
    session.messages = [message for line in messages for message in line.read(where)]
    return session


def to_info(parsed: Parsed, session_id: str, where: str) -> SessionInfo:
    """Return what a list tells about the session that stored lines hold, whatever their summaries say.

    Raises what `to_session` raises, but only for the first question among the messages.
    """
    session, messages = _assemble(parsed, session_id, where)
    question = ""
    for line in messages:
        raw = next((m for m in line.raw if isinstance(m, dict) and _asks(m)), None)
        if raw is not None:
            question = first_question(_RawMessages(line.number, [raw]).read(where))
            break
    return session_info(session, sum(len(line.raw) for line in messages), question)


def _asks(message: dict[str, Any]) -> bool:
    """Whether raw message data is a user's and holds some text."""
    content = message.get("content")
    return message.get("role") == "user" and any(
        isinstance(part, dict) and isinstance(part.get("text"), str) and part["text"].strip()
        for part in (content if isinstance(content, list) else ())
    )


class _RawMessages(NamedTuple):
    number: int
    raw: list[Any]

    def read(self, where: str) -> list[Message]:
        try:
            return _MESSAGES.validate_python(self.raw)
        except (ValidationError, RecursionError) as error:
            raise _damage(where, self.number, f"holds what is no message ({_reason(error)})") from error


def _assemble(parsed: Parsed, session_id: str | None, where: str) -> tuple[Session, list[_RawMessages]]:
    """Return the session without messages, and its messages as they are stored, line by line."""
    (number, first), *rest = parsed.lines
    messages = [_take_messages(first, number, where)]
    session = _validated(Session, first, number, where)
    session_id = session_id or session.id
    _check_owner(session, session_id, number, where)
    count = len(messages[0].raw)
    runs, configs = session.runs, session.configs
    places = {run.id: place for place, run in enumerate(runs)}
    for number, line in rest:
        messages.append(_take_messages(line, number, where))
        addition = _validated(_Addition, line, number, where)
        if addition.start != count:
            text = f"starts at message {addition.start}, but {count} stand before it (two writers, or a lost line)"
            raise _damage(where, number, text)
        count += len(messages[-1].raw)
        if addition.session is not None:
            session = addition.session
            _check_owner(session, session_id, number, where)
        for run in addition.runs:
            place = places.setdefault(run.id, len(runs))
            runs[place : place + 1] = [run]  # in its place, or at the end
        configs.update(addition.configs)
    session.runs, session.configs = runs, configs
    return session, messages


def _take_messages(data: dict[str, Any], number: int, where: str) -> _RawMessages:
    raw = data.pop("messages", [])
    if not isinstance(raw, list):
        raise _damage(where, number, f"has messages that are a {type(raw).__name__} instead of a list")
    return _RawMessages(number, raw)


def _check_owner(session: Session, session_id: str, number: int, where: str) -> None:
    if session.id != session_id:
        raise SessionFormatError(
            f"{where}, line {number}, holds the session {session.id!r}, not {session_id!r}: "
            "a stored session keeps the id inside it, so give the file its own name back"
        )


def _validated(model: type[_M], data: dict[str, Any], number: int, where: str) -> _M:
    try:
        return model.model_validate(data)
    except (ValidationError, RecursionError) as error:
        raise _damage(where, number, f"is no part of a session ({_reason(error)})") from error
    except SessionFormatError as error:
        raise SessionFormatError(f"{where}, line {number}: {error}") from error


def _reason(error: Exception) -> str:
    """Return what is wrong, without the layers that pydantic puts around it."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return f"{'.'.join(str(step) for step in first['loc'])}: {first['msg'][:_SHOWN]}"
    return str(error).rpartition("Error: ")[2].strip()[:_SHOWN]
