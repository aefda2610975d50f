"""Exploring branches of conversations: the methods that the buttons of a widget have, and what they act on.

An `Explorer` holds the branches (`branch_set`), begins runs, and keeps what is new in a store. It works without a
screen; what is seen of it in a notebook are views that are told of each change. Callbacks of widgets may come on any
thread, so one lock is held while something changes, and it is never held while a run goes on.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, cast

from cyclops_nb.agent import Agent
from cyclops_nb.display.begun_runs import BegunRuns
from cyclops_nb.display.branch_set import BranchSet
from cyclops_nb.display.branch_sources import awaited, name_of, refreshed
from cyclops_nb.display.explorer_output import ExplorerOutput
from cyclops_nb.display.explorer_page import branches_tree, explorer_page, explorer_text
from cyclops_nb.display.family_tree import SessionTree
from cyclops_nb.display.register import register
from cyclops_nb.displayable import Displayable, has_kernel
from cyclops_nb.errors import InputError, SessionNotFoundError
from cyclops_nb.frames.stored import ListedStore
from cyclops_nb.handle import RunHandle
from cyclops_nb.messages import UserMessage
from cyclops_nb.session import Session
from cyclops_nb.stores.base import SessionInfo, SessionStore

__all__ = ["Explorer"]


class Explorer(Displayable):
    """Branches of conversations, to be gone through; made by `explore`, shown by a notebook as a widget.

    Each button of the widget is a method here, and what code does is seen in the widget.

    Attributes
    ----------
    agent : Agent or None
        Who is asked; another one can be put in its place.

    Examples
    --------
    >>> session = Session(title="Trip")
    >>> explorer = explore(session, agent)
    >>> explorer.send("My name is Alice.").result().content
    'Hello, Alice!'
    >>> explorer.fork(0).title
    'Trip (2)'
    >>> [len(each.messages) for each in explorer.sessions]
    [2, 1]
    """

    def __init__(
        self, branches: BranchSet, agent: Agent | None, store: SessionStore | None, listed: ListedStore | None = None
    ) -> None:
        self.agent = agent
        self._own_store: SessionStore | None = cast("SessionStore", listed) if store is None and listed else store
        self.branches = branches
        self._listed = listed
        """The store whose sessions are explored, if there was no other source."""
        self.lock = threading.RLock()
        self._runs = BegunRuns(self._ended)
        self._outputs: list[ExplorerOutput] = []
        """The cells that show this."""
        self.load()

    def __repr__(self) -> str:
        return f"<Explorer of {len(self.branches.entries)} branches, at {self.branches.current!r}>"

    def _ipython_display_(self) -> None:
        """Show the widget in the cell; a front end that is no notebook is asked for the other forms."""
        if not has_kernel():
            raise NotImplementedError
        self._outputs.append(ExplorerOutput(self))

    @property
    def run(self) -> RunHandle | None:
        """The run of the current branch that was begun here and goes on."""
        handle = self._runs.of(self.branches.current)
        return None if handle is None or handle.done else handle

    @property
    def session(self) -> Session:
        """The session of the current branch."""
        return self.branches.session

    @property
    def sessions(self) -> list[Session]:
        """The sessions of all branches, in the order in which they came; what is only stored is loaded."""
        with self.lock:
            return [self.load(name) for name in tuple(self.branches.entries)]

    @property
    def tree(self) -> SessionTree:
        """The family of the branches, as it is now, with the current one marked."""
        with self.lock:
            return branches_tree(self.branches)

    @property
    def busy(self) -> bool:
        """Whether a run extends the current branch."""
        value = self.branches.entry.value
        return isinstance(value, Session) and value.busy

    @property
    def code(self) -> str:
        """The Python that gives the current branch, without this explorer."""
        entry = self.branches.entry
        return "\n".join(entry.code) or entry.name

    @property
    def store(self) -> SessionStore | None:
        """Where branches are kept: what was given, or else the agent's."""
        return self._own_store if self._own_store is not None or self.agent is None else self.agent.session_store

    def load(self, session: str | Session | None = None) -> Session:
        """Return the session of a branch, by default of the current one, which is loaded if it is only stored."""
        with self.lock:
            entry = self.branches.find(_id_of(session))
            if isinstance(entry.value, SessionInfo):
                store = self._listed if self._listed is not None else self.store
                found = None if store is None else awaited(store.load(entry.id))
                if found is None:
                    raise SessionNotFoundError(f"session {entry.id!r} is in the store no more")
                entry.value = found
            return self.branches.loaded(entry.id)

    def send(self, text: Any) -> RunHandle:
        """Ask something in the current branch, and return at once.

        Parameters
        ----------
        text : str, part, message, or whatever `Agent.run` takes
            The question.

        Returns
        -------
        RunHandle
            The run; ``.result()`` waits for it.

        Raises
        ------
        InputError
            If there is no agent, or this cannot be sent.
        SessionBusyError
            If a run extends the branch already.
        """
        with self._changing():
            handle = self._ask(text)
            self.branches.asked(text if isinstance(text, str) else "...")
            return handle

    def stop(self) -> None:
        """Stop the run of the current branch that was begun here; the transcript stays valid."""
        handle = self.run
        if handle is None:
            raise InputError("no run was begun here that goes on in this branch: there is nothing to stop")
        handle.cancel()

    def fork(self, index: int | None = None) -> Session:
        """Begin a branch that keeps the message at `index` and all before it, and make it the current one.

        Parameters
        ----------
        index : int, optional
            Which message is the last one; by default the last there is.

        Returns
        -------
        Session
            The new branch.

        Raises
        ------
        TranscriptError
            A ValueError too: if there is no such message, or a tool call would lose its result.
        """
        with self._changing():
            return self._keep(self.branches.fork(index))

    def edit(self, index: int, text: str) -> Session:
        """Begin a branch in which a message has another text; an edited question is asked at once if there is an agent.

        Parameters
        ----------
        index : int
            A message of a user, an answer that calls no tools, or a summary.
        text : str
            Its new text; images and files stay.

        Returns
        -------
        Session
            The new branch, which is the current one; `wait` waits for the answer.

        Raises
        ------
        TranscriptError, InputError
            ValueErrors too: if there is no such message, or it cannot have such a text.
        """
        with self._changing():
            new = self._keep(self.branches.edit(index, text))
            if self.agent is not None and isinstance(new.messages[-1], UserMessage):
                self._answer()
            return new

    def retry(self, index: int = -1) -> Session:
        """Ask a question again in a new branch.

        Parameters
        ----------
        index : int
            The question, or a message that followed it.

        Returns
        -------
        Session
            The new branch, which is the current one; `wait` waits for the answer.

        Raises
        ------
        TranscriptError
            A ValueError too: if there is no question.
        InputError
            If there is no agent.
        """
        with self._changing():
            self._needed_agent()
            new = self._keep(self.branches.retry(index))
            self._answer()
            return new

    def truncate(self, index: int, *, keep: bool = True) -> Session | None:
        """Cut the current branch before a message.

        Parameters
        ----------
        index : int
            The first message that goes, as in `Session.truncate`.
        keep : bool
            Whether what was there stays as a branch of its own.

        Returns
        -------
        Session or None
            The branch that has everything; None if nothing was cut or kept.

        Raises
        ------
        TranscriptError, SessionBusyError
            If a tool call would lose its result, or a run extends the branch.
        """
        with self._changing():
            whole = self.branches.truncate(index, keep=keep)
            if whole is not None:
                self._keep(whole)
            self._keep(self.branches.session)
            return whole

    def switch(self, session: str | Session) -> Session:
        """Make a branch, or the branch of an id, the current one; it is loaded if it is only stored.

        Raises
        ------
        SessionNotFoundError
            If there is no such branch, or it is in the store no more.
        """
        with self._changing():
            loaded = self.load(session)
            self.branches.switch(loaded.id)
            return loaded

    def rename(self, title: str, session: str | Session | None = None) -> None:
        """Give a branch, by default the current one, another title, or none for an empty text.

        Raises
        ------
        SessionBusyError
            If a run extends the branch.
        """
        with self._changing():
            self.load(session)
            self._keep(self.branches.rename(title, _id_of(session)))

    def delete(self, session: str | Session | None = None) -> None:
        """Delete a branch, by default the current one, whose parent is current then; also from the store.

        Raises
        ------
        InputError
            If it is the only one.
        SessionBusyError
            If a run extends it.
        """
        with self._changing():
            entry = self.branches.delete(_id_of(session))
            store = self.store
            if store is not None:
                awaited(store.delete(entry.id))
            self.load()

    def add(self, session: Session) -> None:
        """Take in a session that code has made, such as a fork; the current branch stays the current one."""
        with self._changing():
            self.branches.add(session, name=name_of(session, "session"))

    def refresh(self) -> None:
        """Show what has changed by other hands, and what is new or another in the store that is explored.

        Where a branch and what is stored of it have parted, what was here becomes a branch of its own.
        """
        with self._changing():
            if self._listed is not None:
                for kept in refreshed(self.branches, self._listed):
                    self._keep(kept)

    def freeze(self) -> None:
        """Leave plain HTML of what is shown in place of the widgets, so that it can be read with no kernel.

        Shown again, the explorer is a widget in that cell.
        """
        with self.lock:
            outputs, self._outputs = self._outputs, []
        for output in outputs:
            output.freeze()

    close = freeze

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no run goes on that was begun here.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.

        Returns
        -------
        bool
            Whether that is so.

        Raises
        ------
        Exception
            What a store raised when the end of a run was to be saved.
        """
        return self._runs.wait(timeout)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock, and tell the views afterwards, also where something failed half-way."""
        with self.lock:
            try:
                yield
            finally:
                self._tell()

    def _tell(self) -> None:
        for output in tuple(self._outputs):
            output.draw()

    def _needed_agent(self) -> Agent:
        if self.agent is None:
            raise InputError("there is no agent to ask: give explore(..., agent=agent), or set explorer.agent")
        return self.agent

    def _ask(self, text: Any) -> RunHandle:
        """Begin a run in the current branch."""
        handle = self._needed_agent().start(text, session=self.branches.session)
        self._runs.watch(self.branches.current, handle)
        return handle

    def _answer(self) -> None:
        self._ask(None)
        self.branches.asked(None)

    def _ended(self, owner: str) -> None:
        """Save what a run has left, unless its agent has done so."""
        with self._changing():
            entry = self.branches.entries.get(owner)
            is_saved = self.agent is not None and self.agent.session_store is self.store
            if entry is not None and isinstance(entry.value, Session) and not is_saved:
                self._keep(entry.value)

    def _keep(self, session: Session) -> Session:
        """Save a branch, if there is a store."""
        store = self.store
        if store is not None:
            awaited(store.save(session))
        return session


def _id_of(session: str | Session | None) -> str | None:
    return session.id if isinstance(session, Session) else session


register(Explorer, lambda explorer: explorer_page(explorer.branches), lambda explorer: explorer_text(explorer.branches))
