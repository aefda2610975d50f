"""How sessions descend from one another, as a pure function over what each says of its parent.

What a session says of its parent may be anything in a stored file: a parent that is not there, or one that descends
from its own child. Every session is given a place all the same, and only one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from cyclops_nb.session import Parent

__all__ = ["Branch", "HasParent", "family"]


class HasParent(Protocol):
    """What has an id and may have a parent: a session, or what a store tells of one."""

    @property
    def id(self) -> str:
        """The id."""
        ...

    @property
    def parent(self) -> Parent | None:
        """Where it left its origin."""
        ...


_T = TypeVar("_T", bound=HasParent)


@dataclass(frozen=True)
class Branch(Generic[_T]):
    """A session at its place among those that it is related to."""

    value: _T
    """The session, or what a store tells of it."""
    depth: int
    """How many of its ancestors are there: 0 for a root."""
    is_last: bool
    """Whether no sibling comes after it."""
    path: tuple[bool, ...]
    """For each of its ancestors from the root's child on, whether it is the last of its siblings."""

    @property
    def forked_at(self) -> int | None:
        """How many messages it has from its parent; None if it has none."""
        return None if self.value.parent is None else self.value.parent.message_count

    @property
    def is_orphan(self) -> bool:
        """Whether it has a parent that is not there."""
        return not self.depth and self.value.parent is not None


def family(values: Iterable[_T], *, latest_first: bool = False) -> list[Branch[_T]]:
    """Return sessions with their descendants: each before its forks, and these in the order in which they left it.

    Parameters
    ----------
    values : iterable of Session or SessionInfo
        In an order that siblings keep where they left their parent at the same message. An id that comes again is
        left out.
    latest_first : bool
        Whether forks stand in the opposite order, so that in a picture no line crosses another.

    Returns
    -------
    list of Branch
        One for each id.

    Examples
    --------
    >>> from cyclops_nb import Session
    >>> root = Session("root")
    >>> [(branch.value.title, branch.depth) for branch in family([root.fork(title="draft"), root])]
    [(None, 0), ('draft', 1)]
    """
    known: dict[str, _T] = {}
    for value in values:
        known.setdefault(value.id, value)
    children: dict[str | None, list[_T]] = {}
    roots = _of_a_circle(known)
    for value in known.values():
        above = value.parent.session_id if value.parent and value.id not in roots else None
        children.setdefault(above if above in known else None, []).append(value)
    for parent, siblings in children.items():
        if parent is not None:
            siblings.sort(key=lambda value: value.parent.message_count if value.parent else 0, reverse=latest_first)
    return list(_placed_all(children))


def _placed_all(children: dict[str | None, list[_T]]) -> Iterator[Branch[_T]]:
    """Yield all sessions at their places, without recursion: a line of forks may be of any length."""
    waiting = [_placed(children.get(None, ()), 0, ())]
    while waiting:
        branch = next(waiting[-1], None)
        if branch is None:
            waiting.pop()
            continue
        yield branch
        inner = (*branch.path, branch.is_last) if branch.depth else ()
        waiting.append(_placed(children.get(branch.value.id, ()), branch.depth + 1, inner))


def _placed(siblings: Sequence[_T], depth: int, path: tuple[bool, ...]) -> Iterator[Branch[_T]]:
    for place, value in enumerate(siblings, 1):
        yield Branch(value, depth, place == len(siblings), path)


def _of_a_circle(known: dict[str, _T]) -> set[str]:
    """Return of each circle of sessions that descend from one another the one that comes first."""
    order = {name: place for place, name in enumerate(known)}
    first: set[str] = set()
    done: set[str] = set()
    for name in known:
        trail: dict[str, None] = {}
        at: str | None = name
        while at in known and at not in done and at not in trail:
            trail[at] = None
            above = known[at].parent
            at = above.session_id if above else None
        if at in trail:
            line = list(trail)
            first.add(min(line[line.index(at) :], key=order.__getitem__))
        done.update(trail)
    return first
