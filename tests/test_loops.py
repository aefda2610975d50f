"""Event loops of all kinds: sync forms inside them, one agent on many of them, and streams that are left on them.

What concerns the whole process (what is written to stderr, what is open, how it ends) runs in a fresh interpreter in
development mode, where each warning is an error.
"""

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading

import pytest
from scenarios import ASYNC_FORMS, SYNC_FORMS, acall, agent_for, shape

from cyclops_nb import CyclopsError, Session
from cyclops_nb.portal import portal
from cyclops_nb.testing import gate, reply, text
from cyclops_nb.threads import run_in_thread

BEGINNING = """
import asyncio, atexit, gc, logging, os, sys, threading
logging.getLogger("asyncio").addFilter(lambda record: "Executing <" not in record.getMessage())
from concurrent.futures import ThreadPoolExecutor
from scenarios import ASYNC_FORMS, SYNC_FORMS, acall, agent_for, call
from cyclops_nb import Session
from cyclops_nb.testing import ScriptedServer, gate, reply, text, tool_call

def echo(request):
    return text(str(request.messages[-1]["content"]))

def sockets():
    paths = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return sum(os.readlink(path).startswith("socket:") for path in paths if os.path.islink(path))

server = ScriptedServer(echo).start()
agent = agent_for(server)
"""


def python(code):
    """Run code in a fresh interpreter in development mode; it must neither fail nor complain. Return what it prints."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", BEGINNING + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=__file__.rpartition("test_loops")[0],
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout.split()


class TestSyncFormsInsideLoops:
    """Sync forms work in any place, and need nothing patched for it."""

    @pytest.mark.parametrize("form", SYNC_FORMS)
    def test_wherever_they_are_called(self, form):
        """In a script, coroutine, callback, pool, or thread beside a loop; the user's asyncio stays as it was."""
        places = """
        sys.modules["nest_asyncio"] = None  # cannot be imported
        form = FORM
        names = dict(vars(asyncio))

        def ask(question):
            return call(agent, form, question)

        async def coroutine():
            return ask("coroutine")

        async def callback():
            answered = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(lambda: answered.set_result(ask("callback")))
            return await answered

        async def executor():
            loop = asyncio.get_running_loop()
            answers = await asyncio.gather(*(loop.run_in_executor(None, ask, "executor") for _ in range(4)))
            return answers[0]

        async def beside_a_task():
            task = asyncio.create_task(agent.arun("task"))
            await asyncio.sleep(0)
            return ask("beside"), await task

        print(ask("script"), asyncio.run(coroutine()), asyncio.run(callback()), asyncio.run(executor()))
        print(*asyncio.run(beside_a_task()))
        with ThreadPoolExecutor(8) as pool:
            print(*pool.map(ask, "abcdefgh"))
            print(pool.submit(lambda: asyncio.run(coroutine())).result())
        assert dict(vars(asyncio)) == names
        """.replace("FORM", repr(form), 1)
        expected = ["script", "coroutine", "callback", "executor", "beside", "task", *"abcdefgh", "coroutine"]
        assert python(places) == expected

    def test_the_first_nested_run_among_other_work_of_the_loop(self):
        """What asyncio had counted to run in this turn of the library's loop is still there when a nested run ends."""
        code = """
        async def nests() -> str:
            loop = asyncio.get_running_loop()
            answer = loop.create_future()
            loop.call_soon(lambda: answer.set_result(agent.run("inner")))
            for _ in range(5):
                loop.call_soon(lambda: None)
            return await answer

        script = [tool_call("nests"), text("outer")]
        outer = agent_for(ScriptedServer(script).start(), [nests])
        print(outer.start("x").result(20).content, agent.start("later").result(20).content)
        """
        assert python(code) == ["outer", "later"]


