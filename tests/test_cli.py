"""The command, and how it runs a notebook."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import cyclops_nb
from cyclops_nb.cli import main, quickstart_path, run_notebook
from cyclops_nb.errors import ConfigError

SECONDS = 60


@pytest.fixture
def run(tmp_path, capsys):
    """Give a function that runs cells as a notebook, and returns whether all ran, stdout, stderr and the result."""

    def start(*cells, target="out/result.ipynb"):
        source = write(tmp_path / "source.ipynb", *cells)
        has_ended = run_notebook(source, tmp_path / target)
        said = capsys.readouterr()
        return has_ended, said.out, said.err, nbformat.read(tmp_path / target, as_version=4)

    return start


def write(path, *cells):
    """Write a notebook; what begins with # is a heading."""
    nodes = [new_markdown_cell(cell) if cell.startswith("#") else new_code_cell(cell) for cell in cells]
    nbformat.write(new_notebook(cells=nodes), path)
    return path


class TestCommandLine:
    """What is said about the command itself."""

    def test_a_command_is_needed(self, capsys):
        """Without a command the usage is shown and the exit status is 2."""
        with pytest.raises(SystemExit) as caught:
            main([])
        assert caught.value.code == 2
        assert "usage: cyclops-nb" in capsys.readouterr().err

    def test_version(self, capsys):
        """The version is the package's."""
        with pytest.raises(SystemExit) as caught:
            main(["--version"])
        assert caught.value.code == 0
        assert capsys.readouterr().out == f"cyclops-nb {cyclops_nb.__version__}\n"

    def test_module_is_the_command(self):
        """The package can be run as a module."""
        command = [sys.executable, "-m", "cyclops_nb", "demo", "--help"]
        environment = os.environ | {"PYTHONPATH": str(Path(cyclops_nb.__file__).parents[1])}
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS, env=environment)
        assert done.returncode == 0
        assert "--output DIR" in done.stdout
        assert "--lab" in done.stdout

    def test_quickstart_is_found(self):
        """The quickstart notebook is where the command looks for it."""
        assert json.loads(quickstart_path().read_text("utf-8"))["nbformat"] == 4


class TestMissingPackages:
    """What is said where something is not installed."""

    @pytest.mark.parametrize("package", ["ipykernel", "nbclient", "nbconvert", "xllamacpp"])
    def test_demo_names_the_extra(self, monkeypatch, capsys, tmp_path, package):
        """A missing package is named with the extra that has it, and nothing is written."""
        monkeypatch.setitem(sys.modules, package, None)
        assert main(["demo", "--output", str(tmp_path / "demo")]) == 1
        said = capsys.readouterr()
        assert package in said.err
        assert 'pip install "cyclops-nb[demo]"' in said.err
        assert "Traceback" not in said.err
        assert not list(tmp_path.iterdir())

    def test_lab_is_asked_for_at_once(self, monkeypatch, capsys, tmp_path):
        """A missing JupyterLab is said before the demo runs, not after it."""
        monkeypatch.setitem(sys.modules, "jupyterlab", None)
        assert main(["demo", "--lab", "--output", str(tmp_path / "demo")]) == 1
        assert "pip install jupyterlab" in capsys.readouterr().err
        assert not list(tmp_path.iterdir())


