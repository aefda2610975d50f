"""Sync forms from any place, nested runs, several loops, forks, and the end of the process."""

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading

import pytest
from scenarios import ASYNC_FORMS, FORMS, SYNC_FORMS, acall, agent_for, call, note, shape, steps_script

import cyclops_nb.portal
from cyclops_nb import Session, tool
from cyclops_nb.stores import FileSessionStore, InMemorySessionStore
from cyclops_nb.testing import gate, reply, text, tool_call, tool_calls

QUIET = "import logging; logging.getLogger('asyncio').addFilter(lambda r: 'Executing <' not in r.getMessage())\n"
"""What asyncio's debug mode says of slow callbacks is about the machine, not about the library."""


def python(code, *options, timeout=60):
    """Run code in a fresh interpreter and return what it printed; it must neither fail nor complain."""
    done = subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


def echo(request):
    return text(str(request.messages[-1]["content"]))


class TestInsideALoop:
    @pytest.mark.parametrize("form", SYNC_FORMS)
    def test_a_sync_form_inside_a_coroutine(self, ask, form):
        """Every sync form works where an event loop is running, and leaves that loop alone."""
        agent = ask(*steps_script(2), tools=[note])

        async def main():
            tasks = asyncio.all_tasks()
            answer = call(agent, form, "go")
            assert asyncio.all_tasks() == tasks
            await asyncio.sleep(0)
            return answer

        assert asyncio.run(main()) == "done"

    def test_a_sync_form_inside_a_callback(self, ask):
        """A plain callback of a loop, such as a widget's, may call run too."""
        agent = ask(text("done"))

        async def main():
            answered = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(lambda: answered.set_result(agent.run("go")))
            return await answered

        assert asyncio.run(main()) == "done"

    def test_sync_and_async_forms_together(self, serve):
        """While arun waits on the caller's loop, run in a thread works with the same agent."""
        agent = agent_for(serve(echo))

        async def main():
            return await asyncio.gather(
                agent.arun("a"), asyncio.to_thread(agent.run, "b"), agent.arun("c"), asyncio.to_thread(agent.run, "d")
            )

        assert asyncio.run(main()) == ["a", "b", "c", "d"]

    def test_open_inside_a_loop(self, ask):
        """So does opening a session from the store."""
        agent = ask(session_store=InMemorySessionStore())

        async def main():
            return agent.open("s").id

        assert asyncio.run(main()) == "s"


class TestThreads:
    @pytest.mark.parametrize("form", [*SYNC_FORMS, "arun"])
    def test_eight_threads(self, serve, form):
        """One agent serves eight threads at once, each with its own session."""
        barrier = threading.Barrier(8)
        agent = agent_for(serve(echo))
        answers = {}

        def work(n):
            session = Session()
            barrier.wait(20)
            first = call(agent, form, f"{n}", session=session)
            answers[n] = (first, call(agent, form, f"again {n}", session=session), shape(session))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == {n: (f"{n}", f"again {n}", "uaua") for n in range(8)}

    def test_one_thread_serves_all(self, serve):
        """Sync forms start one thread for the library's loop, however many runs there are."""
        agent = agent_for(serve(echo))
        for n in range(5):
            agent.run(str(n))
        assert [thread.name for thread in threading.enumerate()].count("cyclops-nb") == 1

    def test_a_session_across_threads(self, serve):
        """A session begun in one thread is gone on with in another, and on another loop."""
        agent = agent_for(serve(echo))
        session = Session()
        agent.run("a", session=session)
        thread = threading.Thread(target=agent.run, args=("b",), kwargs={"session": session})
        thread.start()
        thread.join()
        asyncio.run(agent.arun("c", session=session))
        assert shape(session) == "uauaua"


