"""What the page about sessions says, sentence by sentence."""

import asyncio
import json
import threading

import pytest
from pydantic import BaseModel
from scenarios import FORMS, RecordingStore, agent_for, call, note, roles, shape, steps_script

from cyclops_nb import Agent, AgentConfig, ImagePart, Middleware, ModelError, Session, SessionBusyError, Usage
from cyclops_nb.stores import FileSessionStore, InMemorySessionStore, SessionStore
from cyclops_nb.testing import error, gate, reasoning, reply, text, tool_call, tool_calls
from cyclops_nb.threads import run_in_thread


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    """Give a store of each kind."""
    return InMemorySessionStore() if request.param == "memory" else FileSessionStore(tmp_path)


def remembers_names(request):
    """Answer as a model would that reads the whole conversation."""
    said = " ".join(str(message["content"]) for message in request.messages)
    if "What is my name?" in request.messages[-1]["content"]:
        return text("Your name is Alice." if "Alice" in said else "I do not know.", usage=(20, 5))
    return text("Hello!", usage=(10, 2))


class TestSession:
    def test_holds_one_conversation(self, ask):
        """A session has its transcript, its id, and the usage and cost of every run in it."""
        agent = ask(*steps_script(2), text("again", usage=(7, 3)), tools=[note], prices={"input": 1, "output": 1})
        session = Session()
        agent.run("go", session=session)
        agent.run("more", session=session)
        assert shape(session) == "uataua"
        assert isinstance(session.id, str)
        assert session.usage.requests == 3
        assert session.cost == pytest.approx(session.usage.total_tokens / 1e6)
        assert session.usage == session.runs[0].usage + session.runs[1].usage

    def test_holds_reasoning(self, ask):
        """Reasoning blocks are part of the transcript."""
        session = Session()
        ask(reply(reasoning("I think."), text("Yes."))).run("?", session=session)
        assert session.messages[1].reasoning == "I think."
        assert session.messages[1].text == "Yes."

    def test_the_first_example(self, serve):
        """The page's first example works as it stands: the second run knows what the first was told."""
        server = serve(remembers_names)
        agent = Agent(AgentConfig(model="gpt-4o-mini", base_url=server.base_url))
        session = Session()
        agent.run("My name is Alice.", session=session)
        assert agent.run("What is my name?", session=session) == "Your name is Alice."
        assert (session.id, len(session.messages)) == (session.id, 4)
        assert session.usage == Usage(2, 30, 7)

    def test_a_run_reads_and_extends_the_transcript(self, ask):
        """The request holds what stands in the session, and the answer comes after it."""
        agent = ask(text("one"), text("two"))
        session = Session()
        agent.run("first", session=session)
        agent.run("second", session=session)
        sent = [(message["role"], message["content"]) for message in agent.server.completions[1].messages]
        assert sent == [("user", "first"), ("assistant", "one"), ("user", "second")]
        assert [text for _, text in roles(session)] == ["first", "one", "second", "two"]

    def test_one_agent_serves_many_conversations_at_the_same_time(self, serve):
        """Runs of one agent on several sessions go on side by side and do not mix."""
        doors = {str(n): gate() for n in range(4)}

        def answer(request):
            asked = request.messages[-1]["content"]
            return reply(doors[asked], text(f"answer {asked}"))

        agent = agent_for(serve(answer))
        sessions = {n: Session() for n in doors}
        handles = [agent.start(n, session=session) for n, session in sessions.items()]
        for door in doors.values():
            door.wait_reached()
        for door in reversed(doors.values()):
            door.release()
        for handle in handles:
            handle.result()
        assert {n: [text for _, text in roles(s)] for n, s in sessions.items()} == {
            n: [n, f"answer {n}"] for n in doors
        }

    def test_a_run_without_a_session_starts_from_nothing_and_keeps_nothing(self, serve):
        """Without a session the second run does not know the first."""
        agent = agent_for(serve(remembers_names))
        agent.run("My name is Alice.")
        assert agent.run("What is my name?") == "I do not know."

    @pytest.mark.parametrize("form", FORMS)
    def test_every_entry_point_takes_a_session(self, serve, form):
        """Each of the nine forms reads and extends the session it is given."""
        agent = agent_for(serve(remembers_names))
        session = Session()
        call(agent, form, "My name is Alice.", session=session)
        assert call(agent, form, "What is my name?", session=session) == "Your name is Alice."
        assert shape(session) == "uaua"


