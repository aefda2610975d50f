"""Whatever stops a run, its session is left valid, complete as far as it got, and ready for the next run."""

import asyncio
import gc
import os
import signal
import threading
from contextlib import aclosing, closing

import pytest
from scenarios import ASYNC_FORMS, RecordingStore, agent_for, call, interrupt_when, note, roles, shape

from cyclops_nb import Middleware, Session, tool
from cyclops_nb.engine import mailbox, tool_calls
from cyclops_nb.testing import ScriptedServer, gate, reasoning, reply, text, tool_call
from cyclops_nb.testing import tool_calls as calls
from cyclops_nb.threads import run_in_thread
from cyclops_nb.transcript import check

STEPS = 3


def script(last="done"):
    """Return a run of three steps that has every kind of event."""
    return [
        reply(reasoning("hm"), text("First."), tool_call("note", {"n": 1}), tool_call("note", {"n": 2})),
        tool_call("note", {"n": 3}),
        text(last),
    ]


def expected_shape(events):
    """Say what the transcript holds when the last of `events` was the last that was read."""
    result = "u"
    for event in events:
        if event.type == "step_finished":
            result = "u" + {1: "att", 2: "attat", 3: "attata"}[event.step]
    last = events[-1]
    if last.type == "tool_call_ready":
        return result + {1: "acc", 2: "ac"}[last.step]
    if last.type == "tool_result":
        return None  # a sibling may have ended meanwhile, or not: see the tests of it
    return result


class Blocks:
    """A sync tool that says when it runs and goes on when it is let."""

    def __init__(self):
        self.running = threading.Event()
        self.released = threading.Event()
        self.ended = threading.Event()

    def make(self):
        def block() -> str:
            self.running.set()
            self.released.wait(20)
            self.ended.set()
            return "late"

        return block


@pytest.fixture
def blocks():
    """Give a tool that blocks; it is released after the test."""
    made = Blocks()
    yield made
    made.released.set()


