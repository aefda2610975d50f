"""Messages as HTML, one below the other: who said what, and what the tools did.

Every message shows its index, since that is what `fork`, `truncate` and `edit` take. A result is shown with the call
that it answers and carries its own index there. Nothing asks whether a transcript is valid; looking at one is how its
fault is found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from cyclops_nb.display.html import facts, fold, page
from cyclops_nb.display.parts import PART_LIMIT, Images, Room, about, call, content, index_mark, preview, stray_result
from cyclops_nb.display.units import Unit, choose, split, units
from cyclops_nb.messages import AssistantMessage, Message, ToolCall, ToolMessage
from cyclops_nb.render.escape import fragment, join, label
from cyclops_nb.render.text import one_line
from cyclops_nb.render.words import count, index_range, moment, speaker

__all__ = ["STYLES", "byline", "conversation", "index_mark", "message_page", "unit_block"]

STYLES = ("transcript",)
"""Parts of the style sheet that an output with messages needs."""
_BLOCKS = {
    False: '<div class="cy-m cy-{}" role="group" aria-label="{}" style="border-top:1px solid #8885;padding:.4em .6em">'
    '{}<div class="cy-body">{}{}{}</div></div>',
    True: '<div class="cy-m cy-{}" role="group" aria-label="{}" '
    'style="background:#8882;border-top:1px solid #8885;padding:.4em .6em">'
    '{}<div class="cy-body">{}{}{}</div></div>',
}
"""Whether the user speaks: a message as a frame, which stands out also where there is no style sheet."""
_ROOM = 300_000  # characters of HTML for whole messages, so that an output stays below 1 MB


def unit_block(unit: Unit, room: Room, *, expected: bool = True, is_indexed: bool = True) -> Markup:
    """Return a message with all that belongs to it.

    Parameters
    ----------
    unit : Unit
        The message, and the results of its calls.
    room : Room
        The space there is.
    expected : bool
        Whether a call without a result is said to have none.
    is_indexed : bool
        Whether the message stands in a transcript, and its index is shown.

    Returns
    -------
    Markup
        A ``<div>`` that is a group for screen readers.
    """
    message = unit.message
    if isinstance(message, ToolMessage):
        body = stray_result(message, room)
    elif isinstance(message, AssistantMessage):
        body = _answer(unit, room, expected=expected, is_indexed=is_indexed)
    else:
        body = content(message.content[:PART_LIMIT], room)
    rest = len(message.content) - PART_LIMIT
    more = fragment('<div class="cy-note">{}</div>', f"… {count(rest, 'more part')}") if rest > 0 else ""
    empty = "" if message.content else fragment('<div class="cy-note">{}</div>', "(empty)")
    return fragment(
        _BLOCKS[message.role == "user"],
        message.role,
        f"message {unit.index}, {speaker(message)}" if is_indexed else speaker(message),
        byline(unit, is_indexed=is_indexed),
        body,
        more,
        empty,
    )


def _answer(unit: Unit, room: Room, *, expected: bool, is_indexed: bool) -> Markup:
    """Return the parts of an answer in their order, each call with its result."""
    shown: list[Markup] = []
    calls = iter(unit.calls)
    waiting = []
    for part in unit.message.content[:PART_LIMIT]:
        if not isinstance(part, ToolCall):
            waiting.append(part)
            continue
        shown.append(content(waiting, room))
        waiting = []
        result = next(calls, (part, None))[1]
        shown.append(call(part, result, room, expected=expected, is_indexed=is_indexed))
    return join([*shown, content(waiting, room)])


def byline(unit: Unit, *, is_indexed: bool) -> Markup:
    """Return the line above a message: who speaks, and what is known about it beside its content."""
    message = unit.message
    return fragment(
        '<div class="cy-by" title="{}"><span role="heading" aria-level="4">{}<b>{}</b></span> '
        '<span class="cy-meta">{}</span></div>',
        moment(message.created_at),
        index_mark(unit.index if is_indexed else None),
        label(speaker(message)),
        facts(_about(message)),
    )


def _about(message: Message) -> list[Markup]:
    """Return what is known about a message beside its content, as HTML."""
    return [
        fragment('<b class="cy-bad">{}</b>', label(text)) if is_bad else label(text, 400)
        for text, is_bad in about(message)
    ]


def unit_line(unit: Unit) -> Markup:
    """Return a message in one line, for the middle of a very long conversation."""
    message = unit.message
    text = preview(message) if isinstance(message, ToolMessage) else one_line(message.text, 100)
    calls = ", ".join(one_line(called.name, 40) for called, _ in unit.calls[:5])
    return fragment(
        '<div class="cy-line"><span class="cy-i">{}</span> <b>{}</b> {} <span class="cy-meta">{}</span></div>',
        index_range(unit.index, unit.last),
        speaker(message),
        text,
        f"calls {calls}" if calls else "",
    )


def conversation(
    messages: Sequence[Message],
    *,
    start: int = 0,
    before: Mapping[int, Markup] | None = None,
    after: Mapping[int, Markup] | None = None,
    expected: bool = True,
    room: int = _ROOM,
) -> Markup:
    """Return messages one below the other; the middle of a long conversation is folded.

    Parameters
    ----------
    messages : sequence of messages
        A transcript, or a part of one.
    start : int
        The index of the first of them.
    before, after : mapping, optional
        What stands before, and after, the message with an index.
    expected : bool
        Whether a call without a result is said to have none.
    room : int
        About how many characters of HTML the messages may take.

    Returns
    -------
    Markup
        A sequence of blocks.
    """
    images = Images()

    def full(unit: Unit) -> tuple[Markup, int]:
        left = images.left
        block = unit_block(unit, Room(images=images), expected=expected)
        return block, len(block) - (left - images.left)  # images have a room of their own

    choice = split(units(messages, start))
    made = choose(
        choice,
        room,
        full=full,
        line=unit_line,
        omitted=_omitted,
    )
    lines = dict(before or {})

    def block(chosen: Sequence[Unit]) -> Markup:
        parts: list[object] = []
        for unit in chosen:
            due = [index for index in lines if index <= unit.index]
            parts += [lines.pop(index) for index in sorted(due)]
            if unit.index not in made:
                continue
            parts.append(made[unit.index])
            parts += [(after or {}).get(index, "") for index in unit.indices]
        return join(parts)

    head_html, middle_html, tail_html = block(choice.head), block(choice.middle), block(choice.tail)
    if choice.middle:
        span = index_range(choice.middle[0].index, choice.middle[-1].last)
        number = sum(len(unit.indices) for unit in choice.middle)
        middle_html = fold(f"{span}: {count(number, 'more message')}", middle_html, kind="middle")
    return join([head_html, middle_html, tail_html, *(lines[index] for index in sorted(lines))])


def _omitted(first: Unit, last: Unit) -> Markup:
    text = f"… {index_range(first.index, last.last)} are not shown: session.messages[{first.index}:{last.last + 1}]"
    return fragment('<div class="cy-line cy-note">{}</div>', text)


def message_page(message: Message) -> Markup:
    """Return one message as HTML, without an index since it does not know where it stands."""
    unit = Unit(0, message, tuple((part, None) for part in message.content if isinstance(part, ToolCall)))
    return page(unit_block(unit, Room(), expected=False, is_indexed=False), kind="message", styles=STYLES)
