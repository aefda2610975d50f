"""Real Jupyter kernels, spoken to as a front end does."""

from __future__ import annotations

import sys
import time
from queue import Empty

import pytest
from jupyter_client.manager import KernelManager

SECONDS = 60


class Kernel:
    """A kernel and a client of it; `python` is the interpreter to run it with, if not this one."""

    def __init__(self, python=sys.executable):
        self.manager = KernelManager()
        self.manager.kernel_spec.argv[0] = str(python)
        self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=SECONDS)

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def send(self, code):
        """Queue a cell, as Run All does, and return its id."""
        return self.client.execute(code)

    def outcome(self, cell):
        """Wait for a queued cell and return what it printed or showed, and the error it ended with."""
        shown = []
        for kind, content in self._messages(cell):
            if kind == "stream":
                shown.append(content["text"])
            elif kind == "execute_result":
                shown.append(content["data"]["text/plain"])
            elif kind == "error":
                shown.append(f"{content['ename']}: {content['evalue']}")
        return "".join(shown).strip()

    def wait_until_printed(self, cell, text):
        """Wait until a cell that still runs has printed this."""
        printed = ""
        for kind, content in self._messages(cell):
            if kind == "stream":
                printed += content["text"]
            if text in printed:
                return
        raise AssertionError(f"the cell has ended and printed {printed!r} only")

    def wait_until_asked(self, cell, held):
        """Wait until the server stands at a gate that a cell's run comes to."""
        try:
            held.wait_reached(SECONDS)
        except TimeoutError:
            self.manager.interrupt_kernel()
            raise AssertionError(f"the server was not asked; the cell says {self.outcome(cell)!r}") from None

    def reply(self, cell):
        """Wait for the reply to a cell and return its status."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            message = self.client.get_shell_msg(timeout=SECONDS)
            if message["parent_header"].get("msg_id") == cell:
                return message["content"]["status"]
        raise TimeoutError("the cell was not replied to")

    def _messages(self, cell):
        """Yield kind and content of what a cell publishes, until it has ended."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:
                message = self.client.get_iopub_msg(timeout=1)
            except Empty:
                continue
            if message["parent_header"].get("msg_id") != cell:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return
            yield message["msg_type"], message["content"]
        raise TimeoutError("the cell did not end")

    def run(self, code):
        """Run a cell to its end."""
        return self.outcome(self.send(code))

    def prepare(self, code):
        """Run a cell that is to show nothing."""
        assert self.run(code) == ""


def kernel_of(request):
    """Start a kernel of the generation that a fixture is asked for."""
    kernel = Kernel(sys.executable if request.param == "installed" else request.getfixturevalue("older_python"))
    version = kernel.run("import ipykernel; print(ipykernel.__version__)")
    assert version.startswith("6.31.") == (request.param == "6.31")
    return kernel


KERNELS = ["installed", pytest.param("6.31", marks=pytest.mark.slow)]
