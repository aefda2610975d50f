"""A meeting point between a test and the server, in place of a sleep.

A test that cancels "while the model is writing" must know that it is writing. A `Gate` inside a reply stops
the server there, tells the test so, and waits for its word. What happens on either side is kept in futures of
`concurrent.futures`, as they are the one thing that plain threads and coroutines of any event loop can both
wait for. The asynchronous forms take a timeout, as the blocking ones do, because their error says what was
awaited in vain.
"""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import Future, InvalidStateError

__all__ = ["Gate", "gate"]


class _Signal:
    """Something that happens once, awaited from threads and from event loops."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._future: Future[None] = Future()
        # a running future cannot be cancelled, so that a waiter who gives up does not take the signal with it
        self._future.set_running_or_notify_cancel()

    def set(self) -> None:
        with contextlib.suppress(InvalidStateError):
            self._future.set_result(None)

    def wait(self, timeout: float) -> None:
        try:
            self._future.result(timeout)
        except TimeoutError:
            raise self._too_late(timeout) from None

    async def wait_async(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        try:
            async with asyncio.timeout(timeout):
                await asyncio.wrap_future(self._future)
        except TimeoutError:
            raise self._too_late(timeout) from None

    def _too_late(self, timeout: float | None) -> TimeoutError:
        return TimeoutError(f"{self._what} within {timeout} s")


class Gate:
    """A place inside a reply where the server waits until the test lets it go on; made by `gate`.

    Everything that stands before the gate has been sent when it is reached. A gate that was released stays
    open, also for later requests that are answered with the same reply.
    """

    def __init__(self) -> None:
        self._reached = _Signal("the server did not come to the gate")
        self._released = _Signal("the gate was not released")
        self._client_gone = _Signal("the client did not close its connection")

    def wait_reached(self, timeout: float = 10.0) -> None:
        """Block until the server stands at the gate.

        Parameters
        ----------
        timeout : float
            Seconds to wait at most.

        Raises
        ------
        TimeoutError
            If the server did not come to the gate in that time.
        """
        self._reached.wait(timeout)

    async def reached(self, timeout: float = 10.0) -> None:  # noqa: ASYNC109
        """Wait as `wait_reached` does, in a coroutine of any event loop."""
        await self._reached.wait_async(timeout)

    def release(self) -> None:
        """Let the server go on; from any thread, any number of times, also before the gate is reached."""
        self._released.set()

    def wait_client_gone(self, timeout: float = 10.0) -> None:
        """Block until the client has closed its connection before it had the whole reply.

        Parameters
        ----------
        timeout : float
            Seconds to wait at most.

        Raises
        ------
        TimeoutError
            If the client still listens after that time.
        """
        self._client_gone.wait(timeout)

    async def client_gone(self, timeout: float = 10.0) -> None:  # noqa: ASYNC109
        """Wait as `wait_client_gone` does, in a coroutine of any event loop."""
        await self._client_gone.wait_async(timeout)

    async def hold(self) -> None:
        """Say that the gate is reached and wait for its release; the server's side of the meeting."""
        self._reached.set()
        await self._released.wait_async()

    def mark_client_gone(self) -> None:
        """Say that the client has left; the server's side of the meeting."""
        self._client_gone.set()


def gate() -> Gate:
    """Make a gate to put inside a `reply`: the server waits there until the test releases it.

    Returns
    -------
    Gate
        A new gate, closed.

    Examples
    --------
    >>> import openai
    >>> from cyclops_nb.testing import ScriptedServer, gate, reply, text
    >>> door = gate()
    >>> with ScriptedServer(reply(text("Hello"), door, text(" world"))) as server:
    ...     with openai.OpenAI(base_url=server.base_url, api_key="any") as client:
    ...         chunks = client.chat.completions.create(
    ...             model="any", messages=[{"role": "user", "content": "Hi"}], stream=True
    ...         )
    ...         door.wait_reached()
    ...         begun = [next(chunks).choices[0].delta.content for _ in range(2)]
    ...         door.release()
    ...         rest = [chunk.choices[0].delta.content for chunk in chunks]
    >>> begun, rest
    (['', 'Hello'], [' world', None])
    """
    return Gate()
