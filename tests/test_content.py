"""Input and results: what notebook objects become when they are sent to a model."""

import base64
import dataclasses
import datetime as dt
import decimal
import enum
import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from IPython.display import Image as NotebookImage
from matplotlib.figure import Figure
from PIL import Image
from pydantic import BaseModel
from strategies import json_values, moderate, texts

from cyclops_nb.content import MAX_TABLE_ROWS, input_messages, input_parts, result_parts
from cyclops_nb.errors import InputError
from cyclops_nb.messages import AssistantMessage, FilePart, ImagePart, TextPart, ToolCall, ToolMessage, UserMessage


def png():
    """Return the bytes of a small picture."""
    buffer = io.BytesIO()
    Image.new("RGB", (2, 2), "red").save(buffer, "PNG")
    return buffer.getvalue()


def is_png(part):
    return part.media_type == "image/png" and base64.b64decode(part.data).startswith(b"\x89PNG\r\n")


def only(parts):
    """Return the one part that there is."""
    (part,) = parts
    return part


@dataclasses.dataclass
class Point:
    x: float


class Model(BaseModel):
    n: int


class Mode(enum.Enum):
    FAST = "fast"


class TestEmptyFiles:
    @pytest.mark.parametrize("name", ["data.csv", "plot.png"])
    def test_a_path_without_data_is_refused(self, tmp_path, name):
        """An empty file is empty input, and the error names it."""
        (tmp_path / name).touch()
        with pytest.raises(InputError, match=f"input is empty.*{name}"):
            input_messages(["What is this?", tmp_path / name])

    @pytest.mark.parametrize(
        "part", [FilePart("a.txt", b"", "text/plain"), ImagePart(b"", media_type="image/png")], ids=["file", "image"]
    )
    @pytest.mark.parametrize("wrap", [lambda part: [part, "?"], lambda part: UserMessage([part])])
    def test_a_part_without_data_is_refused(self, part, wrap):
        """A file or image without data is empty input too, as a part or in a message."""
        with pytest.raises(InputError, match=r"input is empty.*no data in .*(a\.txt|image/png)"):
            input_messages(wrap(part))


class TestInput:
    def test_text_is_a_user_message(self):
        """Text becomes one user message of one text part."""
        message = only(input_messages("Hello"))
        assert isinstance(message, UserMessage)
        assert message.content == (TextPart("Hello"),)

    def test_parts_and_texts_of_a_list_are_one_message(self):
        """A list of texts, parts and notebook objects is one message, in that order."""
        message = only(input_messages(["What is this?", ImagePart(png(), media_type="image/png"), Path(__file__)]))
        assert [part.type for part in message.content] == ["text", "image", "file"]

    def test_messages_stay_as_they_are(self):
        """Messages of any role are taken as they are, and what stands between them is put together."""
        question, answer = UserMessage("2+2?"), AssistantMessage("4")
        messages = input_messages([question, answer, "and", "3+3?"])
        assert messages[:2] == [question, answer]
        assert messages[0] is question
        assert [part.text for part in messages[2].content] == ["and", "3+3?"]

    def test_a_tuple_is_a_list(self):
        """A tuple counts as a list."""
        assert only(input_messages(("a", "b"))).text == "ab"

    @pytest.mark.parametrize(
        "value", ["", " \n\t", [], (), ["", " "], UserMessage(""), [UserMessage([])], ["x", UserMessage(" ")]]
    )
    def test_nothing_to_say_is_refused(self, value):
        """Empty input, or blank text alone, is refused before a model is asked, saying how to ask without input."""
        with pytest.raises(InputError, match="input=None"):
            input_messages(value)

    def test_blank_text_beside_a_picture_is_allowed(self):
        """A picture needs no words."""
        assert len(only(input_messages(["", ImagePart(png(), media_type="image/png")])).content) == 2

    def test_messages_without_text_are_allowed_from_others(self):
        """An answer that only calls tools, and an empty result, are no empty input."""
        assert len(input_messages([AssistantMessage(ToolCall("a", "f")), ToolMessage("a", "f", "")])) == 2

    @pytest.mark.parametrize("value", [None, 3, {"a": 1}, object(), b"bytes", [["nested"]], [None], {"a"}, UserMessage])
    def test_what_cannot_be_sent_is_refused(self, value):
        """Anything else is refused, naming its type and what can be sent."""
        with pytest.raises(InputError, match=r"cannot be sent to a model: give text"):
            input_messages(value)

    @given(texts)
    def test_any_text_can_be_encoded(self, text):
        """Whatever text is given, what is sent can be encoded."""
        only(input_parts(text)).text.encode()


