"""A model behind an HTTP API: posts over the openai client, reads what comes back.

The client does what it is good at: keys, retries, timeouts, error statuses. The stream is read from its raw response,
because a validated object for each chunk makes reading several times slower and drops fields it does not know.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from cyclops_nb.errors import CyclopsError, ModelError
from cyclops_nb.models.base import Completion, Emit, Endpoint, ModelRequest
from cyclops_nb.models.clients import ClientPool
from cyclops_nb.models.failures import (
    broken_connection,
    from_status,
    innermost,
    is_unsendable,
    sharpened,
    unreachable,
    was_not_connected,
)
from cyclops_nb.models.reading import StreamReader, parse_json
from cyclops_nb.models.refusals import Refusals
from cyclops_nb.models.retries import telling_retries
from cyclops_nb.models.windows import window_of

if TYPE_CHECKING:
    import openai
    from openai import AsyncOpenAI

__all__ = ["ServedModel"]

_DRAIN_SECONDS = 1.0
_WINDOW_SECONDS = 10.0


class ServedModel(ABC):
    """A model behind an HTTP API; a subclass says what is sent where, and how the answer is read."""

    path: ClassVar[str]

    def __init__(self, endpoint: Endpoint, clients: ClientPool) -> None:
        self._endpoint = endpoint
        self._clients = clients
        self._refusals = Refusals()
        self._window: int | None = None
        self._is_window_asked = False

    @abstractmethod
    def payload(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a request."""

    @abstractmethod
    def reader(self, completion: Completion, request: ModelRequest) -> StreamReader:
        """Return what reads the answer into `completion`."""

    def notes(self, request: ModelRequest) -> Sequence[str]:  # noqa: ARG002 - for subclasses
        """Return warnings about what cannot be asked for."""
        return ()

    @property
    def endpoint(self) -> Endpoint:
        """The server that is asked."""
        return self._endpoint

    async def context_window(self) -> int | None:
        """Return the model's context window in tokens as its server tells it, asked once; None if it does not."""
        if not self._is_window_asked:
            with contextlib.suppress(Exception):  # not all have such a list, and a run can do without it
                self._window = await self._ask_for_window()
            self._is_window_asked = True
        return self._window

    def learn_context_window(self, tokens: int) -> None:
        """Take note of the window that the server has named in a refusal."""
        self._window, self._is_window_asked = tokens, True

    async def _ask_for_window(self) -> int | None:
        import openai

        client = await self._clients.get(self._endpoint)
        options: Any = {
            "headers": self._clients.headers(self._endpoint),
            "follow_redirects": False,
            "timeout": _WINDOW_SECONDS,
            "max_retries": 0,
        }
        response = await client.get("/models", cast_to=openai.AsyncAPIResponse[object], options=options)
        try:
            return window_of(parse_json(await response.read()), self._endpoint.model)
        finally:
            await response.close()

    async def complete(self, request: ModelRequest, completion: Completion, emit: Emit) -> None:
        """Ask, and read the answer into `completion`, telling `emit` of each delta."""
        completion.notes.extend(self.notes(request))
        try:
            await self._complete(request, completion, emit)
        except ModelError as error:
            secrets = self._clients.secrets(self._endpoint)
            if not any(secret in f"{error} {error.__cause__}" for secret in secrets):
                raise
            # servers repeat keys in their complaints, and what failed a run is shown and saved
            for secret in secrets:
                error.message = error.message.replace(secret, "[key]")
            error.args = (error.message,)
            raise error from None

    async def _complete(self, request: ModelRequest, completion: Completion, emit: Emit) -> None:
        client = await self._clients.get(self._endpoint)
        with telling_retries(emit, {"run_id": request.run_id, "step": request.step}):
            response = await self._post(client, request, completion)
        chunks = response.iter_bytes()
        try:
            await _read(chunks, self.reader(completion, request), emit)
        except ModelError as error:
            error.host = self._endpoint.host
            raise sharpened(error) from error.__cause__
        except CyclopsError:
            raise
        except Exception as error:  # noqa: BLE001 - the HTTP library's own errors must not show
            raise broken_connection(error, self._endpoint.host) from None
        finally:
            await response.close()
            await _unwind(chunks)

    async def _post(
        self, client: AsyncOpenAI, request: ModelRequest, completion: Completion
    ) -> openai.AsyncAPIResponse[object]:
        """Send the request; what the server refuses by name is left out and remembered."""
        import openai

        payload = self.payload(request)
        while True:
            body = self._refusals.applied_to(payload)
            try:
                response = await client.post(
                    self.path,
                    cast_to=openai.AsyncAPIResponse[object],
                    body=body,
                    options={
                        "headers": self._clients.headers(self._endpoint),
                        # headers with keys would go along to wherever the server points
                        "follow_redirects": False,
                    },
                )
            except openai.APIStatusError as error:
                if not self._refusals.learn(error, body, request.config.extra_body or {}):
                    completion.refused = True
                    raise from_status(error, self._endpoint.host) from error
            except openai.APIConnectionError as error:
                unsendable = is_unsendable(error.__cause__)
                completion.refused = unsendable or was_not_connected(error.__cause__)
                raise unreachable(error, self._endpoint, client.timeout) from (None if unsendable else error)
            except Exception as error:  # noqa: BLE001 - of the libraries below the client: addresses, headers
                completion.refused = is_unsendable(error) or type(error).__name__ == "InvalidURL"
                raise ModelError(f"the request cannot be sent: {innermost(error)}", host=self._endpoint.host) from None
            else:
                completion.notes.extend(self._refusals.notes(payload, self._endpoint.host))
                return response


async def _read(chunks: AsyncIterator[bytes], reader: StreamReader, emit: Emit) -> None:
    """Read a stream of events, or the one JSON object that a server sent in its place."""
    head = b""
    async for data in chunks:
        head += data
        start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        if start[:1] in (b"{", b"[", b"<"):
            await _read_body(head, chunks, reader, emit)
            return
        if start:
            break
    for event in reader.feed(head):
        emit(event)
    body_head = head[:200]
    while not reader.done:
        data = await anext(chunks, b"")
        if not data:
            break
        for event in reader.feed(data):
            emit(event)
    else:
        await _drain(chunks)
    if not reader.frames and body_head.strip():
        raise ModelError(f"the answer is no stream of events; it begins with {body_head.decode('utf-8', 'replace')!r}")
    for event in reader.close():
        emit(event)


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read to the end of the body, so that the connection can be used again; some servers never end it."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in chunks:
                pass
    except TimeoutError:
        pass
    except Exception:  # noqa: BLE001, S110 - the answer is complete, what happens to the connection now is no matter
        pass


async def _unwind(chunks: AsyncIterator[bytes]) -> None:
    """Let the generators of the HTTP library run into the end of a closed response.

    Left suspended they would be closed by the garbage collector, which may be after the end of the loop.
    """
    with contextlib.suppress(Exception):
        async for _ in chunks:
            pass


async def _read_body(head: bytes, chunks: AsyncIterator[bytes], reader: StreamReader, emit: Emit) -> None:
    body = head + b"".join([data async for data in chunks])
    try:
        answer = parse_json(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ModelError(
            f"the server answered with no stream and no JSON object: {body[:200].decode('utf-8', 'replace')!r}; "
            "does base_url end in the API's path, such as /v1?"
        )
    for event in reader.whole(answer):
        emit(event)
