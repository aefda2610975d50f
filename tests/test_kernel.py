"""The entry points in a real Jupyter kernel, spoken to as a front end does."""

from __future__ import annotations

import pytest
from kernels import KERNELS, kernel_of

from cyclops_nb.testing import ScriptedServer, gate, reply, text, tool_call


@pytest.fixture(scope="module", params=KERNELS)
def long_kernel(request):
    """Give one kernel for all tests of stops: it lives through all of them."""
    kernel = kernel_of(request)
    yield kernel
    kernel.close()


def setup_cell(server):
    """Return the first cell of each notebook."""
    return f"""
from cyclops_nb import Agent, Session
agent = Agent("scripted", base_url={server.base_url!r})
session = Session()
"""


class TestCells:
    """Sync and async forms in cells."""

    def test_run_all_with_every_form_completes_in_order(self, kernel):
        """All cells queued at once end in order, each with its own answer."""
        cells = {
            "print(agent.run('q', session=session))": "a1",
            "print(await agent.arun('q', session=session))": "a2",
            "print(agent.run_with_response('q', session=session).content)": "a3",
            "print((await agent.arun_with_response('q', session=session)).content)": "a4",
            "print(''.join(agent.stream('q', session=session)))": "a5",
            "print(''.join([piece async for piece in agent.astream('q', session=session)]))": "a6",
            "print(list(agent.stream_events('q', session=session))[-1].content)": "a7",
            "print([event async for event in agent.astream_events('q', session=session)][-1].content)": "a8",
            "print(agent.start('q', session=session).result().content)": "a9",
            "print((await agent.start('q', session=session)).content)": "a10",
            "print(len(session.messages))": "20",
        }
        with ScriptedServer([text(f"a{number}") for number in range(1, 11)]) as server:
            kernel.prepare(setup_cell(server))
            queued = [(kernel.send(code), expected) for code, expected in cells.items()]
            assert [kernel.outcome(cell) for cell, _ in queued] == [expected for _, expected in queued]

    def test_an_async_tool_may_call_a_sync_form(self, kernel):
        """Nesting works in a cell, and cells after it run on."""
        script = [tool_call("ask", {}), text("inner"), text("outer")]
        with ScriptedServer(script) as server:
            kernel.prepare(setup_cell(server))
            code = """
async def ask() -> str:
    "Ask another agent."
    return agent.run("inner?")
print(Agent("scripted", tools=[ask], base_url=agent.config.base_url).run("outer?"))
"""
            cells = [kernel.send(code), kernel.send("print('next')")]
            assert [kernel.outcome(cell) for cell in cells] == ["outer", "next"]

    def test_a_widget_callback_may_call_a_sync_form(self, kernel):
        """A click on a button runs the agent."""
        with ScriptedServer(text("clicked")) as server:
            kernel.prepare(setup_cell(server))
            button = kernel.run("""
import ipywidgets
answers = []
button = ipywidgets.Button()
button.on_click(lambda _: answers.append(agent.run("q")))
print(button.comm.comm_id)
""")
            content = {"comm_id": button, "data": {"method": "custom", "content": {"event": "click"}}}
            client = kernel.client
            client.shell_channel.send(client.session.msg("comm_msg", content))
            shown = kernel.run("""
import asyncio
while not answers:
    await asyncio.sleep(0.02)
print(answers)
""")
            assert shown == "['clicked']"


class TestInterrupt:
    """The kernel's stop button."""

    @pytest.mark.parametrize(
        ("call", "raised"),
        [
            ("agent.run('q', session=session)", "KeyboardInterrupt"),
            ("await agent.arun('q', session=session)", "CancelledError"),
        ],
    )
    def test_stops_the_run_and_leaves_the_session_in_order(self, kernel, call, raised):
        """An interrupt cancels the run, nothing is appended later, and the next run works."""
        held = gate()
        with ScriptedServer([reply(text("half"), held, text("whole")), text("again")]) as server:
            kernel.prepare(setup_cell(server))
            cell = kernel.send(call)
            kernel.wait_until_asked(cell, held)
            kernel.manager.interrupt_kernel()
            assert kernel.outcome(cell).startswith(raised)
            shown = kernel.run("print([m.role for m in session.messages], session.runs[-1].stop_reason, session.busy)")
            assert shown == "['user'] cancelled False"
            assert kernel.run("print(agent.run(session=session))") == "again"

    def test_ends_a_cell_that_waits_for_a_handle(self, kernel):
        """The cell ends at once; the run in the background is not its own, and goes on."""
        held = gate()
        with ScriptedServer(reply(text("half"), held, text(" whole"))) as server:
            kernel.prepare(setup_cell(server))
            kernel.prepare("handle = agent.start('q', session=session)")
            cell = kernel.send("await handle")
            kernel.wait_until_asked(cell, held)
            kernel.manager.interrupt_kernel()
            assert kernel.outcome(cell).startswith("CancelledError")
            held.release()
            assert kernel.run("print(handle.result().content)") == "half whole"


