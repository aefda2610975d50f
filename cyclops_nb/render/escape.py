"""Fragments of HTML that escape what is put into them.

Escaping by memory fails once in a thousand places, so it is the other way round: a template is a literal of
this library, and every value that goes into it is escaped unless it is `Markup`, which only this package makes.
Escaping protects text and quoted attributes; where it does not protect (addresses, styles, handlers, unquoted
attributes) a placeholder is refused, and `link` and `image` are the way.

Front ends look for LaTeX in whatever a cell shows, and LaTeX commands can make links, load things and move ink.
An output is therefore wrapped in `root`, which turns that off for all of it but the formulas that `markdown`
has checked.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from datetime import date
from functools import lru_cache
from numbers import Number
from typing import Any

from markupsafe import Markup, escape

from cyclops_nb.render.text import cut, indented_json, json_text, left_out, one_line, size, visible
from cyclops_nb.render.urls import is_safe_url

__all__ = [
    "EMPTY",
    "LINK_REL",
    "MATH_OFF",
    "fragment",
    "image",
    "join",
    "json_block",
    "label",
    "link",
    "root",
    "spans",
    "text_block",
    "trusted",
]

MATH_OFF = "mathjax_ignore tex2jax_ignore"
"""Classes that keep MathJax (from version 3 on; before) away from an element and all that is in it."""

LINK_REL = "noopener noreferrer"
"""What every link says of itself: the other side learns nothing about the page."""

EMPTY = Markup()
"""Nothing."""

_TAG = re.compile(r"<[/!]?[A-Za-z][^<>]*>")
_QUOTED = re.compile(r"""([\w:.-]+)\s*=\s*("[^"]*"|'[^']*')""")
_ACTIVE_ELEMENT = re.compile(r"<\s*(?:script|style|iframe|object|embed|base|meta|link)\b", re.IGNORECASE)
_ACTIVE_ATTRIBUTE = re.compile(
    r"on\w*|style|href|xlink:href|src|srcset|srcdoc|action|formaction|data(?:-.*)?|poster|background|id|name",
    re.IGNORECASE,
)
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_IMAGE_STARTS = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/jpg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
}


def trusted(html: str) -> Markup:
    """Return HTML that nothing escapes any more: for this module, and for what has passed the sanitiser.

    A test sees to it that nothing else calls this, and that nothing else makes `Markup` of text.

    Parameters
    ----------
    html : str
        HTML that can do nothing.

    Returns
    -------
    Markup
        The same.

    Examples
    --------
    >>> fragment("<b>{}</b>", trusted("<hr>"))
    Markup('<b><hr></b>')
    """
    return Markup(html)  # noqa: S704 - the one place


def fragment(template: str, /, *args: object, **values: object) -> Markup:
    """Return a template filled with values, each of them escaped unless it is `Markup`.

    Parameters
    ----------
    template : str
        HTML with placeholders of `str.format`. It must be a literal of this library or a file of the package,
        never text that came from outside.
    *args, **values : object
        What goes into the placeholders.

    Returns
    -------
    Markup
        HTML in which the values are text or parts of quoted attributes.

    Raises
    ------
    ValueError
        If a placeholder stands where escaping does not protect, or the template has an active element.

    Examples
    --------
    >>> fragment('<b title="{why}">{n:,}</b>', why='"x"', n=1234)
    Markup('<b title="&#34;x&#34;">1,234</b>')
    """
    _check(template)
    named = {name: _untrusted(value) for name, value in values.items()}
    return trusted(template).format(*map(_untrusted, args), **named)


def join(parts: Iterable[object], separator: object = "") -> Markup:
    """Return the parts one after the other, each escaped unless it is `Markup`.

    Parameters
    ----------
    parts : iterable of object
        Fragments, or what is to be escaped.
    separator : object
        What goes between them, escaped unless it is `Markup`.

    Returns
    -------
    Markup
        The whole.

    Examples
    --------
    >>> join([fragment("<hr>"), "a < b"], " ")
    Markup('<hr> a &lt; b')
    """
    return escape(_untrusted(separator)).join([escape(_untrusted(part)) for part in parts])


def root(*parts: object, kind: str = "", css: str = "") -> Markup:
    """Return the outermost element of an output.

    Every output goes through here: inside it front ends look for LaTeX only in the formulas that `markdown` has
    checked.

    Parameters
    ----------
    *parts : object
        What is shown, escaped unless it is `Markup`.
    kind : str
        Class names beside ``cy``, separated by spaces.
    css : str
        A style sheet of the package, put before the rest.

    Returns
    -------
    Markup
        A ``<div>``, with a ``<style>`` in it when there is a style sheet.

    Raises
    ------
    ValueError
        If the style sheet could end its own element.

    Examples
    --------
    >>> root("a < b", kind="cy-run")
    Markup('<div class="cy cy-run mathjax_ignore tex2jax_ignore">a &lt; b</div>')
    """
    if "<" in css:
        raise ValueError("The style sheet contains '<', which could end its element. Write it without.")
    style = trusted(f"<style>{css}</style>") if css else ""
    return fragment('<div class="{}">{}{}</div>', " ".join(["cy", *kind.split(), MATH_OFF]), style, join(parts))


def spans(pieces: Iterable[tuple[str, str]]) -> Markup:
    """Return a text in pieces that have classes; for the thousands of a program, for which `fragment` is too slow.

    Parameters
    ----------
    pieces : iterable of tuple of str, str
        The class of a piece, empty for none, and its text, which is escaped.

    Returns
    -------
    Markup
        The pieces one after the other.

    Examples
    --------
    >>> spans([("cy-n", "1"), ("", " < x")])
    Markup('<span class="cy-n">1</span> &lt; x')
    """
    return trusted(
        "".join(
            f'<span class="{escape(name)}">{escape(text)}</span>' if name else str(escape(text))
            for name, text in pieces
        )
    )


