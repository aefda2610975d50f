"""Colours for code in answers: a handful of classes, no style attributes, no script.

A saved notebook carries this markup in each of its outputs, so tokens fall into five kinds only. The language is
named by a model: it picks one of the lexers below and nothing else (pygments would also ask installed plugins).
Who calls bounds the amount of code, since the time of a lexer can grow with its square.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import get_all_lexers, get_lexer_by_name
from pygments.token import Comment, Keyword, Literal, Name, Number, Operator, String, _TokenType

from cyclops_nb.render.escape import spans

__all__ = ["CODE_CLASSES", "has_lexer", "highlight", "is_language"]

CODE_CLASSES = {
    "cy-k": "keywords",
    "cy-s": "strings",
    "cy-c": "comments",
    "cy-n": "numbers",
    "cy-f": "names that are defined, keys and tags",
    "cy-label": "what the block is called, if that is more than a language",
}
"""The classes of code, and what has them."""

_KINDS: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "cy-c"),
    (Keyword, "cy-k"),
    (Operator.Word, "cy-k"),
    (Number, "cy-n"),
    (String, "cy-s"),
    (Literal, "cy-s"),
    (Name.Function, "cy-f"),
    (Name.Class, "cy-f"),
    (Name.Decorator, "cy-f"),
    (Name.Tag, "cy-f"),
    (Name.Attribute, "cy-f"),
)
# Not here: the lexers of C, C++, Java, Scala, Kotlin and TypeScript, which take seconds for some texts of 10 kB.
_LANGUAGES = {
    name: lexer
    for lexer, names in {
        "bash": "bash sh shell zsh",
        "css": "css",
        "go": "go golang",
        "html": "html",
        "javascript": "js javascript jsx ts typescript",
        "json": "json jsonl",
        "julia": "jl julia",
        "latex": "latex tex",
        "lua": "lua",
        "python": "py python python3",
        "r": "r",
        "ruby": "rb ruby",
        "rust": "rs rust",
        "sql": "sql",
        "toml": "toml",
        "xml": "xml",
        "yaml": "yaml yml",
    }.items()
    for name in names.split()
}
_PLAIN = {"", "text", "txt", "plain", "plaintext", "none"}
_SPACE_RUN = re.compile(r"\s{300}")


def highlight(code: str, language: str) -> Markup:
    """Return code with its tokens in ``<span>`` elements.

    Parameters
    ----------
    code : str
        The code.
    language : str
        Its language as a fence names it; an unknown one gives the code alone.

    Returns
    -------
    Markup
        The code, escaped.

    Examples
    --------
    >>> highlight("x = 1", "python")
    Markup('x = <span class="cy-n">1</span>')
    """
    lexer = _LANGUAGES.get(language.lower())
    if lexer is None or _SPACE_RUN.search(code):  # lexers go over a run of spaces again and again
        return escape(code)
    tokens = list(_lexer(lexer).get_tokens(code))
    if "".join(text for _, text in tokens) != code:  # a lexer drops what it takes for a byte order mark
        return escape(code)
    pieces = []
    for name, group in groupby(tokens, key=lambda token: _class(token[0])):
        text = "".join(piece for _, piece in group)
        pieces.append((name if text.strip() else "", text))
    return spans(pieces)


def is_language(name: str) -> bool:
    """Tell whether a word names a language that gets colours, or one of the usual names of plain text.

    Examples
    --------
    >>> is_language("Python"), is_language("src/app.py")
    (True, False)
    """
    return name.lower() in _LANGUAGES or name.lower() in _PLAIN


def has_lexer(name: str) -> bool:
    """Tell whether a word names a language of code, and none of what is drawn, such as ``mermaid``.

    Examples
    --------
    >>> has_lexer("C++"), has_lexer("mermaid")
    (True, False)
    """
    return name.lower() in _lexer_names()


@lru_cache(maxsize=1)
def _lexer_names() -> frozenset[str]:
    return frozenset(alias for _, aliases, *_ in get_all_lexers(plugins=False) for alias in aliases) | _PLAIN


@lru_cache(maxsize=len(_LANGUAGES))
def _lexer(name: str) -> Lexer:
    return get_lexer_by_name(name, stripnl=False, ensurenl=False)


@lru_cache(maxsize=512)
def _class(kind: _TokenType) -> str:
    return next((name for parent, name in _KINDS if kind in parent), "")
