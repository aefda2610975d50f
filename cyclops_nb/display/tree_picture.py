"""A family of sessions as a picture, and as lines of text.

Each session is a row with a line as long as its conversation, which leaves that of its parent at the message where it
was forked. Forks that left late stand first, so that no line crosses another. The lines say nothing that does not stand
beside them in words: notebooks that are not trusted lose them, and screen readers pass over them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from cyclops_nb.display.family_tree import SessionTree, Spent, TreeBranch
from cyclops_nb.display.html import Cell, cell, head, page, scrolling
from cyclops_nb.render.escape import fragment, join, label
from cyclops_nb.render.text import one_line
from cyclops_nb.render.words import UNKNOWN, count, money, number, short_id, spent, tokens
from cyclops_nb.usage import Usage

__all__ = ["tree_page", "tree_text"]

_ROWS = 200
_DEEPEST = 12
"""Levels of a tree of text; what lies deeper is a number."""
_EDGE = 8
_HEIGHT = 26
_MIDDLE = _HEIGHT // 2
_TOP, _BOTTOM = -2, _HEIGHT + 2
"""Lines reach into the rows above and below, which a font may make a little higher."""
_WIDTH = 224
_STEP = 16
"""Pixels between two messages while there is room for that."""
_GRID = 4
_BEND = 6
_SVG = (
    '<svg class="cy-graph" width="{0}" height="{1}" viewBox="0 0 {0} {1}" fill="none" stroke="currentColor" '
    'stroke-width="1.5" aria-hidden="true">{2}</svg>'
)
_LINE = '<path d="{}"/>'
_DASHES = '<path d="{}" stroke-dasharray="2 3"/>'
_DOT = '<circle cx="{}" cy="{}" r="{}" fill="currentColor" stroke="none"/>'
_RING = '<circle cx="{}" cy="{}" r="6.5"/>'
_NAMES = ("session", "forked", "messages", "tokens in", "tokens out", "cost")


@dataclass(frozen=True)
class _Lane:
    """Where the line of a session runs."""

    start: int
    """The message at which it leaves its parent."""
    end: int
    parent: int | None
    """The row of its parent."""


def _lanes(branches: Sequence[TreeBranch]) -> list[_Lane]:
    lanes: list[_Lane] = []
    above: list[int] = []
    for row, branch in enumerate(branches):
        del above[branch.depth :]
        parent = above[-1] if branch.depth else None
        # a fork from what its parent has from its own parent is drawn where the parent's line begins
        start = max(branch.forked_at or 0, lanes[parent].start) if parent is not None else 0
        lanes.append(_Lane(start, max(branch.messages, start), parent))
        above.append(row)
    return lanes


class _Graph:
    """The lines beside the rows of a tree."""

    def __init__(self, branches: Sequence[TreeBranch]) -> None:
        self._branches = branches
        self._lanes = _lanes(branches)
        self._messages = max((lane.end for lane in self._lanes), default=0)
        self._is_wide = self._messages * _STEP > _WIDTH
        self._forks: list[list[int]] = [[] for _ in branches]
        """Of each row, the messages at which others leave it."""
        last: dict[tuple[int, int], int] = {}
        for row, lane in enumerate(self._lanes):
            if lane.parent is not None:
                self._forks[lane.parent].append(lane.start)
                last[lane.parent, self._x(lane.start)] = row
        self._passing: list[set[int]] = [set() for _ in branches]
        """Of each row, where lines pass it on their way down."""
        for (parent, x), row in last.items():
            for between in range(parent + 1, row):
                self._passing[between].add(x)

    @property
    def width(self) -> int:
        """Pixels."""
        return self._x(self._messages) + _EDGE

    def _x(self, message: int) -> int:
        if not self._is_wide:
            return _EDGE + message * _STEP
        return _EDGE + round(_WIDTH * message / self._messages / _GRID) * _GRID

    def row(self, place: int) -> Markup:
        """Return the lines beside a row."""
        return fragment(
            _SVG, self.width, _HEIGHT, join([fragment(_LINE, "".join(self._lines(place))), *self._dots(place)])
        )

    def _lines(self, place: int) -> Iterator[str]:
        lane = self._lanes[place]
        start, end = self._x(lane.start), self._x(lane.end)
        yield from (f"M{x} {_TOP}V{_BOTTOM}" for x in sorted(self._passing[place]))
        yield from (f"M{x} {_MIDDLE}V{_BOTTOM}" for x in sorted({self._x(fork) for fork in self._forks[place]}))
        if lane.parent is None:
            yield f"M{start} {_MIDDLE}H{end}"
        else:
            bend = min(_BEND, max(end - start, 0))
            yield f"M{start} {_TOP}V{_MIDDLE - bend}Q{start} {_MIDDLE} {start + bend} {_MIDDLE}H{end}"

    def _dots(self, place: int) -> Iterator[Markup]:
        lane, branch = self._lanes[place], self._branches[place]
        end = self._x(lane.end)
        farthest = max(map(self._x, self._forks[place]), default=0)
        if farthest > end:  # the parent was cut since
            yield fragment(_DASHES, f"M{end} {_MIDDLE}H{farthest}")
        seen = {self._x(fork) for fork in self._forks[place]}
        if not self._is_wide:
            seen |= {self._x(message) for message in range(lane.start + 1, lane.end)}
        yield from (fragment(_DOT, x, _MIDDLE, 2.5) for x in sorted(seen))
        yield fragment(_DOT, end, _MIDDLE, 4)
        if branch.is_current:
            yield fragment(_RING, end, _MIDDLE)


def tree_page(shown: SessionTree) -> Markup:
    """Return a tree as HTML."""
    branches = shown.branches[:_ROWS]
    rest = len(shown.branches) - len(branches)
    return page(
        head(f"Tree of {count(len(shown.branches), 'session')}", _together(shown.branches)),
        _table(branches) if branches else "",
        fragment('<div class="cy-note">{}</div>', _more(rest)) if rest else "",
        kind="tree",
        styles=("tree",),
    )


def _more(rest: int) -> str:
    return f"… {count(rest, 'more session')} not shown: .to_frame() has all"


def _together(branches: Sequence[TreeBranch]) -> str:
    """Return what all have cost, what forks share counted once, if that is known."""
    own = [branch.own for branch in branches]
    if not any(branch.runs for branch in branches) or any(each is None or each.cost is None for each in own):
        return ""
    total = sum(each.cost for each in own if each is not None and each.cost is not None)
    is_complete = all(each is not None and each.is_complete is not False for each in own)
    return f"all together {money(total, complete=is_complete)}, what forks share counted once"


def _table(branches: Sequence[TreeBranch]) -> Markup:
    graph = _Graph(branches)
    has_own = any(branch.own is not None and branch.parent is not None for branch in branches)
    names = (*_NAMES, *(["since the fork"] if has_own else []))
    header = join(cell(name, kind="column", is_number=place > 1) for place, name in enumerate(names))
    rows = []
    for place, branch in enumerate(branches):
        cells = [cell(_name(branch), kind="row"), cell(_forked(branch))]
        cells += [cell(value, is_number=True) for value in _numbers(branch, has_own=has_own)]
        rows.append(fragment("<tr><td>{}</td>{}</tr>", graph.row(place), join(cells)))
    table = fragment(
        '<table class="cy-table cy-family"><thead><tr><td></td>{}</tr></thead><tbody>{}</tbody></table>',
        header,
        join(rows),
    )
    return scrolling(table, "tree of sessions")


def _name(branch: TreeBranch) -> Markup:
    name = label(branch.title, 60) if branch.title else fragment("<code>{}</code>", label(short_id(branch.session_id)))
    marks = [word for word, is_so in (("current", branch.is_current), ("in a run", branch.is_busy)) if is_so]
    marked = fragment("<b>{}</b>", name) if branch.is_current else name
    return marked + (fragment(' <span class="cy-meta">({})</span>', ", ".join(marks)) if marks else "")


def _forked(branch: TreeBranch) -> Cell:
    if branch.forked_at is None:
        return ""
    return fragment("{}{}", _where(branch.forked_at), _from_elsewhere(branch))


def _from_elsewhere(branch: TreeBranch) -> Markup | str:
    """Return which session an orphan has left."""
    if not branch.is_orphan or branch.parent is None:
        return ""
    return fragment(" of <code>{}</code>, not here", label(short_id(branch.parent)))


def _where(forked_at: int) -> str:
    return f"after [{forked_at - 1}]" if forked_at else "from the beginning"


def _numbers(branch: TreeBranch, *, has_own: bool) -> list[str]:
    usage, cost = _known(branch.spent)
    is_complete = branch.spent.is_complete is not False
    used = [UNKNOWN] * 2
    if usage is not None:
        used = [number(amount, complete=is_complete) for amount in (usage.input_tokens, usage.output_tokens)]
    values = [number(branch.messages), *used, money(cost, complete=is_complete)]
    if has_own:
        values.append("" if branch.parent is None else _own_cost(branch.own))
    return values


def _own_cost(own: Spent | None) -> str:
    return UNKNOWN if own is None else money(_known(own)[1], complete=own.is_complete is not False)


def _known(amount: Spent) -> tuple[Usage | None, float | None]:
    return spent(amount.usage, amount.cost, complete=amount.is_complete is not False)


def tree_text(shown: SessionTree) -> str:
    """Return a tree in words, a line for each session."""
    lines = [f"Tree of {count(len(shown.branches), 'session')}", *map(_text_line, shown.branches[:_ROWS])]
    rest = len(shown.branches) - _ROWS
    together = _together(shown.branches)
    return "\n".join([*lines, *([_more(rest)] if rest > 0 else []), *([together] if together else [])])


def _text_line(branch: TreeBranch) -> str:
    stem = ""
    if branch.depth:
        deeper = len(branch.path) - _DEEPEST
        stem = f"(+{deeper}) " if deeper > 0 else ""
        stem += "".join("   " if is_last else "│  " for is_last in branch.path[-_DEEPEST:])
        stem += "└─ " if branch.is_last else "├─ "
    names = [one_line(branch.title, 60) if branch.title else short_id(branch.session_id)]
    if branch.forked_at is not None:
        origin = f" of {short_id(branch.parent)}, not here" if branch.is_orphan and branch.parent else ""
        names.append(f"{_where(branch.forked_at)}{origin}")
    names += [word for word, is_so in (("current", branch.is_current), ("in a run", branch.is_busy)) if is_so]
    facts = [count(branch.messages, "message")]
    if branch.runs:
        is_complete = branch.spent.is_complete is not False
        usage, cost = _known(branch.spent)
        facts += [tokens(usage, complete=is_complete), f"cost {money(cost, complete=is_complete)}"]
        if branch.parent is not None and branch.own is not None:
            facts.append(f"{_own_cost(branch.own)} since the fork")
    return f"{stem}{', '.join(names)}: {', '.join(facts)}"
