"""Frames: documented columns and dtypes, each run and message counted once, nothing that is no plain cell."""

import base64
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import broken_transcripts, moderate, sessions

from cyclops_nb.frames import messages_frame, runs_frame, steps_frame, tool_calls_frame
from cyclops_nb.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    ReasoningPart,
    SummaryMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from cyclops_nb.runs import Run, RunError
from cyclops_nb.session import Session
from cyclops_nb.stores import InMemorySessionStore
from cyclops_nb.transcript import find_problems
from cyclops_nb.usage import Usage

RUN_DTYPES = {
    "session_id": "string",
    "index": "Int64",
    "run_id": "string",
    "kind": "category",
    "model": "string",
    "config": "string",
    "started_at": "datetime64[us, UTC]",
    "duration": "Float64",
    "steps": "Int64",
    "requests": "Int64",
    "input_tokens": "Int64",
    "output_tokens": "Int64",
    "cached_tokens": "Int64",
    "reasoning_tokens": "Int64",
    "cost": "Float64",
    "usage_complete": "boolean",
    "stop_reason": "string",
    "error": "string",
    "warnings": "string",
    "rating": "Float64",
    "inherited": "boolean",
}


MESSAGE_DTYPES = {
    "session_id": "string",
    "index": "Int64",
    "message_id": "string",
    "run_id": "string",
    "role": "category",
    "created_at": "datetime64[us, UTC]",
    "text": "string",
    "reasoning": "string",
    "tool_calls": "Int64",
    "call_id": "string",
    "tool_name": "string",
    "status": "category",
    "model": "string",
    "finish_reason": "string",
    "input_tokens": "Int64",
    "output_tokens": "Int64",
    "cached_tokens": "Int64",
    "reasoning_tokens": "Int64",
    "cost": "Float64",
    "duration": "Float64",
    "images": "Int64",
    "files": "Int64",
    "media_types": "string",
    "bytes": "Int64",
    "rating": "Float64",
    "note": "string",
    "tags": "string",
    "inherited": "boolean",
}

STEP_DTYPES = {
    "session_id": "string",
    "index": "Int64",
    "message_id": "string",
    "run_id": "string",
    "step": "Int64",
    "created_at": "datetime64[us, UTC]",
    "model": "string",
    "finish_reason": "string",
    "text": "string",
    "reasoning": "string",
    "tool_calls": "Int64",
    "failed_calls": "Int64",
    "input_tokens": "Int64",
    "output_tokens": "Int64",
    "cached_tokens": "Int64",
    "reasoning_tokens": "Int64",
    "cost": "Float64",
    "duration": "Float64",
    "tools_duration": "Float64",
    "tokens_per_second": "Float64",
    "inherited": "boolean",
}

TOOL_CALL_DTYPES = {
    "session_id": "string",
    "index": "Int64",
    "message_id": "string",
    "run_id": "string",
    "call": "Int64",
    "call_id": "string",
    "created_at": "datetime64[us, UTC]",
    "tool_name": "string",
    "arguments": "string",
    "result_index": "Int64",
    "status": "category",
    "result": "string",
    "duration": "Float64",
    "images": "Int64",
    "files": "Int64",
    "media_types": "string",
    "bytes": "Int64",
    "inherited": "boolean",
}

FRAMES = {
    runs_frame: RUN_DTYPES,
    messages_frame: MESSAGE_DTYPES,
    steps_frame: STEP_DTYPES,
    tool_calls_frame: TOOL_CALL_DTYPES,
}


