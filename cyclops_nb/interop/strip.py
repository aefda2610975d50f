"""Takes what this library keeps beside what is read out of a notebook, before it is shared."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclops_nb.errors import SessionConflictError
from cyclops_nb.interop.json_text import Path as JsonPath
from cyclops_nb.interop.json_text import without
from cyclops_nb.interop.run_record import MEDIA_TYPE
from cyclops_nb.render.words import count
from cyclops_nb.stores.files import read, replacement, stamp_of
from cyclops_nb.stores.notebooks.document import KEY, parse

__all__ = ["Stripped", "strip"]

_ROOT = 'class="cy '
"""How the outermost element of each output of ours begins."""


@dataclass(frozen=True)
class Stripped:
    """What was taken out of a notebook.

    Examples
    --------
    >>> print(Stripped(Path("study.ipynb"), records=2))
    study.ipynb: removed the records of 2 runs
    """

    path: Path
    """The notebook."""
    records: int = 0
    """Records of runs in outputs."""
    outputs: int = 0
    """Whole outputs."""
    cells: int = 0
    """Cells with the data of a message or a session."""
    is_session: bool = False
    """Whether the notebook held sessions: it can be read as before, but no longer be loaded."""
    widgets: bool = False
    """Whether the notebook held the state of widgets."""

    def __str__(self) -> str:
        told = [
            f"the records of {count(self.records, 'run')}" if self.records else "",
            f"{count(self.outputs, 'output')}" if self.outputs else "",
            f"the data of {count(self.cells, 'cell')}" if self.cells else "",
            "the state of widgets" if self.widgets else "",
        ]
        what = ", ".join(text for text in told if text) or ("the data of sessions" if self.is_session else "")
        note = (
            "; no session can be loaded from it any more, but all that was said can still be read in it, with "
            "reasoning, settings and system prompt"
            if self.is_session
            else ""
        )
        return f"{self.path}: removed {what}{note}" if what or note else f"{self.path}: there was nothing to remove"


def strip(path: str | os.PathLike[str], *, outputs: bool = False) -> Stripped:
    """Take session data out of a notebook: what this library keeps in it beside what is read.

    These are the records of runs in outputs (messages with reasoning and tool results, settings with the system
    prompt), the data of stored and exported sessions in the metadata of notebook and cells, and the state of widgets.
    All else stays as it is: sources, and what is seen, unless `outputs` says so.

    Parameters
    ----------
    path : str or path
        A notebook of version 4 of the format; close its tab first.
    outputs : bool
        Whether outputs that show conversations are taken out as well.

    Returns
    -------
    Stripped
        What was removed; print it.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    SessionFormatError
        If it is no notebook; it is left as it is.
    SessionConflictError
        If something else wrote to it meanwhile; that is left as it is.
    OSError
        If it cannot be written; it is as it was.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = export_notebook(Session("study-1"), Path(folder) / "study.ipynb")
    ...     strip(path).cells, strip(path).cells
    (2, 0)
    """
    path = Path(path)
    found = read(path)
    if found is None:
        raise FileNotFoundError(f"there is no notebook {str(path)!r}")
    data, info = found
    text = parse(data, repr(str(path))).text
    taking = _Taking(outputs=outputs)
    start = text.index("{")
    left = without(text, start, taking)
    stripped = taking.stripped(path)
    if stripped != Stripped(path):
        whole = f"{text[:start]}{left}{text[text.rindex('}') + 1 :]}"
        with replacement(path, whole.encode()) as move:
            if stamp_of(path.stat()) != stamp_of(info):
                raise SessionConflictError(f"{str(path)!r} was changed by someone else meanwhile; it was left as it is")
            move()
    return stripped


class _Taking:
    """Says of each value of a notebook whether it goes, and counts what goes."""

    def __init__(self, *, outputs: bool) -> None:
        self._outputs = outputs
        self._count: Counter[str] = Counter()

    def stripped(self, path: Path) -> Stripped:
        """Return what went."""
        found = self._count
        return Stripped(
            path, found["records"], found["outputs"], found["cells"], bool(found["session"]), bool(found["widgets"])
        )

    def __call__(self, path: JsonPath, value: Any) -> bool | None:
        """Return whether a value goes, or None if something in it may."""
        decision: bool | None = False
        match path:
            case ("metadata" | "cells",) | ("cells", _) | ("cells", _, "metadata" | "outputs"):
                decision = None
            case ("metadata", "widgets"):
                decision = self._takes("widgets")
            case ("metadata", name) if name == KEY:
                decision = self._takes("session")
            case ("cells", _, "metadata", name) if name == KEY:
                decision = self._takes("cells")
            case ("cells", _, "outputs", _):
                decision = self._takes_output(value)
            case ("cells", _, "outputs", _, "data"):
                decision = None
            case ("cells", _, "outputs", _, "data", name):
                decision = name == MEDIA_TYPE
        return decision

    def _takes(self, what: str) -> bool:
        self._count[what] += 1
        return True

    def _takes_output(self, output: Any) -> bool | None:
        bundle = output.get("data") if isinstance(output, dict) else None
        bundle = bundle if isinstance(bundle, dict) else {}
        is_run = MEDIA_TYPE in bundle
        self._count["records"] += is_run
        if self._outputs and (is_run or _is_of_ours(bundle)):
            return self._takes("outputs")
        return None if is_run else False


def _is_of_ours(bundle: dict[str, Any]) -> bool:
    html = bundle.get("text/html", "")
    return _ROOT in ("".join(map(str, html)) if isinstance(html, list) else str(html))