class TestLoopsInARow:
    @pytest.mark.parametrize("form", ASYNC_FORMS)
    def test_three_asyncio_runs(self, serve, form):
        """The same agent serves one loop after the other, and each loop's connections are closed with it."""
        server = serve(echo)
        agent = agent_for(server)
        for n in range(3):
            assert asyncio.run(acall(agent, form, str(n))) == str(n)
            server.wait_disconnected()
        assert agent.run("sync") == "sync"

    def test_connections_are_used_again(self, serve):
        """Runs on one loop go over one connection."""
        server = serve(echo)
        agent = agent_for(server)
        for n in range(5):
            agent.run(str(n))
            assert server.open_connections == 1

    def test_an_agent_that_is_gone(self, serve):
        """When an agent is no longer used its connections are closed."""
        server = serve(echo)
        agent = agent_for(server)
        agent.run("a")
        del agent
        gc.collect()
        server.wait_disconnected()


class TestNested:
    @pytest.mark.parametrize("outer", FORMS)
    @pytest.mark.parametrize("inner", SYNC_FORMS)
    def test_from_a_sync_tool(self, ask, outer, inner):
        """A sync tool may call any sync form, whichever way its own run was begun."""
        helper = ask(*steps_script(2, "inner"), tools=[note])

        def consult() -> str:
            return call(helper, inner, "help")

        agent = ask(tool_call("consult"), text("outer"), tools=[consult])
        session = Session()
        assert call(agent, outer, "go", session=session) == "outer"
        assert session.messages[2].text == "inner"

    @pytest.mark.parametrize("outer", FORMS)
    @pytest.mark.parametrize("inner", SYNC_FORMS)
    def test_from_an_async_tool(self, ask, outer, inner):
        """An async tool may call any sync form, also on the library's own loop."""
        helper = ask(*steps_script(2, "inner"), tools=[note])

        async def consult() -> str:
            await asyncio.sleep(0)
            answer = call(helper, inner, "help")
            await asyncio.sleep(0)
            return answer

        agent = ask(tool_call("consult"), text("outer"), tools=[consult])
        session = Session()
        assert call(agent, outer, "go", session=session) == "outer"
        assert session.messages[2].text == "inner"

    @pytest.mark.parametrize("outer", ["run", "arun", "start"])
    @pytest.mark.parametrize("inner", [*ASYNC_FORMS, "start"])
    def test_by_await(self, ask, outer, inner):
        """An async tool may use any async form, and await a handle."""
        helper = ask(text("inner"))

        async def consult() -> str:
            return await acall(helper, inner, "help")

        agent = ask(tool_call("consult"), text("outer"), tools=[consult])
        assert call(agent, outer, "go") == "outer"

    def test_three_deep(self, ask):
        """Runs may be nested in runs that are nested."""
        innermost = ask(text("3"))

        async def third() -> str:
            return innermost.run("x")

        middle = ask(tool_call("third"), text("2"), tools=[third])

        async def second() -> str:
            return middle.run("x")

        agent = ask(tool_call("second"), text("1"), tools=[second])
        assert agent.run("x") == "1"

    def test_several_at_once(self, serve, ask):
        """Tools that run together may all call run."""
        helper = agent_for(serve(echo))

        async def consult(n: int) -> str:
            await asyncio.sleep(0)
            return helper.run(f"answer {n}")

        agent = ask(tool_calls(*(tool_call("consult", {"n": n}) for n in range(4))), text("done"), tools=[consult])
        session = Session()
        assert agent.run("x", session=session) == "done"
        assert [message.text for message in session.messages[2:6]] == [f"answer {n}" for n in range(4)]

    def test_other_runs_go_on_meanwhile(self, ask):
        """While a nested run waits for its model, other runs of the library's loop are served."""
        door = gate()
        helper = ask(reply(door, text("inner")))

        async def consult() -> str:
            return helper.run("help")

        handle = ask(tool_call("consult"), text("outer"), tools=[consult]).start("x")
        door.wait_reached()
        assert ask(text("other")).run("y") == "other"
        door.release()
        assert handle.result().content == "outer"

    @pytest.mark.parametrize("kind", ["sync", "async"])
    def test_a_cancel_ends_the_inner_run_first(self, ask, kind):
        """Cancelling a run cancels the runs that its tools wait for; both sessions are in order."""
        door = gate()
        helper = ask(reply(text("a"), door))
        inner, outer, left = Session(), Session(), threading.Event()

        def consult() -> str:
            try:
                return helper.run("help", session=inner)
            finally:
                assert not inner.busy
                left.set()

        async def aconsult() -> str:
            return consult()

        made = tool(name="consult")(consult if kind == "sync" else aconsult)
        agent = ask(tool_call("consult"), text("fine"), tools=[made])
        handle = agent.start("x", session=outer)
        door.wait_reached()
        handle.cancel()
        assert handle.result().stop_reason == "cancelled"
        assert (shape(inner), inner.runs[0].stop_reason, inner.busy) == ("u", "cancelled", False)
        assert shape(outer)[:2] == "ua"
        assert left.wait(20)
        assert agent.run("go on", session=outer) == "fine"

    def test_an_error_of_the_inner_run(self, ask):
        """What the inner run failed with is the tool's error."""
        helper = ask()

        async def consult() -> str:
            return helper.run("help")

        agent = ask(tool_call("consult"), text("outer"), tools=[consult])
        session = Session()
        assert agent.run("x", session=session) == "outer"
        assert session.messages[2].status == "error"
        assert "ModelError" in session.messages[2].text

    def test_asyncio_is_left_as_it_was(self, ask):
        """After a nested run no name of asyncio has changed, and other loops are not nestable."""
        before = {name: vars(place).copy() for name, place in places().items()}
        helper = ask(text("inner"))

        async def consult() -> str:
            return helper.run("help")

        agent = ask(tool_call("consult"), text("outer"), tools=[consult])
        assert agent.run("x") == "outer"
        for name, place in places().items():
            assert {key: value for key, value in vars(place).items() if before[name].get(key) is not value} == {}
            assert set(vars(place)) == set(before[name])

        async def main():
            later = asyncio.sleep(0)
            try:
                with pytest.raises(RuntimeError, match="already running"):
                    asyncio.get_running_loop().run_until_complete(later)
            finally:
                later.close()

        asyncio.run(main())

    def test_a_run_after_a_nested_one(self, ask):
        """The library's loop works as before once it has been nested: runs, timeouts, cancels."""
        helper = ask(text("inner"))

        async def consult() -> str:
            return helper.run("help")

        assert ask(tool_call("consult"), text("outer"), tools=[consult]).run("x") == "outer"
        door = gate()
        handle = ask(reply(text("a"), door)).start("x")
        door.wait_reached()
        handle.cancel()
        assert handle.result().stop_reason == "cancelled"
        assert ask(*steps_script(3), tools=[note]).run("x") == "done"