class TestUsage:
    def test_sums_every_run(self, ask):
        """The usage of a session is the sum of its runs'."""
        agent = ask(text("a", usage=(10, 1)), text("b", usage=(20, 2)))
        session = Session()
        for question in "xy":
            agent.run(question, session=session)
        assert session.usage == Usage(2, 30, 3)

    def test_a_run_that_fails_counts(self, ask):
        """What a failed run consumed in its completed steps is in the sum."""
        agent = ask(
            tool_call("note", {"n": 1}, usage=(10, 1)), error(400, "no"), text("b", usage=(20, 2)), tools=[note]
        )
        session = Session()
        with pytest.raises(ModelError):
            agent.run("x", session=session)
        assert session.usage == Usage(1, 10, 1)
        agent.run("y", session=session)
        assert session.usage == Usage(2, 30, 3)

    def test_a_run_that_is_cancelled_counts(self, ask):
        """What a run consumed before `handle.cancel()` stopped it is in the sum."""
        door = gate()
        agent = ask(tool_call("note", {"n": 1}, usage=(10, 1)), reply(text("b"), door), tools=[note])
        session = Session()
        handle = agent.start("x", session=session)
        door.wait_reached()
        handle.cancel()
        assert handle.result().usage == session.usage == Usage(1, 10, 1)

    def test_is_none_once_a_run_reports_none(self, ask):
        """Like a run's own usage it becomes None with the first run that reports none, and stays so."""
        agent = ask(text("a", usage=(10, 1)), text("b", usage=None), text("c", usage=(1, 1)))
        session = Session()
        seen = []
        for question in "xyz":
            seen.append((agent.run_with_response(question, session=session).usage, session.usage))
        assert seen == [(Usage(1, 10, 1), Usage(1, 10, 1)), (None, None), (Usage(1, 1, 1), None)]


class TestRunsThatStop:
    """A run that fails or is cancelled leaves what it got to."""

    def test_a_failed_run_leaves_user_message_and_steps(self, ask):
        """After an error at the second completion the question and the first step stand in the transcript."""
        agent = ask(tool_call("note", {"n": 1}), error(500, "down"), text("fine"), tools=[note])
        session = Session()
        with pytest.raises(ModelError, match="down"):
            agent.run("go", session=session)
        assert roles(session) == [("user", "go"), ("assistant", ""), ("tool", "noted 1", "ok")]
        assert agent.run("go on", session=session) == "fine"

    def test_every_call_has_an_answer_after_a_cancel(self, ask):
        """A call that was cancelled gets a cancelled result, and the session can go on."""
        running, hold = threading.Event(), threading.Event()

        def slow() -> str:
            running.set()
            hold.wait(20)
            return "late"

        agent = ask(tool_calls(tool_call("note", {"n": 1}), tool_call("slow")), text("fine"), tools=[note, slow])
        session = Session()
        handle = agent.start("go", session=session)
        events = handle.events()

        async def first_result():
            async for event in events:
                if event.type == "tool_result":
                    await events.aclose()
                    return

        asyncio.run(first_result())
        running.wait(20)
        handle.cancel()
        assert handle.result().stop_reason == "cancelled"
        assert [message.status for message in session.messages[2:]] == ["ok", "cancelled"]
        hold.set()
        assert agent.run("go on", session=session) == "fine"

    def test_a_call_whose_middleware_raised_has_an_error(self, ask):
        """Its result is the error, and the session can go on."""

        class Forbids(Middleware):
            async def wrap_tool_call(self, call, call_next):
                raise PermissionError("not here")

        agent = ask(tool_call("note", {"n": 1}), text("fine"), tools=[note], middleware=[Forbids()])
        session = Session()
        with pytest.raises(PermissionError, match="not here"):
            agent.run("go", session=session)
        assert roles(session)[2] == ("tool", "PermissionError: not here", "error")
        assert agent.run("go on", session=session) == "fine"

    def test_a_completion_in_progress_leaves_nothing(self, ask):
        """Text and half a tool call that had come when the run stopped are not in the transcript."""
        door = gate()
        agent = ask(reply(text("I will "), tool_call("note", '{"n": 1'), door), text("fine"), tools=[note])
        session = Session()
        handle = agent.start("go", session=session)
        door.wait_reached()
        handle.cancel()
        handle.result()
        assert roles(session) == [("user", "go")]
        assert agent.run("go on", session=session) == "fine"

    def test_the_same_session_is_not_run_twice_at_once(self, ask):
        """A second run on a session that is in a run is refused at once, and the first one is unharmed."""
        door = gate()
        agent = ask(reply(door, text("first")))
        session = Session()
        handle = agent.start("go", session=session)
        with pytest.raises(SessionBusyError):
            agent.run("me too", session=session)
        door.release()
        assert handle.result().content == "first"
        assert [text for _, text in roles(session)] == ["go", "first"]