class TestPaths:
    def test_a_picture_becomes_an_image(self, tmp_path):
        """The path of a picture becomes an image of its type."""
        path = tmp_path / "a.png"
        path.write_bytes(png())
        part = only(input_parts(path))
        assert is_png(part)

    def test_anything_else_becomes_a_file(self, tmp_path):
        """Any other path becomes a file with its name alone, its type, and its bytes."""
        path = tmp_path / "plan.pdf"
        path.write_bytes(b"%PDF-")
        assert only(input_parts(path)) == FilePart("plan.pdf", b"%PDF-", "application/pdf")
        path = tmp_path / "noextension"
        path.write_bytes(b"\x00")
        assert only(input_parts(path)).media_type == "application/octet-stream"

    def test_that_cannot_be_read_are_refused(self, tmp_path):
        """A path that does not exist, or is a folder, is refused by name."""
        for path in (tmp_path / "missing.txt", tmp_path):
            with pytest.raises(InputError, match=r"cannot read .*" + path.name):
                input_parts(path)


class TestPictures:
    def test_a_figure(self):
        """A matplotlib figure becomes a PNG, without pyplot."""
        figure = Figure(figsize=(1, 1))
        figure.subplots().plot([1, 2])
        assert is_png(only(input_parts(figure)))

    def test_a_pil_image(self):
        """A PIL image becomes a PNG."""
        assert is_png(only(input_parts(Image.new("RGB", (2, 2)))))

    def test_a_notebook_image(self):
        """An image of IPython is sent with its data, also where it has a width, or by its address."""
        assert is_png(only(input_parts(NotebookImage(data=png()))))
        assert is_png(only(input_parts(NotebookImage(data=png(), width=10))))
        assert only(input_parts(NotebookImage(url="https://example.org/a.png"))) == ImagePart(
            url="https://example.org/a.png"
        )

    def test_a_jpeg(self):
        """What shows itself as a JPEG is sent as one."""
        buffer = io.BytesIO()
        Image.new("RGB", (2, 2)).save(buffer, "JPEG")
        part = only(input_parts(NotebookImage(data=buffer.getvalue(), format="jpeg")))
        assert part.media_type == "image/jpeg"
        assert base64.b64decode(part.data) == buffer.getvalue()

    def test_of_a_tool(self):
        """A picture that a tool returns is a picture, alone or in a list with text."""
        picture = Image.new("RGB", (2, 2))
        assert is_png(only(result_parts(picture)))
        assert [part.type for part in result_parts([picture, "a caption", Point(1)])] == ["image", "text", "text"]


class TestTables:
    FRAME = pd.DataFrame({"city": ["Paris", "Köln"], "n": [1, None]})

    @pytest.mark.parametrize("parts", [input_parts, result_parts])
    def test_a_frame_is_a_text_table(self, parts):
        """A DataFrame is sent as a table in text, as input and as a result."""
        text = only(parts(self.FRAME)).text
        assert all(word in text for word in ("city", "Paris", "Köln", "NaN"))

    def test_a_series_is_one_too(self):
        """A Series is sent as text with its index."""
        text = only(result_parts(pd.Series([1, 2], index=["a", "b"], name="count"))).text
        assert all(word in text for word in ("a", "b", "count"))

    @pytest.mark.parametrize("table", [pd.DataFrame({"n": range(5000)}), pd.Series(range(5000))])
    def test_a_long_one_is_cut_and_says_so(self, table):
        """A long table is cut in the middle, with its true size below."""
        text = only(result_parts(table)).text
        assert len(text.splitlines()) <= MAX_TABLE_ROWS + 5
        assert "5000" in text
        assert "4999" in text

    def test_one_as_long_as_allowed_is_whole(self):
        """A table of just the allowed length is not cut."""
        text = only(result_parts(pd.DataFrame({"n": range(MAX_TABLE_ROWS)}))).text
        assert len(text.splitlines()) == MAX_TABLE_ROWS + 1

    def test_inside_other_data_keeps_its_rows(self):
        """A table inside a dict or list is sent row by row and not as the names of its columns."""
        frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
        rows = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
        assert json.loads(only(result_parts({"frame": frame})).text) == {"frame": rows}
        assert json.loads(only(result_parts([[frame]])).text) == [[rows]]

    def test_missing_values_in_data_are_null(self):
        """Missing values of pandas and numpy become null."""
        data = {"a": pd.NA, "b": np.nan, "c": pd.Series([1, pd.NA], dtype="Int64")}
        assert json.loads(only(result_parts(data)).text) == {"a": None, "b": None, "c": [1, None]}


