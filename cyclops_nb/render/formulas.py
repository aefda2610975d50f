r"""LaTeX in Markdown: what is a formula, and which formulas a front end may typeset.

MathJax looks for ``$..$``, ``$$..$$``, ``\(..\)`` and ``\[..\]`` in the text of an output, and knows nothing of
Markdown, of money or of shell variables. So the search is done here, while Markdown is parsed: a formula gets
classes that switch MathJax on, in an output where it is off.

A dollar opens a formula by the rule of pandoc: no space after the opening one, no space before the closing one,
no digit after it. Prices and shell variables that this lets through are told by what is between the dollars.

LaTeX is not harmless: it has commands that set addresses, styles, classes, ids and data attributes, load packages
and define macros for the whole page. A formula is typeset when each of its commands is in a list of those that
only draw, and is shown as it was written otherwise. So a command that MathJax gets next year is kept out as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererProtocol
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from cyclops_nb.render.escape import fragment

__all__ = ["MATH_ON", "MAX_FORMULAS", "Formula", "add_formulas", "formula_at", "is_unclosed"]

MATH_ON = "cy-math mathjax_process tex2jax_process"
"""Classes that switch MathJax on again inside an element where it is off."""

MAX_FORMULAS = 1_000
"""How many formulas of one text are typeset: each costs the browser some milliseconds."""

_CLOSERS = {"$$": "$$", "\\[": "\\]", "\\(": "\\)", "$": "$"}
_BEGIN = re.compile(r"\\begin\{([A-Za-z]+\*?)\}")
_COMMAND = re.compile(r"\\([A-Za-z]+|.)", re.DOTALL)
_ENVIRONMENT = re.compile(r"\\(?:begin|end)(?![A-Za-z])(?:\s*\{([A-Za-z]+)\*?\})?")
_BRACE = re.compile(r"\\.|([{}])", re.DOTALL)
_LABEL = re.compile(r"(?<!\\)((?:\\\\)*)\\label\s*\{[^{}]*\}")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_CITATION = re.compile("[\\d\\s,;\u2013-]*")  # some models escape the brackets of "[1]"
_WORD = re.compile(r"[^\W\d_]{2}")
_NAME = re.compile(r"[A-Za-z_]\w+")
_NOT_THERE = -1
_OPENED_AGAIN = -2
_FORMULA_SIGNS = frozenset("\\^_={}")
_OPEN_ENDS = frozenset("/:;,.=-@&?<>\"'+*([{|#%")


def add_formulas(md: MarkdownIt) -> None:
    """Teach a Markdown parser to find formulas and to write them for MathJax.

    Parameters
    ----------
    md : MarkdownIt
        The parser; it is changed.

    Examples
    --------
    >>> md = MarkdownIt()
    >>> add_formulas(md)
    >>> print(md.render("$x^2$ for $5"), end="")
    <p><span class="cy-math mathjax_process tex2jax_process">$x^2$</span> for $5</p>
    """
    interrupts: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    md.block.ruler.before("fence", "formula_block", _find_block, interrupts)
    md.inline.ruler.before("escape", "formula", _find_inline)
    md.add_render_rule("formula", _render)
    md.add_render_rule("formula_block", _render)


def is_unclosed(lines: Sequence[str], number: int) -> bool:
    """Tell whether a line of a paragraph may turn out to begin a formula when more lines have come.

    Parameters
    ----------
    lines : sequence of str
        All lines so far.
    number : int
        Which one is meant.

    Returns
    -------
    bool
        False also if what follows cannot be a formula.

    Examples
    --------
    >>> is_unclosed(["$$", "", "x^2"], 0), is_unclosed(["$$ is money.", "", "So", "", "what?"], 0)
    (True, False)
    """
    line = lines[number].lstrip()
    if _delimiters(line, 0)[0] in ("", "$", "\\("):
        return False
    return not _BLANK_LINE.search("\n".join(lines[number + 1 :]).strip())


class Formula(NamedTuple):
    """A formula in a text."""

    opener: str
    inner: str
    closer: str
    end: int
    """Where it ends in the text."""

    @property
    def only_draws(self) -> bool:
        """Whether it has commands that draw and no others, so that it may be typeset."""
        return _only_draws(self.opener + self.inner + self.closer)


def formula_at(text: str, start: int, stop: int | None = None) -> Formula | None:
    """Return the formula that begins at a place in a text, if one does: dollars there may be money, or variables.

    Parameters
    ----------
    text : str
        Text outside code.
    start : int
        Where to look.
    stop : int, optional
        Where the formula must have ended; by default the end of the text.

    Returns
    -------
    Formula or None
        Also one that must not be typeset; see `Formula.only_draws`.

    Examples
    --------
    >>> formula_at("$x^2$ for $5", 0).inner, formula_at("$x^2$ for $5", 10)
    ('x^2', None)
    """
    opener, closer = _delimiters(text, start)
    if not closer:
        return None
    inner_start = start + len(opener)
    inner_end = _find_closer(text, opener, closer, inner_start)
    end = inner_end + len(closer)
    if inner_end < 0 or end > (len(text) if stop is None else stop):
        return None
    inner = text[inner_start:inner_end]
    if not inner.strip() or (opener == "\\[" and _CITATION.fullmatch(inner)):
        return None
    if opener == "$" and not _is_dollar_formula(inner, text[max(start - 1, 0) : start], text[end : end + 1]):
        return None
    return Formula(opener, inner, closer, end)


def _find_inline(state: StateInline, silent: bool) -> bool:
    found = formula_at(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        _push(state, "formula", found.opener, found.inner, found.closer)
    state.pos = found.end
    return True


def _find_block(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Find a formula that begins and ends with its lines, so that no line of it is read as a list or a heading."""
    first = state.bMarks[start_line] + state.tShift[start_line]
    if state.is_code_block(start_line):
        return False
    opener, closer = _delimiters(state.src, first)
    if not closer or opener in ("$", "\\("):
        return False
    lines: list[str] = []
    for number in range(start_line, end_line):
        line = state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]
        if line and state.sCount[number] < state.blkIndent:
            return False  # the list item ended
        line = line if lines else line[len(opener) :]
        lines.append(line)
        if (found := _find_closer(line, opener, closer, 0)) != _NOT_THERE:
            break
    else:
        return False
    lines[-1] = line[:found]
    inner = "\n".join(lines)
    if found < 0 or line[found + len(closer) :].strip() or _BLANK_LINE.search(inner.strip()) or not inner.strip():
        return False
    state.line = number + 1
    if not silent:
        _push(state, "formula_block", opener, inner, closer).map = [start_line, state.line]
    return True


