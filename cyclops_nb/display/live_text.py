"""A text that is still being written, in pieces of which all but the last are finished.

A browser that gets the whole text with every few words gets its square. So what cannot change any more is made once, as
a piece of its own, and only the rest is made again. Where one reads along, a code block of many screens is parted too.
"""

from __future__ import annotations

from markupsafe import Markup

from cyclops_nb.render.markdown import settled, to_html

__all__ = ["GrowingText"]

_PIECE = 1_600
"""Characters that are worth a piece of their own; more in a long text, so that there are never many pieces."""
_SHARE = 16
_BLOCK = 2_000
"""Characters beyond which a list or a code block is parted."""
_SHOWN = 4_000
"""Characters of the last piece that are shown."""
_MOST = 200_000
"""Characters in pieces; what comes after is shown by its last characters alone until it is complete."""
_GROWTH = 1.25
_EMPTY = str(to_html(""))
_END = "</div>"
_SEAM = _EMPTY[-len(_END) :] + _EMPTY[: -len(_END)]
"""What stands between two pieces, and not in the HTML of the whole."""


class GrowingText:
    """The pieces of one Markdown text.

    Examples
    --------
    >>> text = GrowingText()
    >>> [len(text.pieces("word " * count)) for count in (1, 2)]
    [1, 1]
    """

    def __init__(self) -> None:
        self._pieces: list[Markup] = []
        self._start = 0
        """Where the text begins that is in no finished piece."""
        self._opener = ""
        """What the rest must begin with: the first line of the code that it is in."""
        self._retry_at = 0
        """How long the rest must be for another search of its finished part."""

    def pieces(self, text: str) -> list[Markup]:
        """Return all pieces.

        Parameters
        ----------
        text : str
            The whole text so far; it begins with that of the call before.

        Returns
        -------
        list of Markup
            The last one may change and be parted with the next call, the others stay.
        """
        while self._part(text):
            pass
        rest = text[self._start :]
        return [*self._pieces, to_html(self._opener + rest, limit=_SHOWN)] if rest.strip() else list(self._pieces)

    def finished(self, text: str, whole: Markup) -> list[Markup]:
        """Return all pieces of the complete text.

        Parameters
        ----------
        text : str
            The text.
        whole : Markup
            Its HTML. How it is parted must not show: where the pieces come to anything else, it is the only piece.

        Returns
        -------
        list of Markup
            The pieces.
        """
        rest = text[self._start :]
        pieces = [*self._pieces, to_html(self._opener + rest)] if rest.strip() else list(self._pieces)
        return pieces if "".join(pieces).replace(_SEAM, "") == whole else [whole]

    def _part(self, text: str) -> bool:
        """Make a piece of what is finished, if it is enough for one."""
        source = self._opener + text[self._start :]
        wanted = max(_PIECE, self._start // _SHARE)
        if len(source) < max(wanted, self._retry_at) or self._start > _MOST:
            return False
        length, opener = settled(source, limit=max(_BLOCK, wanted))
        if length < wanted * 2 // 3 or length <= len(self._opener):
            self._retry_at = int(len(source) * _GROWTH)
            return False
        self._pieces.append(to_html(source[:length], limit=20_000))
        self._start += length - len(self._opener)
        self._opener, self._retry_at = opener, 0
        return True
