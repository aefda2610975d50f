"""Sessions in notebooks: what comes back, what stands in the file, and what is listed."""

import asyncio
import base64
import json
import os
import random
import re

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored import add, bytes_read, load, names, save, say, talk
from strategies import any_transcripts, moderate, sessions

from cyclops_nb import NotebookSessionStore
from cyclops_nb.errors import InputError, SessionNotFoundError
from cyclops_nb.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    ReasoningPart,
    SummaryMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from cyclops_nb.runs import Run
from cyclops_nb.session import Parent, Session
from cyclops_nb.stores import notebook as store_module
from cyclops_nb.stores import read_session
from cyclops_nb.usage import Usage
from notebooks import (
    MARKDOWN,
    PNG,
    as_jupyterlab_saves,
    cell_of,
    changed_lines,
    check_valid,
    code,
    conversation,
    git,
    note,
    put_in,
    read,
    source,
    write,
)

pytestmark = pytest.mark.filterwarnings("error")
STORE = NotebookSessionStore


MESSAGES = st.one_of(
    st.builds(UserMessage, MARKDOWN),
    st.builds(SummaryMessage, MARKDOWN, st.just(3)),
    st.builds(
        AssistantMessage,
        st.lists(st.one_of(st.builds(TextPart, MARKDOWN), st.builds(ReasoningPart, MARKDOWN)), max_size=4),
    ),
    st.builds(lambda name, text: ToolMessage("c", name, text), MARKDOWN, MARKDOWN),
    st.builds(
        lambda text: UserMessage([TextPart(text), ImagePart(PNG, media_type="image/png"), TextPart(text)]), MARKDOWN
    ),
    st.builds(lambda text: UserMessage([FilePart(text, b"x", "text/plain")]), MARKDOWN),
)


class TestComesBack:
    @moderate
    @given(session=sessions(any_transcripts))
    def test_any_session(self, tmp_path_factory, session):
        """A loaded session is equal to the saved one, whatever it holds, and its file is a valid notebook."""
        folder = tmp_path_factory.mktemp("sessions")
        save(NotebookSessionStore(folder), session)
        loaded = load(NotebookSessionStore(folder), "s")
        assert loaded == session
        assert loaded.model_dump_json() == session.model_dump_json()
        check_valid(folder / "s.ipynb")

    @moderate
    @given(messages=st.lists(MESSAGES, max_size=4), added=st.lists(MESSAGES, max_size=3))
    def test_any_markdown(self, tmp_path_factory, messages, added):
        """Any text comes back, however it looks as Markdown, saved at once or added."""
        folder = tmp_path_factory.mktemp("sessions")
        session, store = Session("s"), NotebookSessionStore(folder)
        session.messages += messages
        save(store, session)
        session.messages += added
        add(store, session, added)
        assert load(NotebookSessionStore(folder), "s") == session
        check_valid(folder / "s.ipynb")

    @moderate
    @given(session=sessions())
    def test_after_javascript(self, tmp_path_factory, session):
        """What a browser has read and written, and Jupyter sorted, is the same file, and the same session."""
        folder = tmp_path_factory.mktemp("sessions")
        save(NotebookSessionStore(folder), session)
        path = folder / "s.ipynb"
        before = path.read_bytes()
        path.write_bytes(as_jupyterlab_saves(read(path)))
        assert path.read_bytes() == before
        loaded = load(NotebookSessionStore(folder), "s")
        assert loaded == session
        assert list(loaded.configs) == list(session.configs)

    def test_large_texts(self, store):
        """Texts of a megabyte come back: one line, many lines, a tool's result."""
        session = Session("study-1")
        texts = ["x" * 1_000_000, "line $5\n" * 120_000, "<b>\n\n" * 200_000]
        session.messages += [UserMessage(texts[0]), AssistantMessage([TextPart(texts[1]), ToolCall("c", "f")])]
        session.messages.append(ToolMessage("c", "f", texts[2]))
        save(store, session)
        assert load(store) == session

    def test_images_stand_once(self, store, path):
        """The data of a picture stand in the file once, as an attachment, and come back exactly."""
        data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + random.Random(0).randbytes(3_000)).decode()
        session = Session("study-1")
        session.messages += [
            UserMessage(ImagePart(data, media_type="image/png")),
            UserMessage(ImagePart(url=f"data:image/jpeg;base64,{data[:-4]}")),
            AssistantMessage(ToolCall("c", "plot")),
            ToolMessage("c", "plot", [TextPart("done"), ImagePart(data, media_type="image/png")]),
        ]
        save(store, session)
        assert load(store) == session
        assert path.read_text("utf-8").count(data[:100]) == 3
        cell = cell_of(read(path), 0)
        assert cell["attachments"] == {"0.png": {"image/png": data}}
        assert "![image](attachment:0.png)" in source(cell)

    def test_odd_images(self, store):
        """Data that are no base64, or of another kind, come back as they are."""
        session = Session("study-1")
        parts = [
            ("a b\nc", "image/png"),
            ("", "image/png"),
            ("PHN2Zz4=", "image/svg+xml"),
            ("eA==", "application/json"),
        ]
        session.messages.append(UserMessage([ImagePart(data, media_type=kind) for data, kind in parts]))
        session.messages.append(UserMessage(ImagePart(url="data:image/png;base64,")))
        save(store, session)
        assert load(store) == session

    def test_message_ids_may_be_anything(self, store, path):
        """Ids that repeat, are empty, too long or of other letters give ids of cells that are valid and unique."""
        session = Session("study-1")
        wanted = ["a", "a", "a-2", "head", "foot", "", "é", "x" * 64, "x" * 64, "x" * 65, "a b", "a"]
        session.messages += [UserMessage(f"{place}", id=name) for place, name in enumerate(wanted)]
        save(store, session)
        new = [UserMessage("more", id="a"), UserMessage("more", id="x" * 64)]
        session.messages += new
        add(store, session, new)
        assert load(store) == session
        check_valid(path)

    def test_many_runs(self, store, path):
        """A long list of runs comes back whole; what is read of it is cut."""
        session = talk()
        session.runs += [Run(session_id="study-1", model="m", cost=0.5, stop_reason="completed") for _ in range(300)]
        save(store, session)
        session.runs.append(Run(session_id="study-1", model="m"))
        add(store, session, [])
        assert load(NotebookSessionStore(path.parent)) == session
        assert "262 earlier runs not listed" in source(cell_of(read(path), "foot"))


