"""Cells that are prompts, in real kernels, as a front end sees them."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import look
import nbformat
import pytest
from frontend import WIDGET, FrontEnd
from kernels import KERNELS, kernel_of
from nbclient import NotebookClient
from pages import read

from cyclops_nb.testing import ScriptedServer, error, gate, reply, text, tool_call
from notebooks import PNG


@pytest.fixture(scope="module", params=KERNELS)
def running(request):
    """Give one kernel for all tests here."""
    kernel = kernel_of(request)
    yield kernel
    kernel.close()


SETUP = """
%reset -f
%load_ext cyclops_nb
from cyclops_nb import Agent, FileSessionStore, InMemorySessionStore, Session
"""


@pytest.fixture
def front(running):
    """Give a front end whose kernel has the magics, and no variables."""
    front = FrontEnd(running)
    front.run(SETUP)
    return front


def agent_cell(server, name="agent", more=""):
    """Return a cell that makes an agent."""
    return f"{name} = Agent('scripted', base_url={server.base_url!r}, max_retries=0, prices=0{more})"


def said(front, code):
    """Return what a cell prints."""
    return "".join(front.outputs[front.run(f"print({code})")]).strip()


def echo(request):
    """Answer with the question."""
    return text(f"You said: {request.messages[-1]['content']}")


def asked(server):
    """Return the last question of each request."""
    return [request.messages[-1]["content"] for request in server.requests]


class TestAsk:
    """What a cell of %%ask does."""

    def test_shows_the_run_as_it_goes_on_and_ends_with_it(self, front):
        """The cell is busy until the answer is there, and then needs no kernel; the response is in a variable."""
        held = gate()
        with ScriptedServer([reply(text("**Half**"), held, text(" whole"))]) as server:
            front.run(agent_cell(server))
            cell = front.send("%%ask\nSay something")
            after = front.send("f'{_response.content} {len(session.messages)} {session.title}'")
            front.wait_until(lambda: front.outputs[cell] and "Half" in front.shown(cell))
            assert not front.is_over(cell)
            assert front.outputs[after] == []
            held.release()
            front.wait_until(lambda: front.outputs[after])
            assert front.is_over(cell)
            assert "user Say something" in front.shown(cell)
            assert front.outputs[after] == [{"text/plain": "'**Half** whole 2 None'"}]
            assert asked(server) == ["Say something"]
            assert len(front.outputs[cell]) == 1

    def test_goes_on_with_the_session_of_a_name(self, front):
        """One that is there is extended; one that is not is made, and called so."""
        with ScriptedServer(echo) as server:
            front.run(agent_cell(server))
            front.run("mine = Session(title='Mine')")
            front.run("%%ask mine\none")
            front.run("%%ask mine\ntwo")
            front.run("%%ask other\nthree")
            assert said(front, "len(mine.messages), mine.title, len(other.messages), other.title") == "4 Mine 2 other"
            assert "session" not in said(front, "sorted(globals())").replace("'", " ").split(" ")
            assert [len(request.messages) for request in server.requests] == [1, 3, 1]

    def test_fills_in_variables(self, front):
        """Text, tables and pictures, in place; braces of other kinds stay."""
        with ScriptedServer(echo) as server:
            front.run(agent_cell(server))
            front.run("import base64, pandas as pd\ncity = 'Paris'\ntable = pd.DataFrame({'a': [1]})")
            front.run(f"from IPython.display import Image\nfigure = Image(base64.b64decode({PNG!r}), format='png')")
            front.run('%%ask\nIs {city.upper()} in {table}? Reply as {"answer": true}.\n\n')
            front.run("%%ask pictures\nWhat is {figure}?")
            assert asked(server)[0] == 'Is PARIS in \n   a\n0  1\n? Reply as {"answer": true}.'
            assert [part["type"] for part in asked(server)[1]] == ["text", "image_url", "text"]

    def test_takes_the_agent_that_is_called_so_or_the_only_one(self, front):
        """Of several without that name one has to be named."""
        with ScriptedServer(echo) as server:
            front.run(agent_cell(server, "poet", ", system_prompt='poet'"))
            front.run("again = poet")
            front.run("%%ask\n1")
            front.run(agent_cell(server, "critic", ", system_prompt='critic'"))
            cell = front.run("%%ask\n2")
            assert "several agents (again, critic, poet)" in front.errors[0]
            front.run("%%ask --agent critic\n3")
            front.run(agent_cell(server, "agent", ", system_prompt='agent'"))
            front.run("%%ask\n4")
            assert front.outputs[cell] == []
            assert [request.messages[0]["content"] for request in server.requests] == ["poet", "critic", "agent"]

    def test_uses_tools_on_the_thread_of_the_cell(self, front):
        """As `run` does for those that want it."""
        with ScriptedServer([tool_call("where"), text("done")]) as server:
            front.run(
                "import threading\nfrom cyclops_nb import tool\n@tool(thread='caller')\ndef where() -> bool:\n"
                "    return threading.current_thread() is threading.main_thread()"
            )
            front.run(agent_cell(server, more=", tools=[where]"))
            front.run("%%ask\nWhere?")
            assert asked(server)[-1] == "true"

    def test_tells_how_it_is_used(self, front):
        """%%ask? shows the options."""
        help_text = said(front, "get_ipython().find_cell_magic('ask').__doc__")
        for option in ("%%ask", "name", "--agent NAME", "--fork", "--at INDEX", "--bg", "_response", "{variable}"):
            assert option in help_text

    def test_can_be_loaded_again_and_unloaded(self, front):
        """Without a word, and without a trace."""
        front.run("%load_ext cyclops_nb\n%reload_ext cyclops_nb")
        assert said(front, "bool(get_ipython().find_cell_magic('ask'))") == "True"
        front.run("%unload_ext cyclops_nb")
        found = "get_ipython().find_cell_magic('ask'), get_ipython().find_line_magic('sessions')"
        assert said(front, found) == "None None"
        assert front.errors == []


class TestForks:
    """--fork and --at."""

    def test_leave_the_session_as_it_is(self, front):
        """The fork is in a variable of its own, which the cell names."""
        with ScriptedServer(echo) as server:
            front.run(agent_cell(server))
            front.run("%%ask\none")
            front.run("%%ask\ntwo")
            cells = [front.run(f"%%ask {line}\nthree") for line in ("--fork", "--at -2", "--at 0", "session_2 --fork")]
            told = [read(front.outputs[cell][0]["text/html"]).text for cell in cells]
            assert told == [
                "session_2 = session.fork()",
                "session_3 = session.fork(at=-2)",
                "session_4 = session.fork(at=0)",
                "session_5 = session_2.fork()",
            ]
            lengths = "[len(item.messages) for item in (session, session_2, session_3, session_4, session_5)]"
            assert said(front, lengths) == "[4, 6, 4, 2, 8]"
            assert said(front, "session_2.parent.session_id == session.id == session_3.parent.session_id") == "True"
            assert "user three" in read(front.outputs[cells[0]][1]["text/html"]).text
            assert [len(request.messages) for request in server.requests] == [1, 3, 5, 3, 1, 7]
            assert front.errors == []

    def test_are_titled_as_their_variables_where_the_session_is(self, front):
        """Else a comparison would have two columns of one name; a title of the user's own is kept."""
        with ScriptedServer(echo) as server:
            front.run(agent_cell(server))
            front.run("%%ask paris\none")
            cells = [front.run(f"%%ask {line}\ntwo") for line in ("paris --fork", "paris_2 --at 0")]
            told = [read(front.outputs[cell][0]["text/html"]).text for cell in cells]
            assert told == ["paris_2 = paris.fork(title='paris_2')", "paris_3 = paris_2.fork(at=0, title='paris_3')"]
            front.run("paris.title = 'Sights'")
            front.run("%%ask paris --fork\nthree")
            assert (
                said(front, "[item.title for item in (paris_2, paris_3, paris_4)]")
                == "['paris_2', 'paris_3', 'Sights']"
            )
            assert front.errors == []

    def test_that_are_refused_leave_no_variable(self, front):
        """A run that cannot begin has made nothing."""
        with ScriptedServer([tool_call("look"), text("done")]) as server:
            front.run("def look() -> str:\n    return 'nothing'")
            front.run(agent_cell(server, more=", tools=[look]"))
            front.run("%%ask\nLook")
            front.run("before = set(globals())")
            front.run("%%ask --at 2\nx")
            assert "would lose its result" in front.errors[0]
            assert said(front, "{name for name in set(globals()) - before if name[0] != '_'}") == "{'before'}"
            assert len(server.requests) == 2


