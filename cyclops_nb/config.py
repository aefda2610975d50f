"""The settings of an agent.

They are frozen, and unknown ones are refused by name: a setting that is misspelt and silently ignored costs a
researcher a day. `snapshot` is what a session keeps of them: everything that shapes an answer, nothing that is secret.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from cyclops_nb._version import __version__
from cyclops_nb.errors import ConfigError
from cyclops_nb.values import FrozenDict, Text, clean_json, freeze, positional

__all__ = ["AgentConfig", "Compaction", "Durability", "checked_durability", "clean_key", "config_key"]

Durability = Literal["async", "sync", "exit"]
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
_SECRET_WORDS = ("key", "token", "secret", "password", "authorization", "credential")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")


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
            lines.append(f"{name}: {problem['msg'].removeprefix('Value error, ')}")
    return f"{model.__name__}: " + "; ".join(lines)


def clean_key(key: str, where: str) -> str:
    r"""Return an API key without the white space around it, which keys that are pasted or read from files bring along.

    Parameters
    ----------
    key : str
        The key as it was given.
    where : str
        Where it was given, for the error: ``"api_key"``, or the name of a variable.

    Raises
    ------
    ConfigError
        If nothing is left, or there are characters that no key has. The text does not repeat the key.

    Examples
    --------
    >>> clean_key("abc\n", "api_key")
    'abc'
    """
    key = key.strip()
    if not key:
        raise ConfigError(f"the key in {where} is empty: give the key, or leave {where} unset")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ConfigError(
            f"the key in {where} has characters that no key has (white space inside, control or non-ASCII "
            "characters): copy it again; it is not shown here"
        )
    return key


class _Settings(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True, allow_inf_nan=False
    )

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
        return _checked_prices(value) if isinstance(value, Mapping) else value

    @field_validator("base_url")
    @classmethod
    def _plain_address(cls, value: str | None) -> str | None:
        return None if value is None else _checked_address(value.strip())

    @field_validator("api_key")
    @classmethod
    def _plain_key(cls, value: SecretStr | None) -> SecretStr | None:
        return None if value is None else SecretStr(clean_key(value.get_secret_value(), "api_key"))

    @field_validator("default_headers")
    @classmethod
    def _plain_headers(cls, value: Mapping[str, str] | None) -> Mapping[str, str] | None:
        return None if value is None else {name: _checked_header(name, text) for name, text in value.items()}

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


def _checked_prices(prices: Mapping[Any, Any]) -> dict[str, float]:
    """Return prices as numbers that something can be multiplied with, or raise `ValueError` naming the price."""
    if not prices:
        raise ValueError('there is no price in it: give {"input": …, "output": …}, 0 if nothing costs, None if unknown')
    if unknown := [name for name in prices if name not in ("input", "output", "cached")]:
        raise ValueError(f"unknown price {unknown[0]!r}: prices are 'input', 'output' and 'cached'")
    return {name: _checked_price(name, price) for name, price in prices.items()}


def _checked_price(name: str, price: Any) -> float:
    try:
        number = math.nan if isinstance(price, str | bytes | bool) else float(price)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise ValueError(
            f"the price {name!r} must be a number of dollars per million tokens, 0 or more; leave prices out if you "
            "do not know them"
        )
    return number


def _checked_address(address: str) -> str:
    """Return a server's address, or raise `ValueError`, which never repeats it: a key may stand in it."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:  # its text names parts of the address
        raise ValueError("this is no address: check host and port, as in http://127.0.0.1:8000/v1") from None
    if parts.scheme not in {"http", "https"} or not host:
        raise ValueError("the address must begin with http:// or https:// and name a host")
    if "@" in parts.netloc:
        raise ValueError("leave the password out of the address and pass it as api_key")
    if "?" in address or "#" in address:
        raise ValueError(
            "the address must end with its path, without '?' or '#': pass the fields of a query as "
            'default_query={"name": "value"}, a key as api_key'
        )
    if not address.isprintable() or " " in address:
        raise ValueError("there is white space or a control character in the address: copy it again")
    return address


def _checked_header(name: str, value: str) -> str:
    """Return a header's value as HTTP can send it, or raise `ValueError`, which never repeats it."""
    if not _HEADER_NAME.match(name):
        raise ValueError("the name of a header may have ASCII letters, digits and '-' alone; its value goes beside it")
    value = value.strip()
    if not value.isascii() or not value.replace("\t", " ").isprintable():
        raise ValueError(f"the value of {name!r} has line ends, control or non-ASCII characters; it is not shown here")
    return value


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
