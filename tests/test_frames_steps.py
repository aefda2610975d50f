"""Frames of steps and of tool calls: what each answer took, and what each call gave, joined within the turn."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import broken_transcripts, moderate, sessions

from cyclops_nb import (
    Agent,
    AssistantMessage,
    FilePart,
    ImagePart,
    ReasoningPart,
    Session,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    messages_frame,
    runs_frame,
    steps_frame,
    tool_calls_frame,
)
from cyclops_nb.testing import ScriptedServer, reply, text, tool_call

TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


def answer(*ids, **fields):
    """Return an answer that calls tools under these ids."""
    return AssistantMessage([TextPart("wait"), *(ToolCall(call_id, "f") for call_id in ids)], **fields)


def result(call_id, said="r", **fields):
    """Return a result."""
    return ToolMessage(call_id, "f", said, **fields)


def run_with_tools():
    """Return a session in which an agent has called two tools and answered, twice."""

    def add(a: int, b: int) -> int:
        return a + b

    def fail() -> str:
        raise ValueError("no")

    both = reply(tool_call("add", {"a": 1, "b": 2}), tool_call("fail", {}))
    with ScriptedServer([both, text("3."), both, text("3 again.")]) as server:
        agent = Agent("m", base_url=server.base_url, api_key="k", tools=[add, fail])
        session = Session("s")
        agent.run("Add.", session=session)
        agent.run("Add again.", session=session)
    return session


class TestSteps:
    def test_of_runs_with_tools(self):
        """A row is an answer with its tools: which step of its run, its calls, and how many of them failed."""
        session = run_with_tools()
        frame = steps_frame(session)
        assert frame["step"].tolist() == [1, 2, 1, 2]
        assert frame["index"].tolist() == [1, 4, 6, 9]
        assert frame["text"].tolist() == ["", "3.", "", "3 again."]
        assert frame["tool_calls"].tolist() == [2, 0, 2, 0]
        assert frame["failed_calls"].tolist() == [1, 0, 1, 0]
        assert frame["tools_duration"].isna().tolist() == [False, True, False, True]
        assert frame["run_id"].nunique() == 2
        assert len(frame) == sum(run.steps for run in session.runs)
        assert int(frame["output_tokens"].sum()) == session.usage.output_tokens

    def test_say_what_the_answer_says(self):
        """A row has the facts of the answer, and how fast it came."""
        session = Session("s", messages=[UserMessage("a")])
        session.messages.append(
            AssistantMessage(
                [ReasoningPart("hm"), TextPart("b")],
                id="x",
                run_id="r",
                model="m-1",
                finish_reason="stop",
                usage=Usage(1, 10, 50, 4, 3),
                cost=0.25,
                duration=2.0,
            )
        )
        row = steps_frame(session).iloc[0]
        facts = {name: row[name] for name in ("session_id", "index", "message_id", "run_id", "step", "inherited")}
        assert facts == {"session_id": "s", "index": 1, "message_id": "x", "run_id": "r", "step": 1, "inherited": False}
        said = [row[name] for name in ("model", "finish_reason", "text", "reasoning", "cost", "duration")]
        assert said == ["m-1", "stop", "b", "hm", 0.25, 2.0]
        assert [row[name] for name in TOKENS] == [10, 50, 4, 3]
        assert row["tokens_per_second"] == 25.0

    @pytest.mark.parametrize(
        "facts", [{}, {"usage": Usage(1, 1, 1)}, {"duration": 1.0}, {"usage": Usage(1, 1, 1), "duration": 0.0}]
    )
    def test_what_is_unknown_is_missing(self, facts):
        """Without tokens or without a duration there is no speed, and what the answer does not say is <NA>."""
        row = steps_frame(Session("s", messages=[AssistantMessage("a", **facts)])).iloc[0]
        for name in ("tokens_per_second", "tools_duration", "step", "run_id", "reasoning", "model", "cost"):
            assert row[name] is pd.NA

    def test_tools_run_at_the_same_time(self):
        """The tools of a step take as long as the one that took longest; a call without a result has failed."""
        session = Session("s", messages=[answer("a", "b", "c", "d")])
        session.messages += [result("a", duration=0.5), result("b", duration=2.0), result("c", status="cancelled")]
        row = steps_frame(session).iloc[0]
        assert row["tools_duration"] == 2.0
        assert row["failed_calls"] == 2

    def test_are_numbered_where_they_stand(self):
        """A fork that shows only its own steps numbers them as its runs do, after those that it inherited."""
        session = run_with_tools()
        fork = session.fork(at=6)
        fork.messages.append(AssistantMessage("and another", run_id=session.messages[1].run_id))
        frame = steps_frame(session, fork)
        assert frame["step"].tolist() == [1, 2, 1, 2, 3]
        assert frame["session_id"].tolist() == ["s"] * 4 + [fork.id]


class TestToolCalls:
    def test_of_runs_with_tools(self):
        """A row is a call with its own result, though ids of calls may come again in each run."""
        frame = tool_calls_frame(run_with_tools())
        assert frame["tool_name"].tolist() == ["add", "fail"] * 2
        assert frame["call"].tolist() == [0, 1, 0, 1]
        assert frame["status"].tolist() == ["ok", "error"] * 2
        assert frame["result"].tolist()[::2] == ["3", "3"]
        assert frame["index"].tolist() == [1, 1, 6, 6]
        assert frame["result_index"].tolist() == [2, 3, 7, 8]
        assert frame["duration"].notna().all()

    def test_results_are_joined_within_the_turn(self):
        """The same id in two turns gives each call the result of its own turn, whatever comes in between."""
        session = Session("s", messages=[answer("c"), result("c", "first"), UserMessage("u"), answer("c")])
        session.messages += [UserMessage("v"), answer("c"), result("c", "third")]
        frame = tool_calls_frame(session)
        assert frame["result"].tolist() == ["first", pd.NA, "third"]
        assert frame["result_index"].tolist() == [1, pd.NA, 6]
        assert frame["status"].isna().tolist() == [False, True, False]

    def test_say_what_call_and_result_say(self):
        """A row has the arguments as the model wrote them, and what came back, pictures and files as numbers."""
        call = ToolCall("c", "draw", '{"size": 3')
        content = [TextPart("a"), ImagePart(b"12345", media_type="image/png"), FilePart("f", b"1234", "text/csv")]
        session = Session("s", messages=[AssistantMessage([TextPart("x"), call], id="m", run_id="r")])
        session.messages.append(ToolMessage("c", "draw", [*content, TextPart("b")], duration=0.5))
        row = tool_calls_frame(session).iloc[0].drop("created_at")
        assert row.to_dict() == {
            "session_id": "s",
            "index": 0,
            "message_id": "m",
            "run_id": "r",
            "call": 0,
            "call_id": "c",
            "tool_name": "draw",
            "arguments": '{"size": 3',
            "result_index": 1,
            "status": "ok",
            "result": "ab",
            "duration": 0.5,
            "images": 1,
            "files": 1,
            "media_types": "image/png, text/csv",
            "bytes": 9,
            "inherited": False,
        }

    def test_pictures_that_are_addresses(self):
        """The kind of a picture in an address is told, and its size; the address itself is not."""
        address = "data:image/webp;base64,AAAA"
        session = Session("s", messages=[answer("c"), ToolMessage("c", "f", [ImagePart(url=address)])])
        row = tool_calls_frame(session).iloc[0]
        assert [row["media_types"], row["bytes"]] == ["image/webp", 3]
        odd = Session("t", messages=[UserMessage([ImagePart(url="data:QUJDREVG"), ImagePart(url="data:QUJD,REVG")])])
        assert "QUJD" not in messages_frame(odd).to_csv()

    def test_results_without_a_call_have_no_row(self):
        """A stray result is in the frame of messages alone."""
        session = Session("s", messages=[result("x"), answer("a")])
        assert tool_calls_frame(session)["call_id"].tolist() == ["a"]
        assert messages_frame(session)["call_id"].tolist() == ["x", pd.NA]

    @moderate
    @given(sessions(broken_transcripts), st.integers(0, 2))
    def test_every_call_has_one_row(self, session, forks):
        """Whatever the transcript, each call has exactly one row, however often it is forked; so has each step."""
        family = [session, *(session.fork() for _ in range(forks))]
        calls = [
            (index, number)
            for index, message in enumerate(session.messages)
            if isinstance(message, AssistantMessage)
            for number in range(len(message.tool_calls))
        ]
        frame = tool_calls_frame(family)
        assert list(zip(frame["index"], frame["call"], strict=True)) == calls
        everywhere = tool_calls_frame(family, inherited=True)
        assert len(everywhere) == len(calls) * len(family)
        assert not everywhere.duplicated(["session_id", "index", "call"]).any()
        assert steps_frame(family)["tool_calls"].sum() == len(calls)

    @moderate
    @given(sessions(broken_transcripts))
    def test_a_result_is_that_of_one_call(self, session):
        """No result is in two rows, and each is where the row says, under the call's id."""
        frame = tool_calls_frame(session).dropna(subset="result_index")
        assert frame["result_index"].is_unique
        for row in frame.itertuples():
            message = session.messages[row.result_index]
            assert (message.call_id, message.text) == (row.call_id, row.result)


class TestSums:
    @moderate
    @given(st.lists(sessions(), min_size=1, max_size=2), st.data())
    def test_are_what_was_spent(self, items, data):
        """Over any sessions and forks, the sums over what is counted once are those of the distinct runs."""
        for number, session in enumerate(items):
            session.id = f"s{number}"
        forks = [session.fork() for session in items]
        frame = runs_frame(data.draw(st.permutations([*items, *forks])))
        spent = [run for session in items for run in session.runs]
        assert sorted(frame["run_id"]) == sorted(run.id for run in spent)
        for name in TOKENS:
            assert int(frame[name].sum()) == sum(getattr(run.usage, name) for run in spent if run.usage)
        assert float(frame["cost"].sum()) == pytest.approx(sum(run.cost or 0 for run in spent))
