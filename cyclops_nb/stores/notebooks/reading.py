"""What a notebook holds: the session, the cells it is made of, and what was edited since it was written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import ConfigDict, TypeAdapter, ValidationError

from cyclops_nb.errors import SessionFormatError, TranscriptError
from cyclops_nb.messages import AnyMessage, AssistantMessage, Message, ToolMessage
from cyclops_nb.session import Session
from cyclops_nb.stores.notebooks.added_text import added_to_foot, read_head
from cyclops_nb.stores.notebooks.cells import HEADER, fingerprint, head_lines
from cyclops_nb.stores.notebooks.document import NAME, VERSION, Document, parse, source_of
from cyclops_nb.stores.notebooks.edits import from_source
from cyclops_nb.stores.notebooks.portable import plain
from cyclops_nb.transcript import find_problems

__all__ = ["EXPORT", "Exported", "MessageCell", "Reading", "read", "read_export", "session_cells"]

EXPORT = "export"
"""The kind of a notebook to hand out, which holds several sessions one behind the other."""

_MESSAGES = TypeAdapter(list[AnyMessage], config=ConfigDict(defer_build=True))
_SHOWN = 200
"""Characters of a reason that are shown: it may quote what it complains about."""
_UNDO = "undo that in the notebook, or move the file away; it was left untouched"


@dataclass(frozen=True)
class MessageCell:
    """Where a message stands."""

    number: int
    """Of its cell, from 0."""
    index: int
    """Of the message, when the cell was written."""
    is_edited: bool
    """Whether its source is another one."""
    is_new: bool
    """Whether what it holds is another message."""


@dataclass
class Reading:
    """What was read of a notebook."""

    document: Document
    session: Session
    cells: list[MessageCell] = field(default_factory=list)
    """One for each message of the session."""
    head: int | None = None
    """The number of the first cell of ours, unless someone has taken it out."""
    head_is_edited: bool = False
    foot: int = 0
    """The number of the last cell of ours."""
    added: dict[int, str] = field(default_factory=dict)
    """What the user has written into the first and the last cell of ours, by their numbers."""
    is_edited: bool = False
    """Whether anything of ours is other than it was written."""

    @property
    def own(self) -> set[int]:
        """The numbers of all cells of ours."""
        return {cell.number for cell in self.cells} | {self.foot} | ({self.head} if self.head is not None else set())


def session_cells(document: Document, where: str) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Yield number, kind and data of each cell of ours.

    Raises
    ------
    SessionFormatError
        If the notebook holds no session, or one in a format that is not known.
    """
    ours = document.ours
    if ours is None:
        raise SessionFormatError(
            f"{where} is a notebook, but holds no session: it is not this store's, and was left untouched; keep "
            "sessions in a folder of their own, or take another id"
        )
    _check_version(ours, where)
    for number in range(len(document.cells)):
        data = document.cell_data(number)
        if data is not None:
            _check_version(data, f"{where}, cells[{number}],")
            yield number, str(data.get("kind")), data


def _check_version(data: Mapping[str, Any], where: str) -> None:
    version = data.get("version")
    if type(version) is not int or version != VERSION:
        is_newer = type(version) is int and version > VERSION
        advice = "a newer cyclops_nb wrote it, install that one" if is_newer else "it is damaged, or not a session"
        raise SessionFormatError(
            f"{where} keeps a session in format version {version!r}, but this cyclops_nb reads version {VERSION}: "
            f"{advice}; it was left untouched"
        )


def read(data: bytes, session_id: str | None, where: str) -> Reading:
    """Read a notebook; with a `session_id`, only if that is the id of its session.

    Parameters
    ----------
    data : bytes
        The file.
    session_id : str or None
        The id that it should hold.
    where : str
        What to name in errors.

    Raises
    ------
    SessionFormatError
        If it holds no session, or is damaged.
    TranscriptError
        If it was edited in such a way that no conversation is left; the cell is named.
    """
    document = parse(data, where)
    if document.ours is not None and document.ours.get("kind") == EXPORT:
        raise SessionFormatError(
            f"{where} holds sessions that were written to be handed out, and is not this store's; it was left "
            "untouched: sessions_in_notebook reads it"
        )
    found = _Cells()
    for number, kind, cell in session_cells(document, where):
        found.get(kind, []).append((number, cell))
    return _read(document, found, session_id, where)


class _Cells(dict[str, list[tuple[int, Mapping[str, Any]]]]):
    """The cells of a session with their numbers, by their kinds."""

    def __init__(self) -> None:
        super().__init__({"head": [], "message": [], "foot": []})


class Exported(NamedTuple):
    """A session in a notebook to hand out."""

    session: Session
    indices: list[int]
    """Where each of its messages stood in it when it was written."""
    shared: int
    """How many messages, from the first, stand in its origin alone."""
    cell: int
    """The number of its last cell."""


