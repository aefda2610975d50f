"""Tool calls that a person approves, by a function or by a question in the cell or terminal."""

import io
import sys

import pytest
from kernels import Kernel
from scenarios import FORMS, call, shape

from cyclops_nb import Approval, ConfigError, Session, tool
from cyclops_nb.testing import ScriptedServer, text, tool_call, tool_calls

RAN = []


@pytest.fixture(autouse=True)
def nothing_ran():
    RAN.clear()


def delete(path: str) -> str:
    """Delete a file."""
    RAN.append(path)
    return f"deleted {path}"


def look(path: str) -> str:
    """Look at a file."""
    return f"seen {path}"


def agent_that_asks(ask, *calls, approval=None, **settings):
    calls = calls or (tool_call("delete", {"path": "a"}),)
    return ask(tool_calls(*calls), text("done"), tools=[delete, look], middleware=[approval or Approval()], **settings)


def results(agent, form="run"):
    """Run to the end and return the texts of the results."""
    session = Session()
    assert call(agent, form, "go", session=session) == "done"
    return [message.text for message in session.messages if message.role == "tool"]


class TestWhichTools:
    """`tools` says what needs approval; all tools do without it."""

    @pytest.mark.parametrize("tools", [["delete"], {"delete"}, [delete], [tool(delete)], [tool(delete), "look"]])
    def test_by_name_or_by_the_tool_itself(self, ask, tools):
        """Functions and tools may be given as the agent gets them."""
        agent = agent_that_asks(ask, approval=Approval(lambda call: "No.", tools=tools))
        assert results(agent) == ["No."]
        assert RAN == []

    def test_others_run_unasked(self, ask):
        """What is not named is not asked about."""
        agent = agent_that_asks(ask, approval=Approval(lambda call: "No.", tools=[look]))
        assert results(agent) == ["deleted a"]

    def test_a_name_that_is_no_tool(self, ask):
        """Misspelt, it would leave a tool unguarded: no agent is made with it."""
        with pytest.raises(ConfigError, match=r"'delet', which is no tool of this agent.*'delete', 'look'"):
            agent_that_asks(ask, approval=Approval(tools=["delet"]))

    @pytest.mark.parametrize("tools", ["delete", delete, 3, [b"delete"], [3]])
    def test_no_tools_at_all(self, tools):
        """Refused in words."""
        with pytest.raises(ConfigError):
            Approval(tools=tools)


class TestByAFunction:
    """A function that is given the call decides."""

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("is_async", [False, True])
    def test_true_runs_the_call(self, ask, form, is_async):
        """In every form, and the function may be async."""
        seen = []

        def decide(call):
            seen.append((call.name, call.args))
            return True

        async def adecide(call):
            return decide(call)

        agent = agent_that_asks(ask, approval=Approval(adecide if is_async else decide))
        assert results(agent, form) == ["deleted a"]
        assert seen == [("delete", {"path": "a"})]

    def test_false_refuses_it(self, ask):
        """The model is told, the tool is not run, and the run goes on."""
        session = Session()
        agent_that_asks(ask, approval=Approval(lambda call: False)).run("go", session=session)
        assert shape(session) == "uaea"
        assert "did not allow" in session.messages[2].text
        assert RAN == []

    def test_a_text_tells_why(self, ask):
        """The model reads the reason."""
        agent = agent_that_asks(ask, approval=Approval(lambda call: "Not on Fridays."))
        assert results(agent) == ["Not on Fridays."]
        assert RAN == []

    def test_only_the_named_tools(self, ask):
        """Others are run as ever."""
        calls = tool_call("look", {"path": "a"}), tool_call("delete", {"path": "b"})
        agent = agent_that_asks(ask, *calls, approval=Approval(lambda call: False, tools=["delete"]))
        first, second = results(agent)
        assert first == "seen a"
        assert "did not allow" in second

    @pytest.mark.parametrize("given", [None, 1, {}])
    def test_something_else_ends_the_run(self, ask, given):
        """What is no decision is a mistake in the program, and nothing is run."""
        agent = agent_that_asks(ask, approval=Approval(lambda call: given))
        with pytest.raises(ConfigError, match="ask must return True, False, or the reason"):
            agent.run("go")
        assert RAN == []

    def test_one_that_raises_ends_the_run(self, ask):
        """The error is raised, and the call has an error as its result."""

        def fails(call):
            raise LookupError("no policy")

        session = Session()
        with pytest.raises(LookupError, match="no policy"):
            agent_that_asks(ask, approval=Approval(fails)).run("go", session=session)
        assert shape(session) == "uae"
        assert RAN == []

    @pytest.mark.parametrize("settings", [{"ask": "yes"}, {"tools": "delete"}])
    def test_wrong_settings(self, settings):
        """They are refused at once."""
        with pytest.raises(ConfigError):
            Approval(**settings)


