"""Sessions out of the notebook that someone worked in, notebooks to hand out, and notebooks without session data."""

import asyncio
import json

import nbclient
import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from pages import HOSTILE, shown
from scenarios import agent_for, content_of
from strategies import sessions as any_sessions

from cyclops_nb import (
    Answer,
    AssistantMessage,
    ImagePart,
    InputError,
    NotebookSessionStore,
    Session,
    SessionFormatError,
    UserMessage,
    export_notebook,
    sessions_in_notebook,
    strip,
)
from cyclops_nb.interop.run_record import MEDIA_TYPE
from cyclops_nb.testing import ScriptedServer, error, reasoning, reply, text, tool_call
from notebooks import PNG, check_valid, conversation, edit, read, source


def notebook_of(path, *values):
    """Save a notebook in which each of these values was shown by a cell."""
    cells = []
    for value in values:
        if isinstance(value, dict):
            cells.append(value)
            continue
        data = json.loads(json.dumps(value._repr_mimebundle_()))
        output = nbformat.v4.new_output("execute_result", data, execution_count=1)
        cells.append(nbformat.v4.new_code_cell("agent.run(...)", outputs=[output]))
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


@pytest.fixture
def path(tmp_path):
    """Give the place of a notebook."""
    return tmp_path / "work.ipynb"


@pytest.fixture
def agent():
    """Give an agent whose model says how often it was asked."""
    with ScriptedServer(lambda request: text(f"answer to {request.messages[-1]['content']}")) as server:
        yield agent_for(server)


def found(path):
    result = sessions_in_notebook(path)
    return {session.id: session for session in result}, [str(piece) for piece in result.missing]


class TestOutputs:
    """What an output keeps of a run."""

    def test_an_answer_a_response_and_a_handle_keep_the_run(self, agent):
        """Under a MIME type that front ends leave alone."""
        session = Session("s")
        answer = agent.run("one", session=session)
        response = agent.run_with_response("two", session=session)
        handle = agent.start("three", session=session)
        handle.result()
        records = [item._repr_mimebundle_()[MEDIA_TYPE] for item in (answer, response, handle)]
        assert [record["start"] for record in records] == [0, 2, 4]
        assert {record["session_id"] for record in records} == {"s"}
        assert [message["role"] for message in records[1]["messages"]] == ["user", "assistant"]

    def test_keep_the_index_that_a_message_had(self, agent):
        """Also when the session has been cut since."""
        session = Session()
        agent.run("one", session=session)
        response = agent.run_with_response("two", session=session)
        session.truncate(0)
        assert response._repr_mimebundle_()[MEDIA_TYPE]["start"] == 2

    def test_a_copy_of_an_answer_is_text(self, agent):
        """A text from elsewhere has no run."""
        assert MEDIA_TYPE not in Answer("hello")._repr_mimebundle_()

    def test_say_no_key(self):
        """What an agent was given as its key stands in no output."""
        with ScriptedServer([text("hi")]) as server:
            agent = agent_for(server, api_key="sk-very-secret")
            assert "sk-very-secret" not in json.dumps(agent.run_with_response("q")._repr_mimebundle_())


