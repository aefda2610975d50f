import base64
import json
import re
from datetime import date

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markupsafe import Markup
from pages import Page, read

from cyclops_nb.render.escape import fragment, image, join, json_block, label, link, root, text_block
from cyclops_nb.render.text import cut, indented_json, left_out, one_line, size, visible
from cyclops_nb.render.urls import is_safe_url

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=300)


def raw_text(html):
    """Return the text of some HTML, blanks and all."""
    return "".join(Page(html).texts)


class TestFragment:
    """Templates that escape."""

    @given(ANY_TEXT)
    def test_any_text_is_text(self, value):
        """Any text is the text of an element, but for what is made visible."""
        page = Page(fragment("<p>{}</p>", value))
        assert page.errors == []
        assert page.elements == [("p", {})]
        assert raw_text(fragment("<p>{}</p>", value)).strip(" ") == visible(value).strip(" ")

    @given(ANY_TEXT)
    def test_any_text_is_one_attribute(self, value):
        """Any text is the value of its attribute, whatever quotes it has."""
        for template in ('<p title="{}">x</p>', "<p title='{}'>x</p>"):
            page = Page(fragment(template, value))
            assert page.elements == [("p", {"title": visible(value)})]
            assert raw_text(fragment(template, value)).strip() == "x"

    def test_what_was_made_here_is_not_escaped_again(self):
        """Fragments nest."""
        assert fragment("<p>{a}{b}</p>", a=fragment("<b>{}</b>", "<"), b="<") == "<p><b>&lt;</b>&lt;</p>"

    def test_numbers_and_dates_take_a_format(self):
        """Format specifications work."""
        assert fragment("{:,} {:.1f} {:%Y}", 1234, 0.25, date(2026, 1, 2)) == "1,234 0.2 2026"

    def test_an_object_does_not_bring_its_own_html(self):
        """Only this package's fragments go in as they are."""

        class Claims:
            def __html__(self):
                return "<script>"

            __html_format__ = __format__ = lambda self, spec: "<script>"

            def __str__(self):
                return Markup("<script>")

        assert fragment("{}", Claims()) == "&lt;script&gt;"
        assert join([Claims(), "<"], Claims()) == "&lt;script&gt;&lt;script&gt;&lt;"

    @pytest.mark.parametrize(
        "template",
        [
            '<a href="{}">',
            "<p style='color: {}'>",
            '<p onclick="{}">',
            "<p title={}>",
            "<p {}>",
            "<{}>x",
            "<script>{}</script>",
            "<style>{}</style>",
            "<ScRiPt>",
            '<img src="{}">',
            '<p data-x="{}">',
            '<p id="{}">',
            '<iframe title="{}">',
        ],
    )
    def test_a_template_that_does_not_protect_is_refused(self, template):
        """A placeholder where escaping is no protection is a mistake, and said at once."""
        if template == "<{}>x":
            assert fragment(template, "b") == "<b>x"  # the name of an element comes from the library's own tables
            return
        with pytest.raises(ValueError, match="The template"):
            fragment(template, "x")

    def test_join_escapes_and_keeps(self):
        """Text is escaped, fragments and the fragments between them stay."""
        assert join(["<", fragment("<b>x</b>")], fragment("<br>")) == "&lt;<br><b>x</b>"
        assert join([]) == ""

    def test_root_switches_mathjax_off(self):
        """Whatever an output says, front ends look for LaTeX in checked formulas alone."""
        page = read(root("$x$", kind="cy-a cy-b", css=".cy {color: red}"))
        assert page.elements[0] == ("div", {"class": "cy cy-a cy-b mathjax_ignore tex2jax_ignore"})
        assert page.css == ".cy {color: red}"
        with pytest.raises(ValueError, match="style sheet"):
            root(css="</style><script>")


