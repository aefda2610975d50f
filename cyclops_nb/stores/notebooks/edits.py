"""From the edited source of a message's cell back to a message.

What was not edited needs no understanding: each line of the old source is known, with the line of text that it stands
for. Only changed lines are read as Markdown. Reasoning, calls, files and images stand in a cell as blocks: each is
there unchanged, moved, or gone; a tool's result cannot be edited at all.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import unquote

from cyclops_nb.errors import InputError, TranscriptError
from cyclops_nb.messages import ImagePart, Message, Part, TextPart, ToolMessage, UserMessage
from cyclops_nb.stores.notebooks.cells import HEADER, Line, message_lines
from cyclops_nb.stores.notebooks.markdown import SourceLine
from cyclops_nb.stores.notebooks.raw_text import raw_lines
from cyclops_nb.transcript import edited

__all__ = ["from_source"]

_PIECES = 2_000
"""Lines up to which each is compared with each; in longer texts those around them tell lines apart that come often."""
_FOLD_LINE = re.compile(r"</?details>|<summary>.*")
_FACTS = re.compile(r"\*[^*]+ · [^*]+\*")
_FACTS_PLACE = 2
_FIRST_LINE = re.compile(r"#{1,6} \\?\[[0-9]+\\?\] \S.*")
"""What says who speaks, also as someone may have written it anew."""
_ATTACHED = re.compile(r"!\[[^\]]*\]\(attachment:([^)\s]+)\)\s*")


class _Piece(NamedTuple):
    """A line, or the lines of a part that cannot be edited."""

    key: str
    part: int | None
    raw: str | None = None
    is_block: bool = False


def from_source(message: Message, index: int, source: str, attachments: Mapping[str, Any]) -> Message:
    """Return the message that an edited cell holds.

    Parameters
    ----------
    message : message
        The message before the edit.
    index : int
        The index under which its cell shows it.
    source : str
        The edited source.
    attachments : mapping
        What is attached to the cell.

    Returns
    -------
    message
        With an id of its own, the same for the same edit; or the same message, if nothing was edited that counts.

    Raises
    ------
    TranscriptError
        If the edit leaves no message.
    """
    old = message_lines(message, index)
    if isinstance(message, ToolMessage):
        if [line.source.rstrip() for line in old] != [line.rstrip() for line in source.split("\n")]:
            raise TranscriptError(
                "what a tool returned cannot be edited in its cell: undo that, or take the whole turn out"
            )
        return message
    content = _content(message, _pieces(old), _with_facts(old, source.split("\n")), attachments)
    if content == message.content:
        return message
    try:
        new = edited(message, content)
    except InputError as error:
        raise TranscriptError(str(error)) from None
    name = hashlib.blake2b(f"{message.id}\n{source}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return new.model_copy(update={"id": name, "created_at": message.created_at})


def _with_facts(old: Sequence[Line], lines: list[str]) -> list[str]:
    """Return an edited source in which the line on what was measured is as it was: it is no part of the text."""
    if min(len(old), len(lines)) <= _FACTS_PLACE or not _FIRST_LINE.fullmatch(lines[0]):
        return lines
    facts, line = old[_FACTS_PLACE], lines[_FACTS_PLACE]
    if facts.part is not None or not _FACTS.fullmatch(line) or any(line == other.source for other in old):
        return lines
    return [*lines[:_FACTS_PLACE], facts.source, *lines[_FACTS_PLACE + 1 :]]


def _pieces(lines: Sequence[Line]) -> list[_Piece]:
    pieces: list[_Piece] = []
    for (part, is_text), group in groupby(lines, key=lambda line: (line.part, line.raw is not None)):
        if part is None or is_text:
            pieces += [_Piece(line.source, line.part, line.raw) for line in group]
        else:
            pieces.append(_Piece("\n".join(line.source for line in group), part, is_block=True))
    return pieces


def _found(message: Message, pieces: Sequence[_Piece], lines: Sequence[str]) -> list[_Piece]:
    """Return the lines of an edited source with the blocks in it that were not edited put together.

    Raises
    ------
    TranscriptError
        If a block was changed.
    """
    missing = [piece for piece in pieces if piece.is_block]
    found: list[_Piece] = []
    place = 0
    while place < len(lines):
        block = next((block for block in missing if _begins(lines, place, block)), None)
        if block is None:
            found.append(_Piece(lines[place], None))
            place += 1
        else:
            missing.remove(block)
            found.append(block)
            place += block.key.count("\n") + 1
    changed = {piece.key for piece in found} - {piece.key for piece in pieces}
    for wanted in (block.key.split("\n") for block in missing):
        if any(_is_of(wanted, line, message) for line in changed):
            raise TranscriptError(
                f"{_name(wanted)!r} was changed in the cell, but reasoning, calls, files and images can only be moved "
                "or taken out whole; undo that"
            )
    return found


def _begins(lines: Sequence[str], place: int, block: _Piece) -> bool:
    """Whether the lines of a block stand at a place."""
    wanted = block.key.split("\n") if block.key.startswith(lines[place]) else ()
    return bool(wanted) and list(lines[place : place + len(wanted)]) == wanted


def _is_of(block: Sequence[str], line: str, message: Message) -> bool:
    """Whether a changed line was one of a block that is not there any more as it was."""
    if len(block) > 1:
        return _FOLD_LINE.fullmatch(line) is not None
    if attached := _ATTACHED.fullmatch(block[0]):
        is_picture = isinstance(message, UserMessage) and _ATTACHED.fullmatch(line)
        return f"](attachment:{attached[1]})" in line and not is_picture
    return line.startswith(block[0].split(" ")[0])


def _name(block: Sequence[str]) -> str:
    return re.sub(r"<[^>]*>", "", block[1] if len(block) > 1 else block[0])[:80]


def _content(message: Message, old: list[_Piece], lines: list[str], attachments: Mapping[str, Any]) -> tuple[Part, ...]:
    new = _found(message, old, lines)
    end = len(old)
    while end and old[end - 1].key == "":
        end -= 1
    # blank lines at the end of a source are lost on the way: they stand if what stood before them does
    tail = old[end:] if end and new and old[end - 1].key == new[-1].key else []
    old = old[: len(old) - len(tail)]
    found = _Found(message)
    has_header = any(piece.key == old[0].key for piece in new)
    for kind, i, j, k, m in _opcodes([piece.key for piece in old], [piece.key for piece in new]):
        if kind == "equal":
            for piece in old[i:j]:
                found.keep(piece)
        else:
            for some in _changed(new[k:m], may_begin=k == 0 and not has_header):
                if isinstance(some, _Piece):
                    found.keep(some)
                else:
                    found.change(old, i, j, some)
    for piece in tail:
        found.keep(piece)
    return tuple(_parts(message, found.runs, attachments))


def _changed(pieces: Sequence[_Piece], *, may_begin: bool) -> Iterator[_Piece | list[str]]:
    """Yield the blocks among changed pieces, and the lines between them without the blank ones that part them."""
    for is_block, group in groupby(pieces, key=lambda piece: piece.is_block):
        some = list(group)
        if is_block:
            yield from some
            continue
        lines = _without_header([piece.key for piece in some], may_begin=may_begin)
        lines = lines if some[0] is pieces[0] else _stripped(lines, 0)
        yield lines if some[-1] is pieces[-1] else _stripped(lines, -1)


def _without_header(lines: list[str], *, may_begin: bool) -> list[str]:
    """Return changed lines without the one that says who speaks, with which they may begin.

    Raises
    ------
    TranscriptError
        If there is one at another place: what another said is no part of this message.
    """
    first = next((place for place, line in enumerate(lines) if line.strip()), 0) if may_begin else -1
    for place, line in enumerate(lines):
        if place != first and HEADER.fullmatch(line):
            name = line.lstrip("# ")[:80]
            raise TranscriptError(f"another message, {name!r}, was merged into the cell; undo that")
    is_header = 0 <= first < len(lines) and _FIRST_LINE.fullmatch(lines[first])
    return lines[first + 1 :] if is_header else lines


def _opcodes(old: list[str], new: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield what `SequenceMatcher` does, in a time that does not grow with the square of a long text."""
    shorter = min(len(old), len(new))
    start = next((place for place in range(shorter) if old[place] != new[place]), shorter)
    shorter -= start
    end = next((place for place in range(shorter) if old[-1 - place] != new[-1 - place]), shorter)
    old_end, new_end = len(old) - end, len(new) - end
    yield "equal", 0, start, 0, start
    if old_end > start or new_end > start:
        is_long = max(old_end, new_end) - start > _PIECES
        matcher = SequenceMatcher(None, old[start:old_end], new[start:new_end], autojunk=is_long)
        for kind, i, j, k, m in matcher.get_opcodes():
            yield kind, i + start, j + start, k + start, m + start
    yield "equal", old_end, len(old), new_end, len(new)


