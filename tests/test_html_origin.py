"""One place makes HTML of text, and one sanitises: nothing else puts tags together."""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import Page, read
from test_layout import MODULES, parse

from cyclops_nb.display.register import mimebundle
from cyclops_nb.messages import AssistantMessage, ReasoningPart, TextPart, ToolCall
from cyclops_nb.render.escape import label, text_block
from cyclops_nb.render.markdown import to_html

MAKES_HTML = {"cyclops_nb.render.escape", "cyclops_nb.display.html"}
MAKES_MARKDOWN = {"cyclops_nb.stores.notebooks.markdown", "cyclops_nb.stores.notebooks.names"}
"""The source of Markdown cells, which knows a few tags, is escaped by rules of its own, in one place as well."""
MAY_TRUST = {"cyclops_nb.render.escape", "cyclops_nb.render.markdown"}
"""Who says what is HTML: the module that escapes, and the one with the sanitiser."""
TAG = re.compile(r"</?[a-z][a-z0-9]*(\s[^<>]*)?/?>|<[a-z]+\s+[a-z-]+=|<!--", re.IGNORECASE)


def texts(node):
    """Return the literal text in a node, but for the templates of `fragment`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "fragment":
        return ""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(map(texts, ast.iter_child_nodes(node)))


def is_put_together(node):
    """Say whether a node makes a text of other texts: f-strings, ``%``, ``+``, ``format``, ``join``, ``replace``."""
    if isinstance(node, ast.JoinedStr):
        return any(isinstance(part, ast.FormattedValue) for part in node.values)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add | ast.Mod)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in {"format", "format_map", "join", "replace", "substitute"}
    return False


def tags_put_together(tree):
    """Return the lines in which a tag is put together with something."""
    in_reprs = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__repr__"
        for inner in ast.walk(node)
    }
    nodes = [node for node in ast.walk(tree) if is_put_together(node) and id(node) not in in_reprs]
    return [node.lineno for node in nodes if TAG.search(texts(node))]


def calls_of(tree, name):
    """Return the lines in which something of that name is called, or handed to something that may call it."""
    annotations = {
        id(inner)
        for node in ast.walk(tree)
        for field in ("annotation", "returns", "slice")
        if isinstance(getattr(node, field, None), ast.AST)
        for inner in ast.walk(getattr(node, field))
    }
    checks = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"isinstance", "cast"}
        for inner in ast.walk(node)
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if ((isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name))
        and id(node) not in annotations | checks
        and isinstance(node.ctx, ast.Load)
    ]


def is_alias(tree, name):
    """Return the lines in which a type is named by another name, which is no call."""
    return [
        inner.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for inner in ast.walk(node.value)
        if isinstance(node.value, ast.BinOp | ast.Subscript) and isinstance(inner, ast.Name) and inner.id == name
    ]


@pytest.mark.parametrize("module", MODULES)
class TestEveryModule:
    def test_puts_no_tags_together(self, module):
        """HTML is made by `fragment` and its kin, which escape; no f-string, ``%``, ``+`` or ``format`` makes any."""
        if module in MAKES_HTML | MAKES_MARKDOWN:
            return
        assert tags_put_together(parse(module)) == []

    def test_says_of_no_text_that_it_is_html(self, module):
        """`Markup` is made in one function, and that one is called where text is escaped or sanitised alone."""
        tree = parse(module)
        made = sorted(set(calls_of(tree, "Markup")) - set(is_alias(tree, "Markup")))
        assert len(made) == (2 if module == "cyclops_nb.render.escape" else 0)  # in `trusted`, and `EMPTY`
        assert module in MAY_TRUST or not calls_of(tree, "trusted")

    def test_uses_no_other_way_to_say_it(self, module):
        """Nothing calls what makes HTML of its own, or hands HTML to a front end past `mimebundle` and its kin."""
        imported = {
            alias.name
            for node in ast.walk(parse(module))
            if isinstance(node, ast.ImportFrom)
            and (node.module or "").partition(".")[0] in {"IPython", "html", "jinja2"}
            for alias in node.names
        }
        assert not imported & {"HTML", "Markdown", "Javascript", "SVG", "Latex", "IFrame", "display_html", "Template"}


class TestRule:
    """The rule itself can be broken."""

    @pytest.mark.parametrize(
        "source",
        [
            "f'<b>{name}</b>'",
            "'<b>%s</b>' % name",
            "'<b>' + name",
            "'<b title={}>'.format(name)",
            "'<br>'.join(names)",
            "text.replace('x', '<br>')",
            "f'<img src={name}'",
            "template + '</b>'",
        ],
    )
    def test_sees_tags_that_are_put_together(self, source):
        """Each way to put a tag together is seen."""
        assert tags_put_together(ast.parse(source)) == [1]

    @pytest.mark.parametrize("source", ["fragment('<b>{}</b>', name)", "f'{a} < {b}'", "'a <b' + c", "x = '<b>'"])
    def test_sees_no_tag_in_other_texts(self, source):
        """Templates for `fragment` are literals, and a comparison is no tag."""
        assert tags_put_together(ast.parse(source)) == []

    @pytest.mark.parametrize("source", ["Markup(x)", "map(Markup, x)", "markupsafe.Markup(x)", "f = Markup"])
    def test_sees_markup_that_is_made(self, source):
        """A call is seen, and so is what could become one."""
        assert calls_of(ast.parse(source), "Markup") == [1]
        assert calls_of(ast.parse("def f(x: Markup) -> Markup: isinstance(x, Markup)"), "Markup") == []


NAMES = st.sampled_from(["thinking", "b", "script", "img", "style", "x-y", "A", "div", "details", "textarea", "svg:a"])
TAGS = st.builds(
    lambda slash, name, rest, end: f"<{slash}{name}{rest}{end}",
    st.sampled_from(["", "/"]),
    NAMES,
    st.sampled_from(["", " ", " a=b", ' href="x y"', " onclick='f()'", "/", " disabled"]),
    st.sampled_from([">", ">", "/>", ""]),
) | st.sampled_from(["<!-- a -->", "<!DOCTYPE a>", "<![CDATA[a]]>", "<?a?>", "</>", "< b >", "<>", "<1>", "List<int>"])
PROSE = st.text("ab c1.", max_size=8)


def squeezed(text):
    return " ".join(text.split())


class TestTags:
    """What a model writes in angle brackets."""

    @given(PROSE, TAGS, PROSE)
    def test_are_shown_in_answers(self, before, tag, after):
        """Any tag in Markdown is there to be read, as it was written, and is no element."""
        page = read(to_html(f"x{before} {tag} {after}x"))
        assert squeezed(tag) in squeezed(page.text).replace("’", "'")

    @given(st.lists(TAGS, min_size=1, max_size=5))
    def test_are_shown_side_by_side(self, tags):
        """Nor does one of them swallow another."""
        page = read(to_html("x " + " y ".join(tags) + " z"))
        assert all(squeezed(tag) in squeezed(page.text) for tag in tags)

    @given(TAGS)
    def test_are_shown_in_names_and_results(self, tag):
        """The same holds for labels and for texts that are shown as they are."""
        assert squeezed(tag) in squeezed(read(label(tag)).text)
        assert squeezed(tag) in squeezed(read(text_block(tag)).text)

    @given(TAGS)
    def test_are_shown_of_messages(self, tag):
        """The same holds for reasoning, text, names of tools and their arguments."""
        message = AssistantMessage(
            [ReasoningPart(f"1 {tag} 2"), TextPart(f"3 {tag} 4"), ToolCall("c", f"5 {tag} 6", f"7 {tag} 8")]
        )
        text = squeezed(read(mimebundle(message)["text/html"]).text)
        for place in ("1 {} 2", "3 {} 4", "5 {} 6", "7 {} 8"):
            assert squeezed(place.format(tag)) in text

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("![a chart](https://evil.example/x.png?q=1)", "image: a chart (evil.example)"),
            ("![](http://evil.example:8080/x)", "image (evil.example)"),
            ("[![a](https://evil.example/x)](https://other.example)", "image: a (evil.example)"),
            ("![a][r]\n\n[r]: https://evil.example/x", "image: a (evil.example)"),
        ],
    )
    def test_an_image_elsewhere_is_a_link_with_its_host(self, text, words):
        """A picture of another server is not loaded: it is a link, and one reads where it leads."""
        page = read(to_html(text))
        assert words in page.text
        assert page.tags("a")
        assert not page.tags("img")
        assert not Page(str(to_html("<img src=https://evil.example/x>"))).tags("img")
