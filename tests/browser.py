"""A real browser and a real JupyterLab, for tests of what a reader sees."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

SCREENSHOTS = Path(os.environ.get("CYCLOPS_NB_SCREENSHOTS", "/tmp/cyclops-nb-screenshots"))  # noqa: S108
SECONDS = 180
# what JupyterLab draws says "idle" also before it has a kernel, and cells that are run then are forgotten
IS_READY = """
() => {
  const kernel = jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel;
  return kernel && kernel.connectionStatus === "connected" && kernel.status === "idle";
}
"""
ALL_HAVE_RUN = """
() => jupyterapp.shell.currentWidget.content.widgets
  .every((cell) => cell.model.type !== "code" || cell.model.executionCount && cell.model.executionState === "idle")
"""


@contextlib.contextmanager
def chromium(*options):
    """Debian's Chromium, with nothing that calls out on its own, and with further options."""
    from playwright.sync_api import sync_playwright

    SCREENSHOTS.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-component-update",
                *options,
            ],
        )
        yield browser
        browser.close()


class Lab:
    """A JupyterLab server on a free port, with further options; it keeps what it is set to in its folder alone."""

    def __init__(self, folder, *options):
        self._folder = folder
        self._options = options
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]

    def __enter__(self):
        command = [
            sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser", f"--port={self._port}",
            "--IdentityProvider.token=", "--ServerApp.password=", f"--ServerApp.root_dir={self._folder}",
            *self._options,
        ]  # fmt: skip
        kept = self._folder / ".jupyter"
        news = kept / "lab" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
        news.parent.mkdir(parents=True, exist_ok=True)
        news.write_text('{"fetchNews": "false", "checkForUpdates": false}')  # or a question covers the page's corner
        places = {"JUPYTER_DATA_DIR": kept, "JUPYTERLAB_SETTINGS_DIR": kept / "lab", "JUPYTERLAB_WORKSPACES_DIR": kept}
        settings = {**os.environ, **{name: str(place) for name, place in places.items()}}
        log = (self._folder / "lab.log").open("wb")
        self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=self._folder, env=settings)
        log.close()
        address = f"http://127.0.0.1:{self._port}"
        wait_until(lambda: answers(f"{address}/api"))
        return address

    def __exit__(self, *_):
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:  # a server that waits for a kernel of its own does not hear
            self._process.kill()
            self._process.wait()


def open_notebook(browser, address, path, asked=None, **settings):
    """Open a notebook of a JupyterLab in a new page, watched if there is a list, and return the page when its kernel is idle."""
    page = browser.new_page(**{"viewport": {"width": 1200, "height": 1000}, **settings})
    if asked is not None:
        watch(page, asked)
    show_notebook(page, address, path)
    return page


def show_notebook(page, address, path):
    """Show a notebook of a JupyterLab in a page, and wait until its kernel is idle."""
    page.goto(f"{address}/lab/tree/{path}?reset")
    page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=SECONDS * 1000)
    page.wait_for_function(IS_READY, timeout=SECONDS * 1000)


def watch(page, asked):
    """Put every address that a page asks for, and every dialog that it opens, into a list."""
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    page.on("dialog", lambda dialog: asked.append(f"dialog {dialog.message}"))


def begin_all(page):
    """Begin to run all cells of the notebook that is open."""
    page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells') }")


def run_all(page):
    """Run all cells of the notebook that is open, and wait until each has run."""
    begin_all(page)
    page.wait_for_function(ALL_HAVE_RUN, timeout=SECONDS * 1000)


def code_cells(path):
    """Return the code cells of a notebook file."""
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def answers(address):
    """Say whether a server answers there."""
    try:
        with urllib.request.urlopen(address, timeout=1):  # noqa: S310 - an address of ours
            return True
    except OSError:
        return False


def wait_until(condition):
    """Wait until something is so that another program brings about."""
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
  const strength = (node) => { let s = 1; for (let at = node; at; at = at.parentElement) s *= getComputedStyle(at).opacity; return s; };
  for (const node of document.querySelectorAll(".cy *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.checkVisibility()) continue;
    const color = getComputedStyle(node).color;
    if (!color.startsWith("rgb")) continue;
    const ground = groundOf(node);
    const [r, g, b_, a_ = 1] = channels(color);
    const [a, b] = [light(over([r, g, b_, a_ * strength(node)], ground)), light(ground)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) faint.push(`${node.textContent.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return faint;
}
"""
