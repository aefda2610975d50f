"""A run shown in a cell while it goes on, in real kernels."""

from __future__ import annotations

import re
import subprocess
import sys

import nbformat
import pytest
from frontend import WIDGET, FrontEnd
from kernels import KERNELS, kernel_of
from nbclient import NotebookClient
from pages import read

from cyclops_nb.display.live import show_live
from cyclops_nb.testing import ScriptedServer, cut, gate, reasoning, reply, text, tool_call


@pytest.fixture(scope="module", params=KERNELS)
def running(request):
    """Give one kernel for all tests here."""
    kernel = kernel_of(request)
    yield kernel
    kernel.close()


@pytest.fixture
def front(running):
    """Give a front end whose kernel has imported what is used."""
    front = FrontEnd(running)
    front.run("""
import threading, ipywidgets
from ipywidgets.widgets.widget import _instances
from cyclops_nb import Agent, Session
import cyclops_nb.display.live
known = set(_instances)
""")
    yield front
    assert front.errors == []


def agent_cell(server, tools=""):
    """Return the cell that makes an agent."""
    return f"agent = Agent('scripted', tools=[{tools}], base_url={server.base_url!r})"


LEFT = """
import sys
view_threads = [thread for thread in threading.enumerate() if thread.name == "cyclops_nb live"]
for thread in view_threads:
    thread.join(20)
print(len(set(_instances) - known), type(sys.stdout).__name__, "publish" in vars(get_ipython().display_pub))
"""


