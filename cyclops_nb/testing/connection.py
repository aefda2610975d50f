"""HTTP/1.1 on one connection of the scripted server.

This stands on `asyncio.Protocol` and not on streams: a protocol is told at once when the client goes, also
while a reply is held at a gate, and a whole answer is one call of ``write``. Only what the openai client and
plain HTTP tools need is spoken: keep-alive, pipelining, bodies of known length, ``Expect: 100-continue``.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Protocol, cast

from cyclops_nb.testing.gates import Gate
from cyclops_nb.testing.http_answers import Action, Answer
from cyclops_nb.testing.pieces import Cut, Delay, dump
from cyclops_nb.testing.recorded import Head, RecordedRequest, record
from cyclops_nb.testing.wording import refusal

__all__ = ["Connection", "Owner"]

_LONGEST_HEAD = 65_536


class Owner(Protocol):
    """What a connection asks and tells the server."""

    def opened(self, connection: Connection) -> None:
        """Hear of a new connection."""

    def closed(self, connection: Connection) -> None:
        """Hear that a connection is no more."""

    def begin(self, request: RecordedRequest) -> Answer:
        """Hear of a request and say what to answer."""

    def finish(self) -> None:
        """Hear that a request needs nothing more."""


class _BadRequestError(Exception):
    """The bytes that came are no request this server reads; carries status and reason."""


class Connection(asyncio.Protocol):
    """One client's connection: reads requests and sends what the owner answers, one after the other."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._head: Head | None = None
        self._task: asyncio.Task[None] | None = None
        self._gates: list[Gate] = []
        self._drained = asyncio.Event()
        self._drained.set()
        self._closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; its buffer limit of 0 makes it say when all has been handed to the system."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        """Collect bytes; a request that comes while another is answered waits its turn."""
        if self._closing:
            return
        self._buffer += data
        if self._task is None:
            self._read()

    def pause_writing(self) -> None:
        """Note that bytes wait to be sent."""
        self._drained.clear()

    def resume_writing(self) -> None:
        """Note that all bytes have been sent."""
        self._drained.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the base class's signature
        """Stop what is under way; a client that left first is made known to the gates of its reply."""
        if self._task is not None:
            if not self._closing:
                for gate in self._gates:
                    gate.mark_client_gone()
            self._task.cancel()
        self._closing = True
        # asyncio closes the socket when this returns; who waits for the end then finds it closed
        self._loop.call_soon(self._owner.closed, self)

    def stop(self) -> None:
        """Close the connection from the server's side, whatever is under way."""
        self._closing = True
        self._transport.abort()

    def _read(self) -> None:
        """Take the next whole request from the buffer, if there is one."""
        if self._closing:
            return
        try:
            if self._head is None:
                self._head = self._take_head()
            if self._head is None:
                return
            length = int(self._head.headers.get("content-length", "0"))
        except _BadRequestError as problem:
            self._refuse(*problem.args)
            return
        if len(self._buffer) < length:
            return
        request = record(self._head, bytes(self._buffer[:length]))
        del self._buffer[:length]
        self._head = None
        self._task = self._loop.create_task(self._answer(request))
        self._task.add_done_callback(self._answered)

    def _take_head(self) -> Head | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _LONGEST_HEAD:
                raise _BadRequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long")
            return None
        head = _parse_head(bytes(self._buffer[:end]))
        del self._buffer[: end + 4]
        if head.headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return head

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        body = dump(refusal(reason).body)
        answer = Answer(status, (("content-type", "application/json"), ("connection", "close")), (body,))
        self._transport.write(_head_of(answer) + body)
        # closing with bytes unread would reset the connection, and the client could lose the reason
        self._transport.write_eof()
        self._closing = True

    async def _answer(self, request: RecordedRequest) -> None:
        try:
            answer = self._owner.begin(request)
            self._gates = [action for action in answer.actions if isinstance(action, Gate)]
            await self._send(request, answer)
        finally:
            self._owner.finish()

    async def _send(self, request: RecordedRequest, answer: Answer) -> None:
        pending: list[bytes] = []
        for action in answer.actions:
            if isinstance(action, bytes):
                pending.append(b"%x\r\n%b\r\n" % (len(action), action) if answer.chunked else action)
                continue
            self._write(request, answer, pending)
            await self._drained.wait()
            await self._wait_for(action)
            if self._closing:
                return
        if request.status is None:
            pending.insert(0, b"")
        if answer.chunked:
            pending.append(b"0\r\n\r\n")
        self._write(request, answer, pending)
        await self._drained.wait()
        if request.headers.get("connection", "").lower() == "close":
            self._closing = True
            self._transport.close()

    def _write(self, request: RecordedRequest, answer: Answer, pending: list[bytes]) -> None:
        """Send what is pending, with the head before the first of it; the head alone is never sent."""
        if not pending:
            return
        if request.status is None:
            request.status = answer.status
            pending.insert(0, _head_of(answer))
        self._transport.write(b"".join(pending))
        pending.clear()

    async def _wait_for(self, action: Action) -> None:
        match action:
            case Delay():
                await asyncio.sleep(action.seconds)
            case Gate():
                await action.hold()
            case Cut():
                self.stop()

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._task = None
        self._gates = []
        if task.cancelled():
            return
        if (problem := task.exception()) is not None:
            facts = {"message": "the scripted server failed", "exception": problem, "task": task}
            self._loop.call_exception_handler(facts)
            self.stop()
            return
        self._read()


def _parse_head(head: bytes) -> Head:
    request_line, *lines = head.decode("latin-1").split("\r\n")
    words = request_line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/"):  # noqa: PLR2004 - method, target, version
        raise _BadRequestError(HTTPStatus.BAD_REQUEST, f"{request_line[:100]!r} is no HTTP request line")
    if words[2] != "HTTP/1.1":
        raise _BadRequestError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, f"only HTTP/1.1 is spoken, not {words[2]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise _BadRequestError(HTTPStatus.BAD_REQUEST, f"{line[:100]!r} is no header")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if "transfer-encoding" in headers:
        raise _BadRequestError(HTTPStatus.LENGTH_REQUIRED, "the request's body must come with a Content-Length")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise _BadRequestError(HTTPStatus.BAD_REQUEST, f"{length!r} is no Content-Length")
    return Head(words[0], words[1], headers)


def _head_of(answer: Answer) -> bytes:
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = "Unknown"
    lines = [f"HTTP/1.1 {answer.status} {phrase}", *(f"{name}: {value}" for name, value in answer.headers)]
    if answer.chunked:
        lines.append("transfer-encoding: chunked")
    else:
        size = sum(len(action) for action in answer.actions if isinstance(action, bytes))
        lines.append(f"content-length: {size}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
