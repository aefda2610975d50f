"""What one run is made of, and where it stands. No I/O: the loop acts, this remembers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from cyclops_nb import pricing
from cyclops_nb.config import AgentConfig, Compaction, Durability, config_key
from cyclops_nb.engine.filters import TextFilter
from cyclops_nb.engine.middleware import Middleware, changes_answers
from cyclops_nb.engine.oddities import Asked, input_limit, oddities
from cyclops_nb.engine.output import OutputType
from cyclops_nb.errors import ConfigError, ContextOverflowError, error_text
from cyclops_nb.events import Place
from cyclops_nb.messages import AssistantMessage, Message
from cyclops_nb.models.base import Completion, Model, ModelRequest
from cyclops_nb.response import AgentResponse
from cyclops_nb.runs import Run, RunError, RunKind, StopReason
from cyclops_nb.session import Session, claim
from cyclops_nb.stores.base import SessionStore, is_session_store
from cyclops_nb.tools import Tool
from cyclops_nb.usage import total
from cyclops_nb.values import new_id

__all__ = ["CURRENT_CALL", "CURRENT_RUN", "CallPlace", "CallerThread", "NestedRun", "RunPlan", "RunState"]


_STORE_METHODS = ("load", "save", "add_messages", "delete")


class CallerThread(Protocol):
    """Runs a tool that asked for ``thread="caller"`` where it belongs."""

    def __call__(self, function: Callable[[], Any]) -> Awaitable[Any]:
        """Return the function's result."""
        ...


class NestedRun(Protocol):
    """A run that a tool has started in a sync form; it ends before the run of the tool can."""

    def cancel(self) -> None:
        """Ask it to stop."""
        ...

    async def ended(self) -> None:
        """Wait until it has."""
        ...


CURRENT_RUN: ContextVar[RunState | None] = ContextVar("cyclops_nb_current_run", default=None)
"""The run whose tool the present code belongs to."""


class CallPlace(NamedTuple):
    """Which call of which run."""

    run_id: str
    step: int
    call_id: str
    outer: CallPlace | None
    """The call whose tool has started the run."""


CURRENT_CALL: ContextVar[CallPlace | None] = ContextVar("cyclops_nb_current_call", default=None)
"""The tool call that the present code belongs to."""


@dataclass(frozen=True)
class RunPlan:
    """What a run is to do; it never changes."""

    config: AgentConfig
    model: Model
    session: Session
    input: tuple[Message, ...] = ()
    tools: Mapping[str, Tool] = field(default_factory=dict)
    output: OutputType | None = None
    kind: RunKind = "run"
    compaction: Compaction | None = None
    """When and how the session is compacted on the way."""
    summariser: Model | None = None
    """The model that writes summaries, if it is another one."""
    tokens_beside: int = 0
    """Estimated tokens that the conversation's requests have beside their messages; a compaction's own have others."""
    store: SessionStore | None = None
    durability: Durability = "async"
    middleware: tuple[Middleware, ...] = ()
    agent: Any = None
    caller: CallerThread | None = None
    """None: such tools get a worker thread like all others."""
    pace: Callable[[], Awaitable[None]] | None = None
    """Waits until a reader on another thread has taken all events; a reader on this loop sets the pace by itself."""
    run_id: str = field(default_factory=new_id)

    def __post_init__(self) -> None:
        """Refuse what is no store before the run and not when it is to save."""
        store = self.store
        if store is not None and not is_session_store(store):
            kind = f"the class {store.__name__}" if isinstance(store, type) else f"a {type(store).__name__}"
            raise ConfigError(
                f"session_store must be a store with async {', '.join(_STORE_METHODS)}, such as "
                f"FileSessionStore('sessions'), not {kind}"
            )


