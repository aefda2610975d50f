"""A notebook with all that this library shows, and the ways in which people look at it, for tests and for pictures."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import nbconvert
import nbformat
from browser import SECONDS
from nbclient import NotebookClient
from nbformat.sign import NotebookNotary
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

CELLS = [
    """
from heat_pump import QUESTION, bills, start_agent

from cyclops_nb import InMemorySessionStore, Session, compare, export_notebook, runs_frame, usage_table

%load_ext cyclops_nb
agent = start_agent()
fuel = "gas"
""",
    """
session = Session("bergen-1", title="Heat pump in Bergen")
agent.run([QUESTION, bills()], session=session)
""",
    """
agent.run("Show me the calculation as Python.", session=session)
session
""",
    """
other = session.fork(title="Solar panels")
agent.run("And solar panels?", session=other)
other
""",
    """
agent.run("And a wood stove?", session=session)
compare(session, other, labels=["stove", "solar"])
""",
    """
handle = agent.start("Is a heat pump loud?", session=other)
handle.result()
handle
""",
    """
store = InMemorySessionStore()
await store.save(session)
await store.save(other)
await store.list()
""",
    "runs_frame(session, other)",
    "session.runs[0]",
    "session.messages[1]",
    "session.usage",
    """
%%ask other
What does a kWh of {fuel} cost?
""",
    """
handle = agent.start("How long does a pump last?", session=other)
handle
""",
    """
handle.result()
%sessions
""",
    'usage_table(session, other, by="branch")',
    "export_notebook([session, other], 'exported.ipynb')",
]
"""The code cells, of every kind: what they show is in `heat_pump`."""
NO_KERNELS = ("--KernelSpecManager.ensure_native_kernel=False", "--KernelSpecManager.allowed_kernelspecs=none")
"""Options of a JupyterLab on a machine that has no kernel for the notebook."""


def executed(folder):
    """Run all cells in a fresh kernel, and return the notebook."""
    cells = [new_markdown_cell("# Heating in Bergen"), *(new_code_cell(source.strip()) for source in CELLS)]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel})
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    NotebookClient(notebook, timeout=SECONDS).execute(cwd=str(folder), env={**os.environ, "PYTHONPATH": path})
    return notebook


def outputs(notebook):
    """Return what the cells show, as lists of bundles."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not [out for cell in cells for out in cell.outputs if out.output_type == "error"]
    return [[dict(out.data) for out in cell.outputs if "data" in out] for cell in cells]


_CHANCE = re.compile(
    r"\b[0-9a-f]{32}\b|\b[0-9a-f]{8}\b|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d(?:\.\d+)?(?:\+00:00)?|"
    r"(?:<|&lt;)?(?:\d+ min )?\d+(?:\.\d+)? s\b(?: \([+−][^)]* s\))?|(?<=\"duration\": )[\d.e-]+|(?<![$\w.])\d+\.\d{3,}(?:e-\d+)?|"
    r"(?<![$\w.])\d[\d,]*\.\d(?![\d%])(?: \([+−][\d,.]+\))?"
)


def steady(shown):
    """Return outputs as texts without what differs from run to run: random ids, moments, durations, speeds and how they differ, and widths."""
    return [re.sub(" +", " ", _CHANCE.sub("~", json.dumps(cell, indent=1, ensure_ascii=False))) for cell in shown]


def save(notebook, folder):
    """Write the notebook as its author has it, who is trusted, and as a colleague gets it, and return both names."""
    nbformat.write(notebook, folder / "look.ipynb")
    kept = folder / ".jupyter"
    kept.mkdir(exist_ok=True)
    NotebookNotary(data_dir=str(kept)).sign(notebook)
    sent = nbformat.from_dict(json.loads(nbformat.writes(notebook)))
    sent.cells[0].source += ", as it was sent"
    nbformat.write(sent, folder / "sent.ipynb")
    return "look.ipynb", "sent.ipynb"


def open_without_kernel(browser, address, name, *, width=1000):
    """Open a notebook in a JupyterLab that has no kernel for it, and return the page when all outputs are drawn."""
    page = browser.new_page(viewport={"width": width, "height": 9000})
    page.goto(f"{address}/lab/tree/{name}?reset")
    page.locator(".jp-Dialog button").filter(has_text="No Kernel").click(timeout=SECONDS * 1000)
    page.wait_for_selector(".jp-OutputArea-output .cy-usage", timeout=SECONDS * 1000)
    page.wait_for_selector(".cy mjx-container", timeout=SECONDS * 1000)
    page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
    page.evaluate("document.fonts.ready")
    return page


def switch_theme(page, name):
    """Choose a theme in the JupyterLab that is open, and wait until its style sheet is there."""
    before = page.evaluate("getComputedStyle(document.body).getPropertyValue('--jp-layout-color1')")
    page.evaluate(f"jupyterapp.commands.execute('apputils:change-theme', {{theme: {name!r}}})")
    page.wait_for_function(
        "was => getComputedStyle(document.body).getPropertyValue('--jp-layout-color1') !== was", arg=before
    )


def open_all(page, *, is_open=True):
    """Open, or close, all that can be folded."""
    page.evaluate("open => document.querySelectorAll('.cy details').forEach(it => it.open = open)", is_open)


def as_page(notebook, theme="light"):
    """Return the notebook as nbconvert makes a page of it."""
    return nbconvert.HTMLExporter(theme=theme).from_notebook_node(notebook)[0]


def offline(browser, **settings):
    """Return a page that reaches nothing but files; what else it asks for is in its list ``asked``."""
    page = browser.new_page(**settings)
    page.asked = []

    def refuse(route):
        page.asked.append(route.request.url)
        route.abort()

    page.route(re.compile("https?://.*"), refuse)
    return page
