"""When a run saves, what it passes to the store, and what becomes of a store's errors."""

import asyncio
import threading

import pytest
from scenarios import FORMS, RecordingStore, agent_for, begin, call, note, shape, steps_script

from cyclops_nb import Agent, ConfigError, Middleware, ModelError, Session, UserMessage
from cyclops_nb.stores import FileSessionStore, InMemorySessionStore
from cyclops_nb.testing import error, gate, reply, text, tool_call
from cyclops_nb.threads import run_in_thread

MODES = ("async", "sync", "exit")


class GatedStore(RecordingStore):
    """A store whose calls wait until they are let through."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.entered = threading.Semaphore(0)
        self.doors = threading.Semaphore(0)

    async def before(self, number):
        self.entered.release()
        await run_in_thread(self.doors.acquire, timeout=20)

    def wait_entered(self):
        assert self.entered.acquire(timeout=20)

    def open(self, times=1):
        self.doors.release(times)


def failing_at(*numbers):
    """Return what lets the store's calls of these numbers fail, each with an error of its own."""
    return lambda number: OSError(f"failure {number}") if number in numbers else None


class TestGoodRuns:
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("count", [1, 2, 3, 4])
    def test_numbers_of_calls(self, ask, mode, count):
        """A run of N steps makes N store calls, save first, then only what is new; with "exit" it makes one."""
        store = RecordingStore()
        agent = ask(*steps_script(count), tools=[note], session_store=store, durability=mode)
        session = Session("s")
        agent.run("go", session=session)
        first = 3 if count > 1 else 2
        each = [("save", first), *[("add", 2)] * (count - 2), ("add", 1)][:count]
        assert store.calls == ([("save", 2 * count)] if mode == "exit" else each)
        assert store.stored("s") == session
        assert store.overlaps == 0

    @pytest.mark.parametrize("form", FORMS)
    def test_all_forms_save(self, ask, form):
        """Whichever way a run was begun, it is stored when the form has given its answer."""
        store = RecordingStore()
        agent = ask(*steps_script(2), tools=[note], session_store=store)
        session = Session("s")
        call(agent, form, "go", session=session)
        assert store.calls == [("save", 3), ("add", 1)]
        assert store.stored("s") == session

    @pytest.mark.parametrize("mode", MODES)
    def test_each_run_begins_with_save(self, ask, mode):
        """The store gets the whole session with the first save of each run."""
        store = RecordingStore()
        agent = ask(*steps_script(2), *steps_script(2), tools=[note], session_store=store, durability=mode)
        session = Session("s")
        agent.run("go", session=session)
        agent.run("on", session=session)
        expected = [("save", 4), ("save", 8)] if mode == "exit" else [("save", 3), ("add", 1), ("save", 7), ("add", 1)]
        assert store.calls == expected

    @pytest.mark.parametrize("mode", MODES)
    def test_no_session_or_no_store_saves_nothing(self, ask, mode):
        """Without a session there is no store call, and without a store nothing is missed."""
        store = RecordingStore()
        agent = ask(*steps_script(3), *steps_script(3), tools=[note], session_store=store, durability=mode)
        assert agent.run("go") == "done"
        assert store.calls == []
        session = Session()
        other = ask(*steps_script(3), tools=[note], durability=mode)
        assert other.run("go", session=session) == "done"
        assert shape(session) == "uatata"

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("kind", ["memory", "file"])
    def test_with_the_stores_of_the_library(self, ask, mode, kind, tmp_path):
        """What is loaded is equal to what is in memory, run record and all."""
        store = InMemorySessionStore() if kind == "memory" else FileSessionStore(tmp_path)
        agent = ask(*steps_script(3), text("more"), tools=[note], session_store=store, durability=mode)
        session = Session("s")
        agent.run("go", session=session)
        agent.run("on", session=session)
        assert agent.open("s") == session

    def test_what_is_saved_before_the_end(self, ask):
        """A step's save has the run's record as it stood then: in progress, with the usage so far."""
        store = RecordingStore()
        agent = ask(*steps_script(2), tools=[note], session_store=store)
        agent.run("go", session=Session("s"))
        first, last = (snapshot.runs[0] for snapshot in store.snapshots)
        assert (first.stop_reason, first.steps, first.usage.requests) == (None, 1, 1)
        assert (last.stop_reason, last.steps, last.usage.requests) == ("completed", 2, 2)