class TestHandle:
    """A handle as the last line of a cell."""

    def test_streams_and_ends_as_html_that_needs_no_kernel(self, front):
        """The answer grows in the cell, then it is the response; no widget, thread or detour is left."""
        held = gate()
        with ScriptedServer([reply(reasoning("Hm."), text("**Hello**"), held, text(" world"))]) as server:
            front.run(agent_cell(server))
            cell = front.send("handle = agent.start('Greet me')\nhandle")
            front.wait_until(lambda: front.outputs[cell] and "Hello" in front.shown(cell))
            bundle = front.outputs[cell][0]
            assert set(bundle) == {WIDGET, "text/html", "text/plain"}
            assert "goes on" in read(bundle["text/html"]).text
            assert "<strong>Hello</strong>" in "".join(front.parts(cell))
            assert "[0] user Greet me" in front.shown(cell)
            assert "running" in front.shown(cell)
            assert not front.is_over(cell)
            held.release()
            front.wait_until(lambda: front.is_over(cell))
            (bundle,) = front.outputs[cell]
            assert set(bundle) == {"text/html", "text/plain", "application/vnd.cyclops.run+json"}
            assert bundle["application/vnd.cyclops.run+json"]["messages"][1]["content"][1]["text"] == "**Hello** world"
            assert "[1] assistant" in bundle["text/plain"]
            assert "Response of scripted completed" in front.shown(cell)
            left = front.run(LEFT)
            assert front.outputs[left] == ["0 OutStream False\n"]
            assert front.widgets == {}

    def test_shows_the_indices_that_its_messages_have_in_the_session(self, front):
        """Of a session that goes on, and of one of which a summary has taken the place of what stood there."""
        held = [gate(), gate()]
        script = [
            text("One"),
            text("Two"),
            reply(text("Three"), held[0]),
            text("A summary of some words."),
            reply(text("Four"), held[1]),
        ]
        with ScriptedServer(script, strict=False) as server:
            front.run(f"{agent_cell(server)}\nfrom cyclops_nb import Compaction\nsession = Session()")
            front.run("for words in ('a b', 'c d'):\n    agent.run(words * 100, session=session)")
            cell = front.run("handle = agent.start('q', session=session)\nhandle")
            front.wait_until(lambda: "Three" in front.shown(cell))
            assert "[4] user q [5] assistant Three" in front.shown(cell)
            held[0].release()
            front.wait_until(lambda: front.is_over(cell))
            front.run("small = agent.replace(compaction=Compaction(keep_last=2), input_limit=100)")
            cell = front.run("handle = small.start('again', session=session)\nhandle")
            front.wait_until(lambda: "Four" in front.shown(cell))
            assert "A summary of some words. [4] assistant Four" in front.shown(cell)
            assert "[3] user again" in front.shown(cell)
            held[1].release()
            front.wait_until(lambda: front.is_over(cell))
            assert "[4] assistant" in front.shown(cell)

    def test_has_formulas_typeset_when_they_are_complete(self, front):
        """A text that is written is not typeset again and again; two that are complete are, each once."""
        held = gate()
        parts = [
            text("So $x^2$."),
            tool_call("nothing", {}),
            reasoning("And"),
            text("$y^2$ for $5."),
            tool_call("nothing", {}),
        ]
        with ScriptedServer([reply(*parts), reply(text("last $z^2$"), held)], strict=False) as server:
            front.run(agent_cell(server))
            cell = front.send("handle = agent.start('q')\nhandle")
            front.wait_until(lambda: "z^2" in front.shown(cell))
            kinds = {state["value"]: state["_model_name"] for state in front.widgets.values() if "value" in state}
            math = {value: kind for value, kind in kinds.items() if "^2" in value}
            assert sorted(math.values()) == ["HTMLMathModel", "HTMLMathModel", "HTMLModel"]
            assert "HTMLMathModel" not in [kind for value, kind in kinds.items() if "z^2" in value]
            front.run("handle.cancel()")
            front.wait_until(lambda: front.is_over(cell))
            assert front.outputs[front.run(LEFT)] == ["0 OutStream False\n"]

    def test_that_is_done_is_its_response(self, front):
        """Shown again it is static from the beginning."""
        with ScriptedServer([text("Hello")]) as server:
            front.run(agent_cell(server))
            front.run("handle = agent.start('q'); handle.result()")
            cell = front.run("handle")
            front.wait_until(lambda: front.outputs[cell])
            assert front.is_over(cell)
            assert "Hello" in front.shown(cell)
            assert front.updates == 0

    def test_of_several_runs_stay_in_their_cells(self, front):
        """Each run is shown where it was begun, whatever cells run meanwhile."""
        held = [gate(), gate()]
        script = [reply(text(f"begun {n}"), held[n], text(f" and ended {n}")) for n in (0, 1)]
        with ScriptedServer(script) as server:
            front.run(agent_cell(server))
            cells = []
            for number in (0, 1):
                cells.append(front.send(f"h{number} = agent.start('question {number}')\nh{number}"))
                front.wait_until(lambda number=number: f"begun {number}" in front.shown(cells[number]))
            between = front.run("print('mine')")
            for number in (1, 0):
                held[number].release()
                front.wait_until(lambda number=number: front.is_over(cells[number]))
            for number, cell in enumerate(cells):
                assert f"question {number}" in front.shown(cell)
                assert f"begun {number} and ended {number}" in front.shown(cell)
                assert len(front.outputs[cell]) == 1
            assert front.outputs[between] == ["mine\n"]

    def test_shown_twice_follows_the_run_in_both_places(self, front):
        """Two views of one run do not disturb each other."""
        held = gate()
        with ScriptedServer([reply(text("half"), held, text(" whole"))]) as server:
            front.run(agent_cell(server))
            cells = [front.run("handle = agent.start('q')\nhandle"), front.run("handle")]
            front.wait_until(lambda: all("half" in front.shown(cell) for cell in cells))
            held.release()
            front.wait_until(lambda: all(front.is_over(cell) for cell in cells))
            assert all("half whole" in front.shown(cell) for cell in cells)
            assert front.outputs[front.run(LEFT)] == ["0 OutStream False\n"]

    def test_keeps_what_was_read_of_a_broken_answer(self, front):
        """What came before the connection broke is seen, marked as being in no transcript."""
        with ScriptedServer([reply(text("half an answer"), cut())], strict=False) as server:
            front.run(agent_cell(server) + "\nagent = agent.replace(max_retries=0)")
            cell = front.send("handle = agent.start('q')\nhandle")
            front.wait_until(lambda: front.is_over(cell))
            assert "stands in no transcript half an answer" in front.shown(cell)
            assert "failed with" in front.shown(cell)


