"""A comparison as HTML and as plain text: the common part once, the branches side by side, then the numbers.

What several branches say at one place stands in the first of them, with their number; what one says otherwise has its
differences marked. All marks are words as well, for readers who see neither colours nor a style sheet.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import groupby

from markupsafe import Markup

from cyclops_nb.display.alignment import Row, rows
from cyclops_nb.display.branch import Branch
from cyclops_nb.display.branches import Comparison
from cyclops_nb.display.call_changes import call_changes
from cyclops_nb.display.conversation import STYLES, conversation, unit_block
from cyclops_nb.display.html import cell, fold, head, page, scrolling
from cyclops_nb.display.metrics import Metrics, metrics
from cyclops_nb.display.parts import Images, Room
from cyclops_nb.display.plain import conversation_text, shortened
from cyclops_nb.display.transcript import run_ends
from cyclops_nb.display.units import Unit
from cyclops_nb.display.wording import changes
from cyclops_nb.messages import AssistantMessage, Message, ToolMessage
from cyclops_nb.render.escape import EMPTY, fragment, join, label
from cyclops_nb.render.text import one_line
from cyclops_nb.render.words import count, index_range

__all__ = ["comparison_page", "comparison_text"]

_ROOM = 300_000  # characters of HTML for the branches
_COMMON_ROOM = 150_000
_TEXT = 100_000  # characters of plain text for a branch


def comparison_page(comparison: Comparison, *, is_open: bool = False, hides_equal: bool = False) -> Markup:
    """Return a comparison as HTML.

    Parameters
    ----------
    comparison : Comparison
        What is compared.
    is_open : bool
        Whether the common part is open at first.
    hides_equal : bool
        Whether rows that are the same in all branches are left out, and numbers that are.

    Returns
    -------
    Markup
        A whole output.
    """
    branches = comparison.branches
    title = f"Comparison of {count(len(branches), 'conversation')}"
    return page(
        head(title, _common_words(comparison)),
        _common(comparison, is_open=is_open),
        _columns(comparison, hides_equal=hides_equal),
        _numbers(comparison, metrics(comparison), hides_equal=hides_equal),
        kind="comparison",
        styles=(*STYLES, "comparison"),
    )


def _common_words(comparison: Comparison) -> str:
    if not comparison.shared:
        return "no common beginning"
    *others, last = (f"{len(branch.own):,}" for branch in comparison.branches)
    return f"{count(comparison.shared, 'message')} in common, then {', '.join(others)} and {last}"


def _common(comparison: Comparison, *, is_open: bool) -> Markup | str:
    if not comparison.shared:
        return ""
    messages = comparison.branches[0].messages[: comparison.shared]
    summary = f"{index_range(0, comparison.shared - 1)}: {count(comparison.shared, 'message')} in common"
    return fold(summary, conversation(messages, expected=False, room=_COMMON_ROOM), kind="middle", is_open=is_open)


def _columns(comparison: Comparison, *, hides_equal: bool) -> Markup | str:
    branches = comparison.branches
    ends = [run_ends(branch.session_runs, branch.messages, start=branch.shared) for branch in branches]
    all_rows = list(rows(branches))
    if not all_rows:
        return _note("they say the same")
    picked = [row for row in all_rows if not (hides_equal and _is_equal(row, branches, ends))]
    equal = len(all_rows) - len(picked)
    images = Images()
    shown: list[Markup] = []
    room = _ROOM
    for row in picked:
        left = images.left
        cells = _row(row, branches, ends, images)
        room -= len(cells) - (left - images.left)  # images have a room of their own
        if room < 0:
            break
        shown.append(cells)
    header = join(cell(label(branch.label), kind="column") for branch in branches)
    rest = len(picked) - len(shown)
    notes = [
        _note(f"{count(equal, 'row')} of messages that {'is' if equal == 1 else 'are'} the same in all not shown")
        if equal
        else "",
        _note(f"… {count(rest, 'more row')} of messages not shown") if rest else "",
    ]
    columns = fragment(
        '<table class="cy-columns"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>', header, join(shown)
    )
    return (scrolling(columns, "branches side by side") if picked else EMPTY) + join(notes)


def _note(text: object) -> Markup:
    return fragment('<div class="cy-note">{}</div>', text)


def _keys(row: Row, branches: Sequence[Branch]) -> list[Hashable | None]:
    return [None if unit is None else _key(unit, branch) for unit, branch in zip(row, branches, strict=True)]


def _notices(row: Row, ends: Sequence[dict[int, Markup]]) -> list[Markup]:
    return [
        join(end.get(index, "") for index in unit.indices) if unit else EMPTY
        for unit, end in zip(row, ends, strict=True)
    ]


def _is_equal(row: Row, branches: Sequence[Branch], ends: Sequence[dict[int, Markup]]) -> bool:
    """Say whether all branches say the same, and nothing is to be said of any of them alone."""
    keys = _keys(row, branches)
    return keys[0] is not None and all(key == keys[0] for key in keys) and not any(_notices(row, ends))


def _row(row: Row, branches: Sequence[Branch], ends: Sequence[dict[int, Markup]], images: Images) -> Markup:
    first = row[0]
    if first is not None and _is_equal(row, branches, ends):
        block = unit_block(first, Room(images=images), expected=False)
        template = '<tr><td colspan="{}" style="text-align:left">{}{}</td></tr>'
        return fragment(template, len(row), _same_in_all(row), block)
    keys, notes = _keys(row, branches), _notices(row, ends)
    cells = []
    for place, (unit, key) in enumerate(zip(row, keys, strict=True)):
        if unit is None:
            cells.append(fragment('<td class="cy-none"></td>'))
            continue
        twin = keys.index(key)
        if twin < place:
            body = _twin(unit, branches[twin])
        else:
            holders = [branch.label for branch, its in zip(branches, keys, strict=True) if its == key]
            body = _same_in_some(holders, len(row)) + _different(unit, row[:place], branches, images)
        cells.append(cell(body + notes[place]))
    return fragment("<tr>{}</tr>", join(cells))


def _same_in_all(row: Row) -> Markup:
    places = list(dict.fromkeys(index_range(unit.index, unit.last) for unit in row if unit is not None))
    every = f" {len(row)}" if len(row) > 2 else ""  # noqa: PLR2004 - of two, "all" are both
    said = f"the same in all{every}" + (f", at {', '.join(places)}" if len(places) > 1 else "")
    return fragment('<div class="cy-same">{}</div>', said)


def _same_in_some(holders: Sequence[str], of: int) -> Markup:
    if len(holders) == 1:
        return EMPTY
    names = join(map(label, holders), ", ")
    return fragment('<div class="cy-same">the same in {} of {}: {}</div>', len(holders), of, names)


def _key(unit: Unit, branch: Branch) -> Hashable:
    return tuple(branch.keys[index] for index in unit.indices)


def _twin(unit: Unit, branch: Branch) -> Markup:
    said = fragment("the same as in {}", label(branch.label))
    return fragment(
        '<div class="cy-same"><span class="cy-i">{}</span> {}</div>', index_range(unit.index, unit.last), said
    )


def _different(unit: Unit, before: Sequence[Unit | None], branches: Sequence[Branch], images: Images) -> Markup:
    """Return a message, and what it changes of the first one in the row."""
    block = unit_block(unit, Room(images=images), expected=False)
    place = next((place for place, other in enumerate(before) if other is not None), None)
    first = None if place is None else before[place]
    if place is None or first is None or first.message.role != unit.message.role:
        return block
    against = label(branches[place].label)
    parts = [block]
    if first.message.content == unit.message.content and not isinstance(unit.message, ToolMessage) and not unit.calls:
        parts.append(_note("says the same, but one of them was edited"))
    if _reasoning(first.message) != _reasoning(unit.message):
        parts.append(_note(fragment("the reasoning differs from {}", against)))
    if marked := changes(first.message.text, unit.message.text):
        parts.append(fold(fragment("changed words, against {}", against), marked, kind="changed", is_open=True))
    if calls := call_changes(first, unit):
        parts.append(fold(fragment("tool calls differ from {}", against), calls, kind="changed", is_open=True))
    return join(parts)


def _reasoning(message: Message) -> str:
    return message.reasoning if isinstance(message, AssistantMessage) else ""


def _numbers(comparison: Comparison, groups: Metrics, *, hides_equal: bool) -> Markup:
    width = len(comparison.branches) + 1
    header = join(cell(label(name), kind="column") for name in comparison.labels)
    bodies = []
    for name, lines in groups:
        picked = [line for line in lines if not (hides_equal and len(set(line[1])) == 1)]
        title = fragment(
            '<tr><th class="cy-group" colspan="{}" scope="rowgroup" style="text-align:left">{}</th></tr>', width, name
        )
        cells = join(
            fragment("<tr>{}{}</tr>", cell(line, kind="row"), join(map(cell, values))) for line, values in picked
        )
        bodies.append(fragment("<tbody>{}{}</tbody>", title, cells) if picked else "")
    table = fragment('<table class="cy-table"><thead><tr><td></td>{}</tr></thead>{}</table>', header, join(bodies))
    return scrolling(table, "the branches in numbers")


def comparison_text(comparison: Comparison) -> str:
    """Return a comparison in words."""
    branches = comparison.branches
    parts = [f"Comparison of {count(len(branches), 'conversation')}: {_common_words(comparison)}"]
    if comparison.shared:
        parts.append("in common\n" + conversation_text(branches[0].messages[: comparison.shared]))
    twins = _twins(branches)
    parts += [
        f"--- {branch.label} ---\n{_branch_text(branch, same)}".rstrip()
        for branch, same in zip(branches, twins, strict=True)
    ]
    lines = [["", *comparison.labels]]
    for name, group in metrics(comparison):
        lines += [[name, *("" for _ in branches)], *([f"  {line}", *values] for line, values in group)]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    parts.append("\n".join(table))
    return "\n\n".join(parts)


def _twins(branches: Sequence[Branch]) -> list[dict[int, str]]:
    """Return for each branch which of its messages an earlier branch says at the same place, and which branch."""
    found: list[dict[int, str]] = [{} for _ in branches]
    for row in rows(branches):
        keys = _keys(row, branches)
        for place, (unit, key) in enumerate(zip(row, keys, strict=True)):
            first = keys.index(key)
            if unit is not None and first < place:
                found[place].update(dict.fromkeys(unit.indices, branches[first].label))
    return found


def _branch_text(branch: Branch, twins: dict[int, str]) -> str:
    lines = []
    places = range(branch.shared, len(branch.messages))
    for twin, group in groupby(places, twins.get):
        indices = list(group)
        if twin is None:
            lines.append(conversation_text(branch.messages[indices[0] : indices[-1] + 1], indices[0]))
        else:
            lines.append(f"{index_range(indices[0], indices[-1])} the same as in {twin}")
    warnings = dict.fromkeys(text for run in branch.runs for text in run.warnings)
    said = [f"    Warning: {one_line(text, 500)}" for text in warnings]
    return shortened("\n".join([*lines, *said]), _TEXT)
