"""Characters that cannot be seen, written such that they can, and back.

What is written for them is chosen such that the text itself has it nowhere: so a text that tells of such a character
comes back from an edited line, and so does one that holds it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from cyclops_nb.render.text import visible

__all__ = ["marks", "unmarked"]

_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What `visible` replaces, and where programs split lines; not line ends."""
_PICTURES = re.compile("[\u2400-\u2421]")
_JOINERS = "\u200c\u200d"


def marks(text: str, *, in_line: bool = False) -> dict[int, str]:
    r"""Return what is to be written for the characters of a text that cannot be seen, to be given to `str.translate`.

    Parameters
    ----------
    text : str
        Any text.
    in_line : bool
        Whether all characters without a glyph count, as in a title, and not only those that change how a line reads.

    Examples
    --------
    >>> "a\x1b\u2066".translate(marks("a\x1b\u2066"))
    'a␛⟨U+2066⟩'
    """
    found = set(_UNSEEN.findall(text))
    if in_line:
        found.update(char for char in set(text) if unicodedata.category(char) == "Cf" and char not in _JOINERS)
    if not found:
        return {}
    has_pictures = _PICTURES.search(text) is not None
    brackets = 1
    while "⟨" * brackets + "U+" in text:
        brackets += 1
    begin, end = "⟨" * brackets, "⟩" * brackets
    pictures = {char: visible(char) for char in found}
    return {
        ord(char): picture if _PICTURES.fullmatch(picture) and not has_pictures else f"{begin}U+{ord(char):04X}{end}"
        for char, picture in pictures.items()
    }


def unmarked(source: str, written: Mapping[int, str]) -> str:
    r"""Return the characters for what `marks` has written for them.

    Examples
    --------
    >>> unmarked("a␛⟨U+2066⟩", marks("\x1b")) == "a\x1b⟨U+2066⟩"
    True
    """
    chars = {mark: chr(code) for code, mark in written.items()}
    return re.sub("|".join(map(re.escape, chars)), lambda match: chars[match[0]], source) if chars else source
