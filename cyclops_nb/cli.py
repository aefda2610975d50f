"""The command ``cyclops-nb``: shows in a terminal what the library does, without a key and without a browser.

The demo is the quickstart notebook and nothing else, so it cannot drift away from what users are told. It runs in a
kernel of its own, of this very Python: no installed kernel is looked for, because the one that is called ``python3``
may belong to another environment. What a kernel writes beside its work (IPython's profile, connection files) goes
into a temporary folder, and the home folder stays as it is.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cyclops_nb._version import __version__
from cyclops_nb.errors import ConfigError, CyclopsError, MissingExtraError
from cyclops_nb.models.download import SMOLLM2, cache_folder, fetch

__all__ = ["main", "quickstart_path", "run_notebook"]

_PACKAGE = Path(__file__).parent
_CELL_SECONDS = 600
_STARTUP_SECONDS = 120
_SHOWN_LINES = 30
_LOG_LINES = 10
_CODE_LINES = 3
_INTERRUPTED = 130  # the exit status of what Ctrl-C ended, as shells have it
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = dict.fromkeys(code for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n")
# nbconvert's page without the scripts that it loads from elsewhere, which nothing in the notebook needs, and with code
# that can be scrolled where it is wider than the window
_PAGE = """\
{%- extends 'index.html.j2' -%}
{%- block html_head_js -%}{%- endblock html_head_js -%}
{%- block html_head_js_mathjax -%}{%- endblock html_head_js_mathjax -%}
{%- block html_head_js_mermaidjs -%}{%- endblock html_head_js_mermaidjs -%}
{%- block html_head_css -%}<style>.jp-InputArea-editor { overflow-x: auto; }</style>{%- endblock html_head_css -%}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        The command line without the command's own name; that of the process by default.

    Returns
    -------
    int
        The exit status: 0, or another number if something failed, which was then said on stderr.

    Examples
    --------
    >>> main(["demo", "--output", "cyclops-demo"])
    0
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a model may use letters that the terminal does not have
    options = _parser().parse_args(arguments)
    try:
        return _demo(Path(options.output), in_lab=options.lab)
    except CyclopsError as error:
        _complain(str(error))
        return 1
    except BrokenPipeError:  # whoever read stdout has left; the interpreter must not flush into it either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        _complain("interrupted")
        return _INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cyclops-nb", description="An LLM agent library made for Jupyter.")
    parser.add_argument("--version", action="version", version=f"cyclops-nb {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="command")
    demo = commands.add_parser(
        "demo",
        help="run the quickstart notebook with the embedded model",
        description="Run the quickstart notebook with the embedded model, which needs no key, and leave in a folder: "
        "the executed notebook (quickstart.ipynb), a copy to read in a browser (quickstart.html), and the sessions it "
        "saved (sessions/). The notebook and the copy of an earlier demo are replaced.",
    )
    demo.add_argument("--output", metavar="DIR", default="cyclops-demo", help="the folder (default: ./cyclops-demo)")
    demo.add_argument("--lab", action="store_true", help="open the executed notebook in JupyterLab afterwards")
    return parser


def _demo(folder: Path, *, in_lab: bool) -> int:
    _require("the demo", 'pip install "cyclops-nb[demo]"', "ipykernel", "nbclient", "nbconvert", "xllamacpp")
    if in_lab:
        _require("--lab", "pip install jupyterlab", "jupyterlab")
    model = fetch(SMOLLM2, cache_folder())  # here, where the progress bar is seen, and not in the kernel
    _write(f"The embedded model: {model}\n")
    notebook = folder / "quickstart.ipynb"
    if not run_notebook(quickstart_path(), notebook):
        return 1
    return _open_in_lab(notebook) if in_lab else 0


def _require(what: str, remedy: str, *packages: str) -> None:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise MissingExtraError(
            f"{what} needs {', '.join(missing)}, which {verb} not installed: {remedy}", name=missing[0]
        )


def _open_in_lab(notebook: Path) -> int:
    process = subprocess.Popen([sys.executable, "-m", "jupyterlab", str(notebook)])  # noqa: S603 - this interpreter
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue  # JupyterLab has heard it too, and asks whether to stop


def quickstart_path() -> Path:
    """Return where the quickstart notebook is.

    Returns
    -------
    Path
        Inside the package where that is installed; beside it in a checkout.

    Examples
    --------
    >>> quickstart_path().name
    'quickstart.ipynb'
    """
    installed = _PACKAGE / "notebooks" / "quickstart.ipynb"
    return installed if installed.is_file() else _PACKAGE.parent / "notebooks" / "quickstart.ipynb"


def run_notebook(source: Path, target: Path) -> bool:
    """Run a notebook in a new kernel of this Python, say on stdout what happens, and write it with its outputs.

    Parameters
    ----------
    source : Path
        The notebook; it stays as it is.
    target : Path
        Where to write it, with an HTML copy beside it. Its folder, made if it is missing, is the one it runs in.

    Returns
    -------
    bool
        Whether all cells have run. If one fails, that is said on stderr and the rest is not run; what was executed is
        written all the same.

    Raises
    ------
    ConfigError
        If the folder or the files in it cannot be written.

    Examples
    --------
    >>> run_notebook(quickstart_path(), Path("cyclops-demo/quickstart.ipynb"))
    True
    """
    import nbformat

    notebook = nbformat.read(source, as_version=4)  # type: ignore[no-untyped-call]
    page = target.with_suffix(".html")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for path in (target, page):
            path.open("a").close()  # what cannot be written is better known before all the work
    except OSError as error:
        problem = f"{str(error.filename)!r} cannot be written: {error.strerror}"
        raise ConfigError(f"{problem}; give another folder") from error
    screen = _Screen()
    began = time.perf_counter()
    has_ended = False
    failure: str | None = None
    try:
        failure = _execute(notebook, target.parent, screen)
        has_ended = failure is None
    finally:
        nbformat.write(notebook, target)  # type: ignore[no-untyped-call]
        page.write_text(_as_page(notebook, target.stem), encoding="utf-8")
        how = "All cells have run" if has_ended else "Stopped"
        written = [path for path in (target, page, target.parent / "sessions") if path.exists()]
        screen.title(f"{how} after {time.perf_counter() - began:.0f} s. Written:")
        screen.stream("".join(f"{path}\n" for path in written))
    if failure is not None:
        _complain(failure)
    return has_ended


def _execute(notebook: Any, folder: Path, screen: _Screen) -> str | None:
    """Run the cells one by one, leaving the outputs in `notebook`; return what went wrong."""
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    count = sum(cell.cell_type == "code" for cell in notebook.cells)
    number, heading = 0, "Start"
    with tempfile.TemporaryDirectory(prefix="cyclops-nb-", ignore_cleanup_errors=True) as scratch:
        client, log = _client(notebook, Path(scratch), screen), Path(scratch, "kernel.log")
        screen.note("Starting a kernel …")
        try:
            with (
                log.open("wb") as errors,
                client.setup_kernel(cwd=str(folder), env=_environment(scratch), stderr=errors),
            ):
                language = {"name": "python", "pygments_lexer": "ipython3"} | notebook.metadata.get("language_info", {})
                notebook.metadata["language_info"] = language | {"version": platform.python_version()}
                for index, cell in enumerate(notebook.cells):
                    if cell.cell_type != "code":
                        heading = _last_heading(cell.source) or heading
                        continue
                    number += 1
                    screen.title(f"[{number}/{count}] {heading}")
                    screen.code(_last_statement(cell.source))
                    began = time.perf_counter()
                    client.execute_cell(cell, index, execution_count=number)
                    screen.outputs(cell.outputs)
                    screen.note(f"({time.perf_counter() - began:.1f} s)")
        except CellExecutionError as error:
            return f'cell {number} ("{heading}") failed: {_plain(f"{error.ename}: {error.evalue}")}'
        except CellTimeoutError:
            return f'cell {number} ("{heading}") did not end within {_CELL_SECONDS} s'
        except RuntimeError as error:
            where = f'in cell {number} ("{heading}")' if number else "before its first cell"
            return f"the kernel of {sys.executable} ended {where}: {error}{_last_words(log)}"
    return None


def _last_words(log: Path) -> str:
    lines = _plain(log.read_text("utf-8", errors="replace")).splitlines()
    return "".join(f"\n  {line}" for line in lines[-_LOG_LINES:] if "WARNING |" not in line)


def _client(notebook: Any, scratch: Path, screen: _Screen) -> Any:
    """Return what runs the cells, and shows what they print while they print it."""
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    class Client(NotebookClient):
        def create_kernel_manager(self) -> Any:
            # with no folders to look into, ipykernel's own specification is left: that of sys.executable
            specs = KernelSpecManager(kernel_dirs=[])
            file = str(scratch / "kernel.json")
            self.km = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=specs, connection_file=file)
            return self.km

        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            output = super().process_message(msg, cell, cell_index)
            if output is not None and output.output_type == "stream":
                screen.stream(output.text)
            return output

    return Client(
        notebook,
        timeout=_CELL_SECONDS,
        startup_timeout=_STARTUP_SECONDS,
        coalesce_streams=True,  # as JupyterLab does: one output, and not one for each piece
        record_timing=False,
        store_widget_state=False,
    )


