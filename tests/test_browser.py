"""What a reader sees, in a real browser: the demo's page, and the quickstart run in JupyterLab."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from cyclops_nb.cli import quickstart_path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
SCREENSHOTS = Path(os.environ.get("CYCLOPS_NB_SCREENSHOTS", "/tmp/cyclops-nb-screenshots"))  # noqa: S108
SECONDS = 180


@pytest.fixture(scope="module")
def chromium():
    """Debian's Chromium, with nothing that calls out on its own."""
    from playwright.sync_api import sync_playwright

    SCREENSHOTS.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"],
        )
        yield browser
        browser.close()


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
        with _Lab(tmp_path) as address:
            page = chromium.new_page(viewport={"width": 1200, "height": 1000})
            page.goto(f"{address}/lab/tree/quickstart.ipynb?reset")
            page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=SECONDS * 1000)
            page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]', timeout=SECONDS * 1000)
            page.locator(".jp-NotebookPanel .jp-Cell").first.click()
            page.get_by_role("menuitem", name="Run", exact=True).click()
            page.locator('.lm-Menu-item[data-command="runmenu:run-all"]:not(.lm-mod-disabled)').click()
            _wait_until(lambda: _states(address) == {"busy"})
            _wait_until(lambda: all(_states(address) == {"idle"} for _ in range(20)))  # also between two cells
            page.keyboard.press("Control+s")
            _wait_until(lambda: _code_cells(target)[-1]["outputs"])
            page.screenshot(path=SCREENSHOTS / "jupyterlab.png")
            page.close()
        cells = _code_cells(target)
        assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
        assert not [out for cell in cells for out in cell["outputs"] if out["output_type"] == "error"]
        shown = json.dumps(cells)
        assert "Comparison of 2 conversations" in shown
        assert "widget-view" not in shown


class _Lab:
    """A JupyterLab server on a free port."""

    def __init__(self, folder):
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]

    def __enter__(self):
        command = [
            sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={self._port}",
            "--IdentityProvider.token=", "--ServerApp.password=", f"--ServerApp.root_dir={self._folder}",
        ]  # fmt: skip
        log = (self._folder / "lab.log").open("wb")
        self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=self._folder)
        log.close()
        address = f"http://127.0.0.1:{self._port}"
        _wait_until(lambda: _answers(f"{address}/api"))
        return address

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(30)


def _code_cells(path):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def _states(address):
    """Return what the kernels do, asked with a pause, since an idle kernel may be about to get the next cell."""
    time.sleep(0.1)
    with urllib.request.urlopen(f"{address}/api/kernels", timeout=10) as answer:  # noqa: S310 - an address of ours
        return {kernel["execution_state"] for kernel in json.load(answer)}


def _answers(address):
    try:
        with urllib.request.urlopen(address, timeout=1):  # noqa: S310 - an address of ours
            return True
    except OSError:
        return False


def _wait_until(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.5)  # another program's state: there is no event to wait for


DARK = """
:root { --jp-layout-color0: #111; --jp-layout-color1: #212121; --jp-layout-color2: #424242;
        --jp-content-font-color0: #fff; --jp-content-font-color1: #fff; --jp-content-font-color2: rgba(255,255,255,.7);
        --jp-ui-font-color1: #fff; --jp-border-color1: #616161; --jp-border-color2: #424242;
        --jp-cell-editor-background: #111; --jp-rendermime-table-row-background: #212121; }
body { background: #111; color: #fff; }
"""
# Contrast as WCAG 2 counts it, for texts of ours: those within a root element of class cy.
FAINT_TEXTS = r"""
() => {
  const channels = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const over = (top, ground) => { const a = top.length > 3 ? top[3] : 1; return [0, 1, 2].map((i) => top[i] * a + ground[i] * (1 - a)); };
  const groundOf = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) layers.unshift(channels(getComputedStyle(at).backgroundColor));
    return layers.filter((c) => c.length >= 3).reduce((ground, layer) => over(layer, ground), [255, 255, 255]);
  };
  const faint = [];
  for (const node of document.querySelectorAll(".cy *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.checkVisibility()) continue;
    const color = getComputedStyle(node).color;
    if (!color.startsWith("rgb")) continue;
    const ground = groundOf(node);
    const [a, b] = [light(over(channels(color), ground)), light(ground)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) faint.push(`${node.textContent.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return faint;
}
"""
