"""The function that begins to explore conversations."""

from __future__ import annotations

from collections.abc import Iterable

from cyclops_nb.agent import Agent
from cyclops_nb.display.branch_sources import branches_of
from cyclops_nb.display.explorer import Explorer
from cyclops_nb.errors import InputError
from cyclops_nb.frames.stored import ListedStore, is_store
from cyclops_nb.session import Session
from cyclops_nb.stores.base import SessionStore, is_session_store

__all__ = ["explore"]


def explore(
    source: Session | Iterable[Session] | ListedStore,
    agent: Agent | None = None,
    store: SessionStore | None = None,
) -> Explorer:
    """Explore conversations: fork, edit, retry, truncate, and go from branch to branch, by buttons or by methods.

    Parameters
    ----------
    source : Session, iterable of Session, or store
        What is explored. Of a store all that it lists, each loaded when it is first looked at.
    agent : Agent, optional
        Who is asked; without one nothing can be asked.
    store : SessionStore, optional
        Where each branch is saved when it is made or changed; by default `source`, if that is one, or the agent's.

    Returns
    -------
    Explorer
        A notebook shows it as a widget.

    Raises
    ------
    InputError
        A ValueError too: if `source`, `agent` or `store` is none of these, or there is nothing to explore.

    Examples
    --------
    >>> explorer = explore(Session("trip"), agent)
    >>> explorer.session.id
    'trip'
    """
    if store is not None and not is_session_store(store):
        raise InputError(f"store must be a store such as FileSessionStore('sessions'), not {store!r:.80}")
    if agent is not None and not isinstance(agent, Agent):
        raise InputError(f"agent must be an Agent, not a {type(agent).__name__}: explore(session, agent)")
    return Explorer(branches_of(source), agent, store, source if is_store(source) else None)