class TestHandleCancel:
    @pytest.mark.parametrize(
        "half",
        [
            pytest.param([], id="before the first byte"),
            pytest.param([text("half an ans")], id="in the text"),
            pytest.param([text("a"), tool_call("note", '{"n": 1')], id="in a call"),
            pytest.param([tool_call("note", {"n": 1})], id="after a whole call"),
        ],
    )
    def test_in_a_completion(self, ask, half):
        """Question and completed steps stay, of the completion nothing; its text is in `partial`."""
        door, store = gate(), RecordingStore()
        agent = ask(tool_call("note", {"n": 0}), reply(*half, door), text("fine"), tools=[note], session_store=store)
        session = Session("s")
        handle = agent.start("go", session=session)
        door.wait_reached()
        wanted = "".join(part.pieces[0].text for part in half if part.pieces[0].__class__.__name__ == "Text")
        read_until(handle, wanted)
        handle.cancel()
        response = handle.result()
        door.wait_client_gone()
        assert (response.stop_reason, type(response.error)) == ("cancelled", asyncio.CancelledError)
        assert (response.partial, response.content) == (wanted, "")
        assert shape(session) == "uat"
        assert (session.runs[0].stop_reason, session.runs[0].error, session.runs[0].steps) == ("cancelled", None, 1)
        assert not session.runs[0].usage_complete
        assert store.stored("s") == session
        assert agent.run("go on", session=session) == "fine"

    def test_at_once(self, ask):
        """A cancel right after start is heard, and the question is kept."""
        door = gate()
        for _ in range(10):
            agent = ask(reply(door), text("fine"))
            session = Session()
            handle = agent.start("go", session=session)
            handle.cancel()
            assert handle.result().stop_reason == "cancelled"
            assert shape(session) == "u"
            assert not session.busy
            door.release()

    def test_while_tools_run(self, ask, blocks):
        """Finished results stay, each other call gets a cancelled one, in call order; late ones are dropped."""
        store = RecordingStore()
        endless = asyncio.Event

        async def waits() -> str:
            await endless().wait()

        agent = ask(
            calls(tool_call("block"), tool_call("note", {"n": 1}), tool_call("waits")),
            text("fine"),
            tools=[note, blocks.make(), waits],
            session_store=store,
        )
        session = Session("s")
        handle = agent.start("go", session=session)
        assert blocks.running.wait(20)
        read_until_result(handle)
        handle.cancel()
        response = handle.result()
        assert (response.stop_reason, response.partial, response.steps) == ("cancelled", "", 1)
        assert shape(session) == "uactc"
        assert roles(session)[2] == ("tool", "This call was cancelled before it had a result.", "cancelled")
        assert store.stored("s") == session
        before = session.model_dump_json()
        blocks.released.set()
        assert blocks.ended.wait(20)
        assert session.model_dump_json() == before
        assert agent.run("go on", session=session) == "fine"

    def test_again_and_after_the_end(self, ask):
        """A second cancel, and one after the run, do nothing."""
        door = gate()
        agent = ask(reply(door), text("fine"))
        handle = agent.start("go")
        door.wait_reached()
        handle.cancel()
        handle.cancel()
        assert handle.result().stop_reason == "cancelled"
        handle.cancel()
        done = agent.start("go")
        assert done.result().content == "fine"
        done.cancel()
        assert done.result().stop_reason == "completed"

    def test_from_any_thread(self, ask):
        """Cancel may be called from a thread, or from another event loop."""
        for way in ("thread", "loop"):
            door = gate()
            handle = ask(reply(door)).start("go")
            door.wait_reached()
            if way == "thread":
                thread = threading.Thread(target=handle.cancel)
                thread.start()
                thread.join()
            else:

                async def main(handle=handle):
                    handle.cancel()
                    return await handle

                asyncio.run(main())
            assert handle.result().stop_reason == "cancelled"

    def test_by_a_tool_of_the_run(self, ask):
        """A tool may stop the run that it is in."""
        handles = []

        def stop() -> str:
            handles[0].cancel()
            threading.Event().wait(0.05)
            return "stopped"

        door = gate()
        agent = ask(reply(door, tool_call("stop")), text("never"), tools=[stop])
        session = Session()
        handles.append(agent.start("go", session=session))
        door.release()
        assert handles[0].result().stop_reason == "cancelled"
        assert shape(session) == "uac"

    def test_a_tool_that_cleans_up(self, ask):
        """An async tool that is cancelled may still do what it has to; the run waits for it."""
        running, done = threading.Event(), []

        async def careful() -> str:
            try:
                running.set()
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.01)
                done.append("cleaned up")

        handle = ask(tool_call("careful"), tools=[careful]).start("go", session=(session := Session()))
        running.wait(20)
        handle.cancel()
        handle.result()
        assert done == ["cleaned up"]
        assert shape(session) == "uac"

    def test_a_tool_that_refuses_to_be_cancelled(self, ask, monkeypatch):
        """It is waited for a bounded time; then the run is over without it."""
        monkeypatch.setattr(mailbox, "CLEANUP_SECONDS", 0.05)
        monkeypatch.setattr(tool_calls, "CLEANUP_SECONDS", 0.05)
        running, let_go = threading.Event(), []

        async def stubborn() -> str:
            running.set()
            while not let_go:
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    continue
            return "late"

        agent = ask(tool_call("stubborn"), text("fine"), tools=[stubborn])
        session = Session()
        handle = agent.start("go", session=session)
        running.wait(20)
        handle.cancel()
        assert handle.result(timeout=10).stop_reason == "cancelled"
        assert shape(session) == "uac"
        let_go.append(True)
        assert agent.run("go on", session=session) == "fine"

    def test_events_end_with_run_finished(self, ask):
        """A reader of the handle sees the end of a cancelled run."""
        door = gate()
        handle = ask(reply(text("a"), door)).start("go")
        door.wait_reached()
        handle.cancel()
        handle.result()

        async def read():
            return [event async for event in handle.events()]

        last = asyncio.run(read())[-1]
        assert (last.type, last.run.stop_reason) == ("run_finished", "cancelled")


def read_until(handle, wanted):
    """Read the events of a handle until that text has come."""

    async def read():
        said = ""
        async for event in handle.events():
            if event.type == "text_delta":
                said += event.text
            if event.step == 2 and said == wanted:
                return

    asyncio.run(read())


