"""What a reader sees in each of the ways in which notebooks are read, in a real browser and a real JupyterLab."""

from __future__ import annotations

import re

import look
import pytest
from browser import FAINT_TEXTS, SCREENSHOTS, Lab

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SAID = [
    "[0] user", "Does a heat pump pay?", "[1] assistant", 'get_climate(city="Bergen")', "heating_degree_days",
    "TimeoutError: no answer from the market", "error", "cost a year", "forked from bergen-1: 9 messages above",
    "Comparison of 2 conversations", "ended by length", "an answer was cut off by its length limit", "$0.00048",
]  # fmt: skip
"""What must be seen without opening anything: who spoke, what the tools did, and what it cost."""
FOLDED = [
    "They heat with gas. I need how cold Bergen is", '{ "city": "Bergen" }', "result [3]",
    "You advise house owners", "all runs", "Return the price of a fuel in dollars per kWh.",
]  # fmt: skip
"""What is folded away at first."""
# What is drawn of our outputs, and what is saved of them, both as words; what MathJax draws in place of a formula is not text.
DRAWN = r"""
() => [...document.querySelectorAll(".jp-OutputArea-output .cy")].map((node) => {
  const copy = node.cloneNode(true);
  copy.querySelectorAll("style, .cy-math").forEach((it) => it.remove());
  return copy.textContent.split(/\s+/).join(" ").trim();
})
"""
SAVED = r"""
(outputs) => outputs.map((html) => {
  const page = new DOMParser().parseFromString(html, "text/html");
  page.querySelectorAll("style, .cy-math").forEach((it) => it.remove());
  return page.body.textContent.split(/\s+/).join(" ").trim();
})
"""
COLOURS = """
() => [".cy", ".cy-user .cy-md", ".cy a", ".cy .cy-k", ".cy .cy-s", ".cy-meta"].map((name) => {
  const style = getComputedStyle(document.querySelector(name));
  return [name, style.color];
})
"""
# Texts of ours that cannot be seen or are cut, by the page itself and not by us.
HIDDEN = """
() => [...document.querySelectorAll(".cy *")].filter((node) => {
  const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
  if (!own || node.closest("style, mjx-container, .cy-said")) return false;
  return !node.checkVisibility({contentVisibilityAuto: true}) || node.clientHeight < node.scrollHeight - 2;
}).map((node) => `${node.tagName} ${node.textContent.slice(0, 60)}`)
"""
# Outputs in which something reaches over the edge, which the page around them may hide.
TOO_WIDE = """
() => [...document.querySelectorAll(".cy")].filter((it) => it.scrollWidth > it.clientWidth).map((it) => it.className)
"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """The notebook, run once."""
    return look.executed(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def lab(notebook, tmp_path_factory):
    """A JupyterLab with the notebook, on a machine that has no kernel for it: its address, and what the notebooks are called."""
    folder = tmp_path_factory.mktemp("lab")
    names = look.save(notebook, folder)
    with Lab(folder, *look.NO_KERNELS) as address:
        yield address, *names


@pytest.fixture(scope="module")
def trusted(chromium, lab):
    """The author's notebook, opened again without a kernel."""
    page = look.open_without_kernel(chromium, lab[0], lab[1])
    yield page
    page.close()


@pytest.fixture(scope="module")
def untrusted(chromium, lab):
    """The notebook as a colleague gets it."""
    page = look.open_without_kernel(chromium, lab[0], lab[2])
    yield page
    page.close()


@pytest.fixture
def reader(chromium, notebook, tmp_path):
    """Give a function that opens the notebook as nbconvert exports it."""
    pages = []

    def read(theme="light", **settings):
        path = tmp_path / f"{theme}.html"
        path.write_text(look.as_page(notebook, theme), "utf-8")
        pages.append(look.offline(chromium, **settings))
        pages[-1].goto(path.as_uri(), wait_until="domcontentloaded")
        return pages[-1]

    yield read
    for page in pages:
        page.close()


def seen(page):
    """Return the words that a page shows of all our outputs, without what is folded."""
    return " ".join(" ".join(page.locator(".cy").all_inner_texts()).split())


def saved(notebook):
    """Return the HTML of all our outputs."""
    shown = [bundle for cell in look.outputs(notebook) for bundle in cell]
    return [bundle["text/html"] for bundle in shown if 'class="cy ' in bundle.get("text/html", "")]


class TestRestartAndRunAll:
    """The same notebook, run again from its start."""

    def test_shows_the_same_conversation(self, notebook, tmp_path):
        """All cells of all kinds show the same, but for random ids, moments and durations."""
        first, second = look.outputs(notebook), look.outputs(look.executed(tmp_path))
        assert [len(shown) for shown in first] == [0] + [1] * (len(first) - 1)
        assert look.steady(first) == look.steady(second)
        assert "$0.00048" in "".join(look.steady(first))


