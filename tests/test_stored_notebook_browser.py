"""A stored conversation in a real JupyterLab: it reads well, nothing in it runs or calls out, and an edit counts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from browser import SCREENSHOTS, SECONDS, Lab, open_notebook, wait_until, watch
from nbconvert import HTMLExporter
from scenarios import agent_for
from stored import load, save

from cyclops_nb import NotebookSessionStore
from cyclops_nb.testing import ScriptedServer, text
from notebooks import ACTIVE, git, hostile_conversation

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The folder that JupyterLab shows."""
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def address(root):
    """A JupyterLab on that folder."""
    with Lab(root) as address:
        yield address


@pytest.fixture
def folder(root, request):
    """A folder of sessions for each test, that JupyterLab shows."""
    folder = root / request.node.name
    elsewhere(save, NotebookSessionStore(folder), hostile_conversation())
    return folder


@pytest.fixture
def asked():
    """What the page asks for."""
    return []


@pytest.fixture
def page(chromium, address, root, folder, asked):
    """The stored notebook, opened."""
    path = (folder / "study-1.ipynb").relative_to(root)
    page = open_notebook(chromium, address, path, asked, viewport={"width": 1000, "height": 1600})
    page.wait_for_selector(".jp-MarkdownCell mjx-container", timeout=SECONDS * 1000)
    yield page
    page.close()


