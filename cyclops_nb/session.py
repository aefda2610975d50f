"""A conversation: its transcript, and what its runs cost.

A session is plain data with a stable JSON format. Only lists and the metadata of a session can change, messages and
run records cannot, so a fork is a copy of lists and costs next to nothing however long the conversation is.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Sequence
from types import EllipsisType
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from cyclops_nb import transcript
from cyclops_nb.annotations import annotated
from cyclops_nb.displayable import Displayable
from cyclops_nb.errors import InputError, SessionBusyError, SessionFormatError, TranscriptError
from cyclops_nb.messages import AnyMessage, InputPart, ToolMessage
from cyclops_nb.runs import Run
from cyclops_nb.usage import Usage, total
from cyclops_nb.values import (
    FrozenJson,
    Memo,
    MutableJson,
    Text,
    Timestamp,
    Value,
    clean_json,
    clean_text,
    new_id,
    now,
    positional,
)

__all__ = ["FORMAT_VERSION", "STORES_FIELD", "Parent", "Session", "check_free", "claim", "release"]

FORMAT_VERSION = 1
STORES_FIELD = "session_info"
"""What a store writes beside the fields of a session, for lists; it is no part of the session."""
_CLAIMS = threading.Lock()


def _clean_title(title: Any) -> str | None:
    return None if title is None else clean_text(str(title))  # whatever was assigned: a save must not fail for a name


def _default_id(value: Any) -> Any:
    return new_id() if value is None else value


class Parent(Value):
    """Where a fork left its origin."""

    session_id: Text
    message_count: int = Field(ge=0)
    """How many messages, from the first, are the origin's."""


