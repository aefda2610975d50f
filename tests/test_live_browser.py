"""A run shown live in JupyterLab, as a reader sees it: while it goes on, stopped, and in the notebook that was saved."""

from __future__ import annotations

import json

import nbformat
import pytest
from browser import FAINT_TEXTS, SCREENSHOTS, Lab, begin_all, code_cells, open_notebook, wait_until

from cyclops_nb.testing import ScriptedServer, gate, reasoning, reply, text, tool_call

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

HOSTILE = (
    "<img src=x onerror=\"document.title='taken'\"> [x](javascript:alert(1)) <style>.jp-Toolbar{display:none}</style>"
)
ANSWER = f"""# Two cities

Paris is **11 °C**, that cost $5 to $10. {HOSTILE}

| city | °C |
|---|---:|
| Paris | 11 |

```python
def warmer(a, b):
    return a > b
```

"""
TOOLS = """
import pathlib, time
from cyclops_nb import Agent
def get_weather(city: str) -> str:
    "Get the weather."
    print("looking up", city)
    while not pathlib.Path("go").exists():
        time.sleep(0.05)
    if city == "Atlantis":
        raise ValueError("no such city")
    return "11 °C"
"""


def notebook_of(path, cells):
    """Write a notebook."""
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells], metadata=kernel)
    nbformat.write(notebook, path)


def output(page, number):
    """Return the output of a cell."""
    return page.locator(".jp-NotebookPanel .jp-Cell").nth(number).locator(".jp-Cell-outputArea")


def see(page, number, words):
    """Wait until a cell shows some words."""
    output(page, number).get_by_text(words).filter(visible=True).first.wait_for(timeout=60_000)


class TestJupyterLab:
    """Two runs at once, in two cells."""

    def test_a_reader_can_follow_stop_and_keep_them(self, chromium, tmp_path):
        """Each step is seen as it comes; one run is stopped by its button, the other ends; both are in the file."""
        thinking, writing, other = gate(), gate(), gate()
        calls = [tool_call("get_weather", {"city": city}) for city in ("Paris", "Atlantis")]
        script = [
            reply(reasoning("Two cities.\nI look up both"), thinking, reasoning("."), *calls),
            reply(text(ANSWER), writing, text("That is all.")),
        ]
        path = tmp_path / "live.ipynb"
        story = [reply(text("A story that "), other, text("never ends."))]
        with ScriptedServer(script, strict=False) as server, ScriptedServer(story) as teller, Lab(tmp_path) as address:
            agents = f"""
agent = Agent("weather", tools=[get_weather], base_url={server.base_url!r})
poet = Agent("poet", base_url={teller.base_url!r})
"""
            first = "handle = agent.start('Which city is warmer?')\nhandle"
            notebook_of(path, [TOOLS + agents, first, "other = poet.start('Tell a story.')\nother"])
            page = open_notebook(chromium, address, "live.ipynb", reduced_motion="reduce")
            begin_all(page)
            self._follow(page, tmp_path / "go", thinking, writing)
            self._stop(page)
            writing.release()
            see(page, 1, "That is all.")
            see(page, 1, "2 steps")
            page.screenshot(path=SCREENSHOTS / "live-ended.png")
            page.keyboard.press("Control+s")
            wait_until(lambda: "That is all." in path.read_text() and "widget-view" not in path.read_text())
            page.close()
            self._check_file(path)
            page = open_notebook(chromium, address, "live.ipynb")
            see(page, 1, "That is all.")
            assert page.get_by_text("model not found").count() == 0
            page.screenshot(path=SCREENSHOTS / "live-reopened.png")
            page.close()

    @staticmethod
    def _follow(page, go, thinking, writing):
        see(page, 1, "I look up both")
        see(page, 2, "A story that")
        page.screenshot(path=SCREENSHOTS / "live-thinking.png")
        thinking.release()
        see(page, 1, "looking up Atlantis")
        see(page, 1, "working")
        page.screenshot(path=SCREENSHOTS / "live-working.png")
        assert page.evaluate("getComputedStyle(document.querySelector('.cy-work')).animationName") == "none"
        page.emulate_media(reduced_motion="no-preference")
        assert page.evaluate("getComputedStyle(document.querySelector('.cy-work')).animationName") == "cy-turn"
        go.touch()
        see(page, 1, "ValueError: no such city")
        see(page, 1, "return a > b")
        assert page.evaluate(FAINT_TEXTS) == []
        output(page, 1).get_by_text("Two cities", exact=True).scroll_into_view_if_needed()
        page.screenshot(path=SCREENSHOTS / "live-writing.png")
        see(page, 1, "<img src=x")  # what a model writes is text, and does nothing
        assert page.title() != "taken"
        assert page.locator(".jp-NotebookPanel .jp-Toolbar").first.is_visible()
        assert output(page, 1).locator("img").count() == 0

    @staticmethod
    def _stop(page):
        output(page, 2).get_by_role("button", name="Stop").click()
        see(page, 2, "cancelled")
        see(page, 2, "stands in no transcript")
        page.screenshot(path=SCREENSHOTS / "live-stopped.png")
        assert output(page, 1).get_by_role("button", name="Stop").is_enabled()

    @staticmethod
    def _check_file(path):
        _, *cells = code_cells(path)
        outputs = [cell["outputs"] for cell in cells]
        assert [[output["output_type"] for output in some] for some in outputs] == [["display_data"], ["display_data"]]
        ended, stopped = ("".join(some[0]["data"]["text/html"]) for some in outputs)
        assert "That is all." in ended
        assert "no such city" in ended
        assert "looking up Atlantis" in ended
        assert "A story that" in stopped
        assert "widgets" not in json.loads(path.read_text())["metadata"]