def label(text: str, limit: int = 120) -> Markup:
    """Return a short name in an element of its own, so that its direction does not touch what is beside it.

    Parameters
    ----------
    text : str
        Any text: a tool name, title, id or model name.
    limit : int
        Length in characters beyond which it is cut.

    Returns
    -------
    Markup
        A ``<bdi>`` element. In attributes use `cyclops_nb.render.text.one_line`.

    Examples
    --------
    >>> label("<b>")
    Markup('<bdi>&lt;b&gt;</bdi>')
    """
    return fragment("<bdi>{}</bdi>", one_line(text, limit))


def text_block(text: str, limit: int | None = 10_000) -> Markup:
    r"""Return a text as it is, in a ``<pre>``, its middle cut out when it is long.

    Parameters
    ----------
    text : str
        Any text: a tool's result, arguments, an error.
    limit : int or None
        How many characters are shown; None for all.

    Returns
    -------
    Markup
        The element.

    Examples
    --------
    >>> text_block("<b>\nline")
    Markup('<pre class="cy-text">&lt;b&gt;\nline</pre>')
    """
    begin, omitted, end = cut(text, limit)
    note = fragment('\n<span class="cy-cut">{}</span>\n', left_out(omitted)) if omitted else ""
    leading = "\n" if begin.startswith(("\n", "\r")) else ""  # a parser drops the first newline of a <pre>
    return fragment('<pre class="cy-text">{}{}{}{}</pre>', leading, begin, note, end)


def json_block(value: object, limit: int | None = 10_000) -> Markup:
    """Return JSON in a form that people can read.

    Text that is JSON is indented, its keys and numbers stay as they were written; text that is not is shown as
    it is. Other values are written as JSON first.

    Parameters
    ----------
    value : object
        JSON text, or a value.
    limit : int or None
        How many characters are shown; None for all.

    Returns
    -------
    Markup
        A `text_block`.

    Examples
    --------
    >>> print(json_block('{"city": "Paris", "n": 1.50}'))
    <pre class="cy-text">{
      &#34;city&#34;: &#34;Paris&#34;,
      &#34;n&#34;: 1.50
    }</pre>
    """
    text = value if isinstance(value, str) else json_text(value)
    return text_block(indented_json(text) or text, limit)


def image(data: str, media_type: str, alt: str = "", limit: int = 8_000_000) -> Markup:
    """Return an image that is part of the page, or a note about it.

    Parameters
    ----------
    data : str
        The image as base64.
    media_type : str
        Its type. PNG, JPEG, GIF and WebP are shown; SVG is not, it can hold scripts and addresses.
    alt : str
        What it shows.
    limit : int
        The longest base64 text that is shown, in characters.

    Returns
    -------
    Markup
        An ``<img>``, or a text that names type and size.

    Examples
    --------
    >>> image("PHN2Zz4=", "image/svg+xml")
    Markup('<span class="cy-note">[image/svg+xml, 5 bytes, not shown]</span>')
    """
    data = "".join(data.split())
    kind = media_type.strip().lower()
    if len(data) <= limit and _is_image(data, kind):
        start = trusted(f'<img class="cy-image" src="data:{kind};base64,{data}"')
        return start + fragment(' style="max-height:15em;max-width:100%" alt="{}">', one_line(alt, 300))
    count = size(len(data) * 3 // 4 - data[-2:].count("="))
    note = f"[{one_line(media_type, 60) or 'unknown type'}, {count}, not shown]"
    return fragment('<span class="cy-note">{}{}</span>', join([label(alt, 300), " "]) if alt.strip() else "", note)


def link(url: str, text: str | None = None) -> Markup:
    """Return a link, or its text alone where the address is none that may be clicked.

    Parameters
    ----------
    url : str
        Any text.
    text : str, optional
        What is shown; the address itself by default.

    Returns
    -------
    Markup
        An ``<a>`` that leaves the page where it is and tells the other side nothing about it, or escaped text.

    Examples
    --------
    >>> link("https://example.org", "docs")
    Markup('<a href="https://example.org" rel="noopener noreferrer" target="_blank"><bdi>docs</bdi></a>')
    """
    shown = label(url if text is None else text, 300)
    if not is_safe_url(url):
        return shown
    return trusted('<a href="{}" rel="{}" target="_blank">{}</a>').format(url, LINK_REL, shown)


def _untrusted(value: object) -> Any:
    """Return a value whose own idea of HTML is not asked for; numbers and dates keep theirs of a format."""
    return value if isinstance(value, (Markup, Number, date)) else visible(str(value))


@lru_cache(maxsize=1024)
def _check(template: str) -> None:
    if _ACTIVE_ELEMENT.search(template):
        raise ValueError(f"The template {template!r} has an active element, which a fragment must not have.")
    for tag in _TAG.findall(template):
        for name, value in _QUOTED.findall(tag):
            if "{" in value and _ACTIVE_ATTRIBUTE.fullmatch(name):
                raise ValueError(
                    f"The template {template!r} has a placeholder in {name!r}, where escaping does not protect."
                    " Use link() or image()."
                )
        if "{" in _QUOTED.sub("", tag):
            raise ValueError(f"The template {template!r} has a placeholder in a tag outside quotes. Quote it.")


def _is_image(data: str, kind: str) -> bool:
    if kind not in _IMAGE_STARTS or len(data) % 4 or not _BASE64.fullmatch(data):
        return False
    try:
        return bool(_IMAGE_STARTS[kind].match(base64.b64decode(data[:64])))
    except binascii.Error:
        return False