def read_until_result(handle):
    """Read the events of a handle until a tool has ended."""

    async def read():
        async for event in handle.events():
            if event.type == "tool_result":
                return

    asyncio.run(read())


class TestTaskCancel:
    """The task of an async form is cancelled: as a cancelled run, then CancelledError goes on."""

    @pytest.mark.parametrize("form", ASYNC_FORMS)
    @pytest.mark.parametrize("where", ["completion", "tools"])
    def test_each_async_form(self, ask, form, where):
        """The session is in order when the cancelled task is over, and stored."""
        door, running, store = gate(), asyncio.Event, RecordingStore()
        started = []

        async def waits() -> str:
            started.append(True)
            await running().wait()

        first = reply(text("a"), door) if where == "completion" else tool_call("waits")
        agent = ask(first, text("fine"), tools=[waits], session_store=store)
        session = Session("s")

        async def consume():
            given = getattr(agent, form)("go", session=session)
            if form.startswith("astream"):
                async with aclosing(given):
                    async for _ in given:
                        pass
            else:
                await given

        async def main():
            task = asyncio.create_task(consume())
            if where == "completion":
                await door.reached()
            while where == "tools" and not started:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert task.cancelled()
            assert not session.busy
            assert shape(session) == ("u" if where == "completion" else "uac")
            assert session.runs[0].stop_reason == "cancelled"
            assert await agent.arun("go on", session=session) == "fine"

        asyncio.run(main())
        assert store.stored("s") == session

    def test_a_timeout_around_arun(self, ask):
        """Asyncio's own timeouts work: they cancel, and get their cancel back."""
        door = gate()
        agent = ask(reply(door), text("fine"))
        session = Session()

        async def main():
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await agent.arun("go", session=session)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 0)
            return await agent.arun("go on", session=session)

        assert asyncio.run(main()) == "fine"
        assert shape(session) == "uua"

    def test_a_task_group(self, ask):
        """When one task of a group fails, the run in another is cancelled and in order."""
        door = gate()
        agent = ask(reply(door))
        session = Session()

        async def fails():
            await door.reached()
            raise ValueError("other")

        async def main():
            async with asyncio.TaskGroup() as group:
                group.create_task(agent.arun("go", session=session))
                group.create_task(fails())

        with pytest.raises(ExceptionGroup):
            asyncio.run(main())
        assert (shape(session), session.busy, session.runs[0].stop_reason) == ("u", False, "cancelled")

    def test_before_it_began(self, ask):
        """A task that is cancelled before its first step has changed nothing."""
        agent = ask(text("fine"))
        session = Session()

        async def main():
            task = asyncio.create_task(agent.arun("go", session=session))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await agent.arun("go on", session=session)

        assert asyncio.run(main()) == "fine"
        assert shape(session) == "ua"

    def test_awaiting_a_handle(self, ask):
        """Giving up waiting for a handle does not stop its run."""
        door = gate()
        handle = ask(reply(door, text("fine"))).start("go")

        async def main():
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await handle
            door.release()
            return (await handle).content

        assert asyncio.run(main()) == "fine"


@pytest.fixture(scope="module")
def event_count():
    """Say how many events the script has."""
    with ScriptedServer(script()) as server:
        return len(list(agent_for(server, [note]).stream_events("go")))


EVENT_COUNT = 23


def is_text(item):
    """Say whether a stream has given text."""
    return isinstance(item, str) or item.type == "text_delta"