REFUSED = {
    "%%ask number\nx": "InputError: the variable 'number' is no Session but of type int",
    "%%ask not-a-name\nx": "InputError: 'not-a-name' cannot be the name of a variable",
    "%%ask list\nx": "InputError: 'list' is taken",
    "%%ask _response\nx": "InputError: '_response' is taken",
    "%%ask lambda\nx": "InputError: 'lambda' cannot be the name of a variable",
    "%%ask --agent nobody\nx": "InputError: --agent nobody is to name a variable with an Agent, but there is no such",
    "%%ask --agent number\nx": "InputError: --agent number is to name a variable with an Agent, but it is of type int",
    "%%ask fresh --fork\nx": "InputError: there is no session 'fresh' to fork yet",
    "%%ask empty --at 1\nx": "InputError: there is no place 1 in 'empty', which has 0 messages",
    "%%ask empty --at -1\nx": "InputError: there is no place -1 in 'empty'",
    "%%ask fresh\n \n": "InputError: there is no prompt",
    "%%ask fresh\nHello {nmber}": "InputError: {nmber} cannot be filled in, and nothing was asked: there is no variable "
    "'nmber' (is it 'number'?)",
    "%%ask fresh\nThe way to the {exit}": "InputError: {exit} cannot be filled in, and nothing was asked: there is no",
    "%%ask fresh --bg\n{number.x}": "InputError: {number.x} cannot be filled in, and nothing was asked: AttributeError",
    "%sessions x": "InputError: %sessions takes no arguments",
    "%%ask --what\nx": "InputError: unrecognized arguments: --what. A cell begins with %%ask [name",
    '%%ask "a\nx': "InputError: No closing quotation. A cell begins with %%ask [name",
    "%%ask a b\nx": "InputError: unrecognized arguments: b. A cell begins with %%ask [name",
    "%%ask --at one\nx": "InputError: argument --at: invalid int value: 'one'. A cell begins with %%ask [name",
}