class TestSessionsInNotebook:
    """Sessions put together from outputs."""

    def test_come_back_from_the_runs_that_cells_show(self, agent, path):
        """Equal to those in memory: messages, runs, settings and title."""
        session = Session("s", title="Mine")
        values = [agent.run("one", session=session), agent.run_with_response("two", session=session)]
        (back,) = sessions_in_notebook(notebook_of(path, *values))
        assert back == session

    def test_come_back_with_tools_reasoning_and_pictures(self, path):
        """Whatever a run adds."""

        def look() -> list:
            """Look."""
            return ["here", ImagePart(PNG, media_type="image/png")]

        script = [reply(reasoning("Hm."), tool_call("look", {})), text("A dot.")]
        with ScriptedServer(script) as server:
            session = Session("s")
            answer = agent_for(server, [look]).run("What is there?", session=session)
        (back,) = sessions_in_notebook(notebook_of(path, answer))
        assert back == session

    def test_come_back_whatever_the_order_of_the_cells(self, agent, path):
        """Runs are put together in the order in which they were made."""
        session = Session("s")
        one, two = (agent.run(question, session=session) for question in ("one", "two"))
        (back,) = sessions_in_notebook(notebook_of(path, two, one))
        assert back == session

    def test_have_a_run_once_that_two_cells_show(self, agent, path):
        """An answer and its response, for instance."""
        session = Session("s")
        response = agent.run_with_response("one", session=session)
        (back,) = sessions_in_notebook(notebook_of(path, response, response))
        assert back == session

    def test_know_forks(self, agent, path):
        """A fork has what it shares with its origin, though only the origin's cells show it."""
        session = Session("s")
        shown_values = [agent.run("one", session=session)]
        fork = session.fork()
        shown_values += [agent.run("left", session=session), agent.run("right", session=fork)]
        by_id, missing = found(notebook_of(path, *shown_values))
        assert by_id == {"s": session, fork.id: fork}
        assert missing == []

    def test_know_what_was_cut(self, agent, path):
        """What a session held before it was truncated and asked anew is a branch."""
        session = Session("s")
        values = [agent.run("one", session=session), agent.run("two", session=session)]
        before = list(session.messages)
        session.truncate(2)
        values.append(agent.run("three", session=session))
        by_id, missing = found(notebook_of(path, *values))
        assert by_id.pop("s") == session
        (branch,) = by_id.values()
        assert branch.messages == before
        assert branch.parent.session_id == "s"
        assert branch.parent.message_count == 2
        assert missing == []

    def test_say_where_a_run_is_missing(self, agent, path):
        """Because no cell shows it: its messages are left out, what comes later is there."""
        session = Session("s")
        first = agent.run("one", session=session)
        agent.run("nobody sees this", session=session)
        third = agent.run("three", session=session)
        by_id, missing = found(notebook_of(path, first, nbformat.v4.new_markdown_cell("text"), third))
        assert [message.text for message in by_id["s"].messages] == ["one", "answer to one", "three", "answer to three"]
        assert len(missing) == 1
        assert missing[0].startswith("cells[2]: messages [2] to [3] of session 's'")

    def test_count_a_missing_run_once(self, agent, path):
        """Runs after it are at their places."""
        session = Session("s")
        agent.run("nobody sees this", session=session)
        values = [agent.run("two", session=session), agent.run("three", session=session)]
        session.truncate(4)
        values.append(agent.run("four", session=session))
        by_id, missing = found(notebook_of(path, *values))
        assert len(missing) == 1
        assert [message.text for message in by_id["s"].messages[::2]] == ["two", "four"]

    def test_tell_conversations_apart_that_took_the_same_id(self, agent, path):
        """As Restart and Run All does with a session that has a name."""
        old, new = Session("s"), Session("s")
        values = [agent.run("one", session=old), agent.run("two", session=new)]
        assert list(sessions_in_notebook(notebook_of(path, *values))) == [old, new]

    def test_know_compaction(self, path):
        """A summary takes the place of what it replaced, in the session that is put together as well."""

        def model(request):
            is_summary = "summary" in str(request.messages[0]["content"])
            return text("They counted." if is_summary else "a fine long answer " * 8)

        with ScriptedServer(model) as server:
            agent = agent_for(server, compaction={"keep_last": 2, "trigger": 0.5}, input_limit=400)
            session = Session("s")
            values = [agent.run(f"question {number} " * 5, session=session) for number in range(6)]
        assert session.messages[0].role == "summary"
        by_id, missing = found(notebook_of(path, *values))
        assert by_id["s"].messages == session.messages
        assert by_id["s"].runs == session.runs
        assert missing == []

    def test_keep_what_a_failed_run_left(self, path):
        """The question stands in the session, and so does the record of the run."""
        with ScriptedServer([error(400, "no")]) as server:
            session = Session("s")
            response = agent_for(server).run_with_response("one", session=session)
        (back,) = sessions_in_notebook(notebook_of(path, response))
        assert back == session

    def test_name_a_damaged_record(self, agent, path):
        """And go on with the others."""
        session = Session("s")
        notebook_of(path, agent.run("one", session=session), agent.run("two", session=session))
        notebook = read(path)
        notebook["cells"][1]["outputs"][0]["data"][MEDIA_TYPE]["messages"] = [{"role": "nobody"}]
        path.write_text(json.dumps(notebook))
        by_id, missing = found(path)
        assert len(by_id["s"].messages) == 2
        assert missing[0].startswith("cells[1]: the record of a run cannot be read (")

    @pytest.mark.parametrize("record", [7, "{", [], {"version": 2}, {"version": 1, "runs": []}, None])
    def test_survive_any_record(self, path, record):
        """Whatever stands there: it is named, or nothing."""
        output = nbformat.v4.new_output("display_data", {MEDIA_TYPE: record})
        nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=[output])]), path)
        assert list(sessions_in_notebook(path)) == []

    def test_are_shown_with_what_is_missing(self, agent, path):
        """As a table and a notice, and in words."""
        session = Session("s", title=HOSTILE[0])
        agent.run("nobody sees this", session=session)
        page, words = shown(sessions_in_notebook(notebook_of(path, agent.run("two", session=session))))
        assert "1 session" in page.text
        assert "messages [0] to [1]" in page.text
        assert "messages [0] to [1]" in words

    def test_are_none_in_a_notebook_without_runs(self, path):
        """Which is no error."""
        assert list(sessions_in_notebook(notebook_of(path))) == []

    @pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"nbformat": 3, "worksheets": []}'])
    def test_need_a_notebook(self, path, data):
        """Anything else is refused in words that name the file."""
        path.write_bytes(data)
        with pytest.raises(SessionFormatError, match="work"):
            sessions_in_notebook(path)

    def test_come_out_of_a_stored_session(self, tmp_path):
        """The notebook of a store is one, too."""
        asyncio.run(NotebookSessionStore(tmp_path).save(conversation()))
        assert list(sessions_in_notebook(tmp_path / "study-1.ipynb")) == [conversation_of(tmp_path)]


