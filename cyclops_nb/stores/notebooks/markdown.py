r"""Text of people and models as the source of a Markdown cell, line by line.

Whoever opens a notebook has its source rendered by a program that is not ours: raw HTML is obeyed, images are loaded,
and dollars are taken for formulas, by rules that differ from program to program. So nothing is left to these rules.
What may be code in one program and text in another is written such that it is harmless as either: as an element with
entities in it, which looks the same. Fences at the left edge, on which all programs agree, stay as they were written.

What was found by experiment: JupyterLab takes ``\$`` and ``&#36;`` for a dollar first and looks for formulas then,
so only a dollar in an element of its own stays one, and the same holds for a backslash. It ends a fence at a line such
as a closing fence followed by tildes, where CommonMark does not. nbconvert puts a fence named ``mermaid``
into the page as HTML, unescaped. And a bar in a table parts the two ends of what else would be code.

Each line of a text gives one line of source, so that an edit of the source can be followed to the text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cyclops_nb.render.formulas import Formula, formula_at
from cyclops_nb.render.highlight import has_lexer
from cyclops_nb.render.text import visible
from cyclops_nb.render.urls import is_safe_url
from cyclops_nb.stores.notebooks.names import BACKSLASH, DOLLAR, ENTITIES
from cyclops_nb.stores.notebooks.unseen import marks

__all__ = [
    "FENCE",
    "SourceLine",
    "closes",
    "fenced",
    "less_sign",
    "prose_line",
    "source_lines",
]

_LINE_END = re.compile(r"(\r\n|\r|\n)")
_SEPARATORS = str.maketrans({mark: f"⟨U+{ord(mark):04X}⟩" for mark in "\u2028\u2029"})  # programs split lines there

FENCE = re.compile(r"(`{3,})([^`]*)|(~{3,})(.*)")
"""A line that opens a code block."""
_NESTEDFENCE = re.compile(r"((?:[ \t]|>|[-+*][ \t]|[0-9]{1,9}[.)][ \t])+)(`{3,}(?=[^`]*$)|~{3,})(.*)")
_PLAIN_MARGIN = re.compile(r" +| {0,3}(?:> ?)+ *")
_MARGIN = re.compile(r"[ \t>]*")
_FENCE_MARKS = re.compile(r"[`~]{3,}")
_LANGUAGE = re.compile(r"[\w.+#-]+")

_FENCE_LENGTH = 3
_ADDRESS = re.compile(r"(?i:https?://)[^\s<]{1,300}")  # its host stands at its begin
_BEHIND_ADDRESS = "?!.,:;*_~'\")]}"
_DESTINATION = re.compile(r"\(((?:https?://|mailto:|#)[^\s<>)]{0,300})", re.IGNORECASE)

_HEADING = re.compile(r"(?P<margin> {0,3})(?:#{1,6}[ \t](?P<text>.*)|=+[ \t]*|-+[ \t]*)")
"""A heading, or what makes one of the lines before."""
_LIKE_HEADER = re.compile(r"[\W_]*\[[\W_]*\d+[\W_]*\]")
_BEGIN = 200

_SAFE_ADDRESS = r"(?:https?://|mailto:|\#)"  # of a link; what is behind it is looked at when it is found
_FORMULA_MARK = re.compile(r"\\\\[(\[]|\\(?:begin|end)\{")
"""What JupyterLab takes for a formula's begin or end, in code as well."""
_HARMFUL = re.compile(rf"[$<]|!\[|\]\(|\]:|{_FORMULA_MARK.pattern}")
"""What does something outside of code."""
_NOT_IN_FORMULA = re.compile(r"`|!\[|\]\(|\]:")
_TOKEN = re.compile(
    rf"""
      (?P<code>(?<!`)(?P<ticks>`+)(?!`)(?P<inner>[^\n]{{0,2000}}?[^`\n])(?P=ticks)(?!`))
    | (?P<backticks>`+)
    | (?P<math>\$ | \\[(\[] | \\(?:begin|end)\{{)
    | (?P<escape>\\[^\n])
    | (?P<autolink>(?<!<)<https?://[\w./?=&%\#:+,;~@-]+>)
    | (?P<entity>&(?:\#0*(?:36|92)(?!\d)|\#x0*(?:24|5c)(?![\da-f])|(?:dollar|bsol)(?=;));?)
    | (?P<address>(?<!\w)https?(?=://))
    | (?P<tag><(?=[A-Za-z/!?]))
    | (?P<image>!(?=\[))
    | (?P<link>\](?=\())
    | (?P<definition>^[ \t>]*:(?=[ \t]))
    | (?P<reference>\](?=:)(?!:[ \t]*{_SAFE_ADDRESS}))
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)


class SourceLine(NamedTuple):
    """A line of the source of a cell."""

    source: str
    raw: str | None
    """The line of the text that it stands for, with its line end; None if it stands for none."""


def prose_line(text: str) -> str:
    """Return a title as Markdown that stands behind something else in its line.

    Examples
    --------
    >>> prose_line("Is <b> *bold*?")
    'Is &lt;b> *bold*?'
    """
    shown = visible(text.translate(marks(text, in_line=True)))
    return _prose(" ".join(shown.split()), less_sign(text))


def fenced(text: str, language: str = "") -> list[str]:
    """Return the lines of a code block in which `text` stands as it is.

    Examples
    --------
    >>> fenced("a < b", "text")
    ['```text', 'a < b', '```']
    """
    lines = visible(text).translate(_SEPARATORS).split("\n")
    fence = "`" * _length(lines, _FENCE_LENGTH)
    return [fence + language, *lines, fence]


def source_lines(text: str) -> list[SourceLine]:
    """Return the Markdown source for a text that is Markdown itself: it is rendered as it reads, and does nothing.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    list of SourceLine
        One line for each line of the text; more where a fence was left open, or must stand alone.

    Examples
    --------
    >>> [line.source for line in source_lines("<b> for $5 to $6")]
    ['&lt;b> for <span>&#36;</span>5 to <span>&#36;</span>6']
    """
    parts = _LINE_END.split(text)
    raw = [line + end for line, end in zip(parts[::2], [*parts[1::2], ""], strict=True)]
    rest = iter(raw)
    shown = visible(text.translate(marks(text)))
    sources = _sources(shown.split("\n"), less_sign(text))
    return [SourceLine(source, next(rest) if stands else None) for source, stands in sources]


def less_sign(text: str) -> str:
    """Return what stands for ``<`` in the source of a text, where it is none of the text's own."""
    return "&#60;" if "&lt;" in text else "&lt;"


def _sources(lines: Sequence[str], less: str) -> Iterator[tuple[str, bool]]:
    """Yield lines of source, and whether each stands for the next of the lines."""
    place = 0
    endless: dict[str, int] = {}  # how long fences are that nothing closes any more
    while place < len(lines):
        line = lines[place]
        if fence := FENCE.fullmatch(line):
            marks = fence[1] or fence[3]
            end = _fence_end(lines, place, marks)
            yield from _fence(lines, place, end, marks)
        elif nested := _NESTEDFENCE.fullmatch(line):
            margin, marks = nested[1], nested[2]
            end, is_closed = _nested_end(lines, place, nested)
            if not is_closed and margin.isspace() and len(marks) < endless.get(marks[0], len(line)):
                far = _fence_end(lines, place, marks)
                if far < len(lines):  # it is indented a little, and what it holds is not
                    yield from _fence(lines, place, far, marks)
                    place = far + 1
                    continue
                endless[marks[0]] = len(marks)
            yield from ((source, True) for source in _nested(lines[place : end + 1], nested, is_closed=is_closed))
        else:
            end = place
            while line.strip() and end + 1 < len(lines) and _is_prose(lines[end + 1]):
                end += 1
            text = "\n".join(lines[place : end + 1])
            yield from ((source, True) for source in _not_as_headers(_prose(text, less).split("\n")))
        place = end + 1


def _is_prose(line: str) -> bool:
    return bool(line.strip()) and not FENCE.fullmatch(line) and not _NESTEDFENCE.fullmatch(line)


def closes(line: str, fence: str) -> bool:
    """Whether a line closes a code block that `fence` has opened."""
    marks = line.strip(" \t")
    return len(marks) >= len(fence) and not marks.strip(fence[0])


def _fence_end(lines: Sequence[str], start: int, fence: str) -> int:
    """Return the line that closes a fence, or the number of lines."""
    for place in range(start + 1, len(lines)):
        if closes(lines[place], fence) and not lines[place].startswith(("    ", "\t")):
            return place
    return len(lines)


def _nested_end(lines: Sequence[str], start: int, opening: re.Match[str]) -> tuple[int, bool]:
    """Return the last line of a fence in a list or a quotation, and whether it closes the fence."""
    is_quoted = ">" in opening[1]
    last = start
    for place in range(start + 1, len(lines)):
        line = lines[place]
        if is_quoted != line.lstrip().startswith(">") if is_quoted else line.strip() and not line[0].isspace():
            break
        if closes(line[_margin(line) :], opening[2]):
            return place, True
        last = place if line.strip() else last
    return last, False


def _margin(line: str) -> int:
    match = _MARGIN.match(line)
    return match.end() if match else 0


def _length(lines: Sequence[str], wanted: int) -> int:
    """Return how long a fence must be for no line between to be taken for its end, by any rule."""
    longest = max((len(marks) for line in lines for marks in _FENCE_MARKS.findall(line)), default=0)
    return max(wanted, longest + 1 if longest >= wanted else wanted)


def _fence(lines: Sequence[str], start: int, end: int, fence: str) -> Iterator[tuple[str, bool]]:
    content = lines[start + 1 : end]
    marks = fence[0] * _length(content, len(fence))
    yield marks + _language(lines[start]), True
    yield from ((line, True) for line in content)
    yield marks, end < len(lines)
    if lines[end + 1 : end + 2] not in ([], [""]) and any(_FORMULA_MARK.search(line) for line in content):
        yield "", False  # no formula goes on behind a blank line


def _language(line: str) -> str:
    """Return the language that a fence names, if it is one that programs give colours: they draw others, as HTML."""
    name = _LANGUAGE.search(line)
    return name[0] if name and has_lexer(name[0]) else ""


def _nested(lines: Sequence[str], opening: re.Match[str], *, is_closed: bool) -> Iterator[str]:
    margin, fence = opening[1], opening[2]
    content = lines[1:-1] if is_closed else lines[1:]
    # where a fence stands otherwise, programs do not agree on where it ends
    is_plain = _PLAIN_MARGIN.fullmatch(margin) and is_closed and lines[-1].rstrip() == margin + fence
    begin = margin.rstrip() or margin
    if is_plain and all(
        (line.startswith(begin) or not line.strip()) and not _HARMFUL.search(line) and not _FENCE_MARKS.search(line)
        for line in content
    ):
        yield margin + fence + _language(opening[3])
        yield from lines[1:]
        return
    body = [line[: _margin(line)] + line[_margin(line) :].translate(ENTITIES) for line in content]
    *written, last = [f"{margin}<pre>", *body]
    yield from [*written, f"{last}</pre>"]  # an end tag alone on its line would begin another block
    if is_closed:
        yield lines[-1][: _margin(lines[-1])].rstrip()


def _prose(text: str, less: str) -> str:
    """Return the source of lines without a blank line between them, outside of fences."""
    is_lonely = text.count("$") == 1 and "\\(" not in text and "\\[" not in text
    dollar = "$" if is_lonely else DOLLAR
    done: list[str] = []
    place = 0
    while match := _TOKEN.search(text, place):
        done.append(text[place : match.start()])
        place = match.end()
        kind, token = match.lastgroup, match[0]
        if match["code"]:
            done.append(_code(match["inner"]) if _HARMFUL.search(match["inner"]) else token)
        elif kind == "math":
            formula = formula_at(text, match.start())
            if formula and formula.only_draws and (written := _formula(formula)):
                done.append(written)
                place = formula.end
            elif token.startswith("$"):
                done.append(dollar)
            else:
                done.append(token if token in ("\\(", "\\[") else BACKSLASH + token[1:])
        elif kind in ("address", "link"):
            done.append(_leading(kind, token, text, match.start()))
        elif kind == "escape":
            done.append(_escape(token, text[place : place + 6], dollar, less))
        else:
            done.append(_mark(kind, token, less))
    done.append(text[place:])
    return "".join(done)


def _not_as_headers(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines of source such that none is a heading that looks as if another message began there."""
    is_like = [_LIKE_HEADER.match(html.unescape(line[:_BEGIN])) for line in lines]
    for line, is_like_header in zip(lines, is_like, strict=True):
        heading = _HEADING.fullmatch(line)
        if heading and (is_like_header if heading["text"] else any(is_like)):
            yield f"{heading['margin']}\\{line[heading.end('margin') :]}"
        else:
            yield line


def _mark(kind: str | None, token: str, less: str) -> str:  # noqa: PLR0911 - one line for each kind
    match kind:
        case "entity":
            return DOLLAR if html.unescape(token) == "$" else BACKSLASH
        case "autolink":
            return _address(token[1:-1], token[1:-1])
        case "tag":
            return less
        case "image":
            return f"\\{token}"
        case "reference":
            return f"{token}\\"
        case "definition":
            return token.replace(":", "\\:")
        case "backticks" if len(token) >= _FENCE_LENGTH:  # what kept it from opening a fence may be gone
            return token.translate(ENTITIES)
        case _:
            return token


def _leading(kind: str, token: str, text: str, place: int) -> str:
    """Return what begins an address, or the address of a link: such that it leads nowhere if it is none of the web.

    JupyterLab takes ``http://a…`` for a file beside the notebook, and asks its server for it.
    """
    if kind == "address":
        found = _ADDRESS.match(text, place)
        return _address(token, found[0] if found else "")
    found = _DESTINATION.match(text, place + 1)
    return token if found and (found[1].startswith("#") or is_safe_url(found[1])) else f"{token}\\"


def _address(shown: str, url: str) -> str:
    return shown if is_safe_url(url.rstrip(_BEHIND_ADDRESS)) else f"&#{ord(shown[0])};{shown[1:]}"


def _escape(token: str, following: str, dollar: str, less: str) -> str:
    match token[1]:
        case "<":
            return less
        case "$":
            return token if dollar == "$" else dollar
        case "\\" if following.startswith(("\\", "(", "[", ")", "]", "begin{", "end{")):
            return BACKSLASH
        case _:
            return token


def _code(inner: str) -> str:
    """Return a code span that is harmless where it is taken for text, too."""
    if inner[0] == inner[-1] == " " and inner.strip():
        inner = inner[1:-1]
    return f"<code>{inner.translate(ENTITIES)}</code>"


def _formula(formula: Formula) -> str:
    """Return a formula as most programs know it, or nothing where it would do something if it was taken for text."""
    if _NOT_IN_FORMULA.search(formula.inner):
        return ""
    inner = formula.inner.replace("<", "\\lt ")
    match formula.opener:
        case "\\[" | "$$" if "\n\n" not in inner:
            return f"$${inner}$$"
        case "\\(" | "$" if "\n" not in inner:
            return f"${inner.strip()}$"
        case "$$" | "\\[" | "$" | "\\(":
            return ""
        case _:
            return formula.opener + inner + formula.closer