class TestFormat:
    def test_is_a_pydantic_model_with_a_stable_json_format(self, ask):
        """A session comes back from its JSON, which carries version 1, and goes on."""
        agent = ask(*steps_script(2), text("more"), tools=[note])
        session = Session()
        agent.run("go", session=session)
        data = session.model_dump_json()
        loaded = Session.model_validate_json(data)
        assert isinstance(session, BaseModel)
        assert json.loads(data)["version"] == 1
        assert loaded == session
        assert agent.run("and", session=loaded) == "more"
        assert len(agent.server.completions[-1].messages) == 5


class TestStore:
    def test_the_four_methods(self):
        """A store has load, which gives None for what it does not have, save, add_messages and delete, all async."""
        for name in ("load", "save", "add_messages", "delete"):
            assert asyncio.iscoroutinefunction(getattr(InMemorySessionStore, name))
            assert asyncio.iscoroutinefunction(getattr(FileSessionStore, name))
        assert asyncio.run(InMemorySessionStore().load("nobody")) is None

    def test_a_file_store_writes_one_file_per_session(self, ask, tmp_path):
        """The saved session is the first line of <id>.jsonl, then comes one line per add_messages."""
        agent = ask(*steps_script(3), tools=[note], session_store=FileSessionStore(tmp_path), durability="sync")
        agent.run("go", session=Session("study"))
        (path,) = tmp_path.iterdir()
        assert path.name == "study.jsonl"
        assert len(path.read_text().splitlines()) == 3

    def test_images_are_saved_as_they_were_sent(self, ask, tmp_path):
        """The base64 data of an image stands in the stored session as it was sent."""
        data = "iVBORw0KGgo="
        agent = ask(text("nice"), session_store=FileSessionStore(tmp_path))
        agent.run(["look", ImagePart(data, media_type="image/png")], session=Session("s"))
        assert data in (tmp_path / "s.jsonl").read_text()
        assert data in json.dumps(agent.server.completions[0].messages)

    def test_the_first_reply_example(self, serve, tmp_path):
        """A session is loaded, or made, run and saved by hand; the next reply knows the last."""
        agent = agent_for(serve(remembers_names))
        store = FileSessionStore(tmp_path)

        async def answer(user_id: str, message: str) -> str:
            session = await store.load(user_id) or Session(id=user_id)
            answer = await agent.arun(message, session=session)
            await store.save(session)
            return answer

        asyncio.run(answer("u1", "My name is Alice."))
        assert asyncio.run(answer("u1", "What is my name?")) == "Your name is Alice."
        assert asyncio.run(answer("u2", "What is my name?")) == "I do not know."

    def test_the_second_reply_example(self, serve, tmp_path):
        """With a store given to the agent only load is left: a reply in another process knows the last."""

        def new_process():
            store = FileSessionStore(tmp_path)
            agent = agent_for(serve(remembers_names), session_store=store)

            async def reply(user_id: str, message: str) -> str:
                session = await store.load(user_id) or Session(id=user_id)
                return await agent.arun(message, session=session)

            return reply

        asyncio.run(new_process()("alice", "My name is Alice."))
        assert asyncio.run(new_process()("alice", "What is my name?")) == "Your name is Alice."
        assert asyncio.run(new_process()("bob", "What is my name?")) == "I do not know."

    def test_save_replaces_and_add_messages_adds(self, ask, store):
        """Save replaces the stored session; add_messages adds to its end and stores its usage."""
        session = Session("s")
        ask(text("one", usage=(5, 1))).run("first", session=session)
        asyncio.run(store.save(session))
        session.truncate(0)
        asyncio.run(store.save(session))
        assert asyncio.run(store.load("s")).messages == []
        ask(text("two", usage=(7, 1))).run("second", session=session)
        asyncio.run(store.add_messages(session, session.messages))
        stored = asyncio.run(store.load("s"))
        assert roles(stored) == [("user", "second"), ("assistant", "two")]
        assert stored.usage == session.usage == Usage(2, 12, 2)

    def test_delete_removes(self, store):
        """A deleted session is not there any more; an unknown one is deleted without a word."""
        asyncio.run(store.save(Session("s")))
        asyncio.run(store.delete("s"))
        asyncio.run(store.delete("s"))
        assert asyncio.run(store.load("s")) is None

    def test_a_memory_store_keeps_sessions_in_the_process(self):
        """Another store object does not have them."""
        store = InMemorySessionStore()
        asyncio.run(store.save(Session("s")))
        assert asyncio.run(store.load("s")).id == "s"
        assert asyncio.run(InMemorySessionStore().load("s")) is None

    @pytest.mark.parametrize("session_id", ["../x", "a/b", "a b", "ä", "", "."])
    def test_ids_of_files_are_letters_digits_and_two_signs(self, tmp_path, session_id):
        """Ids must be letters, digits, _ or -."""
        store = FileSessionStore(tmp_path)
        with pytest.raises(ValueError, match="id"):
            asyncio.run(store.load(session_id))
        asyncio.run(store.save(Session("User_7-b")))
        assert [path.name for path in tmp_path.iterdir()] == ["User_7-b.jsonl"]

    def test_any_class_with_the_four_methods_is_a_store(self, ask):
        """There is nothing to inherit from."""
        store = RecordingStore()
        assert isinstance(store, SessionStore)
        session = Session("s")
        ask(text("yes"), session_store=store).run("go", session=session)
        assert store.stored("s").messages == session.messages

    def test_every_run_with_a_session_is_saved(self, serve):
        """With a store given to the agent nothing but load is left to do by hand."""
        agent = agent_for(serve(remembers_names), session_store=(store := InMemorySessionStore()))

        async def answer(user_id: str, message: str) -> str:
            session = await store.load(user_id) or Session(id=user_id)
            return await agent.arun(message, session=session)

        asyncio.run(answer("u1", "My name is Alice."))
        assert asyncio.run(answer("u1", "What is my name?")) == "Your name is Alice."
        assert shape(asyncio.run(store.load("u1"))) == "uaua"

    def test_a_run_without_a_session_is_not_saved(self, ask):
        """There is nothing to save it under."""
        store = RecordingStore()
        ask(text("yes"), session_store=store).run("go")
        assert store.calls == []