class TestEndings:
    @pytest.mark.parametrize(
        ("mode", "calls"), [("async", [("save", 3), ("add", 2), ("add", 0)]), ("exit", [("save", 5)])]
    )
    def test_a_model_error_after_two_steps(self, ask, mode, calls):
        """The end is always saved, with no messages if only the run's record is new."""
        store = RecordingStore()
        script = [*steps_script(3)[:2], error(400, "no")]
        agent = ask(*script, tools=[note], session_store=store, durability=mode)
        session = Session("s")
        with pytest.raises(ModelError):
            agent.run("go", session=session)
        assert store.calls == calls
        assert store.stored("s") == session
        assert store.stored("s").runs[0].stop_reason == "error"

    @pytest.mark.parametrize("mode", MODES)
    def test_a_model_error_at_the_first_step(self, ask, mode):
        """Nothing was saved before, so the end is a save of the whole: the question is kept."""
        store = RecordingStore()
        with pytest.raises(ModelError):
            ask(error(400, "no"), session_store=store, durability=mode).run("go", session=Session("s"))
        assert store.calls == [("save", 1)]

    @pytest.mark.parametrize("mode", MODES)
    def test_max_iterations(self, ask, mode):
        """A run that used up its steps is stored with the answers to all its calls."""
        store = RecordingStore()
        agent = ask(*steps_script(5), tools=[note], session_store=store, durability=mode, max_iterations=2)
        session = Session("s")
        agent.run_with_response("go", session=session)
        assert store.calls == ([("save", 5)] if mode == "exit" else [("save", 3), ("add", 2)])
        assert store.stored("s").runs[0].stop_reason == "max_iterations"

    @pytest.mark.parametrize("mode", MODES)
    def test_a_tool_that_ends_the_run(self, ask, mode):
        """With on_tool_error="raise" the step with its error result is stored."""

        def fails() -> str:
            raise ValueError("no")

        store = RecordingStore()
        agent = ask(tool_call("fails"), tools=[fails], session_store=store, durability=mode, on_tool_error="raise")
        with pytest.raises(ValueError, match="no"):
            agent.run("go", session=Session("s"))
        assert store.calls == [("save", 3)]
        assert shape(store.stored("s")) == "uae"

    @pytest.mark.parametrize("mode", MODES)
    def test_a_cancelled_run(self, ask, mode):
        """What a cancelled run got to is stored before the handle is done."""
        door, store = gate(), RecordingStore()
        agent = ask(tool_call("note", {"n": 1}), reply(door), tools=[note], session_store=store, durability=mode)
        session = Session("s")
        handle = agent.start("go", session=session)
        door.wait_reached()
        handle.cancel()
        handle.result()
        assert store.calls == ([("save", 3)] if mode == "exit" else [("save", 3), ("add", 0)])
        assert store.stored("s").runs[0].stop_reason == "cancelled"

    def test_a_refused_run_saves_nothing(self, ask):
        """Bad input is no run."""
        store = RecordingStore()
        with pytest.raises(ValueError):
            ask(text("x"), session_store=store).run("", session=Session("s"))
        assert store.calls == []


