"""Which server a model name stands for, and which key goes there.

A key belongs to a host. ``OPENAI_API_KEY`` is read for OpenAI's own address (or the one that stands beside it in
``OPENAI_BASE_URL``) and for no other, so that pointing ``base_url`` at some server never hands it over.
"""

from __future__ import annotations

import os
from typing import NamedTuple
from urllib.parse import urlsplit

from cyclops_nb.config import AgentConfig
from cyclops_nb.errors import ConfigError
from cyclops_nb.models.base import Endpoint

__all__ = ["OPENAI_URL", "PRESETS", "Preset", "is_loopback", "resolve"]

OPENAI_URL = "https://api.openai.com/v1"


class Preset(NamedTuple):
    """A server with a short form: ``name:model``."""

    base_url: str
    key_variable: str | None = None
    """The environment variable with its key; None where no key is needed."""
    free: bool = False


PRESETS = {
    "deepseek": Preset("https://api.deepseek.com", "DEEPSEEK_API_KEY"),
    "gemini": Preset("https://generativelanguage.googleapis.com/v1beta/openai/", "GEMINI_API_KEY"),
    "groq": Preset("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "llamacpp": Preset("http://127.0.0.1:8080/v1", free=True),
    "lmstudio": Preset("http://127.0.0.1:1234/v1", free=True),
    "mistral": Preset("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "ollama": Preset("http://127.0.0.1:11434/v1", free=True),
    "openrouter": Preset("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "vllm": Preset("http://127.0.0.1:8000/v1", free=True),
}


def host_of(base_url: str) -> str:
    """Return the host name of an address."""
    return urlsplit(base_url).hostname or ""


def is_loopback(base_url: str) -> bool:
    """Say whether an address stands for this computer, reached without encryption."""
    host = host_of(base_url)
    return base_url.startswith("http://") and (host in {"localhost", "::1"} or host.startswith("127."))


def resolve(config: AgentConfig) -> Endpoint:
    """Return where the model of `config` is asked, with the key for that server.

    Raises
    ------
    ConfigError
        If a key is needed and there is none.

    Examples
    --------
    >>> resolve(AgentConfig("ollama:qwen3")).base_url
    'http://127.0.0.1:11434/v1'
    """
    given = config.api_key.get_secret_value() if config.api_key is not None else ""
    if config.base_url is not None:
        key = given or (_key_for_openai() if _same_server(config.base_url, OPENAI_URL) else "")
        return _endpoint(config.base_url, config.model, key)
    prefix, colon, model = config.model.partition(":")
    preset = PRESETS.get(prefix) if colon else None
    if preset is not None:
        key = given or os.environ.get(preset.key_variable or "", "")
        if preset.key_variable and not key:
            raise ConfigError(
                f"no key for {host_of(preset.base_url)}: set {preset.key_variable} in the environment or pass api_key="
            )
        return _endpoint(preset.base_url, model, key, free=preset.free)
    base_url = os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
    key = given or _key_for_openai()
    if not key and _same_server(base_url, OPENAI_URL):
        raise ConfigError(
            f"no key for {host_of(base_url)}: set OPENAI_API_KEY in the environment or pass api_key=; "
            'model="local" needs none'
        )
    return _endpoint(base_url, config.model, key)


def _key_for_openai() -> str:
    return os.environ.get("OPENAI_API_KEY", "")


def _same_server(one: str, other: str) -> bool:
    return urlsplit(one)[:2] == urlsplit(other)[:2]


def _endpoint(base_url: str, model: str, key: str, *, free: bool = False) -> Endpoint:
    key = key.strip()  # keys read from files end with a line
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"the key for {host_of(base_url)} has characters that no key has; it is not shown here")
    return Endpoint(base_url, model, key, free=free, host=host_of(base_url))
