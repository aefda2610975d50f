"""Which server a model name stands for, and which key goes there.

A key belongs to a server. ``OPENAI_API_KEY`` is read for OpenAI (or for the address that stands beside it in
``OPENAI_BASE_URL``), ``GROQ_API_KEY`` for Groq, and none of them for any other address, so that pointing ``base_url``
at some server never hands it a key of another one.
"""

from __future__ import annotations

import os
from typing import NamedTuple
from urllib.parse import urlsplit

from cyclops_nb.config import AgentConfig, clean_key
from cyclops_nb.errors import ConfigError
from cyclops_nb.models.base import Endpoint

__all__ = ["OPENAI_URL", "PRESETS", "Preset", "host_of", "is_loopback", "is_service", "resolve", "wants_reasoning"]

OPENAI_URL = "https://api.openai.com/v1"
_PORTS = {"http": 80, "https": 443}


class Preset(NamedTuple):
    """A server with a short form: ``name:model``."""

    base_url: str
    key_variables: tuple[str, ...] = ()
    """The environment variables that may hold its key, the first that is set counts; none for one's own server."""
    free: bool = False
    """Whether it is a program that users run themselves, so that tokens cost nothing, wherever it runs."""
    wants_reasoning: bool = False
    """Whether it refuses a conversation with tool calls when the reasoning before them is left out."""


