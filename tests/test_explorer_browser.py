"""What a researcher does with branches in JupyterLab, seen in the page and in the objects of the kernel."""

from __future__ import annotations

import json

import nbformat
import pytest
from browser import SCREENSHOTS, Lab, code_cells, open_notebook, wait_until
from look import NO_KERNELS

from cyclops_nb.testing import ScriptedServer, gate, reply, text

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]

WAIT = 60_000
SETUP = """
import json
from cyclops_nb import Agent, Session, compare, explore
agent = Agent("guide", base_url={url!r}, prices={{"input": 1, "output": 2}})
session = Session(title="Trip")
explorer = explore(session, agent)
explorer
"""
COMPARE = "compare(*[each for each in explorer.sessions if len(each.messages) == 4])"
IN_KERNEL = """
async (code) => {
  const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  const future = kernel.requestExecute({ code, store_history: false });
  let said = "";
  future.onIOPub = ({ header, content }) => { said += { stream: content.text, error: content.evalue }[header.msg_type] ?? ""; };
  await future.done;
  return said;
}
"""
"""Run code in the kernel of the notebook that is open, beside its cells."""
RUN_CELL = """
async (number) => {
  jupyterapp.shell.currentWidget.content.activeCellIndex = number;
  await jupyterapp.commands.execute("notebook:run-cell");
}
"""


def notebook_of(path, cells, kernel="python3"):
    """Write a notebook for one of the kernels that a JupyterLab has."""
    spec = {"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}}
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells], metadata=spec)
    nbformat.write(notebook, path)


