"""Images and files in runs: what is sent, what is kept, what is stored, and what a damaged one does."""

import asyncio
import textwrap
import threading

import pandas as pd
import pytest
from IPython.display import Image as NotebookImage
from matplotlib.figure import Figure
from pictures import HTML, JPEG, PDF, PNG, encoded, holds
from PIL import Image
from scenarios import FORMS, acall, begin, call, roles, shape

from cyclops_nb import (
    FilePart,
    FileSessionStore,
    ImagePart,
    InMemorySessionStore,
    InputError,
    Session,
    TextPart,
    UserMessage,
)
from cyclops_nb.testing import text, tool_call, tool_calls

DAMAGED = {
    "base64 that is cut off": ImagePart(encoded(PNG)[:-1], media_type="image/png"),
    "no base64": ImagePart("!!!!", media_type="image/png"),
    "another type": ImagePart(JPEG, media_type="image/png"),
    "a type that models do not take": ImagePart(b"II*\x00", media_type="image/tiff"),
    "a web page": ImagePart(HTML, media_type="image/png"),
    "an address on this machine": ImagePart(url="file:///tmp/cat.png"),
    "a PDF that is none": FilePart("a.pdf", HTML, "application/pdf"),
    "text in another encoding": FilePart("a.csv", "Köln".encode("latin-1"), "text/csv"),
    "a figure that cannot be drawn": Figure(),
    "a picture that cannot be drawn": Image.new("F", (2, 2)),
}
DAMAGED["a figure that cannot be drawn"].suptitle(r"$\frac{$")


def sent(agent, request=0):
    """Return the content of the last message of a request."""
    return agent.server.completions[request].messages[-1]["content"]


class Watched:
    """An object that remembers which thread has drawn it."""

    def __init__(self):
        self.threads = []

    def _repr_png_(self):
        self.threads.append(threading.get_ident())
        return PNG


class TestWhatIsSent:
    def test_pictures(self, ask, tmp_path):
        """Pictures arrive as OpenAI's chat API has them: data in an address, in their own type, or their address."""
        path = tmp_path / "cat.jpg"
        path.write_bytes(JPEG)
        agent = ask(text("Cats."))
        url = "https://example.org/cat.png"
        agent.run(["What is this?", NotebookImage(data=PNG), path, ImagePart(url=url)])
        assert sent(agent) == [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded(PNG)}"}},
            {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{encoded(JPEG)}"}},
            {"type": "image_url", "image_url": {"url": url}},
        ]

    def test_an_address_that_holds_its_picture(self, ask):
        """A picture in a data address is sent with that address."""
        agent = ask(text("A cat."))
        url = f"data:image/png;base64,{encoded(PNG)}"
        agent.run(ImagePart(url=url))
        assert sent(agent) == [{"type": "image_url", "image_url": {"url": url}}]

    def test_a_pdf(self, ask, tmp_path):
        """A PDF arrives as a file, with its name and its data in an address."""
        path = tmp_path / "paper.pdf"
        path.write_bytes(PDF)
        agent = ask(text("A paper."))
        agent.run([path, "What does it say?"])
        assert sent(agent) == [
            {
                "type": "file",
                "file": {"filename": "paper.pdf", "file_data": f"data:application/pdf;base64,{encoded(PDF)}"},
            },
            {"type": "text", "text": "What does it say?"},
        ]

    def test_a_table(self, ask):
        """A table arrives as text, so that any model can read it."""
        agent = ask(text("Paris."))
        agent.run(["Which is larger?\n", pd.DataFrame({"city": ["Paris", "Rome"], "people": [2, 1]})])
        assert sent(agent) == "Which is larger?\n    city  people\n0  Paris       2\n1   Rome       1"

    def test_figures(self, ask):
        """A figure arrives as the PNG that the transcript keeps."""
        figure = Figure(figsize=(1, 1))
        figure.subplots().plot([1, 4, 9])
        agent = ask(text("A curve."))
        session = Session()
        agent.run(["What is this?", figure], session=session)
        kept = session.messages[0].content[1]
        assert holds(kept)[1].startswith(PNG[:8])
        assert sent(agent)[1]["image_url"]["url"] == f"data:image/png;base64,{kept.data}"

    @pytest.mark.parametrize("form", FORMS)
    def test_by_every_form(self, ask, form):
        """Every way in takes pictures, and draws them on the thread that calls it."""
        agent = ask(text("A cat."))
        watched = Watched()
        session = Session()
        assert call(agent, form, ["Look:", watched], session=session) == "A cat."
        assert set(watched.threads) == {threading.get_ident()}
        assert holds(session.messages[0].content[1]) == ("image/png", PNG)
        assert sent(agent)[1]["image_url"]["url"].endswith(encoded(PNG))

    def test_by_forms_inside_a_running_loop(self, ask):
        """In a cell, where a loop runs, the thread of the cell draws."""
        watched = Watched()
        agent = ask(*[text("A cat.")] * 5)

        async def cell():
            for form in ("arun", "arun_with_response", "astream", "astream_events", "start"):
                await acall(agent, form, watched)

        asyncio.run(cell())
        assert watched.threads == [threading.get_ident()] * 5