class TestByAQuestion:
    """Without a function the user is asked where the run is waited for."""

    @pytest.mark.parametrize("form", [form for form in FORMS if form != "start"])
    def test_yes(self, ask, form, monkeypatch, capsys):
        """The question shows the tool and its arguments."""
        monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
        assert results(agent_that_asks(ask), form) == ["deleted a"]
        shown = capsys.readouterr().out
        assert "Run the tool delete" in shown
        assert '"path": "a"' in shown

    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            ("n", "The user did not allow this call, and it was not run."),
            ("", "The user did not allow this call, and it was not run."),
            ("it is mine", "The user did not allow this call, and it was not run. They said: it is mine"),
        ],
    )
    def test_no(self, ask, monkeypatch, answer, said):
        """No, nothing, or a reason refuse the call."""
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{answer}\n"))
        assert results(agent_that_asks(ask)) == [said]
        assert RAN == []

    def test_always(self, ask, monkeypatch):
        """The tool is not asked about again, nor is the call that was waiting meanwhile; other tools are."""
        calls = [
            tool_call("delete", {"path": "a"}),
            tool_call("delete", {"path": "b"}),
            tool_call("look", {"path": "c"}),
        ]
        monkeypatch.setattr(sys, "stdin", io.StringIO("a\nn\n"))
        first, second, third = results(agent_that_asks(ask, *calls))
        assert (first, second) == ("deleted a", "deleted b")
        assert "did not allow" in third

    def test_parallel_calls_are_asked_about_in_order(self, ask, monkeypatch, capsys):
        """Questions come one after another."""
        calls = [tool_call("delete", {"path": name}) for name in "abc"]
        monkeypatch.setattr(sys, "stdin", io.StringIO("y\nn\ny\n"))
        texts = results(agent_that_asks(ask, *calls))
        assert [text.startswith("deleted") for text in texts] == [True, False, True]
        shown = capsys.readouterr().out
        assert shown.index('"a"') < shown.index('"b"') < shown.index('"c"')

    @pytest.mark.parametrize("form", ["run", "start"])
    def test_nobody_to_ask(self, ask, form, monkeypatch):
        """Where nobody can be asked the call is refused; a background run never waits for an answer."""
        monkeypatch.setattr(sys, "stdin", io.StringIO(""))
        (said,) = results(agent_that_asks(ask), form)
        assert "nobody could be asked" in said
        assert RAN == []

    def test_hostile_arguments(self, ask, monkeypatch, capsys):
        """What a terminal would obey, or a reader would not see, is shown by name; what is huge is cut."""
        path = "\x1b[2J\u202ecod.exe\r" + "x" * 100_000
        monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
        results(agent_that_asks(ask, tool_call("delete", {"path": path})))
        shown = capsys.readouterr().out
        assert not {"\x1b", "\u202e", "\r"} & set(shown)
        assert len(shown) < 5000


@pytest.mark.parametrize("code", ["agent.run('go')", "await agent.arun('go')", "''.join(agent.stream('go'))"])
def test_in_a_notebook_the_cell_asks(code):
    """The front end is asked for an answer while the cell runs, and the run goes on with it."""
    script = [tool_calls(tool_call("delete", {"path": "a"}), tool_call("delete", {"path": "b"})), text("done")]
    with ScriptedServer(script) as server:
        kernel = Kernel()
        try:
            kernel.run(
                "from cyclops_nb import Agent, Approval\n"
                "def delete(path: str) -> str:\n    print('deleting', path)\n    return 'gone'\n"
                f"agent = Agent('m', tools=[delete], base_url={server.base_url!r}, middleware=[Approval()])"
            )
            cell = kernel.client.execute(code, allow_stdin=True)
            for answer in ("y", "n"):
                asked = kernel.client.get_stdin_msg(timeout=30)
                assert "Run the tool delete" in asked["content"]["prompt"]
                kernel.client.input(answer)
            shown = kernel.outcome(cell)
        finally:
            kernel.close()
        assert "done" in shown
        statuses = [message["content"] for message in server.requests[-1].messages if message["role"] == "tool"]
        assert statuses[0] == "gone"
        assert "did not allow" in statuses[1]