class TestLeavingEarly:
    def test_the_count_is_right(self, event_count):
        """The tests below leave at each event that the script has."""
        assert event_count == EVENT_COUNT

    @pytest.mark.parametrize("index", range(EVENT_COUNT))
    @pytest.mark.parametrize("form", ["stream_events", "astream_events"])
    def test_at_each_event(self, ask, form, index):
        """What was told stands in the transcript as after a cancel, and the next run is taken by the strict server."""
        store = RecordingStore()
        agent = ask(*script(), tools=[note], session_store=store)
        session = Session("s")
        if form == "stream_events":
            with closing(agent.stream_events("go", session=session)) as events:
                seen = [next(events) for _ in range(index + 1)]
        else:

            async def main():
                async with aclosing(agent.astream_events("go", session=session)) as events:
                    return [await anext(events) for _ in range(index + 1)]

            seen = asyncio.run(main())
        assert not session.busy
        check(session.messages)
        wanted = expected_shape(seen)
        assert wanted is None or shape(session) == wanted
        told = [event.message for event in seen if event.type == "tool_result"]
        assert all(message in session.messages for message in told)
        is_answered = len(seen) >= EVENT_COUNT - 1  # the last answer stood in the transcript
        assert session.runs[0].stop_reason == ("completed" if is_answered else "cancelled")
        assert store.stored("s") == session
        asked = len(agent.server.completions)
        assert asked <= seen[-1].step + (seen[-1].step < STEPS)
        next_run = ask(text("fine"))
        assert next_run.run("go on", session=session) == "fine"

    @pytest.mark.parametrize("index", range(3))
    @pytest.mark.parametrize("form", ["stream", "astream"])
    def test_at_each_text(self, ask, form, index):
        """The same holds for streams of text."""
        pieces = ["one ", "two ", "three"]
        agent = ask(text("".join(pieces), chunks=pieces), text("fine"))
        session = Session()
        if form == "stream":
            with closing(agent.stream("go", session=session)) as texts:
                seen = [next(texts) for _ in range(index + 1)]
        else:

            async def main():
                async with aclosing(agent.astream("go", session=session)) as texts:
                    return [await anext(texts) for _ in range(index + 1)]

            seen = asyncio.run(main())
        assert seen == pieces[: index + 1]
        assert (shape(session), session.busy, session.runs[0].stop_reason) == ("u", False, "cancelled")
        assert agent.run("go on", session=session) == "fine"

    @pytest.mark.parametrize("form", ["stream", "stream_events"])
    @pytest.mark.parametrize("how", ["break", "raise", "del"])
    def test_a_sync_loop_that_is_left(self, ask, form, how):
        """A loop left by break or by an exception has ended its run by then."""
        door = gate()
        agent = ask(reply(text("a"), door), text("fine"))
        session = Session()
        if how == "break":
            for item in getattr(agent, form)("go", session=session):
                if is_text(item):
                    break
        elif how == "raise":
            try:
                for item in getattr(agent, form)("go", session=session):
                    if is_text(item):
                        raise ValueError
            except ValueError:
                pass
        else:
            stream = getattr(agent, form)("go", session=session)
            while not is_text(next(stream)):
                pass
            del stream
        gc.collect()
        assert (session.busy, session.runs[0].stop_reason) == (False, "cancelled")
        assert agent.run("go on", session=session) == "fine"

    @pytest.mark.parametrize("form", ["astream", "astream_events"])
    def test_an_async_loop_that_is_left(self, ask, form):
        """A loop left by break ends its run as soon as the event loop gets to it."""
        door = gate()
        agent = ask(reply(text("a"), door), text("fine"))
        session = Session()

        async def main():
            async for item in getattr(agent, form)("go", session=session):
                if is_text(item):
                    break
            gc.collect()
            while session.busy:
                await asyncio.sleep(0)
            return await agent.arun("go on", session=session)

        assert asyncio.run(main()) == "fine"
        assert session.runs[0].stop_reason == "cancelled"

    @pytest.mark.parametrize("form", ["stream", "stream_events", "astream", "astream_events"])
    def test_a_stream_that_is_never_read(self, ask, form):
        """Nothing happens, nothing is warned of, and nothing stays."""
        agent = ask(text("fine"))
        session = Session()

        async def main():
            getattr(agent, form)("go", session=session)
            gc.collect()

        asyncio.run(main())
        gc.collect()
        assert (shape(session), session.runs, session.busy) == ("", [], False)
        assert agent.server.requests == []

    def test_a_tool_of_the_callers_thread_that_waits_its_turn(self, ask):
        """When a stream is left while such a tool waits for the reader's thread, it is not run any more."""
        ran, go, queued = [], threading.Event(), threading.Event()

        @tool(thread="caller")
        def plot() -> str:
            ran.append("plot")
            return "plotted"

        class Queues(Middleware):
            async def wrap_tool_call(self, call, call_next):
                if call.name == "plot":
                    await run_in_thread(go.wait, 20)
                    task = asyncio.ensure_future(call_next(call))
                    for _ in range(10):
                        await asyncio.sleep(0)
                    queued.set()
                    return await task
                return await call_next(call)

        script = calls(tool_call("note", {"n": 1}), tool_call("plot"))
        agent = ask(script, text("fine"), tools=[note, plot], middleware=[Queues()])
        session = Session()
        for event in agent.stream_events("go", session=session):
            if event.type == "tool_result":
                go.set()
                assert queued.wait(20)
                break
        assert ran == []
        assert shape(session) == "uatc"
        assert agent.run("go on", session=session) == "fine"

    def test_a_pace_set_by_the_reader(self, ask):
        """A sync stream asks for no further completion before its reader asks for more."""
        agent = ask(*script(), tools=[note])
        for event in agent.stream_events("go"):
            if event.type == "step_finished":
                agent.server.wait_idle()
                assert len(agent.server.completions) == event.step


