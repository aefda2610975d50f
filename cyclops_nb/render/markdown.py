"""Markdown of models made into HTML that can do nothing.

Two layers, each enough alone against script: the parser has HTML switched off, so tags are text that is shown, and
its output goes through an allow-list of elements, attributes and address schemes. Neither an image nor anything
else is fetched when the page opens: an image becomes a link that names its host.

The text itself is never changed; what is made here is for the eye. A text that is too long is cut before anything
looks at it, which bounds what a hostile one can cost.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererProtocol
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape

from cyclops_nb.render.escape import EMPTY, LINK_REL, MATH_OFF, fragment, link, trusted
from cyclops_nb.render.formulas import MATH_ON, add_formulas, is_unclosed
from cyclops_nb.render.highlight import CODE_CLASSES, highlight, is_language
from cyclops_nb.render.text import cut, left_out, visible
from cyclops_nb.render.urls import is_safe_url

__all__ = ["ALLOWED_ATTRIBUTES", "ALLOWED_TAGS", "sanitised", "settled", "to_html"]

ALLOWED_TAGS: Final = frozenset(
    {"a", "blockquote", "br", "code", "del", "div", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p"}
    | {"pre", "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"}
)
"""The elements that Markdown can come to."""

ALLOWED_ATTRIBUTES: Final = {
    "a": {"href", "title"},
    "div": {"class"},
    **{f"h{level}": {"aria-level", "class"} for level in range(1, 7)},
    "ol": {"start"},
    "span": {"class"},
    "td": {"style"},
    "th": {"style"},
}
"""Their attributes; of ``class`` and ``style`` only the values that are made here."""

_NOT_IN_CONTENTS = "jp-toc-ignore"
"""The class of headings that JupyterLab keeps out of a notebook's table of contents, which is the author's."""
_OUTER_LEVEL = 4
"""The level of the heading of a message, below which those in its text stand."""
_CLASSES = frozenset([MATH_ON, _NOT_IN_CONTENTS, *CODE_CLASSES])
_STYLES = frozenset(f"text-align:{side}" for side in ("left", "center", "right"))
_HIGHLIGHTED = 10_000  # characters of code in one text that get colours: some 30 ms
_TASK = re.compile(r"\[([ xX])\](?=\s)")
_OPAQUE = ("fence", "code_block", "formula_block")
_LINE_END = re.compile(r"\r\n|\r|\n")


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802 - the name is the parser's
        return is_safe_url(url)


def to_html(text: str, *, limit: int | None = 100_000) -> Markup:
    """Return Markdown as HTML that runs nothing, loads nothing and looks like nothing but an answer.

    CommonMark with tables, strikethrough, task lists, highlighted code and LaTeX formulas. Tags are shown as text.

    Parameters
    ----------
    text : str
        Markdown, as a model or a user wrote it.
    limit : int or None
        How many characters are shown; the middle of a longer text is left out, which is said. None for all.

    Returns
    -------
    Markup
        A ``<div>``.

    Examples
    --------
    >>> print(to_html("**Hello** <thinking>"))
    <div class="cy-md mathjax_ignore tex2jax_ignore"><p><strong>Hello</strong> &lt;thinking&gt;</p>
    </div>
    """
    begin, omitted, end = cut(text, limit)
    body = _clean(begin)
    if omitted:
        body += fragment('<p class="cy-cut">{}</p>', left_out(omitted)) + _clean(end)
    return fragment('<div class="{}">{}</div>', f"cy-md {MATH_OFF}", body)


def settled(text: str, *, limit: int) -> tuple[int, str]:
    r"""Return how much of a Markdown text that still grows is finished: all but its last block.

    Parameters
    ----------
    text : str
        The text so far.
    limit : int
        If the last block is longer, in characters, and a list or code, it is parted before its last item or line.

    Returns
    -------
    tuple of int, str
        How many characters can be shown as they are from now on, and what must stand before the rest when it is
        shown by itself: the line that opens the code which was parted, else nothing.

    Examples
    --------
    >>> settled("# Title\n\nText that is still wri", limit=1_000)
    (0, '')
    >>> settled("# Title\n\nText.\n\nMore", limit=1_000)
    (9, '')
    """
    starts = [0, *(end.end() for end in _LINE_END.finditer(text))]
    if text.endswith("\r"):  # the other half of a line end may follow
        starts.pop()
    tokens: list[Token] = []
    source = visible(text[: starts[-1]])  # what the last line will be is not known before it has ended
    _PARSER.block.parse(source, _PARSER, {}, tokens)
    blocks = [token for token in tokens if token.level == 0 and token.map]
    if not blocks:
        return 0, ""
    last = blocks[-1]
    first, end = last.map or (0, 0)
    lines = source.split("\n")
    for block in blocks[:-1]:
        begin, stop = block.map or (0, 0)
        if block.type not in _OPAQUE and any(is_unclosed(lines, number) for number in range(begin, stop)):
            return starts[begin], ""
    if starts[-1] - starts[first] > limit:
        if last.type == "fence" and end - first > 3:  # noqa: PLR2004 - a line of code stays with what closes it
            return starts[end - 2], text[starts[first] : starts[first + 1]]
        items = [token.map[0] for token in tokens if token.type == "list_item_open" and token.level == 1 and token.map]
        first = max([first, *items])
    return starts[first], ""


def sanitised(html: str) -> Markup:
    """Return what is left of somebody's HTML when it can run nothing, load nothing and look like nothing of the page.

    Parameters
    ----------
    html : str
        Any HTML, such as that of a table that a tool displays.

    Returns
    -------
    Markup
        A ``<div>``; empty if there is no text left in it.

    Examples
    --------
    >>> print(sanitised("<table onclick='x()'><tr><td>1</td></tr></table><script>x()</script>"))
    <div class="cy-md cy-html mathjax_ignore tex2jax_ignore"><table><tbody><tr><td>1</td></tr></tbody></table></div>
    """
    body = _allowed(visible(html))
    if not body.striptags().strip():
        return EMPTY
    return fragment('<div class="{}">{}</div>', f"cy-md cy-html {MATH_OFF}", body)


def _clean(text: str) -> Markup:
    return _allowed(_PARSER.render(visible(text), {}))


def _allowed(html: str) -> Markup:
    html = nh3.clean(
        html,
        tags=set(ALLOWED_TAGS),
        attributes={tag: set(names) for tag, names in ALLOWED_ATTRIBUTES.items()},
        attribute_filter=_filter_attribute,
        url_schemes={"http", "https", "mailto"},
        link_rel=LINK_REL,
        set_tag_attribute_values={"a": {"target": "_blank"}},  # in a widget a click would leave JupyterLab
    )
    return trusted(html)


def _filter_attribute(_tag: str, name: str, value: str) -> str | None:
    match name:
        case "class":
            return value if value in _CLASSES else None
        case "style":
            return value if value in _STYLES else None
        case "href":
            return value if is_safe_url(value) else None
        case "start" | "aria-level":
            return value if value.isdecimal() else None
        case _:
            return value


def _parser() -> MarkdownIt:
    settings = {"html": False, "linkify": False, "inline_definitions": True}
    md = _Parser("commonmark", settings).enable(["table", "strikethrough"])
    md.core.ruler.push("images", _images_to_links)
    md.core.ruler.push("tasks", _mark_tasks)
    md.add_render_rule("fence", _render_fence)
    md.add_render_rule("heading_open", _render_heading)
    md.add_render_rule("definition", _render_definition)
    add_formulas(md)
    return md


def _images_to_links(state: StateCore) -> None:
    for token in state.tokens:
        if not token.children or not any(child.type == "image" for child in token.children):
            continue
        children: list[Token] = []
        depth = 0
        for child in token.children:
            depth += child.nesting if child.type in ("link_open", "link_close") else 0
            children += _image_link(child, in_link=depth > 0) if child.type == "image" else [child]
        token.children = children


def _image_link(image: Token, *, in_link: bool) -> list[Token]:
    source = str(image.attrGet("src") or "")
    alt = " ".join(_plain_text(image.children or []).split())
    shown = Token("text", "", 0, content=f"image: {alt} ({_host(source)})" if alt else f"image ({_host(source)})")
    if in_link:
        return [shown]
    return [Token("link_open", "a", 1, attrs={"href": source}), shown, Token("link_close", "a", -1)]


def _plain_text(tokens: Sequence[Token]) -> str:
    return "".join(token.content if token.type != "image" else _plain_text(token.children or []) for token in tokens)


def _host(url: str) -> str:
    return urlsplit(url).hostname or url


def _mark_tasks(state: StateCore) -> None:
    for item, _, inline in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        first = inline.children[0] if item.type == "list_item_open" and inline.children else None
        if first is not None and first.type == "text" and (box := _TASK.match(first.content)):
            first.content = ("\u2610" if box[1] == " " else "\u2611") + first.content[box.end() :]


def _render_fence(
    _self: RendererProtocol, tokens: Sequence[Token], idx: int, _options: OptionsDict, env: EnvType
) -> str:
    token = tokens[idx]
    done = env["highlighted"] = env.get("highlighted", 0) + len(token.content)
    info = token.info.strip()
    language = (info.split() or [""])[0]
    code = highlight(token.content, language) if done <= _HIGHLIGHTED else escape(token.content)
    is_told = bool(info) and not (language == info and is_language(info))
    name = fragment('<div class="cy-label">{}</div>', info) if is_told else ""
    return str(fragment("{}<pre><code>{}</code></pre>\n", name, code))


def _render_heading(
    _self: RendererProtocol, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType
) -> str:
    tag = tokens[idx].tag
    level = min(_OUTER_LEVEL + int(tag[1]), 6)
    return str(fragment('<{} class="{}" aria-level="{}">', tag, _NOT_IN_CONTENTS, level))


def _render_definition(
    _self: RendererProtocol, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType
) -> str:
    """Show where a link leads that is defined apart from its text: else the line would be gone, used or not."""
    given = tokens[idx].meta
    title = f' "{given["title"]}"' if given["title"] else ""
    return str(fragment("<p>[{}]: {}{}</p>\n", given["label"], link(given["url"]), title))


_PARSER: Final = _parser()