class TestLabel:
    """Short names beside other text."""

    @given(ANY_TEXT, st.integers(1, 50))
    def test_any_text_is_one_short_line(self, text, limit):
        """No text breaks the line, outgrows its limit, or hides a character."""
        line = one_line(text, limit)
        assert len(line) <= limit
        assert line == " ".join(line.split())
        assert line.isprintable() or set("\u200c\u200d") & set(line) or not line.encode().decode().isprintable()
        assert not re.search("[\x00-\x1f\u200e\u200f\u202a-\u202e\u2066-\u2069\u200b\ufeff]", line)

    def test_shows_what_is_not_seen(self):
        """Two names that look alike are told apart."""
        assert one_line("get_weather\u200b") == "get_weather⟨U+200B⟩"
        assert one_line(" a\n\tb\u2028c ") == "a b c"
        assert one_line("می\u200cخواهم") == "می\u200cخواهم"
        assert label('"><svg onload=x>') == "<bdi>&#34;&gt;&lt;svg onload=x&gt;</bdi>"

    def test_is_cut_at_its_end(self):
        """A long name ends in an ellipsis."""
        assert one_line("a" * 200) == "a" * 119 + "…"
        assert one_line("a" * 120) == "a" * 120


class TestTextBlock:
    """Texts as they are."""

    @given(ANY_TEXT)
    @example("\n\nx")
    @example("\r\nx")
    def test_any_text_is_shown_whole(self, text):
        """A browser shows the text, with its leading line ends."""
        html = text_block(text)
        assert Page(html).elements == [("pre", {"class": "cy-text"})]
        inner = raw_text(html)[1:-1]
        assert inner.removeprefix("\n") == visible(text)  # as a browser drops the first line end of a <pre>

    def test_the_middle_of_a_long_text_is_left_out(self):
        """A huge result is little HTML and says how much is not there."""
        html = text_block("b" + "<" * 20_000_000 + "e")
        assert len(html) < 100_000
        page = read(html)
        assert page.text.startswith("b<")
        assert page.text.endswith("<e")
        assert "… 19,990,002 characters left out …" in page.text

    @given(ANY_TEXT, st.integers(0, 400))
    def test_a_cut_counts_right(self, text, limit):
        """What is shown and what is left out make up the text."""
        begin, omitted, end = cut(text, limit)
        assert text.startswith(begin)
        assert text.endswith(end)
        assert len(begin) + omitted + len(end) == len(text)
        assert len(begin) + len(end) <= limit
        assert left_out(1) == "… 1 character left out …"


class TestJsonBlock:
    """JSON for people."""

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
            lambda x: st.lists(x) | st.dictionaries(st.text(), x),
        )
    )
    def test_any_value_stays_what_it_is(self, value):
        """Indentation does not change the value."""
        for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=7)):
            shown = indented_json(text)
            assert json.loads(text if shown is None else shown) == value
        read(json_block(value))

    def test_keeps_doubles_and_numbers_as_written(self):
        """What a model wrote is not tidied away."""
        assert (
            indented_json('{"a":1.50,"a":1e400,"b":[],"c":{}}')
            == '{\n  "a": 1.50,\n  "a": 1e400,\n  "b": [],\n  "c": {}\n}'
        )
        assert indented_json('["\\u00e9\\n"]') == '[\n  "é\\n"\n]'

    @pytest.mark.parametrize(
        "text", ["", "x", '{"a":', "[" * 5_000, "[" * 60 + "]" * 60, "1", '"x"', "{a: 1}", '["\n"]']
    )
    def test_what_is_no_json_is_shown_as_it_is(self, text):
        """Broken, bare and bottomless JSON is text."""
        assert json_block(text) == text_block(text)

    def test_takes_values(self):
        """Mappings, sets and other objects are shown, endless ones too."""
        endless = []
        endless.append(endless)
        assert '"2026-01-02"' in read(json_block({"a": date(2026, 1, 2), "b": {1}})).text
        assert read(json_block(endless)).text == "[[...]]"
        assert read(json_block({(1, 2): "<"})).text == "{(1, 2): '<'}"

    def test_is_cut(self):
        """A huge value is little HTML."""
        assert len(json_block({"a": list(range(1_000_000))})) < 100_000


