"""Frames written to files and read again: what the documentation says of CSV and Parquet."""

import re
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import broken_transcripts, sessions
from test_frames import FRAMES

from cyclops_nb import AssistantMessage, Session, ToolCall, ToolMessage, UserMessage, messages_frame

PAGE = (Path(__file__).parents[1] / "docs" / "frames.md").read_text("utf-8")
[CSV] = re.findall(r"```python\n(import pandas as pd\n.*?)```", PAGE, re.DOTALL)
[PARQUET] = re.findall(r"```python\n(messages.to_parquet.*?)```", PAGE, re.DOTALL)
"""The documentation's ways there and back."""
in_a_folder = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
TEXTS = [
    "",
    " ",
    "\r\n",
    "a\rb",
    "\n\n",
    "\x00",
    "\"q\", 'p'",
    "NA",
    "nan",
    "null",
    "None",
    "\u2028",
    "\ufeffx",
    "😀",
    "1",
    "é\\",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plain(frame):
    """Return a frame without the columns of settings, which are not the same for all."""
    return frame[[name for name in frame.columns if not name.startswith("config.")]]


def from_csv(frame, kind):
    """Do what the documentation says, with another kind of frame."""
    names = {"messages": frame, "messages_frame": kind}
    exec(CSV.replace('"created_at"', '"started_at"') if "started_at" in frame else CSV, names)  # noqa: S102 - it is ours
    return names["back"]


class TestCsv:
    @pytest.mark.parametrize("kind", FRAMES)
    def test_of_nothing(self, folder, kind):
        """A frame without rows comes back with its columns and dtypes."""
        pd.testing.assert_frame_equal(from_csv(kind(), kind), kind())

    def test_of_odd_texts(self, folder):
        """Texts that look like numbers, like missing values or like line ends come back as they are."""
        session = Session("s", messages=[UserMessage(text) for text in TEXTS])
        frame = messages_frame(session)
        pd.testing.assert_frame_equal(from_csv(frame, messages_frame), frame, check_exact=True)

    @in_a_folder
    @given(st.lists(sessions(broken_transcripts), max_size=2))
    def test_of_any_sessions(self, folder, items):
        """Whatever stands in the sessions, the frame that is read is the frame that was written."""
        for kind in FRAMES:
            frame = plain(kind(items))
            pd.testing.assert_frame_equal(from_csv(frame, kind), frame, check_exact=True)


def from_parquet(frame, kind):
    """Do what the documentation says, with another kind of frame."""
    names = {"messages": frame, "dtypes": kind().dtypes, "pd": pd}
    exec(PARQUET, names)  # noqa: S102 - it is ours
    return names["back"]


@pytest.mark.slow  # pyarrow, which Parquet needs, is large and comes with what takes longer
class TestParquet:
    @in_a_folder
    @given(st.lists(sessions(broken_transcripts), max_size=2))
    def test_of_any_sessions(self, folder, items):
        """Whatever stands in the sessions, the frame that is read is the frame that was written, settings included."""
        for kind, expected in FRAMES.items():
            frame = kind(items)
            found = from_parquet(frame, kind)
            pd.testing.assert_frame_equal(found, frame, check_exact=True)
            assert {name: dtype.name for name, dtype in plain(found).dtypes.items()} == expected

    @pytest.mark.parametrize("kind", FRAMES)
    def test_of_a_conversation(self, folder, kind):
        """What was said, and what tools gave, is there when the file is read; so are frames without rows."""
        session = Session("s", messages=[UserMessage(text) for text in TEXTS])
        call = AssistantMessage(ToolCall("c", "f", '{"a": 1}'))
        session.messages += [call, ToolMessage("c", "f", "no", status="error")]
        for frame in (kind(session), kind()):
            pd.testing.assert_frame_equal(from_parquet(frame, kind), frame)