class TestResults:
    def test_text_stays_text(self):
        """A text result is sent as it is and not quoted."""
        assert only(result_parts('say "hi"')).text == 'say "hi"'

    @moderate
    @given(json_values())
    def test_any_json_data_is_json(self, value):
        """Any JSON data is sent as JSON that reads the same, and can be encoded."""
        if isinstance(value, str):
            return
        text = only(result_parts(value)).text
        text.encode()
        assert json.loads(text) == json.loads(json.dumps(value).encode().decode()) or "\ufffd" in text

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (None, "null"),
            (True, "true"),
            (1.5, "1.5"),
            (float("nan"), "null"),
            (float("inf"), "null"),
            ([1, (2, 3)], "[1, [2, 3]]"),
            ({"ä": 1, 2: 3}, '{"ä": 1, "2": 3}'),
            (np.float32(1.5), "1.5"),
            (np.arange(4).reshape(2, 2), "[[0, 1], [2, 3]]"),
            ({"a": np.int64(3), "b": np.array([True])}, '{"a": 3, "b": [true]}'),
            (Point(1.0), '{"x": 1.0}'),
            ([Model(n=1), {"m": Model(n=2)}], '[{"n": 1}, {"m": {"n": 2}}]'),
            (Mode.FAST, '"fast"'),
            (dt.datetime(2025, 3, 1, 9, 0), '"2025-03-01T09:00:00"'),
            (decimal.Decimal("1.10"), '"1.10"'),
            ({"x\ud800": "y\udc00"}, '{"x\ufffd": "y\ufffd"}'),
            (b"text", '"text"'),
            (2**70, str(2**70)),
        ],
    )
    def test_what_can_be_put_into_json_is(self, value, text):
        """Data of the usual kinds is sent as JSON."""
        assert only(result_parts(value)).text == text

    def test_parts_stay_parts(self):
        """Parts are sent as they are, and beside them anything else as text."""
        part = TextPart("a")
        assert result_parts(part) == [part]
        assert [item.text for item in result_parts([part, {"b": 1}])] == ["a", '{"b": 1}']

    @pytest.mark.parametrize("value", [object(), {"a": object()}, lambda: None, int, b"\xff\xfe", ValueError("x")])
    def test_what_cannot_is_refused(self, value):
        """A result that nobody could read is refused, naming its type and what to return."""
        with pytest.raises(InputError, match=rf"a {type(value).__name__} cannot be sent.*return text"):
            result_parts(value)

    def test_data_that_contains_itself_is_refused(self):
        """A list that contains itself is refused and does not run forever."""
        loop: list = []
        loop.append(loop)
        with pytest.raises(InputError):
            result_parts(loop)

    def test_a_picture_that_fails_to_draw_itself_is_refused(self):
        """An object whose picture cannot be made is refused with the reason."""

        class Broken:
            def _repr_png_(self):
                raise RuntimeError("no renderer")

        with pytest.raises(InputError, match="Broken cannot be drawn: RuntimeError: no renderer"):
            result_parts(Broken())


def test_one_long_cell_does_not_pad_all_rows():
    """A table that would be mostly blanks is sent without them."""
    table = pd.DataFrame({"a": ["x" * 5000, *["y"] * 199], "b": range(200)})
    (message,) = input_messages(table)
    assert len(message.text) < 12_000
    assert "x" * 5000 in message.text
    assert "  199" in message.text
