"""What is read of a session in a notebook: a Markdown cell for each message, and one before them.

Beside what is read, a cell's metadata hold the message as it is. A hash of the source says whether it was edited since:
as long as it was not, nothing has to be understood from Markdown.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cyclops_nb.annotations import annotation_of
from cyclops_nb.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    SummaryMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from cyclops_nb.render.text import cut, indented_json, left_out, size
from cyclops_nb.render.words import count, moment, money, seconds, speaker, tokens
from cyclops_nb.session import Session
from cyclops_nb.stores.notebooks.document import KEY, NAME, VERSION
from cyclops_nb.stores.notebooks.markdown import fenced, prose_line, source_lines
from cyclops_nb.stores.notebooks.names import address, bold, folded, inert
from cyclops_nb.stores.notebooks.portable import portable
from cyclops_nb.stores.notebooks.style import Style

__all__ = [
    "HEADER",
    "Line",
    "attachment_of",
    "cell_id",
    "fingerprint",
    "head_lines",
    "message_cell",
    "message_lines",
    "note_cell",
    "own_cell",
]

HEADER = re.compile(r"#{2,3} \\?\[(?P<index>[0-9]+)\\?\] (?:user|assistant|tool|summary)\b.*")
"""The first line of a message's cell."""
_RESULT_LIMIT = 6_000
"""Characters of a tool's result, and of arguments, that are shown."""
_USUAL_ENDS = {None, "stop", "tool_calls", "end_turn", "tool_use", "completed"}
_SHOWN_IMAGES = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SUFFIX_ROOM = 56
_OF_OTHER_KINDS = {"outputs", "execution_count"}


class Line(NamedTuple):
    """A line of the source of a message's cell."""

    source: str
    part: int | None = None
    """The part of the message that it belongs to; None for what is there for the reader alone."""
    raw: str | None = None
    """The line of the part's text that it stands for, if an edit of it is an edit of that text."""


