"""Chat Completions over the openai client.

The client does what it is good at: keys, retries, timeouts, error statuses. The stream is read from its raw response,
because a validated object for each chunk makes reading several times slower and drops fields it does not know.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from cyclops_nb.errors import (
    ContextOverflowError,
    CyclopsError,
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
    RateLimitError,
)
from cyclops_nb.models.base import Completion, Emit, Endpoint, ModelRequest
from cyclops_nb.models.clients import ClientPool
from cyclops_nb.models.payload import chat_payload
from cyclops_nb.models.wire import ChatReader, parse_json, read_error

if TYPE_CHECKING:
    import openai
    from openai import AsyncOpenAI

__all__ = ["ChatModel"]

_OPTIONAL = ("stream_options",)
"""Fields that a server may refuse by name, and that shape no answer: a setting of the user's is never dropped."""
_OVERFLOW_WORDS = ("context_length", "context length", "context size", "context window", "maximum context")
_NOT_CONNECTED = {"ConnectError", "ConnectTimeout"}
"""What the HTTP library calls it when no connection came about, so that nothing can have been consumed."""
_DRAIN_SECONDS = 1.0


class ChatModel:
    """A model behind ``/chat/completions``."""

    def __init__(self, endpoint: Endpoint, clients: ClientPool) -> None:
        self._endpoint = endpoint
        self._clients = clients
        self._refused: set[str] = set()

    @property
    def endpoint(self) -> Endpoint:
        """The server that is asked."""
        return self._endpoint

    async def context_window(self) -> int | None:
        """Return the model's context window in tokens as its server tells it; None if it does not."""
        return None

    async def complete(self, request: ModelRequest, completion: Completion, emit: Emit) -> None:
        """Ask, and read the answer into `completion`, telling `emit` of each delta."""
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
        payload = chat_payload(request, self._endpoint)
        response = await self._post(client, payload, completion)
        chunks = response.iter_bytes()
        try:
            await _read(chunks, ChatReader(completion, request.run_id, request.step), emit)
        except ModelError as error:
            error.host = self._endpoint.host
            raise _sharpened(error) from error.__cause__
        except CyclopsError:
            raise
        except Exception as error:  # noqa: BLE001 - the HTTP library's own errors must not show
            raise _broken_connection(error, self._endpoint.host) from None
        finally:
            await response.close()
            await _unwind(chunks)

    async def _post(
        self, client: AsyncOpenAI, payload: dict[str, Any], completion: Completion
    ) -> openai.AsyncAPIResponse[object]:
        """Send the request; what the server refuses by name is left out and remembered."""
        import openai

        while True:
            body = {name: value for name, value in payload.items() if name not in self._refused}
            try:
                return await client.post(
                    "/chat/completions",
                    cast_to=openai.AsyncAPIResponse[object],
                    body=body,
                    options={
                        "headers": self._clients.headers(self._endpoint),
                        # headers with keys would go along to wherever the server points
                        "follow_redirects": False,
                    },
                )
            except openai.APIStatusError as error:
                refused = _refused_field(error, body)
                if refused is None:
                    completion.refused = True
                    raise _from_status(error, self._endpoint.host) from error
                self._refused.add(refused)
            except openai.APIConnectionError as error:
                is_unsendable = _is_bad_header(error.__cause__)
                completion.refused = is_unsendable or type(error.__cause__).__name__ in _NOT_CONNECTED
                raise self._unreachable(error, client.timeout) from (None if is_unsendable else error)
            except Exception as error:  # noqa: BLE001 - of the libraries below the client: addresses, headers
                completion.refused = _is_bad_header(error) or type(error).__name__ == "InvalidURL"
                raise ModelError(f"the request cannot be sent: {_innermost(error)}", host=self._endpoint.host) from None

    def _unreachable(self, error: openai.APIConnectionError, timeout: Any) -> ModelError:
        """Return our error for a request that got no answer."""
        import openai

        host, address = self._endpoint.host, self._endpoint.base_url
        if type(error.__cause__).__name__ == "ConnectTimeout":
            return ModelTimeoutError(f"cannot connect to {address} within {_seconds(timeout, 'connect')} s", host=host)
        if isinstance(error, openai.APITimeoutError):
            return ModelTimeoutError(f"no answer within the timeout of {_seconds(timeout, 'read')} s", host=host)
        if _is_bad_header(error.__cause__):
            return ModelError(f"the request cannot be sent: {_innermost(error.__cause__)}", host=host)
        reason = error.__cause__ or error
        said = str(reason) or type(reason).__name__
        return ModelConnectionError(
            f"cannot reach {address}: {said}; is the server running, and base_url right?", host=host
        )


async def _read(chunks: AsyncIterator[bytes], reader: ChatReader, emit: Emit) -> None:
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


async def _read_body(head: bytes, chunks: AsyncIterator[bytes], reader: ChatReader, emit: Emit) -> None:
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


def _seconds(timeout: Any, phase: str) -> Any:
    return getattr(timeout, phase, timeout)


def _is_bad_header(error: BaseException | None) -> bool:
    return isinstance(error, UnicodeError) or type(error).__name__ == "LocalProtocolError"


def _innermost(error: BaseException | None) -> str:
    """Return what an error says, but not where it would repeat a header, which may be a key."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if _is_bad_header(error):
        return "a header has characters that HTTP does not allow; look at api_key and default_headers"
    return str(error) or type(error).__name__


def _refused_field(error: openai.APIStatusError, body: dict[str, Any]) -> str | None:
    if error.status_code not in {400, 422}:
        return None
    text = str(error.message)
    return next((name for name in _OPTIONAL if name in body and name in text), None)


def _from_status(error: openai.APIStatusError, host: str) -> ModelError:
    """Return our error for a refusal, with the server's own words."""
    said = read_error(error.body) if error.body else ModelError(error.message)
    text = said.message
    kind: type[ModelError] = ModelError
    if error.response.is_redirect:
        target = error.response.headers.get("location", "elsewhere")
        text = f"the server redirects to {target!r}, which is not followed, as keys would go along: set base_url to it"
    if _is_overflow(text, said.code):
        kind = ContextOverflowError
    elif error.status_code == 429:  # noqa: PLR2004 - Too Many Requests
        kind = RateLimitError
    elif error.status_code in {408, 504}:
        kind = ModelTimeoutError
    return kind(text, status=error.status_code, host=host, code=said.code)


def _is_overflow(text: str, code: str | None) -> bool:
    return any(words in f"{code or ''} {text}".lower() for words in _OVERFLOW_WORDS)


def _sharpened(error: ModelError) -> ModelError:
    """Return the error of a stream as its more exact class."""
    if type(error) is ModelError and _is_overflow(error.message, error.code):
        return ContextOverflowError(error.message, status=error.status, host=error.host, code=error.code)
    return error


def _broken_connection(error: Exception, host: str) -> ModelError:
    if "timeout" in type(error).__name__.lower():
        return ModelTimeoutError("the server stopped sending in the middle of the answer", host=host)
    reason = str(error) or type(error).__name__
    return ModelConnectionError(f"the connection broke in the middle of the answer: {reason}", host=host)