class TestRunning:
    """A notebook that runs to its end."""

    def test_cells_are_told_with_their_headings(self, run):
        """Each cell is told with its number, the heading above it, and what it printed and shows, below the code that it comes from."""
        has_ended, out, err, _ = run("# Sums", "print('one')\n2", "## More\nand text", "3")
        assert has_ended
        assert err == ""
        told = re.sub(r"\d+\.\d s", "0.0 s", out)
        assert "\n[1/2] Sums\n  > 2\n  one\n  2\n  (0.0 s)\n\n[2/2] More\n  > 3\n  3\n  (0.0 s)\n" in told

    @pytest.mark.parametrize(
        ("cell", "told"),
        [
            ("x = 1\nfor i in [x]:\n    print(i)\n", ["> for i in [x]:", ">     print(i)", "1"]),
            ("'a\x1b[2Jb'", ["> 'ab'", "'a\\x1b[2Jb'"]),
            ("await asyncio.sleep(0, 'async')", ["> await asyncio.sleep(0, 'async')", "'async'"]),
            ("%precision", ["> %precision", "'%r'"]),
            ("[1,\n2,\n3,\n4]", ["> [1,", "> 2,", "> …", "[1, 2, 3, 4]"]),
            ("1\n# one", ["> 1", "1"]),
        ],
    )
    def test_results_stand_below_the_code_that_they_come_from(self, run, cell, told):
        """The last statement of a cell, cut if it is long, is told before what the cell shows."""
        out = run("import asyncio", cell)[1].partition("[2/2]")[2]
        assert [line.removeprefix("  ") for line in out.splitlines()[1 : 1 + len(told)]] == told

    def test_notebook_is_written_with_outputs_and_source_left(self, run, tmp_path):
        """The result has outputs and numbers of execution; the source keeps having none."""
        _, out, _, result = run("1 + 1")
        assert result.cells[0].outputs[0].data["text/plain"] == "2"
        assert result.cells[0].execution_count == 1
        assert not nbformat.read(tmp_path / "source.ipynb", as_version=4).cells[0].outputs
        assert str(tmp_path / "out" / "result.ipynb") in out

    def test_it_runs_in_the_output_folder(self, run, tmp_path):
        """What cells write without a folder is beside the result."""
        run("from pathlib import Path; Path('made').write_text('x')")
        assert (tmp_path / "out" / "made").read_text() == "x"

    def test_page_needs_no_network(self, run, tmp_path):
        """The HTML copy shows the outputs, and loads nothing from anywhere."""
        run("# A title", "print('hello' * 2)")
        page = (tmp_path / "out" / "result.html").read_text("utf-8")
        assert "hellohello" in page
        assert "<script" not in page
        assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)

    def test_pieces_become_one_output(self, run):
        """A stream that was printed in pieces is one output, as JupyterLab saves it."""
        result = run("for i in range(9):\n    print(i, end='', flush=True)")[3]
        assert [output.text for output in result.cells[0].outputs] == ["012345678"]

    def test_widgets_leave_no_state(self, run):
        """A widget shown in a cell leaves no state in the metadata of the notebook."""
        result = run("import ipywidgets\nipywidgets.IntSlider()")[3]
        assert "widgets" not in result.metadata

    def test_what_is_printed_is_seen_at_once(self, tmp_path):
        """Printed text is shown while its cell still runs."""
        source = write(
            tmp_path / "a.ipynb",
            "print('first')\nimport pathlib, time\nwhile not pathlib.Path('seen').exists(): time.sleep(0.01)",
        )

        class Screen(io.StringIO):
            def write(self, text):
                if "first" in text:
                    (tmp_path / "seen").touch()
                return super().write(text)

        with contextlib.redirect_stdout(Screen()):
            assert run_notebook(source, tmp_path / "b.ipynb")

    def test_text_cannot_steer_the_terminal(self, run):
        """Control characters in what is printed or shown do not reach the terminal."""
        out = run("print('a\\x1b[31mb\\x1b[2Jc\\x07')\nclass X:\n    def __repr__(self): return 'd\\x1b]0;e'\nX()")[1]
        assert "  abc\n  d]0;e\n" in out
        assert "\x1b" not in out

    def test_long_results_are_cut_on_screen_only(self, run):
        """Of a long result the first lines are shown, and how many more there are."""
        out = run("class X:\n    def __repr__(self): return '\\n'.join(map(str, range(100)))\nX()")[1]
        assert "\n  29\n  … 70 more lines in the notebook\n" in out


