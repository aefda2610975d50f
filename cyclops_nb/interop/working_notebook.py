"""Sessions out of the outputs of a notebook that someone worked in.

Each run that a cell shows leaves a record in its output. Put together in the order in which the runs were made they are
the sessions again, as far as the cells showed them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cyclops_nb.displayable import Displayable
from cyclops_nb.errors import SessionFormatError, TranscriptError
from cyclops_nb.family import family
from cyclops_nb.interop.placing import Placing, Thread
from cyclops_nb.interop.run_record import MEDIA_TYPE, VERSION, RunRecord
from cyclops_nb.messages import Message
from cyclops_nb.session import Session
from cyclops_nb.stores.notebooks.document import Document, parse
from cyclops_nb.stores.notebooks.reading import EXPORT, read, read_export

__all__ = ["FoundSessions", "MissingPiece", "sessions_in_notebook"]

_SHOWN = 200
"""Characters of a reason that are shown."""


@dataclass(frozen=True)
class MissingPiece:
    """Something of a session that no output holds."""

    cell: int
    """The number of the cell where that was noticed, from 0."""
    session_id: str | None
    text: str
    """What is missing, in words."""

    def __str__(self) -> str:
        return f"cells[{self.cell}]: {self.text}"


class FoundSessions(Displayable, list[Session]):
    """The sessions that were found, in the order in which they were begun; `missing` says what was not.

    Examples
    --------
    >>> FoundSessions([Session("study-1")]).missing
    ()
    """

    missing: tuple[MissingPiece, ...] = ()


def sessions_in_notebook(path: str | os.PathLike[str]) -> FoundSessions:
    """Put sessions together from the saved outputs of a notebook; nothing in it is run.

    Every cell that shows a run's answer or response keeps what that run added. What was said between, in runs that no
    cell shows, is named as missing. Where a session was truncated and asked anew, what it held before is there as a
    session of its own, a branch. The notebook of a `NotebookSessionStore` and what `export_notebook` wrote are read,
    too.

    Parameters
    ----------
    path : str or path
        A notebook of version 4 of the format.

    Returns
    -------
    FoundSessions
        A list of sessions, with ``.missing``: what is missing, and at which cell that was noticed.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    SessionFormatError
        If it is no notebook.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = export_notebook(Session("study-1"), Path(folder) / "study.ipynb")
    ...     [session.id for session in sessions_in_notebook(path)]
    ['study-1']
    """
    path = Path(path)
    data = path.read_bytes()
    document = parse(data, repr(str(path)))
    if document.ours is not None and document.ours.get("kind") == EXPORT:
        return _exported(document, repr(str(path)))
    if document.ours is not None:
        return FoundSessions([read(data, None, repr(str(path))).session])
    missing: list[MissingPiece] = []
    placing = Placing()
    for cell, record in sorted(_records(document, missing), key=lambda pair: pair[1].runs[0].started_at):
        placing.take(cell, record)
    made = [_made(thread, missing) for thread in placing.threads()]
    result = FoundSessions(sorted(made, key=lambda session: session.created_at))
    result.missing = tuple(sorted(missing, key=lambda piece: piece.cell))
    return result


def _made(thread: Thread, missing: list[MissingPiece]) -> Session:
    """Return the session of a thread with the messages that there are, and note which are not, once."""
    session, line, end = thread.session, thread.line, 0
    for index in sorted(line):
        if index > end:
            what = f"message [{end}]" if index - end == 1 else f"messages [{end}] to [{index - 1}]"
            piece = MissingPiece(
                line[index].cell,
                session.id,
                f"{what} of session {session.id!r} stood before this run, and no output holds what added them",
            )
            if all((piece.cell, what) != (other.cell, other.text.partition(" of session ")[0]) for other in missing):
                missing.append(piece)
        end = index + 1
    session.messages[:] = [line[index].message for index in sorted(line)]
    session.runs.sort(key=lambda run: run.started_at)
    if session.parent is not None:
        count = sum(index < session.parent.message_count for index in line)
        session.parent = session.parent.model_copy(update={"message_count": count})
    return session


def _exported(document: Document, where: str) -> FoundSessions:
    parts = {part.session.id: part for part in read_export(document, where)}
    missing = []
    lines: dict[str, dict[int, Message]] = {}  # of each session, by the index that messages had when it was written
    for branch in family(part.session for part in parts.values()):  # each behind its origin, which is whole by then
        session, part = branch.value, parts[branch.value.id]
        origin = lines.get(session.parent.session_id, {}) if session.parent else {}
        held = {index: message for index, message in origin.items() if index < part.shared}
        lines[session.id] = held | dict(zip(part.indices, session.messages, strict=True))
        session.messages[:0] = held.values()
        lost = part.shared - len(held)
        if lost > 0:
            text = f"{lost} of messages [0] to [{part.shared - 1}] of session {session.id!r} stood in its origin, above"
            missing.append(MissingPiece(part.cell, session.id, text))
            if session.parent is not None:
                left = max(session.parent.message_count - lost, 0)
                session.parent = session.parent.model_copy(update={"message_count": left})
    result = FoundSessions(part.session for part in parts.values())
    result.missing = tuple(missing)
    return result


def _records(document: Document, missing: list[MissingPiece]) -> Iterator[tuple[int, RunRecord]]:
    """Yield the records in all outputs, each run once: a cell may show it that another one shows, too."""
    seen = set()
    for number, cell in enumerate(document.cells):
        for data in _data_in(cell):
            try:
                record = RunRecord.model_validate(_checked(json.loads(data) if isinstance(data, str) else data))
            except (ValidationError, SessionFormatError, TranscriptError, ValueError, RecursionError) as error:
                missing.append(MissingPiece(number, None, f"the record of a run cannot be read ({_reason(error)})"))
                continue
            if record.runs and record.runs[0].id not in seen:
                seen.add(record.runs[0].id)
                yield number, record


def _checked(data: Any) -> Any:
    """Return what may be a record, or raise if a later version has written it."""
    version = data.get("version") if isinstance(data, dict) else None
    if type(version) is int and version > VERSION:
        raise SessionFormatError(f"it has version {version}: a newer cyclops_nb wrote it, install that one")
    return data


def _data_in(cell: dict[str, Any]) -> Iterator[Any]:
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        bundle = output.get("data") if isinstance(output, dict) else None
        if isinstance(bundle, dict) and MEDIA_TYPE in bundle:
            data = bundle[MEDIA_TYPE]
            # some programs keep JSON as lines of text
            yield "".join(map(str, data)) if isinstance(data, list) else data


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:_SHOWN]
    if isinstance(error, SessionFormatError):
        return str(error)
    return f"{type(error).__name__}: {error}"[:_SHOWN]