TOKENS = ("requests", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


def run(session_id="s", **fields):
    fields = {"usage": Usage(1, 10, 5, 4, 3), "cost": 0.5, **fields}
    return Run(session_id=session_id, **{"model": "m", **fields})


def dtypes(frame):
    """Return the columns with the names of their dtypes, as the documentation spells them."""
    return {name: dtype.name for name, dtype in frame.dtypes.items()}


def section(name):
    """Return what the documentation says of the columns of a frame."""
    page = (Path(__file__).parents[1] / "docs" / "frames.md").read_text("utf-8")
    return page.partition(f"### Columns of `{name}`\n")[2].partition("\n#")[0]


def asked(session, text, run_id=None):
    """Add a question and its answer, said in this session."""
    made = run(session.id, **({"id": run_id} if run_id else {}))
    session.runs.append(made)
    session.messages.extend([UserMessage(text, run_id=made.id), AssistantMessage(text.upper(), run_id=made.id)])
    return session


class TestColumns:
    @pytest.mark.parametrize(("frame", "expected"), FRAMES.items())
    def test_of_nothing(self, frame, expected):
        """A frame of no sessions, and of an empty session, has all columns with their dtypes, in order."""
        for empty in (frame(), frame([]), frame(Session()), frame(InMemorySessionStore())):
            assert list(empty.columns) == list(expected)
            assert dtypes(empty) == expected
            assert len(empty) == 0

    @moderate
    @given(st.lists(sessions(broken_transcripts), max_size=2), st.booleans())
    def test_of_any_sessions(self, items, inherited):
        """Whatever stands in the sessions, columns and dtypes are the same, so that frames can be put together."""
        for frame, expected in FRAMES.items():
            found = frame(items, inherited=inherited)
            plain = found[[name for name in found.columns if not name.startswith("config.")]]
            assert list(plain.columns) == list(expected)
            assert dtypes(plain) == expected
            assert dtypes(pd.concat([plain, frame()])) == expected

    @moderate
    @given(sessions(broken_transcripts))
    def test_have_plain_cells_only(self, session):
        """No cell is a dict, a list or an object of the library, and no picture is in the frame."""
        for frame in FRAMES:
            found = frame(session)
            for column in found.columns:
                for value in found[column]:
                    assert pd.api.types.is_scalar(value), (column, value)

    @pytest.mark.parametrize("frame", FRAMES)
    def test_are_told_as_they_are(self, frame):
        """The documentation of a frame, in its docstring and on its page, has each column with its dtype."""
        lines = [line.split() for line in frame.__doc__.splitlines()]
        told = {words[0].strip("`"): " ".join(words[1:]) for words in lines if len(words) > 1}
        for name, dtype in FRAMES[frame].items():
            assert told[name].startswith(dtype), name
            row = re.search(
                rf"^\| (?:`\w+`, )*`{name}`(?:, `\w+`)* \| ([^|]*) \|", section(frame.__name__), re.MULTILINE
            )
            assert row, name
            assert row[1].startswith(dtype), name

    def test_of_damaged_numbers(self):
        """Numbers that no server counts, as a damaged file may have, are unknown, and hide nothing else."""
        odd = Usage(1, 10**30, 2**63, 10**400, 3)
        session = Session("s", runs=[run(usage=odd, steps=10**20)])
        session.messages.append(AssistantMessage("a", usage=odd, duration=1.0))
        for row in (runs_frame(session).iloc[0], messages_frame(session).iloc[0], steps_frame(session).iloc[0]):
            assert [row[name] for name in TOKENS[1:]] == [pd.NA, pd.NA, pd.NA, 3]

    @pytest.mark.parametrize("moment", [datetime.min, datetime.max])
    def test_of_the_ends_of_time(self, moment):
        """A moment that UTC does not have is unknown; the frame is there all the same."""
        there = moment.replace(tzinfo=timezone(timedelta(hours=12 if moment == datetime.min else -12)))
        session = Session("s", messages=[AssistantMessage(ToolCall("c", "f"), created_at=there)])
        session.runs.append(run(started_at=there))
        for frame in FRAMES:
            assert len(frame(session)) == 1
            assert frame(session).iloc[0].isna()["started_at" if frame is runs_frame else "created_at"]

    def test_can_be_grouped_and_written(self):
        """A frame can be grouped by its categories and written as CSV."""
        frame = messages_frame(asked(Session("s"), "a"))
        counts = frame.groupby("role", observed=True).size().to_dict()
        assert counts == {"user": 1, "assistant": 1}
        assert frame.to_csv().count("\n") == 3

    def test_pandas_is_loaded_on_use(self):
        """Importing the module does not load pandas."""
        code = "import sys, cyclops_nb.frames; print('pandas' in sys.modules)"
        assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


class TestRunRows:
    def test_say_what_the_record_says(self):
        """A row has the facts of the record; error and warnings are text."""
        record = run(
            id="r",
            kind="compaction",
            config="k",
            started_at=datetime(2025, 3, 1, 9, 0, 0, 123456, tzinfo=UTC),
            duration=1.5,
            steps=2,
            usage_complete=False,
            stop_reason="error",
            error=RunError(type="RateLimitError", message="Slow down"),
            warnings=("One.", "Two."),
        )
        row = runs_frame(Session("s", runs=[run(), record])).iloc[1].to_dict()
        assert row == {
            "session_id": "s",
            "index": 1,
            "run_id": "r",
            "kind": "compaction",
            "model": "m",
            "config": "k",
            "started_at": pd.Timestamp("2025-03-01 09:00:00.123456", tz="UTC"),
            "duration": 1.5,
            "steps": 2,
            "requests": 1,
            "input_tokens": 10,
            "output_tokens": 5,
            "cached_tokens": 4,
            "reasoning_tokens": 3,
            "cost": 0.5,
            "usage_complete": False,
            "stop_reason": "error",
            "error": "RateLimitError: Slow down",
            "warnings": "One.; Two.",
            "rating": None,
            "inherited": False,
        }

    def test_what_is_unknown_is_missing(self):
        """What a run did not report is <NA>, and never 0."""
        record = run(usage=None, cost=None, stop_reason=None)
        row = runs_frame(Session("s", runs=[record])).iloc[0]
        for name in (*TOKENS, "cost", "duration", "config", "stop_reason", "error", "warnings", "rating"):
            assert row[name] is pd.NA

    def test_times_are_in_utc(self):
        """A time of another zone is the same moment in UTC."""
        moment = datetime(2025, 3, 1, 9, 0, tzinfo=timezone(timedelta(hours=5, minutes=30)))
        row = runs_frame(Session("s", runs=[run(started_at=moment)])).iloc[0]
        assert row["started_at"] == pd.Timestamp("2025-03-01 03:30", tz="UTC")

    @moderate
    @given(sessions())
    def test_add_up_to_the_usage_of_the_session(self, session):
        """The usage columns and the cost sum up to what the session says, where all of it is known."""
        frame = runs_frame(session)
        assert len(frame) == len(session.runs)
        if session.usage is not None:
            for name in TOKENS:
                assert int(frame[name].sum()) == getattr(session.usage, name)
        else:
            assert frame["requests"].isna().any()
        if session.cost is not None:
            assert float(frame["cost"].sum()) == pytest.approx(session.cost)
        else:
            assert frame["cost"].isna().any()


class TestSettings:
    def frame(self, *configs, keys=None):
        keys = [str(number) for number in range(len(configs))] if keys is None else keys
        return runs_frame(
            Session(
                "s",
                configs={str(number): config for number, config in enumerate(configs)},
                runs=[run(config=key) for key in keys],
            )
        )

    def columns(self, *configs, keys=None):
        return [name for name in self.frame(*configs, keys=keys).columns if name.startswith("config.")]

    def test_that_differ_are_columns(self):
        """There is a column for each setting that is not the same in all rows, after the others."""
        frame = self.frame({"model": "m", "seed": 1}, {"model": "m", "seed": 2, "top_p": 0.5})
        assert list(frame.columns)[-2:] == ["config.seed", "config.top_p"]
        assert frame["config.seed"].tolist() == [1, 2]
        assert frame["config.top_p"].tolist() == [pd.NA, 0.5]

    def test_that_are_the_same_are_not(self):
        """Settings that all rows share are no columns."""
        assert self.columns({"model": "m", "stop": ["a"]}, {"model": "m", "stop": ["a"]}) == []
        assert self.columns({"temperature": 0}, {"temperature": 0.0}) == []
        assert self.columns({"seed": None}, {}) == []
        assert self.columns({"seed": 1}, {"seed": 2}, keys=["1", "1"]) == []

    @pytest.mark.parametrize(
        ("values", "dtype"),
        [
            ((True, False), "boolean"),
            ((1, 2), "Int64"),
            ((0, 0.5), "Float64"),
            (("a", "b"), "string"),
            ((True, 1), "string"),
            ((1, "a"), "string"),
            ((1, 2**70), "string"),
            (([1], [2]), "string"),
        ],
    )
    def test_have_the_dtype_of_their_values(self, values, dtype):
        """Numbers, booleans and texts have their dtype; what is mixed or nested is text."""
        frame = self.frame(*({"x": value} for value in values))
        assert frame["config.x"].dtype.name == dtype
        assert frame["config.x"].notna().all()

    def test_that_are_nested_are_json_text(self):
        """Lists and objects are shown as JSON text with sorted keys, texts as they are."""
        frame = self.frame({"x": {"b": [1, {"ä": None}], "a": "t"}}, {"x": "plain"})
        assert frame["config.x"].tolist() == ['{"a": "t", "b": [1, {"ä": null}]}', "plain"]

    def test_that_are_unknown_are_missing(self):
        """Runs without known settings have <NA>, and make no columns of what all others share."""
        assert self.columns({"seed": 1}, keys=["0", None, "lost"]) == []
        frame = self.frame({"seed": 1}, {"seed": 2}, keys=["0", "1", None, "lost"])
        assert frame["config.seed"].tolist() == [1, 2, pd.NA, pd.NA]

    def test_of_several_sessions_are_compared(self):
        """Settings are compared over all rows, whichever session they come from."""
        first = Session("a", configs={"k": {"seed": 1}}, runs=[run("a", config="k")])
        second = Session("b", configs={"k": {"seed": 2}}, runs=[run("b", config="k")])
        assert runs_frame(first, second)["config.seed"].tolist() == [1, 2]

    def test_of_rows_that_are_not_shown_do_not_count(self):
        """A setting that differs only in a row which is shown elsewhere makes no column."""
        origin = Session("a", configs={"k": {"seed": 1}}, runs=[run("a", config="k")])
        fork = origin.fork()
        fork.configs["k"] = {"seed": 2}
        assert "config.seed" not in runs_frame(origin, fork).columns


class TestMessageRows:
    def test_of_each_role(self):
        """A row has what its role has, and <NA> for the rest."""
        session = Session(
            "s",
            messages=[
                UserMessage([TextPart("a"), ImagePart(b"12345", media_type="image/png"), TextPart("b")]),
                AssistantMessage(
                    [ReasoningPart("hm"), TextPart("wait"), ToolCall("c1", "f"), ToolCall("c2", "g")],
                    model="m-1",
                    finish_reason="tool_calls",
                    usage=Usage(1, 10, 5, 4, 3),
                    cost=0.25,
                    duration=1.5,
                ),
                ToolMessage(
                    "c1", "f", [FilePart("a", b"1234", "b/c"), ImagePart(url="https://example.org/a.png")], duration=0.5
                ),
                ToolMessage("c2", "g", "no", status="cancelled"),
                SummaryMessage("before", 3),
            ],
        )
        frame = messages_frame(session)
        assert frame["role"].tolist() == ["user", "assistant", "tool", "tool", "summary"]
        assert frame["text"].tolist() == ["ab", "wait", "", "no", "before"]
        assert frame["reasoning"].tolist() == [pd.NA, "hm", pd.NA, pd.NA, pd.NA]
        assert frame["tool_calls"].tolist() == [pd.NA, 2, pd.NA, pd.NA, pd.NA]
        assert frame["call_id"].tolist() == [pd.NA, pd.NA, "c1", "c2", pd.NA]
        assert frame["tool_name"].tolist() == [pd.NA, pd.NA, "f", "g", pd.NA]
        assert frame["status"].tolist()[2:4] == ["ok", "cancelled"]
        assert frame["status"].isna().tolist() == [True, True, False, False, True]
        assert frame["duration"].tolist() == [pd.NA, 1.5, 0.5, pd.NA, pd.NA]
        assert frame["images"].tolist() == [1, 0, 1, 0, 0]
        assert frame["files"].tolist() == [0, 0, 1, 0, 0]
        assert frame["bytes"].tolist() == [5, 0, 4, 0, 0]
        assert frame["media_types"].tolist() == ["image/png", pd.NA, "b/c", pd.NA, pd.NA]
        answer = frame.iloc[1]
        assert [answer[name] for name in ("model", "finish_reason", "cost")] == ["m-1", "tool_calls", 0.25]
        assert [answer[name] for name in TOKENS[1:]] == [10, 5, 4, 3]
        assert frame["input_tokens"].isna().tolist() == [True, False, True, True, True]

    def test_an_answer_without_usage_has_none(self):
        """An answer that reported no usage has <NA>, and so has one without reasoning."""
        row = messages_frame(Session("s", messages=[AssistantMessage("a")])).iloc[0]
        for name in (*TOKENS[1:], "cost", "duration", "model", "finish_reason", "reasoning"):
            assert row[name] is pd.NA
        assert row["tool_calls"] == 0

    @given(st.binary(max_size=20), st.booleans())
    def test_bytes_are_those_of_the_decoded_data(self, data, broken):
        """The size is that of the picture itself and not of its base64, with line breaks in it or without."""
        text = base64.encodebytes(data).decode() if broken else base64.b64encode(data).decode()
        session = Session("s", messages=[UserMessage([ImagePart(text, media_type="image/png")])])
        assert messages_frame(session)["bytes"].tolist() == [len(data)]

    def test_data_is_never_in_the_frame(self):
        """No column holds the base64 of a picture or file."""
        session = Session(
            "s",
            messages=[UserMessage([ImagePart("QUJDREVG", media_type="image/png"), FilePart("f", "QUJDREVG", "a/b")])],
        )
        assert "QUJDREVG" not in messages_frame(session).to_csv()

    def test_an_invalid_transcript_is_shown(self):
        """A transcript that no model would take can be looked at all the same."""
        session = Session("s", messages=[ToolMessage("x", "f", "stray"), AssistantMessage(ToolCall("a", "f"))])
        assert find_problems(session.messages)
        assert messages_frame(session)["role"].tolist() == ["tool", "assistant"]
