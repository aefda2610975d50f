"""Progress bars: where they are seen, and that nothing is left of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import nbformat
import pytest
from frontend import WIDGET, FrontEnd
from kernels import KERNELS, kernel_of
from nbclient import NotebookClient

from cyclops_nb import progress
from cyclops_nb.progress import progress as under_a_bar
from cyclops_nb.progress import progress_bar

PROGRAM = """
from cyclops_nb import progress
progress._DELAY = 0.0
for _ in progress.progress([1, 2, 3], "Reading things", unit="things"):
    pass
with progress.progress_bar("Downloading", total=1000, unit="B") as bar:
    bar.update(500)
print("done")
"""


def at_a_terminal(code):
    """Return what a program writes to a terminal."""
    import pty  # not on every system: pytest is to find the other tests there
    import termios

    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    with subprocess.Popen([sys.executable, "-c", code], stdout=theirs, stderr=theirs, stdin=theirs) as process:
        os.close(theirs)
        written = b""
        with contextlib.suppress(OSError):  # how Linux says that the other side is closed
            while piece := os.read(ours, 10_000):
                written += piece
    os.close(ours)
    assert process.returncode == 0
    return written.decode()


class TestTerminals:
    """Bars beside programs."""

    def test_have_bars_that_go(self):
        """The line is empty again when the work is done."""
        shown = at_a_terminal(PROGRAM)
        assert "Reading things" in shown
        assert "Downloading:   0%" in shown
        *_, last = shown.replace("\r\n", "\n").rstrip("\n").split("\r")
        assert last == "done"

    def test_streams_that_are_none_have_no_bars(self):
        """A log gets nothing."""
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == ("done\n", "")

    def test_short_work_does_not_even_load_them(self):
        """Importing tqdm takes longer than most lists."""
        code = "import sys\nfrom cyclops_nb.progress import progress\nlist(progress(range(10_000), 'x'))\n"
        assert "True" not in at_a_terminal(f"{code}print('tqdm' in sys.modules)")


class TestItems:
    """What is yielded."""

    @pytest.mark.parametrize("items", [[1, 2, 3], (n for n in (1, 2, 3)), []])
    def test_are_the_items(self, monkeypatch, items):
        """Each once and in order, with a bar or without, whether their number is known or not."""
        monkeypatch.setattr(progress, "_DELAY", 0.0)
        items = list(items) if isinstance(items, list) else items
        expected = [] if items == [] else [1, 2, 3]
        assert list(under_a_bar(items, "Reading")) == expected

    def test_an_error_comes_through(self, monkeypatch):
        """And the bar is closed."""
        monkeypatch.setattr(progress, "_DELAY", 0.0)

        def fail():
            yield from (1, 2)
            raise LookupError

        with pytest.raises(LookupError):
            list(under_a_bar(fail(), "Reading"))

    def test_a_bar_that_is_not_seen_takes_all_settings(self):
        """Those of tqdm."""
        with progress_bar("Downloading", total=10, unit="B", unit_scale=True) as bar:
            bar.update(5)


@pytest.fixture(scope="module", params=KERNELS)
def front(request):
    """Give a front end."""
    kernel = kernel_of(request)
    front = FrontEnd(kernel)
    front.run("import threading\nfrom cyclops_nb import progress\nprogress._DELAY = 0.0\nstep = threading.Event()")
    yield front
    kernel.close()


class TestCells:
    """Bars in notebooks."""

    @pytest.mark.parametrize("place", ["on the thread of the cell", "on another thread"])
    def test_have_a_widget_while_it_goes_on_and_then_nothing(self, front, place):
        """An output that is empty when the work is done, and no widget that is left in the kernel."""
        front.run("""
def work():
    with progress.progress_bar("Downloading", total=1000, unit="B") as bar:
        bar.update(500)
        step.wait(20)
step.clear()
""")
        if place == "on another thread":
            cell = front.run("thread = threading.Thread(target=work)\nthread.start()")
        else:
            front.run("threading.Timer(1, step.set).start()")
            cell = front.send("work()")
        front.wait_until(lambda: front.outputs[cell])
        (bundle,) = front.outputs[cell]
        assert set(bundle) == {WIDGET, "text/plain"}
        assert any("Downloading" in str(state.get("value")) for state in front.widgets.values())
        front.run("step.set()")
        front.wait_until(lambda: not front.widgets)
        assert front.outputs[cell] == [{"text/html": "", "text/plain": ""}]
        left = front.run("from ipywidgets.widgets.widget import _instances\nprint(len(_instances))")
        assert "".join(front.outputs[left]) == "0\n"
        assert front.errors == []

    def test_lists_of_stores_have_one(self, front, tmp_path):
        """Reading thousands of files takes its time on some disks."""
        front.run(f"""
from cyclops_nb import FileSessionStore, Session
store = FileSessionStore({str(tmp_path / "kept")!r})
for number in range(3):
    await store.save(Session(f"study-{{number}}"))
""")
        cell = front.run("found = await store.list()")
        front.wait_until(lambda: not front.widgets)
        assert front.outputs[cell] == [{"text/html": "", "text/plain": ""}]
        assert "".join(front.outputs[front.run("print(len(found))")]) == "3\n"

    def test_exports_of_sessions_have_one(self, front, tmp_path):
        """So has writing thousands of sessions into one notebook."""
        cell = front.run(f"""
from cyclops_nb import Session, export_notebook
path = export_notebook([Session(f"study-{{number}}") for number in range(3)], {str(tmp_path / "all.ipynb")!r})
""")
        front.wait_until(lambda: not front.widgets)
        assert front.outputs[cell] == [{"text/html": "", "text/plain": ""}]
        assert front.errors == []

    def test_kernels_without_widgets_have_none(self, front):
        """And nothing is said about it."""
        cell = front.run(f"""
import sys
kept = {{name: sys.modules.pop(name) for name in [*sys.modules] if name.startswith(("tqdm", "ipywidgets"))}}
sys.modules["ipywidgets"] = None
try:
    exec({PROGRAM!r})
finally:
    sys.modules.update(kept)
""")
        assert "".join(front.outputs[cell]) == "done\n"
        assert front.errors == []


@pytest.mark.slow
def test_a_notebook_that_is_only_executed_has_none(tmp_path):
    """Nobody sees it, and a dead widget would stay in the file."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(PROGRAM)])
    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert [output.text for output in notebook.cells[0].outputs] == ["done\n"]
    assert "widgets" not in notebook.metadata
