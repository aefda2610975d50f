"""Does with a notebook what its user does: reads it, edits cells, puts some in and takes some out."""

import json
import subprocess
import warnings

import nbformat

from cyclops_nb.messages import AssistantMessage, ImagePart, ReasoningPart, TextPart, ToolCall, ToolMessage, UserMessage
from cyclops_nb.runs import Run
from cyclops_nb.session import Session
from cyclops_nb.usage import Usage

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def conversation():
    """Return a session with a picture, reasoning, two calls and their results, and an answer."""
    session = Session("study-1", title="Weather")
    config = {"model": "m", "system_prompt": "Be brief.", "temperature": 0.5}
    run = Run(session_id="study-1", model="m", config="c1", usage=Usage(2, 100, 20), cost=0.01, stop_reason="completed")
    session.configs["c1"] = config
    session.runs.append(run)
    session.messages += [
        UserMessage([TextPart("How warm is it here?\nAnd there?"), ImagePart(PNG, media_type="image/png")]),
        AssistantMessage(
            [
                ReasoningPart("I need the weather."),
                TextPart("I look."),
                ToolCall("call_1", "get_weather", '{"city": "Paris"}'),
                ToolCall("call_2", "get_weather", '{"city": "Rome"}'),
            ],
            model="m",
            duration=1.5,
            usage=Usage(1, 50, 10),
        ),
        ToolMessage("call_1", "get_weather", "11 °C"),
        ToolMessage("call_2", "get_weather", "19 °C"),
        AssistantMessage("It is 11 °C in Paris.\n\nIt costs $5 to $6, and\n19 °C in Rome."),
        UserMessage("Thanks."),
        AssistantMessage("You are welcome."),
    ]
    return session


def read(path):
    return json.loads(path.read_bytes())


def write(path, notebook):
    """Write a notebook as JupyterLab does."""
    nbformat.write(nbformat.from_dict(notebook), path)


def source(cell):
    return "".join(cell["source"])


def kinds(path):
    """Return what the cells are: the kinds of ours, the texts of the user's."""
    found = []
    for cell in read(path)["cells"]:
        data = cell["metadata"].get("cyclops_nb")
        found.append(source(cell) if data is None else data.get("index", data["kind"]))
    return found


def cell_of(notebook, index):
    """Return the cell of the message with an index, or of the head or foot."""
    for cell in notebook["cells"]:
        data = cell["metadata"].get("cyclops_nb", {})
        if data.get("index", data.get("kind")) == index:
            return cell
    raise LookupError(index)


def edit(path, index, old, new):
    """Replace a text in the cell of a message."""
    notebook = read(path)
    cell = cell_of(notebook, index)
    assert old in source(cell)
    cell["source"] = source(cell).replace(old, new)
    write(path, notebook)


def take_out(path, *indices):
    notebook = read(path)
    for index in indices:
        notebook["cells"].remove(cell_of(notebook, index))
    write(path, notebook)


def put_in(path, after, *cells):
    """Put cells behind that of a message."""
    notebook = read(path)
    place = notebook["cells"].index(cell_of(notebook, after)) + 1
    notebook["cells"][place:place] = cells
    write(path, notebook)


def note(text):
    return nbformat.v4.new_markdown_cell(text)


def code(text, *outputs):
    return nbformat.v4.new_code_cell(text, outputs=list(outputs), execution_count=3)


def check_valid(path):
    """Fail unless the file is a valid notebook, laid out as nbformat writes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
        nbformat.validate(notebook)
    ids = [cell["id"] for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    assert "widgets" not in notebook.metadata
    assert f"{nbformat.writes(notebook)}\n".encode() == path.read_bytes()


def changed_lines(before, after, folder):
    """Return how many lines git says were added and removed, and the lines that were removed."""
    (folder / "a").write_bytes(before)
    (folder / "b").write_bytes(after)
    command = ["git", "diff", "--no-index", "--unified=0", "a", "b"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if not line.startswith(("---", "+++"))]
    return [line[1:] for line in lines if line.startswith("+")], [line[1:] for line in lines if line.startswith("-")]
