"""What stays of an explorer in a notebook without a kernel: the branches, the current conversation, what all cost."""

from __future__ import annotations

from markupsafe import Markup

from cyclops_nb.display.branch_set import BranchSet
from cyclops_nb.display.family_tree import SessionTree, tree
from cyclops_nb.display.html import fold
from cyclops_nb.display.plain import session_text
from cyclops_nb.display.transcript import session_page
from cyclops_nb.display.tree_picture import tree_page, tree_text
from cyclops_nb.display.usage_sums import usage_sums_page
from cyclops_nb.frames.grouping import usage_table
from cyclops_nb.render.escape import fragment, join, label, text_block

__all__ = ["branches_tree", "code_block", "explorer_page", "explorer_text", "usage_pages"]


def explorer_page(branches: BranchSet) -> Markup:
    """Return branches as HTML: their tree, the conversation of the current one, and the usage of each."""
    parts = [tree_page(branches_tree(branches)), session_page(branches.session)]
    if len(branches.sessions) > 1:
        parts.append(usage_sums_page(usage_table(branches.sessions, by="branch")))
    return join(parts)


def explorer_text(branches: BranchSet) -> str:
    """Return branches in words."""
    return f"{tree_text(branches_tree(branches))}\n\n{session_text(branches.session)}"


def branches_tree(branches: BranchSet) -> SessionTree:
    """Return the family of all branches, with the current one marked."""
    return tree((entry.value for entry in branches.entries.values()), current=branches.current)


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