class TestReadsWell:
    def test_first_cell(self, store, path):
        """Title, id and parentage stand in the first cell."""
        session = talk().fork(title="Shorter")
        session.id = "study-1"
        session.parent = Parent(session_id="origin", message_count=5)
        save(store, session)
        first = source(read(path)["cells"][0])
        assert first.startswith("# Shorter\n\nSession study-1, begun 20")
        assert first.endswith("forked from origin after message \\[4]")

    def test_messages(self, store, path):
        """Each message says who speaks, with its index; its text is Markdown as it was written."""
        save(store, conversation())
        notebook = read(path)
        assert {cell["cell_type"] for cell in notebook["cells"]} == {"markdown"}
        heads = [source(cell).split("\n")[0] for cell in notebook["cells"][1:-1]]
        assert heads == [
            "## \\[0] user",
            "### \\[1] assistant",
            "### \\[2] tool get_weather",
            "### \\[3] tool get_weather",
            "### \\[4] assistant",
            "## \\[5] user",
            "### \\[6] assistant",
        ]
        assert source(cell_of(notebook, 6)).split("\n")[2:] == ["You are welcome."]

    def test_folded(self, store, path):
        """Reasoning and calls can be opened; a result is there to be read."""
        save(store, conversation())
        answer = source(cell_of(read(path), 1))
        assert "*m · 1.5 s · 50 tokens in, 10 out*" in answer
        assert "<details>\n<summary>reasoning, 4 words</summary>\n\nI need the weather.\n\n</details>" in answer
        assert '<summary>calls <b>get_weather</b> {"city": "Paris"}</summary>' in answer
        assert '```json\n{\n  "city": "Paris"\n}\n```' in answer
        assert "```\n11 °C\n```" in source(cell_of(read(path), 2))

    def test_huge_results_are_cut(self, store, path):
        """Of a huge result the begin and the end are shown, and its size; the whole comes back."""
        session = Session("study-1")
        text = "begin " + "x" * 2_000_000 + " end"
        session.messages += [AssistantMessage(ToolCall("c", "f")), ToolMessage("c", "f", text)]
        save(store, session)
        shown = source(cell_of(read(path), 1))
        assert len(shown) < 10_000
        assert "begin" in shown
        assert " end\n```" in shown
        assert "characters left out" in shown
        assert "2.0 MB in all" in shown
        assert load(store) == session

    def test_files(self, store, path):
        """A file is named, with its size."""
        session = Session("study-1")
        session.messages.append(UserMessage(FilePart("a_b.pdf", b"%PDF" * 500, "application/pdf")))
        save(store, session)
        assert "*file a_b.pdf, application/pdf, 2.0 kB*" in source(cell_of(read(path), 0))

    def test_last_cell(self, store, path):
        """Runs, tokens, cost and the settings that made the answers stand in the last cell."""
        save(store, conversation())
        last = source(read(path)["cells"][-1])
        assert last.startswith("***\n\n**1 run: 100 tokens in, 20 out, $0.0100**")
        assert "| \\[0] | m | completed | 0 | 100 | 20 | <span>&#36;</span>0.0100 |" in last
        assert "settings of 1 run: m" in last
        assert "```\nBe brief.\n```" in last
        assert '"temperature": 0.5' in last

    def test_without_runs(self, store, path):
        """A session without runs says so."""
        save(store, Session("study-1"))
        assert source(read(path)["cells"][-1]) == "***\n\n*no runs yet*"
        check_valid(path)