class Session(Displayable, BaseModel):
    """One conversation: messages, the runs that made them, and the settings of those runs.

    Pass it to a run with ``session=``; the run reads and extends it. It is a pydantic model with a stable JSON format:
    ``session.model_dump_json()`` and ``Session.model_validate_json(data)``.

    Parameters
    ----------
    id : str, optional
        The session's id; a random one by default.
    title : str, optional
        A name for people.
    metadata : dict, optional
        JSON data of yours; saved with the session.

    Raises
    ------
    InputError
        If one of them is of another type, or the id is empty.

    Examples
    --------
    >>> session = Session("study-1", title="First try")
    >>> session.messages.append(UserMessage("Hello"))
    >>> draft = session.fork()
    >>> len(draft.messages), draft.parent.session_id
    (1, 'study-1')
    """

    model_config = ConfigDict(extra="allow", defer_build=True)

    version: Literal[1] = 1
    id: Annotated[Text, BeforeValidator(_default_id)] = Field(default_factory=new_id, min_length=1)
    created_at: Timestamp = Field(default_factory=now)
    title: Annotated[Text | None, PlainSerializer(_clean_title)] = None
    metadata: MutableJson = Field(default_factory=dict)
    parent: Parent | None = None
    messages: list[AnyMessage] = Field(default_factory=list)
    configs: dict[Text, FrozenJson] = Field(default_factory=dict)
    """The settings that made the runs, by a hash of their content; never keys or headers."""
    runs: list[Run] = Field(default_factory=list)
    _claimed_by: Memo = PrivateAttr(default_factory=Memo)

    @positional
    def __init__(
        self,
        id: str | None = None,
        *,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        try:
            super().__init__(id=id, title=title, metadata={} if metadata is None else metadata, **fields)
        except ValidationError as error:
            raise InputError(f"no Session can be made of this: {_problems(error)}") from None

    @model_validator(mode="before")
    @classmethod
    def _checked_data(cls, data: Any) -> Any:
        version = data.get("version", FORMAT_VERSION) if isinstance(data, dict) else FORMAT_VERSION
        if type(version) is not int or version != FORMAT_VERSION:
            is_newer = type(version) is int and version > FORMAT_VERSION
            raise SessionFormatError(
                f"the session has format version {version!r}, but this cyclops_nb reads version {FORMAT_VERSION}: "
                + (
                    "a newer cyclops_nb wrote it, install that one"
                    if is_newer
                    else "the data is damaged, or not a session"
                )
            )
        if isinstance(data, dict) and STORES_FIELD in data:
            return {name: value for name, value in data.items() if name != STORES_FIELD}
        return data

    def model_post_init(self, _context: Any, /) -> None:
        """Make the text of unknown fields such that it can be saved."""
        if self.__pydantic_extra__:
            object.__setattr__(self, "__pydantic_extra__", clean_json(self.__pydantic_extra__))

    def __copy__(self) -> Session:
        """Return a copy under the same id that shares no list with this session and is in no run."""
        values = {
            "messages": list(self.messages),
            "runs": list(self.runs),
            "configs": dict(self.configs),
            "metadata": copy.deepcopy(self.metadata),
        }
        unknown = copy.deepcopy(self.__pydantic_extra__) or {}
        new = self.model_construct(**{**self.__dict__, **unknown, **values})
        new.__pydantic_fields_set__.update(self.__pydantic_fields_set__)
        return new

    @property
    def busy(self) -> bool:
        """Whether a run is extending the session right now."""
        return self._claimed_by.value is not None

    @property
    def usage(self) -> Usage | None:
        """Tokens of all runs, inherited ones included; None once any of them reported none."""
        return total(run.usage for run in self.runs)

    @property
    def cost(self) -> float | None:
        """Dollars of all runs, inherited ones included; None if any of them is unknown."""
        return _sum_costs(self.runs)

    @property
    def own_usage(self) -> Usage | None:
        """Like `usage`, without what a fork inherited."""
        return total(run.usage for run in self._own_runs())

    @property
    def own_cost(self) -> float | None:
        """Like `cost`, without what a fork inherited."""
        return _sum_costs(self._own_runs())

    def _own_runs(self) -> list[Run]:
        return [run for run in self.runs if run.session_id == self.id]

    def fork(self, at: int | None = None, *, title: str | None = None) -> Session:
        """Return a copy with a new id, that goes on independently.

        Allowed while a run extends this session: the fork then has what was complete at that moment.

        Parameters
        ----------
        at : int, optional
            Keep only the messages before this index (a negative one counts from the end).
        title : str, optional
            The fork's title; by default this session's.

        Returns
        -------
        Session
            It keeps this session's runs, marked by their `session_id`, and names this session as its `parent`.

        Raises
        ------
        TranscriptError
            If a tool call would lose its result.
        """
        new = copy.copy(self)
        new.id = new_id()
        new.title = self.title if title is None else title
        new.created_at = now()
        new.parent = Parent(session_id=self.id, message_count=len(new.messages))
        if at is not None:
            new.truncate(at)
        return new

    def truncate(self, index: int) -> None:
        """Keep the messages before `index`, to retry from an earlier point. The tokens stay spent: `runs` is kept.

        Parameters
        ----------
        index : int
            As in a slice: a negative index counts from the end, one past the end keeps everything.

        Raises
        ------
        TranscriptError
            A ValueError too: if a tool call would lose its result. Truncate before the assistant message then.
        SessionBusyError
            If a run extends the session right now.

        Examples
        --------
        >>> session = Session()
        >>> session.messages.extend([UserMessage("a"), AssistantMessage("b")])
        >>> session.truncate(-2)
        >>> session.messages
        []
        """
        with _CLAIMS:
            self._refuse_if_busy("truncated")
            kept = self.messages[:index]
            torn = transcript.open_calls(kept) if len(kept) < len(self.messages) else []
            if torn:
                raise TranscriptError(
                    f"cannot cut before message {len(kept)}: tool call {torn[0].id!r} ({torn[0].name!r}) would lose "
                    "its result; truncate before the assistant message with the tool calls instead"
                )
            self.messages[:] = kept
            if self.parent is not None and self.parent.message_count > len(kept):
                self.parent = self.parent.model_copy(update={"message_count": len(kept)})

    def edit(self, index: int, content: str | InputPart | Sequence[InputPart]) -> Session:
        """Return a fork in which the message at `index` has other content, and what followed it is left off.

        Parameters
        ----------
        index : int
            Which message; a negative index counts from the end.
        content : str, part, or sequence of parts
            The new content. ``agent.run(session=fork)`` answers an edited user message.

        Returns
        -------
        Session
            Its last message is the edited one: with a new id, and the old one's in ``metadata["edited_from"]``.

        Raises
        ------
        TranscriptError
            If there is no such message, or a tool call would be left without its result.
        InputError
            If that message cannot have such content, or a question would be empty.
        """
        index = self._place(index, "edit")
        old = self.messages[index]
        edited = transcript.edited(old, content)
        new = self.fork()
        kept = [*new.messages[:index], edited]
        torn = transcript.open_calls(kept)
        if torn:
            raise TranscriptError(
                f"cannot edit message {index}: tool call {torn[0].id!r} ({torn[0].name!r}) would be left without "
                "a result"
            )
        new.messages[:] = kept
        new.parent = Parent(session_id=self.id, message_count=index)
        return new

    def annotate(
        self,
        index: int,
        *,
        rating: float | EllipsisType | None = ...,
        note: str | EllipsisType | None = ...,
        tags: str | Iterable[str] | EllipsisType | None = ...,
    ) -> None:
        """Keep what you think of a message with it: in its ``metadata["annotation"]``, and as columns of frames.

        Parameters
        ----------
        index : int
            Which message; a negative index counts from the end.
        rating, note, tags : float, str, str or iterable of str; optional
            A finite number, a text, texts without a comma. What is not given stays as it is; None takes it away.

        Raises
        ------
        TranscriptError
            A ValueError too: if there is no such message.
        InputError
            If one of them is of another type.
        SessionBusyError
            If a run extends the session right now: it stores new messages alone.

        Examples
        --------
        >>> session = Session()
        >>> session.messages.append(AssistantMessage("Tokyo"))
        >>> session.annotate(-1, rating=5, tags=["short", "right"])
        >>> session.messages[0].metadata["annotation"]["tags"]
        ('short', 'right')
        """
        with _CLAIMS:
            self._refuse_if_busy("annotated")
            place = self._place(index, "annotate")
            self.messages[place] = annotated(self.messages[place], rating=rating, note=note, tags=tags)

    def repair(self) -> list[ToolMessage]:
        """Make an invalid transcript valid, so that the session can go on.

        Open calls get an error result, results that belong to no call are dropped. A valid transcript stays as it is.

        Returns
        -------
        list of ToolMessage
            The results that were added.

        Raises
        ------
        SessionBusyError
            If a run extends the session right now.
        """
        with _CLAIMS:
            self._refuse_if_busy("repaired")
            messages, added = transcript.repaired(self.messages)
            self.messages[:] = messages
            return added

    def _place(self, index: int, what: str) -> int:
        count = len(self.messages)
        if not -count <= index < count:
            raise TranscriptError(f"there is no message {index} to {what}: the session has {count}")
        return index % count

    def _refuse_if_busy(self, what: str) -> None:
        if self.busy:
            raise SessionBusyError(
                f"session {self.id!r} is in run {self._claimed_by.value!r} and cannot be {what} now: "
                "wait for the run, cancel it, or go on with session.fork()"
            )


def _sum_costs(runs: Iterable[Run]) -> float | None:
    costs = [run.cost for run in runs]
    return None if None in costs else float(sum(cost for cost in costs if cost is not None))


def _problems(error: ValidationError) -> str:
    """Say in words of our own which argument is what it cannot be."""
    problems = ((".".join(map(str, item["loc"])), item["msg"].removeprefix("Value error, ")) for item in error.errors())
    return "; ".join(f"{place}: {message}" if place else message for place, message in problems)


def check_free(session: Session) -> None:
    """Raise `SessionBusyError` if a run extends `session` right now."""
    session._refuse_if_busy("used by another run")  # noqa: SLF001 - the claim is this module's own


def claim(session: Session, run_id: str) -> None:
    """Mark `session` as being extended by a run, or raise `SessionBusyError` if another run does that already."""
    with _CLAIMS:
        check_free(session)
        session._claimed_by.value = run_id  # noqa: SLF001


def release(session: Session, run_id: str) -> None:
    """Take back the mark of `claim`, if it is that run's."""
    with _CLAIMS:
        if session._claimed_by.value == run_id:  # noqa: SLF001
            session._claimed_by.value = None  # noqa: SLF001