class TestStop:
    """The button of a run."""

    def test_stops_its_own_run_alone(self, front):
        """The other run goes on; what was read of the stopped answer stays, marked."""
        held = [gate(), gate()]
        with ScriptedServer([reply(text(f"begun {n}"), held[n], text(" and ended")) for n in (0, 1)]) as server:
            front.run(agent_cell(server))
            cells = []
            for number in (0, 1):
                cells.append(front.send(f"h{number} = agent.start('q')\nh{number}"))
                front.wait_until(lambda number=number: f"begun {number}" in front.shown(cells[number]))
            first, second = front.buttons()
            front.click(first)
            front.wait_until(lambda: front.is_over(cells[0]))
            assert "cancelled" in front.shown(cells[0])
            assert "stands in no transcript begun 0" in front.shown(cells[0])
            front.wait_until(lambda: front.buttons() == [second])
            front.click(first)  # late, and for nobody
            assert front.outputs[front.run("print(h0.done, h1.done)")] == ["True False\n"]
            held[1].release()
            front.wait_until(lambda: front.is_over(cells[1]))
            assert "begun 1 and ended" in front.shown(cells[1])

    @pytest.mark.parametrize("running", ["installed"], indirect=True)
    def test_is_heard_while_another_cell_runs(self, front):
        """Where the kernel has threads for that, and the front end asks for one: one need not wait for the cell."""
        held = gate()
        with ScriptedServer([reply(text("half"), held)]) as server:
            front.run(agent_cell(server))
            cell = front.send("handle = agent.start('q')\nhandle")
            front.wait_until(lambda: "half" in front.shown(cell))
            front.send("response = handle.result(60)")
            front.click(front.buttons()[0], front.subshell())
            front.wait_until(lambda: front.is_over(cell))
            assert "cancelled" in front.shown(cell)

    def test_tells_in_the_view_why_it_could_not(self, front):
        """An exception in a callback is seen nowhere else."""
        held = gate()
        with ScriptedServer([reply(text("half"), held, text(" whole"))]) as server:
            front.run(agent_cell(server))
            cell = front.send("""
handle = agent.start('q')
def cancel():
    raise OSError("no way <b>")
handle.cancel = cancel
handle
""")
            front.wait_until(lambda: "half" in front.shown(cell))
            front.click(front.buttons()[0])
            front.wait_until(lambda: "could not be stopped: OSError: no way <b>" in front.shown(cell))
            held.release()
            front.wait_until(lambda: front.is_over(cell))

    def test_is_no_button_where_a_click_would_come_too_late(self, front):
        """A cell that waits for the run cannot hear a click: it names the kernel's own stop."""
        held = gate()
        with ScriptedServer([reply(text("half"), held, text(" whole"))]) as server:
            front.run(agent_cell(server) + "\nfrom cyclops_nb.display.live import show_live")
            cell = front.send("view = show_live(agent.start('q'), is_waiting=True)\nprint(view.wait())")
            front.wait_until(lambda: "half" in front.shown(cell))
            assert front.buttons() == []
            assert "stop with the kernel's stop key" in front.shown(cell)
            held.release()
            front.wait_until(lambda: len(front.outputs[cell]) > 1)
            assert front.outputs[cell][1:] == ["True\n"]
            assert front.is_over(cell)  # the last update was sent before the cell ended
            assert "half whole" in front.shown(cell)