class TestSnapshots:
    def test_a_store_gets_a_snapshot_and_never_the_live_session(self, ask):
        """What a store was given does not change any more, and cannot change the run's session."""
        store = RecordingStore()
        agent = ask(*steps_script(3), tools=[note], session_store=store)
        session = Session("s", metadata={"a": [1]})
        agent.run("go", session=session)
        assert [len(snapshot.messages) for snapshot in store.snapshots] == [3, 5, 6]
        for snapshot in store.snapshots:
            assert snapshot is not session
            assert snapshot.messages is not session.messages
            assert snapshot.runs is not session.runs
            assert snapshot.metadata["a"] is not session.metadata["a"]
            assert not snapshot.busy

    def test_the_snapshot_is_taken_when_the_step_ended(self, ask):
        """A save that begins late still stores the step it belongs to, and not what came after."""
        store, second = GatedStore(), gate()
        agent = ask(tool_call("note", {"n": 1}), reply(second, text("done")), tools=[note], session_store=store)
        session = Session("s")
        handle = agent.start("go", session=session)
        store.wait_entered()
        second.wait_reached()
        session.metadata["later"] = True
        second.release()
        store.open(2)
        handle.result()
        assert [len(snapshot.messages) for snapshot in store.snapshots] == [3, 4]
        assert ["later" in snapshot.metadata for snapshot in store.snapshots] == [False, True]


class TestOrder:
    def test_async_saves_while_the_next_step_runs(self, ask):
        """The second completion is asked for while the first step's save is under way."""
        store, second = GatedStore(), gate()
        agent = ask(tool_call("note", {"n": 1}), reply(second, text("done")), tools=[note], session_store=store)
        handle = agent.start("go", session=Session("s"))
        store.wait_entered()
        second.wait_reached()
        assert store.active == 1
        second.release()
        store.open(2)
        assert handle.result().content == "done"
        assert (store.calls, store.overlaps) == ([("save", 3), ("add", 1)], 0)

    def test_sync_waits_for_the_save(self, ask):
        """The second completion is not asked for before the first step is stored."""
        store = GatedStore()
        agent = ask(*steps_script(2), tools=[note], session_store=store, durability="sync")
        handle = agent.start("go", session=Session("s"))
        store.wait_entered()
        agent.server.wait_idle()
        assert len(agent.server.completions) == 1
        store.open(2)
        assert handle.result().content == "done"
        assert len(agent.server.completions) == 2

    def test_a_slow_save_holds_back_the_next_one(self, ask):
        """With "async" a step's save waits for that of the step before: calls never overlap, and none is left out."""
        store = GatedStore()
        agent = ask(*steps_script(4), tools=[note], session_store=store)
        handle = agent.start("go", session=Session("s"))
        for _ in range(4):
            store.wait_entered()
            assert store.active == 1
            store.open()
        handle.result()
        assert (store.calls, store.overlaps) == ([("save", 3), ("add", 2), ("add", 2), ("add", 1)], 0)

    def test_the_form_returns_when_the_end_is_saved(self, ask):
        """A run is over when its last save is."""
        store = GatedStore()
        handle = ask(text("done"), session_store=store).start("go", session=(session := Session("s")))
        store.wait_entered()
        assert not handle.done
        assert session.busy
        store.open()
        handle.result()
        assert handle.done
        assert not session.busy

    def test_run_finished_comes_after_the_last_save(self, ask):
        """Whoever reads RunFinished can load the session."""
        store = RecordingStore()
        agent = ask(text("done"), session_store=store)
        stored = [
            store.stored("s").runs[0].stop_reason
            for event in agent.stream_events("go", session=Session("s"))
            if event.type == "run_finished"
        ]
        assert stored == ["completed"]