class TestAlwaysTheSame:
    def test_saving_again_changes_nothing(self, store, path):
        """A save without a change gives the same bytes, from any store, also through a load."""
        session = conversation()
        save(store, session)
        before = path.read_bytes()
        save(store, session)
        assert path.read_bytes() == before
        save(store, load(store))
        add(store, session, [])
        save(NotebookSessionStore(path.parent), session)
        assert path.read_bytes() == before

    def test_adding_is_saving(self, store, path, tmp_path):
        """What was added in pieces stands in the file as if it had been saved at once."""
        session = conversation()
        whole = list(session.messages)
        del session.messages[1:]
        save(store, session)
        for place in range(1, len(whole)):
            session.messages.append(whole[place])
            add(store, session, whole[place : place + 1])
        other = NotebookSessionStore(tmp_path / "other")
        save(other, session)
        assert path.read_bytes() == (tmp_path / "other" / path.name).read_bytes()

    def test_an_addition_changes_what_is_new(self, store, path, tmp_path):
        """A new message adds its cell and changes the last one; nothing else."""
        session = talk(3)
        save(store, session)
        before = path.read_bytes()
        add(store, session, say(session, "new question"))
        added, removed = changed_lines(before, path.read_bytes(), tmp_path)
        foot = json.dumps(cell_of(read(path), "foot"))
        assert len(added) < 150
        assert all(line.strip(' ,"\\n') in foot or re.match(r'\s*"(at|\*\*3 runs|\|?)', line) for line in removed), (
            removed
        )
        assert len(removed) < 12
        assert not [line for line in removed if '"id"' in line or '"index"' in line]

    def test_git_counts_what_is_new(self, store, path):
        """For git a new turn is its lines, and a few changed ones in the last cell."""
        session = talk(30)
        save(store, session)
        git(path.parent, "init", "--quiet")
        git(path.parent, "add", path.name)
        before = path.read_bytes()
        for turns in (1, 2):
            add(store, session, say(session))
            added, removed, _ = git(path.parent, "diff", "--numstat").split()
            assert int(removed) <= 8
            assert int(added) <= 8 + 130 * turns
        foot = before.rindex(b'"id": "foot"')
        assert path.read_bytes().startswith(before[: before.rindex(b"\n  {", 0, foot)])
        git(path.parent, "add", path.name)
        save(store, session)
        save(NotebookSessionStore(path.parent), load(store))
        assert git(path.parent, "diff", "--numstat") == ""

    def test_a_save_changes_what_has_changed(self, store, path, tmp_path):
        """A truncated session takes cells out and leaves the others."""
        session = talk(5)
        save(store, session)
        before = path.read_bytes()
        session.truncate(8)
        save(store, session)
        added, removed = changed_lines(before, path.read_bytes(), tmp_path)
        assert len(added) <= 3  # how many messages there are, and where that stands
        assert [line for line in removed if "question" in line or "## " in line]
        assert not [line for line in removed if "question 3" in line]

    def test_ids_stay(self, store, path):
        """The ids of cells are those of the messages, and stay when others come and go."""
        session = talk(3)
        save(store, session)
        ids = [cell["id"] for cell in read(path)["cells"]]
        assert ids == ["head", *(message.id for message in session.messages), "foot"]
        session.messages[2:4] = []
        save(store, session)
        assert [cell["id"] for cell in read(path)["cells"]] == [*ids[:3], *ids[5:]]

    def test_what_never_changes(self, store, path):
        """The notebook's own metadata are the same after any addition."""
        session = talk()
        save(store, session)
        before = read(path)["metadata"]
        session.title = "Other"
        session.metadata["a"] = 1
        add(store, session, say(session))
        assert read(path)["metadata"] == before
        assert set(before["cyclops_nb"]) == {"version", "id", "created_at"}
        assert source(read(path)["cells"][0]).startswith("# Other\n")
        assert load(store) == session


