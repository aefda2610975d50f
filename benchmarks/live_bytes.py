"""What a run shown live sends to the front end, against the naive way: the whole text with every delta.

A real kernel, a scripted stream of 2,000 deltas; every byte on the kernel's iopub channel counts, from the cell that
begins the run to the last message, the static output that stays in the notebook included.
"""

from __future__ import annotations

import sys
import time

from jupyter_client.manager import KernelManager

from cyclops_nb.testing import ScriptedServer, text

DELTAS = 2_000
PAUSE = 0.002
PROSE = "The quick brown fox jumps over the lazy dog, and nobody in the **village** has seen it since. "
PARAGRAPH = PROSE * 5 + "\n\n"
SHAPES = {
    "prose": PARAGRAPH,
    "headings, lists, code": "## Title\n\n" + PARAGRAPH + "- one\n- two `x`\n- three\n\n```python\nx = f(1)\n```\n\n",
    "one code block": "    result = compute(alpha, beta) + 1  # a comment\n",
    "one list": "- an item of a list that goes on and on, with **bold** words in it\n",
    "one paragraph": PROSE,
}
START = {"one code block": "```python\n"}
GOALS = {12: 150, 127: 700}
"""Kilobytes that are sent at most, by those of the text."""
IDEAL = 4.5
SLOWER = 5_000
"""Bytes for each second that a busy machine takes longer than that: a view is updated as long as the run goes on."""
MEASURED = {12: list(SHAPES)[:2], 127: list(SHAPES)}
LIVE = "agent.start('Go.')"
NAIVE = """
import html
from IPython.display import HTML, display
shown, place = "", display(HTML(""), display_id=True)
for piece in agent.stream("Go."):
    shown += piece
    place.update(HTML(f"<pre>{html.escape(shown)}</pre>"))
"""


class Kernel:
    """A kernel, and what it says on iopub, in bytes."""

    def __init__(self) -> None:
        self._manager = KernelManager()
        self._manager.start_kernel()
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)

    def cost(self, code: str, until: str = "") -> tuple[int, int, float]:
        """Run a cell, and then another one that waits for what it began; return messages, bytes and seconds."""
        start = time.perf_counter()
        messages = size = 0
        for cell in (code, until):
            waited = self._client.execute(cell) if cell else ""
            while waited:
                frames = self._client.iopub_channel.socket.recv_multipart()
                messages, size = messages + 1, size + sum(map(len, frames))
                _, parts = self._client.session.feed_identities(frames)
                message = self._client.session.deserialize(parts)
                if message["msg_type"] == "error":
                    raise RuntimeError(message["content"]["evalue"])
                is_idle = message["content"].get("execution_state") == "idle"
                if is_idle and message["parent_header"].get("msg_id") == waited:
                    break
        return messages, size, time.perf_counter() - start


def deltas(shape: str, kilobytes: int) -> list[str]:
    size = kilobytes * 1_000
    whole = (START.get(shape, "") + SHAPES[shape] * (size // len(SHAPES[shape]) + 1))[:size]
    step = -(-len(whole) // DELTAS)
    return [whole[place : place + step] for place in range(0, len(whole), step)]


def main() -> None:
    wait = "import threading\n[thread.join() for thread in threading.enumerate() if thread.name == 'cyclops_nb live']"
    failed = False
    kernel = Kernel()
    for kilobytes, goal in GOALS.items():
        for shape in MEASURED[kilobytes]:
            pieces = deltas(shape, kilobytes)
            with ScriptedServer(text("".join(pieces), chunks=pieces, delay=PAUSE)) as server:
                kernel.cost(f"from cyclops_nb import Agent\nagent = Agent('m', base_url={server.base_url!r})")
                kernel.cost("import ipywidgets")
                messages, live, seconds = kernel.cost(LIVE, wait)
            late = max(0.0, seconds - IDEAL) * SLOWER
            line = (
                f"{kilobytes} kB, {shape}: {live / 1000:.0f} kB (goal {goal}) in {messages} messages, {seconds:.1f} s"
            )
            if shape == "prose":
                with ScriptedServer(text("".join(pieces), chunks=pieces, delay=PAUSE)) as server:
                    kernel.cost(f"agent = Agent('m', base_url={server.base_url!r})")
                    messages, naive, seconds = kernel.cost(NAIVE)
                line += (
                    f"; naive {naive / 1000:.0f} kB in {messages} messages, {seconds:.1f} s, ratio {naive / live:.0f}"
                )
            print(line, flush=True)
            failed |= shape.startswith(("prose", "headings")) and live > goal * 1_000 + late
    kernel.close()
    sys.exit(failed)


if __name__ == "__main__":
    main()
