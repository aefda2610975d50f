"""The HTTP of the scripted server, byte by byte."""

import contextlib
import json
import socket

import pytest
from scripted_client import address

from cyclops_nb.testing import ScriptedServer, reply, text, tool_call

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}).encode()


def request(body=BODY, *, headers=()):
    """Make the bytes of a request."""
    lines = ["POST /v1/chat/completions HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@pytest.fixture
def server():
    """Run a server whose answers tell how many there were."""
    count = iter(range(1000))
    with ScriptedServer(lambda _: text(f"answer-{next(count)}")) as running:
        yield running


@pytest.fixture
def connection(server):
    """Connect to the server without any HTTP."""
    with contextlib.closing(socket.create_connection(address(server), timeout=10)) as connected:
        yield connected


def read_until(connection, marker):
    """Read up to a marker that the answer has."""
    received = b""
    while marker not in received:
        data = connection.recv(65536)
        assert data, received
        received += data
    return received


def read_all(connection):
    """Read until the server closes the connection."""
    received = b""
    while data := connection.recv(65536):
        received += data
    return received


class TestConnection:
    def test_requests_in_pieces_are_put_together(self, connection):
        """A request that comes byte by byte is one request."""
        for byte in request():
            connection.sendall(bytes([byte]))
        assert b"answer-0" in read_until(connection, b"answer-0")

    def test_requests_at_once_are_answered_in_order(self, connection, server):
        """Requests that come in one piece are answered one after the other."""
        connection.sendall(request() * 3)
        received = read_until(connection, b"answer-2")
        assert received.index(b"answer-0") < received.index(b"answer-1") < received.index(b"answer-2")
        assert server.open_connections == 1

    def test_the_length_of_a_body_is_given(self, connection):
        """The body of an answer is as long as its head says."""
        connection.sendall(request(headers=["Connection: close"]))
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert f"content-length: {len(body)}".encode() in head

    def test_a_stream_is_one_chunk_with_an_end(self, connection):
        """A stream without pauses is one HTTP chunk, then the end of the body."""
        body = json.dumps({**json.loads(BODY), "stream": True}).encode()
        connection.sendall(request(body, headers=["Connection: close"]))
        head, _, chunked = read_all(connection).partition(b"\r\n\r\n")
        size, _, rest = chunked.partition(b"\r\n")
        assert b"transfer-encoding: chunked" in head
        assert rest[int(size, 16) :] == b"\r\n0\r\n\r\n"

    def test_a_client_may_ask_before_it_sends_the_body(self, connection):
        """A client that expects a word before it sends a large body gets it."""
        whole = request(headers=["Expect: 100-continue"])
        connection.sendall(whole[: -len(BODY)])
        assert read_until(connection, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(BODY)
        read_until(connection, b"answer-0")

    def test_a_large_body_is_taken(self, connection, server):
        """Megabytes of pictures are no problem."""
        content = "x" * 5_000_000
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": content}]}).encode()
        connection.sendall(request(body))
        read_until(connection, b"answer-0")
        assert server.requests[0].messages[0]["content"] == content

    def test_an_answer_larger_than_the_buffers_arrives(self):
        """A client that reads slowly gets all of a large answer."""
        with ScriptedServer(reply(text("x" * 10_000_000), tool_call("f")), strict=False) as server:
            with contextlib.closing(socket.create_connection(address(server), timeout=10)) as connection:
                connection.sendall(request(headers=["Connection: close"]))
                server_side = read_until(connection, b"\r\n\r\n")
                assert len(server_side + read_all(connection)) > 10_000_000

    def test_a_client_that_does_not_read_is_let_go(self):
        """A server whose client never reads a large answer still stops, and sees it leave."""
        with ScriptedServer(text("x" * 15_000_000)) as server:
            with contextlib.closing(socket.create_connection(address(server), timeout=10)) as connection:
                connection.sendall(request())
                read_until(connection, b"HTTP/1.1 200 OK")
            server.wait_idle()
            server.wait_disconnected()
            with contextlib.closing(socket.create_connection(address(server), timeout=10)) as connection:
                connection.sendall(request())
                read_until(connection, b"HTTP/1.1 200 OK")
                server.stop()


class TestWhatIsNotSpoken:
    @pytest.mark.parametrize(
        ("sent", "status", "message"),
        [
            (b"hello\r\n\r\n", 400, b"'hello' is no HTTP request line"),
            (b"GET / HTTP/1.0\r\n\r\n", 505, b"only HTTP/1.1 is spoken"),
            (b"GET / HTTP/1.1\r\nno header\r\n\r\n", 400, b"'no header' is no header"),
            (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, b"'-1' is no Content-Length"),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411, b"must come with a Content-Length"),
            (b"GET / HTTP/1.1\r\nA: " + b"x" * 700_000, 431, b"the headers are too long"),
        ],
    )
    def test_it_is_told_and_the_connection_closed(self, connection, server, sent, status, message):
        """What is no request that the server reads gets an error with a reason, and no more is read."""
        connection.sendall(sent)
        received = read_all(connection)
        assert received.startswith(f"HTTP/1.1 {status} ".encode())
        assert message in received
        assert server.requests == []

    def test_a_client_that_leaves_in_the_middle_is_forgotten(self, connection, server):
        """Half a request leaves nothing behind."""
        connection.sendall(request()[:-5])
        connection.close()
        server.wait_disconnected()
        assert server.requests == []