class TestList:
    def test_what_is_told(self, store, path):
        """A list tells title, messages, runs, usage and cost, and names the file."""
        save(store, conversation())
        (info,) = asyncio.run(store.list())
        assert (info.id, info.title, info.message_count, info.run_count) == ("study-1", "Weather", 7, 1)
        assert (info.usage, info.cost, info.path) == (Usage(2, 100, 20), 0.01, path)

    @moderate
    @given(session=sessions())
    def test_tells_the_same_as_a_reading_of_the_file(self, tmp_path_factory, session):
        """What stands at the end of a file is what the whole of it says."""
        folder = tmp_path_factory.mktemp("sessions")
        save(NotebookSessionStore(folder), session)
        (quick,) = asyncio.run(NotebookSessionStore(folder).list())
        path = folder / "s.ipynb"
        status = path.stat()
        path.write_bytes(
            path.read_bytes().replace(b'"cells": [', b'"cells":     [', 1)
        )  # where it stands is told wrong
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        (slow,) = asyncio.run(NotebookSessionStore(folder).list())
        assert quick == slow

    def test_does_not_read_files_whole(self, store):
        """Of each file its end is read, whether the session was saved whole, or added to."""
        session = talk()
        session.messages.append(UserMessage("x" * 3_000_000))
        save(store, session)
        read_bytes, (info,) = bytes_read(lambda: asyncio.run(store.list()))
        assert read_bytes < 100_000
        assert (info.message_count, info.title) == (3, "question 0")
        add(store, session, [UserMessage("y" * 3_000_000)])
        read_bytes, (info,) = bytes_read(lambda: asyncio.run(store.list()))
        assert read_bytes < 100_000
        assert info.message_count == 4

    def test_an_edit_is_noticed(self, store, path):
        """A list tells of a session as it was edited."""
        save(store, talk(2))
        notebook = read(path)
        cell_of(notebook, 0)["source"] = "## \\[0] user\n\nWhy?"
        write(path, notebook)
        (info,) = asyncio.run(store.list())
        assert info.title == "Why?"

    @pytest.mark.parametrize("title", ["Cats", None])
    @pytest.mark.parametrize("how", ["save", "add", "load", "add to nothing"])
    @pytest.mark.parametrize("picture", [True, False])
    def test_an_edit_of_the_same_length_is_noticed(self, store, path, title, how, picture):
        """Though all that tells of the session at the end of the file still stands where it stood."""
        session = Session("study-1", title=title)
        question = [ImagePart(PNG * 1_000, media_type="image/png")] if picture else []
        new = [SummaryMessage("before", 2), UserMessage([*question, TextPart("What cats?")]), AssistantMessage("meow")]
        if how != "add to nothing":
            session.messages += new
        save(store, session)
        match how:
            case "add":
                add(store, session, say(session))
            case "load":
                store = NotebookSessionStore(path.parent)
                session = load(store)
                add(store, session, say(session))
            case "add to nothing":
                for message in new:
                    session.messages.append(message)
                    add(store, session, [message])
        assert [info.title for info in asyncio.run(store.list())] == [title or "What cats?"]
        data = path.read_bytes()
        notebook = read(path)
        for cell in (cell_of(notebook, "head"), cell_of(notebook, 1)):
            cell["source"] = source(cell).replace("# Cats", "# Dogs").replace("What cats?", "What dogs?")
        write(path, notebook)
        assert len(path.read_bytes()) == len(data)
        assert [info.title for info in asyncio.run(store.list())] == ["Dogs" if title else "What dogs?"]

    def test_adding_the_first_question_is_saving_it(self, store, path, tmp_path):
        """What a list goes by is the same, however the session came to be in the file."""
        session = Session("study-1")
        save(store, session)
        for message in [SummaryMessage("x", 1), UserMessage("q"), AssistantMessage("a"), UserMessage("r")]:
            session.messages.append(message)
            add(store, session, [message])
            other = NotebookSessionStore(tmp_path / "other")
            save(other, session)
            assert path.read_bytes() == (tmp_path / "other" / path.name).read_bytes()

    def test_cells_behind_the_last_one(self, store, path):
        """A session whose notebook goes on behind our last cell is listed, too."""
        save(store, talk())
        put_in(path, "foot", note('my "summary"'))
        (info,) = asyncio.run(store.list())
        assert info.message_count == 2

    def test_other_notebooks_are_not_ours(self, folder, store):
        """A notebook without a session, as users have them, is left out without a word; a broken one with a warning."""
        save(store, talk())
        shown = {"application/vnd.cyclops.run+json": {"config": {"cyclops_nb": "0.1"}}, "text/plain": "an answer"}
        output = nbformat.v4.new_output("display_data", shown)
        nbformat.write(nbformat.v4.new_notebook(cells=[note("x")]), folder / "notes.ipynb")
        nbformat.write(nbformat.v4.new_notebook(cells=[code("agent.run('q')", output)]), folder / "work.ipynb")
        (folder / "notes.txt").write_text("x")
        (folder / ".ipynb_checkpoints").mkdir()
        assert [info.id for info in asyncio.run(store.list())] == ["study-1"]
        (folder / "broken.ipynb").write_text('{"metadata": {"cyclops_nb"')
        (folder / "study-1-Copy1.ipynb").write_bytes((folder / "study-1.ipynb").read_bytes())
        with pytest.warns(UserWarning, match="left out") as caught:
            assert [info.id for info in asyncio.run(store.list())] == ["study-1"]
        assert len(caught) == 2


