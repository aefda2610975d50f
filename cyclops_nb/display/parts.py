"""The parts of messages as HTML: text, reasoning, tool calls with their results, images and files.

Nothing here is bounded by what it gets: a tool may return 20 MB, a model may ask for a thousand calls. Each part takes
its space from a `Room` and is cut when there is none left, in the display alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby

from markupsafe import Markup

from cyclops_nb.annotations import notes
from cyclops_nb.display.html import facts, fold
from cyclops_nb.display.units import Result
from cyclops_nb.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolMessage,
)
from cyclops_nb.render.escape import EMPTY, fragment, image, join, json_block, label, link
from cyclops_nb.render.markdown import to_html
from cyclops_nb.render.text import one_line, size
from cyclops_nb.render.words import count, money, seconds, tokens

__all__ = [
    "IMAGE_ROOM",
    "PART_LIMIT",
    "Images",
    "Room",
    "about",
    "arguments_line",
    "call",
    "content",
    "file_line",
    "index_mark",
    "preview",
    "stray_result",
]

PART_LIMIT = 200
"""Parts of one message that are shown."""
IMAGE_ROOM = 4_000_000
"""Characters that all images of one output may take."""
_MARKDOWN_LIMIT = 20_000
_BLOCK_LIMIT = 6_000
_LEAST = 200  # characters of a text that are shown even where no room is left
_LINE = 80
_USUAL_ENDS = {None, "stop", "tool_calls", "end_turn", "tool_use", "completed"}
_PARSED = 2_000  # longer arguments are not worth parsing for one line


@dataclass
class Images:
    """The space that images of an output may still take."""

    left: int = IMAGE_ROOM
    """Characters."""


@dataclass
class Room:
    """The space that the parts of one message may still take, and what the output has left for images."""

    left: int = 60_000
    """Characters of HTML."""
    images: Images = field(default_factory=Images)

    def limit(self, wanted: int) -> int:
        """Return how many characters of a text may be shown if `wanted` would be good."""
        return min(wanted, max(self.left, _LEAST))

    def filled(self, html: Markup) -> Markup:
        """Return `html`, with its space taken."""
        self.left -= len(html)
        return html


def content(parts: Iterable[Part], room: Room) -> Markup:
    """Return the parts of a message that are no tool calls.

    Parameters
    ----------
    parts : iterable of parts
        In the order they came.
    room : Room
        The space there is.

    Returns
    -------
    Markup
        Their HTML, neighbouring texts as one text.
    """
    return join(_each(parts, room))


def _each(parts: Iterable[Part], room: Room) -> Iterator[Markup]:
    for kind, group in groupby(parts, key=type):
        if kind is TextPart:
            yield _text("".join(part.text for part in group if isinstance(part, TextPart)), room)
        else:
            yield from (_one(part, room) for part in group)


def _one(part: Part, room: Room) -> Markup:
    if isinstance(part, ReasoningPart):
        return _reasoning(part, room)
    if isinstance(part, ImagePart):
        return _image(part, room)
    if isinstance(part, FilePart):
        return fragment('<div class="cy-file">{}</div>', file_line(part))
    return fragment('<div class="cy-note">{}</div>', one_line(part.type))


def _text(text: str, room: Room) -> Markup:
    return room.filled(_markdown(text, room.limit(_MARKDOWN_LIMIT))) if text.strip() else EMPTY


@lru_cache(maxsize=512)
def _markdown(text: str, limit: int) -> Markup:
    """Remember what was made: a session is shown again and again, and its forks say the same."""
    return to_html(text, limit=limit)


def _reasoning(part: ReasoningPart, room: Room) -> Markup:
    if not part.text.strip():
        return fragment('<div class="cy-note">{}</div>', "reasoning that the provider does not show")
    words = len(part.text.split())
    summary = fragment('<span class="cy-what">reasoning</span> <span class="cy-meta">{}</span>', count(words, "word"))
    return fold(summary, _text(part.text, room), kind="reasoning")


def _image(part: ImagePart, room: Room) -> Markup:
    data, media_type = part.data, part.media_type or "image"
    if part.url is not None:
        start, comma, encoded = part.url.partition(";base64,")
        if not (comma and start.startswith("data:")):
            return fragment('<div class="cy-file">image, not loaded: {}</div>', link(part.url))
        data, media_type = encoded, start.removeprefix("data:")
    shown = image(data or "", media_type, "image", limit=max(room.images.left, 0))
    room.images.left -= len(shown)
    return fragment('<div class="cy-file">{}</div>', shown)


def file_line(part: FilePart) -> str:
    """Return a file in words: its name, type and size."""
    bytes_in_it = len(part.data) * 3 // 4 - part.data[-2:].count("=")
    return f"{one_line(part.name) or 'file without a name'} ({one_line(part.media_type, 60)}, {size(bytes_in_it)})"


def index_mark(index: int | None) -> Markup:
    """Return the index of a message as it stands before it; nothing if it has none."""
    return fragment('<span class="cy-i">[{}]</span> ', index) if index is not None else EMPTY


def arguments_line(arguments: str) -> str:
    """Return the arguments of a call as they would stand in Python code, in one line.

    Parameters
    ----------
    arguments : str
        What the model wrote.

    Returns
    -------
    str
        Plain text: ``name=value`` for a JSON object, else the beginning of the text.

    Examples
    --------
    >>> arguments_line('{"city": "Paris", "n": 2}'), arguments_line("{oops")
    ('city="Paris", n=2', '{oops')
    """
    try:
        values = json.loads(arguments) if len(arguments) <= _PARSED else None
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        return one_line(arguments, _LINE)
    return one_line(
        ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values.items()), _LINE
    )


def preview(message: ToolMessage) -> str:
    """Return the beginning of a result in one line, with what is no text named in brackets."""
    parts = message.content[:PART_LIMIT]
    return one_line(" ".join(_in_brackets(part) for part in parts), _LINE)


def _in_brackets(part: Part) -> str:
    if isinstance(part, TextPart):
        return part.text[: 4 * _LINE + 1]
    return f"[{part.name}]" if isinstance(part, FilePart) else f"[{part.type}]"


def call(part: ToolCall, result: Result | None, room: Room, *, expected: bool, is_indexed: bool = True) -> Markup:
    """Return a tool call with its result.

    Parameters
    ----------
    part : ToolCall
        The call.
    result : Result or None
        The result.
    room : Room
        The space there is.
    expected : bool
        Whether to say so when there is no result.
    is_indexed : bool
        Whether the index of the result is shown.

    Returns
    -------
    Markup
        A line that says what was called, with what, and what came of it; it opens to all of it.
    """
    name = fragment("<code><b>{}</b>({})</code>", label(part.name), label(arguments_line(part.arguments)))
    body = [_labelled("arguments", room.filled(json_block(part.arguments, room.limit(_BLOCK_LIMIT))))]
    if result is None:
        note = fragment(' <b class="cy-bad">no result</b>') if expected else ""
        return fold(fragment("{}{}", name, note), *body, kind="call")
    message = result.message
    body.append(_labelled(f"result [{result.index}]" if is_indexed else "result", _result(message, room)))
    index = index_mark(result.index if is_indexed else None)
    summary = fragment("{}{} → {} {}", index, name, label(preview(message)), _outcome(part, message))
    return fold(summary, *body, kind="call") + _pictures(message, room)


def stray_result(message: ToolMessage, room: Room) -> Markup:
    """Return a tool result that stands without its call."""
    return fragment("{}{}", _result(message, room), _pictures(message, room))


def about(message: Message) -> list[tuple[str, bool]]:
    """Return what is known about a message beside its content.

    Parameters
    ----------
    message : message
        Any message.

    Returns
    -------
    list of (str, bool)
        Words in plain text, each with whether it is bad news.

    Examples
    --------
    >>> about(ToolMessage("call_1", "get_weather", "no such city", status="error", duration=0.5))
    [('error', True), ('0.50 s', False)]
    """
    told: list[tuple[str, bool]] = []
    if isinstance(message, ToolMessage):
        told.append((message.status, message.status != "ok"))
    if isinstance(message, AssistantMessage) and message.model:
        told.append((one_line(message.model), False))
    if isinstance(message, AssistantMessage | ToolMessage) and message.duration is not None:
        told.append((seconds(message.duration), False))
    if isinstance(message, AssistantMessage):
        told += [] if message.usage is None else [(tokens(message.usage), False)]
        told += [] if message.cost is None else [(money(message.cost), False)]
        if message.finish_reason not in _USUAL_ENDS:
            told.append((f"ended by {one_line(message.finish_reason or '')}", True))
    told += [("edited", False)] if "edited_from" in message.metadata else []
    if noted := notes(message):
        told.append((one_line(", ".join(f"{name}: {value}" for name, value in noted.items())), False))
    return told


def _outcome(part: ToolCall, message: ToolMessage) -> Markup:
    told = [text for text, _ in about(message)]
    if message.name != part.name:
        told.append(f"from {one_line(message.name)}")
    template = '<span class="cy-meta">{}</span>' if message.status == "ok" else '<b class="cy-bad">{}</b>'
    return fragment(template, facts(map(label, told)))


def _labelled(name: str, block: Markup) -> Markup:
    return fragment('<div class="cy-label">{}</div>{}', name, block)


def _result(message: ToolMessage, room: Room) -> Markup:
    """Return what is no picture in a result; pictures stand outside the fold, they are what one wants to see."""
    shown = []
    for part in message.content[:PART_LIMIT]:
        if isinstance(part, TextPart):
            shown.append(room.filled(json_block(part.text, room.limit(_BLOCK_LIMIT))))
        elif not isinstance(part, ImagePart):
            shown.append(_one(part, room))
    rest = len(message.content) - PART_LIMIT
    return join(
        [*shown, fragment('<div class="cy-note">{}</div>', f"… {count(rest, 'more part')}") if rest > 0 else ""]
    )


def _pictures(message: ToolMessage, room: Room) -> Markup:
    return join(_image(part, room) for part in message.content[:PART_LIMIT] if isinstance(part, ImagePart))
