"""The family of sessions: which is a fork of which, where it left it, and what each has cost.

A tree is a picture of one moment. A store is asked for its list alone, so that a folder of a thousand long
conversations is looked at as quickly as its list is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from cyclops_nb.displayable import Displayable
from cyclops_nb.errors import InputError
from cyclops_nb.family import Branch, family
from cyclops_nb.frames.columns import make_frame
from cyclops_nb.frames.stored import is_store, list_all
from cyclops_nb.session import Session
from cyclops_nb.stores.base import SessionInfo, first_question
from cyclops_nb.usage import Usage

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SessionTree", "TreeBranch", "tree"]

_Told: TypeAlias = Session | SessionInfo
_COLUMNS = {
    "session_id": "string",
    "title": "string",
    "parent": "string",
    "depth": "Int64",
    "forked_at": "Int64",
    "forks": "Int64",
    "messages": "Int64",
    "own_messages": "Int64",
    "runs": "Int64",
    "input_tokens": "Int64",
    "output_tokens": "Int64",
    "usage_complete": "boolean",
    "cost": "Float64",
    "own_input_tokens": "Int64",
    "own_output_tokens": "Int64",
    "own_cost": "Float64",
}


@dataclass(frozen=True)
class Spent:
    """What runs have used."""

    usage: Usage | None
    """Tokens; None if unknown."""
    cost: float | None
    """Dollars; None if unknown."""
    is_complete: bool | None
    """False if more was used than was reported; None if that is not told."""


@dataclass(frozen=True)
class TreeBranch:
    """A session at its place in a tree, as it was when the tree was made."""

    session_id: str
    title: str
    """Its title, or else its first question; empty if it has neither."""
    parent: str | None
    """The id of the session that it is a fork of, which may not be in the tree."""
    forked_at: int | None
    """How many messages it has from its parent; None if it is no fork."""
    depth: int
    """How many of its ancestors are in the tree."""
    is_last: bool
    """Whether no sibling comes after it."""
    path: tuple[bool, ...]
    """For each of its ancestors from the root's child on, whether it is the last of its siblings."""
    forks: int
    """How many sessions of the tree are forks of it."""
    messages: int
    runs: int
    """Its runs, the inherited ones included."""
    spent: Spent
    """What they have used."""
    own: Spent | None
    """What was used since the fork; None if that is not known, as of what a store lists."""
    is_current: bool = False
    is_busy: bool = False

    @property
    def is_orphan(self) -> bool:
        """Whether its parent is not in the tree."""
        return not self.depth and self.parent is not None


@dataclass(frozen=True)
class SessionTree(Displayable):
    """A family of sessions; made by `tree`, shown by a notebook as a picture.

    Examples
    --------
    >>> root = Session("root", title="Rain")
    >>> print(tree(root, root.fork(title="Snow")))
    Tree of 2 sessions
    Rain: 0 messages
    └─ Snow, from the beginning: 0 messages
    """

    branches: tuple[TreeBranch, ...]
    """Each session before its forks, of which the one that left last comes first."""

    def __str__(self) -> str:
        return str(self._repr_mimebundle_()["text/plain"])

    def to_frame(self) -> pd.DataFrame:
        """Return the tree as a table, a row per session.

        Returns
        -------
        pandas.DataFrame
            =================  =======  ===========================================================
            session_id         string
            title              string   or the first question, if there is no title
            parent             string   the session that it is a fork of, in the tree or not
            depth              Int64    how many of its ancestors are in the tree
            forked_at          Int64    how many messages it has from its parent
            forks              Int64    how many sessions of the tree are forks of it; 0 for a leaf
            messages           Int64
            own_messages       Int64    without those from its parent
            runs               Int64    the inherited ones included, as in all down to `cost`
            input_tokens       Int64
            output_tokens      Int64
            usage_complete     boolean  False: more was used than was reported
            cost               Float64  dollars
            own_input_tokens   Int64    of its own runs alone, as in all below
            own_output_tokens  Int64
            own_cost           Float64  dollars
            =================  =======  ===========================================================

            What is unknown is ``<NA>``, as `usage_complete` and all of the own runs is of a session in a store.

        Examples
        --------
        >>> root = Session("root")
        >>> tree(root, root.fork(title="draft")).to_frame()["depth"].tolist()
        [0, 1]
        """
        return make_frame([_row(branch) for branch in self.branches], _COLUMNS)


