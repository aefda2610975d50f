"""Joins surrogate pairs that a stream split over two deltas.

JSON escapes a character outside the basic plane as two surrogates, and a server that cuts its answer by UTF-16 units
sends one half in each of two chunks. Replacing each half by U+FFFD would damage the text for good.
"""

from __future__ import annotations

from cyclops_nb.values import clean_text

__all__ = ["SurrogateJoiner"]

_HIGH = range(0xD800, 0xDC00)


class SurrogateJoiner:
    r"""Hands text on, holding back the first half of a pair until its second half is there.

    Examples
    --------
    >>> joiner = SurrogateJoiner()
    >>> joiner.push("ok \ud83d"), joiner.push("\ude00") == "\U0001f600"
    ('ok ', True)
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def push(self, text: str) -> str:
        """Take a delta and return what can be handed on now."""
        if not text or (not self._held and text.isascii()):
            return text
        text = self._held + text
        self._held = ""
        if ord(text[-1]) in _HIGH:
            self._held = text[-1]
            text = text[:-1]
        return clean_text(text)

    def flush(self) -> str:
        """Return what was held back, now that nothing follows."""
        held, self._held = self._held, ""
        return clean_text(held)