def elsewhere(call, *args):
    """Call what needs an event loop of its own in another thread: in this one the browser's runs."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call, *args).result()


def cell(page, index):
    """Return the cell of a message."""
    return page.locator(".jp-MarkdownCell", has_text=f"[{index}] ").first


def shown(page, index):
    """Return what is shown of a message."""
    return cell(page, index).locator(".jp-MarkdownOutput")


def save_in_jupyter(page, path):
    """Press Ctrl+S and wait until the file was written."""
    before = path.stat()
    page.keyboard.press("Control+s")
    wait_until(lambda: (path.stat().st_mtime_ns, path.stat().st_ino) != (before.st_mtime_ns, before.st_ino))
    page.wait_for_selector(".jp-NotebookPanel")


class TestReading:
    def test_reads_as_a_conversation(self, page):
        """Who speaks, what tools did, pictures, files, formulas, amounts, code and what it cost are there to be seen."""
        assert shown(page, 0).locator("h2").inner_text().startswith("[0] user")
        assert shown(page, 0).locator("img").evaluate("image => image.naturalWidth") == 160
        assert "notes" in shown(page, 0).inner_text()
        assert "2.0 kB" in shown(page, 0).inner_text()
        calls = shown(page, 1)
        assert "I look." in calls.inner_text()
        assert calls.locator("summary").all_inner_texts()[1] == 'calls get_weather {"city": "Paris"}'
        assert not calls.get_by_text("I need the weather.").is_visible()
        calls.get_by_text("reasoning, ").first.click()
        assert calls.get_by_text("I need the weather.").is_visible()
        assert shown(page, 2).locator("h3").inner_text().startswith("[2] tool get_weather")
        assert '"temperature": 11' in shown(page, 2).locator("pre").inner_text()
        answer = shown(page, 4)
        assert "A coat costs $50 to $80, a scarf $5." in answer.inner_text()
        assert answer.locator("mjx-container").count() == 2
        assert "price = {'coat': '$50', 'scarf': '$5'}" in answer.locator("pre").first.inner_text()
        assert answer.locator("td").all_inner_texts() == ["coat", "$50", "scarf", "$5"]
        assert answer.locator("li").all_inner_texts() == ["one", "two"]
        last = page.locator(".jp-MarkdownCell .jp-MarkdownOutput").last
        assert "2 runs: ≥1,100 tokens in, ≥220 out, ≥$0.0123" in last.inner_text()
        page.screenshot(path=SCREENSHOTS / "stored-notebook.png")
        page.evaluate("document.querySelectorAll('.jp-Notebook details').forEach(fold => { fold.open = true })")
        last.scroll_into_view_if_needed()
        assert "Be brief." in last.inner_text()
        page.screenshot(path=SCREENSHOTS / "stored-notebook-open.png")

    def test_nothing_runs_and_nobody_is_called(self, page, address, asked):
        """What would do something in a page stands there as text, in every place where it could come from."""
        page.evaluate("document.querySelectorAll('.jp-Notebook details').forEach(fold => { fold.open = true })")
        for index in range(5):
            shown(page, index).scroll_into_view_if_needed()
            assert "window.owned = true" in shown(page, index).inner_text() or index == 2
        assert page.evaluate("window.owned") is None
        assert page.locator(ACTIVE).count() == 0
        hosts = {urlsplit(url).netloc for url in asked if not url.startswith(("data:", "blob:", "attachment:"))}
        assert hosts == {urlsplit(address).netloc}


class TestEditing:
    def test_an_edited_answer_is_what_the_session_goes_on_from(self, page, folder):
        """A double click, some typing and Ctrl+S: the session in the file has the new text, and the model is told it."""
        before = hostile_conversation()
        path = folder / "study-1.ipynb"
        answer = cell(page, 4)
        shown(page, 4).get_by_text("Bring a coat.").dblclick()
        line = answer.locator(".cm-line", has_text="A coat costs")
        line.click()
        page.keyboard.press("End")
        page.keyboard.type(" Gloves are $3 <each>.")
        page.keyboard.press("Control+End")
        page.keyboard.type(" And `gloves`.")
        page.screenshot(path=SCREENSHOTS / "stored-notebook-edited.png")
        page.keyboard.press("Shift+Enter")
        save_in_jupyter(page, path)

        store = NotebookSessionStore(folder)
        session = elsewhere(load, store)
        edited = session.messages[4]
        whole = before.messages[4].text
        assert edited.text == f"{whole} And `gloves`.".replace("scarf $5.", "scarf $5. Gloves are $3 <each>.", 1)
        assert edited.id != edited.metadata["edited_from"]
        assert [message.content for message in session.messages[:4]] == [
            message.content for message in before.messages[:4]
        ]

        with ScriptedServer([text("They are warm.")]) as server:
            agent = agent_for(server, session_store=store)
            assert agent.run("Which gloves?", session=session) == "They are warm."
            sent = server.requests[0].messages
        assert sent[-2]["content"] == edited.text
        assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "assistant", "user"]
        assert elsewhere(load, NotebookSessionStore(folder)) == session

        page.get_by_role("menuitem", name="File", exact=True).click()
        page.get_by_role("menuitem", name="Reload Notebook from Disk").click()
        page.locator(".jp-MarkdownOutput", has_text="They are warm.").wait_for(timeout=SECONDS * 1000)
        page.screenshot(path=SCREENSHOTS / "stored-notebook-continued.png")

    def test_opening_and_saving_gives_no_noise(self, page, folder):
        """A notebook that was opened and saved without an edit is the same file for git."""
        git(folder, "init", "--quiet")
        git(folder, "add", "study-1.ipynb")
        save_in_jupyter(page, folder / "study-1.ipynb")
        assert git(folder, "diff", "--numstat") == ""


class TestPage:
    """The page that nbconvert makes of it, which obeys all HTML."""

    @pytest.mark.parametrize("width", [400, 1000])
    def test_reads_well_and_does_nothing(self, chromium, folder, asked, width):
        """It reads as in JupyterLab, stays inside a narrow window too, nothing runs, and nobody is called."""
        target = folder / "study-1.html"
        # without what nbconvert itself would load
        exporter = HTMLExporter(mathjax_url="", require_js_url="", jquery_url="", mermaid_js_url="")
        target.write_text(exporter.from_filename(folder / "study-1.ipynb")[0], "utf-8")
        page = chromium.new_page(viewport={"width": width, "height": 900})
        watch(page, asked)
        page.goto(target.as_uri())
        page.screenshot(path=SCREENSHOTS / f"stored-notebook-page-{width}.png", full_page=True)
        assert page.locator("h2").all_inner_texts() == ["[0] user"]
        assert page.locator("h3").all_inner_texts()[::3] == ["[1] assistant", "[4] assistant"]
        assert "A coat costs $50 to $80, a scarf $5." in page.locator("body").inner_text()
        assert not page.get_by_text("I need the weather.").is_visible()
        page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true })")
        assert page.get_by_text("I need the weather.").is_visible()
        assert page.locator("img").evaluate_all("images => images.map(image => image.naturalWidth)") == [160]
        page.screenshot(path=SCREENSHOTS / f"stored-notebook-page-{width}-open.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert page.evaluate("window.owned") is None
        assert page.locator(ACTIVE).count() == 0
        assert [url for url in asked if not url.startswith("data:")] == [target.as_uri()]
        page.close()
