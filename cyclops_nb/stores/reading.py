"""Reads the session in one file, wherever it stands and whichever store has written it."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from cyclops_nb.session import Session
from cyclops_nb.stores.file import torn
from cyclops_nb.stores.lines import parse, to_session
from cyclops_nb.stores.notebooks.reading import read

__all__ = ["read_session"]


def read_session(path: str | os.PathLike[str]) -> Session:
    """Return the session in a file of a `FileSessionStore` or a `NotebookSessionStore`, such as a backup.

    A last line that is torn is left out with a warning. A notebook is known by its name, which ends with ``.ipynb``.

    Parameters
    ----------
    path : str or path
        The file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    SessionFormatError
        If it holds no session, or is damaged elsewhere than in its last line.
    TranscriptError
        If it is a notebook that was edited in such a way that no conversation is left.

    Examples
    --------
    >>> import asyncio, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(FileSessionStore(folder).save(Session("study-1", title="First try")))
    ...     read_session(f"{folder}/study-1.jsonl").title
    'First try'
    """
    data, where = Path(path).read_bytes(), repr(str(path))
    if Path(path).suffix == ".ipynb":
        return read(data, None, where).session
    parsed = parse(data, where)
    session = to_session(parsed, None, where)
    if parsed.end < len(data):
        warnings.warn(torn(where), UserWarning, stacklevel=2)
    return session