class TestRefusals:
    """What is wrong with a cell."""

    def test_are_said_in_a_line_before_anything_is_changed(self, front):
        """Nothing is asked, no variable is made, and there is no traceback of what is not the user's."""
        with ScriptedServer(echo) as server:
            front.run(agent_cell(server))
            front.run("number, empty = 1, Session()\nbefore = set(globals())")
            for cell, expected in REFUSED.items():
                front.errors.clear()
                (shown,) = [*front.errors, *front.outputs[front.run(cell)]] or front.errors
                assert shown.startswith(expected), cell
            left = said(front, "{name for name in set(globals()) - before if not name.startswith('_')}")
            assert left == "{'before'}"
            assert server.requests == []

    def test_of_a_notebook_without_an_agent(self, front):
        """How to make one."""
        front.run("%%ask\nx")
        assert front.errors[0].startswith("InputError: there is no agent yet: make one first, such as agent = Agent(")

    def test_of_a_session_that_is_in_a_run(self, front):
        """It says so, and the run goes on."""
        held = gate()
        with ScriptedServer([reply(text("half"), held, text(" whole"))]) as server:
            front.run(agent_cell(server))
            cell = front.run("%%ask --bg\nx")
            front.run("%%ask\ny")
            assert front.errors[0].startswith("SessionBusyError: session ")
            held.release()
            front.wait_until(lambda: front.is_over(cell))
            assert "half whole" in front.shown(cell)


