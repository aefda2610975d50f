"""What goes on in the server, kept so that other threads can look at it and wait for it.

The server's own thread writes here, tests read and wait in theirs. One condition guards it all and wakes
those who wait, so that no test has to sleep and look again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cyclops_nb.testing.connection import Connection
from cyclops_nb.testing.http_answers import Answer
from cyclops_nb.testing.recorded import RecordedRequest
from cyclops_nb.testing.service import Service

__all__ = ["Ledger"]


class Ledger:
    """The owner of the connections: notes what they tell, and has the service answer their requests."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._changed = threading.Condition()
        self._requests: list[RecordedRequest] = []
        self._connections: set[Connection] = set()
        self._in_progress = 0

    @property
    def requests(self) -> list[RecordedRequest]:
        """A copy of the list of all requests."""
        with self._changed:
            return list(self._requests)

    @property
    def connections(self) -> list[Connection]:
        """The connections that are open now."""
        with self._changed:
            return list(self._connections)

    def opened(self, connection: Connection) -> None:
        """Note a new connection."""
        with self._change():
            self._connections.add(connection)

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        with self._change():
            self._connections.discard(connection)

    def begin(self, request: RecordedRequest) -> Answer:
        """Note a request and give its answer."""
        with self._change():
            self._requests.append(request)
            self._in_progress += 1
        return self._service.answer(request)

    def finish(self) -> None:
        """Note that a request needs nothing more."""
        with self._change():
            self._in_progress -= 1

    def wait_idle(self, timeout: float) -> None:
        """Block until no request is in progress."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._in_progress == 0, timeout):
                raise TimeoutError(f"requests still being answered after {timeout} s: {self._in_progress}")

    def wait_disconnected(self, timeout: float) -> None:
        """Block until no connection is open."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._connections, timeout):
                raise TimeoutError(f"connections still open after {timeout} s: {len(self._connections)}")

    @contextmanager
    def _change(self) -> Iterator[None]:
        with self._changed:
            yield
            self._changed.notify_all()
