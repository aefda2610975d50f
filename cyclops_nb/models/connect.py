"""From an agent's settings to the model that is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cyclops_nb.config import AgentConfig
from cyclops_nb.models.base import Endpoint, Model
from cyclops_nb.models.chat import ChatModel
from cyclops_nb.models.clients import ClientPool
from cyclops_nb.models.embedded import EmbeddedModel
from cyclops_nb.models.local import check_local, is_local
from cyclops_nb.models.presets import host_of, resolve
from cyclops_nb.models.responses import ResponsesModel
from cyclops_nb.models.served import ServedModel

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["ModelConnection", "replaced"]

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
        if is_local(self._config.model) and self._config.base_url is None and self._client is None:
            check_local(self._config.model)
            if self._model is None:
                self._model = EmbeddedModel(self._config.model, self._config.api, self._clients)
            return self._model
        endpoint = self._endpoint()
        if self._model is None or self._model.endpoint != endpoint:
            self._model = _KINDS[self._config.api](endpoint, self._clients)
        return self._model

    def for_model(self, name: str) -> ModelConnection:
        """Return the connection of another model: to the same server, or to another one without what is this one's."""
        if is_local(name):
            return ModelConnection(replaced(self._config, {"model": name, "base_url": None}))
        return ModelConnection(replaced(self._config, {"model": name}), self._client)

    def _endpoint(self) -> Endpoint:
        if self._client is None:
            return resolve(self._config)
        base_url = str(self._client.base_url)
        return Endpoint(base_url, self._config.model, host=host_of(base_url))


_SECRETS = ("api_key", "default_headers", "default_query")


def replaced(config: AgentConfig, settings: Mapping[str, Any]) -> AgentConfig:
    """Return other settings; keys and headers for one server do not go along to another one."""
    new = config.replace(**settings)
    if _address_of(new) == _address_of(config):
        return new
    return new.replace(**{name: None for name in _SECRETS if name not in settings})


def _address_of(config: AgentConfig) -> str:
    """Return the address that a model is asked at; a key that is missing is no matter here."""
    if is_local(config.model) and config.base_url is None:
        return ""
    return resolve(config.replace(api_key="any")).base_url
