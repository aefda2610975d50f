"""A folder that has a file for each session: which names mean what.

``<id><suffix>`` is a session. ``<id>.backup-<n><suffix>`` is an older conversation whose id was taken by another one;
an id has no dot, so the two cannot meet, and renaming a backup to ``<id><suffix>`` brings it back. Anything else is
not ours and left alone.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cyclops_nb.errors import InputError
from cyclops_nb.stores.files import TEMPORARY, names_in
from cyclops_nb.stores.ids import check_id, is_id

__all__ = ["Entry", "SessionFolder"]

_STALE = 3600.0
"""Seconds after which a temporary file is taken for what a crash left, and not for one that is being written."""


class Entry(NamedTuple):
    """A session file in a folder."""

    session_id: str
    path: Path
    backup: bool


class SessionFolder:
    """The session files of one folder.

    Parameters
    ----------
    directory : str or path
        The folder; made when a session is first saved. A relative one stays where it was if the program changes its
        working directory.
    suffix : str
        What the files' names end with, such as ``".jsonl"``.
    """

    def __init__(self, directory: str | os.PathLike[str], suffix: str) -> None:
        self.directory = Path(directory).expanduser().absolute()
        self.suffix = suffix
        name = rf"([A-Za-z0-9_-]+)(\.backup-[0-9]+)?{re.escape(suffix)}"
        self._name = re.compile(name)
        self._temporary = re.compile(rf"\.{name}\.[0-9a-f]+{re.escape(TEMPORARY)}")
        self._cleared = False

    def path(self, session_id: str) -> Path:
        """Return the path of a session's file, whether it exists or not."""
        return self.directory / f"{check_id(session_id)}{self.suffix}"

    def free_backup(self, session_id: str) -> Path:
        """Return the first path for a backup that is not taken."""
        names = (f"{session_id}.backup-{number}{self.suffix}" for number in itertools.count(1))
        return next(path for name in names if not os.path.lexists(path := self.directory / name))

    def make(self) -> None:
        """Make the folder if it is not there; the first time, clear away what crashes left in it.

        Raises
        ------
        NotADirectoryError
            If a file stands there.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(self.directory)) from None
        if self._cleared:
            return
        self._cleared = True
        for name in names_in(self.directory):
            if self._temporary.fullmatch(name):
                _remove_if_stale(self.directory / name)

    def refuse_case_clash(self, session_id: str) -> None:
        """Raise `InputError` if there is a session whose id differs by case alone: not every disk can hold both."""
        wanted = self.path(session_id).name
        for name in names_in(self.directory):
            if name.lower() == wanted.lower() and name != wanted:
                raise InputError(
                    f"session {session_id!r} cannot be saved: {str(self.directory)!r} has {name!r} already, which "
                    "differs by case alone, and many disks cannot hold both; take another id"
                )

    def entries(self) -> Iterator[Entry]:
        """Yield what is named like a session file, backups included, in no order; nothing if there is no folder."""
        try:
            names = names_in(self.directory)
        except FileNotFoundError:
            return
        for name in names:
            match = self._name.fullmatch(name)
            if match is not None and is_id(match[1]):
                yield Entry(match[1], self.directory / name, match[2] is not None)


def _remove_if_stale(path: Path) -> None:
    with contextlib.suppress(OSError):  # its writer was done with it, or it is another user's
        if time.time() - path.stat().st_mtime > _STALE:
            path.unlink()
