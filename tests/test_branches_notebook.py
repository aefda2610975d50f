"""The notebook about branches, run with the embedded model as a user runs it."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from cyclops_nb.cli import run_notebook
from cyclops_nb.stores import read_session

PATH = Path(__file__).parents[1] / "notebooks" / "branches.ipynb"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The executed notebook and the folder it ran in."""
    folder = tmp_path_factory.mktemp("branches")
    assert run_notebook(PATH, folder / "branches.ipynb")
    return nbformat.read(folder / "branches.ipynb", as_version=4), folder


def shown(notebook, cell_id, kind="text/plain"):
    """Return what a cell shows."""
    (cell,) = [cell for cell in notebook.cells if cell.id == cell_id]
    return "\n".join(output.text if output.output_type == "stream" else output.data[kind] for output in cell.outputs)


def test_is_kept_as_jupyter_writes_it_and_without_outputs():
    """The file is a valid notebook, byte for byte as JupyterLab saves it, and nobody's answers are in it."""
    text = PATH.read_text("utf-8")
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert text == nbformat.writes(notebook) + "\n"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


def test_leaves_html_in_place_of_the_explorer(executed):
    """The cell of the explorer shows the branches as they were at the end, and no output is a widget."""
    notebook, _ = executed
    assert "For a child, warmer" in shown(notebook, "explore")
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            assert "application/vnd.jupyter.widget-view+json" not in output.get("data", {})
            assert output.get("name") != "stderr"


def test_each_branch_is_a_real_conversation_and_is_stored(executed):
    """Five branches of the embedded model's own words stand in the store, the cut one and what was cut among them."""
    notebook, folder = executed
    sessions = {session.title: session for session in map(read_session, (folder / "sessions").iterdir())}
    lengths = {title: len(session.messages) for title, session in sessions.items()}
    assert lengths == {
        "Photosynthesis": 2,
        "Photosynthesis (2)": 4,
        "Why it matters": 4,
        "For a child": 4,
        "For a child, warmer": 4,
    }
    assert sessions["For a child"].messages[2].text == "Explain it to a child."
    assert sessions["For a child"].messages[3].text != sessions["For a child, warmer"].messages[3].text
    assert sessions["For a child"].messages[3].text in shown(notebook, "compare")


def test_the_code_is_what_was_done(executed):
    """The Python of a branch names the fork, the edit and the questions."""
    notebook, _ = executed
    assert shown(notebook, "edit").splitlines() == [
        "branch = session.fork(at=2)",
        "agent.run('Why does it matter?', session=branch)",
        "branch_2 = branch.edit(2, 'Explain it to a child.')",
        "agent.run(session=branch_2)",
    ]
