"""The settings of an agent.

They are frozen, and unknown ones are refused by name: a setting that is misspelt and silently ignored costs a
researcher a day. `snapshot` is what a session keeps of them: everything that shapes an answer, nothing that is secret.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from cyclops_nb._version import __version__
from cyclops_nb.errors import ConfigError
from cyclops_nb.values import FrozenDict, Text, clean_json, freeze, positional

__all__ = ["AgentConfig", "Compaction", "Durability", "checked_durability", "config_key"]

Durability = Literal["async", "sync", "exit"]
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
_SECRET_WORDS = ("key", "token", "secret", "password", "authorization", "credential")


def _explain(error: ValidationError, model: type[BaseModel]) -> str:
    """Say in one line what is wrong with which setting, without repeating values (one may be a key)."""
    lines = []
    for problem in error.errors():
        name = ".".join(str(place) for place in problem["loc"])
        if problem["type"] == "extra_forbidden":
            close = get_close_matches(name, model.model_fields, n=1)
            hint = f": did you mean {close[0]!r}?" if close else f"; settings are {', '.join(model.model_fields)}"
            lines.append(f"unknown setting {name!r}{hint}")
        else:
            lines.append(f"{name}: {problem['msg']}")
    return f"{model.__name__}: " + "; ".join(lines)


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    @positional
    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise ConfigError(_explain(error, type(self))) from None


class Compaction(_Settings):
    """When and how older messages are replaced by a summary.

    Examples
    --------
    >>> Compaction(keep_last=6).trigger
    0.8
    """

    trigger: float = Field(default=0.8, gt=0, le=1)
    """The part of the input limit at which it happens."""
    keep_last: int = Field(default=4, ge=0)
    """How many messages stay as they are, at least about."""
    model: Text | None = None
    """The model that summarises; by default the agent's own."""
    prompt: Text | None = None
    """What it is told to do."""


class AgentConfig(_Settings):
    """What an agent asks, and how.

    Parameters
    ----------
    model : str
        The model's name; ``"local"`` for the embedded one.
    **settings
        The fields below.

    Raises
    ------
    ConfigError
        If a setting is unknown or has a wrong value.

    Examples
    --------
    >>> AgentConfig("gpt-4o-mini", temperature=0).temperature
    0.0
    """

    model: Text = Field(min_length=1)
    base_url: Text | None = None
    """The server's address, up to and with ``/v1``; OpenAI's by default."""
    api_key: SecretStr | None = None
    """The key for that server; ``OPENAI_API_KEY`` is read for OpenAI's own only."""
    api: Literal["chat", "responses"] = "chat"
    default_headers: Mapping[str, str] | None = Field(default=None, repr=False)
    default_query: Mapping[str, Any] | None = Field(default=None, repr=False)
    timeout: float = Field(default=600.0, gt=0)
    """Seconds to wait for the server."""
    max_retries: int = Field(default=2, ge=0)
    """How often a request that failed on the way is sent again."""
    system_prompt: Text | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: Text | tuple[Text, ...] | None = None
    max_tokens: int | None = Field(default=None, gt=0)
    """Tokens of an answer, at most."""
    reasoning_effort: ReasoningEffort | None = None
    tool_choice: Text | Mapping[str, Any] | None = None
    """``"auto"``, ``"none"``, ``"required"``, or a tool's name."""
    parallel_tool_calls: bool | None = None
    max_iterations: int = Field(default=10, gt=0)
    """Steps of a run, at most."""
    on_tool_error: Literal["answer", "raise"] = "answer"
    """Whether the model is told of a tool's error, or the run fails with it."""
    tool_timeout: float | None = Field(default=None, gt=0)
    """Seconds that a tool may take."""
    reasoning_replay: Literal["auto", "always", "never"] = "auto"
    """Whether reasoning is sent back to the model."""
    compaction: Compaction | None = None
    """``True`` for the defaults."""
    input_limit: int | None = Field(default=None, gt=0)
    """The model's context window in tokens, if the library cannot find it out."""
    prices: Mapping[str, float] | None = None
    """``{"input": …, "output": …, "cached": …}`` in dollars per million tokens, or ``0``."""
    extra_body: Mapping[str, Any] | None = Field(default=None, repr=False)
    """Further fields of the request, as the server wants them."""

    @positional
    def __init__(self, model: str, **settings: Any) -> None:
        super().__init__(model=model, **settings)

    @field_validator("compaction", mode="before")
    @classmethod
    def _compaction_defaults(cls, value: Any) -> Any:
        if value is True:
            return Compaction()
        return None if value is False else value

    @field_validator("prices", mode="before")
    @classmethod
    def _free(cls, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            if value:
                raise ValueError('give {"input": …, "output": …} in dollars per million tokens, or 0')
            return {"input": 0.0, "output": 0.0}
        if isinstance(value, Mapping) and (unknown := set(value) - {"input", "output", "cached"}):
            raise ValueError(f"unknown price {min(unknown)!r}: prices are 'input', 'output' and 'cached'")
        return value

    @field_validator("base_url")
    @classmethod
    def _plain_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("the address must begin with http:// or https:// and name a host")
        if parts.username or parts.password:
            raise ValueError("leave the password out of the address and pass it as api_key")
        return value

    @field_validator("default_headers", "default_query", "tool_choice", "prices", "extra_body")
    @classmethod
    def _read_only(cls, value: Any) -> Any:
        return freeze(value) if isinstance(value, Mapping) else value

    def replace(self, **settings: Any) -> AgentConfig:
        """Return a config with other values for some settings.

        Examples
        --------
        >>> AgentConfig("gpt-4o-mini", seed=1).replace(seed=2).seed
        2
        """
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return AgentConfig(**{**given, **settings})

    def snapshot(self, *, host: str, tools: Sequence[Mapping[str, Any]] = ()) -> FrozenDict:
        """Return the settings that shape an answer, for the session to keep; never keys, headers or addresses.

        Parameters
        ----------
        host : str
            The server that is asked.
        tools : sequence of mappings
            Name, description and parameters of each tool.
        """
        shaping = self.model_dump(
            exclude={"base_url", "api_key", "default_headers", "default_query", "timeout", "max_retries", "prices"},
            exclude_defaults=True,
        )
        if self.extra_body is not None:
            shaping["extra_body"] = _without_secrets(self.extra_body)
        settings = {"model": self.model, "host": host, "api": self.api, **shaping}
        if tools:
            settings["tools"] = [dict(tool) for tool in tools]
        frozen: FrozenDict = freeze({**settings, "cyclops_nb": __version__})
        return frozen


def _without_secrets(value: Any, *, secret: bool = False) -> Any:
    """Return a copy of `value` without the texts that stand, however deep, under a name that tells of a secret."""
    if isinstance(value, Mapping):
        return {name: _without_secrets(item, secret=secret or _is_secret(name)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_secrets(item, secret=secret) for item in value]
    return "(not kept)" if secret and isinstance(value, str) else value


def _is_secret(name: Any) -> bool:
    return any(word in str(name).lower() for word in _SECRET_WORDS)


def config_key(snapshot: Mapping[str, Any]) -> str:
    """Return the key under which a session keeps `snapshot`: a hash of its content, so equal settings stand once."""
    text = json.dumps(clean_json(snapshot), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def checked_durability(durability: Durability) -> Durability:
    """Return `durability`, or raise `ConfigError` if there is no such one."""
    if durability not in get_args(Durability):
        raise ConfigError(f"durability must be 'async', 'sync' or 'exit', not {durability!r}")
    return durability