class TestManyLoops:
    """One agent serves loop after loop."""

    @pytest.mark.skipif(sys.platform != "linux", reason="open files are counted in /proc")
    @pytest.mark.parametrize("form", [*ASYNC_FORMS, "start"])
    def test_three_loops_then_sync_leave_nothing_open(self, form):
        """Each asyncio.run closes what it opened; the library's own loop keeps one connection, until the exit."""
        code = """
        form = FORM
        counts = set()
        before = sockets()
        for _ in range(3):
            print(asyncio.run(acall(agent, form, "x")))
            server.wait_disconnected() if form != "start" else None
            counts.add(sockets() - before)
        print(agent.run("sync"), *counts)
        """.replace("FORM", repr(form), 1)
        kept = {"start": "4"}.get(form, "0")  # both ends of one connection, and what wakes the library's loop
        assert python(code) == ["x", "x", "x", "sync", kept]

    def test_loops_that_the_user_drives(self):
        """A runner, a loop of one's own and a loop in a thread serve several runs each, and end without a word."""
        code = """
        with asyncio.Runner() as runner:
            print(*(runner.run(agent.arun(str(n))) for n in range(3)))
        loop = asyncio.new_event_loop()
        print(*(loop.run_until_complete(agent.arun(str(n))) for n in range(3)))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        print(*(asyncio.run_coroutine_threadsafe(agent.arun(str(n)), loop).result() for n in range(3)))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        print(agent.run("sync"))
        """
        assert python(code) == [*"012", *"012", *"012", "sync"]

    @pytest.mark.parametrize(
        "ending",
        [
            "sys.exit(0)",
            "asyncio.run(then_exit())",
            "atexit.register(lambda: agent.run('late'))",
            "atexit.register(lambda: asyncio.run(agent.arun('late')))",
            "in_a_daemon(agent.arun('x')).result()",
            "in_a_daemon(hanging.arun('x')); door.wait_reached()",
            "handle = hanging.start('x'); door.wait_reached()",
            "stream = asyncio.run(begun())",
        ],
    )
    def test_ends_of_the_process(self, ending):
        """However the interpreter ends after a run, or in the middle of one, it ends at once and says nothing."""
        code = """
        atexit.unregister(server.stop)
        door = gate()
        holding = ScriptedServer(reply(text("a"), door)).start()
        atexit.unregister(holding.stop)  # else runs might fail before they are cancelled
        hanging = agent_for(holding)

        def in_a_daemon(coroutine):
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, daemon=True).start()
            return asyncio.run_coroutine_threadsafe(coroutine, loop)

        async def then_exit():
            await agent.arun("x")
            sys.exit(0)

        async def begun():
            stream = agent.astream_events("x", session=Session())
            await anext(stream)
            return stream

        print(agent.run("x"))
        """
        assert python(textwrap.dedent(code) + ending) == ["x"]


@pytest.fixture
def in_the_middle(ask):
    """Give an agent whose answer stops in the middle, but for the one to "go on", whether the first was asked for or not."""
    half = reply(text("half"), gate())
    return ask(lambda request: text("fine") if request.messages[-1]["content"] == "go on" else half)


async def until_free(session):
    """Wait until a session is in no run."""
    while session.busy:
        await asyncio.sleep(0.001)


def forget(stream):
    """Leave a stream in a reference cycle, where only the garbage collector finds it."""
    box = [stream]
    box.append(box)


@pytest.fixture
def no_collections():
    """Collect garbage only when a test says so."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
class TestForgottenStreams:
    """Streams that are read to the middle and never closed; the garbage collector may find them on any thread."""

    @pytest.mark.parametrize("form", ["astream", "astream_events"])
    @pytest.mark.parametrize("count", [1, 3])
    @pytest.mark.parametrize("thread", ["the loop's", "another"])
    def test_in_a_running_loop(self, in_the_middle, form, count, thread):
        """The run is cancelled in good order and the session is free, whether the stream waited or not."""
        session = Session()
        count = 1 if form == "astream" else count

        async def begun():
            stream = getattr(in_the_middle, form)("go", session=session)
            for _ in range(count):
                await anext(stream)
            forget(stream)

        async def main():
            await begun()
            if thread == "another":
                await run_in_thread(gc.collect)
            else:
                gc.collect()
            await until_free(session)
            assert session.runs[0].stop_reason == "cancelled"
            return await in_the_middle.arun("go on", session=session)

        assert asyncio.run(main()) == "fine"
        assert shape(session) == "uua"

    @pytest.mark.parametrize("form", ["astream", "astream_events"])
    def test_at_the_end_of_a_loop(self, in_the_middle, form):
        """The loop's end cancels the run; what is collected later finds nothing to do."""
        session = Session()

        async def main():
            stream = getattr(in_the_middle, form)("go", session=session)
            await anext(stream)
            forget(stream)

        asyncio.run(main())
        assert (session.busy, session.runs[0].stop_reason) == (False, "cancelled")
        gc.collect()
        assert shape(session) == "u"

    @pytest.mark.parametrize("form", ["stream", "stream_events"])
    @pytest.mark.parametrize("thread", ["the reader's", "another", "the library's"])
    def test_on_the_librarys_loop(self, in_the_middle, form, thread):
        """A sync stream is cancelled as well; collected on the library's own thread it does not stop that thread."""
        session = Session()
        stream = getattr(in_the_middle, form)("go", session=session)
        next(stream)
        forget(stream)
        del stream
        if thread == "the library's":
            collected = threading.Event()
            portal().call(lambda: (gc.collect(), collected.set()))
            assert collected.wait(20)
        elif thread == "another":
            collector = threading.Thread(target=gc.collect)
            collector.start()
            collector.join()
        else:
            gc.collect()
        asyncio.run(until_free(session))
        assert session.runs[0].stop_reason == "cancelled"
        in_the_middle.server.wait_idle()
        assert in_the_middle.start("go on", session=session).result(20).error is None
        assert shape(session) == "uua"


