"""Text that is fit to be shown: what is not seen made seen, what is too long cut, JSON indented.

Two things a reader cannot notice change how a line reads: control characters, and the directional characters
that reorder what stands around them (a tool name can be made to look like another, code like other code). They
are shown by name. Here is plain text only; `escape` makes HTML of it.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

__all__ = ["cut", "indented_json", "json_text", "left_out", "one_line", "size", "visible"]

# bidirectional embeddings, overrides, isolates; the plain marks U+200E and U+200F stay, such text needs them
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_JOINERS = "\u200c\u200d"
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_JSON_LIMIT = 200_000  # characters
_JSON_DEPTH = 40
_KILO = 1000


def visible(text: str) -> str:
    r"""Return `text` with what cannot be seen, or cannot be encoded, replaced by what can.

    Control characters become their pictures, directional embeddings, overrides and isolates their code points.
    Line ends become ``\n``, lone surrogates U+FFFD. All other text comes back unchanged.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str
        Text that UTF-8 can hold.

    Examples
    --------
    >>> visible("a\x1b[31m\u202eb")
    'a␛[31m⟨U+202E⟩b'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNSEEN.sub(lambda match: _picture(match.group()), text)


def one_line(text: str, limit: int = 120) -> str:
    r"""Return `text` as a short name: one line, nothing unseen in it, cut at its end.

    For what stands beside other text: tool names, titles, ids, model names. Here every character without a
    glyph is shown by its code point, but for the joiners that Persian, Indian scripts and emoji need.

    Parameters
    ----------
    text : str
        Any text.
    limit : int
        Length in characters beyond which the end is replaced by ``…``.

    Returns
    -------
    str
        Plain text.

    Examples
    --------
    >>> one_line("get\n weather\u200b")
    'get weather⟨U+200B⟩'
    """
    start = " ".join(visible(text[: 4 * limit]).split())
    shown = "".join(_picture(char) if _is_unseen(char) else char for char in start)
    if len(shown) > limit or len(text) > 4 * limit:
        return shown[: limit - 1].rstrip() + "…"
    return shown


def cut(text: str, limit: int | None) -> tuple[str, int, str]:
    """Split a text that is too long into its beginning and its end.

    Parameters
    ----------
    text : str
        Any text.
    limit : int or None
        How many characters may stay; None for all.

    Returns
    -------
    tuple of str, int, str
        The beginning, the number of characters left out, and the end. A short text is all beginning.

    Examples
    --------
    >>> cut("0123456789", 4)
    ('012', 6, '9')
    """
    if limit is None or len(text) <= limit:
        return text, 0, ""
    end = limit // 4
    return text[: limit - end], len(text) - limit, text[len(text) - end :]


def left_out(count: int) -> str:
    """Return the words that stand where a text was cut.

    Parameters
    ----------
    count : int
        How many characters are not shown.

    Returns
    -------
    str
        Plain text.

    Examples
    --------
    >>> left_out(1234567)
    '… 1,234,567 characters left out …'
    """
    return f"… {count:,} {'character' if count == 1 else 'characters'} left out …"


def size(count: int) -> str:
    """Return a number of bytes in words.

    Parameters
    ----------
    count : int
        Bytes.

    Returns
    -------
    str
        Plain text, in units of a thousand.

    Examples
    --------
    >>> size(999), size(1500), size(20_000_000)
    ('999 bytes', '1.5 kB', '20.0 MB')
    """
    if count < _KILO:
        return f"{count} {'byte' if count == 1 else 'bytes'}"
    if count < _KILO * _KILO:
        return f"{count / _KILO:.1f} kB"
    return f"{count / _KILO / _KILO:,.1f} MB"


def indented_json(text: str) -> str | None:
    r"""Return JSON text with line breaks and indentation.

    Only spaces and the escapes of characters change: keys that come twice, their order and the way a number is
    written are what a reader may be looking for.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str or None
        None for what is no JSON object or array, is very long, or is nested deeper than can be read.

    Examples
    --------
    >>> print(indented_json('{"n": 1.50, "n": "\\u00e9"}'))
    {
      "n": 1.50,
      "n": "é"
    }
    """
    if len(text) > _JSON_LIMIT or not text.lstrip().startswith(("{", "[")):
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    out: list[str] = []
    depth = 0
    for mark, following in pairwise([*_JSON_TOKEN.findall(text), ""]):
        if mark in ("{", "["):
            depth += 1
            if depth > _JSON_DEPTH:  # the indentation would outgrow the text
                return None
            out.append(mark if following in ("}", "]") else f"{mark}\n{'  ' * depth}")
        elif mark in ("}", "]"):
            depth -= 1
            out.append(mark if out[-1] in ("{", "[") else f"\n{'  ' * depth}{mark}")
        elif mark == ",":
            out.append(f",\n{'  ' * depth}")
        elif mark.startswith('"'):
            out.append(json.dumps(json.loads(mark), ensure_ascii=False))
        else:
            out.append(": " if mark == ":" else mark)
    return "".join(out)


def json_text(value: object) -> str:
    """Return a value as JSON in a line, or its repr if it cannot be JSON.

    Parameters
    ----------
    value : object
        Anything; what JSON does not have is written as a list or as text.

    Returns
    -------
    str
        Text that may have control characters in it.

    Examples
    --------
    >>> json_text({"n": 1, "when": None}), json_text({2})
    ('{"n": 1, "when": null}', '[2]')
    """
    try:
        return json.dumps(value, ensure_ascii=False, default=_jsonable)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _jsonable(value: Any) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return sorted(value, key=repr) if isinstance(value, (set, frozenset)) else str(value)


def _picture(char: str) -> str:
    if char < " ":
        return chr(0x2400 + ord(char))
    return "\u2421" if char == "\x7f" else f"⟨U+{ord(char):04X}⟩"


def _is_unseen(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf") and char not in _JOINERS
