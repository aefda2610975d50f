"""How fast an explorer of fifty branches opens and switches in a browser, against the naive way: new widgets each time.

A real JupyterLab in Chromium, clicked as a user does. A switch lasts from the choice in the list of branches until the
last message of the other branch is on the page, as seen at the next frame that is painted.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import nbformat

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import Lab, chromium, open_notebook  # the tests' own browser and server

BRANCHES, MESSAGES, SWITCHES = 50, 100, 12
GOALS = {"open": 2_000, "switch": 200}
SESSIONS = f"""
from cyclops_nb import AssistantMessage, Session, UserMessage, explore
TEXT = "The **quick** brown fox jumps over the lazy dog.\\n\\n- one\\n- two\\n\\n```python\\nx = f(1)\\n```\\n"
root = Session("root", title="Branch 0")
for number in range({MESSAGES} // 2):
    root.messages += [UserMessage(f"Question {{number}}?"), AssistantMessage(f"Answer {{number}}. " + TEXT)]
sessions = [root]
for number in range(1, {BRANCHES}):
    branch = root.fork(at={MESSAGES} - 2 * (number % 20 + 1), title=f"Branch {{number}}")
    while len(branch.messages) < {MESSAGES}:
        branch.messages += [UserMessage("And then?"), AssistantMessage(f"Of branch {{number}}. " + TEXT)]
    sessions.append(branch)
for number, branch in enumerate(sessions):
    branch.messages[-1] = AssistantMessage(f"The end of branch {{number}}. " + TEXT)
"""
OURS = "explore(sessions)"
NAIVE = """
import ipywidgets
from cyclops_nb.display.register import mimebundle
chosen = ipywidgets.Select(options=[(each.title, number) for number, each in enumerate(sessions)])
place = ipywidgets.VBox()
def show(change=None):
    place.children = [ipywidgets.HTML(mimebundle(message)["text/html"]) for message in sessions[chosen.value].messages]
chosen.observe(show, "value")
show()
ipywidgets.VBox([chosen, place])
"""
OPENED = """
async () => {
  const words = "The end of branch 0.";
  const began = performance.now();
  jupyterapp.shell.currentWidget.content.activeCellIndex = 1;
  jupyterapp.commands.execute("notebook:run-cell");
  const cell = document.querySelectorAll(".jp-NotebookPanel .jp-Cell")[1];
  const isThere = () => [...cell.querySelectorAll(".cy-md")].some((text) => text.textContent.includes(words));
  while (!isThere()) {
    if (performance.now() - began > 20000) throw new Error(cell.innerText.slice(0, 2000));
    await new Promise(requestAnimationFrame);
  }
  return performance.now() - began;
}
"""
SWITCHED = """
async (number) => {
  const words = `The end of branch ${number}.`;
  const cell = document.querySelectorAll(".jp-NotebookPanel .jp-Cell")[1];
  const list = cell.querySelector("select");
  const began = performance.now();
  list.selectedIndex = [...list.options].findIndex((option) => option.text.match(`Branch\\\\s${number}(\\\\D|$)`));
  list.dispatchEvent(new Event("change", { bubbles: true }));
  list.dispatchEvent(new Event("input", { bubbles: true }));
  const isThere = () => [...cell.querySelectorAll(".cy-md")].some((text) => text.textContent.includes(words));
  while (!isThere()) {
    if (performance.now() - began > 20000) throw new Error(cell.innerText.slice(0, 2000));
    await new Promise(requestAnimationFrame);
  }
  return performance.now() - began;
}
"""


def measured(browser: object, folder: Path, address: str, name: str, code: str) -> tuple[float, list[float]]:
    """Return the milliseconds until it is open, and those of the switches."""
    cells = [nbformat.v4.new_code_cell(source) for source in (SESSIONS, code)]
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=spec), folder / f"{name}.ipynb")
    page = open_notebook(browser, address, f"{name}.ipynb")
    page.evaluate("""async () => {
      jupyterapp.shell.currentWidget.content.activeCellIndex = 0;
      await jupyterapp.commands.execute("notebook:run-cell");
    }""")
    opened = page.evaluate(OPENED)
    time.sleep(1)  # a user looks first
    switches = [page.evaluate(SWITCHED, 1 + (number * 7) % (BRANCHES - 1)) for number in range(SWITCHES)]
    page.close()
    return opened, switches


def main() -> None:
    """Print both."""
    with tempfile.TemporaryDirectory() as place, chromium() as browser:
        folder = Path(place)
        with Lab(folder) as address:
            naive_open, naive = measured(browser, folder, address, "naive", NAIVE)
            opened, switches = measured(browser, folder, address, "ours", OURS)
    median, worst = statistics.median(switches), max(switches)
    slow = statistics.median(naive)
    print(
        f"explorer of {BRANCHES} branches of {MESSAGES} messages: open {opened:.0f} ms (goal {GOALS['open']}), "
        f"naive {naive_open:.0f} ms, ratio {opened / naive_open:.2f}"
    )
    print(
        f"  switch {median:.0f} ms, at worst {worst:.0f} ms (goal {GOALS['switch']}), "
        f"naive {slow:.0f} ms, ratio {median / slow:.2f}"
    )


if __name__ == "__main__":
    main()