def places():
    """Return what nest_asyncio changes."""
    return {
        "asyncio": asyncio,
        "tasks": asyncio.tasks,
        "futures": asyncio.futures,
        "events": asyncio.events,
        "loops": asyncio.BaseEventLoop,
        "selector": asyncio.SelectorEventLoop,
        "policy": type(asyncio.get_event_loop_policy()),
    }


SERVER = """
import asyncio, atexit, gc, os, sys, threading
from cyclops_nb import Agent, Session
from cyclops_nb.testing import ScriptedServer, gate, reply, text, tool_call

def note(n: int) -> str:
    "Take a note."
    return f"noted {n}"

def answer(request):
    last = request.messages[-1]
    return tool_call("note", {"n": 1}) if last["role"] == "user" else text("done")

def agent_for(server, tools=(note,), **settings):
    return Agent("m", tools, base_url=server.base_url, max_retries=0, **settings)
"""

ALL_FORMS = """
def sync_forms(agent):
    session = Session()
    assert agent.run("x", session=session) == "done"
    assert agent.run_with_response("x", session=session).content == "done"
    assert "".join(agent.stream("x", session=session)) == "done"
    assert [event for event in agent.stream_events("x", session=session)][-1].content == "done"
    assert agent.start("x", session=session).result().content == "done"
    assert len(session.messages) == 20

async def async_forms(agent):
    session = Session()
    assert await agent.arun("x", session=session) == "done"
    assert (await agent.arun_with_response("x", session=session)).content == "done"
    assert "".join([piece async for piece in agent.astream("x", session=session)]) == "done"
    assert [event async for event in agent.astream_events("x", session=session)][-1].content == "done"
    assert (await agent.start("x", session=session)).content == "done"
    assert len(session.messages) == 20

async def leave_early(agent):
    async for _ in agent.astream_events("x"):
        break
    for event in agent.stream_events("x"):
        if event.type == "tool_result":
            break
    agent.astream("x")
    agent.stream("x")
    task = asyncio.create_task(agent.arun("x"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    agent.start("x").cancel()
"""


