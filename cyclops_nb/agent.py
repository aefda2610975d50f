"""The agent, and the nine ways into its one engine, beside `Agent.ask`, which shows what it waits for.

Async forms read the engine's events on the caller's loop. Sync forms and `Agent.start` have it run on the library's
own loop and wait for it, or do not. Each method here is a thin reading; what they share is in `AgentSetup`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar, overload

from cyclops_nb.config import Durability
from cyclops_nb.displayable import follow
from cyclops_nb.events import Event
from cyclops_nb.handle import RunHandle, Waiter
from cyclops_nb.messages import SummaryMessage
from cyclops_nb.portal import portal
from cyclops_nb.readings import (
    EventStream,
    Feed,
    TextStream,
    call_here,
    output_of,
    raise_failure,
    run_here,
    texts_there,
)
from cyclops_nb.response import AgentResponse
from cyclops_nb.session import Session
from cyclops_nb.setup import AgentSetup

__all__ = ["Agent"]

_T = TypeVar("_T")


class Agent(AgentSetup):
    """A model with settings and tools. It keeps no conversation: sessions do, so one agent serves many.

    Parameters
    ----------
    config : AgentConfig or str
        The settings, or a model's name with settings as further arguments.
    tools : iterable of functions and Tool
        What the model may call.
    session_store : SessionStore, optional
        Where each run with a session saves it.
    durability : {"async", "sync", "exit"}
        Save after each step while the next one runs, before it runs, or once at the end of a run.
    middleware : sequence of Middleware
        Put around model and tool calls, the first one outermost.
    client : openai.AsyncOpenAI, optional
        A client of yours, used on one event loop.
    **settings
        Fields of `AgentConfig`.

    Raises
    ------
    ConfigError
        If a setting is wrong or unknown.

    Examples
    --------
    >>> agent = Agent("gpt-4o-mini", temperature=0)
    >>> session = Session()
    >>> agent.run("My name is Alice.", session=session), agent.run("What is my name?", session=session)
    ('Hello, Alice!', 'Alice')
    """

    @overload
    def run(
        self,
        input: Any = None,
        *,
        session: Session | None = None,
        response_model: None = None,
        durability: Durability | None = None,
    ) -> str: ...
    @overload
    def run(
        self,
        input: Any = None,
        *,
        session: Session | None = None,
        response_model: type[_T],
        durability: Durability | None = None,
    ) -> _T: ...
    @overload
    def run(
        self,
        input: Any = None,
        *,
        session: Session | None = None,
        response_model: Any,
        durability: Durability | None = None,
    ) -> Any: ...
    def run(
        self,
        input: Any = None,
        *,
        session: Session | None = None,
        response_model: Any = None,
        durability: Durability | None = None,
    ) -> Any:
        """Ask, wait, and return the answer. Works in scripts, in notebook cells and inside running event loops.

        Parameters
        ----------
        input : str, part, message, figure, image, DataFrame, Path, or list of these, optional
            What to ask. None answers what stands at the end of the session: a retry, or after an edit.
        session : Session, optional
            The conversation to read and extend; without one the run starts from nothing and keeps nothing.
        response_model : type, optional
            The answer is asked for as JSON of that type and returned as an object of it.
        durability : {"async", "sync", "exit"}, optional
            Instead of the agent's.

        Returns
        -------
        str or object of `response_model`
            The answer; a notebook shows it as Markdown.

        Raises
        ------
        InputError, TranscriptError, SessionBusyError, ConfigError
            At once, and nothing is changed: the input cannot be sent, the transcript is invalid, the session is in
            another run, a setting is wrong.
        CyclopsError, Exception
            What the run failed with: a `ModelError`, what a store or middleware raised, `MaxIterationsError`. The
            session keeps the question and all completed steps.
        KeyboardInterrupt
            After Ctrl-C, or the kernel's stop, once the run is cancelled and its session in order.

        Examples
        --------
        >>> agent.run("What is the capital of Japan?")
        'Tokyo'
        """
        return output_of(self.run_with_response(**_arguments(input, session, response_model, durability)))

    @overload
    async def arun(
        self,
        input: Any = None,
        *,
        session: Session | None = None,
        response_model: None = None,
        durability: Durability | None = None,
    ) -> str: ...
    @overload
    async def arun(
        self,
        input: Any = None,
        *,
        session: Session | None = None,
        response_model: type[_T],
        durability: Durability | None = None,
    ) -> _T: ...
    @overload
    async def arun(
        self,
        input: Any = None,
        *,
        session: Session | None = None,
        response_model: Any,
        durability: Durability | None = None,
    ) -> Any: ...
    async def arun(
        self,
        input: Any = None,
        *,
        session: Session | None = None,
        response_model: Any = None,
        durability: Durability | None = None,
    ) -> Any:
        """Same as `run`, on the caller's event loop."""
        return output_of(await self.arun_with_response(**_arguments(input, session, response_model, durability)))

    def run_with_response(
        self,
        input: Any = None,
        *,
        session: Session | None = None,
        response_model: Any = None,
        durability: Durability | None = None,
    ) -> AgentResponse:
        """Same as `run`, but return all that came of the run; what it failed with stands in `error`."""
        waiter = Waiter()
        with waiter.hearing_interrupts():
            handle = self._begin(waiter, _arguments(input, session, response_model, durability))
            waiter.wait(handle)
        return handle.result()

    async def arun_with_response(
        self,
        input: Any = None,
        *,
        session: Session | None = None,
        response_model: Any = None,
        durability: Durability | None = None,
    ) -> AgentResponse:
        """Same as `run_with_response`, on the caller's event loop."""
        return await run_here(self._prepare(caller=call_here, **_arguments(input, session, response_model, durability)))

    def stream(
        self,
        input: Any = None,
        *,
        session: Session | None = None,
        response_model: Any = None,
        durability: Durability | None = None,
    ) -> Generator[str, None, None]:
        """Same as `run`, but yield the text of all steps as it comes. Leaving the loop early cancels the run."""
        arguments = _arguments(input, session, response_model, durability)
        return texts_there(self.stream_events(**arguments), whole=self._is_text_settled(response_model))

    def astream(
        self,
        input: Any = None,
        *,
        session: Session | None = None,
        response_model: Any = None,
        durability: Durability | None = None,
    ) -> TextStream:
        """Same as `stream`, on the caller's event loop."""
        events = self.astream_events(**_arguments(input, session, response_model, durability))
        return TextStream(events, whole=self._is_text_settled(response_model))

    def stream_events(
        self,
        input: Any = None,
        *,
        session: Session | None = None,
        response_model: Any = None,
        durability: Durability | None = None,
    ) -> Generator[Event, None, None]:
        """Same as `stream`, but yield the events: `RunFinished` last, then what the run failed with is raised."""
        waiter = Waiter()
        arguments = _arguments(input, session, response_model, durability)
        state = self._prepare(**arguments)  # what is wrong with them is raised here, not at the first event
        arguments["input"] = list(state.plan.input) or None  # drawn and read once
        return self._events_there(waiter, arguments)

    def astream_events(
        self,
        input: Any = None,
        *,
        session: Session | None = None,
        response_model: Any = None,
        durability: Durability | None = None,
    ) -> EventStream:
        """Same as `stream_events`, on the caller's event loop."""
        feed = Feed()
        arguments = _arguments(input, session, response_model, durability)
        return EventStream(feed, self._prepare(caller=call_here, pace=feed.pace, **arguments))

    def start(
        self,
        input: Any = None,
        *,
        session: Session | None = None,
        response_model: Any = None,
        durability: Durability | None = None,
    ) -> RunHandle:
        """Begin a run in the background and return at once; see `run` for the arguments.

        Returns
        -------
        RunHandle
            To wait for it, follow it, or cancel it. A cell that shows it shows the run.

        Examples
        --------
        >>> handle = agent.start("Tell me a long story.")
        >>> handle.cancel()
        >>> handle.result().stop_reason
        'cancelled'
        """
        handle = RunHandle(self._prepare(**_arguments(input, session, response_model, durability)))
        handle.begin()
        return handle

    def ask(
        self,
        input: Any = None,
        *,
        session: Session | None = None,
        response_model: Any = None,
        durability: Durability | None = None,
    ) -> AgentResponse:
        """Same as `run`, but show the run as it goes on, and return all that came of it.

        Returns
        -------
        AgentResponse
            A cell shows the run live and then this, but not once more as its result. Outside of a notebook the text is
            printed as it comes.

        Examples
        --------
        >>> response = agent.ask("What is the capital of Japan?")
        Tokyo
        """
        response = self._shown(_arguments(input, session, response_model, durability))
        raise_failure(response)
        return response

    def _shown(self, arguments: dict[str, Any], begun: Callable[[RunHandle], None] | None = None) -> AgentResponse:
        """Run before the reader's eyes; `begun` is told of the run as soon as there is one."""
        waiter = Waiter()
        with waiter.hearing_interrupts():
            handle = self._begin(waiter, arguments)
            try:
                if begun is not None:
                    begun(handle)
                follow(handle, waiter, whole=self._is_text_settled(arguments["response_model"]))
            finally:
                waiter.leave(handle)
        return handle.result()

    def compact(self, session: Session) -> SummaryMessage | None:
        """Replace the older messages of a session by a summary, now; nothing is saved.

        It needs no ``compaction=`` setting, but takes what that says.

        Parameters
        ----------
        session : Session
            All but its last messages (``keep_last`` of `Compaction`) are replaced. No call is parted from its result.

        Returns
        -------
        SummaryMessage or None
            The summary, which is the session's first message now; None if there was nothing to replace. What it cost
            is a run of kind ``"compaction"`` in the session's `runs`.

        Raises
        ------
        SessionBusyError, TranscriptError
            At once: the session is in a run, or its transcript is invalid.
        OutputError
            The model's summary was empty or no shorter than what it would replace.
        ModelError
            The model failed. Whatever is raised, the transcript is as it was.

        Examples
        --------
        >>> session = Session()
        >>> agent.compact(session) is None  # there is nothing to cut yet
        True
        """
        waiter = Waiter()
        with waiter.hearing_interrupts():
            state = self._prepare_compaction(session)
            if state is None:
                return None
            handle = RunHandle(state)
            handle.begin()
            waiter.wait(handle)
        return _summary_of(handle.result())

    async def acompact(self, session: Session) -> SummaryMessage | None:
        """Same as `compact`, on the caller's event loop."""
        state = self._prepare_compaction(session)
        return None if state is None else _summary_of(await run_here(state))

    def _begin(self, waiter: Waiter, arguments: dict[str, Any], *, is_paced: bool = False) -> RunHandle:
        """Start a run that the calling thread is going to wait for, or to read event by event."""
        if not portal().is_here:  # there, the thread that would wait is the one that has to run it
            arguments = arguments | {"caller": waiter.on_this_thread, "pace": waiter.pace if is_paced else None}
        handle = RunHandle(self._prepare(**arguments))
        handle.begin()
        return handle

    def _events_there(self, waiter: Waiter, arguments: dict[str, Any]) -> Generator[Event, None, None]:
        """Yield the events of a run on the library's loop; begun here, so that an unread stream starts nothing."""
        handle = self._begin(waiter, arguments, is_paced=True)
        try:
            yield from waiter.events(handle)
        finally:
            waiter.leave(handle)
        raise_failure(handle.result())


def _arguments(input: Any, session: Any, response_model: Any, durability: Any) -> dict[str, Any]:
    return {"input": input, "session": session, "response_model": response_model, "durability": durability}


def _summary_of(response: AgentResponse) -> SummaryMessage | None:
    raise_failure(response)
    return next((message for message in response.messages if isinstance(message, SummaryMessage)), None)
