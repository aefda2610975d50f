"""The methods of the explorer: what they do to the sessions, to the store, and when they are refused."""

from __future__ import annotations

import asyncio
import copy
import threading

import pytest

from cyclops_nb import (
    Agent,
    FileSessionStore,
    InMemorySessionStore,
    InputError,
    NotebookSessionStore,
    Session,
    SessionBusyError,
    SessionConflictError,
    SessionNotFoundError,
    TranscriptError,
    UserMessage,
    explore,
)
from cyclops_nb.testing import ScriptedServer, gate, reply, text, tool_call


def answer(request):
    """Answer any question by its words."""
    return text(f"About {request.messages[-1]['content']}")


def texts(session):
    """Return what is said in a session."""
    return [message.text for message in session.messages]


def stored(store, session):
    """Return what a store holds of a session."""
    return asyncio.run(store.load(session.id))


@pytest.fixture
def agent(ask):
    """An agent that answers any question."""
    return ask(answer)


@pytest.fixture
def session(agent):
    """A session of two turns."""
    session = Session("trip", title="Trip")
    agent.run("Oslo?", session=session)
    agent.run("Rome?", session=session)
    return session


class TestAsking:
    """Runs that are begun in the explorer."""

    def test_send_asks_in_the_current_branch(self, agent, session):
        """The question and the answer are in the session itself."""
        explorer = explore(session, agent)
        assert explorer.send("Bergen?").result().content == "About Bergen?"
        assert texts(session)[4:] == ["Bergen?", "About Bergen?"]
        assert explorer.session is session

    def test_an_edited_question_is_asked_at_once(self, agent, session):
        """A branch with the other question has its answer; the origin is as it was."""
        explorer = explore(session, agent)
        new = explorer.edit(2, "Venice?")
        assert explorer.wait(30)
        assert texts(new) == ["Oslo?", "About Oslo?", "Venice?", "About Venice?"]
        assert texts(session)[2:] == ["Rome?", "About Rome?"]
        assert new.messages[2].metadata["edited_from"] == session.messages[2].id

    def test_an_edited_answer_is_not_answered(self, agent, session):
        """There is nothing to ask after an answer."""
        explorer = explore(session, agent)
        assert texts(explorer.edit(1, "Take the boat.")) == ["Oslo?", "Take the boat."]
        assert not explorer.busy

    def test_retry_asks_the_same_again(self, agent, session):
        """The question is answered in a new branch, and not asked twice in the old one."""
        explorer = explore(session, agent)
        new = explorer.retry(3)
        explorer.wait(30)
        assert texts(new) == texts(session)
        assert new.messages[3].id != session.messages[3].id

    def test_stop_stops_the_run_of_the_branch_alone(self, ask):
        """Two branches run; one is stopped and valid, the other ends."""
        slow, other = gate(), gate()
        agent = ask(reply(text("Slowly "), slow, text("done.")), reply(text("Also "), other, text("done.")))
        explorer = explore(Session("a"), agent)
        explorer.send("first")
        slow.wait_reached(30)
        explorer.fork(-1)
        explorer.send("second")
        other.wait_reached(30)
        explorer.stop()
        explorer_runs_one = explorer.sessions[0].busy
        other.release()
        slow.release()
        assert explorer.wait(30)
        first, second = explorer.sessions
        assert explorer_runs_one
        assert (first.runs[-1].stop_reason, second.runs[-1].stop_reason) == ("completed", "cancelled")

    def test_stop_without_a_run_says_so(self, agent, session):
        """There is nothing to stop."""
        with pytest.raises(InputError, match="nothing to stop"):
            explore(session, agent).stop()

    def test_without_an_agent_nothing_is_asked(self, session):
        """What needs an agent says how to give one, and begins no branch; an edit does not need one."""
        explorer = explore(session)
        for asks in (lambda: explorer.send("Bergen?"), lambda: explorer.retry(0)):
            with pytest.raises(InputError, match=r"explore\(\.\.\., agent=agent\)"):
                asks()
        assert explorer.sessions == [session]
        assert texts(explorer.edit(2, "Venice?"))[2:] == ["Venice?"]

    def test_a_busy_branch_refuses_changes(self, ask):
        """While a run goes on it is not cut, renamed, deleted or asked; forking is allowed."""
        slow = gate()
        explorer = explore(Session("a"), ask(reply(text("Slowly "), slow, text("done."))))
        explorer.send("first")
        slow.wait_reached(30)
        assert explorer.busy
        for refused in (
            lambda: explorer.truncate(0),
            lambda: explorer.rename("x"),
            lambda: explorer.send("more"),
        ):
            with pytest.raises(SessionBusyError):
                refused()
        explorer.fork()
        with pytest.raises(SessionBusyError):
            explorer.delete("a")
        slow.release()
        assert explorer.wait(30)
        assert len(explorer.sessions) == 2

    def test_a_run_that_fails_leaves_the_branch_usable(self, ask, session):
        """After an error the branch is free, and the question stands in it."""
        explorer = explore(
            session, ask(lambda request: text("unused"), base_url="http://127.0.0.1:9/v1", max_retries=0)
        )
        assert explorer.send("Bergen?").result().stop_reason == "error"
        assert explorer.wait(30)
        assert not explorer.busy
        assert texts(session)[4:] == ["Bergen?"]


