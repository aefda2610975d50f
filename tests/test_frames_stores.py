"""Frames of stores: all that a store lists is loaded, from any thread and loop, and nothing is changed by it."""

import asyncio
import sys

import pandas as pd
import pytest
from stored import load, names, save, talk

from cyclops_nb import (
    Agent,
    FileSessionStore,
    InMemorySessionStore,
    InputError,
    NotebookSessionStore,
    Session,
    SessionConflictError,
    UserMessage,
    messages_frame,
    progress,
    runs_frame,
    steps_frame,
    tool_calls_frame,
    usage_table,
)
from cyclops_nb.testing import ScriptedServer, text, tool_call

STORES = {"memory": lambda _: InMemorySessionStore(), "file": FileSessionStore, "notebook": NotebookSessionStore}
FRAMES = (messages_frame, runs_frame, steps_frame, tool_calls_frame)


def filled(store, *ids):
    """Store a conversation under each id."""
    for session_id in ids:
        session = talk(2)
        session.id = session_id
        session.runs[:] = [run.model_copy(update={"session_id": session_id}) for run in session.runs]
        save(store, session)
    return store


class ListOfSessions:
    """The least that a store of one's own needs."""

    def __init__(self, *sessions):
        self.sessions = {session.id: session for session in sessions}
        self.loops = []

    async def list(self):
        self.loops.append(asyncio.get_running_loop())
        return list(self.sessions.values())  # they have an id, which is all that is asked for

    async def load(self, session_id):
        self.loops.append(asyncio.get_running_loop())
        return self.sessions[session_id]


class TestWhatIsLoaded:
    @pytest.mark.parametrize("kind", STORES)
    def test_is_all_that_the_store_lists(self, kind, tmp_path):
        """The frame of a store is that of all its sessions, in the order of its list."""
        store = filled(STORES[kind](tmp_path), "a", "b", "c")
        listed = [load(store, info.id) for info in asyncio.run(store.list())]
        for frame in FRAMES:
            pd.testing.assert_frame_equal(frame(store), frame(listed))
        assert usage_table(store, by="session").to_csv() == usage_table(listed, by="session").to_csv()

    def test_stands_beside_other_sources(self, tmp_path):
        """A session in memory that is stored, too, is counted once; stores may be in lists."""
        store = filled(FileSessionStore(tmp_path), "a")
        session = load(store, "a")
        fork = session.fork()
        assert len(runs_frame([store], session, fork)) == 2
        assert len(runs_frame([store], fork, inherited=True)) == 4

    def test_any_store_that_lists_will_do(self):
        """A class of one's own with `list` and `load` is a store."""
        store = ListOfSessions(talk(1), Session("empty"))
        assert messages_frame(store)["role"].tolist() == ["user", "assistant"]

    def test_a_store_that_cannot_list_is_refused(self):
        """Without `list` nobody knows what is in a store, so sessions are asked for."""

        class Plain:
            async def load(self, session_id): ...

        with pytest.raises(InputError, match=r"a Plain has no runs or messages to show: .* a store that can list"):
            messages_frame(Plain())

    @pytest.mark.parametrize("suffix", ["jsonl", "ipynb"])
    def test_what_cannot_be_read_is_left_out_with_a_warning(self, suffix, tmp_path):
        """A damaged file is named in a warning, and the rest is there."""
        store = filled({"jsonl": FileSessionStore, "ipynb": NotebookSessionStore}[suffix](tmp_path), "a", "b")
        path = tmp_path / f"b.{suffix}"
        path.write_bytes(path.read_bytes().replace(b'"role"', b'"rule"'))
        with pytest.warns(UserWarning, match=rf"left out: .*b\.{suffix}"):
            frame = messages_frame(store)
        assert set(frame["session_id"]) == {"a"}

    @pytest.mark.parametrize("kind", STORES)
    def test_what_is_deleted_meanwhile_is_not_there(self, kind, tmp_path, monkeypatch):
        """A session that goes while others are loaded is passed over."""
        store = filled(STORES[kind](tmp_path), "a", "b")
        listed = asyncio.run(store.list())
        asyncio.run(store.delete("b"))

        async def as_before():
            return listed

        monkeypatch.setattr(store, "list", as_before)
        assert set(messages_frame(store)["session_id"]) == {"a"}

    def test_errors_of_a_store_are_raised(self):
        """What a store raises otherwise is not hidden."""

        class Broken(ListOfSessions):
            async def load(self, session_id):
                raise LookupError("the database is down")

        with pytest.raises(LookupError, match="the database is down"):
            runs_frame(Broken(Session("a")))


