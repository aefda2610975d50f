"""From an agent's settings to the model that is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclops_nb.config import AgentConfig
from cyclops_nb.models.base import Completion, Emit, Endpoint, Model, ModelRequest
from cyclops_nb.models.chat import ChatModel
from cyclops_nb.models.clients import ClientPool
from cyclops_nb.models.local import check_local, is_local, local_server
from cyclops_nb.models.presets import host_of, resolve
from cyclops_nb.models.responses import ResponsesModel
from cyclops_nb.models.served import ServedModel
from cyclops_nb.threads import run_in_thread

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["ModelConnection"]

_LOCAL_WINDOW = 4096
"""Tokens that the embedded model is started with; known before it is started."""
_KINDS: dict[str, type[ServedModel]] = {"chat": ChatModel, "responses": ResponsesModel}


class ModelConnection:
    """The model of one agent.

    Parameters
    ----------
    config : AgentConfig
        Says which.
    client : AsyncOpenAI, optional
        The user's own client.
    """

    def __init__(self, config: AgentConfig, client: AsyncOpenAI | None = None) -> None:
        self._config = config
        self._client = client
        self._clients = ClientPool(config, client)
        self._model: Model | None = None

    def model(self) -> Model:
        """Return the model; its key is looked up anew, since keys are often set after the agent was made.

        Raises
        ------
        ConfigError
            If a key is missing.
        """
        kind = _KINDS[self._config.api]
        if is_local(self._config.model) and self._config.base_url is None and self._client is None:
            check_local(self._config.model)
            if self._model is None:
                self._model = _LocalModel(self._config.model, kind, self._clients)
            return self._model
        endpoint = self._endpoint()
        if self._model is None or self._model.endpoint != endpoint:
            self._model = kind(endpoint, self._clients)
        return self._model

    def for_model(self, name: str) -> ModelConnection:
        """Return the connection of another model: to the same server, or to another one without what is this one's."""
        config = self._config.replace(model=name)
        if self._client is None and _address_of(config) != _address_of(self._config):
            config = config.replace(api_key=None, default_headers=None, default_query=None)
        return ModelConnection(config, self._client)

    def _endpoint(self) -> Endpoint:
        if self._client is None:
            return resolve(self._config)
        base_url = str(self._client.base_url)
        return Endpoint(base_url, self._config.model, host=host_of(base_url))


class _LocalModel:
    """The embedded model; its server is started, and its file fetched, at the first request."""

    def __init__(self, name: str, kind: type[ServedModel], clients: ClientPool) -> None:
        self._name = name
        self._kind = kind
        self._clients = clients
        self._served: ServedModel | None = None
        self.endpoint = Endpoint("", name, free=True, context_window=_LOCAL_WINDOW, host="local")

    async def context_window(self) -> int | None:
        """Return the tokens that the embedded model is started with."""
        return _LOCAL_WINDOW

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


def _address_of(config: AgentConfig) -> str:
    """Return the address that a model is asked at; a key that is missing is no matter here."""
    if is_local(config.model) and config.base_url is None:
        return ""
    return resolve(config.replace(api_key="any")).base_url