def offer_kernel(folder, name, python):
    """Have the JupyterLabs of a folder offer a kernel of another interpreter."""
    place = folder / ".jupyter" / "kernels" / name
    place.mkdir(parents=True)
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (place / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": name, "language": "python"}))


def answering(held):
    """Return a script that answers any question by its words, and stops before the end of the slow one."""

    def answer(request):
        question = request.messages[-1]["content"]
        if "slow" in question:
            return reply(text("Slowly, slowly "), held, text("done."))
        return text(f"About {question.rstrip('?')}: take the train.")

    return answer


class Researcher:
    """Somebody before a page with an explorer in its first cell."""

    def __init__(self, page):
        self.page = page
        self.place = page.locator(".jp-NotebookPanel .jp-Cell").first.locator(".jp-Cell-outputArea")

    def kernel(self, expression):
        """Return the value of an expression in the kernel."""
        return json.loads(self.page.evaluate(IN_KERNEL, f"print(json.dumps({expression}))"))

    def texts(self):
        """Return what the messages of the current branch say."""
        return self.kernel("[message.text for message in explorer.session.messages]")

    def titles(self):
        """Return the titles of all branches."""
        return self.kernel("[session.title for session in explorer.sessions]")

    def see(self, words):
        """Wait until the explorer shows some words."""
        self.place.get_by_text(words).filter(visible=True).first.wait_for(timeout=WAIT)

    def miss(self, words):
        """Wait until the explorer shows some words no more."""
        for found in self.place.get_by_text(words).filter(visible=True).all():
            found.wait_for(state="hidden", timeout=WAIT)

    def press(self, name, within=None):
        """Press a button that is seen."""
        (within or self.place).get_by_role("button", name=name, exact=True).filter(visible=True).first.click(
            timeout=WAIT
        )

    def message(self, index):
        """Return the place of a message and its buttons: the innermost box of widgets that has both."""
        message = self.page.locator(f"[role=group][aria-label^='message {index},']")
        boxes = self.place.locator(".widget-box, .widget-vbox, .widget-hbox").filter(has=message)
        return boxes.filter(has=self.page.get_by_role("button", name="Fork here", exact=True)).filter(visible=True).last

    def ask(self, question):
        """Type a question and send it."""
        self.place.get_by_placeholder("Ask", exact=False).fill(question)
        self.press("Send")

    def picture(self, name):
        """Keep what is seen."""
        self.page.screenshot(path=SCREENSHOTS / f"explorer-{name}.png")


@pytest.fixture(params=["installed", "6.31"])
def kernel_name(request, tmp_path):
    """Give the name of a kernel of each generation that a JupyterLab in the folder offers."""
    if request.param == "installed":
        return "python3"
    offer_kernel(tmp_path, "older", request.getfixturevalue("older_python"))
    return "older"


class TestExplorer:
    """From the first question to the notebook that is read without a kernel."""

    def test_a_researcher_explores_and_keeps_what_was_seen(self, chromium, tmp_path, kernel_name):
        """Asking, forking, editing, stopping, truncating, switching, comparing, renaming, deleting, and reading it again."""
        held = gate()
        path = tmp_path / "branches.ipynb"
        with ScriptedServer(answering(held)) as server:
            notebook_of(path, [SETUP.format(url=server.base_url), COMPARE], kernel_name)
            with Lab(tmp_path) as address:
                page = open_notebook(chromium, address, path.name, viewport={"width": 1300, "height": 1400})
                page.evaluate(RUN_CELL, 0)
                one = Researcher(page)
                self._asks(one)
                self._forks_and_edits(one)
                self._stops(one, held)
                self._truncates_and_switches(one)
                self._compares(one)
                self._renames_and_deletes(one)
                self._keeps(one, path)
                page.close()
        self._reads_it_again(chromium, tmp_path, path)

    @staticmethod
    def _asks(one):
        one.ask("Oslo?")
        one.see("About Oslo: take the train.")
        one.ask("Rome?")
        one.see("About Rome: take the train.")
        one.picture("asked")
        answers = ["Oslo?", "About Oslo: take the train.", "Rome?", "About Rome: take the train."]
        assert one.texts() == answers
        assert one.kernel("[message.text for message in session.messages]") == answers
        assert one.titles() == ["Trip"]

    @staticmethod
    def _forks_and_edits(one):
        one.press("Fork here", one.message(2))
        one.miss("About Rome: take the train.")
        assert one.texts() == ["Oslo?", "About Oslo: take the train.", "Rome?"]
        assert one.kernel("[len(each.messages) for each in explorer.sessions]") == [4, 3]
        one.press("Edit", one.message(2))
        one.picture("editing")
        box = one.place.locator("textarea").filter(visible=True)
        assert "Rome?" in [each.input_value() for each in box.all()]
        next(each for each in box.all() if each.input_value() == "Rome?").fill("Venice?")
        one.press("Save and ask")
        one.see("About Venice: take the train.")
        assert one.texts()[2:] == ["Venice?", "About Venice: take the train."]
        assert one.kernel("explorer.session.messages[2].metadata['edited_from'] == session.messages[2].id")
        assert one.kernel("[len(each.messages) for each in explorer.sessions]") == [4, 3, 4]
        one.picture("edited")

    @staticmethod
    def _stops(one, held):
        one.ask("slow story?")
        one.see("Slowly, slowly")
        assert one.kernel("explorer.session.busy")
        one.picture("running")
        one.press("Stop")
        one.see("cancelled")
        assert one.kernel("[explorer.session.busy, explorer.session.runs[-1].stop_reason]") == [False, "cancelled"]
        assert one.texts()[3:] == ["About Venice: take the train.", "slow story?"]
        one.picture("stopped")
        held.release()

    @staticmethod
    def _truncates_and_switches(one):
        one.press("Truncate here", one.message(4))
        one.picture("truncating")
        one.press("Truncate")
        one.miss("slow story?")
        assert one.texts()[2:] == ["Venice?", "About Venice: take the train."]
        assert one.kernel("sum(each.messages[-1].text == 'slow story?' for each in explorer.sessions)") == 1
        tree = one.place.locator("select").filter(visible=True).first
        tree.select_option(index=0)
        one.see("About Rome: take the train.")
        assert one.kernel("explorer.session is session")
        one.picture("switched")

    @staticmethod
    def _compares(one):
        one.page.evaluate(RUN_CELL, 1)
        compared = one.page.locator(".jp-NotebookPanel .jp-Cell").nth(1).locator(".jp-Cell-outputArea")
        compared.get_by_text("Comparison of 2 conversations").wait_for(timeout=WAIT)
        shown = compared.inner_text()
        assert "Oslo" not in shown, "what is common is folded"
        assert "Rome" in shown
        assert "Venice" in shown
        one.picture("compared")

    @staticmethod
    def _renames_and_deletes(one):
        before = one.titles()
        one.press("Rename")
        box = one.place.locator("input[type=text]").filter(visible=True).first
        box.fill("By train <b>")
        one.press("Save")
        one.place.locator("option", has_text="By train <b>").first.wait_for(state="attached", timeout=WAIT)
        assert one.kernel("session.title") == "By train <b>"
        tree = one.place.locator("select").filter(visible=True).first
        tree.select_option(index=tree.locator("option").count() - 1)
        wait_until(lambda: one.kernel("explorer.session is not session"))
        gone = one.kernel("explorer.session.id")
        one.press("Delete")
        one.picture("deleting")
        one.press("Delete branch")
        wait_until(lambda: gone not in one.kernel("[each.id for each in explorer.sessions]"))
        assert len(one.titles()) == len(before) - 1

    @staticmethod
    def _keeps(one, path):
        tree = one.place.locator("select").filter(visible=True).first
        tree.select_option(index=0)
        wait_until(lambda: one.kernel("explorer.session is session"))
        one.press("Keep in notebook")
        one.place.locator("button").first.wait_for(state="detached", timeout=WAIT)
        one.see("About Rome: take the train.")
        one.picture("kept")
        one.page.keyboard.press("Control+s")
        wait_until(lambda: "About Rome" in path.read_text() and "widget-view" not in path.read_text())

    @staticmethod
    def _reads_it_again(chromium, folder, path):
        explored, compared = code_cells(path)
        assert [output["output_type"] for output in explored["outputs"]] == ["display_data"]
        assert "About Rome: take the train." in "".join(explored["outputs"][0]["data"]["text/plain"])
        with Lab(folder, *NO_KERNELS) as address:
            page = chromium.new_page(viewport={"width": 1300, "height": 1400})
            page.goto(f"{address}/lab/tree/{path.name}?reset")
            page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=WAIT)
            one = Researcher(page)
            one.see("About Rome: take the train.")
            assert page.get_by_text("model not found").count() == 0
            shown = page.locator(".jp-NotebookPanel .jp-Cell").nth(1).locator(".jp-Cell-outputArea")
            shown.get_by_text("Comparison of 2 conversations").wait_for(timeout=WAIT)
            assert "Venice" in shown.inner_text()
            one.picture("reopened")
            page.close()
        assert compared["outputs"]
