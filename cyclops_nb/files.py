"""Reads a file of the user's into a part of a message."""

from __future__ import annotations

import mimetypes
import stat
from functools import cache
from pathlib import Path

from cyclops_nb.errors import InputError
from cyclops_nb.media import check_size, checked, decoded, is_text_type, media_type_of
from cyclops_nb.parts import FilePart, ImagePart

__all__ = ["part_of_file", "read_file"]

_TEXT = "text/plain"
_UNKNOWN = "application/octet-stream"
_OFFICE = "application/vnd.openxmlformats-officedocument"
_MORE_TYPES = {
    ".avif": "image/avif",
    ".docx": f"{_OFFICE}.wordprocessingml.document",
    ".heic": "image/heic",
    ".md": "text/markdown",
    ".pptx": f"{_OFFICE}.presentationml.presentation",
    ".webp": "image/webp",
    ".xlsx": f"{_OFFICE}.spreadsheetml.sheet",
}
"""What not every Python from 3.11 on knows."""


def part_of_file(path: Path) -> ImagePart | FilePart:
    """Return a file as an image, where it is one, or as a file.

    Parameters
    ----------
    path : Path
        Where it is. What it is is read from its content, and only then from its name: many pictures are misnamed.

    Raises
    ------
    InputError
        If it cannot be read, is empty or too large, or is something that models do not take.
    """
    what = f"the file {str(path)!r}"
    data = read_file(path)
    media_type = _media_type(path, data)
    if media_type.startswith("image/"):
        return checked(ImagePart(data, media_type=media_type), what)
    return checked(FilePart(path.name, data, media_type), what)


def read_file(path: Path) -> bytes:
    """Return the content of a file that is not too large, or raise `InputError`."""
    try:
        facts = path.stat()
        if stat.S_ISDIR(facts.st_mode):
            reason = "it is a folder; give the files in it"
        elif not stat.S_ISREG(facts.st_mode):
            reason = "it is no regular file"  # reading a pipe or a device may never end
        else:
            check_size(facts.st_size, f"the file {str(path)!r}")
            return path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
    except ValueError as error:  # no system has files of such names; errors of our own are ValueErrors too
        if isinstance(error, InputError):
            raise
        reason = str(error)
    hint = "; '~' has to be spelt out, with path.expanduser()" if str(path).startswith("~") else ""
    raise InputError(f"cannot read {str(path)!r}: {reason}{hint}")


def _media_type(path: Path, data: bytes) -> str:
    found = media_type_of(data)
    if found is not None:
        return found
    named, packed = _types().guess_type(path.name)
    if packed is not None:
        return "application/gzip" if packed == "gzip" else _UNKNOWN
    named = named or _UNKNOWN
    if named.startswith("image/") or named == "application/pdf" or is_text_type(named):
        return named
    return named if decoded(data) is None else _TEXT


@cache
def _types() -> mimetypes.MimeTypes:
    """Return the types that names stand for, the same on all systems: some say that a CSV file is one of Excel's."""
    types = mimetypes.MimeTypes()
    for ending, media_type in _MORE_TYPES.items():
        types.add_type(media_type, ending)
    return types
