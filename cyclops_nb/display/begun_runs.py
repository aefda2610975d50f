"""Runs that go on while their beginner does something else, and what is to be done at the end of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from cyclops_nb.handle import RunHandle

__all__ = ["BegunRuns"]


class BegunRuns:
    """Runs by the ids of the sessions that they extend.

    Parameters
    ----------
    ended : callable
        Called once for each run when it is over, with the id of its session, on a thread of its own.
    """

    def __init__(self, ended: Callable[[str], None]) -> None:
        self._ended = ended
        self._going: dict[str, tuple[RunHandle, threading.Thread]] = {}
        self._errors: list[Exception] = []

    def watch(self, owner: str, handle: RunHandle) -> None:
        """Look after a run of a session that is in no other."""
        thread = threading.Thread(target=self._follow, args=(owner, handle), name="cyclops_nb explorer", daemon=True)
        self._going[owner] = (handle, thread)
        thread.start()

    def of(self, owner: str) -> RunHandle | None:
        """Return the run of a session that goes on, or whose end is being looked after; None if there is none."""
        found = self._going.get(owner)
        return None if found is None else found[0]

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all are over, and say whether they are; what failed at their ends is raised."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while going := list(self._going.values()):
            going[0][1].join(None if deadline is None else max(deadline - time.monotonic(), 0))
            if going[0][1].is_alive():
                return False
        if self._errors:
            raise self._errors.pop(0)
        return True

    def _follow(self, owner: str, handle: RunHandle) -> None:
        handle.result()
        try:
            self._ended(owner)
        except Exception as error:  # noqa: BLE001 - raised on the thread that waits
            self._errors.append(error)
        finally:
            if self._going.get(owner, (None,))[0] is handle:
                del self._going[owner]