def _row(branch: TreeBranch) -> dict[str, Any]:
    usage = branch.spent.usage
    own = branch.own or Spent(None, None, is_complete=None)
    return {
        "session_id": branch.session_id,
        "title": branch.title or None,
        "parent": branch.parent,
        "depth": branch.depth,
        "forked_at": branch.forked_at,
        "forks": branch.forks,
        "messages": branch.messages,
        "own_messages": max(branch.messages - (branch.forked_at or 0), 0),
        "runs": branch.runs,
        "input_tokens": usage and usage.input_tokens,
        "output_tokens": usage and usage.output_tokens,
        "usage_complete": branch.spent.is_complete,
        "cost": branch.spent.cost,
        "own_input_tokens": own.usage and own.usage.input_tokens,
        "own_output_tokens": own.usage and own.usage.output_tokens,
        "own_cost": own.cost,
    }


def tree(*sources: Any, current: Session | str | None = None) -> SessionTree:
    """Return the family of sessions: which is a fork of which, where it left it, and what each has cost.

    Parameters
    ----------
    *sources : Session, AgentResponse, SessionInfo, store, or iterable of these
        Whose family. A store is asked for its list, and loads nothing.
    current : Session or str, optional
        The session, or its id, that is to be marked.

    Returns
    -------
    SessionTree
        A picture of this moment; ``.to_frame()`` has the numbers.

    Raises
    ------
    InputError
        A ValueError too: if something else is given.

    Examples
    --------
    >>> root = Session("root", title="Rain")
    >>> [branch.title for branch in tree(root, root.fork(title="Snow")).branches]
    ['Rain', 'Snow']
    """
    marked = current.id if isinstance(current, Session) else current
    branches = family(_told(sources), latest_first=True)
    ids = {branch.value.id for branch in branches}
    forks: dict[str, int] = dict.fromkeys(ids, 0)
    for branch in branches:
        if branch.depth and branch.value.parent is not None:
            forks[branch.value.parent.session_id] += 1
    return SessionTree(tuple(_branch(branch, forks[branch.value.id], marked) for branch in branches))


def _told(sources: Iterable[Any]) -> Iterator[_Told]:
    for source in sources:
        if isinstance(source, Session | SessionInfo):
            yield source
        elif isinstance(getattr(source, "session", None), Session):
            yield source.session
        elif is_store(source):
            yield from list_all(source)
        elif isinstance(source, Iterable) and not isinstance(source, str | bytes | Mapping):
            yield from _told(source)
        else:
            raise InputError(
                f"a {type(source).__name__} has no sessions to draw a tree of: give sessions, responses of an agent, "
                "a store that can list what is in it, or lists of these"
            )


def _branch(branch: Branch[_Told], forks: int, current: str | None) -> TreeBranch:
    value = branch.value
    if isinstance(value, SessionInfo):
        title, messages, runs, is_busy = value.title, value.message_count, value.run_count, False
        spent = Spent(value.usage, value.cost, is_complete=None)
        own = spent if value.parent is None else None
    else:
        title, messages, runs = value.title or first_question(value.messages), len(value.messages), len(value.runs)
        is_busy = value.busy
        spent = Spent(value.usage, value.cost, is_complete=all(run.usage_complete for run in value.runs))
        mine = [run.usage_complete for run in value.runs if run.session_id == value.id]
        own = Spent(value.own_usage, value.own_cost, is_complete=all(mine))
    return TreeBranch(
        value.id,
        title,
        None if value.parent is None else value.parent.session_id,
        branch.forked_at,
        branch.depth,
        branch.is_last,
        branch.path,
        forks,
        messages,
        runs,
        spent,
        own,
        is_current=value.id == current,
        is_busy=is_busy,
    )
