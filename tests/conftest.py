"""Shared fixtures: scripted servers that stop with their test, and a watch over what tests leave behind."""

import asyncio
import contextlib
import gc
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import venv
from pathlib import Path

import browser
import pytest
from kernels import KERNELS, kernel_of
from scenarios import agent_for

import cyclops_nb.portal
from cyclops_nb.stores import FileSessionStore
from cyclops_nb.testing import ScriptedServer

_ENDING_SECONDS = 5.0


_KEPT = ("cyclops-nb", "asyncio_")
"""The thread of the library's own loop, and those in which that loop looks up host names."""


def _running(before):
    """Return threads that the test started, but those of the library's own loop, and tasks on that loop."""
    threads = [item for item in threading.enumerate() if item not in before and not item.name.startswith(_KEPT)]
    portal = cyclops_nb.portal._portal
    tasks = []
    if portal is not None and not portal._loop.is_closed():
        with contextlib.suppress(RuntimeError):  # the set of tasks changed while it was read: they are ending
            tasks = list(asyncio.all_tasks(portal._loop))
    return [*threads, *tasks]


def pytest_collection_finish():
    """Let no garbage collection look at what stays to the end: modules, and thousands of collected tests."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def hears_interrupts():
    """Hear Ctrl-C, which shells have programs ignore that they start in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def leaves_nothing():
    """Fail a test after which a thread or a task is still there."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + _ENDING_SECONDS
    while left := _running(before):
        if time.monotonic() > deadline:
            pytest.fail(f"the test left behind: {left}")
        time.sleep(0.005)


@pytest.fixture
def serve():
    """Give a function that starts a scripted server; it is stopped after the test."""
    with contextlib.ExitStack() as stack:

        def start(*script, **settings):
            (script,) = script if len(script) == 1 and callable(script[0]) else (list(script),)
            return stack.enter_context(ScriptedServer(script, **settings))

        yield start


@pytest.fixture
def ask(serve):
    """Give a function that starts a server with a script and returns an agent on it; ``agent.server`` is the server."""

    def make(*script, tools=(), strict=True, **settings):
        server = serve(*script, strict=strict)
        agent = agent_for(server, tools, **settings)
        agent.server = server
        return agent

    return make


@pytest.fixture
def folder(tmp_path):
    """Give the place of a folder of sessions, which is not there yet."""
    return tmp_path / "sessions"


@pytest.fixture
def store(request, folder):
    """Give a store in that folder: of files, or what a module names as its `STORE`."""
    return getattr(request.module, "STORE", FileSessionStore)(folder)


@pytest.fixture
def path(folder, store):
    """Give the file of the session that `stored.talk` makes."""
    return folder / ("study-1.jsonl" if isinstance(store, FileSessionStore) else "study-1.ipynb")


@pytest.fixture(scope="module")
def chromium():
    """Give a real browser, no longer than a module wants it: on its thread no other event loop can run meanwhile."""
    with browser.chromium() as running:
        yield running


@pytest.fixture(scope="session")
def older_python(tmp_path_factory):
    """Return an interpreter with the last ipykernel of the generation before, and all else as it is here."""
    folder = tmp_path_factory.mktemp("ipykernel")
    venv.create(folder, with_pip=False)
    python = next(path for path in (folder / "bin" / "python", folder / "Scripts" / "python.exe") if path.exists())
    ask = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip())
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*install, "--target", packages, "ipykernel==6.31.*"], check=True)
    here = sysconfig.get_path("purelib")
    (packages / "here.pth").write_text(f"import site; site.addsitedir({here!r})\n")  # what is found after that one
    return python


@pytest.fixture(params=KERNELS)
def kernel(request):
    """A fresh kernel."""
    kernel = kernel_of(request)
    yield kernel
    kernel.close()