class TestBackups:
    def test_another_conversation(self, folder, path):
        """A notebook that is run anew keeps the old conversation beside the new one, with a warning."""
        old, new = talk(), talk(2)
        save(NotebookSessionStore(folder), old)
        put_in(path, 1, note("mine"))
        before = path.read_bytes()
        with pytest.warns(UserWarning, match=r"another conversation was stored as 'study-1'; it is kept as .*backup-1"):
            save(NotebookSessionStore(folder), new)
        assert load(NotebookSessionStore(folder)) == new
        assert (folder / "study-1.backup-1.ipynb").read_bytes() == before
        assert read_session(folder / "study-1.backup-1.ipynb") == old
        assert names(folder) == ["study-1.backup-1.ipynb", "study-1.ipynb"]
        infos = asyncio.run(NotebookSessionStore(folder).list(backups=True))
        assert {(info.backup, info.message_count) for info in infos} == {(False, 4), (True, 2)}

    def test_edits_that_were_not_read(self, folder, path):
        """A store that has not read a notebook keeps what was edited in it, when it saves the session anew."""
        session = talk()
        save(NotebookSessionStore(folder), session)
        notebook = read(path)
        cell_of(notebook, 1)["source"] = "### \\[1] assistant\n\nMine."
        write(path, notebook)
        with pytest.warns(UserWarning, match="had been edited since"):
            save(NotebookSessionStore(folder), session)
        assert load(NotebookSessionStore(folder)) == session
        assert "Mine." in (folder / "study-1.backup-1.ipynb").read_text("utf-8")


class TestRefused:
    def test_what_cannot_be_stored(self, store, path):
        """What JSON cannot hold is refused, and the file stays as it was."""
        session = talk()
        save(store, session)
        before = path.read_bytes()
        session.metadata["x"] = object()
        for work in (lambda: save(store, session), lambda: add(store, session, [])):
            with pytest.raises(InputError, match="'study-1' cannot be stored"):
                work()
        assert path.read_bytes() == before
        assert names(path.parent) == ["study-1.ipynb"]

    @pytest.mark.parametrize("name", ["../x", "a/b", "C:foo", "ä", "a\n", "", "CON", "a" * 300])
    def test_odd_ids(self, store, folder, name):
        """An id that is no file name everywhere is refused in all methods, before anything is read."""
        session = Session("x")
        session.id = name
        for call in (store.load(name), store.save(session), store.add_messages(session, []), store.delete(name)):
            with pytest.raises(ValueError, match="cannot keep a session"):
                asyncio.run(call)
        assert not folder.exists()

    def test_nothing_to_add_to(self, store, path):
        """An addition to what is gone says so."""
        session = talk()
        with pytest.raises(SessionNotFoundError):
            add(store, session, [])
        save(store, session)
        path.unlink()
        with pytest.raises(SessionNotFoundError):
            add(store, session, [])


@pytest.mark.parametrize("how", ["add", "save"])
def test_only_what_is_new_is_encoded(store, monkeypatch, how):
    """What stands is copied: no message that stands is rendered again, and nothing of the notebook is parsed."""
    session = talk(50)
    save(store, session)
    rendered = []
    real = store_module.message_cell
    monkeypatch.setattr(store_module, "message_cell", lambda *given: rendered.append(given[1]) or real(*given))
    monkeypatch.setattr(store_module, "read_notebook", None)
    monkeypatch.setattr(store_module, "arranged", None)
    new = say(session)
    add(store, session, new) if how == "add" else save(store, session)
    assert rendered == new
    monkeypatch.undo()
    assert load(NotebookSessionStore(store.directory)) == session