class TestTools:
    """What tools print and display."""

    def test_is_shown_in_its_place_and_in_no_cell(self, front):
        """Not in the cell that runs by then, on any kernel; what others print is not touched."""
        with ScriptedServer([tool_call("look", {"city": "Paris"}), text("Done")]) as server:
            front.run("""
import asyncio, sys
from IPython.display import HTML, display
go = threading.Event()
async def look(city: str) -> str:
    "Look."
    print("looking up", city)
    await asyncio.to_thread(go.wait, 60)
    display(HTML("<b>a map</b><script>alert(1)</script>"))
    print("found", city, file=sys.stderr)
    return "11"
""")
            front.run(agent_cell(server, "look"))
            cell = front.send("handle = agent.start('q')\nhandle")
            front.wait_until(lambda: "output looking up Paris" in front.shown(cell))
            between = front.run("print('mine'); display(HTML('mine')); go.set()")
            front.wait_until(lambda: front.is_over(cell))
            page = read(front.outputs[cell][0]["text/html"])
            # with its step, and not below the answer
            assert 'output of look(city="Paris") looking up Paris a map found Paris [3] assistant' in page.text
            assert "found Paris" in front.outputs[cell][0]["text/plain"]
            assert len(front.outputs[cell]) == 1
            assert front.outputs[between][0] == "mine\n"
            assert front.outputs[between][1]["text/html"] == "mine"
            assert front.outputs[front.run(LEFT)] == ["0 OutStream False\n"]

    def test_may_be_widgets(self, front):
        """A progress bar stands in the place of its tool, moves there, and is still the tool's when the run is over."""
        with ScriptedServer([tool_call("work", {}), text("Done")]) as server:
            front.run("""
go = threading.Event()
def work() -> str:
    "Work."
    global bar
    bar = ipywidgets.IntProgress(value=1)
    display(bar)
    bar.value = 5
    go.wait(60)
    return "x"
""")
            front.run(agent_cell(server, "work"))
            cell = front.send("handle = agent.start('q')\nhandle")
            front.wait_until(lambda: 5 in front.parts(cell))
            front.run("go.set()")
            front.wait_until(lambda: front.is_over(cell))
            assert "output of work() [a widget, seen while the run went on]" in front.shown(cell)
            assert len(front.outputs[cell]) == 1
            assert front.outputs[
                front.run("print(bar.comm is not None); bar.close(); bar.layout.close(); bar.style.close()")
            ] == ["True\n"]
            assert front.outputs[front.run(LEFT)] == ["0 OutStream False\n"]

    def test_may_be_widgets_that_are_gone_soon(self, front):
        """A bar that is closed leaves its place empty, whether that was seen or not."""
        with ScriptedServer([tool_call("work", {}), text("Done")]) as server:
            front.run("""
import tqdm.notebook
go, closed = threading.Event(), threading.Event()
def work() -> str:
    "Work."
    for _ in tqdm.notebook.tqdm(range(3), leave=False):
        pass
    bars = tqdm.notebook.tqdm(range(3), leave=False)
    go.wait(60)
    bars.close()
    closed.set()
    print("closed")
    go.clear()
    go.wait(60)
    return "x"
""")
            front.run(agent_cell(server, "work"))
            cell = front.send("handle = agent.start('q')\nhandle")
            front.wait_until(lambda: "0/3" in front.shown(cell))
            front.run("go.set(); print(closed.wait(20))")
            front.wait_until(lambda: "output closed" in front.shown(cell))
            front.run("go.set()")
            front.wait_until(lambda: front.is_over(cell))
            assert "completed" in front.shown(cell)

    def test_of_a_run_that_a_tool_has_begun_is_the_tools(self, front):
        """What the inner run's tool prints stands with the call of the outer run."""
        script = [tool_call("outer", {}), tool_call("inner", {}), text("inner done"), text("outer done")]
        with ScriptedServer(script) as server:
            front.run("""
def inner() -> str:
    "Inner."
    print("printed within")
    return "x"
def outer() -> str:
    "Outer."
    return agent.run("q")
""")
            front.run(agent_cell(server, "inner, outer"))
            cell = front.send("handle = agent.start('q')\nhandle")
            front.wait_until(lambda: front.is_over(cell))
            assert "output of outer() printed within" in front.shown(cell)
            assert len(front.outputs[cell]) == 1


class TestFaults:
    """Faults of the view."""

    @pytest.mark.parametrize("name", ["live_state.LiveState.blocks", "live_widgets.LiveWidgets.__init__"])
    def test_do_not_reach_the_run(self, front, name):
        """The run ends as if nobody had looked, and is shown then."""
        held = gate()
        with ScriptedServer([reply(text("half"), held, text(" whole"))]) as server:
            front.run(agent_cell(server))
            module, _, attribute = name.partition(".")
            owner, _, attribute = attribute.rpartition(".")
            front.run(f"""
import cyclops_nb.display.{module} as module
def fail(*args, **others):
    raise RuntimeError("the view is broken <b>")
right, module.{owner}.{attribute} = module.{owner}.{attribute}, fail
""")
            cell = front.send("handle = agent.start('q')\nhandle")
            front.wait_until(lambda: front.outputs[cell] and front.is_over(cell))
            held.release()
            front.wait_until(lambda: "half whole" in front.shown(cell))
            front.run(f"module.{owner}.{attribute} = right")
            assert front.outputs[front.run("print(handle.response.stop_reason)")] == ["completed\n"]
            assert front.outputs[front.run(LEFT)] == ["0 OutStream False\n"]


