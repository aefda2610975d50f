"""The explorer's widgets in real kernels: what clicks do, what code does, and what stays."""

from __future__ import annotations

import json

import nbformat
import pytest
from frontend import WIDGET, FrontEnd
from kernels import KERNELS, kernel_of
from nbclient import NotebookClient

from cyclops_nb.testing import ScriptedServer, gate, reply, text


@pytest.fixture(scope="module", params=KERNELS)
def running(request):
    """Give one kernel for all tests here."""
    kernel = kernel_of(request)
    yield kernel
    kernel.close()


@pytest.fixture
def front(running):
    """Give a front end whose kernel has imported what is used, and that is left without widgets."""
    front = FrontEnd(running)
    front.run("""
import json
from ipywidgets.widgets.widget import _instances
from cyclops_nb import Agent, Session, explore
known = set(_instances)
""")
    yield front
    front.run("explorer.freeze()")
    assert printed(front, "len(set(_instances) - known)") == 0
    assert front.errors == []


@pytest.fixture
def server():
    """Give a server that answers any question by its words."""
    with ScriptedServer(lambda request: text(f"About {request.messages[-1]['content']}")) as server:
        yield server


def begin(front, server):
    """Show an explorer of a session of one turn, and return the cell."""
    front.run(f"agent = Agent('scripted', base_url={server.base_url!r})\nsession = Session('trip', title='Trip')")
    front.run("agent.run('Oslo?', session=session)")
    cell = front.run("explorer = explore(session, agent)\nexplorer")
    front.wait_until(lambda: "About Oslo?" in front.shown(cell))
    return cell


def printed(front, expression):
    """Return the value of an expression in the kernel."""
    return json.loads(front.outputs[front.run(f"print(json.dumps({expression}))")][0])


def press(front, words, place=0):
    """Press a button by what stands on it, when it is there: the first one, or that of another row."""
    front.wait_until(lambda: len(front.find("Button", description=words)) > place)
    front.click(front.find("Button", description=words)[place])


def ask(front, question):
    """Type a question and send it."""
    (field,) = front.find("Textarea")
    front.change(field, value=question)
    press(front, "Send")


class TestClicks:
    """What a user does is in the objects of the kernel."""

    def test_ask_fork_edit_and_cut(self, front, server):
        """A question, a fork at its answer, an edited question and a cut: each is seen, and there for the next cell."""
        cell = begin(front, server)
        ask(front, "Rome?")
        front.wait_until(lambda: "About Rome?" in front.shown(cell))
        front.wait_until(lambda: not front.widgets[front.find("Button", description="Send")[0]]["disabled"])
        assert printed(front, "[len(session.messages), session.runs[-1].stop_reason]") == [4, "completed"]
        press(front, "Fork here", 1)
        front.wait_until(lambda: "About Rome?" not in front.shown(cell))
        assert printed(front, "[explorer.session.title, len(explorer.session.messages)]") == ["Trip (2)", 2]
        press(front, "Edit", 0)
        front.wait_until(lambda: front.find("Textarea", value="Oslo?"))
        front.change(front.find("Textarea", value="Oslo?")[0], value="Bergen?")
        press(front, "Save and ask")
        front.wait_until(lambda: "About Bergen?" in front.shown(cell))
        assert printed(front, "[len(each.messages) for each in explorer.sessions]") == [4, 2, 2]
        front.run("explorer.wait()")
        press(front, "Truncate here", 1)
        press(front, "Truncate")
        front.wait_until(lambda: "About Bergen?" not in front.shown(cell))
        assert printed(front, "[len(each.messages) for each in explorer.sessions]") == [4, 2, 1, 2]

    def test_what_is_refused_says_why(self, front, server):
        """An error of a callback stands in the widget, since it is seen nowhere else, until the next click."""
        cell = begin(front, server)
        press(front, "Send")
        front.wait_until(lambda: "there is nothing to ask yet" in front.shown(cell))
        front.run("explorer.agent = None")
        ask(front, "Rome?")
        front.wait_until(lambda: "InputError: there is no agent to ask" in front.shown(cell))
        press(front, "Delete")
        press(front, "Delete branch")
        front.wait_until(lambda: "is the only branch here" in front.shown(cell))
        press(front, "Refresh")
        front.wait_until(lambda: "Error" not in front.shown(cell))

    def test_a_question_is_for_the_branch_it_was_asked_in(self, front, server):
        """One that waits for an answer is dropped when another branch is gone to."""
        cell = begin(front, server)
        front.run("explorer.fork(0)\nexplorer.switch('trip')")
        press(front, "Truncate here", 0)
        front.wait_until(lambda: "Cut message [0]" in front.shown(cell))
        front.change(front.find("Select")[0], index=1)
        front.wait_until(lambda: "Cut message [0]" not in front.shown(cell))
        assert printed(front, "explorer.session.title") == "Trip (2)"
        assert front.find("Button", description="Truncate") == []

    def test_a_run_is_stopped_by_its_own_button(self, front):
        """The Stop button of a branch stops its run, and no other."""
        held = [gate(), gate()]
        replies = [reply(text(f"begun {number}"), held[number], text(" and ended")) for number in (0, 1)]
        with ScriptedServer(replies) as server:
            front.run(f"agent = Agent('scripted', base_url={server.base_url!r})\nsession = Session('a')")
            cell = front.run("explorer = explore(session, agent)\nexplorer")
            ask(front, "first")
            front.wait_until(lambda: "begun 0" in front.shown(cell))
            front.run("explorer.fork()")
            ask(front, "second")
            front.wait_until(lambda: "begun 1" in front.shown(cell))
            assert "begun 0" not in front.shown(cell)
            press(front, "Stop", 1)
            front.wait_until(lambda: "cancelled" in front.shown(cell))
            assert printed(front, "[each.busy for each in explorer.sessions]") == [True, False]
            held[0].release()
            front.run("explorer.wait()\nexplorer.switch('a')")
            front.wait_until(lambda: "begun 0 and ended" in front.shown(cell))
            held[1].release()

    @pytest.mark.parametrize("running", ["installed"], indirect=True)
    def test_clicks_may_come_on_another_thread(self, front, server):
        """A click that a thread of the kernel hears forks all the same."""
        cell = begin(front, server)
        front.click(front.find("Button", description="Fork here")[0], front.subshell())
        front.wait_until(lambda: "About Oslo?" not in front.shown(cell))
        assert printed(front, "len(explorer.sessions)") == 2