def read_export(document: Document, where: str) -> list[Exported]:
    """Return the sessions in a notebook to hand out, in the order of their cells."""
    groups = [_Cells()]
    for number, kind, cell in session_cells(document, where):
        groups[-1].get(kind, []).append((number, cell))
        if kind == "foot":
            groups.append(_Cells())
    if groups[-1]["head"] or groups[-1]["message"]:
        raise TranscriptError(
            f"{where} lacks the last cell of its last session, which holds runs and settings: {_UNDO}"
        )
    found = []
    for group in groups[:-1]:
        reading = _read(document, group, None, where)
        shared = group["head"][0][1].get("shared", 0) if group["head"] else 0
        indices = [cell.index for cell in reading.cells]
        found.append(Exported(reading.session, indices, shared if type(shared) is int else 0, reading.foot))
    return found


def _read(document: Document, found: _Cells, session_id: str | None, where: str) -> Reading:
    foot, foot_data = _foot(found["foot"], where)
    session = _session(foot_data, session_id, f"{where}, cells[{foot}],")
    _refuse_foreign(found["message"], session, where)
    _refuse_doubles(found["message"], where)
    summary = foot_data.get("summary")
    count = summary.get("message_count") if isinstance(summary, Mapping) else None
    if not found["head"] or len(found["message"]) != count:
        _refuse_merged(document, session, found, where)
    reading = Reading(document, session, foot=foot)
    session.messages = _messages(document, found["message"], reading, where)
    _check_structure(reading, count, where)
    for number, data in found["head"][:1]:
        _read_head(reading, number, data)
    source = source_of(document.cells[foot])
    if fingerprint(source) != foot_data.get("hash"):
        reading.added[foot] = added_to_foot(session, source)
    _part_from_parent(reading)
    return reading


def _foot(found: Sequence[tuple[int, Mapping[str, Any]]], where: str) -> tuple[int, Mapping[str, Any]]:
    if not found:
        raise TranscriptError(f"{where} lacks the last cell of the session, which holds its runs and settings: {_UNDO}")
    if len(found) > 1:
        raise TranscriptError(
            f"{where}, cells[{found[1][0]}], is a second last cell of a session, beside cells[{found[0][0]}]: {_UNDO}"
        )
    return found[0]