class TestClosing:
    """Streams that are closed by hand, at odd moments."""

    @pytest.mark.parametrize("form", ["stream", "stream_events", "astream", "astream_events"])
    def test_before_the_first_reading(self, ask, form):
        """It is over then, and has begun nothing; closing it twice is the same as once."""
        agent, session = ask(text("fine")), Session()

        async def aclosed():
            stream = getattr(agent, form)("go", session=session)
            await stream.aclose()
            await stream.aclose()
            return [item async for item in stream]

        if form in ASYNC_FORMS:
            assert asyncio.run(aclosed()) == []
        else:
            stream = getattr(agent, form)("go", session=session)
            stream.close()
            stream.close()
            assert list(stream) == []
        assert (session.runs, agent.server.requests) == ([], [])
        assert agent.run("go", session=session) == "fine"

    @pytest.mark.parametrize("form", ["stream", "stream_events"])
    def test_from_another_thread(self, in_the_middle, form):
        """A sync stream that waits for its reader may be closed anywhere: the run is over by then."""
        session = Session()
        stream = getattr(in_the_middle, form)("go", session=session)
        next(stream)
        closer = threading.Thread(target=stream.close)
        closer.start()
        closer.join()
        assert (session.busy, session.runs[0].stop_reason, list(stream)) == (False, "cancelled", [])

    @pytest.mark.parametrize("form", ["astream", "astream_events"])
    def test_while_somebody_reads(self, in_the_middle, form):
        """The reader's loop ends, with the last events of the run that was cancelled."""
        session = Session()

        async def main():
            stream = getattr(in_the_middle, form)("go", session=session)
            first = await anext(stream)

            async def read():
                return [first, *[item async for item in stream]]

            reader = asyncio.create_task(read())
            await asyncio.sleep(0)
            await stream.aclose()
            return await reader

        items = asyncio.run(main())
        assert items == ["half"] or items[-1].run.stop_reason == "cancelled"
        assert (session.busy, shape(session)) == (False, "u")

    @pytest.mark.parametrize("form", ["astream", "astream_events"])
    def test_two_readers(self, ask, form):
        """A second reader is refused, in words; the first one is not disturbed."""
        door = gate()
        agent, session = ask(reply(door, text("fine"))), Session()

        async def main():
            stream = getattr(agent, form)("go", session=session)

            async def read():
                return [item async for item in stream]

            reader = asyncio.create_task(read())
            await door.reached()
            with pytest.raises(CyclopsError, match="one reader at a time"):
                await anext(stream)
            door.release()
            return await reader

        last = asyncio.run(main())[-1]
        assert last == "fine" or last.content == "fine"

    @pytest.mark.parametrize("form", ["astream", "astream_events"])
    def test_on_another_loop(self, in_the_middle, form):
        """There it can be neither read nor closed, and says so instead of waiting for ever."""
        session = Session()

        async def begun():
            stream = getattr(in_the_middle, form)("go", session=session)
            await anext(stream)
            return stream

        async def elsewhere(stream):
            with pytest.raises(CyclopsError, match="another event loop"):
                await anext(stream)
            with pytest.raises(CyclopsError, match="another event loop"):
                await stream.aclose()

        with asyncio.Runner() as runner:
            stream = runner.run(begun())
            asyncio.run(elsewhere(stream))
            runner.run(stream.aclose())
        assert (session.busy, session.runs[0].stop_reason) == (False, "cancelled")


def test_runs_of_one_agent_on_several_loops_at_once(serve):
    """Loops in eight threads and the library's own are served side by side, each over its own connections."""
    server = serve(lambda request: text(str(request.messages[-1]["content"])))
    agent, answers = agent_for(server), {}

    async def several(n):
        forms = [*ASYNC_FORMS, "start"]
        return await asyncio.gather(*(acall(agent, form, f"{n} {form}") for form in forms))

    def work(n):
        answers[n] = [asyncio.run(several(n)) for _ in range(2)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {n: [[f"{n} {form}" for form in [*ASYNC_FORMS, "start"]]] * 2 for n in range(8)}
