"""What the engine and a model's API share: the request, and the completion that grows while it is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from cyclops_nb.accumulator import Accumulator
from cyclops_nb.config import AgentConfig
from cyclops_nb.events import Event
from cyclops_nb.messages import AssistantMessage, Message
from cyclops_nb.runs import RunKind
from cyclops_nb.transcript import with_unique_call_ids
from cyclops_nb.usage import Usage

__all__ = ["Completion", "Emit", "Endpoint", "Model", "ModelRequest"]

Emit = Callable[[Event], None]


@dataclass(frozen=True)
class Endpoint:
    """Where a model is served, and with which key."""

    base_url: str
    model: str
    """The model's name as the server knows it."""
    api_key: str = field(default="", repr=False)
    """Empty where none is needed."""
    free: bool = False
    """Whether tokens cost nothing there."""
    context_window: int | None = None
    host: str = ""


@dataclass(frozen=True)
class ModelRequest:
    """What is asked of the model in one step; middleware sees it and may pass on another.

    Examples
    --------
    >>> from cyclops_nb import UserMessage
    >>> request = ModelRequest(AgentConfig("gpt-4o-mini"), (UserMessage("Hello"),))
    >>> request.replace(messages=(UserMessage("Hello!"),)).messages[0].text
    'Hello!'
    """

    config: AgentConfig
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    """Name, description and parameters of each tool."""
    kind: RunKind = "run"
    """What the request is for: an answer, or the summary that a compaction wants."""
    response_schema: Mapping[str, Any] | None = None
    """JSON schema of the answer, if one was asked for."""
    run_id: str = ""
    step: int = 0
    hosts: Mapping[str, str] = field(default_factory=dict)
    """For each run id the host that answered: what a provider sent is sent back to that provider alone."""

    def replace(self, **changes: Any) -> ModelRequest:
        """Return a request with other values."""
        return dataclasses.replace(self, **changes)


class Completion:
    """One answer while it is read; what was read so far stands in it when the reading is stopped."""

    def __init__(self) -> None:
        self.accumulator = Accumulator()
        self.usage: Usage | None = None
        self.reported_cost: float | None = None
        self.finish_reason: str | None = None
        self.model: str | None = None
        self.provider_metadata: dict[str, Any] = {}
        self.refused = False
        """Whether nothing was consumed: the server refused the request with a status, or never got it."""
        self.finished = False
        self.notes: list[str] = []
        """Warnings for the run."""

    @property
    def text(self) -> str:
        """The text so far."""
        return self.accumulator.text

    def message(self, **fields: Any) -> AssistantMessage:
        """Return what was read as a message."""
        return with_unique_call_ids(
            AssistantMessage(
                self.accumulator.parts,
                model=self.model,
                finish_reason=self.finish_reason,
                usage=self.usage,
                provider_metadata=self.provider_metadata,
                **fields,
            )
        )


class Model(Protocol):
    """An API that completions are asked of."""

    @property
    def endpoint(self) -> Endpoint:
        """The server that is asked."""
        ...

    async def context_window(self) -> int | None:
        """Return the model's context window in tokens as its server tells it; None if it does not."""
        ...

    def learn_context_window(self, tokens: int) -> None:
        """Take note of the window that the server has named in a refusal."""
        ...

    async def complete(self, request: ModelRequest, completion: Completion, emit: Emit) -> None:
        """Ask, and read the answer into `completion`, telling `emit` of each delta.

        Raises
        ------
        ModelError
            If the server refuses, fails, or sends what cannot be read.
        """
        ...
