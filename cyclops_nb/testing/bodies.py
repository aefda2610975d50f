"""How a script says HTTP errors, recorded streams and other answers that are no assistant message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Literal

from cyclops_nb.errors import ConfigError
from cyclops_nb.testing.pieces import Failure, Raw

__all__ = ["error", "raw", "replay"]


def error(
    status: int,
    message: str,
    *,
    code: str | None = None,
    type: str | None = None,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Failure:
    """Answer with an HTTP error.

    Parameters
    ----------
    status : int
        The HTTP status, 400 to 599.
    message : str
        What the server says.
    code, type, param : str, optional
        The other fields of OpenAI's error JSON; the type follows from the status if it is not given.
    headers : mapping, optional
        More headers, such as ``{"Retry-After": "1"}``. The openai client tries again after 408, 409, 429 and
        5xx; ``{"x-should-retry": "false"}`` tells it not to, ``{"retry-after-ms": "1"}`` to do so at once.

    Returns
    -------
    Failure
        For a script.

    Raises
    ------
    ConfigError
        If the status is no error status.

    Examples
    --------
    >>> from cyclops_nb.testing import error
    >>> answer = error(429, "Rate limit reached", code="rate_limit_exceeded", headers={"retry-after-ms": "1"})
    """
    if status not in range(400, 600):
        raise ConfigError(f"error() takes an HTTP status from 400 to 599, not {status!r}")
    if type is None:
        usual = "invalid_request_error" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "server_error"
        type = "rate_limit_error" if status == HTTPStatus.TOO_MANY_REQUESTS else usual  # noqa: A001
    return Failure(status, message, type, code, param, _headers(headers))


def raw(
    body: bytes,
    *,
    content_type: str = "text/event-stream",
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    split: int | None = None,
) -> Raw:
    """Answer with bytes as they stand, to streaming and other requests alike.

    Parameters
    ----------
    body : bytes
        The body of the HTTP answer.
    content_type : str
        Its media type.
    status : int
        The HTTP status.
    headers : mapping, optional
        More headers.
    split : int, optional
        Bytes in each HTTP chunk, which is what a client reads at once at most; the whole body if not given.

    Returns
    -------
    Raw
        For a script.

    Raises
    ------
    ConfigError
        If ``split`` is less than 1.

    Examples
    --------
    >>> from cyclops_nb.testing import raw
    >>> answer = raw(b"<h1>Bad gateway</h1>", content_type="text/html", status=502)
    """
    if split is not None and split < 1:
        raise ConfigError(f"split is a number of bytes, 1 or more, not {split!r}")
    return Raw(body, content_type, status, _headers(headers), split)


def replay(
    path: str | Path,
    *,
    split: int | None = None,
    newline: Literal["\n", "\r\n", "\r"] = "\n",
    bom: bool = False,
    space: bool = True,
) -> Raw:
    r"""Answer with a recorded event stream.

    Parameters
    ----------
    path : str or Path
        A file that holds the body of such an answer.
    split : int, optional
        Bytes in each HTTP chunk, which is what a client reads at once at most; 1 takes every character apart.
    newline : str
        What ends the lines: ``"\n"``, ``"\r\n"`` or ``"\r"``.
    bom : bool
        Whether a byte order mark stands before the first line.
    space : bool
        Whether the blank after the colon of a field is sent.

    Returns
    -------
    Raw
        For a script.

    Raises
    ------
    ConfigError
        If the file cannot be read, or ``newline`` is none of the three.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from cyclops_nb.testing import replay
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "answer.sse")
    ...     _ = file.write_bytes(b"data: [DONE]\n\n")
    ...     answer = replay(file, newline="\r\n", space=False)
    >>> answer.body
    b'data:[DONE]\r\n\r\n'
    """
    if newline not in {"\n", "\r\n", "\r"}:
        raise ConfigError(f"newline is '\\n', '\\r\\n' or '\\r', not {newline!r}")
    try:
        body = Path(path).read_bytes()
    except OSError as problem:
        raise ConfigError(f"the recorded answer {str(path)!r} cannot be read: {problem.strerror}") from problem
    if not space:
        body = re.sub(rb"^(\w+): ", rb"\1:", body, flags=re.MULTILINE)
    if newline != "\n":
        body = body.replace(b"\r\n", b"\n").replace(b"\n", newline.encode())
    return raw((b"\xef\xbb\xbf" if bom else b"") + body, split=split)


def _headers(headers: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    for name, value in (headers or {}).items():
        if not (re.fullmatch(r"[\w!#$%&'*+.^`|~-]+", name, re.ASCII) and re.fullmatch(r"[\t -~\xa0-\xff]*", value)):
            raise ConfigError(f"{name!r}: {value!r} cannot be sent as an HTTP header")
    return tuple((headers or {}).items())