class TestDurability:
    """The details are tested beside the engine; here is what the page says of each word."""

    def test_the_default_is_async(self, ask):
        """Each step is saved while the next one runs: the second completion is asked for before the save is over."""
        door, second = threading.Event(), gate()

        class SlowStore(RecordingStore):
            async def before(self, number):
                await run_in_thread(door.wait, 20)

        store = SlowStore()
        agent = ask(tool_call("note", {"n": 1}), reply(second, text("done")), tools=[note], session_store=store)
        handle = agent.start("go", session=Session("s"))
        second.wait_reached()
        assert store.calls == [("save", 3)]
        second.release()
        door.set()
        handle.result()
        assert store.calls == [("save", 3), ("add", 1)]

    def test_sync_saves_before_the_next_step(self, serve):
        """When the second completion is asked for, the first step is stored."""
        store = RecordingStore()
        seen = []

        def answer(request):
            seen.append(list(store.calls))
            return tool_call("note", {"n": 1}) if len(seen) == 1 else text("done")

        agent = agent_for(serve(answer), [note], session_store=store, durability="sync")
        agent.run("go", session=Session("s"))
        assert seen == [[], [("save", 3)]]
        assert store.calls == [("save", 3), ("add", 1)]

    def test_exit_saves_once(self, ask):
        """Nothing is saved before the run ends."""
        store = RecordingStore()
        agent = ask(*steps_script(3), tools=[note], session_store=store, durability="exit")
        agent.run("go", session=Session("s"))
        assert store.calls == [("save", 6)]

    @pytest.mark.parametrize("durability", ["async", "sync", "exit"])
    @pytest.mark.parametrize("ending", ["fails", "is cancelled"])
    def test_a_run_saves_however_it_ends(self, ask, durability, ending):
        """Also a run that fails or is cancelled is stored with all that it got to."""
        door, store = gate(), RecordingStore()
        second = error(400, "no") if ending == "fails" else reply(text("half"), door)
        agent = ask(tool_call("note", {"n": 1}), second, tools=[note], session_store=store, durability=durability)
        session = Session("s")
        handle = agent.start("go", session=session)
        if ending == "is cancelled":
            door.wait_reached()
            handle.cancel()
        handle.result()
        assert store.stored("s") == session
        assert shape(session) == "uat"

    def test_the_first_save_of_each_run_stores_the_whole_session(self, ask):
        """The session may have changed since the store last saw it, so each run begins with save."""
        store = RecordingStore()
        agent = ask(text("a"), text("b"), session_store=store)
        session = Session("s")
        agent.run("x", session=session)
        session.truncate(0)
        agent.run("y", session=session)
        assert store.calls == [("save", 2), ("save", 2)]
        assert store.stored("s").messages == session.messages

    def test_a_save_that_fails_fails_the_run(self, ask):
        """stop_reason is "error", error is what the store raised, arun raises it, and memory has everything."""
        failure = OSError("disk full")
        store = RecordingStore(fail=lambda number: failure if number == 1 else None)
        agent = ask(text("a"), text("b"), session_store=store)
        session = Session("s")
        response = agent.run_with_response("x", session=session)
        assert (response.stop_reason, response.error) == ("error", failure)
        assert shape(session) == "ua"
        assert agent.run("y", session=session) == "b"
        assert store.stored("s") == session

    def test_arun_raises_what_the_store_raised(self, ask):
        """The error of a failed save comes out of arun as it is."""
        store = RecordingStore(fail=lambda number: OSError("disk full"))
        agent = ask(text("a"), session_store=store)
        with pytest.raises(OSError, match="disk full"):
            asyncio.run(agent.arun("x", session=Session("s")))

    def test_what_could_not_be_saved_is_stored_by_the_next_run_or_by_hand(self, ask):
        """The session in memory still has the whole transcript."""
        store = RecordingStore(fail=lambda number: OSError("disk full") if number == 1 else None)
        agent = ask(text("one"), text("two"), session_store=store)
        session = Session("s")
        with pytest.raises(OSError, match="disk full"):
            agent.run("first", session=session)
        asyncio.run(store.save(session))
        assert roles(store.stored("s")) == [("user", "first"), ("assistant", "one")]
        agent.run("second", session=session)
        assert shape(store.stored("s")) == "uaua"

    def test_with_async_the_error_comes_with_the_next_save(self, ask):
        """The save of the first step fails while the second step runs, and ends the run after it."""
        store = RecordingStore(fail=lambda number: OSError("disk full") if number == 1 else None)
        agent = ask(*steps_script(3), tools=[note], session_store=store)
        session = Session("s")
        response = agent.run_with_response("go", session=session)
        assert (response.stop_reason, str(response.error)) == ("error", "disk full")
        assert shape(session) == "uatat"
        assert store.stored("s") == session


