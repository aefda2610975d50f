"""What the server remembers of each request, so that tests can look at what was really sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

__all__ = ["Head", "RecordedRequest", "record"]


@dataclass(frozen=True)
class Head:
    """The request line and the headers."""

    method: str
    target: str
    headers: Mapping[str, str]


@dataclass
class RecordedRequest:
    """A request that a `ScriptedServer` received.

    Examples
    --------
    >>> import urllib.request
    >>> from cyclops_nb.testing import ScriptedServer, text
    >>> with ScriptedServer([text("Hello")], strict=False) as server:
    ...     url = server.base_url + "/chat/completions"
    ...     with urllib.request.urlopen(url, data=b'{"temperature": 0}') as answer:
    ...         _ = answer.read()
    >>> request = server.requests[0]
    >>> request.method, request.path, request.body, request.status
    ('POST', '/v1/chat/completions', {'temperature': 0}, 200)
    """

    method: str
    """``"POST"`` or ``"GET"``, mostly."""

    path: str
    """The path, such as ``"/v1/chat/completions"``, without a query."""

    query: Mapping[str, str]
    """The parameters after a ``?`` in the address."""

    headers: Mapping[str, str]
    """The headers, with names in lower case."""

    raw: bytes
    """The body as it came."""

    body: dict[str, Any]
    """The body as parsed JSON; empty where it is no JSON object."""

    problem: str | None = field(default=None, repr=False)
    """Why the body is not what JSON in UTF-8 allows, or None."""

    status: int | None = None
    """The HTTP status of the answer; None while there is none."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages in the body; empty where there are none."""
        messages = self.body.get("messages")
        return messages if isinstance(messages, list) else []

    @property
    def input(self) -> list[dict[str, Any]]:
        """The input items in the body of a request of the Responses API; empty where there are none."""
        items = self.body.get("input")
        if isinstance(items, str):
            return [{"role": "user", "content": items}]
        return items if isinstance(items, list) else []


def record(head: Head, raw: bytes) -> RecordedRequest:
    """Make the record of a request from its head and body."""
    url = urlsplit(head.target)
    body, problem = _parse(raw)
    return RecordedRequest(head.method, url.path, dict(parse_qsl(url.query)), head.headers, raw, body, problem=problem)


def _parse(raw: bytes) -> tuple[dict[str, Any], str | None]:
    problems: list[str] = []

    def constant(name: str) -> float:
        problems.append(f"{name} is not a JSON number")
        return float(name)

    try:
        body = json.loads(raw.decode(), parse_constant=constant)
    except (ValueError, RecursionError) as error:
        return {}, f"the body is not JSON in UTF-8: {error}"
    if not isinstance(body, dict):
        return {}, "the body is not a JSON object"
    # only an escape can bring half a surrogate pair into a text that was valid UTF-8
    if b"\\u" in raw and not _encodable(body):
        problems.append("a string holds half of a surrogate pair, which is not valid Unicode")
    return body, problems[0] if problems else None


def _encodable(body: dict[str, Any]) -> bool:
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
