"""What a session store is, and what it tells about the sessions in it.

The protocol has the four methods that a run needs and no more, so that a class around any database fits. Listing is
what the stores of this library can do beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, SupportsIndex, TypeGuard, overload, runtime_checkable

from cyclops_nb.displayable import Displayable
from cyclops_nb.messages import Message, UserMessage
from cyclops_nb.session import Parent, Session
from cyclops_nb.usage import Usage
from cyclops_nb.values import Text, Timestamp, Value, now

__all__ = [
    "SessionInfo",
    "SessionInfos",
    "SessionStore",
    "first_asked",
    "first_question",
    "is_session_store",
    "newest_first",
    "session_info",
]

_TITLE_LENGTH = 80


@runtime_checkable
class SessionStore(Protocol):
    """Keeps sessions between runs or processes.

    Any class with these four methods is one; there is nothing to inherit. A store keeps what it is given at the time
    of the call: later changes of the session in memory must not reach it, and each `load` gives a session of its own.

    Examples
    --------
    >>> from cyclops_nb.stores import InMemorySessionStore
    >>> isinstance(InMemorySessionStore(), SessionStore)
    True
    """

    async def load(self, session_id: str) -> Session | None:
        """Return the session stored under `session_id`, or None if there is none."""
        ...

    async def save(self, session: Session) -> None:
        """Store `session` in place of what stands under its id."""
        ...

    async def add_messages(self, session: Session, messages: Sequence[Message]) -> None:
        """Add `messages` to the end of a session saved before, and store its usage.

        `messages` may be empty: then only the session's runs are new.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Remove the session stored under `session_id`, if there is one."""
        ...


def is_session_store(value: object) -> TypeGuard[SessionStore]:
    """Return whether a value is a store, and no class of stores."""
    return not isinstance(value, type) and isinstance(value, SessionStore)


class SessionInfo(Displayable, Value):
    """What a store tells about a session without loading it.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> SessionInfo(id="study-1", title="First try", updated_at=datetime.now(UTC)).title
    'First try'
    """

    id: Text
    title: Text = ""
    """The session's title, or else its first question, cut; empty if nothing was asked."""
    message_count: int = 0
    run_count: int = 0
    """Runs recorded in it, inherited ones included."""
    usage: Usage | None = None
    """Tokens of all runs; None once any of them reported none."""
    cost: float | None = None
    """Dollars of all runs; None if any of them is unknown."""
    updated_at: Timestamp
    """When it was last stored."""
    parent: Parent | None = None
    """Where it left the session that it is a fork of."""
    path: Path | None = None
    """Its file, for a store that keeps files."""
    backup: bool = False
    """Whether it is an older conversation that was kept when another one took its id."""


class SessionInfos(Displayable, list[SessionInfo]):
    """What a store lists: a `list` like any other, which a notebook shows as a table.

    Examples
    --------
    >>> SessionInfos() == []
    True
    """

    __slots__ = ()

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> SessionInfo: ...
    @overload
    def __getitem__(self, key: slice, /) -> SessionInfos: ...
    def __getitem__(self, key: SupportsIndex | slice, /) -> SessionInfo | SessionInfos:
        """Return one of them, or some of them as such a list."""
        return SessionInfos(super().__getitem__(key)) if isinstance(key, slice) else super().__getitem__(key)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002 - IPython's protocol
        """Show what a notebook gets as plain text; IPython would print any list by the reprs of what is in it."""
        printer.text(self._repr_mimebundle_()["text/plain"])


def first_question(messages: Iterable[object]) -> str:
    """Return the first question among `messages` on one line and cut, or an empty text.

    Examples
    --------
    >>> first_question([UserMessage("Why is the sky blue?")])
    'Why is the sky blue?'
    """
    for message in messages:
        if isinstance(message, UserMessage) and message.text.strip():
            line = " ".join(message.text[: 20 * _TITLE_LENGTH].split())
            return line if len(line) <= _TITLE_LENGTH else line[: _TITLE_LENGTH - 1].rstrip() + "…"
    return ""


def first_asked(messages: Iterable[object]) -> int | None:
    """Return the index of the message that holds the first question, or None.

    Examples
    --------
    >>> first_asked([UserMessage(" "), UserMessage("Why is the sky blue?")])
    1
    """
    return next((index for index, message in enumerate(messages) if first_question([message])), None)


def session_info(session: Session, message_count: int, question: str) -> SessionInfo:
    """Return what there is to tell about `session`, stored just now, of which the messages need not be all there."""
    return SessionInfo(
        id=session.id,
        title=str(session.title or question),
        message_count=message_count,
        run_count=len(session.runs),
        usage=session.usage,
        cost=session.cost,
        updated_at=now(),
        parent=session.parent,
    )


def newest_first(infos: Iterable[SessionInfo]) -> SessionInfos:
    """Return `infos` in the order in which stores list them."""
    return SessionInfos(sorted(infos, key=lambda info: (-info.updated_at.timestamp(), info.id)))