class TestForkAndTruncate:
    def test_a_fork_goes_on_independently(self, ask):
        """The copy has a new id, and what happens to one of the two does not happen to the other."""
        agent = ask(text("long"), text("short"), text("longer"))
        session = Session()
        agent.run("Write.", session=session)
        draft = session.fork()
        agent.run("Make it shorter.", session=draft)
        agent.run("Make it longer.", session=session)
        assert draft.id != session.id
        assert [text for _, text in roles(draft)] == ["Write.", "long", "Make it shorter.", "short"]
        assert [text for _, text in roles(session)] == ["Write.", "long", "Make it longer.", "longer"]

    def test_truncate_and_ask_differently(self, ask):
        """The last question and its answer are dropped, and the new question comes after what is left."""
        agent = ask(text("a"), text("b"), text("c"))
        session = Session()
        agent.run("one", session=session)
        agent.run("two", session=session)
        session.truncate(-2)
        agent.run("Ask it differently.", session=session)
        assert [text for _, text in roles(session)] == ["one", "a", "Ask it differently.", "c"]
        assert session.usage.requests == 3

    @pytest.mark.parametrize("index", [2, 3, -2, -3])
    def test_an_index_between_call_and_results_is_refused(self, ask, index):
        """Keeping a tool call without all its results raises ValueError and changes nothing."""
        agent = ask(tool_calls(tool_call("note", {"n": 1}), tool_call("note", {"n": 2})), text("done"), tools=[note])
        session = Session()
        agent.run("go", session=session)
        with pytest.raises(ValueError, match="before the assistant message"):
            session.truncate(index)
        assert shape(session) == "uatta"

    def test_both_change_memory_only(self, ask):
        """The store has the cut only after the next run."""
        store = RecordingStore()
        agent = ask(text("a"), text("b"), session_store=store)
        session = Session("s")
        agent.run("x", session=session)
        session.truncate(0)
        session.fork()
        assert shape(store.stored("s")) == "ua"
        agent.run("y", session=session)
        assert [text for _, text in roles(store.stored("s"))] == ["y", "b"]