@dataclass
class _Found:
    """What is found of a message: its parts in their order, texts as lines, new texts without a number."""

    message: Message
    runs: list[tuple[int | None, list[SourceLine]]] = field(default_factory=list)

    def keep(self, piece: _Piece) -> None:
        if piece.is_block:
            self.runs.append((piece.part, []))
        elif piece.part is not None:
            self._to(piece.part).append(SourceLine(piece.key, piece.raw))

    def change(self, old: Sequence[_Piece], start: int, end: int, lines: list[str]) -> None:
        """Put changed lines to the text of which they replace lines, or beside which they stand."""
        if not lines:
            return
        texts = [piece.part for piece in old[start:end] if piece.part is not None and not piece.is_block]
        part, lines = (texts[0], lines) if texts else _placed(old, start, end, lines)
        if lines:
            self._to(part).extend(SourceLine(line, None) for line in lines)

    def _to(self, part: int | None) -> list[SourceLine]:
        if not self.runs or self.runs[-1][0] != part:
            self.runs.append((part, []))
        return self.runs[-1][1]


def _placed(old: Sequence[_Piece], start: int, end: int, lines: list[str]) -> tuple[int | None, list[str]]:
    """Return the text beside which new lines stand, if there is one, and what of them belongs to it.

    Blank lines that part a text from what stands beside it are no part of it, but they are once it goes on there.
    """
    before = next((place for place in reversed(range(start)) if old[place].part is not None), None)
    after = next((place for place in range(end, len(old)) if old[place].part is not None), None)
    if before is not None and not old[before].is_block:
        if after is not None and old[after].is_block:
            lines = _stripped(lines, -1)
        return old[before].part, [""] * (start - before - 1) + lines if lines else []
    lines = _stripped(lines, 0)
    if after is not None and not old[after].is_block:
        return old[after].part, lines + [""] * (after - end) if lines else []
    return None, _stripped(lines, -1)


