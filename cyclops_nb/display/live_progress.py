"""What is known of a run that goes on, brought up to date at most 20 times a second: what every view of a run follows.

What is sent to a front end is bounded by the pause before the next update, which grows with what the last ones came to.
The end of a run is no update: whoever follows a run shows what came of it in another way.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from cyclops_nb.display.capture import begin_capture, end_capture
from cyclops_nb.display.live_state import LiveState
from cyclops_nb.displayable import has_kernel
from cyclops_nb.events import Compacted
from cyclops_nb.handle import RunHandle

__all__ = ["LiveProgress"]

_LEAST_PAUSE = 0.05
_LONGEST_PAUSE = 0.5
_BYTES_AT_ONCE = 16_000
_BYTES_PER_SECOND = 5_000
"""What the updates of a run may come to: when they come to more, the next one comes later."""
_CLOCK_SECONDS = 0.5
"""Until the next look when the run has told nothing: time passes, and tools print."""


class LiveProgress:
    """A run and what is to be seen of it; what its tools show to the reader is collected in a kernel.

    Parameters
    ----------
    handle : RunHandle
        The run.
    """

    def __init__(self, handle: RunHandle) -> None:
        self.handle = handle
        self.state = LiveState(begin_capture(handle.id) if has_kernel() else None)
        """What is to be seen, as of the last update."""
        self._taken = 0
        """How many events the state knows."""
        self._started = time.monotonic()
        self._woken = threading.Event()

    def wake(self) -> None:
        """Have the next update come at once, from whatever thread; for what changes beside the run."""
        self._woken.set()

    def follow(self, show: Callable[[LiveState, float], int]) -> None:
        """Wait until the run is over, and show it meanwhile.

        Parameters
        ----------
        show : callable
            Called on this thread for each update, with the state and the seconds since the run was first seen; returns
            about how many bytes it has sent. What it raises ends the waiting.
        """
        sent = 0
        with self.handle.listener(self._woken.set):
            while not self.handle.done:
                self._take_events()
                elapsed = time.monotonic() - self._started
                sent += show(self.state, elapsed)
                too_much = sent - _BYTES_AT_ONCE - elapsed * _BYTES_PER_SECOND
                with contextlib.suppress(TimeoutError):
                    self.handle.result(min(max(_LEAST_PAUSE, too_much / _BYTES_PER_SECOND), _LONGEST_PAUSE))
                self._woken.wait(_CLOCK_SECONDS)
                self._woken.clear()
            self._take_events()

    def end(self) -> None:
        """Stop collecting what tools show; called once, when the run is over."""
        end_capture(self.handle.id)

    def _take_events(self) -> None:
        while (event := self.handle.event(self._taken)) is not None:
            if not self._taken:
                self.state.add_input(self.handle.input)
            if not self._taken or isinstance(event, Compacted):
                self.state.start = self.handle.start
            self.state.add(event)
            self._taken += 1