class TestFailures:
    """Runs that do not end well."""

    def test_raise_what_they_failed_with_so_that_later_cells_are_not_run(self, front, running):
        """The cell has the static view with the error in it, and the error; the response is there all the same."""
        with ScriptedServer([error(500, "it broke"), text("again")]) as server:
            front.run(agent_cell(server))
            cell, queued = front.send("%%ask\nx"), front.send("print('queued')")
            assert running.reply(queued) == "aborted"
            front.wait_until(lambda: front.errors)
            assert front.errors[0].startswith("ModelError: it broke")
            assert front.is_over(cell)
            assert "Error: the run failed with ModelError: it broke" in front.shown(cell)
            assert said(front, "type(_response.error).__name__, len(session.messages)") == "ModelError 1"
            assert "again" in front.shown(front.run("%%ask\ny"))

    def test_have_no_traceback_but_where_the_users_own_code_failed(self, front, running):
        """What led to an error of a server is not the user's."""
        script = [error(500, "it \x1b[31mbroke"), tool_call("fail")]
        with ScriptedServer(script) as server:
            front.run("def fail() -> str:\n    raise ZeroDivisionError('mine')")
            front.run(agent_cell(server, more=", tools=[fail], on_tool_error='raise'"))
            tracebacks = []
            take = front._take
            front._take = lambda message: (tracebacks.append(message["content"].get("traceback")), take(message))
            front.run("%%ask one\nx")
            front.run("%%ask two\nx")
            short, long = [item for item in tracebacks if item]
            assert short == ["ModelError: it ␛[31mbroke (host 127.0.0.1, status 500)"]
            assert any("fail" in line and "mine" in line for line in long)

    @pytest.mark.parametrize("line", ["%%ask", "agent.ask('x', session=session)"])
    def test_an_interrupt_cancels_the_run_and_later_cells_are_not_run(self, front, running, line):
        """What is complete stays, what was read is seen, and the next cell can go on."""
        held = gate()
        with ScriptedServer([reply(text("half an"), held), text("again")]) as server:
            front.run(agent_cell(server))
            front.run("session = Session()")
            cell = front.send(f"{line}\nx" if line == "%%ask" else line)
            queued = front.send("print('queued')")
            front.wait_until(lambda: front.outputs[cell] and "half an" in front.shown(cell))
            running.manager.interrupt_kernel()
            assert running.reply(queued) == "aborted"
            front.wait_until(lambda: front.errors)
            assert front.errors[0].startswith("KeyboardInterrupt")
            assert front.is_over(cell)
            assert "stands in no transcript half an" in front.shown(cell)
            assert said(front, "[m.role for m in session.messages], session.busy") == "['user'] False"
            if line == "%%ask":
                assert said(front, "_response.stop_reason, _response.partial") == "cancelled half an"
            assert "again" in front.shown(front.run("%%ask\ny"))


