"""What a list tells about a session, at the end of each stored line: a summary as of that line.

So a list reads some kilobytes of each file, however long the conversation is. A summary says at which byte it stands.
Behind an edit by hand that is another one, as a rule, and then the summary is not believed. Nor is there one behind a
torn line, or in the files of other programs. Whoever lists reads such files whole.
"""

from __future__ import annotations

from pydantic import ValidationError
from pydantic_core import from_json

from cyclops_nb.session import STORES_FIELD
from cyclops_nb.stores.base import SessionInfo

__all__ = ["TAIL_BYTES", "read_summary", "with_summary"]

TAIL_BYTES = 4096
"""Where to look for a summary: longer ones have a title that nobody can read in a list."""

_START = f',"{STORES_FIELD}":{{"at":'.encode()
_OF_THE_FILE = {"updated_at", "path", "backup"}


def with_summary(line: bytes, info: SessionInfo, start: int) -> bytes:
    """Return a line, which is an object and a line feed, with `info` at its end.

    Parameters
    ----------
    line : bytes
        The line.
    info : SessionInfo
        What to tell.
    start : int
        The byte of the file at which the line starts.
    """
    body = line.removesuffix(b"}\n")
    told = info.model_dump_json(exclude=_OF_THE_FILE).encode()
    return b"%b%b%d,%b}\n" % (body, _START, start + len(body), told[1:])


def read_summary(tail: bytes, size: int) -> SessionInfo | None:
    """Return the summary at the end of stored lines; None if there is none, or what stands before it was changed.

    Parameters
    ----------
    tail : bytes
        The last bytes of the lines.
    size : int
        How many bytes the lines have.
    """
    place = tail.rfind(_START)
    if place < 0:
        return None
    try:
        # what stands deeper in the line than its own fields, or before a torn one, has more behind it than this takes
        data = from_json(b"{" + tail[place + 1 :])[STORES_FIELD]
        if data.pop("at") != size - len(tail) + place:
            return None
        return SessionInfo.model_validate({"updated_at": 0, **data})
    except (ValueError, ValidationError):
        return None
