"""The agent, and the nine ways into its one engine.

Async forms read the engine's events on the caller's loop. Sync forms and `Agent.start` have it run on the library's
own loop and wait for it, or do not. Each method here is a thin reading; what they share is in `Agent._prepare`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from cyclops_nb.config import AgentConfig, Durability, checked_durability
from cyclops_nb.content import input_messages
from cyclops_nb.engine.middleware import Middleware, changes_answers
from cyclops_nb.engine.output import OutputType
from cyclops_nb.engine.state import CallerThread, RunPlan, RunState
from cyclops_nb.engine.steps import check_runnable
from cyclops_nb.errors import ConfigError, InputError
from cyclops_nb.events import Event
from cyclops_nb.handle import RunHandle, Waiter
from cyclops_nb.models.connect import ModelConnection
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
from cyclops_nb.tools import Tool, as_tools

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from cyclops_nb.stores.base import SessionStore

__all__ = ["Agent"]

_T = TypeVar("_T")


class Agent:
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

    def __init__(
        self,
        config: AgentConfig | str,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        *,
        session_store: SessionStore | None = None,
        durability: Durability = "async",
        middleware: Sequence[Middleware] = (),
        client: AsyncOpenAI | None = None,
        **settings: Any,
    ) -> None:
        if isinstance(config, str):
            self._config = AgentConfig(config, **settings)
        elif isinstance(config, AgentConfig):
            self._config = config.replace(**settings) if settings else config
        else:
            raise ConfigError(f"config must be an AgentConfig or a model's name, not a {type(config).__name__}")
        self._tools = as_tools(tools)
        self._store = session_store
        self._durability = checked_durability(durability)
        self._middleware = tuple(middleware)
        self._client = client
        self._connection = ModelConnection(self._config, client)

    def __repr__(self) -> str:
        tools = f", tools={[tool.name for tool in self._tools]}" if self._tools else ""
        return f"Agent({self._config.model!r}{tools})"

    @property
    def config(self) -> AgentConfig:
        """The settings."""
        return self._config

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools."""
        return self._tools

    def replace(self, **settings: Any) -> Agent:
        """Return an agent with other settings, and the same tools, store, middleware and client.

        Examples
        --------
        >>> Agent("gpt-4o-mini").replace(temperature=1).config.temperature
        1.0
        """
        return Agent(
            self._config.replace(**settings),
            self._tools,
            session_store=self._store,
            durability=self._durability,
            middleware=self._middleware,
            client=self._client,
        )

    async def aopen(self, id: str) -> Session:
        """Return the session of that id from the agent's store, or a new one under that id.

        Raises
        ------
        ConfigError
            If the agent has no store.
        """
        if self._store is None:
            raise ConfigError("the agent has no store to open a session from: pass session_store= to Agent")
        return await self._store.load(id) or Session(id)

    def open(self, id: str) -> Session:
        """Same as `aopen`."""
        return portal().run(self.aopen(id))

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
        self._prepare(**arguments)  # what is wrong with them is raised here, not at the first event
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

    def _prepare(
        self,
        *,
        input: Any,
        session: Session | None,
        response_model: Any,
        durability: Durability | None,
        caller: CallerThread | None = None,
        pace: Callable[[], Awaitable[None]] | None = None,
    ) -> RunState:
        """Check everything that can be checked before a run, and make its state; nothing is changed yet."""
        if session is not None and not isinstance(session, Session):
            raise InputError(f"session must be a Session, not a {type(session).__name__}")
        messages = [] if input is None else input_messages(input)
        target = session if session is not None else Session()
        check_runnable(target, messages)
        plan = RunPlan(
            config=self._config,
            model=self._connection.model(),
            session=target,
            input=tuple(messages),
            tools={tool.name: tool for tool in self._tools},
            output=None if response_model is None else OutputType(response_model),
            store=self._store if session is not None else None,
            durability=self._durability if durability is None else checked_durability(durability),
            middleware=self._middleware,
            agent=self,
            caller=caller,
            pace=pace,
        )
        return RunState(plan)

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

    def _is_text_settled(self, response_model: Any) -> bool:
        """Whether text is told only when a step is final: deltas may be void after a retry."""
        return response_model is not None or changes_answers(self._middleware)


def _arguments(input: Any, session: Any, response_model: Any, durability: Any) -> dict[str, Any]:
    return {"input": input, "session": session, "response_model": response_model, "durability": durability}
