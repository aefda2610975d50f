"""What a notebook shows of the sessions that a store lists, and of runs in the background."""

import asyncio
import copy
import pickle
from datetime import UTC, datetime

import pytest
from IPython.core.formatters import DisplayFormatter
from pages import HOSTILE, shown
from scenarios import agent_for

from cyclops_nb import FileSessionStore, InMemorySessionStore, NotebookSessionStore, Session
from cyclops_nb.messages import UserMessage
from cyclops_nb.session import Parent
from cyclops_nb.stores.base import SessionInfo, SessionInfos
from cyclops_nb.testing import gate, reply, text
from cyclops_nb.usage import Usage

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def infos(*fields):
    """Return what a store might list."""
    return SessionInfos(SessionInfo(**{"id": f"s{n}", "updated_at": START, **given}) for n, given in enumerate(fields))


class TestSessionInfos:
    """What `list()` of a store gives."""

    @pytest.mark.parametrize("kind", [InMemorySessionStore, FileSessionStore, NotebookSessionStore])
    def test_every_store_of_ours_gives_one(self, kind, tmp_path):
        """The list of each store is a table with a row for each session."""
        store = kind() if kind is InMemorySessionStore else kind(tmp_path)

        async def stored():
            session = Session("study-1", title="Weather")
            session.messages.append(UserMessage("Hi"))
            await store.save(session)
            await store.save(session.fork(title="Another"))
            return await store.list()

        page, said = shown(asyncio.run(stored()))
        assert page.text.startswith(
            "2 sessions session messages runs tokens in tokens out cost stored (UTC) forked from"
        )
        assert "Weather study-1 1 0 0 0 $0" in page.text
        assert said.startswith("2 sessions:\n")
        assert "Weather (session study-1)\n    1 message, 0 runs" in said

    def test_has_a_row_for_each_session(self):
        """Counts, tokens, dollars, time and origin stand in their columns."""
        given = {"title": "T", "message_count": 1200, "run_count": 3, "usage": Usage(3, 2000, 30), "cost": 1.5}
        page, said = shown(infos({**given, "parent": Parent(session_id="a", message_count=2)}, {"backup": True}))
        assert "T s0 1,200 3 2,000 30 $1.50 2026-01-02 03:04:05 a" in page.text
        assert "s1 0 0 unknown unknown unknown 2026-01-02 03:04:05 backup" in page.text
        assert len(page.tags("tr")) == 3
        assert "1,200 messages, 3 runs, 2,000 tokens in, 30 out, cost $1.50" in said
        assert "an older conversation" in said

    def test_says_that_there_is_none(self):
        """An empty store is no empty cell."""
        page, said = shown(infos())
        assert page.text == said == "0 sessions"

    def test_reads_the_same_in_ipython(self):
        """A kernel, and IPython in a terminal, get the words, and not the reprs of what is in the list."""
        given = infos({"title": "T"})
        bundle, _ = DisplayFormatter().format(given)
        assert bundle == given._repr_mimebundle_()
        assert "SessionInfo(" not in bundle["text/plain"]

    def test_many_are_cut_and_counted(self):
        """A store of thousands does not flood the notebook."""
        page, said = shown(infos(*[{"title": "&" * 80}] * 3_000))
        assert "2,800 more sessions not shown" in page.text
        assert said.endswith("2,800 more sessions not shown")
        assert len(infos(*[{"title": "&" * 80}] * 3_000)._repr_html_()) < 250_000

    def test_is_a_list_like_any_other(self):
        """It equals a plain list, is copied and pickled, and a part of it is shown as a table, too."""
        given = infos({}, {}, {})
        assert isinstance(given, list)
        assert given == list(given)
        assert repr(given) == repr(list(given))
        assert given[0] is next(iter(given))
        assert given[1:] == list(given)[1:]
        assert shown(given[:2])[0].text.startswith("2 sessions")
        for again in (copy.copy(given), copy.deepcopy(given), pickle.loads(pickle.dumps(given))):  # noqa: S301 - ours
            assert type(again) is SessionInfos
            assert again == given

    @pytest.mark.parametrize("text", HOSTILE)
    def test_hostile_text_stays_text(self, text):
        """Titles and ids, which come from files, are shown as text."""
        page, _ = shown(infos({"id": text, "title": text, "parent": Parent(session_id=text, message_count=1)}))
        assert "cannot be drawn" not in page.text


class TestRunHandle:
    """A run in the background, shown in a cell."""

    def test_is_shown_as_its_response_when_it_is_done(self, serve):
        """There is one look for a run that is over, whoever holds it."""
        handle = agent_for(serve(text("**Tokyo**"))).start("Capital of Japan?")
        response = handle.result()
        assert shown(handle)[1] == shown(response)[1]
        assert shown(handle)[0].text == shown(response)[0].text
        assert "[1] assistant" in shown(handle)[0].text

    def test_says_that_it_goes_on(self, serve):
        """While the run goes on it says so, in place of an answer."""
        door = gate()
        handle = agent_for(serve(reply(text("Once upon"), door, text(" a time")))).start("Tell me a story.")
        door.wait_reached()
        page, said = shown(handle)
        assert page.text == said == f"run {handle.id} goes on right now"
        handle.cancel()
        handle.result()

    def test_shows_what_was_read_of_a_stopped_answer(self, serve):
        """The text of a run that was stopped is there, and said to be in no transcript."""
        handle = agent_for(serve(reply(text("Once upon"), gate(), text(" a time")))).start("Tell me a story.")

        async def read():
            async for event in handle.events():
                if event.type == "text_delta":
                    handle.cancel()
            return await handle

        assert asyncio.run(read()).partial.startswith("Once")
        page, said = shown(handle)
        assert "the run was stopped: cancelled" in page.text
        assert "stands in no transcript Once" in page.text
        assert "in no transcript) Once" in said