class TestImage:
    """Images that are part of the page."""

    def test_shows_the_types_that_are_only_pixels(self):
        """PNG, JPEG, GIF and WebP with the data of their type are shown."""
        starts = {
            "image/png": b"\x89PNG\r\n\x1a\n",
            "image/jpeg": b"\xff\xd8\xff",
            "image/gif": b"GIF89a",
            "image/webp": b"RIFF1234WEBP",
        }
        for kind, start in starts.items():
            data = base64.b64encode(start + bytes(30)).decode()
            (attributes,) = read(image(f"{data[:10]}\n{data[10:]}", kind.upper(), '"><script>')).tags("img")
            assert attributes["src"] == f"data:{kind};base64,{data}"
            assert attributes["alt"] == '"><script>'

    @pytest.mark.parametrize(
        ("data", "kind"),
        [
            (PNG, "image/svg+xml"),
            (PNG, "text/html"),
            (PNG, 'image/png" onerror="x'),
            (PNG + '"', "image/png"),
            ("PHN2Zz4=", "image/png"),
            ("", "image/png"),
            ("x", "image/png"),
            (PNG, ""),
            (PNG[:-1], "image/png"),
            (PNG, "image/png;x"),
            ("é", "image/png"),
            (PNG, "image/jpeg"),
        ],
    )
    def test_says_what_it_does_not_show(self, data, kind):
        """Anything else is a note with type and size."""
        page = read(image(data, kind, "a <plot>"))
        assert not page.tags("img")
        assert page.text.startswith("a <plot> [")
        assert page.text.endswith("not shown]")

    def test_a_huge_image_is_named(self):
        """An image that would bloat the notebook is a note."""
        assert read(image(PNG * 300_000, "image/png")).text == "[image/png, 9.0 MB, not shown]"
        assert (size(0), size(1), size(999_949)) == ("0 bytes", "1 byte", "999.9 kB")

    @given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
    def test_any_text_is_harmless(self, data, kind, alt):
        """No data, type or description gets out of its place."""
        read(image(data, kind, alt))
        read(image(PNG, "image/png", alt))


class TestLink:
    """Addresses."""

    @pytest.mark.parametrize(
        "url",
        [
            "http://a.example",
            "https://a.example/b?c=d&e#f",
            "mailto:a@b.example",
            "https://[::1]:8/",
            "http://ä.example",
        ],
    )
    def test_pages_and_mail_can_be_clicked(self, url):
        """Absolute addresses of the web and of mail are links, which give nothing away."""
        assert read(link(url, "<b>")).tags("a") == [{"href": url, "rel": "noopener noreferrer", "target": "_blank"}]
        assert read(link(url)).text == url

    @pytest.mark.parametrize(
        "url",
        [
            "javascript:alert(1)",
            " javascript:x",
            "java\nscript:x",
            "http://",
            "https:///x",
            "http:x",
            "//a.example",
            "/a",
            "a",
            "",
            "#a",
            "data:text/html,x",
            "file:///a",
            "http://a b",
            "http://a\\b",
            'http://a"b',
            "http://[",
            "http://a\u202eb",
            "ftp://a",
            "http://a\x00",
        ],
    )
    def test_other_addresses_are_text(self, url):
        """All else is shown and cannot be clicked."""
        assert not is_safe_url(url)
        assert read(link(url, "text")).text == "text"
        assert not read(link(url)).tags("a")

    @given(ANY_TEXT, ANY_TEXT)
    def test_any_text_is_harmless(self, url, text):
        """No address and no text gets out of its place."""
        read(link(url, text))
        read(link("http://a.example/" + url, text))
