"""What stays of an explorer in a notebook without a kernel: the branches, the current conversation, what all cost."""

from __future__ import annotations

from markupsafe import Markup

from cyclops_nb.display.branch_list import branch_lines
from cyclops_nb.display.branch_set import BranchSet
from cyclops_nb.display.html import fold, head, page
from cyclops_nb.display.plain import session_text
from cyclops_nb.display.transcript import session_page
from cyclops_nb.display.usage_sums import usage_sums_page
from cyclops_nb.frames.grouping import usage_table
from cyclops_nb.render.escape import fragment, join, label, text_block
from cyclops_nb.render.words import count

__all__ = ["code_block", "explorer_page", "explorer_text", "usage_pages"]

_LINES = 200


def explorer_page(branches: BranchSet) -> Markup:
    """Return branches as HTML: their tree, the conversation of the current one, and the usage of each."""
    lines = branch_lines(branches)
    rows = [
        fragment(
            '<div class="cy-line">{}{} <span class="cy-meta">{}</span></div>',
            line.tree,
            fragment("<b>{} (shown below)</b>", line.title) if line.id == branches.current else label(line.title),
            line.about,
        )
        for line in lines[:_LINES]
    ]
    if len(lines) > _LINES:
        rows.append(fragment('<div class="cy-note">… {}</div>', count(len(lines) - _LINES, "more branch")))
    shown = page(head(count(len(lines), "branch")), join(rows), kind="branches", styles=("transcript",))
    parts = [shown, session_page(branches.session)]
    if len(branches.sessions) > 1:
        parts.append(usage_sums_page(usage_table(branches.sessions, by="branch")))
    return join(parts)


def explorer_text(branches: BranchSet) -> str:
    """Return branches in words."""
    lines = branch_lines(branches)
    marks = ["> " if line.id == branches.current else "  " for line in lines]
    rows = [f"{mark}{line}" for mark, line in zip(marks, lines, strict=True)][:_LINES]
    return "\n".join([f"{count(len(lines), 'branch')}:", *rows, "", session_text(branches.session)])


def usage_pages(branches: BranchSet) -> Markup:
    """Return what the current branch cost, and what all that are loaded cost together."""
    parts = [usage_sums_page(usage_table(branches.session))]
    if len(branches.sessions) > 1:
        parts.append(usage_sums_page(usage_table(branches.sessions, by="branch")))
    return join(parts)


def code_block(code: str) -> Markup:
    """Return code that is folded, with its last statement to be seen."""
    last = code.rpartition("\n")[2]
    return fold(fragment("as code: <code>{}</code>", label(last, 160)), text_block(code), kind="code")