def stop_cell(server, folder):
    """Return the first cell of a notebook whose runs are stopped: with tools, and a store, that can be waited for."""
    return f"""
import asyncio, pathlib, threading
from cyclops_nb import Agent, InMemorySessionStore, Session
released, ended = threading.Event(), threading.Event()
def blocks(released=released, ended=ended) -> str:
    print("begun", flush=True)
    released.wait(60)
    ended.set()
    return "late"
async def waits() -> str:
    print("begun", flush=True)
    await asyncio.Event().wait()
async def cleans_up() -> str:
    try:
        print("begun", flush=True)
        await asyncio.Event().wait()
    finally:
        print("cleaning", flush=True)
        while not pathlib.Path({str(folder / "free")!r}).exists():
            await asyncio.sleep(0.01)
class SlowStore(InMemorySessionStore):
    async def save(self, session):
        if not pathlib.Path({str(folder / "free")!r}).exists():
            print("begun", flush=True)
            while not pathlib.Path({str(folder / "free")!r}).exists():
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
        await super().save(session)
settings = dict(base_url={server.base_url!r}, tools=[blocks, waits, cleans_up])
session, store = Session(), InMemorySessionStore()
agent = Agent("scripted", session_store=store, **settings)
"""


LOOK = """
from cyclops_nb.transcript import check
check(session.messages)
letters = "".join(item.role[0] if item.role != "tool" else item.status[0] for item in session.messages)
print(letters, session.runs[-1].stop_reason, session.busy, await store.load(session.id) == session)
"""
CALLS = {
    "agent.run('q', session=session)": "KeyboardInterrupt",
    "agent.run_with_response('q', session=session)": "KeyboardInterrupt",
    "for _ in agent.stream('q', session=session): pass": "KeyboardInterrupt",
    "for _ in agent.stream_events('q', session=session): pass": "KeyboardInterrupt",
    "await agent.arun('q', session=session)": "CancelledError",
    "async for _ in agent.astream_events('q', session=session): pass": "CancelledError",
}
SYNC_CALLS = [call for call, raised in CALLS.items() if raised == "KeyboardInterrupt"]


