"""Reads a model's context window out of what a server lists as its models. Pure.

OpenAI's own list has no such number, and the others that put one there have each a name of their own for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["window_of"]

_LOADED = ("loaded_context_length", "max_model_len", "n_ctx", "context_window", "context_length", "context_size")
"""What is served, in order of trust."""
_POSSIBLE = ("max_context_length", "max_input_tokens")
"""What is served by services; of a program that loads models, what would be possible at most."""
_NAMES = ("id", "key", "name", "model", "root", "canonical_slug")


def window_of(models_json: Any, model: str) -> int | None:
    """Return the context window of a model, in tokens, from the answer to ``GET /models``.

    Parameters
    ----------
    models_json : object
        The answer's JSON: ``{"data": [...]}``, as OpenAI has it, ``{"models": [...]}``, a bare list, or one model.
    model : str
        The model's name as the server is asked for it. A server that lists one model alone serves it under any name.

    Returns
    -------
    int or None
        None where the answer does not tell.

    Examples
    --------
    >>> window_of({"data": [{"id": "qwen3", "max_model_len": 32768}]}, "qwen3")
    32768
    """
    entries = list(_entries(models_json))
    for name in _spellings(model):
        known = [entry for entry in entries if name in _names_of(entry)]
        if known:
            return _first_window(known, model)
    names = {next(iter(_names_of(entry)), None) for entry in entries}
    return _first_window(entries, model) if len(names) == 1 else None


def _first_window(entries: list[Mapping[str, Any]], model: str) -> int | None:
    windows = (_window(entry, model) for entry in entries)
    return next((window for window in windows if window is not None), None)


def _entries(models: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the entries of a list of models; llama.cpp has two lists, of which one knows more."""
    if isinstance(models, Mapping):
        lists = [models[name] for name in ("data", "models") if isinstance(models.get(name), list)]
        entries = [entry for found in lists for entry in found] if lists else [models]
    else:
        entries = models if isinstance(models, list) else []
    for entry in entries:
        if isinstance(entry, Mapping):
            yield entry


def _names_of(entry: Mapping[str, Any]) -> list[str]:
    aliases = entry.get("aliases")
    names = [*(entry.get(name) for name in _NAMES), *(aliases if isinstance(aliases, list) else ())]
    return [name.lower() for name in names if isinstance(name, str)]


def _spellings(model: str) -> list[str]:
    """Return the names that an entry may have, the exact one first: routers take a choice after a colon."""
    name = model.lower()
    base = name.rpartition(":")[0]
    return [name, f"{name}:latest", f"models/{name}", *([base] if base else [])]


def _window(entry: Mapping[str, Any], model: str) -> int | None:
    """Return the window that an entry tells of; where it has several, the one that is really served."""
    instances = entry.get("loaded_instances")
    loads_models = isinstance(instances, list) or "state" in entry
    places = [entry.get("meta"), *_configs(instances), entry.get("top_provider"), entry, entry.get("metadata")]
    for place in places:
        window = _number(place, _LOADED)
        if window is not None:
            return window
    if loads_models:
        return None
    return _number(entry, _POSSIBLE) or _number(entry.get("limits"), (*_LOADED, *_POSSIBLE)) or _least(entry, model)


def _configs(instances: Any) -> list[Any]:
    found = instances if isinstance(instances, list) else []
    return [instance.get("config") for instance in found if isinstance(instance, Mapping)]


def _least(entry: Mapping[str, Any], model: str) -> int | None:
    """Return the smallest window of a router's providers, or that of the one that is asked for by name."""
    providers = entry.get("providers")
    found = [item for item in (providers if isinstance(providers, list) else ()) if isinstance(item, Mapping)]
    wanted = [item for item in found if item.get("provider") == model.rpartition(":")[2]]
    windows = (_number(item, _LOADED) for item in wanted or found)
    return min((window for window in windows if window is not None), default=None)


def _number(place: Any, names: tuple[str, ...]) -> int | None:
    """Return the first of some fields that is a number of tokens."""
    if not isinstance(place, Mapping):
        return None
    for name in names:
        value = place.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        if isinstance(value, float) and value > 0 and value.is_integer():
            return int(value)
    return None