class TestCancelWhileSaving:
    def test_the_last_save_is_not_cut_by_a_cancel(self, ask):
        """A cancel that comes during the last save waits for it; what was completed stays completed."""
        store = GatedStore()
        session = Session("s")
        handle = ask(text("done"), session_store=store).start("go", session=session)
        store.wait_entered()
        handle.cancel()
        store.open()
        response = handle.result()
        assert (response.stop_reason, response.error, response.content) == ("completed", None, "done")
        assert store.stored("s") == session
        assert session.runs[0].stop_reason == "completed"

    def test_a_cancel_of_arun_during_the_last_save_is_passed_on(self, ask):
        """The task's cancel is not lost, and the session is stored."""
        store = GatedStore()
        agent = ask(text("done"), session_store=store)
        session = Session("s")

        async def main():
            task = asyncio.create_task(agent.arun("go", session=session))
            await run_in_thread(store.wait_entered)
            task.cancel()
            store.open()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert store.stored("s") == session
        assert session.runs[0].stop_reason == "completed"

    def test_the_save_of_a_cancelled_run_is_not_cut_by_a_second_cancel(self, ask):
        """Cancelling again and again does not tear the last save."""
        store, door = GatedStore(), gate()
        agent = ask(reply(door), session_store=store)
        session = Session("s")

        async def main():
            task = asyncio.create_task(agent.arun("go", session=session))
            await door.reached()
            task.cancel()
            await run_in_thread(store.wait_entered)
            for _ in range(3):
                task.cancel()
                await asyncio.sleep(0)
            store.open()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert store.calls == [("save", 1)]
        assert store.stored("s") == session

    def test_a_cancel_during_a_steps_save(self, ask):
        """With "sync" the save under way ends, then the end is saved too, after it."""
        store = GatedStore()
        agent = ask(*steps_script(2), tools=[note], session_store=store, durability="sync")
        session = Session("s")
        handle = agent.start("go", session=session)
        store.wait_entered()
        handle.cancel()
        store.open(2)
        response = handle.result()
        assert response.stop_reason == "cancelled"
        assert store.overlaps == 0
        assert store.stored("s") == session
        assert shape(session) == "uat"

    def test_a_cancel_while_a_slow_save_holds_the_run_back(self, ask):
        """With "async" a cancel that comes while a step waits for the save before it is not lost."""
        store, third = GatedStore(), gate()
        agent = ask(*steps_script(3)[:2], reply(third), tools=[note], session_store=store)
        session = Session("s")
        handle = agent.start("go", session=session)

        async def second_step():
            async for event in handle.events():
                if (event.type, event.step) == ("step_finished", 2):
                    return

        asyncio.run(second_step())
        store.wait_entered()
        handle.cancel()
        store.open(2)
        assert handle.result().stop_reason == "cancelled"
        assert len(agent.server.completions) == 2
        assert store.calls == [("save", 3), ("add", 2)]
        assert store.stored("s") == session

    def test_leaving_a_stream_early_saves(self, ask):
        """A generator that is closed early has saved what there is before close returns."""
        store = RecordingStore()
        agent = ask(*steps_script(2), tools=[note], session_store=store)
        session = Session("s")
        for event in agent.stream_events("go", session=session):
            if event.type == "step_finished":
                break
        assert not session.busy
        assert store.stored("s") == session
        assert session.runs[0].stop_reason == "cancelled"


