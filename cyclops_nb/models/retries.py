"""Tells of the retries that the openai client makes by itself, which nothing would show otherwise.

The client counts them in a header of each request. Hooks of its HTTP client look at that header, and at what came of
the request before: a status, or an error of the connection, which only the trace of the request sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any

from cyclops_nb.events import Place, RequestRetried
from cyclops_nb.models.base import Emit

__all__ = ["telling_retries", "watch_retries"]

_COUNT = "x-stainless-retry-count"
_NO_ANSWER = "connection failed"


class _Watch:
    """The requests of one completion."""

    def __init__(self, emit: Emit, place: Place) -> None:
        self._emit = emit
        self._place = place
        self._reason = _NO_ANSWER

    def sent(self, request: Any) -> None:
        attempt = request.headers.get(_COUNT, "0")
        if attempt.isdigit() and int(attempt):
            self._emit(RequestRetried(attempt=int(attempt), reason=self._reason, **self._place))
        self._reason = _NO_ANSWER
        request.extensions = {"trace": self._trace, **request.extensions}

    def answered(self, status: int) -> None:
        known = status in set(HTTPStatus)
        self._reason = f"{status} {HTTPStatus(status).phrase}" if known else str(status)

    async def _trace(self, name: str, info: dict[str, Any]) -> None:
        if name.endswith(".failed") and "Timeout" in type(info.get("exception")).__name__:
            self._reason = "timed out"


_WATCH: ContextVar[_Watch | None] = ContextVar("cyclops_nb_watch_of_retries", default=None)


@contextmanager
def telling_retries(emit: Emit, place: Place) -> Iterator[None]:
    """Tell `emit` of the retries of what is sent within the block."""
    token = _WATCH.set(_Watch(emit, place))
    try:
        yield
    finally:
        _WATCH.reset(token)


def watch_retries(client: Any) -> None:
    """Let the HTTP client of an openai client be looked at; requests of others than this library are not."""
    http = client._client  # noqa: SLF001 - there is no public way to it
    hooks = http.event_hooks
    if _request_hook not in hooks["request"]:
        http.event_hooks = {
            "request": [*hooks["request"], _request_hook],
            "response": [*hooks["response"], _response_hook],
        }


async def _request_hook(request: Any) -> None:
    watch = _WATCH.get()
    if watch is not None:
        watch.sent(request)


async def _response_hook(response: Any) -> None:
    watch = _WATCH.get()
    if watch is not None:
        watch.answered(response.status_code)
