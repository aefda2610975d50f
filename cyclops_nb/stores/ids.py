"""Which session ids a store takes.

An id becomes a file name, and the files go from one disk to another: so it is checked against what every system can
hold, wherever the program runs, and before any path is built from it.
"""

from __future__ import annotations

import re
from typing import Any

from cyclops_nb.errors import InputError

__all__ = ["MAX_ID_LENGTH", "check_id", "is_id"]

MAX_ID_LENGTH = 128

_ID = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_ID_LENGTH}}}")
_DEVICE = re.compile(r"con|prn|aux|nul|com[0-9]|lpt[0-9]", re.IGNORECASE)


def is_id(text: str) -> bool:
    """Whether a store takes `text` as an id."""
    return _ID.fullmatch(text) is not None and _DEVICE.fullmatch(text) is None


def check_id(session_id: Any) -> str:
    """Return `session_id` if a store can take it.

    Parameters
    ----------
    session_id : str
        1 to 128 ASCII letters, digits, ``_`` and ``-``, and no device name of Windows such as ``"con"``.

    Raises
    ------
    InputError
        A ValueError too: if it is anything else.

    Examples
    --------
    >>> check_id("study-1")
    'study-1'
    """
    # repr of a huge or odd id must not fill the screen
    shown = repr(session_id)[: MAX_ID_LENGTH + 2]
    if not isinstance(session_id, str) or not _ID.fullmatch(session_id):
        raise InputError(
            f"a store cannot keep a session under the id {shown}: an id is 1 to {MAX_ID_LENGTH} ASCII letters, "
            "digits, '_' or '-'"
        )
    if _DEVICE.fullmatch(session_id):
        raise InputError(
            f"a store cannot keep a session under the id {shown}: Windows reads it as a device; take another id"
        )
    return str(session_id)