def _find_closer(text: str, opener: str, closer: str, start: int) -> int:
    """Return where a formula ends, or why it does not: the same opener first, or no closer at all.

    To stop at the next opener keeps the search linear in the text, whatever the text is.
    """
    for match in _marks(opener, closer).finditer(text, start):
        if match.group() == closer:
            return match.start()
        if match.group() == opener:
            return _OPENED_AGAIN
    return _NOT_THERE


@lru_cache(maxsize=128)
def _marks(opener: str, closer: str) -> re.Pattern[str]:
    return re.compile(rf"{re.escape(closer)}|{re.escape(opener)}|\\.", re.DOTALL)


def _delimiters(text: str, pos: int) -> tuple[str, str]:
    """Return what opens a formula at `pos` and what will close it, or two empty strings."""
    if text[pos : pos + 1] not in ("$", "\\"):
        return "", ""
    for length in (2, 1):
        if closer := _CLOSERS.get(text[pos : pos + length]):
            return text[pos : pos + length], closer
    match = _BEGIN.match(text, pos)
    if match and match[1].removesuffix("*") in _allowed("environments"):
        return match[0], f"\\end{{{match[1]}}}"
    return "", ""


def _is_dollar_formula(inner: str, before: str, after: str) -> bool:
    """Tell a formula from what stands between two prices or two shell variables."""
    if inner[0].isspace() or inner[-1].isspace() or after.isdigit() or before == "$" or "`" in inner:
        return False
    if before.isdigit() and inner[-1].isdigit():  # 5$-10$
        return False
    if inner[0].isdigit() and _FORMULA_SIGNS.isdisjoint(inner) and _WORD.search(inner):  # $5 and then 10$
        return inner.isascii() and not any(map(str.isspace, inner))
    if after.isalpha() or after in ("_", "{"):  # $HOME/$USER, $HOME$USER
        return inner[-1] not in _OPEN_ENDS and not _NAME.fullmatch(inner)
    return True


def _push(state: StateInline | StateBlock, kind: str, opener: str, inner: str, closer: str) -> Token:
    token = state.push(kind, "", 0)
    token.content = inner
    token.markup = opener
    token.info = closer
    token.block = kind == "formula_block"
    return token


def _render(_self: RendererProtocol, tokens: Sequence[Token], idx: int, _options: OptionsDict, env: EnvType) -> str:
    token = tokens[idx]
    # a label must be unique in a page, and the same text may be shown twice
    inner = _LABEL.sub(r"\1", token.content)
    count = env["formulas"] = env.get("formulas", 0) + 1
    is_typeset = count <= MAX_FORMULAS and _only_draws(token.markup + inner + token.info)
    source = token.markup + (inner if is_typeset else token.content) + token.info
    if token.block:
        template = '<div class="{0}">{1}</div>\n' if is_typeset else "<pre><code>{1}</code></pre>\n"
    else:
        template = '<span class="{0}">{1}</span>' if is_typeset else "<code>{1}</code>"
    return str(fragment(template, MATH_ON, source))


def _only_draws(source: str) -> bool:
    """Tell whether a formula has known commands and environments alone, and ends where it seems to end."""
    commands = {name for name in _COMMAND.findall(source) if name.isalpha() and name.isascii()}
    environments = set(_ENVIRONMENT.findall(source))
    depth = 0
    for brace in _BRACE.findall(source):
        depth += (brace == "{") - (brace == "}")
        if depth < 0:
            return False
    return depth == 0 and commands <= _allowed("commands") and environments <= _allowed("environments")


@lru_cache(maxsize=2)
def _allowed(section: str) -> frozenset[str]:
    text = files("cyclops_nb.render").joinpath("math_commands.txt").read_text(encoding="utf-8")
    return frozenset(text.partition(f"[{section}]\n")[2].partition("\n[")[0].split())
