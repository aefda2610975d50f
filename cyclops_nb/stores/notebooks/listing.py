"""Lists notebooks of sessions without reading them whole: what there is to tell stands in the last cell."""

from __future__ import annotations

import os
import re
import stat
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from cyclops_nb.stores.base import SessionInfo, first_question, session_info
from cyclops_nb.stores.folder import Entry
from cyclops_nb.stores.notebooks.document import is_foreign
from cyclops_nb.stores.notebooks.foot import SUMMARY
from cyclops_nb.stores.notebooks.layout import front_text
from cyclops_nb.stores.notebooks.reading import read

__all__ = ["info_in"]

_TAILS = (16_384, 262_144)
"""How many bytes of the end are looked at; behind the summary stand a table of runs, and what the user has added."""
_FRONT = re.compile(r"([0-9]{1,15}) [0-9a-f]+")
_KEY = f'"{SUMMARY}"'.encode()


def info_in(entry: Entry) -> SessionInfo | None:
    """Return what there is to tell about the session in a notebook; None if it holds none, or is no regular file.

    Raises
    ------
    SessionFormatError, TranscriptError
        If it had to be read whole, and is damaged or another session's.
    OSError
        If it cannot be read.
    """
    if not stat.S_ISREG(entry.path.stat().st_mode):
        return None  # to open a pipe would be to wait for its writer
    with entry.path.open("rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        info = _at_the_end(file, status.st_size)
    if info is None or info.id != entry.session_id:
        data = entry.path.read_bytes()
        if is_foreign(data):
            return None
        session = read(data, entry.session_id, repr(str(entry.path))).session
        info = session_info(session, len(session.messages), first_question(session.messages))
    updated_at = datetime.fromtimestamp(status.st_mtime, UTC)
    return info.model_copy(update={"updated_at": updated_at, "path": entry.path, "backup": entry.backup})


def _at_the_end(file: Any, size: int) -> SessionInfo | None:
    for length in _TAILS:
        start = max(0, size - length)
        file.seek(start)
        tail = file.read(size - start)
        place = tail.rfind(_KEY)
        if place >= 0:
            return _summary(file, tail, place + len(_KEY), start)
        if not start:
            break
    return None


def _summary(file: Any, tail: bytes, place: int, start: int) -> SessionInfo | None:
    """Return the summary that begins behind `place`; None if the file was changed since, as far as that matters."""
    begin = tail.find(b"{", place)
    end = tail.find(b"}", begin)
    while 0 <= begin < end:
        try:
            data = from_json(tail[begin : end + 1])
            if data.pop("at", None) != start + begin or not _is_front(file, data.pop("front", None)):
                return None
            return SessionInfo.model_validate({"updated_at": 0, **data})
        except ValidationError:
            return None
        except ValueError:  # an object in it ended there
            end = tail.find(b"}", end + 1)
    return None


def _is_front(file: Any, told: Any) -> bool:
    """Whether a file begins as its summary tells."""
    match = _FRONT.fullmatch(told) if isinstance(told, str) else None
    if match is None:
        return False
    file.seek(0)
    return bool(front_text(file.read(int(match[1]))) == told)
