"""What the data of images and files must be to be sent: base64, of the type that it is said to be, and not too large.

This is checked where data comes in, before anything is kept of it: a server that refuses a picture would refuse every
later request of that session too. Data that is stored already is never checked again.
"""

from __future__ import annotations

import binascii
import codecs
import re
from typing import TypeVar
from urllib.parse import urlsplit

from cyclops_nb.errors import InputError
from cyclops_nb.parts import FilePart, ImagePart, InputPart

__all__ = [
    "MAX_BYTES",
    "PICTURE_TYPES",
    "check_size",
    "checked",
    "decoded",
    "file_text",
    "is_text_type",
    "media_type_of",
]

MAX_BYTES = 50_000_000
"""The most bytes of one image or file: what OpenAI takes in one request."""
PICTURE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""The pictures that models take."""

_PDF = "application/pdf"
_UNKNOWN = "application/octet-stream"
_OTHER_NAMES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}
_PDF_WITHIN = 1024
"""Readers of PDFs look for its mark in so many bytes."""
_TEXT_TYPES = {
    f"application/{name}"
    for name in (
        "ecmascript", "javascript", "json", "jsonl", "ndjson", "sql", "toml", "typescript", "xml", "xml-dtd", "yaml",
        "x-csh", "x-javascript", "x-latex", "x-ndjson", "x-sh", "x-tex", "x-yaml",
    )
}  # fmt: skip
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_PAGE = re.compile(rb"\s*<(!doctype\s+html|html|head)\b", re.IGNORECASE)
_FILE_NAME = re.compile(r"[^\n]{1,250}\.\w{1,5}")
_SHOWN = 12
_ENOUGH = 64
"""So many letters of base64 tell what it holds, also where they are broken into lines."""

_Part = TypeVar("_Part", bound=InputPart)


def checked(part: _Part, what: str | None = None) -> _Part:
    """Return `part` as it is, if it can be sent.

    Parameters
    ----------
    part : TextPart, ImagePart or FilePart
        What is to be sent.
    what : str, optional
        What an error calls it.

    Raises
    ------
    InputError
        If its data is missing, damaged, too large, or not what its type says; or its address leads nowhere.

    Examples
    --------
    >>> checked(ImagePart("iVBORw0KGgo=", media_type="image/png")).media_type
    'image/png'
    """
    if isinstance(part, ImagePart):
        if part.url is not None:
            _check_address(part.url, what or "the image")
        else:
            media_type = part.media_type or ""
            what = what or f"the image ({media_type})"
            _check_picture(_checked_bytes(part.data or "", what), media_type, what)
    elif isinstance(part, FilePart):
        what = what or f"the file {part.name!r}"
        _check_file(_checked_bytes(part.data, what, is_file=True), part.media_type, what)
    return part


def check_size(size: int, what: str) -> None:
    """Raise `InputError` if so many bytes are too many for one image or file."""
    if size > MAX_BYTES:
        raise InputError(
            f"{what} has {size / 1e6:.1f} MB, and servers take at most {MAX_BYTES / 1e6:.3g} MB: make it smaller, give "
            "a part of it, or an image by its address, ImagePart(url=...)"
        )


def media_type_of(data: bytes | str) -> str | None:
    r"""Return the media type of a picture or PDF, as its first bytes tell it, or None for anything else.

    Parameters
    ----------
    data : bytes or str
        The content, or base64 of it.

    Examples
    --------
    >>> media_type_of(b"\xff\xd8\xff\xe0 and more"), media_type_of("/9j/4A==")
    ('image/jpeg', 'image/jpeg')
    """
    if isinstance(data, str):
        data = _beginning(data)
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return _PDF if data.startswith(b"%PDF-") else None


def is_text_type(media_type: str) -> bool:
    """Say whether files of a media type are text.

    Examples
    --------
    >>> [is_text_type(name) for name in ("text/csv", "application/json", "application/pdf")]
    [True, True, False]
    """
    name = _plain(media_type)
    return name.startswith("text/") or name in _TEXT_TYPES or name.endswith(("+json", "+xml", "+yaml"))


def decoded(data: bytes) -> str | None:
    """Return the text that a file holds, in UTF-8 or with the mark of another encoding; None if it is no text."""
    name = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(name)
    except ValueError:
        return None
    return None if "\x00" in text else text


def file_text(part: FilePart) -> str | None:
    """Return the text of a text file, or None if the file is of another type, or damaged.

    Examples
    --------
    >>> file_text(FilePart("a.csv", b"a,b", "text/csv"))
    'a,b'
    """
    if not is_text_type(part.media_type):
        return None
    try:
        return decoded(_from_base64(part.data))
    except ValueError:
        return None


def _plain(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def _from_base64(text: str) -> bytes:
    """Return what base64 stands for; blanks and line breaks inside, as in mails, are allowed."""
    return binascii.a2b_base64("".join(text.split()), strict_mode=True)


def _beginning(text: str) -> bytes:
    """Return the first bytes that base64 stands for; none if it is no base64."""
    letters = "".join(text[:_ENOUGH].split())
    try:
        return binascii.a2b_base64(letters[: len(letters) // 4 * 4], strict_mode=True)
    except ValueError:
        return b""


def _checked_bytes(text: str, what: str, *, is_file: bool = False) -> bytes:
    if not text.strip():
        raise InputError(f"the input is empty: there is no data in {what}; was it written completely?")
    check_size(len(text) * 3 // 4 - text[-2:].count("="), what)
    try:
        return _from_base64(text)
    except ValueError:
        raise InputError(f"the data of {what} is {_damage(text, is_file=is_file)}") from None


def _damage(text: str, *, is_file: bool) -> str:
    """Say what is wrong with base64, and what to do."""
    mend = f"give the bytes{', of a text text.encode(),' if is_file else ','} and they are encoded for you"
    address = "" if is_file else "give it as url=, or "
    if text.startswith("data:"):
        return f"an address: {address}give as data= what stands after the comma, and its type as media_type="
    if text.startswith(("https://", "http://")):
        return f"an address: {address}load it first and give its bytes"
    letters = "".join(text.split())
    if re.fullmatch(r"[A-Za-z0-9_-]+={0,2}", letters) and re.search("[_-]", letters):
        return f"base64 of the url-safe alphabet, with '-' and '_': encode it with base64.b64encode, or {mend}"
    if re.fullmatch(r"[A-Za-z0-9+/]+=?", letters) and len(letters) % 4:
        return (
            f"base64 whose length, {len(letters)}, is not a multiple of 4: the '=' at its end are missing, or it was "
            f"cut off; {mend}"
        )
    if _FILE_NAME.fullmatch(text):
        return f"no base64: to send a file, give its Path; else {mend}"
    return f"no base64, or damaged: {mend}"


def _check_picture(data: bytes, media_type: str, what: str) -> None:
    name = _plain(media_type)
    name = _OTHER_NAMES.get(name, name)
    if name not in PICTURE_TYPES:
        raise InputError(f"{what} cannot be sent: models take {', '.join(PICTURE_TYPES)}; {_instead(name)}")
    if name != media_type:
        raise InputError(f'the media type of {what} is one that servers do not know: write media_type="{name}"')
    _check_kind(data, name, what)


def _instead(name: str) -> str:
    if name == "image/svg+xml":
        return "draw the SVG as a PNG, or give its source as text"
    if name == _PDF or is_text_type(name):
        return "for a file give a FilePart"
    return 'turn it into a PNG, such as with PIL: Image.open(...).convert("RGB")'


def _check_file(data: bytes, media_type: str, what: str) -> None:
    name = _plain(media_type)
    if name in PICTURE_TYPES:
        raise InputError(f'{what} is a picture ({name}): give it as ImagePart(data, media_type="{name}")')
    if name == _PDF and b"%PDF-" in data[:_PDF_WITHIN]:
        return
    if name != _UNKNOWN:
        _check_kind(data, name, what)
    if is_text_type(name) and decoded(data) is None:
        raise InputError(
            f"{what} is said to be text ({name}), and is no text in UTF-8: read it with its own encoding, such as "
            'Path(...).read_text(encoding="latin-1"), and give the text'
        )


def _check_kind(data: bytes, name: str, what: str) -> None:
    """Raise `InputError` if data is of another kind than its media type says."""
    found = media_type_of(data)
    if found == name or (found is None and name not in (*PICTURE_TYPES, _PDF)):
        return
    if found is not None:
        kind = "FilePart(name, data" if found == _PDF else "ImagePart(data"
        raise InputError(
            f'{what} is said to be {name}, and holds {found}: give it as {kind}, media_type="{found}"), or its Path'
        )
    raise InputError(f"{what} is said to be {name}, and is none: {_what_it_is(data)}")


def _what_it_is(data: bytes) -> str:
    if _PAGE.match(data):
        return "it holds a web page; was the address that it was loaded from that of a page, or of an error?"
    if media_type_of(data[:_ENOUGH].decode("latin-1")) is not None:
        return "its bytes are base64 already; give base64 as a str, with .decode(), or give what it was made of"
    return f"it begins with {data[:_SHOWN]!r}; was it written completely, and by what it is named after?"


def _check_address(url: str, what: str) -> None:
    if url.startswith("data:"):
        _check_data_address(url, f"{what} in a data: address")
        return
    if not url.startswith(("https://", "http://")):
        raise InputError(
            f"the address of {what}, {_shown(url)!r}, is none that a server can load: give one that begins with "
            "https:// or http://, and for a file on this machine give its Path"
        )
    try:
        host = urlsplit(url).hostname
    except ValueError:
        host = None
    if not host:
        raise InputError(f"the address of {what}, {_shown(url)!r}, has no host: give a whole one, https://host/path")


def _check_data_address(url: str, what: str) -> None:
    head, comma, data = url.removeprefix("data:").partition(",")
    media_type, *flags = head.split(";")
    if not comma or "base64" not in flags:
        missing = "without a comma before its data" if not comma else "that is not in base64"
        raise InputError(f"{what} is one {missing}: write data:image/png;base64,... or give the bytes as data=")
    if not media_type:
        raise InputError(f"{what} has no media type: write data:image/png;base64,...")
    _check_picture(_checked_bytes(data, what), media_type, f"{what} ({media_type})")


def _shown(url: str) -> str:
    """Return the part of an address that holds no keys."""
    scheme, found, rest = url.partition("://")
    place = re.split(r"[?#]", rest if found else scheme)[0].rpartition("@")[2][:60]
    return f"{scheme[:20]}://{place}" if found else place