PRESETS = {
    "anthropic": Preset("https://api.anthropic.com/v1/", ("ANTHROPIC_API_KEY",)),
    "cerebras": Preset("https://api.cerebras.ai/v1", ("CEREBRAS_API_KEY",)),
    "deepinfra": Preset("https://api.deepinfra.com/v1/openai", ("DEEPINFRA_API_KEY",)),
    "deepseek": Preset("https://api.deepseek.com", ("DEEPSEEK_API_KEY",), wants_reasoning=True),
    "fireworks": Preset("https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",)),
    "gemini": Preset("https://generativelanguage.googleapis.com/v1beta/openai/", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    "groq": Preset("https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "huggingface": Preset("https://router.huggingface.co/v1", ("HF_TOKEN",)),
    "jan": Preset("http://127.0.0.1:1337/v1", free=True),
    "llamacpp": Preset("http://127.0.0.1:8080/v1", free=True),
    "lmstudio": Preset("http://127.0.0.1:1234/v1", free=True),
    "mistral": Preset("https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
    "moonshot": Preset("https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",), wants_reasoning=True),
    "nvidia": Preset("https://integrate.api.nvidia.com/v1", ("NVIDIA_API_KEY",)),
    "ollama": Preset("http://127.0.0.1:11434/v1", free=True),
    "openai": Preset(OPENAI_URL, ("OPENAI_API_KEY",)),
    "openrouter": Preset("https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    "sambanova": Preset("https://api.sambanova.ai/v1", ("SAMBANOVA_API_KEY",)),
    "sglang": Preset("http://127.0.0.1:30000/v1", free=True),
    "together": Preset("https://api.together.ai/v1", ("TOGETHER_API_KEY",)),
    "vllm": Preset("http://127.0.0.1:8000/v1", free=True),
    "xai": Preset("https://api.x.ai/v1", ("XAI_API_KEY",)),
    "zai": Preset("https://api.z.ai/api/paas/v4", ("ZAI_API_KEY",)),
}

_ALSO_WANT_REASONING = ("api.moonshot.cn", "xiaomimimo.com")


def host_of(base_url: str) -> str:
    """Return the host name of an address."""
    return urlsplit(base_url).hostname or ""


def is_loopback(base_url: str) -> bool:
    """Say whether an address stands for this computer, reached without encryption."""
    host = host_of(base_url)
    return base_url.startswith("http://") and (host in {"localhost", "::1"} or host.startswith("127."))


def is_service(base_url: str) -> bool:
    """Say whether an address belongs to one of the services in the table, which users do not run themselves."""
    return _is_openai(base_url) or any(
        _same_server(preset.base_url, base_url) for preset in PRESETS.values() if preset.key_variables
    )


def wants_reasoning(host: str) -> bool:
    """Say whether a host refuses a conversation with tool calls when the reasoning before them is left out."""
    hosts = (host_of(preset.base_url) for preset in PRESETS.values() if preset.wants_reasoning)
    return any(host == name or host.endswith(f".{name}") for name in (*hosts, *_ALSO_WANT_REASONING))


def resolve(config: AgentConfig) -> Endpoint:
    """Return where the model of `config` is asked, with the key for that server.

    Raises
    ------
    ConfigError
        If a key is needed and there is none, or a variable of the environment has no address in it.

    Examples
    --------
    >>> resolve(AgentConfig("ollama:qwen3:8b", base_url="http://gpu.example.org:11434/v1")).model
    'qwen3:8b'
    """
    prefix, colon, rest = config.model.partition(":")
    preset = PRESETS.get(prefix) if colon else None
    if preset is not None and config.base_url is not None and not preset.free:
        preset = None  # the address says which server it is, and models are named so: mistral:7b
    if preset is not None and not rest:
        raise ConfigError(f"name a model of {prefix}, as in {prefix + ':model'!r}")
    model = config.model if preset is None else rest
    base_url = config.base_url or _address(prefix, preset)
    key = config.api_key.get_secret_value() if config.api_key is not None else _key_for(base_url)
    if not key and not any(_names_a_key(name) for name in config.default_headers or ()):
        _check_needs_no_key(base_url)
    return Endpoint(base_url, model, key, free=preset is not None and preset.free, host=host_of(base_url))


def _address(prefix: str, preset: Preset | None) -> str:
    if preset is None or prefix == "openai":
        return _openai_address()
    return _ollama_address(preset.base_url) if prefix == "ollama" else preset.base_url


def _openai_address() -> str:
    """Return the server that ``OPENAI_API_KEY`` belongs to."""
    given = os.environ.get("OPENAI_BASE_URL", "").strip()
    return _checked(given, "OPENAI_BASE_URL") if given else OPENAI_URL


def _ollama_address(default: str) -> str:
    """Return Ollama's address: ``OLLAMA_HOST``, as its own programs read it, names a host, a port, or a whole URL."""
    given = os.environ.get("OLLAMA_HOST", "").strip().strip("'\"")
    if not given:
        return default
    scheme, mark, rest = given.rpartition("://")
    place, _, path = rest.partition("/")
    user, at, place = place.rpartition("@")
    if place.count(":") > 1 and not place.startswith("["):
        place = f"[{place}]"
    try:
        parts = urlsplit(f"//{place}")
        host, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError:
        raise ConfigError("OLLAMA_HOST in the environment is no address: check host and port") from None
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - where a server listens is no place to connect to
        host = "127.0.0.1"
    if port is None and not mark:
        port = 11434
    place = (f"[{host}]" if ":" in host else host) + ("" if port is None else f":{port}")
    steps = [step for step in path.split("/") if step]
    if steps[-1:] != ["v1"]:
        steps.append("v1")
    return _checked("/".join([f"{scheme or 'http'}://{user}{at}{place}", *steps]), "OLLAMA_HOST")


def _checked(address: str, variable: str) -> str:
    try:
        return AgentConfig("any", base_url=address).base_url or address
    except ConfigError as error:
        raise ConfigError(f"{variable} in the environment: {str(error).partition('base_url: ')[2]}") from None


def _key_for(base_url: str) -> str:
    """Return the key in the environment that belongs to a server, or nothing."""
    for variable in _variables_for(base_url):
        key = os.environ.get(variable, "")
        if key.strip():
            return clean_key(key, variable)
    return ""


def _variables_for(base_url: str) -> list[str]:
    presets = (preset for name, preset in PRESETS.items() if name != "openai")
    found = [name for preset in presets if _same_server(preset.base_url, base_url) for name in preset.key_variables]
    home = _openai_address()
    if _same_server(home, base_url) or (_is_openai(home) and _is_openai(base_url)):
        found += PRESETS["openai"].key_variables
    return found


def _names_a_key(header: str) -> bool:
    return any(word in header.lower() for word in ("authorization", "key", "token"))


def _check_needs_no_key(base_url: str) -> None:
    if not is_service(base_url):
        return
    variables = " or ".join(_variables_for(base_url))
    if variables:
        todo = f"set {variables} in the environment or pass api_key="
    else:
        todo = "pass api_key= (OPENAI_API_KEY belongs to the address in OPENAI_BASE_URL here)"
    free = '; model="local" needs none' if _is_openai(base_url) else ""
    raise ConfigError(f"no key for {host_of(base_url)}: {todo}{free}")


def _is_openai(base_url: str) -> bool:
    """Say whether an address is OpenAI's, in whichever region."""
    parts = urlsplit(base_url)
    host = f".{parts.hostname or ''}"
    return parts.scheme == "https" and host.endswith(f".{host_of(OPENAI_URL)}") and parts.port in {None, 443}


def _same_server(one: str, other: str) -> bool:
    return _server_of(one) == _server_of(other)


def _server_of(base_url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(base_url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)