class RunState:
    """Where a run stands."""

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        self.session = plan.session
        self.filters = TextFilter(plan.middleware, plan.tools)
        self.config = plan.config
        """The settings as they may be sent and kept."""
        self.step = 0
        self.messages: list[Message] = []
        """What the run has put into the transcript."""
        self.answering: asyncio.Task[AssistantMessage] | None = None
        self.completion: Completion | None = None
        """The completion that is being read, or was read and does not stand in the transcript yet."""
        self.nested: list[NestedRun] = []
        """Runs that tools of this one have started and wait for."""
        self.error: Exception | None = None
        self.interrupt: BaseException | None = None
        """A cancel or keyboard interrupt, to be raised again when all is in order."""
        self.output: Any = None
        self.is_claimed = False
        """Whether the session is marked as being in this run."""
        self.is_begun = False
        """Whether the input stands in the session."""
        self._is_usage_complete = True
        self._started = time.perf_counter()
        self._completions: list[tuple[Any, float | None]] = []
        self._warnings: list[str] = []
        self.run = Run(
            id=plan.run_id,
            session_id=self.session.id,
            kind=plan.kind,
            model=plan.config.model,
            input_limit=input_limit(plan.config, plan.model.endpoint),
            usage_complete=False,
        )

    @property
    def place(self) -> Place:
        """Where events of this moment belong."""
        return {"run_id": self.run.id, "step": self.step}

    @property
    def input_limit(self) -> int | None:
        """The model's context window in tokens, if known."""
        return self.run.input_limit

    def learn_input_limit(self, limit: int | None) -> None:
        """Take note of a context window that was not known, or is smaller than was thought."""
        known = self.run.input_limit
        if limit is not None and (known is None or limit < known):
            self._replace_record(input_limit=limit)

    def overflow(self) -> ContextOverflowError | None:
        """Return what the last completion has failed with, if the server said that the context is full."""
        task = self.answering
        error = task.exception() if task is not None and task.done() and not task.cancelled() else None
        return error if isinstance(error, ContextOverflowError) else None

    def claim(self) -> None:
        """Mark the session as being in this run, unless that was done when the run was asked for."""
        if not self.is_claimed:
            claim(self.session, self.run.id)
            self.is_claimed = True

    def begin(self) -> None:
        """Put the input, the settings and the run's record into the session; nothing is changed if a filter fails."""
        self.config = self.filters.config(self.plan.config)
        added = [message.model_copy(update={"run_id": self.run.id}) for message in self.plan.input]
        added = [self.filters.message(message) for message in added]
        if self.filters:
            self.filters.clean(self.session)
        tools = [tool.schema() for tool in self.plan.tools.values()]
        snapshot = self.config.snapshot(host=self.plan.model.endpoint.host, tools=tools)
        key = config_key(snapshot)
        self.session.configs.setdefault(key, snapshot)
        self.run = self.run.model_copy(update={"config": key})
        self.session.runs.append(self.run)
        self.add(added)
        self.is_begun = True

    def add(self, messages: Sequence[Message]) -> None:
        """Extend the transcript, in one go: it is valid at every instant."""
        self.messages.extend(messages)
        self.session.messages.extend(messages)
        if any(isinstance(message, AssistantMessage) for message in messages):
            self.completion = None

    async def keep_pace(self) -> None:
        """Go on only when the reader has seen all that was told, so that leaving a stream stops the run right there."""
        if self.plan.pace is not None:
            await self.plan.pace()

    def request(self) -> ModelRequest:
        """Return what the model is asked in the present step."""
        plan = self.plan
        return ModelRequest(
            config=self.config,
            messages=tuple(self.session.messages),
            tools=tuple(tool.schema() for tool in plan.tools.values()),
            response_schema=plan.output.schema if plan.output is not None else None,
            kind=plan.kind,
            run_id=self.run.id,
            step=self.step,
            hosts={run.id: self._host_of(run) for run in self.session.runs},
        )

    def filtered(self, request: ModelRequest) -> ModelRequest:
        """Return `request` as it may be sent: what middleware has put into it has not passed the filters yet."""
        if not self.filters:
            return request
        passed = set(map(id, self.session.messages))
        messages = (item if id(item) in passed else self.filters.message(item) for item in request.messages)
        config = request.config if request.config is self.config else self.filters.config(request.config)
        return request.replace(messages=tuple(messages), config=config)

    def _host_of(self, run: Run) -> str:
        settings = self.session.configs.get(run.config or "", {})
        return str(settings.get("host", ""))

    def record(self, completion: Completion) -> float | None:
        """Count what a completion consumed, however it ended, and return its cost."""
        endpoint = self.plan.model.endpoint
        cost = pricing.cost_of(
            completion.usage,
            model=completion.model or endpoint.model,
            base_url=endpoint.base_url,
            prices={} if endpoint.free and self.plan.config.prices is None else self.plan.config.prices,
            reported=completion.reported_cost,
        )
        for note in completion.notes:
            self.warn(note)
        if completion.finished or completion.usage is not None:
            self._completions.append((completion.usage, cost))
        elif not completion.refused:
            self._is_usage_complete = False
        self._look_for_oddities(completion, cost)
        return cost

    def _look_for_oddities(self, completion: Completion, cost: float | None) -> None:
        if not completion.finished:
            return
        plan = self.plan
        asked = Asked(
            endpoint=plan.model.endpoint,
            config=plan.config,
            run=self.run,
            runs=tuple(self.session.runs),
            messages=tuple(self.session.messages),
            is_as_it_stands=plan.kind == "run" and not changes_answers(plan.middleware),
        )
        for text in oddities(completion, cost, asked):
            self.warn(text)

    def warn(self, text: str) -> None:
        """Add a warning for the user, once."""
        if text not in self._warnings:
            self._warnings.append(text)

    def finish_step(self) -> None:
        """Count a step whose messages stand in the transcript."""
        self._replace_record(steps=self.step)

    def end(self) -> None:
        """Write into the session's record how the run ended."""
        error = self.error
        self._replace_record(
            usage_complete=self._is_usage_complete,
            stop_reason=self.stop_reason,
            error=None if error is None else RunError(type=type(error).__name__, message=self._told(error)),
        )

    def _told(self, error: Exception) -> str:
        return self.filters.text_or(error_text(error), "(withheld: it could not be filtered)")

    @property
    def stop_reason(self) -> StopReason:
        """How the run ended."""
        if self.error is not None:
            return "max_iterations" if self.out_of_steps else "error"
        return "cancelled" if self.interrupt is not None and not self.is_answered else "completed"

    is_past_compaction = False
    """Whether a compaction has failed: it is not tried again in this run."""
    is_answered = False
    """Whether the last answer stands in the transcript: what stops the run after that takes nothing away."""
    out_of_steps = False
    """Whether the run failed because it used up its steps."""

    def _replace_record(self, **fields: Any) -> None:
        costs = [cost for _, cost in self._completions]
        self.run = self.run.model_copy(
            update={
                "usage": total(usage for usage, _ in self._completions),
                "cost": None if None in costs else float(sum(cost for cost in costs if cost is not None)),
                "duration": time.perf_counter() - self._started,
                "warnings": tuple(self._warnings),
                **fields,
            }
        )
        runs = self.session.runs
        for index in range(len(runs) - 1, -1, -1):
            if runs[index].id == self.run.id:
                runs[index] = self.run
                return

    def content(self) -> str:
        """Return the text of the last answer of a completed run."""
        last = self.messages[-1] if self.messages else None
        return last.text if isinstance(last, AssistantMessage) else ""

    def _runs_of_this(self) -> tuple[Run, ...]:
        """Return the record of the run, and those of the compactions within it."""
        places = [place for place, run in enumerate(self.session.runs) if run.id == self.run.id]
        return tuple(self.session.runs[places[-1] :]) if places else (self.run,)

    def response(self) -> AgentResponse:
        """Return what came of the run."""
        content = self.content()
        return AgentResponse(
            run=self.run,
            content=content,
            output=self.output if self.plan.output is not None else content,
            messages=tuple(self.messages),
            # a cancel that came when all was done, and only being saved, has changed nothing
            error=self.error or (self.interrupt if self.run.stop_reason == "cancelled" else None),
            partial=self.filters.text_or(self.completion.text, "") if self.completion is not None else "",
            session=self.session,
            start=len(self.session.messages) - len(self.messages),
            runs=self._runs_of_this(),
        )