class TestBackground:
    """--bg."""

    def test_returns_at_once_and_goes_on_in_its_own_cell(self, front):
        """Several at once, each in its cell and with its button; the handle is in a variable."""
        gates = {"one": gate(), "two": gate()}

        def script(request):
            name = request.messages[-1]["content"]
            return reply(text(f"begin {name}"), gates[name], text(f", end {name}"))

        with ScriptedServer(script) as server:
            front.run(agent_cell(server))
            front.run("_response = 'old'")
            cells = [front.run(f"%%ask {name} --bg\n{name}") for name in gates]
            assert said(front, "_handle.done, '_response' in globals(), two.busy") == "False False True"
            front.wait_until(lambda: all("begin" in front.shown(cell) for cell in cells))
            assert len(front.buttons()) == 2
            gates["two"].release()
            front.wait_until(lambda: front.is_over(cells[1]))
            assert "begin two, end two" in front.shown(cells[1])
            assert said(front, "_handle.result().content") == "begin two, end two"
            assert not front.is_over(cells[0])
            gates["one"].release()
            front.wait_until(lambda: front.is_over(cells[0]))
            assert "begin one, end one" in front.shown(cells[0])
            assert front.errors == []

    def test_a_run_that_fails_fails_in_its_cell_alone(self, front):
        """Nothing is raised: no cell waits."""
        with ScriptedServer([error(500, "it broke")]) as server:
            front.run(agent_cell(server))
            cell = front.run("%%ask --bg\nx")
            front.wait_until(lambda: front.is_over(cell))
            assert "it broke" in front.shown(cell)
            assert front.errors == []


class TestAgentAsk:
    """The same from code."""

    def test_a_cell_shows_it_once(self, front):
        """The live view becomes the response, which is not shown once more as the result of the cell."""
        with ScriptedServer(echo) as server:
            front.run(agent_cell(server))
            cell = front.run("agent.ask('Hello')")
            assert len(front.outputs[cell]) == 1
            assert front.is_over(cell)
            assert "You said: Hello" in front.shown(cell)
            again = front.run("_")
            assert front.outputs[again] == front.outputs[cell]
            bye = front.outputs[front.run("agent.ask('Bye').content")]
            assert [bundle["text/plain"] for bundle in bye][1:] == ["'You said: Bye'"]
            kept = front.run("response = agent.ask('Hello')\nlater = 1\nlater")
            assert [set(bundle) for bundle in front.outputs[kept]] == [set(front.outputs[cell][0]), {"text/plain"}]
            assert front.outputs[front.run("response")] == [front.outputs[kept][0]]

    def test_raises_what_the_run_failed_with(self, front):
        """After the cell has shown it."""
        with ScriptedServer([error(500, "it broke")]) as server:
            front.run(agent_cell(server))
            cell = front.run("agent.ask('Hello')")
            assert front.errors[0].startswith("ModelError: it broke")
            assert "it broke" in front.shown(cell)


class TestSessions:
    """%sessions."""

    def test_lists_variables_and_stores(self, front, tmp_path):
        """With what they are called, how long they are and what they cost; a store that fails says so."""
        with ScriptedServer([text("a", usage=(10, 5))] * 2) as server:
            front.run(f"store = FileSessionStore({str(tmp_path / 'kept')!r})")
            front.run(agent_cell(server, more=", session_store=store"))
            front.run("%%ask paris\nWhat is the capital of France?")
            front.run("%%ask\nWhy is the sky blue?")
            front.run("""
class Broken(InMemorySessionStore):
    async def list(self):
        raise OSError("the disk is gone")
class Small:
    async def load(self, session_id): ...
    async def save(self, session): ...
    async def add_messages(self, session, messages): ...
    async def delete(self, session_id): ...
broken, small, branches, _hidden = Broken(), Small(), {"old": session, "new": Session(title="<b>New</b>")}, Session()
""")
            cell = front.run("%sessions")
        page, words = read(front.outputs[cell][0]["text/html"]), front.outputs[cell][0]["text/plain"]
        lines = words.splitlines()
        assert lines[0] == "Sessions in variables:"
        assert re.match(r"paris: paris, 2 messages, 1 run, 10 tokens in, 5 out, cost \$0, session \w{32}$", lines[1])
        assert lines[2].startswith("session, branches['old']: Why is the sky blue?, 2 messages")
        assert lines[3].startswith("branches['new']: <b>New</b>, 0 messages")
        assert lines[4].startswith("Sessions in FileSessionStore(")
        assert lines[4].endswith("(store, agent agent):")
        assert {line.partition(":")[0] for line in lines[5:7]} == {"paris", "session, branches['old']"}
        assert lines[8] == "Warning: cannot be listed: OSError: the disk is gone"
        assert lines[10] == "Warning: this store has no method that lists its sessions"
        assert len(lines) == 11
        for shown in ("paris", "branches['new']", "<b>New</b>", "the disk is gone", "Why is the sky blue?"):
            assert shown in page.text
        assert front.errors == []

    def test_says_that_there_are_none(self, front):
        """And which session is in a run."""
        assert front.outputs[front.run("%sessions")][0]["text/plain"] == "Sessions in variables:\nnone"
        held = gate()
        with ScriptedServer([reply(held, text("a"))]) as server:
            front.run(agent_cell(server))
            cell = front.run("%%ask --bg\nx")
            held.wait_reached(20)
            assert front.outputs[front.run("%sessions")][0]["text/plain"].endswith("in a run")
            held.release()
            front.wait_until(lambda: front.is_over(cell))


