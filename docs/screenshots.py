"""Make the pictures of the documentation: a notebook with a scripted conversation, in each way in which it is read.

    PYTHONPATH=tests python docs/screenshots.py

It takes what ``pip install -e ".[ci]"`` installs, Chromium, and poppler-utils for the picture of a PDF. The notebook
and the ways are those of the browser tests, in ``tests/look.py``.
"""

from __future__ import annotations

import io
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import heat_pump
import look
import nbformat
from browser import Lab, begin_all, chromium, open_notebook, run_all
from nbformat.v4 import new_code_cell, new_notebook
from PIL import Image

from cyclops_nb.testing import RecordedRequest, ScriptedServer, gate, reasoning, reply, text, tool_call, tool_calls

PICTURES = Path(__file__).parent / "screenshots"
COLOURS = 96
SESSION, FORK, COMPARISON, LISTED = 3, 4, 5, 7  # cells of the notebook
WIDTH = 1000
PRINTED = 2
"""The page of the PDF on which a session begins."""


def save(name: str, png: bytes) -> None:
    """Write a picture with few colours, so that it is small."""
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(PICTURES / f"{name}.png", optimize=True)
    print(f"{name}: {picture.width} x {picture.height}, {(PICTURES / f'{name}.png').stat().st_size / 1000:.0f} kB")


def cell(page: Any, number: int) -> Any:
    """Return a cell of the notebook."""
    return page.locator(".jp-Cell").nth(number)


def region(page: Any, first: Any, last: Any, *, margin: int = 10) -> bytes:
    """Return a picture from the top of one element to the bottom of another, as wide as the window."""
    top, bottom = first.bounding_box(), last.bounding_box()
    height = bottom["y"] + bottom["height"] - top["y"]
    clip = {"x": 0, "y": top["y"] - margin, "width": page.viewport_size["width"], "height": height + 2 * margin}
    return page.screenshot(full_page=True, clip=clip)


def jupyterlab(browser: Any, notebook: Any, folder: Path) -> None:
    """Make the pictures of JupyterLab: light, dark after a switch of the theme, and not trusted."""
    trusted, sent = look.save(notebook, folder)
    with Lab(folder, *look.NO_KERNELS) as address:
        page = look.open_without_kernel(browser, address, trusted, width=WIDTH)
        for kind in ("reasoning", "call"):
            cell(page, SESSION).locator(f".cy-{kind}").first.evaluate("it => it.open = true")
        save("jupyterlab-light", cell(page, SESSION).screenshot())
        look.switch_theme(page, "JupyterLab Dark")
        save("jupyterlab-dark", cell(page, COMPARISON).screenshot())
        page.close()
        page = look.open_without_kernel(browser, address, sent, width=WIDTH)
        look.switch_theme(page, "JupyterLab Light")
        save("untrusted", cell(page, SESSION).screenshot())
        page.close()


def exported(browser: Any, notebook: Any, folder: Path) -> None:
    """Make the pictures of the page that nbconvert makes: on a screen, on paper, and 400 pixels wide."""
    path = folder / "look.html"
    path.write_text(look.as_page(notebook), "utf-8")
    page = look.offline(browser, viewport={"width": WIDTH, "height": 900})
    page.goto(path.as_uri(), wait_until="domcontentloaded")
    printed(page, folder)
    cell(page, FORK).locator(".cy-foot").first.evaluate("it => it.open = true")
    fork = cell(page, FORK).locator(".cy-fork")
    save("exported", region(page, fork, cell(page, LISTED)))
    messages = cell(page, SESSION).locator(".cy-m")
    page.set_viewport_size({"width": 400, "height": 900})
    save("narrow", region(page, cell(page, SESSION).locator(".cy-head").first, messages.nth(2)))
    page.close()


def printed(page: Any, folder: Path) -> None:
    """Make the picture of paper: the page of a PDF on which a session begins."""
    page.pdf(path=folder / "look.pdf", format="A4")
    options = ["-png", "-r", "100", "-f", str(PRINTED), "-l", str(PRINTED), "-singlefile"]
    subprocess.run(["pdftoppm", *options, folder / "look.pdf", folder / "page"], check=True)  # noqa: S603, S607
    save("print", (folder / "page.png").read_bytes())