def fingerprint(source: str) -> str:
    """Return a hash of the source of a cell, by which an edit is noticed."""
    return hashlib.blake2b(source.rstrip("\n").encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def cell_id(wanted: str, taken: set[str]) -> str:
    """Return an id for a cell that is not taken, made of a message's id, and take it."""
    base = wanted if _ID.fullmatch(wanted) else hashlib.blake2b(wanted.encode(), digest_size=16).hexdigest()
    found, number = base, 1
    while found in taken:
        number += 1
        found = f"{base[:_SUFFIX_ROOM]}-{number}"
    taken.add(found)
    return found


def own_cell(
    style: Style, name: str, lines: Sequence[str], data: Mapping[str, str], old: Mapping[str, Any] | None = None
) -> str:
    """Return the text of a cell of ours.

    Parameters
    ----------
    style : Style
        How it is written.
    name : str
        Its id.
    lines : sequence of str
        Its source.
    data : mapping
        What stands in the metadata under this library's key, as text.
    old : mapping, optional
        The cell that it takes the place of, of which all that is not ours is kept.
    """
    old = old or {}
    metadata = {key: style.text(value, 4) for key, value in old.get("metadata", {}).items()}
    metadata[KEY] = style.object(data, 4)
    cell = {key: style.text(value, 3) for key, value in old.items() if key not in _OF_OTHER_KINDS}
    cell["cell_type"] = style.text("markdown")
    cell["metadata"] = style.object(dict(sorted(metadata.items())), 3)
    cell["source"] = style.text(style.source(lines), 3)
    if style.ids:
        cell["id"] = style.text(name)
    return style.cell(cell)


def note_cell(style: Style, name: str, text: str, attachments: Mapping[str, Any] | None) -> str:
    """Return the text of a Markdown cell of the user's; for the other parameters see `own_cell`."""
    # its characters are the user's: nbformat splits lines at more of them than we write
    source = text.splitlines(keepends=True) if style.splits_lines else text
    cell = {"cell_type": "markdown", "metadata": {}, "source": source}
    if attachments:
        cell["attachments"] = attachments
    if style.ids:
        cell["id"] = name
    return style.cell({key: style.text(value, 3) for key, value in cell.items()})


def message_cell(  # noqa: PLR0917 - what a cell is made of
    style: Style, message: Message, index: int, name: str, session_id: str, old: Mapping[str, Any] | None = None
) -> str:
    """Return the text of the cell of a message of a session; for the other parameters see `own_cell`."""
    lines = [line.source for line in message_lines(message, index)]
    data = message.model_dump(mode="json", warnings="error")
    shown = {str(number): held for number, part in enumerate(message.content) if (held := attachment_of(number, part))}
    attachments = {
        key: value
        for key, value in (old or {}).get("attachments", {}).items()
        if any(f"attachment:{key})" in line for line in lines)
    }
    for number, held in shown.items():
        attachments[held.name] = {held.media_type: held.data}
        part = data["content"][int(number)]
        if "data" in part and part["data"] is not None:
            del part["data"]
        else:
            part["url"] = part["url"].removesuffix(held.data)
    standing = (old or {}).get("metadata", {}).get(KEY, {})
    fields = {
        NAME: str(standing.get(NAME, name)),
        "hash": fingerprint("\n".join(lines)),
        "index": index,
        "kind": "message",
        "message": portable(data, message),
        "session": session_id,
        "version": VERSION,
    }
    if shown:
        fields = {"attachments": {number: held.name for number, held in shown.items()}, **fields}
    rest = {key: value for key, value in (old or {}).items() if key != "attachments"}
    if attachments:
        rest["attachments"] = attachments
    if old is None and isinstance(message, ToolMessage):
        rest["metadata"] = {"editable": False}  # no answer to an edit of it would be right
    return own_cell(style, name, lines, {key: style.text(value, 5) for key, value in fields.items()}, rest)


class Attachment(NamedTuple):
    """An image that a notebook can show."""

    name: str
    media_type: str
    data: str


def attachment_of(number: int, part: Part) -> Attachment | None:
    """Return what is attached to a cell for a part of its message: images whose data are of a usual kind."""
    if not isinstance(part, ImagePart):
        return None
    media_type, data = part.media_type or "", part.data or ""
    if part.url is not None:
        start, comma, data = part.url.partition(";base64,")
        media_type = start.removeprefix("data:") if comma and start.startswith("data:") else ""
    if media_type not in _SHOWN_IMAGES or not _BASE64.fullmatch(data):
        return None
    return Attachment(f"{number}.{_SHOWN_IMAGES[media_type]}", media_type, data)


def head_lines(session: Session) -> list[str]:
    """Return the source of the first cell: title, id and parentage."""
    title = session.title if session.title and session.title.strip() else f"Session {session.id}"
    facts = f"Session {inert(session.id)}, begun {moment(session.created_at)}"
    if session.parent is not None:
        shared = session.parent.message_count
        where = f"after message \\[{shared - 1}]" if shared else "before the first message"
        facts += f"; forked from {inert(session.parent.session_id)} {where}"
    return [f"# {prose_line(title)}", "", facts]


def message_lines(message: Message, index: int) -> list[Line]:
    """Return the source of the cell of a message, and what each line of it stands for.

    Parameters
    ----------
    message : message
        Any message.
    index : int
        Where it stands in its transcript.
    """
    # a turn begins with a heading above those in it, so that programs can list and fold turns
    level = "##" if isinstance(message, UserMessage | SummaryMessage) else "###"
    lines = [Line(f"{level} \\[{index}] {_speaker(message)}")]
    if facts := " · ".join(fact for fact in _facts(message) if fact):
        lines += [Line(""), Line(f"*{facts}*")]
    for number, part in enumerate(message.content):
        lines += [Line(""), *_part_lines(message, number, part)]
    if not any(line.source.strip() for line in lines[1:]):
        lines += [Line(""), Line("*(empty)*")]
    return lines


def _speaker(message: Message) -> str:
    return f"tool {inert(message.name)}" if isinstance(message, ToolMessage) else speaker(message)


def _facts(message: Message) -> Iterator[str]:
    if isinstance(message, AssistantMessage):
        yield inert(message.model or "")
        yield "" if message.duration is None else seconds(message.duration)
        yield "" if message.usage is None else tokens(message.usage)
        yield "" if message.cost is None else money(message.cost)
        if message.finish_reason not in _USUAL_ENDS:
            yield f"ended by {inert(message.finish_reason or '')}"
    elif isinstance(message, ToolMessage):
        yield message.status
        yield "" if message.duration is None else seconds(message.duration)
        yield f"answers {inert(message.call_id, 40)}"
    if "edited_from" in message.metadata:
        yield "edited"
    for name, text in annotation_of(message).words.items():
        yield f"{name} {inert(text)}"


def _part_lines(message: Message, number: int, part: Part) -> Iterator[Line]:
    if isinstance(part, TextPart) and not isinstance(message, ToolMessage):
        for source, raw in source_lines(part.text):
            yield Line(source, number if raw is not None else None, raw)
        return
    for line in _fixed_lines(number, part):
        yield Line(line, number)


def _fixed_lines(number: int, part: Part) -> list[str]:
    """Return the lines for a part that cannot be edited in its cell."""
    if isinstance(part, TextPart):
        return _block(part.text) if part.text.strip() else ["*(empty)*"]
    if isinstance(part, ReasoningPart):
        words = count(len(part.text.split()), "word")
        lines = folded(f"reasoning, {words}", [line.source for line in source_lines(part.text)])
        return lines if part.text.strip() else ["*reasoning that the provider does not show*"]
    if isinstance(part, ToolCall):
        summary = f"calls {bold(part.name)} {inert(part.arguments, 80)}"
        return folded(summary, [*_block(part.arguments), "", f"*call {inert(part.id, 40)}*"])
    if isinstance(part, FilePart):
        return [f"*file {inert(part.name)}, {inert(part.media_type, 60)}, {_bytes(part.data)}*"]
    return [_image_line(number, part)]


def _image_line(number: int, part: ImagePart) -> str:
    if attachment := attachment_of(number, part):
        return f"![image](attachment:{attachment.name})"
    if part.url is not None:
        return f"*image, not loaded:* {address(part.url)}"  # a mark behind an address is taken for a part of it
    return f"*image, {inert(part.media_type or '', 60)}, {_bytes(part.data or '')}, not shown*"


def _block(text: str) -> list[str]:
    json_text = indented_json(text)
    begin, omitted, end = cut(json_text or text, _RESULT_LIMIT)
    lines = fenced(f"{begin}\n\n{left_out(omitted)}\n\n{end}" if omitted else begin, "json" if json_text else "")
    if omitted:
        whole = size(len(text.encode("utf-8", "surrogatepass")))
        lines += ["", f"*{whole} in all; the whole of it stands in the metadata of this cell*"]
    return lines


def _bytes(data: str) -> str:
    return size(max(len(data) * 3 // 4 - data[-2:].count("="), 0))