class TestCode:
    """What other cells do is seen."""

    def test_what_a_cell_asks_is_shown_when_it_has_ended(self, front, server):
        """The messages of a run that code began stand in the widget, without a click."""
        cell = begin(front, server)
        front.run("agent.run('Rome?', session=session)")
        front.wait_until(lambda: "About Rome?" in front.shown(cell))
        front.run("session.truncate(2)")
        front.wait_until(lambda: "About Rome?" not in front.shown(cell))

    def test_methods_move_all_views(self, front, server):
        """Two cells that show one explorer show the same."""
        first = begin(front, server)
        second = front.run("explorer")
        front.run("explorer.edit(0, 'Venice?')\nexplorer.wait()")
        for cell in (first, second):
            front.wait_until(lambda cell=cell: "About Venice?" in front.shown(cell))

    def test_a_long_branch_shows_its_end_first(self, front, server):
        """Twenty messages are there; earlier ones come when they are asked for."""
        cell = begin(front, server)
        front.run("""
from cyclops_nb import AssistantMessage, UserMessage
for number in range(40):
    session.messages += [UserMessage(f"question {number}."), AssistantMessage(f"answer {number}.")]
""")
        front.wait_until(lambda: "answer 39." in front.shown(cell))
        assert "question 29." not in front.shown(cell)
        press(front, "Earlier messages")
        front.wait_until(lambda: "question 29." in front.shown(cell))


class TestKeeping:
    """What stays in the notebook."""

    def test_the_button_leaves_html(self, front, server):
        """In place of the widgets stands HTML that says the same, and no widget is left."""
        cell = begin(front, server)
        front.run("explorer.fork(0)")
        press(front, "Keep in notebook")
        front.wait_until(lambda: front.is_over(cell))
        shown = front.shown(cell)
        assert "Trip (2)" in shown
        assert "[0] user Oslo?" in shown
        front.wait_until(lambda: not front.find("Button"))
        assert "Oslo?" in front.outputs[cell][0]["text/plain"]

    def test_it_can_be_shown_again(self, front, server):
        """After that, another cell shows the widget."""
        begin(front, server)
        front.run("explorer.freeze()")
        cell = front.run("explorer")
        assert WIDGET in front.outputs[cell][0]
        assert "About Oslo?" in front.outputs[cell][0]["text/html"]

    def test_hostile_titles_and_texts_are_text(self, front, server):
        """Nothing that is said becomes an element."""
        cell = begin(front, server)
        front.run(
            "session.title = '<img src=x onerror=alert(1)>'\nagent.run('<script>alert(1)</script>', session=session)"
        )
        front.wait_until(lambda: "<script>alert(1)</script>" in front.shown(cell))
        html = " ".join(str(part) for part in front.parts(cell))
        assert "<script" not in html
        assert "<img" not in html
        front.run("session.title = 'Trip'")


def test_where_nobody_looks_it_is_html_at_once(server):
    """An executed notebook has the HTML, brought up to date by `freeze`, and no widget."""
    cells = [
        f"from cyclops_nb import *\nagent = Agent('m', base_url={server.base_url!r})\nexplorer = explore(Session('a'), agent)",
        "explorer",
        "explorer.send('Oslo?').result()\nexplorer.wait()\nexplorer.freeze()",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=60).execute()
    (output,) = notebook.cells[1].outputs
    assert WIDGET not in output.data
    assert "About Oslo?" in output.data["text/html"]
    assert "widgets" not in notebook.metadata