class TestFailingStore:
    @pytest.mark.parametrize("mode", MODES)
    def test_at_the_only_save(self, ask, mode):
        """The run fails with what the store raised; all is in memory, and the next run stores it."""
        store = RecordingStore(fail=failing_at(1))
        agent = ask(text("a"), text("b"), session_store=store, durability=mode)
        session = Session("s")
        response = agent.run_with_response("x", session=session)
        assert (response.stop_reason, str(response.error), shape(session)) == ("error", "failure 1", "ua")
        assert (response.content, session.runs[0].error.type) == ("a", "OSError")
        agent.run("y", session=session)
        assert store.stored("s") == session

    @pytest.mark.parametrize("mode", ["async", "sync"])
    def test_at_a_steps_save(self, ask, mode):
        """After a failed save no new step starts, and the end is saved with a whole save."""
        store = RecordingStore(fail=failing_at(1))
        agent = ask(*steps_script(4), tools=[note], session_store=store, durability=mode)
        session = Session("s")
        response = agent.run_with_response("go", session=session)
        assert str(response.error) == "failure 1"
        messages = 5 if mode == "async" else 3
        assert store.calls == [("save", 3), ("save", messages)]
        assert len(agent.server.completions) == messages // 2
        assert store.stored("s") == session
        assert session.runs[0].error.message == "failure 1"

    def test_at_a_later_steps_save(self, ask):
        """An add_messages that fails is followed by a whole save too."""
        store = RecordingStore(fail=failing_at(2))
        agent = ask(*steps_script(4), tools=[note], session_store=store, durability="sync")
        session = Session("s")
        assert str(agent.run_with_response("go", session=session).error) == "failure 2"
        assert store.calls == [("save", 3), ("add", 2), ("save", 5)]
        assert store.stored("s") == session

    def test_async_at_the_last_step_before_the_end(self, ask):
        """The error of a step's save comes at the end of the run if there is no other save before."""
        store = RecordingStore(fail=failing_at(1))
        agent = ask(*steps_script(2), tools=[note], session_store=store)
        session = Session("s")
        response = agent.run_with_response("go", session=session)
        assert (response.stop_reason, str(response.error), response.content) == ("error", "failure 1", "done")
        assert store.calls == [("save", 3), ("save", 4)]
        assert store.stored("s") == session

    def test_the_end_fails_too(self, ask):
        """The first error is raised, and the second is noted on it."""
        store = RecordingStore(fail=failing_at(1, 2))
        agent = ask(*steps_script(3), tools=[note], session_store=store, durability="sync")
        session = Session("s")
        response = agent.run_with_response("go", session=session)
        assert str(response.error) == "failure 1"
        assert any("failure 2" in note for note in response.error.__notes__)
        assert shape(session) == "uat"

    def test_a_run_that_had_failed_already_raises_its_own_error(self, ask):
        """The store's error is added to it as a note."""
        store = RecordingStore(fail=failing_at(1))
        session = Session("s")
        with pytest.raises(ModelError, match="bad request") as caught:
            ask(error(400, "bad request"), session_store=store).run("go", session=session)
        assert any("OSError: failure 1" in note for note in caught.value.__notes__)
        assert session.runs[0].error.type == "ModelError"

    def test_a_cancelled_run_stays_cancelled(self, ask):
        """A store that fails does not turn a cancel into an error; its error is a note on the cancel."""
        store, door = RecordingStore(fail=failing_at(1)), gate()
        handle = ask(reply(door), session_store=store).start("go", session=(session := Session("s")))
        door.wait_reached()
        handle.cancel()
        response = handle.result()
        assert response.stop_reason == session.runs[0].stop_reason == "cancelled"
        assert any("failure 1" in note for note in response.error.__notes__)

    @pytest.mark.parametrize("form", FORMS)
    def test_every_form_raises_it(self, ask, form):
        """All forms fail with what the store raised."""
        store = RecordingStore(fail=failing_at(1))
        session = Session("s")
        with pytest.raises(OSError, match="failure 1"):
            call(ask(text("a"), session_store=store), form, "go", session=session)
        assert session.runs[0].stop_reason == "error"
        assert not session.busy

    def test_a_store_that_raises_cancelled_error(self, ask):
        """That is an error of the store, and no cancel of the run."""
        store = RecordingStore(fail=lambda number: asyncio.CancelledError("store") if number == 1 else None)
        session = Session("s")
        response = ask(text("a"), session_store=store).run_with_response("go", session=session)
        assert (response.stop_reason, session.runs[0].stop_reason) == ("error", "error")
        assert "CancelledError" in str(response.error)

    @pytest.mark.parametrize("mode", ["async", "sync"])
    def test_a_store_that_raises_cancelled_error_at_a_steps_save(self, ask, mode):
        """Neither is it in the middle of a run."""
        store = RecordingStore(fail=lambda number: asyncio.CancelledError("store") if number == 1 else None)
        session = Session("s")
        agent = ask(*steps_script(3), tools=[note], session_store=store, durability=mode)
        response = agent.run_with_response("go", session=session)
        assert (response.stop_reason, session.runs[0].stop_reason) == ("error", "error")
        assert store.stored("s") == session

    def test_the_store_has_what_it_had(self, ask, tmp_path):
        """Where the disk is full the file keeps the last good save, and a later run brings it up to date."""
        store = FileSessionStore(tmp_path)
        agent = ask(text("a"), text("b"), text("c"), session_store=store)
        session = Session("s")
        agent.run("x", session=session)
        session.metadata["bad"] = object()
        with pytest.raises(ValueError):
            agent.run("y", session=session)
        assert shape(agent.open("s")) == "ua"
        del session.metadata["bad"]
        agent.run("z", session=session)
        assert agent.open("s") == session