class TestKernel:
    """Which kernel it is, and what it leaves."""

    def test_it_is_this_python_and_home_stays_clean(self, run, monkeypatch, tmp_path):
        """The kernel is of this Python, whatever kernel is installed as python3, and writes nothing into the home."""
        home = tmp_path / "home"
        installed = home / ".local/share/jupyter/kernels/python3"
        installed.mkdir(parents=True)
        spec = {"argv": ["/no/such/python", "{connection_file}"], "display_name": "other", "language": "python"}
        (installed / "kernel.json").write_text(json.dumps(spec))
        for name in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "XDG_DATA_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(home))
        has_ended, out, _, _ = run("import sys; print(sys.executable)", "history = 1")
        assert has_ended
        assert sys.executable in out
        assert [path for path in home.rglob("*") if path.is_file()] == [installed / "kernel.json"]

    def test_it_has_the_same_package(self, run):
        """The kernel imports the package that the command comes from."""
        assert str(Path(cyclops_nb.__file__).parent) in run("import cyclops_nb; print(cyclops_nb.__file__)")[1]


class TestFailing:
    """A notebook that does not run to its end."""

    def test_failing_cell_is_named_and_the_rest_not_run(self, run):
        """The first failing cell is named with its error; what was executed is written, error and all."""
        has_ended, out, err, result = run("# Title", "1", "raise ValueError('no \\x1b[2J good')", "3")
        assert not has_ended
        assert err == 'cyclops-nb: cell 2 ("Title") failed: ValueError: no  good\n'
        assert "Stopped after" in out
        assert [len(cell.outputs) for cell in result.cells if cell.cell_type == "code"] == [1, 1, 0]
        assert result.cells[2].outputs[0].ename == "ValueError"

    def test_failing_notebook_has_a_page(self, run, tmp_path):
        """The HTML copy is written also if a cell fails."""
        run("raise ValueError('not good')")
        assert "not good" in (tmp_path / "out" / "result.html").read_text("utf-8")

    def test_dead_kernel_is_told_with_its_last_words(self, run):
        """If the kernel dies, the cell is named, and what the kernel wrote on its way is shown."""
        has_ended, _, err, result = run(
            "1", "import os, sys; sys.__stderr__.write('out of memory\\n'); sys.__stderr__.flush(); os._exit(3)"
        )
        assert not has_ended
        assert f"the kernel of {sys.executable} ended in cell 2" in err
        assert "\n  out of memory" in err
        assert result.cells[0].outputs

    def test_folder_that_is_a_file_is_refused(self, tmp_path):
        """Where nothing can be written, that is said before anything is run."""
        source = write(tmp_path / "source.ipynb", "1")
        (tmp_path / "file").touch()
        with pytest.raises(ConfigError, match="cannot be written"):
            run_notebook(source, tmp_path / "file" / "result.ipynb")

    def test_interrupt_ends_the_kernel_and_writes_what_there_is(self, tmp_path):
        """After Ctrl-C no kernel is left, and the notebook has what was executed."""
        source = write(
            tmp_path / "source.ipynb",
            "import os; print('pid', os.getpid())",
            "import time; print('waits'); time.sleep(600)",
        )
        target = tmp_path / "result.ipynb"
        program = f"from pathlib import Path\nfrom cyclops_nb.cli import run_notebook\nrun_notebook(Path({str(source)!r}), Path({str(target)!r}))"
        environment = os.environ | {"PYTHONPATH": str(Path(cyclops_nb.__file__).parents[1])}
        with subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as process:
            said = ""
            while "waits" not in said:
                said += process.stdout.readline()
            process.send_signal(signal.SIGINT)
            rest, error = process.communicate(timeout=SECONDS)
        pid = int(re.search(r"pid (\d+)", said)[1])
        assert error.rstrip().endswith("KeyboardInterrupt")
        assert "Stopped after" in rest
        assert nbformat.read(target, as_version=4).cells[0].outputs
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