class TestGone:
    @pytest.mark.parametrize("name", ["Memory", "InMemoryStorage", "FileStorage"])
    def test_key_value_stores_are_gone(self, name):
        """What earlier versions shipped under these names is not there."""
        import cyclops_nb

        assert not hasattr(cyclops_nb, name)


class TestCompaction:
    """A long session eventually outgrows the model's context window."""

    @pytest.mark.parametrize("form", FORMS)
    def test_a_run_replaces_older_messages_near_the_limit(self, ask, form):
        """With compaction set, once a request nears the model's input limit."""
        script = [
            text("word " * 300, usage=(300, 300)),
            text("word " * 300, usage=(900, 300)),
            text("So far."),
            text("ok"),
        ]
        agent = ask(*script, compaction=True, input_limit=1000)
        session = Session()
        for question in ("one", "two", "three"):
            call(agent, form, question, session=session)
        assert shape(session) == "suaua"
        assert session.messages[0].text == "So far."

    @pytest.mark.parametrize("form", ["compact", "acompact"])
    def test_on_demand(self, ask, form):
        """For example before saving; the summary is a message, so a saved session stays compacted."""
        agent = ask(*(text(f"answer {n}") for n in range(4)), text("So far."))
        session = Session()
        for n in range(4):
            agent.run(f"question {n}", session=session)
        if form == "compact":
            agent.compact(session)
        else:
            asyncio.run(agent.acompact(session))
        store = InMemorySessionStore()
        asyncio.run(store.save(session))
        loaded = asyncio.run(store.load(session.id))
        assert shape(loaded) == "suaua"
        assert loaded == session
