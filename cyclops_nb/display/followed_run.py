"""A run that goes on, as widgets that can stand in others."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from cyclops_nb.display.live_progress import LiveProgress
from cyclops_nb.display.live_state import LiveState
from cyclops_nb.display.live_widgets import LiveWidgets
from cyclops_nb.handle import RunHandle

__all__ = ["FollowedRun"]


class FollowedRun:
    """A run that is shown while it goes on.

    Parameters
    ----------
    handle : RunHandle
        The run.
    ended : callable
        Called when it is over.
    """

    def __init__(self, handle: RunHandle, ended: Callable[[], None]) -> None:
        self._progress = LiveProgress(handle)
        self._ended = ended
        self._widgets = LiveWidgets(handle.cancel, self._progress.wake)
        self.box = self._widgets.box
        threading.Thread(target=self._follow, name="cyclops_nb explorer view", daemon=True).start()

    def _follow(self) -> None:
        with contextlib.suppress(Exception):  # what cannot be shown while it goes on is shown when it is over
            self._progress.follow(self._show)
        self._progress.handle.result()
        self._progress.end()
        self._ended()

    def _show(self, state: LiveState, elapsed: float) -> int:
        return self._widgets.show(state, elapsed)

    def close(self) -> None:
        """Remove its widgets."""
        self._widgets.close()
