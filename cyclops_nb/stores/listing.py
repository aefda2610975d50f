"""Lists session files without reading them whole."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime

from cyclops_nb.stores.base import SessionInfo
from cyclops_nb.stores.folder import Entry
from cyclops_nb.stores.lines import parse, to_info
from cyclops_nb.stores.summaries import TAIL_BYTES, read_summary

__all__ = ["info_in"]


def info_in(entry: Entry) -> SessionInfo | None:
    """Return what there is to tell about the session in a file, or None if it is no regular file.

    Raises
    ------
    SessionFormatError
        If it had to be read whole, and is damaged or another session's.
    OSError
        If it cannot be read.
    """
    if not stat.S_ISREG(entry.path.stat().st_mode):
        return None  # to open a pipe would be to wait for its writer
    with entry.path.open("rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        file.seek(max(0, status.st_size - TAIL_BYTES))
        info = read_summary(file.read(TAIL_BYTES), status.st_size)
    if info is None or info.id != entry.session_id:
        info = to_info(parse(entry.path.read_bytes(), where := repr(str(entry.path))), entry.session_id, where)
    updated_at = datetime.fromtimestamp(status.st_mtime, UTC)
    return info.model_copy(update={"updated_at": updated_at, "path": entry.path, "backup": entry.backup})
