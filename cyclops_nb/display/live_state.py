"""What is seen of a run that goes on: events in, blocks of HTML out. Pure.

A block is a part of the page with a name. Who shows the blocks compares them with those of the last time by name, and
sends only what is new. However a stream was cut into deltas, and whenever one looked, the blocks of a finished step are
what its message looks like in a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup

from cyclops_nb.accumulator import Accumulator
from cyclops_nb.display.conversation import byline, index_mark, unit_block
from cyclops_nb.display.html import facts, fold, head
from cyclops_nb.display.live_text import GrowingText
from cyclops_nb.display.parts import Room, arguments_line, call, content
from cyclops_nb.display.tool_output import ToolOutput
from cyclops_nb.display.units import Result, Unit
from cyclops_nb.display.usage_table import cost_words
from cyclops_nb.events import (
    Compacted,
    Event,
    RequestRetried,
    RunStarted,
    StepFinished,
    StepStarted,
    ToolCallReady,
    ToolResult,
)
from cyclops_nb.messages import AssistantMessage, AssistantPart, Message, ReasoningPart, TextPart, ToolCall, ToolMessage
from cyclops_nb.render.escape import EMPTY, fragment, json_block, label, root
from cyclops_nb.render.words import count, seconds, tokens
from cyclops_nb.usage import Usage, total

__all__ = ["Block", "LiveState", "ShownOutput"]

_GROWTH = 1.5
_LEAST_GROWTH = 300
_LAST_LINE = 120
_ARGUMENTS = 6_000
_CHARACTERS_PER_TOKEN = 4
_OPEN_BYLINE = '<div class="cy-by"><span role="heading" aria-level="4">{}<b>{}</b></span></div>'
_WORKING = fragment('<span class="cy-work"></span>')


class Block(NamedTuple):
    """A part of the page."""

    name: str
    html: Markup
    is_final: bool = True
    """Whether it will stay as it is."""
    widget: str = ""
    """The id of a widget that stands here in place of HTML: one that a tool has displayed."""


class ShownOutput(NamedTuple):
    """What a tool has shown to the reader."""

    place: int
    """That of the result of the call among the messages of the run."""
    call: ToolCall
    output: ToolOutput


def _block(name: str, *parts: object, kind: str, is_final: bool = True) -> Block:
    return Block(name, root(*parts, kind=f"cy-live {kind}"), is_final)


class _Indices(NamedTuple):
    """Where the messages of the run stand in the session."""

    start: int
    """The index of its first one."""
    first: int
    """The least index that one can have: 1 once a summary stands before them."""

    def of(self, place: int | None) -> int | None:
        """Return the index of the message with a place in the run, or None if it stands in the session no more."""
        return None if place is None or self.start + place < self.first else self.start + place


class _Text:
    """A text of an answer."""

    def __init__(self) -> None:
        self._text = GrowingText()
        self._finished: list[Markup] | None = None

    def blocks(self, name: str, part: TextPart | ReasoningPart, *, is_open: bool) -> Iterator[Block]:
        if not is_open and self._finished is None:
            whole = content((part,), Room())
            self._finished = self._text.finished(part.text, whole) if whole else []
        pieces = self._text.pieces(part.text) if self._finished is None else self._finished
        for number, piece in enumerate(pieces):
            is_last = number == len(pieces) - 1
            yield _block(f"{name}.{number}", piece, kind="cy-more", is_final=not (is_last and is_open))


class _Reasoning:
    """Reasoning: folded, with its last line below it while it is written."""

    def __init__(self) -> None:
        self._shown = ""

    def blocks(self, name: str, part: TextPart | ReasoningPart, *, is_open: bool) -> Iterator[Block]:
        # a fold that is made anew is closed: one can read in it for a while
        if not is_open or len(part.text) > _GROWTH * len(self._shown) + _LEAST_GROWTH or not self._shown:
            self._shown = part.text
        shown = part if self._shown == part.text else ReasoningPart(self._shown)
        yield _block(name, content((shown,), Room()), kind="cy-more", is_final=not is_open)
        if is_open:
            line = part.text.rstrip().rpartition("\n")[2]
            line = line if len(line) <= _LAST_LINE else "…" + line[-_LAST_LINE:]
            last = fragment('<div class="cy-last">{} {}</div>', _WORKING, label(line, _LAST_LINE + 1))
            yield _block(f"{name}.last", last, kind="cy-more", is_final=False)


class _Whole:
    """A message that is complete when it is first seen: what the run was asked, or a summary."""

    def __init__(self, name: str, message: Message, place: int | None) -> None:
        self._name = name
        self._message = message
        self._place = place
        self._made: dict[int | None, Block] = {}

    def blocks(self, indices: _Indices) -> list[Block]:
        """Return the message, with its index if it has one."""
        index = indices.of(self._place)
        if index not in self._made:
            html = unit_block(Unit(index or 0, self._message), Room(), is_indexed=index is not None)
            self._made[index] = Block(self._name, root(html, kind="cy-live"))
        return [self._made[index]]


class _Step:
    """One completion and the tools it asked for."""

    def __init__(self, name: str, number: int, place: int, outputs: Mapping[tuple[int, str], ToolOutput]) -> None:
        self.accumulator = Accumulator()
        self.outputs = outputs
        self.number = number
        self.place = place
        """How many messages of the run stand before it in the transcript."""
        self.ready: list[ToolCall] = []
        self.results: dict[str, ToolMessage] = {}
        self.message: AssistantMessage | None = None
        self._name = name
        self._views: list[_Text | _Reasoning | None] = []
        self._calls: dict[str, tuple[object, Block]] = {}
        self._index: int | None = None
        self._made: list[Block] | None = None

    def finish(self, message: AssistantMessage) -> None:
        """Take the message as the transcript has it; it may differ from what was told of it."""
        if _said(message.content) != _said(self.accumulator.parts):
            self._name += "*"
            self._views.clear()
        self.message = message

    def blocks(self, indices: _Indices) -> list[Block]:
        """Return the byline and the parts."""
        index = indices.of(self.place)
        if self._made is None or index != self._index:
            self._index = index
            blocks = [self._byline(), *self._blocks_of_parts()]
            self._made = blocks if self.message is not None else None
            return blocks
        return self._made

    def _byline(self) -> Block:
        if self.message is None:
            line = fragment(_OPEN_BYLINE, index_mark(self._index), "assistant")
        else:
            line = byline(Unit(self._index or 0, self.message), is_indexed=self._index is not None)
        return _block(self._name, line, kind="cy-m cy-assistant", is_final=self.message is not None)

    def _blocks_of_parts(self) -> Iterator[Block]:
        parts = _merged(self.accumulator.parts if self.message is None else self.message.content)
        calls = enumerate([*self.ready, *[None] * len(parts)], 1)
        for number, part in enumerate(parts):
            name = f"{self._name}.{number}"
            if isinstance(part, ToolCall):
                behind, ready = next(calls)
                index = None if self._index is None else self._index + behind
                yield from self._call(name, ready or part, index, is_ready=ready is not None)
            else:
                is_open = self.message is None and not self.ready and number == len(parts) - 1
                yield from self._view(number, part).blocks(name, part, is_open=is_open)

    def _view(self, number: int, part: AssistantPart) -> _Text | _Reasoning:
        self._views += [None] * (number + 1 - len(self._views))
        view = self._views[number]
        if view is None:
            view = self._views[number] = _Text() if isinstance(part, TextPart) else _Reasoning()
        return view

    def _call(self, name: str, part: ToolCall, index: int | None, *, is_ready: bool) -> Iterator[Block]:
        result = self.results.get(part.id)
        is_over = result is not None or self.message is not None
        state = (is_ready, is_over, result, part.arguments, index)
        if name not in self._calls or self._calls[name][0] != state:
            shown = _ended_call(part, result, index) if is_over else _open_call(part, index, is_ready=is_ready)
            self._calls[name] = (state, _block(name, shown, kind="cy-more", is_final=is_over))
        yield self._calls[name][1]
        if output := self.outputs.get((self.number, part.id)):
            if shown := output.live_html:
                said = fragment('<div class="cy-printed"><div class="cy-label">output</div>{}</div>', shown)
                yield _block(f"{name}.out", said, kind="cy-more", is_final=is_over)
            yield from (Block(f"{name}.{widget}", EMPTY, widget=widget) for widget in output.widgets)


def _open_call(part: ToolCall, index: int | None, *, is_ready: bool) -> Markup:
    """Return a call that is being written, or whose tool works; the index is what its result will have."""
    line = fragment(
        '{}{} <code>{}</code>({}) <span class="cy-meta">{}</span>',
        index_mark(index),
        _WORKING,
        label(part.name),
        label(arguments_line(part.arguments)),
        "working" if is_ready else "being written",
    )
    if not is_ready:
        return fragment('<div class="cy-call">{}</div>', line)
    arguments = json_block(part.arguments, _ARGUMENTS)
    return fold(line, fragment('<div class="cy-label">arguments</div>{}', arguments), kind="call")


def _ended_call(part: ToolCall, result: ToolMessage | None, index: int | None) -> Markup:
    answer = None if result is None else Result(index or 0, result)
    return call(part, answer, Room(), expected=True, is_indexed=index is not None)


def _merged(parts: Iterable[AssistantPart]) -> list[AssistantPart]:
    """Return parts with neighbouring texts as one text, as they are shown."""
    merged: list[AssistantPart] = []
    for kind, group in groupby(parts, key=type):
        some = list(group)
        if kind is TextPart and len(some) > 1:
            merged.append(TextPart("".join(part.text for part in some if isinstance(part, TextPart))))
        else:
            merged += some
    return merged


def _said(parts: Iterable[AssistantPart]) -> list[tuple[str, str]]:
    return [(part.type, part.text if isinstance(part, TextPart | ReasoningPart) else "") for part in _merged(parts)]


class LiveState:
    """A run as far as its events tell.

    Parameters
    ----------
    outputs : mapping, optional
        What tools have printed and displayed, by the number of the step and the id of the call; it may grow.

    Examples
    --------
    >>> from cyclops_nb.events import TextDelta
    >>> state = LiveState()
    >>> state.add(StepStarted(step=1))
    >>> state.add(TextDelta(step=1, text="**Hello**"))
    >>> [block.name for block in state.blocks()]
    ['step1', 'step1.0.0']
    """

    def __init__(self, outputs: Mapping[tuple[int, str], ToolOutput] | None = None) -> None:
        self._outputs = {} if outputs is None else outputs
        self.model = ""
        self.step = 0
        self.note = ""
        """What the run waits for, if that is worth saying."""
        self.start = 0
        """The index that the first message of the run has in the session at this time."""
        self._is_compacted = False
        self._places = 0
        """How many messages of the run stand in the transcript."""
        self._is_answered = False
        """Whether the last of them is an answer without calls."""
        self._done: list[_Whole | _Step] = []
        self._current: _Step | None = None
        self._completions = 0
        self._usages: list[Usage | None] = []
        self._costs: list[float | None] = []

    def add_input(self, messages: Sequence[Message]) -> None:
        """Show what the run was asked."""
        self._done += [_Whole(f"input{number}", message, number) for number, message in enumerate(messages)]
        self._places = len(messages)

    def tools_with_output(self) -> list[ShownOutput]:
        """Return what tools have printed or displayed, in the order of their calls."""
        steps = [step for step in [*self._done, self._current] if isinstance(step, _Step)]
        return [
            ShownOutput(step.place + behind, call, output)
            for step in steps
            for behind, call in enumerate(step.ready, 1)
            if (output := self._outputs.get((step.number, call.id))) is not None and output.html
        ]

    def add(self, event: Event) -> None:
        """Take note of what has happened."""
        match event:
            case RunStarted():
                self.model = event.model
            case StepStarted():
                self.step = event.step
                self._begin_step()
            case RequestRetried():
                self._begin_step()
                self.note = f"try {event.attempt + 1}, after {event.reason}"
                return
            case ToolCallReady():
                self._step().ready.append(event.call)
            case ToolResult():
                self._step().results[event.message.call_id] = event.message
            case StepFinished():
                self._finish_step(event)
            case Compacted():
                self._done.append(_Whole(f"summary{len(self._done)}", event.message, None))
                self._is_compacted = True
            case _:
                self._step().accumulator.add(event)
        self.note = ""

    def _begin_step(self) -> None:
        """Begin a completion; what was told of one that did not come to its end is void."""
        if self._is_answered:  # and asked once more: that the answer was not good is a message in between
            self._is_answered = False
            self._places += 1
        self._completions += 1
        self._current = _Step(f"step{self._completions}", self.step, self._places, self._outputs)

    def _step(self) -> _Step:
        if self._current is None:
            self._begin_step()
        assert self._current is not None  # noqa: S101 - for the type checker
        return self._current

    def _finish_step(self, event: StepFinished) -> None:
        step = self._step()
        step.finish(event.message)
        self._is_answered = not event.message.tool_calls
        self._places += 1 + len(event.message.tool_calls)
        self._done.append(step)
        self._current = None
        self._usages.append(event.usage)
        self._costs.append(event.cost)

    def blocks(self) -> list[Block]:
        """Return what is seen, from top to bottom."""
        indices = _Indices(self.start, int(self._is_compacted))
        items = [*self._done, *([self._current] if self._current else [])]
        return [block for item in items for block in item.blocks(indices)]

    def head(self, elapsed: float, stop: object = "") -> Markup:
        """Return the head: whose answer it is, and what it took so far.

        Parameters
        ----------
        elapsed : float
            Seconds since the run was shown.
        stop : object
            How to stop it, if there is no button.

        Returns
        -------
        Markup
            A root element.
        """
        about = facts(
            [
                fragment("{} running", _WORKING),
                f"step {self.step}" if self.step else "",
                f"{elapsed:.0f} s" if elapsed < 60 else seconds(elapsed),  # noqa: PLR2004 - a minute
                *self._consumed(),
                label(self.note) if self.note else "",
                stop,
            ]
        )
        title = fragment("Response of {}", label(self.model)) if self.model else "Response"
        return root(head(title, about), kind="cy-response cy-live")

    def _consumed(self) -> Iterator[str]:
        if self._usages:
            yield tokens(total(self._usages))
            yield cost_words(None if None in self._costs else sum(cost for cost in self._costs if cost is not None))
        if self._current is not None:
            accumulator = self._current.accumulator
            written = sum(
                len(part.arguments if isinstance(part, ToolCall) else part.text) for part in accumulator.parts
            )
            if written:
                yield f"about {count(max(1, written // _CHARACTERS_PER_TOKEN), 'token')} being written"