@pytest.fixture
def main_thread_signals():
    """Check that a test leaves the handling of Ctrl-C as it was."""
    before = signal.getsignal(signal.SIGINT)
    yield
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("main_thread_signals")
@pytest.mark.skipif(os.name != "posix", reason="signals are sent with os.kill")
class TestKeyboardInterrupt:
    @pytest.mark.parametrize("form", ["run", "run_with_response"])
    def test_in_a_completion(self, ask, form):
        """The run is cancelled and stored, then KeyboardInterrupt goes on; the next run works at once."""
        door, store = gate(), RecordingStore()
        agent = ask(
            tool_call("note", {"n": 1}), reply(text("a"), door), text("fine"), tools=[note], session_store=store
        )
        session = Session("s")
        thread = interrupt_when(door.wait_reached)
        with pytest.raises(KeyboardInterrupt):
            getattr(agent, form)("go", session=session)
        thread.join()
        assert (shape(session), session.busy, session.runs[0].stop_reason) == ("uat", False, "cancelled")
        assert store.stored("s") == session
        assert agent.run("go on", session=session) == "fine"

    @pytest.mark.parametrize("form", ["stream", "stream_events"])
    def test_while_a_stream_waits(self, ask, form):
        """A stream that waits for the next event is cancelled in the same way."""
        door = gate()
        agent = ask(reply(text("a"), door), text("fine"))
        session = Session()
        thread = interrupt_when(door.wait_reached)
        with pytest.raises(KeyboardInterrupt):
            list(getattr(agent, form)("go", session=session))
        thread.join()
        assert (shape(session), session.busy, session.runs[0].stop_reason) == ("u", False, "cancelled")
        assert agent.run("go on", session=session) == "fine"

    def test_in_the_readers_own_code(self, ask):
        """Between two events it is the reader's; the run ends with the loop."""
        door = gate()
        agent = ask(reply(text("a"), door), text("fine"))
        session = Session()
        with pytest.raises(KeyboardInterrupt):
            for _ in agent.stream("go", session=session):
                os.kill(os.getpid(), signal.SIGINT)
        gc.collect()
        assert (shape(session), session.busy) == ("u", False)
        assert agent.run("go on", session=session) == "fine"

    def test_while_a_sync_tool_runs(self, ask, blocks):
        """The thread of a tool cannot be stopped, but its late result goes nowhere."""
        agent = ask(tool_call("block"), text("fine"), tools=[blocks.make()])
        session = Session()
        thread = interrupt_when(lambda: blocks.running.wait(20))
        with pytest.raises(KeyboardInterrupt):
            agent.run("go", session=session)
        thread.join()
        assert shape(session) == "uac"
        assert agent.run("go on", session=session) == "fine"
        blocks.released.set()
        assert blocks.ended.wait(20)
        assert shape(session) == "uacua"

    def test_a_second_one_cuts_the_clean_up_short(self, ask):
        """When the clean-up hangs, a second Ctrl-C returns at once."""
        running, cleaning, free = threading.Event(), threading.Event(), threading.Event()

        async def careful() -> str:
            try:
                running.set()
                await asyncio.Event().wait()
            finally:
                cleaning.set()
                while not free.is_set():
                    await asyncio.sleep(0.005)

        agent = ask(tool_call("careful"), tools=[careful])
        session = Session()
        first = interrupt_when(lambda: running.wait(20))
        second = interrupt_when(lambda: cleaning.wait(20))
        with pytest.raises(KeyboardInterrupt):
            agent.run("go", session=session)
        assert session.busy
        free.set()
        first.join()
        second.join()
        while session.busy:
            threading.Event().wait(0.005)
        assert shape(session) == "uac"

    def test_in_a_tool_of_the_callers_thread(self, ask):
        """The tool on the waiting thread is not torn; the run is cancelled when it returns."""
        running = threading.Event()

        @tool(thread="caller")
        def plot() -> str:
            running.set()
            while not hit.is_set():
                hit.wait(0.005)
            return "plotted"

        hit = threading.Event()

        def ready():
            running.wait(20)

        def work():
            ready()
            os.kill(os.getpid(), signal.SIGINT)
            hit.set()

        agent = ask(tool_call("plot"), text("fine"), tools=[plot])
        session = Session()
        thread = threading.Thread(target=work)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            agent.run("go", session=session)
        thread.join()
        assert session.runs[0].stop_reason == "cancelled"
        assert shape(session) in {"uac", "uat"}
        assert agent.run("go on", session=session) == "fine"

    def test_in_a_nested_run_on_the_callers_thread(self, ask):
        """A run inside a tool on the waiting thread hears it first, then the outer run; both are in order."""
        door = gate()
        inner, outer = Session(), Session()
        helper = ask(reply(text("a"), door))

        @tool(thread="caller")
        def nested() -> str:
            return helper.run("inner", session=inner)

        agent = ask(tool_call("nested"), text("fine"), tools=[nested])
        thread = interrupt_when(door.wait_reached)
        with pytest.raises(KeyboardInterrupt):
            agent.run("outer", session=outer)
        thread.join()
        assert (shape(inner), shape(outer)) == ("u", "uac")
        assert [session.runs[0].stop_reason for session in (inner, outer)] == ["cancelled", "cancelled"]
        assert agent.run("go on", session=outer) == "fine"

    def test_under_asyncio_run(self, ask):
        """asyncio.run turns Ctrl-C into a cancel of arun: the session is in order, KeyboardInterrupt goes on."""
        door = gate()
        agent = ask(reply(text("a"), door), text("fine"))
        session = Session()
        thread = interrupt_when(door.wait_reached)
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(agent.arun("go", session=session))
        thread.join()
        assert (shape(session), session.busy, session.runs[0].stop_reason) == ("u", False, "cancelled")
        assert agent.run("go on", session=session) == "fine"

    def test_a_sync_form_inside_a_running_loop(self, ask):
        """Inside a coroutine run() hears it too."""
        door = gate()
        agent = ask(reply(text("a"), door), text("fine"))
        session = Session()

        async def main():
            with pytest.raises(KeyboardInterrupt):
                agent.run("go", session=session)
            return agent.run("go on", session=session)

        thread = interrupt_when(door.wait_reached)
        assert asyncio.run(main()) == "fine"
        thread.join()

    def test_one_that_is_ignored(self, ask):
        """A process that ignores Ctrl-C goes on ignoring it."""
        door = gate()
        agent = ask(reply(text("a"), door, text("b")))
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)

        def work():
            door.wait_reached()
            os.kill(os.getpid(), signal.SIGINT)
            door.release()

        try:
            thread = threading.Thread(target=work)
            thread.start()
            assert agent.run("go") == "ab"
            thread.join()
        finally:
            signal.signal(signal.SIGINT, before)

    def test_runs_of_other_threads_go_on(self, ask):
        """Only the run that the main thread waits for is cancelled."""
        mine, other = gate(), gate()
        agent = ask(reply(mine))
        helper = ask(reply(other, text("fine")))
        answers = []
        thread = threading.Thread(target=lambda: answers.append(call(helper, "run", "x")))
        thread.start()
        other.wait_reached()
        interrupter = interrupt_when(mine.wait_reached)
        with pytest.raises(KeyboardInterrupt):
            agent.run("go")
        other.release()
        thread.join()
        interrupter.join()
        assert answers == ["fine"]
