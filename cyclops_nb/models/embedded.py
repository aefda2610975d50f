"""The embedded model as one that is asked: its server is started, and its file fetched, at the first request."""

from __future__ import annotations

from typing import Any

from cyclops_nb.models.base import Completion, Emit, Endpoint, ModelRequest
from cyclops_nb.models.chat import ChatModel
from cyclops_nb.models.clients import ClientPool
from cyclops_nb.models.local import local_server
from cyclops_nb.models.responses import ResponsesModel
from cyclops_nb.models.served import ServedModel
from cyclops_nb.threads import run_in_thread

__all__ = ["EmbeddedModel"]

_WINDOW = 4096
"""Tokens that the embedded model is started with; known before it is started."""


class EmbeddedModel:
    """The model behind ``model="local"``.

    Parameters
    ----------
    name : str
        ``"local"``, or ``"local:/path/to/model.gguf"``.
    api : {"chat", "responses"}
        What is spoken to it.
    clients : ClientPool
        The clients of its agent.
    """

    def __init__(self, name: str, api: str, clients: ClientPool) -> None:
        self._name = name
        self._kind: type[ServedModel] = _LlamaResponses if api == "responses" else ChatModel
        self._clients = clients
        self._served: ServedModel | None = None
        self.endpoint = Endpoint("", name, free=True, context_window=_WINDOW, host="local")

    async def context_window(self) -> int | None:
        """Return the tokens that the embedded model is started with."""
        return _WINDOW

    def learn_context_window(self, tokens: int) -> None:
        """Take note of nothing: the window is known."""

    async def complete(self, request: ModelRequest, completion: Completion, emit: Emit) -> None:
        """Ask, and read the answer into `completion`, telling `emit` of each delta."""
        if request.tools:
            completion.notes.append("the embedded model was not trained to call tools, and will not")
        server = await run_in_thread(local_server, self._name)
        endpoint = Endpoint(server.base_url, server.model, server.api_key, free=True, host="local")
        if self._served is None or self._served.endpoint != endpoint:
            self._served = self._kind(endpoint, self._clients)
        await self._served.complete(request, completion, emit)
        completion.model = self._name


class _LlamaResponses(ResponsesModel):
    """The Responses API as llama.cpp speaks it."""

    def payload(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a request; the form of an answer stands where llama.cpp looks for it, too."""
        body = super().payload(request)
        if request.response_schema is not None:
            schema = {"name": "answer", "schema": dict(request.response_schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    async def complete(self, request: ModelRequest, completion: Completion, emit: Emit) -> None:
        """Ask, and read the answer; llama.cpp calls one complete that was cut at the limit."""
        await super().complete(request, completion, emit)
        limit, usage = request.config.max_tokens, completion.usage
        if limit is not None and usage is not None and usage.output_tokens >= limit:
            completion.finish_reason = "length"