class TestKilled:
    def test_what_was_saved_before_a_kill_is_a_valid_session(self, serve, tmp_path):
        """A process that is killed in the second step leaves the first one in the file, and the session goes on."""
        import subprocess
        import sys

        door = gate()
        server = serve(tool_call("note", {"n": 1}), reply(door), text("fine"))
        code = f"""if True:
            from cyclops_nb import Agent, Session
            from cyclops_nb.stores import FileSessionStore
            def note(n: int) -> str: return "noted"
            store = FileSessionStore({str(tmp_path)!r})
            agent = Agent("m", [note], base_url={server.base_url!r}, session_store=store, durability="sync")
            agent.run("go", session=Session("s"))
        """
        process = subprocess.Popen([sys.executable, "-c", code])
        door.wait_reached(30)
        process.kill()
        process.wait()
        agent = agent_for(server, [note], session_store=FileSessionStore(tmp_path))
        session = agent.open("s")
        assert shape(session) == "uat"
        assert session.runs[0].stop_reason is None
        assert agent.run("go on", session=session) == "fine"


class TestMiddlewareAndStore:
    def test_a_middlewares_error_is_saved(self, ask):
        """A run that middleware ended is stored as any other."""

        class Raises(Middleware):
            async def wrap_model_call(self, request, call_next):
                raise LookupError("no")

        store = RecordingStore()
        with pytest.raises(LookupError):
            ask(session_store=store, middleware=[Raises()]).run("go", session=Session("s"))
        assert store.calls == [("save", 1)]
        assert isinstance(store.stored("s").messages[0], UserMessage)

    def test_begin_is_enough_to_save(self, ask):
        """A stream of which one event was read has stored the question."""
        store = RecordingStore()
        begin(ask(text("a"), session_store=store), "stream_events", "go", session=Session("s"))
        assert store.calls == [("save", 1)]


class TestHangingStore:
    """A store that never ends."""

    @pytest.mark.parametrize("moment", ["in the completion", "in the last save"])
    def test_does_not_hold_a_cancelled_run_for_ever(self, serve, monkeypatch, moment):
        """The last save has some seconds; then the run ends, says that it was not saved, and frees the session."""
        monkeypatch.setattr("cyclops_nb.engine.loop.GRACE_SECONDS", 0.2)
        monkeypatch.setattr("cyclops_nb.engine.persistence.GRACE_SECONDS", 0.2)
        saving = threading.Event()

        class Hanging(RecordingStore):
            async def save(self, session):
                saving.set()
                await asyncio.sleep(1000)

        door = gate()
        server = serve(reply(text("a"), door) if moment == "in the completion" else text("a"))
        session = Session("s")
        handle = Agent("scripted", base_url=server.base_url, session_store=Hanging()).start("go", session=session)
        if moment == "in the completion":
            door.wait_reached()
        else:
            assert saving.wait(10)
        handle.cancel()
        response = handle.result(timeout=10)
        told = [str(response.error), *getattr(response.error, "__notes__", [])]
        assert any("the store did not finish saving in time" in text for text in told)
        assert not session.busy


class TestStoresThatAreNone:
    """What a store of one's own gets wrong is said in words."""

    @pytest.mark.parametrize("method", ["save", "add_messages"])
    def test_methods_that_are_not_async(self, ask, method):
        """The error names store and method."""

        class Sync(RecordingStore):
            pass

        setattr(Sync, method, lambda self, *args: None)
        agent = ask(*steps_script(2), tools=[note], session_store=Sync())
        with pytest.raises(ConfigError, match=rf"Sync\.{method} must be async"):
            agent.run("go", session=Session())

    @pytest.mark.parametrize(
        ("found", "told"), [({"id": "a"}, "returned a dict"), (Session("b"), "returned session 'b'")]
    )
    def test_open_gives_sessions_of_that_id(self, ask, found, told):
        """And nothing else."""

        class Odd(RecordingStore):
            async def load(self, session_id):
                return found

        with pytest.raises(ConfigError, match=told):
            ask(session_store=Odd()).open("a")