def live(browser: Any, folder: Path) -> None:
    """Make the picture of two runs that go on: one writes its answer, the other thinks."""
    writing, thinking = gate(), gate()
    begin, formula, end = heat_pump.CALCULATION.partition("\\[")
    look_up = tool_calls(tool_call("get_climate", {"city": "Bergen"}), tool_call("get_price", {"fuel": "electricity"}))
    words = "They ask of panels on the roof.\nBergen has rain on 240 days of a year, and less light than"

    def script(request: RecordedRequest) -> Any:
        if "solar" in str(request.messages[-1]["content"]):
            return reply(reasoning(words), thinking, text("Hardly."))
        if request.messages[-1]["role"] == "tool":
            return reply(text(begin), writing, text(formula + end))
        return reply(reasoning("They heat with gas."), text("I look up the climate and the price."), look_up)

    with ScriptedServer(script, strict=False) as server:
        sources = [
            f"%load_ext cyclops_nb\nfrom heat_pump import QUESTION, agent_at\nagent = agent_at({server.base_url!r})",
            "handle = agent.start(QUESTION)\nhandle",
            "%%ask sun --bg\nAnd solar panels?",
        ]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = new_notebook(cells=[new_code_cell(it) for it in sources], metadata={"kernelspec": kernel})
        nbformat.write(notebook, folder / "live.ipynb")
        with Lab(folder) as address:
            page = open_notebook(browser, address, "live.ipynb", viewport={"width": WIDTH, "height": 1600})
            page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
            begin_all(page)
            cell(page, 1).get_by_text("divided by the efficiency").wait_for()
            cell(page, 2).get_by_text("less light than").filter(visible=True).first.wait_for()
            save("live", region(page, cell(page, 1), cell(page, 2)))
            for held in (writing, thinking):
                held.release()
            page.close()


EXPLORED = """
from heat_pump import start_agent
from cyclops_nb import Session, explore
agent = start_agent()
session = Session("bergen-1", title="Heat pump in Bergen")
agent.run("Show me the calculation as Python.", session=session)
agent.run("And solar panels?", session=session)
explorer = explore(session, agent)
last = max(index for index, message in enumerate(session.messages) if message.role == "user")
explorer.edit(last, "And a wood stove?")
explorer.wait()
explorer.rename("Wood stove")
explorer.fork(last - 1)
explorer.rename("Noise")
explorer.send("Is a heat pump loud?").result()
explorer.wait()
explorer.switch("bergen-1")
"""


def explored(browser: Any, folder: Path) -> None:
    """Make the pictures of an explorer: light, dark, and its comparison of branches."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [new_code_cell(EXPLORED.strip()), new_code_cell("explorer")]
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), folder / "explored.ipynb")
    with Lab(folder) as address:
        page = open_notebook(browser, address, "explored.ipynb", viewport={"width": WIDTH, "height": 1800})
        page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
        run_all(page)
        cell(page, 1).get_by_role("button", name="Send").wait_for()
        cell(page, 1).get_by_text("wood stove").first.wait_for(state="attached")
        save("explorer", cell(page, 1).screenshot())
        look.switch_theme(page, "JupyterLab Dark")
        cell(page, 1).get_by_role("tab", name="Compare").click()
        branches = cell(page, 1).locator("select[multiple]")
        branches.select_option(index=[0, 1])
        cell(page, 1).get_by_text("Comparison of 2 conversations").wait_for()
        save("explorer-compare-dark", cell(page, 1).screenshot())
        look.switch_theme(page, "JupyterLab Light")
        page.close()


def main() -> None:
    """Run the notebook once and take all pictures of it, and those of what one follows and clicks."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        notebook = look.executed(folder)
        jupyterlab(browser, notebook, Path(folder))
        exported(browser, notebook, Path(folder))
        live(browser, Path(tempfile.mkdtemp(dir=folder)))
        explored(browser, Path(tempfile.mkdtemp(dir=folder)))


if __name__ == "__main__":
    main()
