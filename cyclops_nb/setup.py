"""What an agent is made of, and how a run is made of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

from cyclops_nb import transcript
from cyclops_nb.config import AgentConfig, Durability, checked_durability
from cyclops_nb.content import input_messages
from cyclops_nb.engine.compaction import compaction_plan, messages_to_replace
from cyclops_nb.engine.middleware import Middleware, changes_answers, checked_middleware
from cyclops_nb.engine.output import OutputType
from cyclops_nb.engine.persistence import awaitable
from cyclops_nb.engine.state import CallerThread, RunPlan, RunState
from cyclops_nb.engine.steps import check_runnable
from cyclops_nb.errors import ConfigError, InputError
from cyclops_nb.models.base import Model
from cyclops_nb.models.connect import ModelConnection, replaced
from cyclops_nb.portal import portal
from cyclops_nb.session import Session, check_free
from cyclops_nb.tools import Tool, as_tools

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from cyclops_nb.stores.base import SessionStore

__all__ = ["AgentSetup"]


class AgentSetup:
    """Settings, tools, store and middleware of an agent; `Agent` adds the ways to run it."""

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
        self._middleware = checked_middleware(middleware, [tool.name for tool in self._tools])
        self._client = client
        self._connection = ModelConnection(self._config, client)
        self._summariser: ModelConnection | None = None

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

    @property
    def session_store(self) -> SessionStore | None:
        """Where runs are saved."""
        return self._store

    def replace(self, **settings: Any) -> Self:
        """Return an agent with other settings, and the same tools, store, middleware and client.

        Where they lead to another server, key and headers of the old one are left behind.

        Examples
        --------
        >>> Agent("gpt-4o-mini").replace(temperature=1).config.temperature
        1.0
        """
        return type(self)(
            replaced(self._config, settings) if self._client is None else self._config.replace(**settings),
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
            If the agent has no store, or the store gives something else.
        """
        if self._store is None:
            raise ConfigError("the agent has no store to open a session from: pass session_store= to Agent")
        found: Any = await awaitable(self._store, "load", self._store.load(id))
        if found is None:
            return Session(id)
        if not isinstance(found, Session) or found.id != id:
            given = f"session {found.id!r}" if isinstance(found, Session) else f"a {type(found).__name__}"
            raise ConfigError(f"{type(self._store).__name__}.load({id!r}) returned {given}, not that Session or None")
        return found

    def open(self, id: str) -> Session:
        """Same as `aopen`."""
        return portal().run(self.aopen(id))

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
        if session is not None:
            _check_session(session)
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
            compaction=self._config.compaction,
            summariser=self._summary_model(),
            store=self._store if session is not None else None,
            durability=self._durability if durability is None else checked_durability(durability),
            middleware=self._middleware,
            agent=self,
            caller=caller,
            pace=pace,
        )
        return RunState(plan)

    def _prepare_compaction(self, session: Session) -> RunState | None:
        """Make the state of a compaction on demand, or return None if there is nothing to cut."""
        _check_session(session)
        check_free(session)
        transcript.check(session.messages)
        model = self._connection.model()
        plan = RunPlan(
            config=self._config,
            model=model,
            session=session,
            tools={tool.name: tool for tool in self._tools},
            compaction=self._config.compaction,
            middleware=self._middleware,
            agent=self,
        )
        state = RunState(compaction_plan(plan, self._summary_model() or model))
        return state if messages_to_replace(state) else None

    def _summary_model(self) -> Model | None:
        """Return the model that summarises, if it is not the agent's own."""
        settings = self._config.compaction
        if settings is None or settings.model is None:
            return None
        if self._summariser is None:
            self._summariser = self._connection.for_model(settings.model)
        return self._summariser.model()

    def _is_text_settled(self, response_model: Any) -> bool:
        """Whether text is told only when a step is final: deltas may be void after a retry."""
        return response_model is not None or changes_answers(self._middleware)


def _check_session(session: Any) -> None:
    if not isinstance(session, Session):
        raise InputError(f"session must be a Session, not a {type(session).__name__}")
