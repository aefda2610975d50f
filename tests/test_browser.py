"""What a reader sees, in a real browser: the demo's page, and the quickstart run in JupyterLab."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from browser import DARK, FAINT_TEXTS, SCREENSHOTS, SECONDS, Lab, code_cells, open_notebook, run_all, wait_until

from cyclops_nb.cli import quickstart_path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The folder that the demo leaves."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "cyclops_nb", "demo", "--output", str(folder)]
    subprocess.run(command, check=True, timeout=SECONDS, stdout=subprocess.DEVNULL)
    return folder


class TestPage:
    """The HTML copy of the executed quickstart."""

    @pytest.mark.parametrize("width", [400, 1000])
    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_reads_well_and_calls_nobody(self, chromium, demo, theme, width):
        """It shows the comparison, stays inside the window, asks for nothing, and text stands out from its ground."""
        page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
        requests, problems = [], []
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.goto((demo / "quickstart.html").as_uri())
        if theme == "dark":
            page.add_style_tag(content=DARK)
        page.screenshot(path=SCREENSHOTS / f"quickstart-{theme}-{width}.png", full_page=True)
        assert page.get_by_text("Comparison of 2 conversations").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert requests == [page.url]
        assert problems == []
        faint = page.evaluate(FAINT_TEXTS)
        assert faint == []
        page.close()


class TestJupyterLab:
    """The quickstart in JupyterLab."""

    def test_run_all_completes_without_an_error(self, chromium, tmp_path):
        """Run All Cells runs every cell in order, shows the conversations, and what is saved has no error."""
        target = tmp_path / "quickstart.ipynb"
        shutil.copy(quickstart_path(), target)
        with Lab(tmp_path) as address:
            page = open_notebook(chromium, address, "quickstart.ipynb")
            run_all(page)
            page.keyboard.press("Control+s")
            wait_until(lambda: code_cells(target)[-1]["outputs"])
            page.screenshot(path=SCREENSHOTS / "jupyterlab.png")
            page.close()
        cells = code_cells(target)
        assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
        assert not [out for cell in cells for out in cell["outputs"] if out["output_type"] == "error"]
        shown = json.dumps(cells)
        assert "Comparison of 2 conversations" in shown
        assert "widget-view" not in shown
