"""Images and files in requests: in the form that servers take, which is not always the one that is kept."""

import textwrap

import pandas as pd
import pytest
from pictures import PDF, PNG, encoded
from scenarios import shape

from cyclops_nb import FilePart, ImagePart, Session
from cyclops_nb.testing import text, tool_call

LINES = "\r\n".join(textwrap.wrap(encoded(PNG + bytes(100)), 76)) + "\r\n"
PARTS = {
    "data": ImagePart(LINES, media_type="image/png"),
    "address": ImagePart(url=f"data:image/png;base64,{LINES}"),
    "file": FilePart("a.pdf", "\n".join(textwrap.wrap(encoded(PDF), 20)), "application/pdf"),
}


def sent(agent, request=0):
    """Return the content of the last message of a request."""
    return agent.server.completions[request].messages[-1]["content"]


@pytest.mark.parametrize("name", PARTS)
def test_base64_is_sent_in_one_line_and_kept_in_those_it_came_in(ask, name):
    """Servers take no line breaks in addresses; the transcript keeps them."""
    part = PARTS[name]
    agent = ask(text("A cat."))
    session = Session()
    agent.run(["Look:", part], session=session)
    (value,) = (item for item in sent(agent)[1].values() if isinstance(item, dict))
    url = value.get("url") or value.get("file_data")
    assert url == "".join((part.url if name == "address" else f"data:{part.media_type};base64,{part.data}").split())
    assert session.messages[0].content[1] == part


def test_text_files_are_sent_as_text(ask, tmp_path):
    """A text file arrives as text under its name, which every server takes; the transcript keeps the file."""
    path = tmp_path / "squares.csv"
    pd.DataFrame({"n": [1, 2]}).to_csv(path, index=False)
    agent = ask(text("Two rows."))
    session = Session()
    agent.run(["How many rows?", path, "In a word."], session=session)
    assert sent(agent) == "How many rows?\n\nFile squares.csv:\n\nn\n1\n2\n\n\nIn a word."
    assert session.messages[0].content[1] == FilePart("squares.csv", b"n\n1\n2\n", "text/csv")


def test_text_files_beside_pictures(ask):
    """Beside a picture a text file is a part of its own."""
    agent = ask(text("Yes."))
    agent.run(["Same?", FilePart("a.md", b"# A cat", "text/markdown"), ImagePart(PNG, media_type="image/png")])
    assert [part["type"] for part in sent(agent)] == ["text", "text", "image_url"]
    assert "# A cat" in sent(agent)[1]["text"]


def test_text_files_of_tools_stand_in_their_results(ask):
    """A text file that a tool returns is in its result; only what is no text follows it."""

    def read() -> FilePart:
        """Read."""
        return FilePart("a.json", b'{"a": 1}', "application/json")

    agent = ask(tool_call("read"), text("One."), tools=[read])
    session = Session()
    agent.run("Read.", session=session)
    assert sent(agent, 1) == '\n\nFile a.json:\n\n{"a": 1}\n\n'
    assert shape(session) == "uata"