class TestWithoutKernel:
    """A saved notebook, opened again on a machine that cannot run it."""

    def test_shows_what_was_saved(self, notebook, trusted):
        """Each output has the words that it was saved with, and no kernel was started."""
        assert trusted.evaluate("fetch('/api/kernels').then((answer) => answer.json())") == []
        drawn = trusted.evaluate(DRAWN)
        assert len(drawn) == 13
        assert drawn == trusted.evaluate(SAVED, saved(notebook))

    def test_says_who_spoke_what_the_tools_did_and_what_it_cost(self, trusted):
        """All that matters is seen without opening anything, and the rest by opening it."""
        look.open_all(trusted, is_open=False)
        words = seen(trusted)
        assert [text for text in SAID if text not in words] == []
        assert [text for text in FOLDED if text in words] == []
        look.open_all(trusted)
        assert [text for text in FOLDED if text not in seen(trusted)] == []

    def test_typesets_formulas_and_leaves_money_alone(self, trusted):
        """LaTeX is a formula, and two prices in a line are two prices."""
        assert trusted.locator(".cy .cy-math mjx-container").count() >= 8
        assert "from $1,900 to about $980" in seen(trusted)

    def test_has_tables_with_words_to_the_left_and_numbers_to_the_right(self, trusted):
        """What Markdown leaves open is to the left, whatever the front end does with its own tables."""
        row = trusted.locator(".cy-session .cy-md tbody tr").first.locator("td")
        assert row.evaluate_all("all => all.map((it) => getComputedStyle(it).textAlign)") == ["left", "right", "right"]

    def test_has_headings_that_are_seen_as_such(self, trusted):
        """They are bold, those of a higher level larger; the table of contents is the author's."""
        look.open_all(trusted)
        sizes = []
        for tag in ("h1", "h2"):
            heading = trusted.locator(f".cy-session .cy-md {tag}").first
            weight, size = heading.evaluate("it => [getComputedStyle(it).fontWeight, getComputedStyle(it).fontSize]")
            assert int(weight) >= 600
            sizes.append(float(size.removesuffix("px")))
        body = trusted.locator(".cy-session .cy-md p").first.evaluate("it => parseFloat(getComputedStyle(it).fontSize)")
        assert sizes[0] > sizes[1] > body
        trusted.evaluate("jupyterapp.commands.execute('toc:show-panel')")
        contents = trusted.locator(".jp-TableOfContents-tree .jp-tocItem")
        contents.first.wait_for()
        assert contents.all_inner_texts() == ["Heating in Bergen"]
        trusted.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")


class TestThemes:
    """Light and dark, by the front end's own colours."""

    def test_follow_a_switch_at_once(self, trusted):
        """With another theme all texts change their colour in the open notebook, and stand out from the ground in both."""
        look.open_all(trusted)
        shown = {}
        for theme in ("JupyterLab Dark", "JupyterLab Light"):
            look.switch_theme(trusted, theme)
            shown[theme] = dict(trusted.evaluate(COLOURS))
            assert trusted.evaluate(FAINT_TEXTS) == []
            trusted.locator(".jp-OutputArea-output .cy-session").first.screenshot(
                path=SCREENSHOTS / f"{theme[11:]}.png"
            )
        dark, light = shown.values()
        assert [name for name in light if light[name] == dark[name]] == []

    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_hold_in_an_exported_page(self, reader, theme):
        """A page made with a dark theme is as readable as a light one."""
        page = reader(theme)
        look.open_all(page)
        assert page.evaluate(FAINT_TEXTS) == []

    @pytest.mark.parametrize(
        "style",
        [
            "body { background: #fff }",
            "body { background: #111; color: #ddd }",
            ":root { --vscode-editor-foreground: #3b3b3b; --vscode-debugTokenExpression-string: #a31515 }",
            (
                "html { background: #1f1f1f; --vscode-editor-foreground: #ccc; --vscode-panel-border: #2b2b2b;"
                " --vscode-debugTokenExpression-string: #ce9178 } a { color: #4daafc }"
            ),
        ],
        ids=["white", "black", "vscode-light", "vscode-dark"],
    )
    def test_need_no_jupyterlab(self, chromium, notebook, style):
        """Where there is another theme, or none, texts take its colour and stand out from its ground."""
        page = look.offline(chromium)
        page.set_content(f"<style>{style} a {{ color: inherit }}</style>" + "".join(saved(notebook)))
        look.open_all(page)
        assert page.evaluate(FAINT_TEXTS) == []
        page.close()