class TestBranches:
    """Going from branch to branch."""

    def test_what_code_does_is_there(self, agent, session):
        """A question that a cell asks is in the current branch, and a fork of a cell can be taken in."""
        explorer = explore(session, agent)
        agent.run("Bergen?", session=session)
        assert texts(explorer.session)[4:] == ["Bergen?", "About Bergen?"]
        other = session.fork(title="other")
        explorer.add(other)
        assert explorer.sessions == [session, other]
        assert explorer.switch(other) is other

    def test_wrong_places_are_named(self, agent, session):
        """An index that is not there, and a branch that is not there."""
        explorer = explore(session, agent)
        with pytest.raises(TranscriptError, match="no message 9"):
            explorer.fork(9)
        with pytest.raises(SessionNotFoundError, match="'nowhere'"):
            explorer.switch("nowhere")

    def test_several_sessions(self, agent):
        """Of several sessions the first is current, and code names them by their place."""
        some = [Session("a"), Session("b")]
        explorer = explore(some, agent)
        assert explorer.session is some[0]
        explorer.switch("b")
        assert explorer.code == "sessions[1]"

    @pytest.mark.parametrize("wrong", ["session", 3, None, [Session("a"), "b"], {"a": Session("a")}, []])
    def test_what_cannot_be_explored_is_refused(self, wrong):
        """The error says what explore takes, or that there is nothing."""
        with pytest.raises(InputError, match=r"explore takes a session|nothing to explore"):
            explore(wrong)

    def test_two_sessions_of_one_id_are_refused(self, session):
        """One of them would be left out; the same one twice is one."""
        with pytest.raises(InputError, match="two different sessions have the id 'trip'"):
            explore([session, copy.copy(session)])
        assert explore([session, session]).sessions == [session]

    def test_an_agent_must_be_one(self, session):
        """A function is no agent."""
        with pytest.raises(InputError, match="agent must be an Agent"):
            explore(session, print)

    @pytest.mark.parametrize("wrong", ["sessions", FileSessionStore, 5])
    def test_a_store_must_be_one(self, session, wrong):
        """A path or a class is no store, which shows before there is something to lose."""
        with pytest.raises(InputError, match="store must be a store such as"):
            explore(session, store=wrong)

    @pytest.mark.parametrize("wrong", ["1", 1.5, [], object(), b"x"])
    @pytest.mark.parametrize("method", ["fork", "truncate", "edit", "retry", "switch", "rename", "delete", "add"])
    def test_what_is_no_index_title_or_branch_is_told(self, agent, session, method, wrong):
        """Each method says what it was given in place of what, and nothing has changed."""
        if isinstance(wrong, str) and method in {"switch", "rename", "delete"}:
            wrong = 3
        explorer = explore(session, agent)
        before = session.model_dump_json()
        more = ["text"] if method == "edit" else []
        with pytest.raises(InputError, match=f"must be of type .* not {type(wrong).__name__}"):
            getattr(explorer, method)(wrong, *more)
        assert session.model_dump_json() == before
        assert explorer.sessions == [session]

    @pytest.mark.parametrize("wrong", [None, 1, b"x", ["x"]])
    def test_an_edited_text_must_be_one(self, agent, session, wrong):
        """Nothing is asked of what is no text."""
        explorer = explore(session, agent)
        with pytest.raises(InputError, match="the text of a message must be of type str"):
            explorer.edit(0, wrong)
        assert explorer.sessions == [session]


STORES = [InMemorySessionStore, FileSessionStore, NotebookSessionStore]