@pytest.mark.slow
class TestStopButton:
    """The kernel's stop button, in kernels of two generations."""

    @pytest.mark.parametrize("call", CALLS)
    @pytest.mark.parametrize(
        ("place", "left"),
        [
            ("completion", "u cancelled"),
            ("blocks", "uac cancelled"),
            ("waits", "uac cancelled"),
            ("save", "ua completed"),
        ],
    )
    def test_wherever_the_run_is(self, long_kernel, tmp_path, call, place, left):
        """The run ends and is stored, cells queued behind it are not run, later cells are, and nothing comes late."""
        kernel, held = long_kernel, gate()
        first = {"completion": reply(text("half"), held), "save": text("done")}.get(place) or tool_call(place)
        with ScriptedServer([first, text("again")]) as server:
            kernel.prepare(stop_cell(server, tmp_path))
            if place == "save":
                kernel.prepare("store = SlowStore(); agent = Agent('scripted', session_store=store, **settings)")
            cell, queued = kernel.send(call), kernel.send("print('queued')")
            if place == "completion":
                kernel.wait_until_asked(cell, held)
            else:
                kernel.wait_until_printed(cell, "begun")
            kernel.manager.interrupt_kernel()
            (tmp_path / "free").touch()
            assert kernel.outcome(cell).startswith(CALLS[call])
            assert kernel.reply(queued) == "aborted"
            assert kernel.run(LOOK) == f"{left} False True"
            assert kernel.run("print(agent.run('go on', session=session))") == "again"
            before = kernel.run(LOOK)
            if place == "blocks":
                assert kernel.run("released.set(); print(ended.wait(20))") == "True"
            assert kernel.run(LOOK) == before == f"{left.split()[0]}ua completed False True"

    @pytest.mark.parametrize("call", SYNC_CALLS)
    def test_a_second_stop_does_not_wait_for_the_clean_up(self, long_kernel, tmp_path, call):
        """The cell ends while a tool still cleans up; the session is in order once that is over."""
        kernel = long_kernel
        with ScriptedServer([tool_call("cleans_up"), text("other"), text("again")]) as server:
            kernel.prepare(stop_cell(server, tmp_path))
            cell = kernel.send(call)
            kernel.wait_until_printed(cell, "begun")
            kernel.manager.interrupt_kernel()
            kernel.wait_until_printed(cell, "cleaning")
            kernel.manager.interrupt_kernel()
            assert kernel.outcome(cell).startswith("KeyboardInterrupt")
            assert kernel.run("print(session.busy, agent.run('q', session=Session()))") == "True other"
            (tmp_path / "free").touch()
            kernel.prepare("while session.busy: await asyncio.sleep(0.01)")
            assert kernel.run(LOOK) == "uac cancelled False True"
            assert kernel.run("print(agent.run('go on', session=session))") == "again"

    @pytest.mark.parametrize("call", [call for call in CALLS if call not in SYNC_CALLS])
    def test_a_clean_up_that_hangs_is_not_waited_for_for_ever(self, long_kernel, tmp_path, call):
        """A cell that awaits hears one stop alone; it ends by itself some seconds later."""
        kernel = long_kernel
        with ScriptedServer([tool_call("cleans_up"), text("again")]) as server:
            kernel.prepare(stop_cell(server, tmp_path))
            cell = kernel.send(call)
            kernel.wait_until_printed(cell, "begun")
            kernel.manager.interrupt_kernel()
            assert kernel.outcome(cell).endswith("CancelledError:")
            assert kernel.run(LOOK) == "uac cancelled False True"
            assert kernel.run("print(agent.run('go on', session=session))") == "again"
            (tmp_path / "free").touch()
            assert kernel.run(LOOK) == "uacua completed False True"

    @pytest.mark.parametrize(
        "loop",
        [
            "for _ in agent.stream('q', session=session): print('begun'); threading.Event().wait(60)",
            "async for _ in agent.astream('q', session=session): print('begun'); await asyncio.sleep(60)",
        ],
    )
    def test_in_the_body_of_a_loop_over_a_stream(self, long_kernel, tmp_path, loop):
        """The stream ends with the loop, so that the next cell can use the session.

        A run on the cell's own event loop ends there, once the cell is over: a call that blocks it would come too soon.
        """
        kernel = long_kernel
        with ScriptedServer([reply(text("half"), gate()), text("again")]) as server:
            kernel.prepare(stop_cell(server, tmp_path))
            cell = kernel.send(loop)
            kernel.wait_until_printed(cell, "begun")
            kernel.manager.interrupt_kernel()
            assert kernel.outcome(cell).startswith(("KeyboardInterrupt", "CancelledError"))
            if loop.startswith("async"):
                assert kernel.run("while session.busy: await asyncio.sleep(0.01)") == ""
            assert kernel.run("print(agent.run('go on', session=session))") == "again"
            assert kernel.run(LOOK) == "uua completed False True"

    def test_between_two_cells(self, long_kernel, tmp_path):
        """A run in the background is no cell's: a stop of the idle kernel does not reach it."""
        kernel, held = long_kernel, gate()
        with ScriptedServer(reply(text("half"), held, text(" whole"))) as server:
            kernel.prepare(stop_cell(server, tmp_path))
            cell = kernel.send("handle = agent.start('q', session=session)")
            kernel.wait_until_asked(cell, held)
            kernel.manager.interrupt_kernel()
            assert kernel.run("print('works')") == "works"
            held.release()
            assert kernel.run("print((await handle).content)") == "half whole"
            assert kernel.run(LOOK) == "ua completed False True"

    def test_a_tool_on_the_cells_own_thread(self, long_kernel, tmp_path):
        """It is stopped where it is, its call counts as cancelled, and the run ends."""
        kernel = long_kernel
        with ScriptedServer([tool_call("sleeps"), text("again")]) as server:
            kernel.prepare(stop_cell(server, tmp_path))
            kernel.prepare("""
import time
from cyclops_nb import tool
@tool(thread="caller")
def sleeps() -> str:
    print("begun", flush=True)
    time.sleep(60)
agent = Agent("scripted", session_store=store, **settings | {"tools": [sleeps]})
""")
            cell = kernel.send("agent.run('q', session=session)")
            kernel.wait_until_printed(cell, "begun")
            kernel.manager.interrupt_kernel()
            assert "KeyboardInterrupt" in kernel.outcome(cell)
            assert kernel.run(LOOK) == "uac cancelled False True"
            assert kernel.run("print(agent.run('go on', session=session))") == "again"