class TestWhatIsKept:
    LINES = "\n".join(textwrap.wrap(encoded(PNG + bytes(100)), 76)) + "\n"

    @pytest.mark.parametrize("data", [encoded(PNG), LINES], ids=["one line", "lines"])
    def test_base64_is_kept_as_it_was_sent(self, data):
        """Base64 stands in the session, its JSON and what is loaded from it letter for letter, line breaks included."""
        session = Session(messages=[UserMessage([ImagePart(data, media_type="image/png"), FilePart("a", data, "a/b")])])
        loaded = Session.model_validate_json(session.model_dump_json())
        assert [part.data for part in session.messages[0].content] == [data, data]
        assert [part.data for part in loaded.messages[0].content] == [data, data]

    def test_once_per_message(self, ask):
        """The JSON of a session holds the data once for each message that has it, not again for runs and settings."""
        agent = ask(text("A cat."), text("Still a cat."))
        session = Session()
        data = encoded(PNG + bytes(range(256)))
        agent.run(["Look:", ImagePart(data, media_type="image/png")], session=session)
        assert session.model_dump_json().count(data) == 1
        assert session.messages[0].content[1].data == data
        agent.run(["Again:", ImagePart(data, media_type="image/png")], session=session)
        assert session.model_dump_json().count(data) == 2

    @pytest.mark.parametrize("durability", ["async", "sync", "exit"])
    def test_once_in_a_file(self, ask, tmp_path, durability):
        """The file of a stored session holds the data once, in the line that was written with its message."""
        data = encoded(PNG + bytes(range(256)))
        script = [tool_call("look"), text("A cat."), text("And so on.")]
        agent = ask(*script, tools=[_look], session_store=FileSessionStore(tmp_path), durability=durability)
        session = Session("s")
        for question in (["Look:", ImagePart(data, media_type="image/png")], "Go on."):
            agent.run(question, session=session)
            lines = (tmp_path / "s.jsonl").read_text("utf-8").splitlines()
            assert [line.count(data) for line in lines] == [1] + [0] * (len(lines) - 1)
        loaded = asyncio.run(FileSessionStore(tmp_path).load("s"))
        assert loaded.messages[0].content[1].data == data

    def test_forks_share_it(self, ask):
        """A fork has the same message objects, so a picture is in memory once; and is sent by it again."""
        agent = ask(text("A cat."), text("A dog."))
        session = Session()
        agent.run(["Look:", ImagePart(PNG, media_type="image/png")], session=session)
        fork = session.fork(at=1)
        assert fork.messages[0] is session.messages[0]
        agent.run(session=fork)
        assert sent(agent, 1) == sent(agent, 0)

    def test_the_given_message_is_kept(self, ask):
        """A message that was made by hand is the one in the transcript, and its data is not copied."""
        data = encoded(PNG)
        message = UserMessage([TextPart("Look:"), ImagePart(data, media_type="image/png")])
        session = Session()
        ask(text("A cat.")).run(message, session=session)
        assert session.messages[0].content[1].data is data

    def test_files_on_disk_are_read_once(self, ask, tmp_path):
        """What is kept is what the file said when it was sent."""
        path = tmp_path / "cat.png"
        path.write_bytes(PNG)
        agent = ask(text("A cat."), text("Yes."))
        session = Session()
        agent.run(["Look:", path], session=session)
        path.write_bytes(JPEG)
        agent.run("Sure?", session=session)
        assert holds(session.messages[0].content[1]) == ("image/png", PNG)
        assert agent.server.completions[1].messages[0] == agent.server.completions[0].messages[0]