def _stripped(lines: list[str], side: int) -> list[str]:
    lines = list(lines)
    while lines and not lines[side].strip():
        del lines[side]
    return lines


def _parts(
    message: Message, runs: Sequence[tuple[int | None, list[SourceLine]]], attachments: Mapping[str, Any]
) -> Iterator[Part]:
    for number, lines in runs:
        part = None if number is None else message.content[number]
        if not lines and part is not None:
            yield part
            continue
        before = part if isinstance(part, TextPart) else TextPart("")
        for is_image, group in groupby(lines, key=lambda line: _image(message, line, attachments) is not None):
            some = list(group)
            if is_image:
                yield from (image for line in some if (image := _image(message, line, attachments)))
                continue
            text = "".join(raw_lines(some, before.text))
            if text != before.text and (part is None or len(some) < len(lines)):
                text = text.strip("\n")
            if text or len(some) == len(lines):
                yield before if text == before.text else TextPart(text)


def _image(message: Message, line: SourceLine, attachments: Mapping[str, Any]) -> ImagePart | None:
    """Return the image that someone has put into a question, where its line is."""
    if line.raw is not None or not isinstance(message, UserMessage) or not (match := _ATTACHED.fullmatch(line.source)):
        return None
    bundle = attachments.get(match[1], attachments.get(unquote(match[1])))
    for media_type, data in bundle.items() if isinstance(bundle, Mapping) else ():
        if str(media_type).startswith("image/"):
            text = "".join(data) if isinstance(data, list) else str(data)
            return ImagePart("".join(text.split()), media_type=media_type)
    return None