def _environment(scratch: str) -> dict[str, str]:
    """Return the environment of the kernel: nothing goes into the home folder, and a checkout can be imported."""
    environment = os.environ | {"IPYTHONDIR": scratch, "JUPYTER_RUNTIME_DIR": scratch}
    if not quickstart_path().is_relative_to(_PACKAGE):
        paths = [str(_PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return environment


def _last_heading(source: str) -> str:
    lines = [line.lstrip("#").strip() for line in source.splitlines() if line.startswith("#")]
    return lines[-1] if lines else ""


def _last_statement(source: str) -> str:
    """Return the code that a cell's result comes from: its last statement, or its last line if it is no Python."""
    lines = source.strip().splitlines() or [""]
    try:
        body = ast.parse("\n".join(lines)).body
    except SyntaxError:
        return lines[-1]
    return "\n".join(lines[body[-1].lineno - 1 : body[-1].end_lineno]) if body else lines[-1]


def _as_page(notebook: Any, title: str) -> str:
    """Return the notebook as an HTML page that needs nothing from the network."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(theme="light", raw_template=_PAGE)  # type: ignore[no-untyped-call]
    page: str = exporter.from_notebook_node(notebook, resources={"metadata": {"name": title}})[0]
    return page


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _complain(text: str) -> None:
    sys.stderr.write(f"cyclops-nb: {text}\n")


def _plain(text: str) -> str:
    """Return text that cannot move the terminal's cursor or change its colours."""
    return _ANSI.sub("", text).translate(_CONTROL)


class _Screen:
    """Writes to the terminal, each cell's outputs indented below its title."""

    def __init__(self) -> None:
        self._is_line_open = False

    def title(self, text: str) -> None:
        """Begin a part."""
        self._close_line()
        _write(f"\n{text}\n")

    def stream(self, text: str) -> None:
        """Go on writing."""
        for piece in _plain(text).splitlines(keepends=True):
            _write(piece if self._is_line_open else f"  {piece}")
            self._is_line_open = not piece.endswith("\n")

    def outputs(self, outputs: Sequence[Any]) -> None:
        """Write what the cell shows, as text and not all of it if it is long; what it printed stands there already."""
        for output in outputs:
            if output.output_type in {"display_data", "execute_result"}:
                lines = str(output.data.get("text/plain", "")).splitlines()
                self._close_line()
                self.stream("\n".join(lines[:_SHOWN_LINES]))
                if len(lines) > _SHOWN_LINES:
                    self.note(f"… {len(lines) - _SHOWN_LINES} more lines in the notebook")

    def code(self, text: str) -> None:
        """Write code, its first lines, dimly where a terminal can."""
        lines = _plain(text).splitlines()
        if len(lines) > _CODE_LINES:
            lines[_CODE_LINES - 1 :] = ["…"]
        begin, end = ("\x1b[2m", "\x1b[22m") if sys.stdout.isatty() and "NO_COLOR" not in os.environ else ("", "")
        _write("".join(f"  {begin}> {line}{end}\n" for line in lines))

    def note(self, text: str) -> None:
        """Write a line of its own."""
        self._close_line()
        self.stream(f"{text}\n")

    def _close_line(self) -> None:
        if self._is_line_open:
            _write("\n")
            self._is_line_open = False
