"""A comparison as HTML and as plain text: the common part once, the branches side by side, then the numbers.

Rows are aligned by turn: what answers the n-th question stands beside what answers it in the other branches, the steps
of a turn from its top and its final answer in its last row, however many steps each branch took.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import zip_longest

from markupsafe import Markup

from cyclops_nb.display.branches import Branch, Comparison
from cyclops_nb.display.conversation import STYLES, conversation, unit_block
from cyclops_nb.display.html import cell, fold, head, page, scrolling
from cyclops_nb.display.metrics import Metrics, metrics
from cyclops_nb.display.parts import Images, Room
from cyclops_nb.display.plain import conversation_text
from cyclops_nb.display.transcript import run_ends
from cyclops_nb.display.units import Unit, units
from cyclops_nb.display.wording import changes
from cyclops_nb.messages import AssistantMessage, UserMessage
from cyclops_nb.render.escape import EMPTY, fragment, join, label
from cyclops_nb.render.text import one_line
from cyclops_nb.render.words import count, index_range

__all__ = ["comparison_page", "comparison_text"]

_ROOM = 300_000  # characters of HTML for the branches
_COMMON_ROOM = 150_000
Row = list[Unit | None]


def comparison_page(comparison: Comparison) -> Markup:
    """Return a comparison as HTML."""
    branches = comparison.branches
    title = f"Comparison of {count(len(branches), 'conversation')}"
    return page(
        head(title, _common_words(comparison)),
        _common(comparison),
        _columns(comparison),
        _numbers(comparison, metrics(comparison)),
        kind="comparison",
        styles=(*STYLES, "comparison"),
    )


def _common_words(comparison: Comparison) -> str:
    if not comparison.shared:
        return "no common beginning"
    *others, last = (f"{len(branch.own):,}" for branch in comparison.branches)
    return f"{count(comparison.shared, 'message')} in common, then {', '.join(others)} and {last}"


def _common(comparison: Comparison) -> Markup | str:
    if not comparison.shared:
        return ""
    messages = comparison.branches[0].messages[: comparison.shared]
    summary = f"{index_range(0, comparison.shared - 1)}: {count(comparison.shared, 'message')} in common"
    return fold(summary, conversation(messages, expected=False, room=_COMMON_ROOM), kind="middle")


def _turns(all_units: Sequence[Unit]) -> list[list[Unit]]:
    turns: list[list[Unit]] = []
    for unit in all_units:
        if not turns or isinstance(unit.message, UserMessage):
            turns.append([])
        turns[-1].append(unit)
    return turns


def _is_final(unit: Unit) -> bool:
    return isinstance(unit.message, AssistantMessage) and not unit.calls


def rows(branches: Sequence[Branch]) -> Iterator[Row]:
    """Return the messages of the branches in rows, with a unit or None for each branch."""
    all_turns = [_turns(units(branch.own, branch.shared)) for branch in branches]
    for turn in zip_longest(*all_turns, fillvalue=()):
        leads = [list(part[:-1] if part and _is_final(part[-1]) else part) for part in turn]
        finals = [part[-1] if part and _is_final(part[-1]) else None for part in turn]
        for row in zip_longest(*leads):
            yield list(row)
        if any(finals):
            yield finals


def _columns(comparison: Comparison) -> Markup | str:
    branches = comparison.branches
    ends = [run_ends(branch.session_runs, branch.messages, start=branch.shared) for branch in branches]
    images = Images()
    shown: list[Markup] = []
    room = _ROOM
    all_rows = list(rows(branches))
    if not all_rows:
        return fragment('<div class="cy-note">{}</div>', "they say the same")
    for row in all_rows:
        left = images.left
        cells = _row(row, branches, ends, images)
        room -= len(cells) - (left - images.left)  # images have a room of their own
        if room < 0:
            break
        shown.append(cells)
    header = join(cell(label(branch.label), kind="column") for branch in branches)
    rest = len(all_rows) - len(shown)
    more = (
        fragment('<div class="cy-note">{}</div>', f"… {count(rest, 'more row')} of messages not shown") if rest else ""
    )
    columns = fragment(
        '<table class="cy-columns"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>', header, join(shown)
    )
    return scrolling(columns, "branches side by side") + more


def _row(row: Row, branches: Sequence[Branch], ends: Sequence[dict[int, Markup]], images: Images) -> Markup:
    keys = [None if unit is None else _key(unit, branch) for unit, branch in zip(row, branches, strict=True)]
    notes = [_notices(unit, end) for unit, end in zip(row, ends, strict=True)]
    first = row[0]
    if first is not None and all(key == keys[0] for key in keys) and not any(notes):
        block = unit_block(first, Room(images=images), expected=False)
        template = '<tr><td colspan="{}" style="text-align:left">{}{}</td></tr>'
        return fragment(template, len(row), _same_in_all(row), block)
    cells = []
    for place, (unit, key) in enumerate(zip(row, keys, strict=True)):
        if unit is None:
            cells.append(fragment('<td class="cy-none"></td>'))
            continue
        twin = keys.index(key)
        body = _twin(unit, branches[twin]) if twin < place else _different(unit, row[:place], images)
        cells.append(cell(body + notes[place]))
    return fragment("<tr>{}</tr>", join(cells))


def _same_in_all(row: Row) -> Markup:
    places = list(dict.fromkeys(index_range(unit.index, unit.last) for unit in row if unit is not None))
    said = "the same in all" + (f", at {', '.join(places)}" if len(places) > 1 else "")
    return fragment('<div class="cy-same">{}</div>', said)


def _key(unit: Unit, branch: Branch) -> Hashable:
    return tuple(branch.keys[index] for index in unit.indices)


def _notices(unit: Unit | None, ends: dict[int, Markup]) -> Markup:
    return join(ends.get(index, "") for index in unit.indices) if unit else EMPTY


def _twin(unit: Unit, branch: Branch) -> Markup:
    said = fragment("the same as in {}", label(branch.label))
    return fragment(
        '<div class="cy-same"><span class="cy-i">{}</span> {}</div>', index_range(unit.index, unit.last), said
    )


def _different(unit: Unit, before: Sequence[Unit | None], images: Images) -> Markup:
    """Return a message, and what its wording changes of the first one in the row."""
    block = unit_block(unit, Room(images=images), expected=False)
    first = next((other for other in before if other is not None), None)
    if first is None or first.message.role != unit.message.role:
        return block
    marked = changes(first.message.text, unit.message.text)
    if marked is None:
        return block
    return block + fold("changed words", marked, kind="changed", is_open=isinstance(unit.message, UserMessage))


def _numbers(comparison: Comparison, groups: Metrics) -> Markup:
    width = len(comparison.branches) + 1
    header = join(cell(label(name), kind="column") for name in comparison.labels)
    bodies = []
    for name, lines in groups:
        title = fragment(
            '<tr><th class="cy-group" colspan="{}" scope="rowgroup" style="text-align:left">{}</th></tr>', width, name
        )
        cells = join(
            fragment("<tr>{}{}</tr>", cell(line, kind="row"), join(map(cell, values))) for line, values in lines
        )
        bodies.append(fragment("<tbody>{}{}</tbody>", title, cells))
    table = fragment('<table class="cy-table"><thead><tr><td></td>{}</tr></thead>{}</table>', header, join(bodies))
    return scrolling(table, "the branches in numbers")


def comparison_text(comparison: Comparison) -> str:
    """Return a comparison in words."""
    branches = comparison.branches
    parts = [f"Comparison of {count(len(branches), 'conversation')}: {_common_words(comparison)}"]
    if comparison.shared:
        parts.append("in common\n" + conversation_text(branches[0].messages[: comparison.shared]))
    parts += [f"--- {branch.label} ---\n{_branch_text(branch)}".rstrip() for branch in branches]
    lines = [["", *comparison.labels]]
    for name, group in metrics(comparison):
        lines += [[name, *("" for _ in branches)], *([f"  {line}", *values] for line, values in group)]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    parts.append("\n".join(table))
    return "\n\n".join(parts)


def _branch_text(branch: Branch) -> str:
    warnings = dict.fromkeys(text for run in branch.runs for text in run.warnings)
    said = [f"    Warning: {one_line(text, 500)}" for text in warnings]
    return "\n".join([conversation_text(branch.own, branch.shared), *said])
