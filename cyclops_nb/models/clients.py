"""One openai client for each event loop.

Connections belong to the loop that opened them, and a notebook has several loops: the kernel's, the library's own, one
for each ``asyncio.run``. A client is closed when its loop ends. The only hook that every loop offers for that is the
shutdown of asynchronous generators, so the client lives in one.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import sys
import threading
import weakref
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from cyclops_nb.config import AgentConfig
from cyclops_nb.errors import ConfigError
from cyclops_nb.models.base import Endpoint
from cyclops_nb.models.presets import OPENAI_URL, host_of, is_loopback
from cyclops_nb.models.retries import watch_retries
from cyclops_nb.threads import run_in_thread

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["ClientPool"]

_CONNECT_SECONDS = 10.0

_SHORTEST_SECRET = 8
"""Shorter ones guard nothing, and are found in ordinary words."""


_LOCK = threading.Lock()
_LOOPS_OF_GIVEN: weakref.WeakKeyDictionary[AsyncOpenAI, weakref.ref[asyncio.AbstractEventLoop]] = (
    weakref.WeakKeyDictionary()
)
_OF_THE_CLIENT = ("base_url", "api_key", "timeout", "max_retries", "default_headers", "default_query")


def _check_usable(given: Any, config: AgentConfig) -> None:
    if not any(kind.__name__ == "AsyncOpenAI" for kind in type(given).__mro__):
        raise ConfigError(f"client must be an openai.AsyncOpenAI, not a {type(given).__name__}")
    both = [name for name in _OF_THE_CLIENT if name in config.model_fields_set]
    if both:
        raise ConfigError(f"{both[0]} is a matter of the client that was passed as client=: set it there, not here")


class ClientPool:
    """The clients of one agent.

    Parameters
    ----------
    config : AgentConfig
        Timeouts, retries, headers.
    given : AsyncOpenAI, optional
        The user's own client, used as it is, on one loop.
    """

    def __init__(self, config: AgentConfig, given: AsyncOpenAI | None = None) -> None:
        self._config = config
        self._given = given
        if given is not None:
            _check_usable(given, config)
        self._holders: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Endpoint, AsyncOpenAI]] = (
            weakref.WeakKeyDictionary()
        )

    async def get(self, endpoint: Endpoint) -> AsyncOpenAI:
        """Return the client of the running loop for `endpoint`, made at its first use."""
        if "openai" not in sys.modules:
            await run_in_thread(importlib.import_module, "openai")  # it takes most of a second
        loop = asyncio.get_running_loop()
        if self._given is not None:
            return self._check_given(loop)
        client = self._known(loop, endpoint)
        if client is not None:
            return client
        import openai

        # else the client's first request asks for it in asyncio's pool, and the pool's thread stays
        platform = await run_in_thread(openai._base_client.get_platform)  # noqa: SLF001
        client = self._known(loop, endpoint)  # made meanwhile by another run: nothing below lets go of the loop
        if client is not None:
            return client
        client = self._make(endpoint)
        client._platform = platform  # noqa: SLF001
        watch_retries(client)
        closing = _Closing(loop)
        holder = _hold(client, closing)
        await anext(holder)
        closing.when_gone(self, holder, client)
        self._holders[loop] = (endpoint, client)
        return client

    def _known(self, loop: asyncio.AbstractEventLoop, endpoint: Endpoint) -> AsyncOpenAI | None:
        known = self._holders.get(loop)
        return known[1] if known is not None and known[0] == endpoint else None

    def _check_given(self, loop: asyncio.AbstractEventLoop) -> AsyncOpenAI:
        assert self._given is not None  # noqa: S101 - for the type checker
        with _LOCK:
            bound = _LOOPS_OF_GIVEN.setdefault(self._given, weakref.ref(loop))
        if bound() is not loop:
            raise ConfigError(
                "the client that was passed as client= has worked on another event loop, and its connections belong to "
                "that one: the sync entry points and start() use the library's own loop, each asyncio.run a new one; "
                "use one kind, or pass base_url, api_key and default_headers instead of client="
            )
        watch_retries(self._given)
        return self._given

    def headers(self, endpoint: Endpoint) -> dict[str, Any]:
        """Return what each request's headers need beyond the client's: the raw response, no key if there is none."""
        import openai

        headers: dict[str, Any] = {"X-Stainless-Raw-Response": "stream"}
        own = (name.lower() for name in self._config.default_headers or ())
        if self._given is None and not endpoint.api_key and "authorization" not in own:
            headers["Authorization"] = openai.Omit()
        return headers

    def secrets(self, endpoint: Endpoint) -> list[str]:
        """Return the keys and header values that go to the server and must stand in no text."""
        given = [self._given.api_key] if self._given is not None else []
        values = [endpoint.api_key, *given, *(self._config.default_headers or {}).values()]
        words = {value.removeprefix("Bearer ") for value in values}
        return [word for word in words if len(word) >= _SHORTEST_SECRET]

    def _make(self, endpoint: Endpoint) -> AsyncOpenAI:
        import openai

        options: dict[str, Any] = {}
        # a long answer is worth waiting for, a host that does not take the connection is not
        timeout = openai.Timeout(self._config.timeout, connect=min(self._config.timeout, _CONNECT_SECONDS))
        if is_loopback(endpoint.base_url):
            # neither proxies nor certificates concern this computer, and reading certificates takes 20 ms
            options["http_client"] = openai.DefaultAsyncHttpxClient(trust_env=False, verify=False, timeout=timeout)
        client = openai.AsyncOpenAI(
            api_key=endpoint.api_key or "none",
            base_url=endpoint.base_url,
            timeout=timeout,
            max_retries=self._config.max_retries,
            default_headers=self._config.default_headers,
            default_query=self._config.default_query,
            **options,
        )
        if endpoint.host != host_of(OPENAI_URL):
            # read from the environment by the client, and nobody else's business
            client.organization = client.project = None
            client._custom_headers = dict(self._config.default_headers or {})  # noqa: SLF001
        return client


class _Closing:
    """Closes a client when its agent is gone, if that is before the end of the loop.

    The holder is kept alive from outside the agent: were it garbage together with the agent, its sockets would be
    finalised in any order, and complain.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._finalizer: weakref.finalize[Any, Any] | None = None

    def when_gone(self, pool: ClientPool, holder: AsyncGenerator[None, None], client: AsyncOpenAI) -> None:
        self._finalizer = weakref.finalize(pool, self._close, holder, client)
        self._finalizer.atexit = False

    def done(self) -> None:
        if self._finalizer is not None:
            self._finalizer.detach()

    def _close(self, holder: AsyncGenerator[None, None], client: AsyncOpenAI) -> None:
        loop = self._loop()
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # closed meanwhile, and the client with it
                loop.call_soon_threadsafe(_begin_closing, holder, client)


def _begin_closing(holder: AsyncGenerator[None, None], client: AsyncOpenAI) -> None:
    task = asyncio.get_running_loop().create_task(_close(holder, client))
    _CLOSING.add(task)
    task.add_done_callback(_CLOSING.discard)


async def _close(holder: AsyncGenerator[None, None], client: AsyncOpenAI) -> None:
    """Close the client first: a loop that ends closes its generators, and complains of one that is just closing."""
    await client.close()
    with contextlib.suppress(RuntimeError):  # the loop was faster
        await holder.aclose()


_CLOSING: set[asyncio.Task[None]] = set()
"""A loop only keeps weak references to its tasks."""


async def _hold(client: AsyncOpenAI, closing: _Closing) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        closing.done()
        await client.close()
