"""From what goes wrong between client and server to our errors, so that nothing of the HTTP library shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cyclops_nb.errors import (
    ContextOverflowError,
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
    RateLimitError,
)
from cyclops_nb.models.base import Endpoint
from cyclops_nb.models.reading import read_error

if TYPE_CHECKING:
    import openai

__all__ = [
    "broken_connection",
    "from_status",
    "innermost",
    "is_unsendable",
    "sharpened",
    "unreachable",
    "was_not_connected",
]

_OVERFLOW_CODES = {"context_length_exceeded", "exceed_context_size_error", "request_too_large"}
_TOO_LARGE = 413
_OVERFLOW = re.compile(
    r"""
    maximum\ context\ length\ is
    | (exceed|overflow|longer\ than|larger\ than|too\ (long|large)).{0,80}\b(context|window)\b
    | \b(context|window)\b.{0,80}\b(exceed|overflow|(is|was)\ (full|too\ small))
    | (prompt|input|request|conversation)\ (is\ )?too\ (long|large)
    | (input|prompt)\ (token\ count|tokens|length).{0,80}exceed
    | exceed.{0,40}\b(maximum|model|input|prompt)\b.{0,40}\b(tokens?|length)\b
    | maximum\ (prompt|input)\ (length|tokens?)
    | too\ many\ (input\ |prompt\ )?tokens
    | reduce\ the\ length\ of\ the\ (messages|prompt|input)
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
"""In how many ways servers say that a request is longer than the context window."""
_ABOUT_A_VALUE = re.compile(r"\b(must|should)\ be\b|\binvalid\b.{0,20}\b(parameter|value)", re.IGNORECASE)
"""What servers say of settings; a shorter conversation would not help."""
_BUSY_CODES = {"429", "rate_limit_exceeded", "rate_limit_error", "insufficient_quota"}
_NOT_CONNECTED = {"ConnectError", "ConnectTimeout"}
"""What the HTTP library calls it when no connection came about, so that nothing can have been consumed."""


def from_status(error: openai.APIStatusError, host: str) -> ModelError:
    """Return our error for a refusal, with the server's own words."""
    said = read_error(error.body) if error.body else ModelError(error.message)
    text = said.message
    kind: type[ModelError] = ModelError
    if error.response.is_redirect:
        target = error.response.headers.get("location", "elsewhere")
        text = f"the server redirects to {target!r}, which is not followed, as keys would go along: set base_url to it"
    if error.status_code == _TOO_LARGE or _is_overflow(text, said.code):
        kind = ContextOverflowError
    elif error.status_code == 429:  # noqa: PLR2004 - Too Many Requests
        kind = RateLimitError
    elif error.status_code in {408, 504}:
        kind = ModelTimeoutError
    return kind(text, status=error.status_code, host=host, code=said.code)


def sharpened(error: ModelError) -> ModelError:
    """Return the error of a stream as its more exact class."""
    if type(error) is not ModelError:
        return error
    kind: type[ModelError] = ModelError
    if _is_overflow(error.message, error.code):
        kind = ContextOverflowError
    elif error.code in _BUSY_CODES:
        kind = RateLimitError
    return kind(error.message, status=error.status, host=error.host, code=error.code)


def unreachable(error: openai.APIConnectionError, endpoint: Endpoint, timeout: Any) -> ModelError:
    """Return our error for a request that got no answer."""
    import openai

    host, address = endpoint.host, endpoint.base_url
    if type(error.__cause__).__name__ == "ConnectTimeout":
        return ModelTimeoutError(f"cannot connect to {address} within {_seconds(timeout, 'connect')} s", host=host)
    if isinstance(error, openai.APITimeoutError):
        return ModelTimeoutError(f"no answer within the timeout of {_seconds(timeout, 'read')} s", host=host)
    if is_unsendable(error.__cause__):
        return ModelError(f"the request cannot be sent: {innermost(error.__cause__)}", host=host)
    reason = error.__cause__ or error
    said = str(reason) or type(reason).__name__
    return ModelConnectionError(
        f"cannot reach {address}: {said}; is the server running, and base_url right?", host=host
    )


def broken_connection(error: Exception, host: str) -> ModelError:
    """Return our error for an answer that broke off."""
    if "timeout" in type(error).__name__.lower():
        return ModelTimeoutError("the server stopped sending in the middle of the answer", host=host)
    reason = str(error) or type(error).__name__
    return ModelConnectionError(f"the connection broke in the middle of the answer: {reason}", host=host)


def was_not_connected(error: BaseException | None) -> bool:
    """Say whether no connection came about."""
    return type(error).__name__ in _NOT_CONNECTED


def is_unsendable(error: BaseException | None) -> bool:
    """Say whether a header has characters that HTTP does not allow."""
    return isinstance(error, UnicodeError) or type(error).__name__ == "LocalProtocolError"


def innermost(error: BaseException | None) -> str:
    """Return what an error says, but not where it would repeat a header, which may be a key."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if is_unsendable(error):
        return "a header has characters that HTTP does not allow; look at api_key and default_headers"
    return str(error) or type(error).__name__


def _seconds(timeout: Any, phase: str) -> Any:
    return getattr(timeout, phase, timeout)


def _is_overflow(text: str, code: str | None) -> bool:
    if code in _OVERFLOW_CODES:
        return True
    return _OVERFLOW.search(text) is not None and _ABOUT_A_VALUE.search(text) is None
