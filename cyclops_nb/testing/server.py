"""A scripted OpenAI-compatible server that answers over real HTTP on the loopback interface.

It runs an event loop of its own in a thread of its own, so that it is the same from a script, from any event
loop and from a notebook's kernel, and never touches the caller's loop. The socket listens before
`ScriptedServer.start` returns: a client may connect at once. Connections are accepted here and not by
`asyncio.Server`, which up to Python 3.11 loses those that come while it closes.
"""

from __future__ import annotations

import asyncio
import atexit
import socket
import threading
from collections.abc import Collection
from contextlib import suppress
from types import TracebackType
from typing import Self

from cyclops_nb.errors import ConfigError
from cyclops_nb.testing.connection import Connection
from cyclops_nb.testing.ledger import Ledger
from cyclops_nb.testing.recorded import RecordedRequest
from cyclops_nb.testing.script import Answering, Script, ScriptLike
from cyclops_nb.testing.service import CHAT_PATH, RESPONSES_PATH, Service

__all__ = ["ScriptedServer"]

_BACKLOG = 128
_STOP_TIMEOUT = 10.0


class ScriptedServer:
    """A server on 127.0.0.1 that speaks OpenAI's two APIs and answers what a script says.

    It takes ``POST {base_url}/chat/completions`` and ``POST {base_url}/responses``, streamed or not, and
    ``GET {base_url}/models``. One script answers both, in the form of the API that is asked. Requests that
    OpenAI would refuse are refused in its words; they are recorded too, and use up no reply.

    Parameters
    ----------
    script
        A list of replies, one for each request in order, after which the server answers 500 and says that the
        script is used up; or one reply for all requests; or a function that is given each `RecordedRequest`
        and gives the reply. An entry of a list may be such a function too. It runs in the server's thread and
        must not wait.
    strict : bool
        Whether requests are checked as OpenAI checks them.
    repeat : bool
        Whether a list starts again when it is used up.
    models : collection of str, optional
        The models that there are; a request for another is answered 404. Any model will do if not given.
    require_key : str, optional
        The API key without which a request is answered 401.
    refuse_parameters : collection of str
        Request parameters that this server does not know, such as ``"seed"`` or ``"text.format"``; a request
        that has one is answered 400.
    context_window : int, optional
        Tokens that ``/models`` names as ``meta.n_ctx``, as llama.cpp's server does.

    Examples
    --------
    >>> import openai
    >>> from cyclops_nb.testing import ScriptedServer, text
    >>> with ScriptedServer([text("Hello world")]) as server:
    ...     with openai.OpenAI(base_url=server.base_url, api_key="any") as client:
    ...         answer = client.chat.completions.create(
    ...             model="any", messages=[{"role": "user", "content": "Hi"}]
    ...         )
    >>> answer.choices[0].message.content
    'Hello world'
    >>> server.requests[0].messages
    [{'role': 'user', 'content': 'Hi'}]
    """

    def __init__(
        self,
        script: ScriptLike = (),
        *,
        strict: bool = True,
        repeat: bool = False,
        models: Collection[str] | None = None,
        require_key: str | None = None,
        refuse_parameters: Collection[str] = (),
        context_window: int | None = None,
    ) -> None:
        for name, value in (("models", models), ("refuse_parameters", refuse_parameters)):
            if isinstance(value, str):
                raise ConfigError(f"{name} is a collection of names, not one string: write {name}=[{value!r}]")
        self._script = Script(script, repeat=repeat)
        service = Service(
            self._script,
            strict=strict,
            models=None if models is None else tuple(models),
            require_key=require_key,
            refuse_parameters=tuple(refuse_parameters),
            context_window=context_window,
        )
        self._ledger = Ledger(service)
        self._base_url: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._thread: threading.Thread | None = None

    @property
    def base_url(self) -> str:
        """The address for clients, such as ``http://127.0.0.1:54321/v1``; kept when the server has stopped.

        Raises
        ------
        ConfigError
            If the server was never started.
        """
        if self._base_url is None:
            raise ConfigError("the server has no address yet: use it in a with statement, or call start() first")
        return self._base_url

    @property
    def requests(self) -> list[RecordedRequest]:
        """All requests so far in the order they came, refused ones too."""
        return self._ledger.requests

    @property
    def completions(self) -> list[RecordedRequest]:
        """Those of `requests` that asked for an answer of a model, in either API."""
        return [request for request in self.requests if request.path in {CHAT_PATH, RESPONSES_PATH}]

    @property
    def open_connections(self) -> int:
        """How many connections clients hold open now."""
        return len(self._ledger.connections)

    def add(self, *replies: Answering) -> None:
        """Append replies to a script that is a list; may be called from any thread while the server runs.

        Parameters
        ----------
        *replies
            What a script is made of.

        Raises
        ------
        ConfigError
            If one of them is no reply, or the script is one reply or function for all requests.

        Examples
        --------
        >>> from cyclops_nb.testing import ScriptedServer, text
        >>> server = ScriptedServer([text("one")])
        >>> server.add(text("two"), text("three"))
        """
        self._script.add(replies)

    def wait_idle(self, timeout: float = 10.0) -> None:
        """Block until no request is in progress.

        Parameters
        ----------
        timeout : float
            Seconds to wait at most.

        Raises
        ------
        TimeoutError
            If a request is still being answered after that time.

        Examples
        --------
        >>> from cyclops_nb.testing import ScriptedServer
        >>> with ScriptedServer() as server:
        ...     server.wait_idle()
        """
        self._ledger.wait_idle(timeout)

    def wait_disconnected(self, timeout: float = 10.0) -> None:
        """Block until no client holds a connection open.

        Parameters
        ----------
        timeout : float
            Seconds to wait at most.

        Raises
        ------
        TimeoutError
            If a connection is still open after that time.

        Examples
        --------
        >>> from cyclops_nb.testing import ScriptedServer
        >>> with ScriptedServer() as server:
        ...     server.wait_disconnected()
        """
        self._ledger.wait_disconnected(timeout)

    def start(self) -> Self:
        """Start the server on a free port; what a with statement does.

        Returns
        -------
        ScriptedServer
            Itself.

        Raises
        ------
        ConfigError
            If it runs already.

        Examples
        --------
        >>> from cyclops_nb.testing import ScriptedServer, text
        >>> server = ScriptedServer(text("Hello")).start()
        >>> server.stop()
        """
        if self._thread is not None:
            raise ConfigError(f"the server runs already, at {self.base_url!r}; stop it before starting it again")
        listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self._base_url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        listener.setblocking(False)  # noqa: FBT003 - the socket module's own signature
        self._loop, self._stopping = asyncio.SelectorEventLoop(), asyncio.Event()
        # a daemon, so that a notebook whose kernel ends with a server still running is not kept alive by it
        self._thread = threading.Thread(
            target=self._run, args=(self._loop, listener, self._stopping), name="ScriptedServer", daemon=True
        )
        self._thread.start()
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """Stop the server and close its connections, whatever is in progress; one that does not run stays so.

        Raises
        ------
        ConfigError
            If it is called from a function of the script, which runs on the server's own thread.
        TimeoutError
            If a function of the script does not come back.

        Examples
        --------
        >>> from cyclops_nb.testing import ScriptedServer, text
        >>> server = ScriptedServer(text("Hello")).start()
        >>> server.stop()
        """
        thread, loop = self._thread, self._loop
        if thread is None or loop is None:
            return
        if thread is threading.current_thread():
            raise ConfigError("a function of the script cannot stop the server that calls it")
        self._thread = self._loop = None
        atexit.unregister(self.stop)
        loop.call_soon_threadsafe(self._stopping.set)
        thread.join(_STOP_TIMEOUT)
        if thread.is_alive():
            raise TimeoutError(f"a function of the script has not come back for {_STOP_TIMEOUT} s")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, loop: asyncio.AbstractEventLoop, listener: socket.socket, stopping: asyncio.Event) -> None:
        # the threads share one interpreter: work of the program under test would be logged as the server's
        loop.slow_callback_duration = 60.0
        try:
            loop.run_until_complete(self._serve(listener, stopping))
        finally:
            loop.close()

    async def _serve(self, listener: socket.socket, stopping: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        connecting: set[asyncio.Task[object]] = set()

        def accept() -> None:
            with suppress(OSError):
                client = listener.accept()[0]
                task = loop.create_task(loop.connect_accepted_socket(lambda: Connection(self._ledger), client))
                connecting.add(task)
                task.add_done_callback(connecting.discard)

        loop.add_reader(listener, accept)
        await stopping.wait()
        loop.remove_reader(listener)
        listener.close()
        while (connections := self._ledger.connections) or len(asyncio.all_tasks()) > 1:
            for connection in connections:
                connection.stop()
            await asyncio.sleep(0)
