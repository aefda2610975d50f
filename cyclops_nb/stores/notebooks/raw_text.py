"""From the edited Markdown source of a text back to that text."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from cyclops_nb.stores.notebooks.markdown import FENCE, SourceLine, closes, less_sign
from cyclops_nb.stores.notebooks.unseen import marks, unmarked

__all__ = ["raw_lines"]

_WRITTEN = re.compile(
    r"""
      (?P<code>(?<!`)(?P<ticks>`+)(?!`)[^\n]*?[^`\n](?P=ticks)(?!`))
    | <code>(?P<element>[^\n]*?)</code>
    | <span>(?P<mark>&\#36;|&\#92;)</span>
    | (?P<formula>\$(?:[^$\\\n]|\\[^\n])+\$)
    | (?P<less>&(?:lt|\#60);)
    | \\(?P<image>!)(?=\[)
    | (?P<link>\])\\(?=[(:])
    | (?P<backticks>(?:&\#96;){3,})
    | ^(?P<definition>[ \t>]*\\:)(?=[ \t])
    | ^(?P<heading>\ {0,3}\\)(?=\#{1,6}[^\w\n]{1,20}\d+[^\w\n]{0,20}\]|(?:=+|-+)[ \t]*$)
    """,
    re.VERBOSE,
)


def raw_lines(lines: Sequence[SourceLine], text: str) -> list[str]:
    r"""Return the lines of the text that an edited source stands for, the way back from `source_lines`.

    Parameters
    ----------
    lines : sequence of SourceLine
        The edited source; lines that were not changed have their raw lines, the others None.
    text : str
        The text before the edit.

    Returns
    -------
    list of str
        Lines with their line ends, the last one without.

    Examples
    --------
    >>> raw_lines([SourceLine("&lt;b> costs <span>&#36;</span>7", None)], "")
    ['<b> costs $7']
    """
    less, written = less_sign(text), marks(text)
    fence, is_pre = "", False  # what is open
    found: list[str] = []
    for source, raw in lines:
        plain = source
        if fence:
            fence = "" if closes(source, fence) else fence
        elif is_pre:
            is_pre = not source.endswith("</pre>")
            plain = html.unescape(source.removesuffix("</pre>"))
        elif match := FENCE.fullmatch(source):
            fence = match[1] or match[3]
        elif raw is not None:
            is_pre = source.endswith("<pre>")
        else:
            plain = _WRITTEN.sub(lambda match: _unwritten(match, less), source)
        found.append(f"{unmarked(plain, written)}\n" if raw is None else raw)
    return [
        *(line if line.endswith(("\n", "\r")) else f"{line}\n" for line in found[:-1]),
        *(line.rstrip("\r\n") for line in found[-1:]),
    ]


def _unwritten(match: re.Match[str], less: str) -> str:  # noqa: PLR0911 - one line for each kind
    if match["code"]:
        return match[0]
    if match["element"] is not None:
        return _code_span(html.unescape(match["element"]))
    if marks := match["mark"] or match["backticks"]:
        return html.unescape(marks)
    if match["formula"]:
        return match[0].replace("\\lt ", "<")
    if match["less"]:
        return "<" if match[0] == less else match[0]
    if match["definition"] or match["heading"]:
        return match[0].replace("\\", "")
    return match["image"] or match["link"]


def _code_span(inner: str) -> str:
    ticks = "`" * (1 + max((len(marks) for marks in re.findall("`+", inner)), default=0))
    blank = " " if inner.startswith(("`", " ")) or inner.endswith(("`", " ")) else ""
    return f"{ticks}{blank}{inner}{blank}{ticks}"