CELLS = [
    SETUP,
    "agent = Agent('scripted', base_url={url!r}, prices=0)\ncity = 'Paris'",
    "%%ask\nWhat is {city}?",
    "%%ask --fork\nElse?",
    "%%ask --at -2\nOr?",
    "%%ask tale --bg\nA story",
    "_handle.result().content",
    "agent.ask('And?', session=session)",
    "session",
    "%sessions",
]


def executed(folder, server, cells):
    """Return the outputs of a notebook that was run as `jupyter execute` does, and is valid."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.cells[1].source = notebook.cells[1].source.replace("{url!r}", repr(server.base_url))
    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(folder)}}).execute()
    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    assert all(WIDGET not in output.get("data", {}) for output in outputs)
    assert all(output.output_type != "stream" for output in outputs)
    return [[output.data for output in cell.outputs] for cell in notebook.cells]


@pytest.mark.slow
def test_restart_and_run_all_gives_the_same_picture(tmp_path):
    """A notebook with every kind of cell says the same when it is executed again, and its file has no widget."""
    with ScriptedServer(echo) as server:
        first, second = (executed(tmp_path, server, CELLS) for _ in range(2))
    assert look.steady(first) == look.steady(second)
    assert [len(outputs) for outputs in first] == [0, 0, 1, 2, 2, 1, 1, 1, 1, 1]
    assert "You said: A story" in read(first[5][0]["text/html"]).text


TERMINAL = """
from cyclops_nb import Agent
agent = Agent("scripted", base_url={url!r}, prices=0)
%load_ext cyclops_nb
run = get_ipython().run_cell_magic
run("ask", "", "one")
run("ask", "--fork", "two")
run("ask", "--bg", "three")
_handle.result().content
agent.ask("four")
run("ask", "", "{{five}}")
%sessions
"""


def test_in_a_terminal_text_is_printed(tmp_path):
    """IPython without a notebook prints the answers, once."""
    command = [
        sys.executable,
        "-m",
        "IPython",
        "--simple-prompt",
        "--no-banner",
        "--colors=NoColor",
        "--no-confirm-exit",
    ]
    with ScriptedServer(echo) as server:
        done = subprocess.run(
            command,
            input=TERMINAL.format(url=server.base_url).lstrip(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=os.environ | {"IPYTHONDIR": str(tmp_path)},
        )
    shown = re.sub(r"In \[\d+\]: ", "", done.stdout)
    assert re.search(r"You said: one\n+session_2 = session\.fork\(\)\nYou said: two\n", shown)
    assert re.search(r"<RunHandle \w+ running>: _handle\.result\(\) waits for it\n", shown)
    assert re.search(r"Out\[\d+\]: 'You said: three'\n", shown)
    assert shown.count("You said: four") == 1
    assert "InputError: {five} cannot be filled in" in shown
    assert "Traceback" not in shown + done.stderr
    assert "session_2: one, 4 messages" in shown