def conversation_of(folder):
    return asyncio.run(NotebookSessionStore(folder).load("study-1"))


def family_of_three():
    root = conversation()
    fork = root.fork(at=5, title="Rome")
    fork.messages += [UserMessage("And Rome?"), AssistantMessage("19 °C.")]
    return [fork, root, Session("other", title="Other")]


class TestExport:
    """Several sessions in one notebook to hand out."""

    def test_puts_forks_behind_their_origin_and_what_they_share_once(self, path):
        """And says so."""
        export_notebook(family_of_three(), path)
        check_valid(path)
        sources = [source(cell) for cell in read(path)["cells"]]
        titles = [text.splitlines()[0] for text in sources if text.startswith("# ")]
        assert titles == ["# Weather", "# Rome", "# Other"]
        assert sum("How warm is it here?" in text for text in sources) == 1
        (head,) = [text for text in sources if text.startswith("# Rome")]
        assert "forked from study-1 after message \\[4]" in head
        assert "*\\[0]–\\[4]: as in the session that it was forked from, above*" in head

    def test_gives_the_sessions_back(self, path):
        """Equal to what was written."""
        given = family_of_three()
        back = {session.id: session for session in sessions_in_notebook(export_notebook(given, path))}
        assert back == {session.id: session for session in given}

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(any_sessions())
    def test_gives_any_session_back(self, tmp_path_factory, session):
        """With a fork of it."""
        path = tmp_path_factory.mktemp("export") / "a.ipynb"
        fork = session.fork()
        back = sessions_in_notebook(export_notebook([fork, session], path))
        assert {one.id: one for one in back} == {session.id: session, fork.id: fork}

    def test_writes_all_of_a_fork_whose_origin_has_changed(self, path):
        """What is no more in the origin stands in the fork."""
        root = conversation()
        fork = root.fork()
        root.truncate(5)
        back = {session.id: session for session in sessions_in_notebook(export_notebook([root, fork], path))}
        assert content_of(back[fork.id]) == content_of(fork)

    def test_takes_one_session(self, path):
        """Or any iterable of them."""
        assert export_notebook(Session("one"), path) == path
        export_notebook(iter([Session("one"), Session("two")]), path)
        assert [session.id for session in sessions_in_notebook(path)] == ["one", "two"]

    def test_gives_the_same_bytes_for_the_same_sessions(self, path, tmp_path):
        """Version control shows what has changed and nothing else."""
        given = family_of_three()
        first = export_notebook(given, path).read_bytes()
        assert export_notebook(given, tmp_path / "b.ipynb").read_bytes() == first

    def test_replaces_what_it_wrote_and_nothing_else(self, path):
        """Another notebook of that name stays, unless the caller says otherwise."""
        export_notebook(Session("one"), path)
        export_notebook(Session("two"), path)
        notebook_of(path)
        before = path.read_bytes()
        with pytest.raises(InputError, match="overwrite=True"):
            export_notebook(Session("three"), path)
        assert path.read_bytes() == before
        export_notebook(Session("three"), path, overwrite=True)
        assert [session.id for session in sessions_in_notebook(path)] == ["three"]

    @pytest.mark.parametrize("wrong", [[], ["text"], [Session("a"), Session("a")]])
    def test_refuses_what_cannot_be_written(self, path, wrong):
        """And writes nothing."""
        with pytest.raises(InputError):
            export_notebook(wrong, path)
        assert not path.exists()

    def test_is_no_file_of_a_store(self, tmp_path):
        """A store that finds one under a name of its own leaves it alone."""
        path = export_notebook(Session("study-1"), tmp_path / "study-1.ipynb")
        before = path.read_bytes()
        store = NotebookSessionStore(tmp_path)
        for work in (lambda: store.load("study-1"), lambda: store.save(Session("study-1"))):
            with pytest.raises(SessionFormatError, match="sessions_in_notebook"):
                asyncio.run(work())
        assert path.read_bytes() == before

    def test_takes_edits(self, path):
        """An answer that was corrected in Jupyter is the one that is read."""
        export_notebook(family_of_three(), path)
        edit(path, 6, "You are welcome", "My pleasure")
        by_id, _ = found(path)
        assert by_id["study-1"].messages[6].text == "My pleasure."


