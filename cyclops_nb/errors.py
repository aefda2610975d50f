"""Everything that cyclops_nb raises on purpose.

::

    CyclopsError
    ├── ConfigError            a setting is wrong (a ValueError too)
    ├── InputError             what was given to a run cannot be sent (a ValueError too)
    ├── TranscriptError        a transcript would be, or is, invalid (a ValueError too)
    ├── SessionBusyError       the session is already in a run
    ├── SessionConflictError   someone else changed the stored session
    ├── SessionNotFoundError   no session is stored under that id
    ├── SessionFormatError     stored data is not a session this version reads
    ├── MaxIterationsError     the model still calls tools after the last allowed step
    ├── OutputError            the answer does not fit the asked-for type
    ├── MissingExtraError      an optional package is missing (an ImportError too)
    └── ModelError             the server refused, failed, or answered nonsense
        ├── ModelConnectionError   the server cannot be reached
        ├── ModelTimeoutError      the server did not answer in time
        ├── RateLimitError         the server said: too many requests, or no credit
        └── ContextOverflowError   the request is longer than the model's context window
"""

from __future__ import annotations

__all__ = [
    "ConfigError",
    "ContextOverflowError",
    "CyclopsError",
    "InputError",
    "MaxIterationsError",
    "MissingExtraError",
    "ModelConnectionError",
    "ModelError",
    "ModelTimeoutError",
    "OutputError",
    "RateLimitError",
    "SessionBusyError",
    "SessionConflictError",
    "SessionFormatError",
    "SessionNotFoundError",
    "TranscriptError",
    "error_text",
]


def error_text(error: BaseException) -> str:
    """Return what an error says; nothing if even asking it fails.

    Examples
    --------
    >>> error_text(ValueError("too long"))
    'too long'
    """
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - its class is all that can be said of it
        return ""


class CyclopsError(Exception):
    """Base of all errors of this library."""


class ConfigError(CyclopsError, ValueError):
    """A setting is wrong, unknown or missing."""


class InputError(CyclopsError, ValueError):
    """What was given to a run cannot be sent to a model."""


class TranscriptError(CyclopsError, ValueError):
    """A transcript is invalid, or a change would make it so."""


class SessionBusyError(CyclopsError):
    """The session is in a run, and only one run at a time may extend it."""


class SessionConflictError(CyclopsError):
    """The stored session was changed by someone else since this store last saw it."""


class SessionNotFoundError(CyclopsError):
    """Messages were to be added to a session that was never saved."""


class SessionFormatError(CyclopsError):
    """Stored data is damaged, or of a version that this library does not read."""


class MaxIterationsError(CyclopsError):
    """The model still asked for tools when the last allowed step was done."""


class OutputError(CyclopsError):
    """The model's answer does not fit the type that was asked for."""


class MissingExtraError(CyclopsError, ImportError):
    """A feature needs packages of an extra that is not installed."""


class ModelError(CyclopsError):
    """A model server refused a request, failed in the middle of an answer, or sent what cannot be read.

    Parameters
    ----------
    message : str
        What the server said, or what went wrong in reading it.
    status : int, optional
        The HTTP status, where there was an answer.
    host : str, optional
        The server's host name.
    code : str, optional
        The provider's own error code.
    """

    def __init__(
        self, message: str, *, status: int | None = None, host: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.host = host
        self.code = code

    def __str__(self) -> str:
        facts = [f"host {self.host}"] if self.host else []
        if self.status is not None:
            facts.append(f"status {self.status}")
        return f"{self.message} ({', '.join(facts)})" if facts else self.message


class ModelConnectionError(ModelError):
    """The server cannot be reached, or the connection broke."""


class ModelTimeoutError(ModelError):
    """The server did not answer within the timeout."""


class RateLimitError(ModelError):
    """The server refused the request because of a rate limit or a used-up quota."""


class ContextOverflowError(ModelError):
    """The request is longer than the model's context window."""
