"""The quickstart notebook, run by the demo command with the embedded model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import cyclops_nb
from cyclops_nb import AssistantMessage
from cyclops_nb.cli import quickstart_path
from cyclops_nb.models.download import cache_folder
from cyclops_nb.stores import read_session

SECONDS = 600


class Demo:
    """The demo command, run once in an empty home for all tests here."""

    def __init__(self, folder):
        self.home, self.output = folder / "home", folder / "demo"
        self.home.mkdir()
        package = Path(cyclops_nb.__file__).parents[1]
        environment = os.environ | {"HOME": str(self.home), "PYTHONPATH": str(package), "COLUMNS": "200"}
        # the model is fetched once for all tests of a user, not once for each run of this one
        environment["CYCLOPS_NB_CACHE"] = str(cache_folder().parent)
        command = [sys.executable, "-m", "cyclops_nb", "demo", "--output", str(self.output)]
        self.done = subprocess.run(
            command, check=False, capture_output=True, text=True, encoding="utf-8", timeout=SECONDS, env=environment
        )
        self.notebook = nbformat.read(self.output / "quickstart.ipynb", as_version=4)
        self.sessions = {read_session(path).title: read_session(path) for path in (self.output / "sessions").iterdir()}

    def shown(self, cell_id, kind="text/plain"):
        """Return what a cell shows."""
        (cell,) = [cell for cell in self.notebook.cells if cell.id == cell_id]
        (output,) = cell.outputs
        return output.text if output.output_type == "stream" else output.data[kind]

    def outputs(self):
        """Return all outputs."""
        return [output for cell in self.notebook.cells if cell.cell_type == "code" for output in cell.outputs]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The demo, run to its end."""
    return Demo(tmp_path_factory.mktemp("demo"))


class TestCommitted:
    """The notebook as it is kept."""

    def test_it_is_valid_and_written_as_jupyter_writes_it(self):
        """The file is a valid notebook with cell ids, byte for byte as JupyterLab saves it."""
        text = quickstart_path().read_text("utf-8")
        notebook = nbformat.reads(text, as_version=4)
        nbformat.validate(notebook)
        assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
        assert text == nbformat.writes(notebook) + "\n"

    def test_it_has_no_outputs(self):
        """No cell has an output or a number of execution."""
        cells = [cell for cell in nbformat.read(quickstart_path(), as_version=4).cells if cell.cell_type == "code"]
        assert all(not cell.outputs and cell.execution_count is None for cell in cells)


@pytest.mark.timeout(SECONDS)
class TestDemo:
    """The demo command's result."""

    def test_it_succeeds_and_says_where_the_results_are(self, demo):
        """The command ends well, and names the notebook, the page and the sessions."""
        assert demo.done.returncode == 0, demo.done.stderr
        for name in ("quickstart.ipynb", "quickstart.html", "sessions"):
            assert f"  {demo.output / name}\n" in demo.done.stdout

    def test_answers_are_told(self, demo):
        """The terminal shows each heading, and the answers."""
        headings = [cell.source.splitlines()[0] for cell in demo.notebook.cells if cell.source.startswith("## ")]
        assert headings
        assert all(f"] {heading[3:]}\n" in demo.done.stdout for heading in headings)
        assert demo.shown("stream") in demo.done.stdout

    def test_no_cell_fails_or_complains(self, demo):
        """All cells have run, and none has an error or anything on stderr."""
        cells = [cell for cell in demo.notebook.cells if cell.cell_type == "code"]
        assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
        assert not [output for output in demo.outputs() if output.output_type == "error"]
        assert not [output for output in demo.outputs() if output.get("name") == "stderr"]

    def test_answers_are_real(self, demo):
        """Every answer in the sessions is text of the embedded model, with its usage."""
        answers = [
            message
            for session in demo.sessions.values()
            for message in session.messages
            if isinstance(message, AssistantMessage)
        ]
        assert len(answers) == 7
        for answer in answers:
            assert answer.model == "local"
            assert len(answer.text.split()) > 3
            assert answer.usage.output_tokens > 3

    def test_streamed_answer_is_words(self, demo):
        """The streamed cell has one output with a whole sentence."""
        assert len(demo.shown("stream").split()) > 3

    def test_branches_part_after_a_common_beginning(self, demo):
        """The fork has the first four messages of its origin, and goes on with others."""
        origin, child = demo.sessions["Photosynthesis"], demo.sessions["For a child"]
        assert child.parent.session_id == origin.id
        assert child.parent.message_count == 4
        assert child.messages[:4] == origin.messages[:4]
        assert child.messages[4].text != origin.messages[4].text
        assert child.messages[5].text != origin.messages[5].text
        comparison = demo.shown("compare")
        assert child.messages[5].text in comparison
        assert origin.messages[5].text in comparison

    def test_usage_table_sums_to_the_runs(self, demo):
        """The tokens in the table, summed by column, are those of the runs in the saved sessions."""
        table = demo.shown("runs")
        rows = re.findall(r"^\d+ .*?\s(\d+)\s+(\d+)\s+[\d.e-]+\s+[\d.]+$", table, re.MULTILINE)
        runs = {run.id: run for session in demo.sessions.values() for run in session.runs}
        last = demo.sessions["Photosynthesis"].runs[-1]
        shown = [run for run in runs.values() if run.id != last.id]  # made after the table
        assert len(rows) == len(shown) == 5
        assert sum(int(row[0]) for row in rows) == sum(run.usage.input_tokens for run in shown)
        assert sum(int(row[1]) for row in rows) == sum(run.usage.output_tokens for run in shown)
        assert all(run.cost > 0 for run in shown)

    def test_loaded_sessions_are_equal(self, demo):
        """What the notebook loads again equals what it saved."""
        assert demo.shown("load") == "[True, True]"

    def test_tools_are_said_to_be_scripted(self, demo):
        """The one section that a script answers says so, and its tool has really run."""
        (said,) = [cell.source for cell in demo.notebook.cells if cell.id == "tools-title"]
        assert "scripted" in said
        assert "6" in demo.shown("tools")

    def test_everything_shown_is_html_that_needs_nothing(self, demo):
        """No output has a script or a widget, and the notebook keeps no widget state."""
        for output in demo.outputs():
            data = output.get("data", {})
            assert "application/vnd.jupyter.widget-view+json" not in data
            assert "<script" not in data.get("text/html", "")
        assert "widgets" not in demo.notebook.metadata
        assert "<script" not in (demo.output / "quickstart.html").read_text("utf-8")

    def test_nothing_is_written_elsewhere(self, demo):
        """The home folder stays empty, and the output folder has the three results alone."""
        assert not [path for path in demo.home.rglob("*") if path.is_file()]
        names = {path.name for path in demo.output.iterdir()}
        assert names == {"quickstart.ipynb", "quickstart.html", "sessions"}