@pytest.mark.slow
@pytest.mark.parametrize("running", ["installed"], indirect=True)
class TestBytes:
    """What goes over the wire."""

    @pytest.mark.parametrize(("kilobytes", "most"), [(12, 150), (127, 700)])
    def test_of_2000_deltas_are_bounded(self, running, kilobytes, most):
        """From the cell that begins the run to the last message, the static output included, in at most 200 messages."""
        paragraph = "Some words that say little, and **bold** ones among them, and `code`. " * 8 + "\n\n"
        whole = (paragraph * 300)[: kilobytes * 1_000]
        step = -(-len(whole) // 2_000)
        pieces = [whole[start : start + step] for start in range(0, len(whole), step)]
        with ScriptedServer([text(whole, chunks=pieces, delay=0.001)]) as server:
            front = FrontEnd(running)
            front.run("import threading, ipywidgets\nfrom cyclops_nb import Agent")
            front.run(agent_cell(server))
            front.messages = front.bytes = 0
            cell = front.send("handle = agent.start('q')\nhandle")
            front.wait_until(lambda: front.is_over(cell) and not front.widgets)
        assert front.bytes < most * 1_000
        assert front.messages < 200


class TestWithoutAFrontEnd:
    """Where nobody looks at the cell."""

    def test_an_executed_notebook_has_the_static_output(self):
        """nbclient, and so nbconvert and papermill, keep the end of the run, and no state of widgets."""
        with ScriptedServer([text("one"), text("two")]) as server:
            cells = [
                f"from cyclops_nb import Agent\nfrom cyclops_nb.display.live import show_live\n{agent_cell(server)}",
                "handle = agent.start('q')\nhandle",
                "view = show_live(agent.start('q'), is_waiting=True)\nassert view.wait(60)",
                "handle.result()",
                "1 + 1",
            ]
            notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
            NotebookClient(notebook, timeout=60).execute()
        bundles = [cell.outputs[0].data for cell in notebook.cells[1:3]]
        assert all(WIDGET not in bundle for bundle in bundles)
        assert ["completed" in read(bundle["text/html"]).text for bundle in bundles] == [True, True]
        assert "widgets" not in notebook.metadata

    def test_an_end_between_two_cells_is_told_to_the_next_one(self, front):
        """Who executes a notebook hears nothing but the cell that runs."""
        held = gate()
        with ScriptedServer([reply(text("half"), held, text(" whole"))]) as server:
            front.run(agent_cell(server))
            cell = front.send("handle = agent.start('q')\nhandle", allow_stdin=False)
            front.wait_until(lambda: front.outputs[cell])
            assert front.is_over(cell)  # without a widget
            held.release()
            front.wait_until(lambda: "half whole" in front.shown(cell))
            front.run(LEFT)
            assert front.run("1") not in front.updating
            assert front.updating[0] == cell
            assert len(front.updating) == 2
            assert "half whole" in front.shown(cell)

    def test_a_terminal_prints_the_words_when_they_are_there(self):
        """A running handle is its repr, a view that is waited for prints the response."""
        code = """
from cyclops_nb.display.live import show_live
handle = agent.start("q")
view = show_live(handle, is_waiting=True)
get_ipython().display_formatter.format(handle)[0]["text/plain"].startswith("<RunHandle")
print(view.wait(20))
handle
"""
        with ScriptedServer([text("Hello")]) as server:
            cell = f"from cyclops_nb import Agent\n{agent_cell(server)}\n{code}"
            command = [sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", "--quick", "-c", cell]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert len(re.findall(r"\[1\] assistant \(.*\): Hello", done.stdout)) == 2
        assert "True" in done.stdout

    def test_outside_of_ipython_nothing_is_shown(self, ask, capsys):
        """A script that shows a run waits for it, and has a handle with a repr."""
        handle = ask(text("Hello")).start("q")
        assert show_live(handle).wait(20)
        assert "Hello" in handle._repr_html_()
        assert capsys.readouterr().out == ""