def _look() -> str:
    """Look."""
    return "seen"


class TestDamagedInput:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("what", DAMAGED)
    def test_is_found_before_anything_is_done(self, ask, form, what):
        """Every way in raises at once; nothing is asked, appended or stored, and the session is free."""
        store = InMemorySessionStore()
        agent = ask(text("never asked"), session_store=store)
        session = Session("s", messages=[UserMessage("Hi")])
        before = session.model_dump_json()
        with pytest.raises(InputError):
            begin(agent, form, ["Look:", DAMAGED[what]], session=session)
        assert session.model_dump_json() == before
        assert not session.busy
        assert agent.server.requests == []
        assert asyncio.run(store.load("s")) is None

    def test_leaves_the_session_usable(self, ask):
        """After a refusal the next question is answered as if nothing had been."""
        agent = ask(text("A cat."))
        session = Session()
        with pytest.raises(InputError):
            agent.run(["Look:", DAMAGED["a web page"]], session=session)
        agent.run(["Look:", NotebookImage(data=PNG)], session=session)
        assert shape(session) == "ua"

    def test_that_is_stored_already_does_not_stop_a_session(self, ask, tmp_path):
        """Odd data in a stored session is sent as it is: it is the server who judges."""
        odd = ImagePart("oops", media_type="image/png")
        store = FileSessionStore(tmp_path)
        asyncio.run(store.save(Session("s", messages=[UserMessage(odd)])))
        agent = ask(text("A cat."), strict=False, session_store=store)
        session = agent.open("s")
        assert session.messages[0].content == (odd,)
        agent.run("Go on.", session=session)
        assert "oops" in agent.server.completions[0].messages[0]["content"][0]["image_url"]["url"]


class TestResults:
    @pytest.mark.parametrize("on_tool_error", ["answer", "raise"])
    @pytest.mark.parametrize("what", DAMAGED)
    def test_a_damaged_one_is_told_to_the_model(self, ask, what, on_tool_error):
        """A tool that returns a damaged picture has an error result, and the run goes on."""

        def draw() -> object:
            return ["A plot:", DAMAGED[what]]

        agent = ask(tool_call("draw"), text("Sorry."), tools=[draw], on_tool_error=on_tool_error)
        session = Session()
        assert agent.run("Draw.", session=session) == "Sorry."
        assert shape(session) == "uaea"
        result = session.messages[2]
        assert [part.type for part in result.content] == ["text"]
        assert sent(agent, 1) == result.text
        assert "A plot:" not in result.text

    def test_a_good_one_beside_it_is_kept(self, ask):
        """A damaged result does not touch those of the other calls."""

        def draw() -> object:
            return DAMAGED["a web page"]

        def show() -> object:
            return Image.new("RGB", (2, 2))

        agent = ask(tool_calls(tool_call("draw"), tool_call("show")), text("Done."), tools=[draw, show])
        session = Session()
        agent.run("Draw and show.", session=session)
        assert shape(session) == "uaeta"
        assert "web page" in roles(session)[2][1]
        assert [part["type"] for part in sent(agent, 1)] == ["text", "image_url"]

    def test_is_drawn_once(self, ask):
        """What a tool returns in a list is drawn once."""
        watched = Watched()

        def draw() -> object:
            return ["A plot:", watched]

        agent = ask(tool_call("draw"), text("Done."), tools=[draw])
        agent.run("Draw.")
        assert len(watched.threads) == 1

    def test_a_picture_of_a_thread_of_its_own(self, ask):
        """Figures that tools draw in their threads are results like others."""

        def plot() -> object:
            figure = Figure(figsize=(1, 1))
            figure.subplots().plot([1, 2])
            return figure.axes[0]

        agent = ask(tool_call("plot"), text("Done."), tools=[plot])
        session = Session()
        agent.run("Plot.", session=session)
        assert holds(session.messages[2].content[0])[1].startswith(PNG[:8])