class TestNoTrace:
    @pytest.mark.parametrize("kind", ["file", "notebook"])
    def test_someone_elses_change_is_still_noticed(self, kind, tmp_path):
        """A frame does not make a store believe that its user has seen what someone else wrote meanwhile."""
        store = STORES[kind](tmp_path)
        session = talk(1)
        save(store, session)
        theirs = load(STORES[kind](tmp_path))
        theirs.messages.append(UserMessage("by someone else"))
        other = STORES[kind](tmp_path)
        load(other)
        save(other, theirs)
        assert "by someone else" in messages_frame(store)["text"].tolist()
        session.messages.append(UserMessage("mine"))
        with pytest.raises(SessionConflictError):
            save(store, session)
        assert "by someone else" in load(STORES[kind](tmp_path)).messages[-1].text

    @pytest.mark.parametrize("kind", ["file", "notebook"])
    def test_the_folder_stays_as_it_is(self, kind, tmp_path):
        """No file is made or written."""
        store = filled(STORES[kind](tmp_path), "a", "b")
        before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
        messages_frame(store)
        assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == before


class TestFromAnywhere:
    def test_where_a_loop_runs(self, tmp_path):
        """Code on an event loop, as in a cell of a notebook, gets the frame; the store works on the library's loop."""
        own = ListOfSessions(talk(1))
        files = filled(FileSessionStore(tmp_path), "a")

        async def cell():
            return len(messages_frame(own)), len(messages_frame(files)), asyncio.get_running_loop() in own.loops

        assert asyncio.run(cell()) == (2, 4, False)

    def test_in_an_async_tool(self, tmp_path):
        """So does an async tool of a sync run, which is on that very loop."""
        store = filled(FileSessionStore(tmp_path), "a")

        async def count() -> int:
            """Count the messages that are stored."""
            return len(messages_frame(store))

        with ScriptedServer([tool_call("count", {}), text("Done.")]) as server:
            response = Agent("m", base_url=server.base_url, api_key="k", tools=[count]).run_with_response("Count.")
        assert [result.text for result in response.tool_results] == ["4"]

    def test_in_a_kernel(self, kernel, tmp_path):
        """In a cell of a real notebook kernel, where a loop runs, it is one call; a bar leaves nothing in the output."""
        filled(FileSessionStore(tmp_path), "a", "b")
        code = f"""
from cyclops_nb import FileSessionStore, messages_frame, progress, usage_table
store = FileSessionStore({str(tmp_path)!r})
print(len(messages_frame(store)))
usage_table(store, by="session")
"""
        assert kernel.run(code).startswith("8\nUsage by session: 2 sessions, 4 runs\n\nsession")
        cell = kernel.send("progress._DELAY = -1; len(messages_frame(store))")
        kinds = {"display_data", "update_display_data", "execute_result"}
        bar, *_, end, result = [(kind, content["data"]) for kind, content in kernel._messages(cell) if kind in kinds]
        assert bar[0] == "display_data"
        assert "application/vnd.jupyter.widget-view+json" in bar[1]
        assert end[0] == "update_display_data"
        assert set(end[1].values()) == {""}
        assert result == ("execute_result", {"text/plain": "8"})


class TestProgress:
    def test_is_shown_when_it_takes_long(self, monkeypatch, capsys):
        """A bar is shown once loading has taken a while, and is gone at the end."""
        store = filled(InMemorySessionStore(), "a", "b", "c")
        messages_frame(store)
        assert capsys.readouterr() == ("", "")
        monkeypatch.setattr(progress, "_DELAY", -1.0)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        messages_frame(store)
        shown = capsys.readouterr().err
        assert "Loading sessions" in shown
        assert shown.endswith("\r")