class TestProcesses:
    def test_all_forms_without_a_word(self):
        """Under -X dev -W error all forms, early leavers and cancelled runs included, leave nothing on stderr."""
        out = python(
            QUIET
            + SERVER
            + ALL_FORMS
            + textwrap.dedent("""
            with ScriptedServer(answer) as server:
                agent = agent_for(server)
                sync_forms(agent)
                for _ in range(3):
                    asyncio.run(async_forms(agent))
                asyncio.run(leave_early(agent))
                async def both():
                    sync_forms(agent)
                    await async_forms(agent)
                asyncio.run(both())
                gc.collect()
            print("end")
            """),
            "-X",
            "dev",
            "-W",
            "error",
        )
        assert out == "end\n"

    def test_importing_starts_nothing(self):
        """Import and the making of an agent start no thread, patch nothing and load no openai."""
        out = python("""
            import asyncio, sys, threading
            import cyclops_nb
            before = dict(vars(asyncio)), asyncio.run, asyncio.Task
            agent = cyclops_nb.Agent("m", base_url="http://127.0.0.1:1/v1")
            session = cyclops_nb.Session()
            assert before == (dict(vars(asyncio)), asyncio.run, asyncio.Task)
            print(threading.active_count(), "openai" in sys.modules, "nest_asyncio" in sys.modules)
        """)
        assert out == "1 False False\n"

    def test_a_user_who_has_patched_asyncio(self):
        """Where nest_asyncio was applied before, or is applied on the running loop, all forms work."""
        python(
            SERVER
            + ALL_FORMS
            + textwrap.dedent("""
            import nest_asyncio
            async def main(agent):
                nest_asyncio.apply()
                sync_forms(agent)
                await async_forms(agent)
                asyncio.get_event_loop().run_until_complete(async_forms(agent))
                asyncio.run(async_forms(agent))
                sync_forms(agent)
            with ScriptedServer(answer) as server:
                agent = agent_for(server)
                asyncio.run(main(agent))
                sync_forms(agent)
            """)
        )

    def test_a_user_who_has_patched_asyncio_and_nests(self):
        """Nested runs work there too, and the user's patch stays."""
        python(
            SERVER
            + textwrap.dedent("""
            import nest_asyncio
            nest_asyncio.apply(asyncio.new_event_loop())
            patched = asyncio.run
            def script(request):
                return text("done") if request.messages[-1]["role"] == "tool" else tool_call("consult")
            async def consult() -> str:
                return helper.run("x")
            with ScriptedServer(answer) as inner, ScriptedServer(script) as outer:
                helper = agent_for(inner)
                agent = agent_for(outer, [consult])
                assert agent.run("x") == "done"
                assert agent.run("x") == "done"
            assert asyncio.run is patched
            """)
        )

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
    def test_a_forked_process(self):
        """A child that was forked after runs gets a loop of its own, and the parent keeps its."""
        out = python(
            SERVER
            + textwrap.dedent("""
            with ScriptedServer(answer) as server:
                agent = agent_for(server)
                session = Session()
                agent.run("x", session=session)
                child = os.fork()
                if not child:
                    try:
                        agent.run("y", session=session)
                        print("child", len(session.messages), flush=True)
                    finally:
                        os._exit(0)
                os.waitpid(child, 0)
                agent.run("z", session=session)
                print("parent", len(session.messages))
            """),
            "-W",  # newer Pythons warn of forks in general
            "ignore::DeprecationWarning",
        )
        assert out == "child 8\nparent 8\n"

    @pytest.mark.parametrize("where", ["completion", "sync tool", "async tool"])
    def test_exit_while_a_run_goes_on(self, tmp_path, where):
        """A process that ends in the middle of a start() run ends at once, without a word, and the run is stored."""
        python(
            QUIET
            + SERVER
            + textwrap.dedent(f"""
            from cyclops_nb.stores import FileSessionStore
            running = threading.Event()
            def block() -> str:
                running.set()
                threading.Event().wait(60)
            async def wait() -> str:
                running.set()
                await asyncio.Event().wait()
            door = gate()
            first = {{"completion": reply(text("a"), door), "sync tool": tool_call("block"), "async tool": tool_call("wait")}}
            server = ScriptedServer([first[{where!r}]]).start()
            atexit.unregister(server.stop)  # else the run might fail before it is cancelled
            agent = agent_for(server, [block, wait], session_store=FileSessionStore({str(tmp_path)!r}))
            handle = agent.start("x", session=Session("s"))
            if {where!r} == "completion":
                door.wait_reached()
            else:
                running.wait()
            """),
            "-X",
            "dev",
            "-W",
            "error",
            timeout=30,
        )
        session = asyncio.run(FileSessionStore(tmp_path).load("s"))
        assert session.runs[0].stop_reason == "cancelled"
        assert shape(session) == ("u" if where == "completion" else "uac")

    def test_exit_after_a_stream_that_was_not_read_to_its_end(self):
        """A stream that still waits for its reader when the process ends keeps nobody waiting."""
        python(
            QUIET
            + SERVER
            + textwrap.dedent("""
            server = ScriptedServer(answer).start()
            agent = agent_for(server)
            stream = agent.stream_events("x", session=Session())
            next(stream)
            """),
            "-X",
            "dev",
            "-W",
            "error",
            timeout=30,
        )


