"""The entry points in a real Jupyter kernel, spoken to as a front end does."""

from __future__ import annotations

import time
from queue import Empty

import pytest
from jupyter_client.manager import start_new_kernel

from cyclops_nb.testing import ScriptedServer, gate, reply, text, tool_call

SECONDS = 60


class Kernel:
    """A kernel and a client of it."""

    def __init__(self):
        self.manager, self.client = start_new_kernel(startup_timeout=SECONDS)

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def send(self, code):
        """Queue a cell, as Run All does, and return its id."""
        return self.client.execute(code)

    def outcome(self, cell):
        """Wait for a queued cell and return its status and what it printed or showed."""
        shown = []
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:
                message = self.client.get_iopub_msg(timeout=1)
            except Empty:
                continue
            if message["parent_header"].get("msg_id") != cell:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                shown.append(content["text"])
            elif message["msg_type"] == "execute_result":
                shown.append(content["data"]["text/plain"])
            elif message["msg_type"] == "error":
                shown.append(f"{content['ename']}: {content['evalue']}")
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return "".join(shown).strip()
        raise TimeoutError("the cell did not end")

    def run(self, code):
        """Run a cell to its end."""
        return self.outcome(self.send(code))


@pytest.fixture
def kernel():
    """A fresh kernel."""
    kernel = Kernel()
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
            kernel.run(setup_cell(server))
            queued = [(kernel.send(code), expected) for code, expected in cells.items()]
            assert [kernel.outcome(cell) for cell, _ in queued] == [expected for _, expected in queued]

    def test_an_async_tool_may_call_a_sync_form(self, kernel):
        """Nesting works in a cell, and cells after it run on."""
        script = [tool_call("ask", {}), text("inner"), text("outer")]
        with ScriptedServer(script) as server:
            kernel.run(setup_cell(server))
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
            kernel.run(setup_cell(server))
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
            kernel.run(setup_cell(server))
            cell = kernel.send(call)
            held.wait_reached(SECONDS)
            kernel.manager.interrupt_kernel()
            assert kernel.outcome(cell).startswith(raised)
            shown = kernel.run("print([m.role for m in session.messages], session.runs[-1].stop_reason, session.busy)")
            assert shown == "['user'] cancelled False"
            assert kernel.run("print(agent.run(session=session))") == "again"

    def test_ends_a_cell_that_waits_for_a_handle(self, kernel):
        """The cell ends at once; the run in the background is not its own, and goes on."""
        held = gate()
        with ScriptedServer(reply(text("half"), held, text(" whole"))) as server:
            kernel.run(setup_cell(server))
            kernel.run("handle = agent.start('q', session=session)")
            cell = kernel.send("await handle")
            held.wait_reached(SECONDS)
            kernel.manager.interrupt_kernel()
            assert kernel.outcome(cell).startswith("CancelledError")
            held.release()
            assert kernel.run("print(handle.result().content)") == "half whole"