class TestUntrusted:
    """A notebook of somebody else, from which JupyterLab drops style sheets, roles and labels."""

    def test_is_read_like_a_trusted_one(self, untrusted):
        """Without a style sheet it is seen who spoke, what the tools did, and what it cost."""
        assert untrusted.locator(".jp-OutputArea-output .cy style").count() == 0
        look.open_all(untrusted, is_open=False)
        words = seen(untrusted)
        assert [text for text in SAID if text not in words] == []
        assert untrusted.evaluate(FAINT_TEXTS) == []
        untrusted.locator(".jp-OutputArea-output .cy-session").first.screenshot(path=SCREENSHOTS / "untrusted.png")

    def test_keeps_messages_apart(self, untrusted):
        """Each message has a line above it, the user's a ground of their own; what tools did is set off from the text."""
        messages = untrusted.locator(".cy-session .cy-m")
        lines = messages.evaluate_all("all => all.map((it) => getComputedStyle(it).borderTopWidth)")
        assert set(lines) == {"1px"}
        grounds = {
            role: untrusted.locator(f".cy-session .cy-{role}").first.evaluate(
                "it => getComputedStyle(it).backgroundColor"
            )
            for role in ("user", "assistant")
        }
        assert grounds["user"] != grounds["assistant"]
        assert untrusted.locator(".cy-call").first.evaluate("it => getComputedStyle(it).borderLeftWidth") == "2px"

    def test_bounds_pictures_and_sets_text_to_the_left(self, untrusted):
        """A picture is no larger than in the trusted view; only numbers stand to the right."""
        assert untrusted.locator(".cy-image").first.evaluate("it => getComputedStyle(it).maxHeight") != "none"
        sides = untrusted.locator(".cy-columns td").evaluate_all(
            "all => all.map((it) => getComputedStyle(it).textAlign)"
        )
        assert set(sides) == {"left"}


class TestNarrow:
    """A window of 400 pixels, as of a telephone or a split screen."""

    def test_is_not_wider_than_the_window(self, reader):
        """Nothing of ours makes the page scroll sideways, closed or open, and nothing is pressed together."""
        page = reader(viewport={"width": 400, "height": 900})
        for is_open in (False, True):
            look.open_all(page, is_open=is_open)
            assert page.evaluate("document.documentElement.scrollWidth") <= 400
            assert page.evaluate(TOO_WIDE) == []
            widths = page.locator(".cy-session .cy-body:visible").evaluate_all("all => all.map((it) => it.offsetWidth)")
            assert min(widths) > 300
        assert page.evaluate(FAINT_TEXTS) == []


class TestPaper:
    """The exported page, printed."""

    def test_has_all_that_is_folded_and_all_that_scrolls(self, reader):
        """On paper nothing can be opened, so nothing is folded, and no block is cut where it would scroll."""
        page = reader(viewport={"width": 720, "height": 1000})
        assert page.evaluate(HIDDEN) != []
        page.emulate_media(media="print")
        assert page.evaluate(HIDDEN) == []
        words = seen(page)
        assert [text for text in SAID + FOLDED if text not in words] == []
        assert page.evaluate(TOO_WIDE) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 720


class TestByKeyboardAndEar:
    """Without a mouse, and without eyes."""

    def test_has_headings_and_names(self, reader):
        """A screen reader finds the conversation, each message, and each frame that scrolls by their names."""
        page = reader()
        tree = page.locator(".cy-session").first.aria_snapshot()
        assert 'heading "Heat pump in Bergen" [level=3]' in tree
        for number, who in enumerate(["user", "assistant"]):
            assert f'group "message {number}, {who}"' in tree
            assert f'heading "[{number}] {who}" [level=4]' in tree
        assert 'region "the branches in numbers"' in page.locator(".cy-comparison").aria_snapshot()

    def test_every_fold_can_be_reached_seen_and_opened(self, reader):
        """Tab comes to each fold, which is marked then, and Enter opens it."""
        page = reader()
        folds = page.locator(".cy-session").first.locator("summary:visible")
        folds.first.focus()
        for _ in range(folds.count()):
            focused = page.evaluate("""() => {
                const node = document.activeElement;
                return [node.tagName, getComputedStyle(node).outlineStyle, node.parentElement.open];
            }""")
            assert focused[0] == "SUMMARY"
            assert focused[1] != "none"
            page.keyboard.press("Enter")
            assert page.evaluate("document.activeElement.parentElement.open") is not focused[2]
            page.keyboard.press("Enter")
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.tagName") == "A":
                page.keyboard.press("Tab")

    def test_folds_open_by_keyboard_in_jupyterlab(self, trusted):
        """The keys of JupyterLab's own commands do not keep a fold from opening, nor Tab from the next one."""
        look.open_all(trusted, is_open=False)
        folds = trusted.locator(".cy-session").first.locator("summary:visible")
        folds.first.focus()
        trusted.keyboard.press("Enter")
        assert folds.first.evaluate("it => it.parentElement.open")
        trusted.keyboard.press("Tab")
        assert folds.nth(1).evaluate("it => it === document.activeElement")

    def test_asks_for_nothing_but_what_nbconvert_itself_asks_for(self, reader, notebook):
        """Our outputs load nothing: what is asked for are the exporter's own scripts."""
        page = reader()
        own = "".join(saved(notebook))
        assert all(address not in own for address in page.asked)
        assert not re.search(r"\\bsrc=(?!.data:image/)", own)
