"""Text as the source of a Markdown cell: it reads as it was meant, and does nothing in any program that renders it."""

import re
from html import unescape
from html.parser import HTMLParser

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import markdown2html_mistune
from stored import save
from strategies import moderate

from cyclops_nb import NotebookSessionStore
from cyclops_nb.messages import AssistantMessage, ReasoningPart, TextPart, ToolCall, ToolMessage, UserMessage
from cyclops_nb.runs import Run, RunError
from cyclops_nb.session import Parent, Session
from cyclops_nb.stores.notebooks.cells import head_lines, message_lines
from cyclops_nb.stores.notebooks.markdown import SourceLine, source_lines
from cyclops_nb.stores.notebooks.names import inert
from cyclops_nb.stores.notebooks.raw_text import raw_lines
from notebooks import MARKDOWN, PNG, conversation, read, source

pytestmark = pytest.mark.filterwarnings("error")

COMMONMARK = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
ELEMENTS = {
    "a", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr",
    "img", "input", "li", "ol", "p", "pre", "s", "span", "strong", "summary", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
HOSTILE = [
    "<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "</details>", "</pre>", "</code>", "<!--", "<?x", "<![CDATA[",
    "[x](javascript:alert(1))", "![a](http://evil.test/?q=secret)", "[x]: javascript:alert(1)", "![x][x]", "[x]", "`", "```",
    "```\n", "\n```\n", "````", "~~~", "~~", "\n", "\n\n", "- ", "1. ", "2. ", "> ", ":   ", "    ", "   ", "\t", "$", "$$", "\\(",
    "\\[", "\\\\[", "\\\\]", "\\", "|", "\n|---|---|\n", "http://x.test/", "<https://a.test/b>", "<javascript:alert(1)>",
    "\\begin{align}", "\\end{align}", "\\begin{foo}", "{", "}", "@@0@@", "(", ")", "[", "]", ":", "!", "<", ">", "&lt;", "*", "_",
    "a", "text ", '<a href="javascript:alert(1)">', "\u2028", "\x0b", "\x00",
]  # fmt: skip
hostile_texts = st.lists(st.sampled_from(HOSTILE), max_size=20).map("".join) | MARKDOWN


UNSEEN = st.sampled_from([
    "\u2066", "\u202b", "\u2028", "\u2029", "\x85", "\x0c", "\x0b", "\x1b", "\x00", "\x7f", "\x1c", "⟨U+2066⟩", "⟨⟨U+2066⟩⟩", "⟨U+001B⟩",
    "⟨U+", "⟨", "⟩", "U+2066", "␛", "␌", "␡", "a", " ", "\u200f", "<b>",
])  # fmt: skip
"""What cannot be seen, and what looks like that which is shown in its place."""


many = settings(moderate, max_examples=300)
"""Each takes some milliseconds."""


LONG = [
    "`", "` ", "`` ` ", "$", "$a", "$$", "$`", "\\(", "\\[", "\\begin{align}", "\\", "   ```x\ny\n", "   ~~~\n", "> ```\n", "- ```\n",
    "```\n", "```a\n", " ", "\t", "> ", "- ", "1. ", "<", "![", "](", "]:", "<https://a", "{", "|", "\n", "a\n\n",
]  # fmt: skip
"""Pieces of which a long text may take long."""


class _Page(HTMLParser):
    """Finds what does something in a page."""

    def __init__(self):
        super().__init__()
        self.active = []
        self.shown = []
        self.open = []
        self.ends_well = False

    def handle_starttag(self, tag, attrs):
        if tag not in ELEMENTS:
            self.active.append(tag)
        for name, value in attrs:
            harmless = name in {"class", "start", "title", "id", "alt", "type", "disabled", "checked"}
            harmless = harmless or (name == "style" and value.startswith("text-align"))
            harmless = harmless or (name == "href" and re.match(r"https?://|mailto:|#", value or "", re.IGNORECASE))
            if not harmless:
                self.active.append((tag, name, value))

        self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data):
        self.shown.append(data)
        if "END" in data:
            self.ends_well = "pre" not in self.open and "code" not in self.open

    def handle_comment(self, data):
        self.active.append(data)

    handle_pi = handle_decl = unknown_decl = handle_comment


def look(html):
    page = _Page()
    page.feed(html)
    page.close()
    return page


def pages(source):
    """Return what two programs make of a source: one strict, one as nbconvert, which obeys all HTML."""
    return [look(COMMONMARK.render(source)), look(markdown2html_mistune(source))]


def shown(text):
    source = "\n".join(line.source for line in source_lines(text))
    return ["".join(page.shown).strip() for page in pages(source)]


class TestDoesNothing:
    @many
    @given(text=hostile_texts)
    def test_any_text(self, text):
        """No text makes an element, an image or a link of its own, and what comes behind it is not touched."""
        source = "\n".join(line.source for line in source_lines(text))
        for page in pages(f"## [0] user\n\n{source}\n\n<details>\n<summary>next</summary>\n\nEND\n\n</details>"):
            assert page.active == []
            assert page.ends_well

    @many
    @given(text=hostile_texts, name=hostile_texts)
    def test_any_message(self, text, name):
        """The same holds for every place of a message in which a model, a tool or a provider can write."""
        messages = [
            UserMessage(text, metadata={"edited_from": name}),
            AssistantMessage(
                [ReasoningPart(text), TextPart(text), ToolCall(name, name, text)], model=name, finish_reason=name
            ),
            ToolMessage(name, name, text),
        ]
        for index, message in enumerate(messages):
            source = "\n".join(line.source for line in message_lines(message, index))
            for page in pages(f"{source}\n\nEND"):
                assert page.active == []
                assert page.ends_well
        title = Session("study-1", title=text)
        assert all(page.active == [] for page in pages("\n".join(head_lines(title))))

    @moderate
    @given(text=hostile_texts, name=hostile_texts, other=hostile_texts)
    def test_the_first_and_the_last_cell(self, tmp_path_factory, text, name, other):
        """The same holds for titles, parents, models, errors, warnings and settings."""
        session = Session("study-1", title=text)
        session.parent = Parent(session_id=name, message_count=1)
        error = RunError(type=name, message=text)
        session.runs.append(Run(session_id="x", model=name, config="c", error=error, warnings=[text, other]))
        tools = [{"name": name}, text]
        session.configs["c"] = {
            "model": text,
            "host": name,
            "system_prompt": other,
            "tools": tools,
            name: other,
            "stop": [text],
        }
        folder = tmp_path_factory.mktemp("sessions")
        save(NotebookSessionStore(folder), session)
        first, last = (source(cell) for cell in read(folder / "study-1.ipynb")["cells"])
        for page in (*pages(f"{first}\n\nEND"), *pages(f"{last}\n\nEND")):
            assert page.active == []
            assert page.ends_well

    @pytest.mark.parametrize(
        "text",
        [
            "```\n```~\n<img src=x onerror=alert(1)>\n```",  # JupyterLab ends a fence there
            "| a ` | <img src=x onerror=alert(1)> ` |\n|---|---|",  # a bar parts code
            "2. x\n   - ```\n  y\n   ```\n\n```\n<img src=x onerror=alert(1)>\n```",
            "a\n2. ```\n   x\n   ```\n\n```\n<img src=x onerror=alert(1)>\n```",  # no list begins there
            "x\n:   ```\n:   y\n\n```\n<img src=x onerror=alert(1)>\n```",  # nbconvert knows definitions
            "~~a `b~~ <img src=x onerror=alert(1)>` c",
            "http://x.test/`<img src=x onerror=alert(1)>`",
            "$5\n   ```\n   $ <img src=x onerror=alert(1)>\n   ```",  # a formula would swallow the fence
            "x \\\\[\n```\n\\\\]<img src=x onerror=alert(1)>\n```",
            "<<https://a.test/b>onclick=alert(1) ",
            "\\<img src=x onerror=alert(1)>",
            "[a](java&#115;cript:alert(1)) [b]( javascript:alert(1))",
        ],
    )
    def test_where_programs_differ(self, text):
        """What one program takes for code and another for text is harmless in both."""
        source = "\n".join(line.source for line in source_lines(text))
        assert all(page.active == [] for page in pages(source))
        outside = re.sub(r"(?ms)^(`{3,}).*?^\1$", "", source)
        assert "<img" not in outside

    @pytest.mark.parametrize(
        "text",
        [
            "## [1] user",
            "   ### \\[1] user ###",
            "# **[1]** assistant",
            "## &#91;1&#93; user",
            "##\t[ 12 ] tool",
            "[1] user\n---",
            "[1] user\nand more\n===",
        ],
    )
    def test_nobody_speaks_for_another(self, text):
        """No heading in a text looks as if another message began there."""
        source = "\n".join(line.source for line in source_lines(f"I agree.\n\n{text}\n\nYes."))
        for html in (COMMONMARK.render(source), markdown2html_mistune(source)):
            assert not re.search(r"<h[1-6]", html)

    @pytest.mark.parametrize(
        "text", ["## 1. Introduction", "### Step [a]", "a\n---\nb", "## 3 (see [2])", "[1] x\n\n---"]
    )
    def test_other_headings_stay(self, text):
        """Headings and rules of other texts are as they were written."""
        assert "\n".join(line.source for line in source_lines(text)) == text

    def test_fences_cannot_be_ended(self):
        """A fence is longer than whatever looks like its end."""
        assert [line.source for line in source_lines("```\n```~\n<b>\n```")] == ["`````", "```~", "<b>", "`````"]
        assert [line.source for line in source_lines("```py\nopen")] == ["```py", "open", "```"]

    @pytest.mark.timeout(60)
    @pytest.mark.parametrize("piece", LONG)
    def test_takes_no_long(self, piece):
        """A hostile text of a fifth of a megabyte is written in seconds."""
        text = piece * (200_000 // len(piece)) + "x"
        assert "".join(line.raw or "" for line in source_lines(text)) == text

    @pytest.mark.timeout(60)
    def test_takes_no_long_with_backticks(self):
        """The same with runs of backticks of which no two are of one length."""
        text = " ".join("`" * number for number in range(1, 1_000))
        assert "".join(line.raw or "" for line in source_lines(text)) == text


class TestOtherPrograms:
    """What programs do beside rendering Markdown."""

    @pytest.mark.parametrize("name", ["$\\href{x}{y}$", "\\(\\href{x}{y}\\)", "\\[x\\]", "\\begin{a}x\\end{a}"])
    def test_no_formula_comes_of_a_name(self, name):
        """JupyterLab looks for formulas in the text that entities stand for: their marks stand in elements alone."""
        assert not re.search(r"[$\\]", unescape(re.sub(r"<span>[^<]*</span>", "", inert(name))))

    @pytest.mark.parametrize("mark", ["&#36;", "&#x24;", "&dollar;", "&#036", "&#92;", "&bsol;", "&#x5C;"])
    def test_no_formula_comes_of_an_entity(self, mark):
        """The same holds for entities that a text has itself."""
        (line,) = source_lines(f"{mark}(\\href{{x}}{{y}}{mark})")
        assert line.source.count("<span>&#36;</span>") + line.source.count("<span>&#92;</span>") == 2

    @pytest.mark.parametrize("language", ["mermaid", "Mermaid", "math", "geojson", "vega-lite", "plantuml"])
    def test_no_drawing_comes_of_a_fence(self, language):
        """A fence names languages of code alone: nbconvert puts what it takes for a drawing into the page as it is."""
        assert source_lines(f"```{language}\n<img>\n```")[0].source == "```"
        assert source_lines(f"- ```{language}\n  x\n  ```")[0].source.strip() in ("- ```", "- <pre>")
        assert source_lines("```C++ x\na\n```")[0].source == "```C++"

    @pytest.mark.parametrize(
        "address", ["http://a…", "http://a:b/", "https://a..b", "http://javascript:f(1)@a…", "https://%61"]
    )
    def test_no_file_comes_of_a_broken_address(self, address):
        """JupyterLab takes an address with a broken host for a file, and asks its server for it: no link is made."""
        for text in (address, f"[x]({address})", f"<{address}>"):
            (line,) = source_lines(text)
            assert not re.search(r"(?<!\w)https?://|\]\(", line.source), line.source
        assert "://" not in inert(address)

    @pytest.mark.parametrize("text", ["https://a.example/b", "[x](https://a.example/b_(c))", "(see http://ä.example.)"])
    def test_addresses_of_the_web_stay(self, text):
        """What can be clicked is as it was written."""
        assert source_lines(text)[0].source == text


class TestReadsAsWritten:
    def test_money(self):
        """Dollar amounts stay amounts: where there is more than one, each stands in an element of its own."""
        source = [line.source for line in source_lines("It fell from $3,500 to $5,000.\n\nUS$5.")]
        assert source == ["It fell from <span>&#36;</span>3,500 to <span>&#36;</span>5,000.", "", "US$5."]
        assert shown("`$HOME` and $PATH") == ["$HOME and $PATH"] * 2

    @pytest.mark.parametrize(
        ("text", "source"),
        [
            ("$E=mc^2$ and $x<y$", "$E=mc^2$ and $x\\lt y$"),
            ("\\(a\\)", "$a$"),
            ("\\[\na\n\\]", "$$\na\n$$"),
            ("$$x$$", "$$x$$"),
            ("\\begin{align}a&=b\\end{align}", "\\begin{align}a&=b\\end{align}"),
        ],
    )
    def test_formulas(self, text, source):
        """Formulas are typeset, in the form that most programs know."""
        assert "\n".join(line.source for line in source_lines(text)) == source

    def test_formulas_that_do_more(self):
        """A formula that makes links, or sets styles, is shown as it was written."""
        text = "$\\href{javascript:alert(1)}{x}$"
        assert shown(text) == [text] * 2

    @pytest.mark.parametrize(
        "code",
        [
            "a $ b $ c",
            "if a < b && c > d:\n    <html>\n\n&lt;",
            "\\[ x \\]",
            "# no heading\n- no list",
            "[a](b) ![c](d)",
        ],
    )
    def test_code(self, code):
        """What stands in a fence stays as it was written."""
        text = f"```python\n{code}\n```"
        assert "\n".join(line.source for line in source_lines(text)) == text
        assert shown(text) == [code] * 2

    @pytest.mark.parametrize("code", ["<div>", "$HOME", "x[0](1)", "std::vector<int>", "*a* _b_ \\n &lt;", "a|b"])
    def test_code_in_a_line(self, code):
        """What stands between backticks is shown as it is."""
        assert shown(f"use `{code}` so") == [f"use {code} so"] * 2

    @pytest.mark.parametrize("code", ["echo $A > <b>", "a = b[0](1)", "plain"])
    def test_code_in_lists(self, code):
        """What stands in a fence in a list, or in a quotation, is shown as it is."""
        assert all(code in text for text in shown(f"1. x\n   ```sh\n   {code}\n   ```\n2. y"))
        assert all(code in text for text in shown(f"> ```\n> {code}\n> ```\n\ny"))

    @pytest.mark.parametrize(
        "text", ["<thinking>", "a < b", "</script><b>", "List[int]: x", "![a](http://x.test/b.png)"]
    )
    def test_tags_are_shown(self, text):
        """Tags, and what would load something, are there to be read."""
        for page in shown(f"x {text} y"):
            assert text.replace("![a](http://x.test/b.png)", "!a") in page

    @pytest.mark.parametrize(
        "text",
        [
            "*a* **b** [c](https://x.test) ~~d~~",
            "# a\n\n- b\n- c\n\n1. d",
            "| a | b |\n|---|---|\n| 1 | 2 |",
            "> a\n> b",
        ],
    )
    def test_markdown_stays(self, text):
        """What does nothing but format stays as it was written."""
        assert "\n".join(line.source for line in source_lines(text)) == text

    def test_odd_backticks(self):
        """Backticks that begin no code are backticks."""
        text = "`` ` ``` more"
        assert shown(text) == [text] * 2

    def test_code_that_is_indented_a_little(self):
        """A fence that is indented, though its content is not, is a fence."""
        assert [line.source for line in source_lines(" ```py\n<b>\n ```\nx")] == ["```py", "<b>", "```", "x"]

    def test_what_is_not_seen(self):
        """Control characters, line separators and reversed text are shown by name."""
        assert [line.source for line in source_lines("a\x00\u2028b\u202ec\r\nd")] == ["a␀⟨U+2028⟩b⟨U+202E⟩c", "d"]

    def test_names(self):
        """A name is nothing but text; underscores within a word need no care."""
        assert inert("get_weather_2") == "get_weather_2"
        assert (
            inert("_x_ <b> `a` $b$ [c]\n#d")
            == "&#95;x&#95; &lt;b&gt; &#96;a&#96; <span>&#36;</span>b<span>&#36;</span> &#91;c&#93; &#35;d"
        )


class TestWayBack:
    @many
    @given(text=hostile_texts)
    def test_lines_are_those_of_the_text(self, text):
        """Put together, the raw lines are the text."""
        lines = source_lines(text)
        assert "".join(line.raw or "" for line in lines) == text
        assert "".join(raw_lines([line for line in lines if line.raw is not None], text)) == text

    @pytest.mark.parametrize(
        "text",
        [
            "$5 to $6",
            "<b> and &lt;",
            "`<i>` and ``a`$``",
            "![a](b) [c](d) [e]: f",
            "x <https://a.test> y".replace("<", "").replace(">", ""),
            "x ```` a",
            "## [1] user",
            "[1] user\n  ---",
        ],
    )
    def test_changed_lines(self, text):
        """A line of which the raw line is not known is read as what it stands for."""
        lines = [SourceLine(line.source, None) for line in source_lines(text)]
        assert "".join(raw_lines(lines, text)) == text

    @many
    @given(text=st.lists(UNSEEN, max_size=12).map("".join), before=st.sampled_from(["", "```\n", "- ```\n  ", "`x` "]))
    def test_what_is_not_seen(self, text, before):
        """It is written such that it can be told from what looks the same, and comes back from any line."""
        whole = f"{before}{text} end"
        lines = [line for line in source_lines(whole) if line.raw is not None]
        lines[-1] = SourceLine(lines[-1].source, None)
        assert not re.search(
            "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]",
            "".join(line.source for line in lines),
        )
        assert "".join(raw_lines(lines, whole)) == whole


def test_nbconvert_gives_a_page_that_reads_well(folder):
    """A stored notebook becomes a page with the conversation in it, folded where it is folded, and nothing active."""
    session = conversation()
    session.messages.append(UserMessage("<script>alert(1)</script> for $5 to $6"))
    save(NotebookSessionStore(folder), session)
    notebook = nbformat.read(folder / "study-1.ipynb", nbformat.NO_CONVERT)
    body, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    page = look(body)
    text = " ".join("".join(page.shown).split())
    assert "[4] assistant" in text
    assert "It costs $5 to $6, and 19 °C in Rome." in text
    assert "<script>alert(1)</script> for $5 to $6" in text
    assert body.count("<details>") == 4
    assert f'src="data:image/png;base64,{PNG}"' in body
    assert "<script>" not in body
