"""Several sessions in one notebook, to be handed out and read: each branch behind its origin, what they share once."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from cyclops_nb.errors import InputError, SessionFormatError
from cyclops_nb.family import Branch, family
from cyclops_nb.progress import progress
from cyclops_nb.render.words import index_range
from cyclops_nb.session import Session
from cyclops_nb.stores.files import read, replacement
from cyclops_nb.stores.lines import encode
from cyclops_nb.stores.notebooks.arranging import around
from cyclops_nb.stores.notebooks.cells import cell_id, fingerprint, head_lines, message_cell, own_cell
from cyclops_nb.stores.notebooks.document import VERSION, parse, source_of
from cyclops_nb.stores.notebooks.foot import RunTexts, foot_cell, placed
from cyclops_nb.stores.notebooks.reading import EXPORT
from cyclops_nb.stores.notebooks.style import Style

__all__ = ["export_notebook"]


def export_notebook(
    sessions: Session | Iterable[Session], path: str | os.PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write sessions into one notebook that reads as conversations, with no kernel and no library.

    Forks come behind the session that they left, and do not repeat what they share with it. `sessions_in_notebook`
    gives the sessions back.

    Parameters
    ----------
    sessions : Session or iterable of Session
        What to write.
    path : str or path
        The notebook. What this function wrote is replaced, but for other metadata that it was given since; what was
        changed since or is something else only if `overwrite` says so.
    overwrite : bool
        Whether a file that is something else may be replaced.

    Returns
    -------
    Path
        The notebook.

    Raises
    ------
    InputError
        If there is nothing to write, two sessions share an id, or the file is something else.
    OSError
        If it cannot be written; what stood there is still there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_notebook(Session("study-1"), Path(folder) / "study.ipynb").name
    'study.ipynb'
    """
    given = [sessions] if isinstance(sessions, Session) else _listed(sessions)
    _check(given)
    path = Path(path)
    theirs = {} if overwrite else _metadata_of_ours(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacement(path, _notebook([copy.copy(session) for session in given], theirs)) as move:
        move()
    return path


def _listed(sessions: Any) -> list[Any]:
    try:
        return list(sessions)
    except TypeError:
        raise InputError(f"give a session or a list of them, not a {type(sessions).__name__}") from None


def _check(sessions: list[Any]) -> None:
    if not sessions:
        raise InputError("there is nothing to export: give a session or a list of them")
    wrong = [type(item).__name__ for item in sessions if not isinstance(item, Session)]
    if wrong:
        raise InputError(f"sessions are exported, got a {wrong[0]}; load stored ones first")
    ids = [session.id for session in sessions]
    twice = next((name for name in ids if ids.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two of the sessions have the id {twice!r}: give one of them, or a fork of the other")


def _metadata_of_ours(path: Path) -> Mapping[str, Any]:
    """Return what stands in the metadata of a notebook that may be replaced, for it is what was written here.

    Raises
    ------
    InputError
        If it is something else.
    """
    found = read(path)
    if found is None:
        return {}
    try:
        document = parse(found[0], repr(str(path)))
    except SessionFormatError:
        document = None
    ours = document.ours if document is not None else None
    if document is None or ours is None or ours.get("kind") != EXPORT or ours.get("digest") != _digest(document.cells):
        raise InputError(
            f"{str(path)!r} is there and is not what export_notebook wrote, or was changed since; it was left "
            "untouched: take another name, or say overwrite=True"
        )
    metadata: Mapping[str, Any] = document.rest["metadata"]
    return metadata


def _digest(cells: Sequence[Mapping[str, Any]]) -> str:
    data = json.dumps([{**cell, "source": source_of(cell)} for cell in cells], sort_keys=True)
    return hashlib.blake2b(data.encode(), digest_size=16).hexdigest()


def _notebook(sessions: list[Session], theirs: Mapping[str, Any]) -> bytes:
    style = Style()
    data = _cells(sessions, style)
    digest = _digest(json.loads(b"[" + data + b"]"))
    before, behind = around(style, [], {"digest": digest, "kind": EXPORT, "version": VERSION}, theirs)
    return before.encode() + data + behind.encode()


def _cells(sessions: list[Session], style: Style) -> bytes:
    ids: set[str] = set()
    known = {session.id: session for session in sessions}
    comma = (style.comma + style.break_at(2)).encode()
    data = bytearray()
    for place, branch in enumerate(progress(family(sessions), "Writing sessions", unit="sessions")):
        data += comma if place else b""
        session = branch.value
        shared = _shared(branch, known)
        cells = [_head(style, session, shared, cell_id(f"head-{session.id}", ids))]
        cells += [
            message_cell(style, message, index, cell_id(message.id, ids), session.id)
            for index, message in enumerate(session.messages)
            if index >= shared
        ]
        for cell in cells:
            data += cell.encode() + comma
        _, record = encode(session)
        name = cell_id(f"foot-{session.id}", ids)
        foot = foot_cell(style, session, record.head, record.info, RunTexts(), name, {})
        data += b"".join(placed(foot, len(data)))
    return bytes(data)


def _shared(branch: Branch[Session], known: dict[str, Session]) -> int:
    """Return how many messages, from the first, stand above already."""
    session = branch.value
    if not branch.depth or session.parent is None:
        return 0
    pairs = zip(session.messages, known[session.parent.session_id].messages, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return min(same, session.parent.message_count)


def _head(style: Style, session: Session, shared: int, name: str) -> str:
    lines = head_lines(session)
    if shared:
        span = index_range(0, shared - 1).replace("[", "\\[")
        lines += ["", f"*{span}: as in the session that it was forked from, above*"]
    data = {"hash": fingerprint("\n".join(lines)), "kind": "head", "shared": shared, "version": VERSION}
    return own_cell(style, name, lines, {key: style.text(value, 5) for key, value in data.items()})
