"""What branches are made of: sessions of a notebook, or what a store lists."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from cyclops_nb.display.branch_set import BranchSet, Entry
from cyclops_nb.errors import InputError
from cyclops_nb.frames.stored import ListedStore, is_store
from cyclops_nb.portal import portal
from cyclops_nb.session import Session

__all__ = ["awaited", "branches_of", "name_of", "refreshed"]

_T = TypeVar("_T")


def branches_of(source: Any) -> BranchSet:
    """Return the branches of a session, of sessions, or of a store, which loads none of them yet.

    Parameters
    ----------
    source : Session, iterable of Session, or store
        What is explored.

    Returns
    -------
    BranchSet
        The first one is current.

    Raises
    ------
    InputError
        If it is none of these, or there is nothing in it.

    Examples
    --------
    >>> branches_of([Session("a"), Session("b")]).current
    'a'
    """
    if is_store(source):
        return _of(_stored_entries(source))
    values = [source] if isinstance(source, Session) else source
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping):
        raise _refused(source)
    values = list(values)
    for value in values:
        if not isinstance(value, Session):
            raise _refused(value)
    default = "session" if len(values) == 1 else "sessions[{}]"
    return _of([Entry(value, name=name_of(value, default.format(place))) for place, value in enumerate(values)])


def _of(entries: Sequence[Entry]) -> BranchSet:
    if not entries:
        raise InputError("there is nothing to explore: give a session, some sessions, or a store that holds some")
    branches = BranchSet(current=entries[0].id)
    for entry in entries:
        if branches.entries.setdefault(entry.id, entry).value is not entry.value:
            raise InputError(
                f"two different sessions have the id {entry.id!r}: explore one of them, or take session.fork() of the "
                "other, which has an id of its own"
            )
    return branches


def _refused(given: object) -> InputError:
    return InputError(
        f"explore takes a session, some sessions, or a store that lists some, not a {type(given).__name__}"
    )


def name_of(session: Session, default: str) -> str:
    """Return the variable of the notebook that holds a session, or `default` if there is none."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    variables = dict(getattr(shell, "user_ns", {}))
    return next((name for name, value in variables.items() if value is session and not name.startswith("_")), default)


def _stored_entries(store: ListedStore) -> list[Entry]:
    """Return what a store lists, as branches that are not loaded."""
    return [
        Entry(info, (f"session_{place} = await store.load({info.id!r})",), f"session_{place}")
        for place, info in enumerate(awaited(store.list()), 1)
    ]


def refreshed(branches: BranchSet, store: ListedStore) -> list[Session]:
    """Take in what a store has now; return the branches that were made to keep what differed from it."""
    kept = []
    for entry in _stored_entries(store):
        if not isinstance(branches.entries.setdefault(entry.id, entry).value, Session):
            continue
        stored = awaited(store.load(entry.id))
        new = None if stored is None else branches.reread(stored)
        if new is not None:
            kept.append(new)
    return kept


def awaited(waiting: Coroutine[Any, Any, _T]) -> _T:
    """Return what a method of a store gives, for a caller that cannot await."""
    return portal().run(waiting)