@pytest.mark.parametrize("kind", STORES)
class TestStores:
    """Branches that are kept."""

    @pytest.fixture
    def store(self, kind, tmp_path):
        """An empty store of each kind."""
        return kind() if kind is InMemorySessionStore else kind(tmp_path / "sessions")

    def test_each_branch_is_saved(self, agent, session, store):
        """What is asked, forked, edited, cut, kept, renamed is in the store as it is in memory; what is deleted is not."""
        explorer = explore(session, agent, store=store)
        explorer.send("Bergen?").result()
        explorer.wait(30)
        assert stored(store, session) == session
        explorer.fork(1)
        explorer.edit(0, "Trondheim?")
        explorer.wait(30)
        explorer.switch(session)
        explorer.truncate(2)
        explorer.rename("Journey")
        assert len(explorer.sessions) == 4
        assert [stored(store, each) for each in explorer.sessions] == explorer.sessions
        gone = explorer.sessions[1]
        explorer.delete(gone)
        assert stored(store, gone) is None

    def test_the_agents_own_store_is_used(self, agent, session, store):
        """Without another one, branches go where the agent saves its runs."""
        keeper = Agent(agent.config, session_store=store)
        explorer = explore(session, keeper)
        assert explorer.store is store
        new = explorer.retry(3)
        explorer.wait(30)
        assert stored(store, new) == new

    def test_a_store_can_be_explored(self, agent, session, store):
        """All that it lists is there; what is new is saved in it, and found again."""
        other = Session("other", title="Other")
        other.messages.append(UserMessage("Hello?"))
        for each in (session, other):
            asyncio.run(store.save(each))
        explorer = explore(store, agent)
        assert sorted(each.id for each in explorer.sessions) == ["other", "trip"]
        explorer.switch("trip")
        assert explorer.session == session
        new = explorer.fork(1)
        assert stored(store, new) == new
        assert explorer.code.startswith("session_")
        late = Session("late")
        asyncio.run(store.save(late))
        explorer.refresh()
        assert explorer.switch("late").id == "late"

    def test_what_another_program_has_stored_is_shown_by_refresh(self, agent, session, store):
        """It takes the place of what was loaded before, in the same object, and can be gone on from."""
        asyncio.run(store.save(session))
        explorer = explore(store, agent)
        mine = explorer.session
        other = asyncio.run(store.load("trip"))
        agent.run("Bergen?", session=other)
        other.title = "Norway"
        asyncio.run(store.save(other))
        explorer.refresh()
        assert explorer.sessions == [other]
        assert explorer.session is mine
        explorer.send("Voss?").result()
        explorer.wait(30)
        assert stored(store, mine) == mine

    def test_an_empty_store_is_refused(self, store):
        """There is nothing to explore."""
        with pytest.raises(InputError, match="nothing to explore"):
            explore(store)


@pytest.mark.parametrize("kind", [FileSessionStore, NotebookSessionStore])
def test_where_a_branch_and_its_file_have_parted_both_are_kept(agent, session, kind, tmp_path):
    """What was here becomes a branch that begins where they parted, and is stored beside the other one."""
    store, someone = kind(tmp_path), kind(tmp_path)
    asyncio.run(store.save(session))
    explorer = explore(store, agent)
    explorer.load()
    other = asyncio.run(someone.load("trip"))
    agent.run("Bergen?", session=other)
    asyncio.run(someone.save(other))
    with pytest.raises(SessionConflictError):
        explorer.truncate(2, keep=False)
    agent.run("Voss?", session=explorer.session)
    explorer.refresh()
    both = {each.id: each for each in explorer.sessions}
    assert texts(both.pop("trip")) == texts(other)
    ((name, mine),) = both.items()
    assert texts(mine) == [*texts(other)[:2], "Voss?", "About Voss?"]
    assert (mine.title, mine.parent.session_id, mine.parent.message_count) == ("Trip (2)", "trip", 2)
    assert asyncio.run(someone.load(name)) == mine
    explorer.rename("Norway")
    assert asyncio.run(someone.load("trip")).title == "Norway"


class Full(InMemorySessionStore):
    """A store that has no room for answers."""

    async def save(self, session):
        """Refuse a session that was answered."""
        if session.runs:
            raise OSError("no space left")
        await super().save(session)


def test_an_answer_that_cannot_be_saved_is_told(agent):
    """What the store raised is raised where the run is waited for, and the answer is in memory."""
    explorer = explore(Session("a"), agent, store=Full())
    explorer.send("Oslo?")
    with pytest.raises(OSError, match="no space left"):
        explorer.wait(30)
    assert texts(explorer.session) == ["Oslo?", "About Oslo?"]


class TestThreads:
    """Clicks come on any thread."""

    def test_many_at_once_lose_nothing(self, agent, session):
        """Eight threads fork and ask at once; each branch is there and valid."""
        explorer = explore(session, agent)

        def work():
            explorer.fork()
            explorer.edit(0, "Bergen?")

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert explorer.wait(60)
        assert len(explorer.sessions) == 17
        assert all(not each.busy for each in explorer.sessions)


def test_the_code_gives_the_branch():
    """Run by itself, the code of a branch that was edited and asked gives a conversation of the same texts."""
    with ScriptedServer(answer) as server:
        agent = Agent("m", base_url=server.base_url)
        explorer = explore(Session("a"), agent)
        explorer.send("Oslo?").result()
        explorer.edit(0, "Rome?")
        explorer.wait(30)
        explorer.send("Venice?").result()
        explorer.wait(30)
        names = {"agent": agent, "session": Session("b")}
        exec(explorer.code, names)  # noqa: S102 - it is what is tested
        assert texts(names["branch"]) == texts(explorer.session)


def test_calls_are_not_parted(ask):
    """Forking between a call and its result is refused by the method too."""

    def look_up(city: str) -> str:
        """Look up a city."""
        return city

    agent = ask(tool_call("look_up", {"city": "Oslo"}), text("done"), tools=[look_up])
    session = Session()
    agent.run("go", session=session)
    with pytest.raises(TranscriptError):
        explore(session, agent).fork(1)