class TestStrip:
    """A notebook without session data."""

    def test_takes_out_the_records_of_runs_and_leaves_what_is_seen(self, agent, path):
        """And says what it took out."""
        session = Session("s")
        notebook_of(path, agent.run("one", session=session), agent.run("two", session=session))
        before = read(path)
        said = strip(path)
        after = read(path)
        assert str(said) == f"{path}: removed the records of 2 runs"
        assert MEDIA_TYPE not in path.read_text()
        for cell in before["cells"]:
            del cell["outputs"][0]["data"][MEDIA_TYPE]
        assert after == before

    def test_takes_out_what_is_seen_if_that_is_wanted(self, agent, path):
        """Outputs of other kinds stay."""
        other = nbformat.v4.new_code_cell(
            "x", outputs=[nbformat.v4.new_output("display_data", {"text/html": '<div class="xr">'})]
        )
        notebook_of(path, agent.run("one"), Session("s"), other)
        assert strip(path, outputs=True).outputs == 2
        assert [len(cell["outputs"]) for cell in read(path)["cells"]] == [0, 0, 1]

    def test_takes_out_the_data_of_stored_and_exported_sessions(self, path):
        """They read as before, and cannot be loaded."""
        export_notebook(family_of_three(), path)
        sources = [source(cell) for cell in read(path)["cells"]]
        said = strip(path)
        assert said.is_session
        assert said.cells == len(sources)
        assert "cannot" not in str(said) or "no session can be loaded" in str(said)
        assert [source(cell) for cell in read(path)["cells"]] == sources
        assert "cyclops_nb" not in path.read_text()
        assert list(sessions_in_notebook(path)) == []

    def test_takes_out_the_state_of_widgets(self, path):
        """In which the text of conversations may stand."""
        notebook_of(path)
        notebook = read(path)
        notebook["metadata"]["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
        path.write_text(json.dumps(notebook))
        assert strip(path).widgets
        assert "widgets" not in read(path)["metadata"]

    def test_leaves_a_notebook_without_session_data_as_it_is(self, path):
        """To the byte, and says that there was nothing."""
        path.write_text('{"nbformat":4,"nbformat_minor":5,  "metadata":{},"cells":[]}')
        before = path.read_bytes()
        assert str(strip(path)).endswith("there was nothing to remove")
        assert path.read_bytes() == before

    @pytest.mark.parametrize("indent", [None, 1, 2, "\t"])
    @pytest.mark.parametrize("is_ascii", [True, False])
    def test_keeps_the_style_of_the_file(self, agent, path, indent, is_ascii):
        """Indentation, escapes, the order of keys and the end of the file."""
        notebook_of(path, agent.run("é"))
        notebook = {"nbformat": 4, **read(path)}
        notebook["cells"][0]["source"] = "π = 3"
        path.write_text(json.dumps(notebook, indent=indent, ensure_ascii=is_ascii) + "\n\n")
        strip(path)
        del notebook["cells"][0]["outputs"][0]["data"][MEDIA_TYPE]
        assert path.read_text() == json.dumps(notebook, indent=indent, ensure_ascii=is_ascii) + "\n\n"

    def test_needs_a_notebook(self, path):
        """What is none stays as it is."""
        with pytest.raises(FileNotFoundError):
            strip(path)
        path.write_text("{")
        with pytest.raises(SessionFormatError):
            strip(path)
        assert path.read_text() == "{"


CODE = """
from cyclops_nb import Agent, Session
agent = Agent("m", base_url={url!r}, api_key="test")
session = Session("worked-on", title="Work")
"""


class TestRealNotebook:
    """A notebook that a kernel has run."""

    def test_gives_its_sessions_back(self, path):
        """From `run`, `run_with_response` and a fork, as JupyterLab saves what was shown."""
        with ScriptedServer(lambda request: text(f"answer to {request.messages[-1]['content']}")) as server:
            cells = [
                CODE.format(url=server.base_url),
                'agent.run("one", session=session)',
                "fork = session.fork(title='Other way')\nagent.run_with_response('two', session=session)",
                "agent.run('three', session=fork)",
                "print(session.model_dump_json())\nprint(fork.model_dump_json())",
            ]
            notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
            nbclient.NotebookClient(notebook, timeout=60).execute()
        nbformat.write(notebook, path)
        lines = notebook.cells[-1].outputs[0].text.splitlines()
        wanted = [Session.model_validate_json(line) for line in lines]
        assert list(sessions_in_notebook(path)) == wanted


class TestBetweenRuns:
    """What was done to a session by hand, and what a run answered that was not given to it."""

    def test_an_edited_question_is_there(self, agent, path):
        """A run without an input shows the question that it answers."""
        session = Session("s")
        values = [agent.run("one", session=session)]
        fork = session.edit(0, "better")
        values.append(agent.run(session=fork))
        by_id, missing = found(notebook_of(path, *values))
        assert [message.text for message in by_id[fork.id].messages] == ["better", "answer to better"]
        assert missing == []

    def test_a_question_that_was_asked_again_stands_once(self, path):
        """After a run that failed."""
        with ScriptedServer([error(400, "no"), text("yes")]) as server:
            agent = agent_for(server)
            session = Session("s")
            values = [agent.run_with_response("one", session=session), agent.run(session=session)]
        (back,) = sessions_in_notebook(notebook_of(path, *values))
        assert back == session

    def test_a_compaction_on_demand_is_there(self, path):
        """It is seen in the next run: its summary, and its run."""

        def model(request):
            is_summary = "summary" in str(request.messages[0]["content"])
            return text("They counted." if is_summary else "a fine long answer " * 8)

        with ScriptedServer(model) as server:
            agent = agent_for(server)
            session = Session("s")
            values = [agent.run(f"question {number} " * 5, session=session) for number in range(4)]
            assert agent.compact(session) is not None
            values.append(agent.run("and now", session=session))
        (back,) = sessions_in_notebook(notebook_of(path, *values))
        assert back == session

    def test_metadata_are_there(self, agent, path):
        """As they were at the last run."""
        session = Session("s", metadata={"study": [1, 2]})
        (back,) = sessions_in_notebook(notebook_of(path, agent.run("one", session=session)))
        assert back == session


class TestChangedExports:
    """Notebooks that were handed out, and changed there."""

    def test_a_fork_whose_origin_was_taken_out_says_what_is_missing(self, path):
        """And one that was put before its origin is whole."""
        export_notebook(family_of_three()[:2], path)
        notebook = read(path)
        start = next(n for n, cell in enumerate(notebook["cells"]) if source(cell).startswith("# Rome"))
        origin, fork = notebook["cells"][:start], notebook["cells"][start:]
        path.write_text(json.dumps({**notebook, "cells": [*fork, *origin]}))
        by_id, missing = found(path)
        assert sorted(len(session.messages) for session in by_id.values()) == [7, 7]
        assert missing == []
        path.write_text(json.dumps({**notebook, "cells": fork}))
        by_id, missing = found(path)
        assert [len(session.messages) for session in by_id.values()] == [2]
        assert "messages [0] to [4]" in missing[0]

    @pytest.mark.parametrize("taken", [(0, 2), (2, 4), (0, 4), (4, 6)])
    def test_a_turn_taken_out_of_an_origin_is_out_of_its_forks(self, path, taken):
        """A fork has what is left of the turns that it shares, and none that its origin went on with alone."""
        origin = Session("origin")
        origin.messages += [UserMessage("q0"), AssistantMessage("a1"), UserMessage("q2"), AssistantMessage("a3")]
        fork = origin.fork()
        child = fork.fork()
        origin.messages += [UserMessage("q4"), AssistantMessage("a5")]
        fork.messages += [UserMessage("of the fork")]
        child.messages += [UserMessage("of the child")]
        expected = [m.text for n, m in enumerate(fork.messages[:4]) if not taken[0] <= n < taken[1]]
        export_notebook([origin, fork, child], path)
        notebook = read(path)
        del notebook["cells"][taken[0] + 1 : taken[1] + 1]
        path.write_text(json.dumps(notebook))
        by_id, missing = found(path)
        assert [m.text for m in by_id[fork.id].messages] == [*expected, "of the fork"]
        assert [m.text for m in by_id[child.id].messages] == [*expected, "of the child"]
        assert by_id[fork.id].parent.message_count == by_id[child.id].parent.message_count == len(expected)
        lost = 4 - len(expected)
        assert len(missing) == (2 if lost else 0)
        assert all(f"{lost} of messages [0] to [3]" in text for text in missing)

    def test_metadata_of_somebodys_own_are_kept(self, path):
        """What was put into those of the notebook since, and the kernel that was chosen for it."""
        export_notebook(Session("one"), path)
        notebook = read(path)
        notebook["metadata"] |= {"mine": {"z": 1, "10": 2, "9": 3}, "kernelspec": {"name": "ir", "display_name": "R"}}
        notebook["metadata"]["cyclops_nb"]["theirs"] = 1
        path.write_text(json.dumps(notebook))
        export_notebook(Session("two", title="x"), path)
        after = read(path)
        assert after["metadata"]["mine"] == {"z": 1, "10": 2, "9": 3}
        assert after["metadata"]["kernelspec"] == {"name": "ir", "display_name": "R"}
        assert [session.id for session in sessions_in_notebook(path)] == ["two"]
        check_valid(path)
        before = path.read_bytes()
        export_notebook(list(sessions_in_notebook(path)), path)
        assert path.read_bytes() == before

    def test_what_was_changed_there_is_not_replaced(self, path):
        """A cell of somebody's own is no less than a notebook of his own."""
        export_notebook(Session("one"), path)
        notebook = nbformat.read(path, 4)
        nbformat.write(notebook, path)
        export_notebook(Session("one"), path)
        notebook.cells.append(nbformat.v4.new_code_cell("my_work()"))
        nbformat.write(notebook, path)
        with pytest.raises(InputError, match="changed since"):
            export_notebook(Session("one"), path)

    @pytest.mark.parametrize("wrong", [None, 7, [None]])
    def test_wrong_arguments_are_told(self, path, wrong):
        """In words."""
        with pytest.raises(InputError, match="session"):
            export_notebook(wrong, path)