def _session(data: Mapping[str, Any], session_id: str | None, where: str) -> Session:
    """Return the session without its messages."""
    try:
        configs = {config["key"]: plain(config["settings"]) for config in data["configs"]}
        runs = [plain(run) for run in data["runs"]]
        session = Session.model_validate({**plain(data["session"]), "messages": [], "configs": configs, "runs": runs})
    except SessionFormatError as error:
        raise SessionFormatError(f"{where} {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise _damage(where, error) from error
    if session_id is not None and session.id != session_id:
        raise SessionFormatError(
            f"{where} holds the session {session.id!r}, not {session_id!r}: a stored session keeps the id inside it, "
            "so give the file its own name back"
        )
    return session


def _damage(where: str, error: Exception) -> SessionFormatError:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        reason = f"{'.'.join(str(step) for step in first['loc'])}: {first['msg']}"
    else:
        reason = f"{type(error).__name__}: {error}"
    return SessionFormatError(
        f"{where} is no part of a session ({reason[:_SHOWN]}): the stored session is damaged there and was left "
        "untouched; mend the metadata of the cell, or move the file away"
    )


def _refuse_foreign(cells: Sequence[tuple[int, Mapping[str, Any]]], session: Session, where: str) -> None:
    """Raise if a message was pasted from another session's notebook: nobody has said it here."""
    for number, data in cells:
        if (name := data.get("session", session.id)) != session.id:
            raise TranscriptError(
                f"{where}, cells[{number}] (message {data.get('index')!r}) is of the session {str(name)[:_SHOWN]!r}, "
                f"not of {session.id!r}: take the cell out, and to have its message here as well, add it to "
                "session.messages; the file was left untouched"
            )


def _refuse_doubles(cells: Sequence[tuple[int, Mapping[str, Any]]], where: str) -> None:
    names: dict[Any, int] = {}
    for number, data in cells:
        first = names.setdefault(str(data.get(NAME)), number)
        if first != number:
            raise TranscriptError(
                f"{where}, cells[{number}], is a second copy of the message in cells[{first}] (index "
                f"{data.get('index')!r}), pasted or split off: {_UNDO}"
            )


def _refuse_merged(
    document: Document, session: Session, found: Mapping[str, Sequence[tuple[int, Mapping[str, Any]]]], where: str
) -> None:
    """Raise if a message was merged into a cell that is none of a message's, or the first cell into a message.

    A cell of the user's in which a message stands that has no cell is one, too: such as has lost its metadata.
    """
    there = {str(data.get("index")) for _, data in found["message"]}
    theirs = [number for number in range(len(document.cells)) if document.cell_data(number) is None]
    for number in (*(number for number, _ in (*found["head"], *found["foot"])), *theirs):
        for header in filter(None, map(HEADER.fullmatch, source_of(document.cells[number]).split("\n"))):
            if header["index"] not in there:
                name = header[0].lstrip("# ")[:80]
                said = f"message {name!r} was merged into it, or has lost its metadata"
                raise TranscriptError(f"{where}, cells[{number}]: {said}; {_UNDO}")
    facts = head_lines(session)[-1]
    for number, _ in () if found["head"] else found["message"]:
        if facts in source_of(document.cells[number]).split("\n"):
            raise TranscriptError(f"{where}, cells[{number}]: the first cell was merged into it; {_UNDO}")


def _messages(
    document: Document, found: Sequence[tuple[int, Mapping[str, Any]]], reading: Reading, where: str
) -> list[Message]:
    raw = []
    for number, data in found:
        try:
            raw.append(_raw_message(data, document.cells[number]))
        except (AttributeError, KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
            raise _damage(f"{where}, cells[{number}],", error) from error
    try:
        messages = _MESSAGES.validate_python(raw)
    except ValidationError as error:
        place = error.errors(include_url=False, include_input=False)[0]["loc"][0]
        raise _damage(f"{where}, cells[{found[int(place)][0]}],", error) from error
    except RecursionError as error:
        raise _damage(where, error) from error
    for place, (number, data) in enumerate(found):
        cell = document.cells[number]
        source = source_of(cell)
        index = data.get("index")
        index = index if type(index) is int else -1
        old = messages[place]
        is_edited = fingerprint(source) != data.get("hash")
        if is_edited:
            try:
                messages[place] = from_source(messages[place], index, source, cell.get("attachments", {}))
            except TranscriptError as error:
                raise TranscriptError(
                    f"{where}, cells[{number}] (message {index}, {_who(messages[place])}): {error}; the file was left "
                    "untouched"
                ) from None
        reading.cells.append(MessageCell(number, index, is_edited, is_new=messages[place] is not old))
        reading.is_edited = reading.is_edited or is_edited
    return messages


def _who(message: Message) -> str:
    return f"tool {message.name!r}" if isinstance(message, ToolMessage) else message.role


def _raw_message(data: Mapping[str, Any], cell: Mapping[str, Any]) -> Any:
    """Return a message as JSON data, with the images that stand in the attachments of its cell."""
    message = plain(data["message"])
    names, attachments = data.get("attachments"), cell.get("attachments", {})
    if not names:
        return message
    content = list(message["content"])
    for place, name in names.items():
        part = dict(content[int(place)])
        if name in attachments:
            (image,) = attachments[name].values()
        elif f"](attachment:{name})" in source_of(cell):
            raise ValueError(f"the image {name!r} is not attached to the cell any more")
        else:
            image = ""  # some programs take an image away with the line that shows it
        image = "".join(image) if isinstance(image, list) else image
        if "url" in part:
            part["url"] += image
        else:
            part["data"] = image
        content[int(place)] = part
    return {**message, "content": content}


def _check_structure(reading: Reading, count: Any, where: str) -> None:
    """Raise if cells that were taken out, put in or moved leave no valid transcript.

    What was invalid when it was stored is let pass: it can be loaded, and repaired.
    """
    cells = reading.cells
    indices = [cell.index for cell in cells]
    if len(indices) != count or indices != list(range(len(indices))):
        reading.is_edited = True
    if not reading.is_edited:
        return
    messages = reading.session.messages
    for problem in find_problems(messages):
        start = problem.index
        while start and isinstance(messages[start], ToolMessage):
            start -= 1
        end = start + 1
        while end < len(messages) and isinstance(messages[end], ToolMessage):
            end += 1
        following = [*indices[start : end + 1], *([count] if end >= len(messages) else [])]
        stands = following == list(range(indices[start], indices[start] + len(following)))
        # a call can be lost from a cell, too; no edit of another message tears one
        if stands and not (cells[start].is_edited and isinstance(messages[start], AssistantMessage)):
            continue
        cell = cells[problem.index]
        raise TranscriptError(
            f"{where}, cells[{cell.number}] (message {cell.index}, {_who(messages[problem.index])}): {problem.text}, "
            "after cells were edited, taken out or moved; a call and its result belong together: take the whole turn "
            f"out, or {_UNDO}"
        )


def _part_from_parent(reading: Reading) -> None:
    """Let a fork share with its parent what stands before the first message that was edited, taken out or moved."""
    session = reading.session
    is_whole = (reading.document.ours or {}).get("id") == session.id  # another notebook may leave out what is shared
    if session.parent is None or not reading.is_edited or not is_whole:
        return
    stands = (not cell.is_new and cell.index == place for place, cell in enumerate(reading.cells))
    shared = next((place for place, is_shared in enumerate(stands) if not is_shared), len(reading.cells))
    if shared < session.parent.message_count:
        session.parent = session.parent.model_copy(update={"message_count": shared})


def _read_head(reading: Reading, number: int, data: Mapping[str, Any]) -> None:
    reading.head = number
    source = source_of(reading.document.cells[number])
    if fingerprint(source) == data.get("hash"):
        return
    reading.head_is_edited = True
    title, reading.added[number] = read_head(reading.session, source)
    if title != reading.session.title:
        reading.is_edited = True
        reading.session.title = title
