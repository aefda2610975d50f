"""Branches that somebody explores: which there are, which one is current, and what can be done at each message. Pure.

Nothing here knows of widgets, threads, models or files. A transition returns what has changed, and leaves everything
as it was when it is refused. No message is ever lost by one, but by `delete` and by a `truncate` that is told so: what
an edit, a retry or a cut leaves out stays in another branch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from cyclops_nb import transcript
from cyclops_nb.display.content_keys import common_prefix
from cyclops_nb.errors import InputError, SessionNotFoundError, TranscriptError
from cyclops_nb.messages import AssistantMessage, InputPart, Message, TextPart, ToolMessage, UserMessage
from cyclops_nb.render.text import one_line
from cyclops_nb.render.words import short_id
from cyclops_nb.session import Parent, Session, check_free
from cyclops_nb.stores.base import SessionInfo, first_question

__all__ = ["Actions", "BranchSet", "Entry", "titled"]

_NUMBERED = re.compile(r" \((\d+)\)\Z")
_TITLE = 60


@dataclass(frozen=True)
class Actions:
    """What can be done at a message: nothing that would part a call from its result."""

    fork: bool = False
    truncate: bool = False
    edit: bool = False
    retry: bool = False


@dataclass
class Entry:
    """A branch: a session, or what a store tells of one that was not needed yet."""

    value: Session | SessionInfo
    code: tuple[str, ...] = ()
    """The Python that gives it, a statement each."""
    name: str = "session"
    """What that Python calls it."""
    draft: str = ""
    """What was typed and not sent."""

    @property
    def id(self) -> str:
        """The id of the session."""
        return self.value.id


def titled(value: Session | SessionInfo) -> str:
    """Return what a branch is called: its title, or its first question, or the beginning of its id.

    Examples
    --------
    >>> titled(Session("trip", title="To Rome")), titled(Session("trip"))
    ('To Rome', 'trip')
    """
    title = value.title or (first_question(value.messages) if isinstance(value, Session) else "")
    return one_line(title, _TITLE) if title and title.strip() else short_id(value.id)


@dataclass
class BranchSet:
    """The branches, in the order in which they came, and the current one.

    Parameters
    ----------
    entries : dict of str to Entry
        At least one, by the id of the session.
    current : str
        The id of the one that is seen.

    Examples
    --------
    >>> branches = BranchSet({"a": Entry(Session("a", title="Trip"))}, "a")
    >>> branches.session.messages.append(UserMessage("Hello"))
    >>> branches.fork(0).title
    'Trip (2)'
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    current: str = ""
    _made: int = 0
    """How many branches were given a name of their own in code."""

    @property
    def entry(self) -> Entry:
        """The current branch."""
        return self.entries[self.current]

    @property
    def session(self) -> Session:
        """The session of the current branch."""
        return self.loaded(self.current)

    @property
    def sessions(self) -> list[Session]:
        """The sessions of all branches that are loaded."""
        return [entry.value for entry in self.entries.values() if isinstance(entry.value, Session)]

    def loaded(self, session_id: str | None) -> Session:
        """Return the session of a branch that is loaded; of the current one for None."""
        value = self.find(session_id).value
        if not isinstance(value, Session):
            raise SessionNotFoundError(f"branch {value.id!r} is not loaded yet: switch({value.id!r}) loads it")
        return value

    def find(self, session_id: str | None) -> Entry:
        """Return the branch of an id; the current one for None."""
        wanted = self.current if session_id is None else session_id
        _check(wanted, str, "a session, or its id,")
        entry = self.entries.get(wanted)
        if entry is None:
            raise SessionNotFoundError(f"there is no branch {session_id!r} here: there are {', '.join(self.entries)}")
        return entry

    def actions(self, first: int, last: int | None = None) -> Actions:
        """Return what can be done at the message with an index, the last of whose results stands at another."""
        messages = self.session.messages
        last = first if last is None else last
        message = messages[first]
        whole = not transcript.open_calls(messages[: last + 1])
        before = not transcript.open_calls(messages[:first])
        calls = isinstance(message, AssistantMessage) and bool(message.tool_calls)
        return Actions(
            fork=(whole and not isinstance(message, ToolMessage)) or (whole and last + 1 == len(messages)),
            truncate=before and not isinstance(message, ToolMessage),
            edit=before and not calls and not isinstance(message, ToolMessage),
            retry=self._question(first) is not None and not isinstance(message, ToolMessage),
        )

    def add(self, session: Session, code: Iterable[str] = (), name: str = "session") -> Session:
        """Take in a session, in place of what a store told of it if that is there, and return it."""
        _check(session, Session, "a branch")
        entry = self.entries.setdefault(session.id, Entry(session, tuple(code), name))
        entry.value = session
        return session

    def reread(self, stored: Session) -> Session | None:
        """Make the session of a branch what is stored of it, unless that is only older.

        Returns a new branch with what was here, if it would be lost by that: the two have parted.
        """
        entry = self.find(stored.id)
        here = self.loaded(stored.id)
        place = common_prefix([here.messages, stored.messages])
        if here.busy or here == stored or place == len(stored.messages) < len(here.messages):
            return None
        kept = None
        if place < len(here.messages):
            kept = here.fork(title=self._new_title(here))
            kept.parent = Parent(session_id=here.id, message_count=place)
            variable = self._name()
            self.add(kept, (*entry.code, f"{variable} = {entry.name}.fork()"), variable)
        for name in Session.model_fields:
            setattr(here, name, getattr(stored, name))
        return kept

    def switch(self, session_id: str) -> Entry:
        """Make a branch the current one."""
        entry = self.find(session_id)
        self.current = entry.id
        return entry

    def fork(self, index: int | None = None) -> Session:
        """Return a new branch, the current one now, that keeps the message at `index` and what is before it."""
        session = self.session
        at = None if index is None else self._place(index) + 1
        new = session.fork(at=at, title=self._new_title())
        return self._begun(new, f"{self.entry.name}.fork({'' if at is None else f'at={at}'})")

    def edit(self, index: int, text: str) -> Session:
        """Return a new branch, the current one now, in which the text of a message is another and nothing follows it.

        What is no text in the message, images and files, stays in it.
        """
        session = self.session
        place = self._place(index)
        _check(text, str, "the text of a message")
        message = session.messages[place]
        if isinstance(message, ToolMessage) or (isinstance(message, AssistantMessage) and message.tool_calls):
            raise TranscriptError(
                f"message {place} cannot be edited: a tool call and its result belong together; edit the question, "
                "or an answer that calls no tool"
            )
        content = _with_text(message, text)
        new = session.edit(place, content)
        new.title = self._new_title()
        shown = repr(text) if len(content) <= 1 else f"[{text!r}, *{self.entry.name}.messages[{place}].content[1:]]"
        return self._begun(new, f"{self.entry.name}.edit({place}, {shown})")

    def retry(self, index: int) -> Session:
        """Return a new branch, the current one now, that ends with the question before the message at `index`."""
        place = self._question(self._place(index))
        if place is None:
            raise TranscriptError(f"there is no question before message {index} that could be asked again")
        return self.fork(place)

    def truncate(self, index: int, *, keep: bool = True) -> Session | None:
        """Cut the current branch before `index`; return the branch that keeps what was there, if something was cut."""
        session = self.session
        _check(index, int, "an index")
        whole = session.fork(title=self._new_title()) if keep else None
        length = len(session.messages)
        session.truncate(index)
        cut = len(session.messages)
        if cut == length:
            return None
        self._note(f"{self.entry.name}.truncate({cut})")
        if whole is not None and whole.parent is not None:
            whole.parent = whole.parent.model_copy(update={"message_count": cut})
            name = self._name()
            before = self.entry.code[:-1]
            self.add(whole, (*before, f"{name} = {self.entry.name}.fork()"), name)
        return whole

    def rename(self, title: str, session_id: str | None = None) -> Session:
        """Give a branch another title; none for an empty text."""
        session = self.loaded(session_id)
        _check(title, str, "a title")
        check_free(session)
        session.title = title.strip() or None
        return session

    def delete(self, session_id: str | None = None) -> Entry:
        """Take out a branch; its parent, or else the one before it, is current then if it was."""
        entry = self.find(session_id)
        if len(self.entries) == 1:
            raise InputError(f"{titled(entry.value)!r} is the only branch here and stays")
        if isinstance(entry.value, Session):
            check_free(entry.value)
        order = list(self.entries)
        del self.entries[entry.id]
        if self.current == entry.id:
            above = entry.value.parent.session_id if entry.value.parent else ""
            self.current = above if above in self.entries else order[max(order.index(entry.id) - 1, 0)]
            if self.current not in self.entries:
                self.current = next(iter(self.entries))
        return entry

    def asked(self, text: str | None) -> None:
        """Note that the current branch was asked something, or to answer what stands at its end."""
        question = "" if text is None else f"{text!r}, "
        self._note(f"agent.run({question}session={self.entry.name})")
        self.entry.draft = ""

    def _note(self, statement: str) -> None:
        self.entry.code = (*self.entry.code, statement)

    def _begun(self, new: Session, expression: str) -> Session:
        name = self._name()
        self.add(new, (*self.entry.code, f"{name} = {expression}"), name)
        self.current = new.id
        return new

    def _name(self) -> str:
        self._made += 1
        return "branch" if self._made == 1 else f"branch_{self._made}"

    def _new_title(self, origin: Session | None = None) -> str:
        """Return a title that no branch has: that of the origin, or of the current one, with the next number."""
        base = _NUMBERED.sub("", titled(self.session if origin is None else origin))
        taken = {titled(entry.value) for entry in self.entries.values()}
        number = 2
        while f"{base} ({number})" in taken:
            number += 1
        return f"{base} ({number})"

    def _place(self, index: int) -> int:
        count = len(self.session.messages)
        _check(index, int, "an index")
        if not -count <= index < count:
            raise TranscriptError(f"there is no message {index}: the session has {count}")
        return index % count

    def _question(self, index: int) -> int | None:
        """Return where the question stands that the message at `index` is, or answers."""
        messages = self.session.messages
        place = next((at for at in range(index, -1, -1) if isinstance(messages[at], UserMessage)), None)
        return None if place is None or transcript.open_calls(messages[: place + 1]) else place


def _check(given: object, kind: type, what: str) -> None:
    """Refuse what cannot be meant, before anything is changed."""
    if not isinstance(given, kind):
        raise InputError(f"{what} must be of type {kind.__name__}, not {type(given).__name__}: {given!r:.80}")


def _with_text(message: Message, text: str) -> list[InputPart]:
    """Return the content of a message with another text, before what is no text in it."""
    rest = [part for part in message.content if not isinstance(part, TextPart)] if message.role == "user" else []
    return [TextPart(text), *rest] if text.strip() or not rest else list(rest)