class TestPortal:
    def test_it_is_one(self):
        """All that ask for it get the same."""
        assert cyclops_nb.portal.portal() is cyclops_nb.portal.portal()

    def test_a_short_coroutine(self):
        """A coroutine can be run to its end from sync code, and its error is raised there."""
        portal = cyclops_nb.portal.portal()

        async def fails():
            raise KeyError("x")

        async def works():
            return threading.current_thread().name

        assert portal.run(works()) == "cyclops-nb"
        with pytest.raises(KeyError):
            portal.run(fails())


class TestLeavingLoops:
    """Async streams that are left in a loop that is ending."""

    @pytest.mark.parametrize("form", ["astream", "astream_events"])
    @pytest.mark.parametrize("kept", [True, False], ids=["kept", "dropped"])
    def test_say_nothing_and_save(self, form, kept):
        """Breaking out of one prints nothing, and the session is stored as cancelled."""
        code = f"""
import asyncio
from cyclops_nb import Agent, InMemorySessionStore, Session
from cyclops_nb.testing import ScriptedServer, delay, reply, text

kept = []
store = InMemorySessionStore()

async def main(url):
    stream = Agent("scripted", base_url=url, session_store=store).{form}("go", session=Session("s"))
    if {kept}:
        kept.append(stream)
    async for piece in stream:
        break

with ScriptedServer(reply(text("a "), delay(5), text("b"))) as server:
    asyncio.run(main(server.base_url))
print(asyncio.run(store.load("s")).runs[-1].stop_reason)
"""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.stdout.strip(), done.stderr) == ("cancelled", "")


@pytest.mark.parametrize("durability", ["async", "sync", "exit"])
def test_a_store_with_a_pool_of_threads_gets_the_end_of_a_run_at_exit(durability, tmp_path):
    """A program that ends during a run saves it, also where saving takes a thread of asyncio's own pool."""
    code = f"""
import asyncio
from pathlib import Path
from cyclops_nb import Agent, Session
from cyclops_nb.testing import ScriptedServer, gate, reply, text

class PoolStore:
    async def load(self, session_id):
        return None

    async def save(self, session):
        await asyncio.to_thread(Path({str(tmp_path / "s.json")!r}).write_text, session.model_dump_json())

    async def add_messages(self, session, messages):
        await self.save(session)

    async def delete(self, session_id):
        pass

door = gate()
server = ScriptedServer([reply(text("a"), door)]).start()
agent = Agent("m", base_url=server.base_url, api_key="k", session_store=PoolStore(), durability={durability!r})
handle = agent.start("hello", session=Session("s"))
door.wait_reached()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    stored = Session.model_validate_json((tmp_path / "s.json").read_text())
    assert [run.stop_reason for run in stored.runs] == ["cancelled"]
