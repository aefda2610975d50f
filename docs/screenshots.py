"""Make the pictures of the documentation: a notebook with a scripted conversation, in each way in which it is read.

    PYTHONPATH=tests python docs/screenshots.py

It takes what ``pip install -e ".[ci]"`` installs, and Chromium. The notebook and the ways are those of the browser
tests, in ``tests/look.py``.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

import look
from browser import Lab, chromium
from PIL import Image

PICTURES = Path(__file__).parent / "screenshots"
COLOURS = 96
SESSION, FORK, COMPARISON, LISTED = 3, 4, 5, 7  # cells of the notebook
WIDTH = 1000


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
    cell(page, FORK).locator(".cy-foot").first.evaluate("it => it.open = true")
    fork = cell(page, FORK).locator(".cy-fork")
    save("exported", region(page, fork, cell(page, LISTED)))
    messages = cell(page, SESSION).locator(".cy-m")
    page.set_viewport_size({"width": 720, "height": 1000})
    page.emulate_media(media="print")
    save("print", region(page, cell(page, SESSION), messages.nth(2)))
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 400, "height": 900})
    save("narrow", region(page, cell(page, SESSION).locator(".cy-head").first, messages.nth(2)))
    page.close()


def main() -> None:
    """Run the notebook once and take all pictures of it."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        notebook = look.executed(folder)
        jupyterlab(browser, notebook, Path(folder))
        exported(browser, notebook, Path(folder))


if __name__ == "__main__":
    main()
