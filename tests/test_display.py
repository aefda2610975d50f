"""What a notebook shows of sessions, messages, runs, responses and the rest."""

import re
from asyncio import CancelledError
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from pages import HOSTILE, read, shown
from strategies import broken_transcripts, moderate, sessions

from cyclops_nb.display import html
from cyclops_nb.display.register import mimebundle
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
from cyclops_nb.render.words import moment, money, seconds, short_id, tokens
from cyclops_nb.response import AgentResponse, Answer
from cyclops_nb.runs import Run, RunError
from cyclops_nb.session import Parent, Session, claim, release
from cyclops_nb.stores.base import SessionInfo
from cyclops_nb.usage import Usage

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def conversation(*messages, **fields):
    return Session("study-1", messages=list(messages), created_at=START, **fields)


def run(**fields):
    given = {
        "id": "r1",
        "session_id": "study-1",
        "model": "gpt-4o-mini",
        "started_at": START,
        "stop_reason": "completed",
    }
    return Run(**{**given, "usage": Usage(1, 10, 5), "cost": 0.00012, **fields})


def weather():
    """Return a session in which a tool is called twice, once in vain."""
    session = conversation(
        UserMessage("How warm is it?", run_id="r1"),
        AssistantMessage(
            [
                ReasoningPart("Two cities."),
                TextPart("Let me **look**."),
                ToolCall("a", "get_weather", '{"city":"Paris"}'),
                ToolCall("b", "get_weather", '{"city":"Berlin"}'),
            ],
            run_id="r1",
            model="gpt-4o-mini-2024-07-18",
            duration=1.25,
            usage=Usage(1, 312, 58, 0, 31),
            cost=0.0000816,
        ),
        ToolMessage("a", "get_weather", '{"celsius": 11.4}', duration=0.21, run_id="r1"),
        ToolMessage("b", "get_weather", "TimeoutError: no answer", status="error", run_id="r1"),
        AssistantMessage("Only Paris: 11.4 °C.", run_id="r1", model="gpt-4o-mini-2024-07-18"),
        title="Weather",
    )
    session.runs.append(run())
    return session


class TestSession:
    """A session in a cell."""

    def test_says_who_said_what_under_which_index(self):
        """Each message has its index, its speaker and its text, in HTML and in plain text."""
        page, text = shown(weather())
        for index in range(5):
            assert f"[{index}]" in page.text
            assert f"[{index}]" in text
        assert "[0] user" in page.text
        assert "[0] user: How warm is it?" in text
        assert "[4] assistant (gpt-4o-mini-2024-07-18): Only Paris: 11.4 °C." in text

    def test_has_a_head_with_title_id_and_totals(self):
        """The head names the session, its models and what it cost."""
        page, text = shown(weather())
        assert page.text.startswith("Weather session study-1 · 5 messages · 1 run · gpt-4o-mini-2024-07-18")
        assert "10 tokens in, 5 out · $0.00012" in page.text
        assert text.startswith("Weather (session study-1)\n5 messages, 1 run, gpt-4o-mini-2024-07-18, 10 tokens in")
        assert "10 tokens in, 5 out, $0.00012" in text.split("\n")[1]

    def test_without_a_title_is_named_by_its_id(self):
        """An untitled session is called by its id, once."""
        page, text = shown(conversation())
        assert page.text == "Session study-1 0 messages · 0 runs no messages yet"
        assert text.startswith("Session study-1\n")

    def test_renders_markdown(self):
        """Emphasis of an answer is emphasis in HTML, and stays as it was written in plain text."""
        page, text = shown(weather())
        assert page.tags("strong")
        assert "Let me **look**." in text

    def test_shows_a_tool_call_with_its_result_in_one_line(self):
        """The line to open says name, arguments, result, status and time."""
        page, text = shown(weather())
        assert '[2] get_weather(city="Paris") → {"celsius": 11.4} ok · 0.21 s' in page.text
        assert '[3] get_weather(city="Berlin") → TimeoutError: no answer error' in page.text
        assert '→ get_weather(city="Paris")' in text
        assert '[2] tool get_weather (ok, 0.21 s): {"celsius": 11.4}' in text

    def test_folds_reasoning_and_tool_calls(self):
        """Reasoning and calls are folds that are closed at first."""
        page, _ = shown(weather())
        kinds = [fold["class"] for fold in page.tags("details")]
        assert kinds[:3] == ["cy-reasoning", "cy-call", "cy-call"]
        assert not any("open" in fold for fold in page.tags("details"))

    def test_indents_arguments(self):
        """Arguments can be read line by line when the fold is open."""
        assert "{\n  &#34;city&#34;: &#34;Paris&#34;\n}" in mimebundle(weather())["text/html"]

    def test_shows_numbers_of_runs(self):
        """The foot has a row for each run, with the messages that it made."""
        page, text = shown(weather())
        assert "[0] [0]–[4] gpt-4o-mini completed 0 10 5 $0.00012 unknown 2026-01-02 03:04:05" in page.text
        assert "[0] gpt-4o-mini, completed, 0 steps, 10 tokens in, 5 out, $0.00012" in text

    def test_tells_a_compaction_from_a_run(self):
        """Its row says so, in both forms."""
        session = weather()
        session.runs[0] = session.runs[0].model_copy(update={"kind": "compaction"})
        page, text = shown(session)
        assert "[0] · compaction" in page.text
        assert "[0] compaction, gpt-4o-mini" in text

    def test_shows_the_settings_of_runs(self):
        """Model, host, prompt, settings and tools that made the answers can be read."""
        session = weather()
        tool = {"name": "get_weather", "description": "Weather.", "parameters": {}}
        session.configs["c1"] = {
            "model": "gpt-4o-mini", "host": "api.example", "system_prompt": "Be brief.", "seed": 7, "tools": [tool],
        }  # fmt: skip
        session.runs[0] = run(config="c1")
        page, _ = shown(session)
        assert "settings of run [0]: gpt-4o-mini at api.example" in page.text
        assert "Be brief." in page.text
        assert "seed 7" in page.text
        assert "1 tool: get_weather" in page.text

    def test_says_at_least_where_usage_is_incomplete(self):
        """A sum that misses a stopped completion is a lower bound."""
        session = weather()
        session.runs.append(run(id="r2", usage_complete=False))
        page, text = shown(session)
        for said in (page.text, text):
            assert "≥20 tokens in, ≥10 out" in said
            assert "≥$0.00024" in said

    def test_a_run_that_reported_nothing_is_no_lower_bound_of_zero(self):
        """A run that was stopped in its first completion has unknown tokens and cost, alone and in a session."""
        stopped = run(usage=Usage(), cost=0.0, usage_complete=False, stop_reason="cancelled")
        session = conversation(UserMessage("Hi", run_id="r1"))
        session.runs.append(stopped)
        response = AgentResponse(run=stopped, content="", session=session)
        for said in (
            text for value in (session, stopped, response) for text in (shown(value)[0].text, shown(value)[1])
        ):
            assert "≥0" not in said
            assert "$0" not in said
            assert "tokens unknown" in said
            assert "cost unknown" in said

    def test_a_run_in_progress_is_not_complete(self):
        """What it has used so far is a lower bound."""
        session = conversation(UserMessage("Hi", run_id="r1"))
        session.runs.append(run(stop_reason=None, usage_complete=False))
        page, text = shown(session)
        assert "not ended 0 ≥10 ≥5 ≥$0.00012" in page.text
        assert "not ended, 0 steps, ≥10 tokens in, ≥5 out, ≥$0.00012" in text

    def test_says_unknown_for_what_is_unknown(self):
        """Unknown tokens and costs are no zeros."""
        session = weather()
        session.runs.append(run(id="r2", usage=None, cost=None))
        page, text = shown(session)
        for said in (page.text, text):
            assert "tokens unknown" in said
            assert "cost unknown" in said
            assert "nan" not in said.lower().replace("finance", "")

    def test_shows_the_error_of_a_run_after_its_last_message(self):
        """A run that failed says so where it ended."""
        session = conversation(UserMessage("Hi", run_id="r1"), UserMessage("Ho", run_id="r2"))
        error = RunError(type="RateLimitError", message="too many requests")
        session.runs += [run(stop_reason="error", error=error), run(id="r2", warnings=("cut by length",))]
        page, text = shown(session)
        assert page.text.index("failed with RateLimitError: too many requests") < page.text.index("[1] user")
        assert "Warning: run [1]: cut by length" in page.text
        assert "Error: RateLimitError: too many requests" in text
        assert "Warning: cut by length" in text

    def test_says_a_warning_of_many_runs_once_among_the_messages(self):
        """Each run's warnings stand in the foot; among the messages only the first run that has one says it."""
        session = conversation()
        for number in range(4):
            session.messages.append(UserMessage("Hi", run_id=str(number)))
            warnings = ("the price is unknown",) * 2 + (("cut by length",) if number == 2 else ())
            session.runs.append(run(id=str(number), warnings=warnings))
        page, _ = shown(session)
        messages, foot = page.text.split("4 with warnings")
        assert messages.count("the price is unknown") == 1
        assert messages.index("the price is unknown") < messages.index("[1] user")
        assert messages.count("run [2]: cut by length") == 1
        assert all(f"Warning: [{number}] the price is unknown" in foot for number in range(4))

    def test_says_a_warning_at_the_first_run_that_still_has_messages(self):
        """A run whose messages were truncated does not use a warning up."""
        session = conversation(UserMessage("Hi", run_id="r2"))
        session.runs += [run(id=name, warnings=("the price is unknown",)) for name in ("r1", "r2")]
        assert "run [1]: the price is unknown" in shown(session)[0].text

    @pytest.mark.parametrize("reason", ["cancelled", "max_iterations"])
    def test_says_that_a_run_was_stopped(self, reason):
        """Any end but completion is said."""
        session = conversation(UserMessage("Hi", run_id="r1"))
        session.runs.append(run(stop_reason=reason))
        page, text = shown(session)
        assert f"run [0] was stopped: {reason}" in page.text
        assert reason in text

    def test_tells_a_running_run_from_one_that_was_killed(self):
        """A run without an end goes on, if the session is busy."""
        session = conversation(UserMessage("Hi", run_id="r1"))
        session.runs.append(run(stop_reason=None))
        assert "has no end" in shown(session)[0].text
        claim(session, "r1")
        assert "goes on right now" in shown(session)[0].text
        release(session, "r1")

    def test_shows_where_a_fork_left_its_parent(self):
        """The head names the parent, and a line stands after the last shared message."""
        session = weather()
        fork = session.fork()
        fork.messages.append(UserMessage("And now?"))
        page, text = shown(fork)
        assert "forked from study-1 after message [4]" in page.text
        line = page.text.index("forked from study-1: 5 messages above are shared with it")
        assert page.text.index("Only Paris") < line < page.text.index("And now?")
        assert text.index("Only Paris") < text.index("--- forked here from study-1 ---") < text.index("And now?")

    def test_shows_what_a_fork_cost_by_itself(self):
        """Own and inherited runs are told apart."""
        fork = weather().fork()
        fork.runs.append(run(id="r2", session_id=fork.id, cost=0.5))
        page, text = shown(fork)
        assert "cost since then $0.5000" in page.text
        assert "[0] · inherited" in page.text
        assert "inherited" in text

    @pytest.mark.parametrize("shared", [0, 7])
    def test_shows_a_fork_line_wherever_it_falls(self, shared):
        """A fork from before the first message, and a count past the end, have their line too."""
        session = conversation(UserMessage("Hi"), parent=Parent(session_id="other", message_count=shared))
        page, text = shown(session)
        assert len(page.has_class("cy-fork")) == 1
        assert text.count("forked here from other") == 1

    def test_shows_an_invalid_transcript_with_a_notice(self):
        """Open calls and stray results are shown, and said to be invalid."""
        session = conversation(
            UserMessage("Hi"), AssistantMessage(ToolCall("c9", "f")), UserMessage("?"), ToolMessage("zz", "g", "stray")
        )
        page, text = shown(session)
        assert "this transcript is invalid: [1] tool call 'c9' has no result; [3] tool result for 'zz'" in page.text
        assert "f() no result" in page.text
        assert "stray" in page.text
        assert "invalid at [1]" in text

    def test_does_not_call_a_valid_transcript_invalid(self):
        """There is no notice without a reason."""
        page, text = shown(weather())
        assert not page.has_class("cy-notice")
        assert "Warning" not in text

    def test_shows_a_summary_with_what_it_stands_for(self):
        """A summary says how many messages it replaced."""
        page, text = shown(conversation(SummaryMessage("They *met*.", 12)))
        assert "[0] summary of 12 messages They met." in page.text
        assert text.endswith("[0] summary of 12 messages: They *met*.")

    def test_shows_images_and_files(self):
        """An image is seen, a remote one is a link, a file has name and size."""
        parts = [ImagePart(PNG, media_type="image/png"), ImagePart(url="https://example.org/cat.png")]
        page, text = shown(conversation(UserMessage([*parts, FilePart("a.pdf", b"x" * 1500, "application/pdf")])))
        assert page.tags("img")[0]["src"].endswith(PNG)
        assert page.tags("a")[0]["href"] == "https://example.org/cat.png"
        assert "a.pdf (application/pdf, 1.5 kB)" in page.text
        assert "(image image/png)" in text
        assert "(file a.pdf (application/pdf, 1.5 kB))" in text

    def test_shows_an_image_that_stands_in_a_data_address(self):
        """A picture in a data address is a picture."""
        page, _ = shown(conversation(UserMessage(ImagePart(url=f"data:image/png;base64,{PNG}"))))
        assert page.tags("img")[0]["src"].endswith(PNG)

    def test_shows_pictures_of_a_tool_without_opening_anything(self):
        """A plot is what one wants to see, so it stands outside the fold."""
        result = ToolMessage("a", "plot", [TextPart("Figure"), ImagePart(PNG, media_type="image/png")])
        session = conversation(UserMessage("Plot"), AssistantMessage(ToolCall("a", "plot")), result)
        html_text = mimebundle(session)["text/html"]
        assert html_text.index("</details>") < html_text.index("<img")

    def test_bounds_all_images_of_an_output(self):
        """Pictures beyond some megabytes are named, the last ones are shown."""
        big = ImagePart(b"\x89PNG\r\n\x1a\n" + b"x" * 1_500_000, media_type="image/png")
        page, _ = shown(conversation(*[UserMessage([TextPart(str(n)), big]) for n in range(6)]))
        assert len(page.tags("img")) == 1
        assert page.text.count("image/png, 1.5 MB, not shown") == 5

    def test_shows_metadata(self):
        """Notes of the user about the session and its messages are there."""
        session = conversation(UserMessage("Hi", metadata={"rating": 5}), metadata={"study": "pilot"})
        page, _ = shown(session)
        assert "rating: 5" in page.text
        assert '"study": "pilot"' in page.text

    def test_says_that_a_message_was_edited(self):
        """An edited message is marked."""
        page, _ = shown(weather().edit(0, "How cold is it?"))
        assert "[0] user edited How cold is it?" in page.text

    def test_says_how_an_answer_ended_if_it_is_odd(self):
        """An answer that was cut is marked, one that ended by itself is not."""
        said = conversation(AssistantMessage("a", finish_reason="stop"), AssistantMessage("b", finish_reason="length"))
        page, _ = shown(said)
        assert page.text.count("ended by") == 1
        assert "ended by length" in page.text

    def test_says_when_reasoning_is_hidden(self):
        """Encrypted reasoning is named, and nothing of it is shown."""
        part = ReasoningPart("", provider_metadata={"encrypted": "secret"})
        page, text = shown(conversation(AssistantMessage([part, TextPart("Hi")])))
        assert "reasoning that the provider does not show" in page.text
        assert "secret" not in page.text + text

    def test_keeps_the_order_of_parts(self):
        """Text before and after a call stays before and after it."""
        parts = [TextPart("before"), ToolCall("a", "f"), TextPart("after")]
        page, text = shown(conversation(AssistantMessage(parts), ToolMessage("a", "f", "1")))
        assert page.text.index("before") < page.text.index("f()") < page.text.index("after")
        assert text.index("before") < text.index("f()") < text.index("after")

    def test_gives_each_of_two_calls_with_one_id_its_own_result(self):
        """Doubled ids, which real servers send, do not hide a result."""
        calls = [ToolCall("a", "f", '{"n": 1}'), ToolCall("a", "f", '{"n": 2}')]
        page, _ = shown(
            conversation(AssistantMessage(calls), ToolMessage("a", "f", "one"), ToolMessage("a", "f", "two"))
        )
        assert "f(n=1) → one" in page.text
        assert "f(n=2) → two" in page.text

    def test_is_the_same_each_time(self):
        """The same session gives the same bytes, also after saving and loading."""
        session = weather()
        again = Session.model_validate_json(session.model_dump_json())
        assert mimebundle(session) == mimebundle(session) == mimebundle(again)

    @moderate
    @given(sessions())
    def test_shows_any_session_inert(self, session):
        """Whatever stands in a session, its HTML is well-formed and does nothing."""
        page, text = shown(session)
        assert "cannot be drawn" not in page.text
        text.encode()

    @moderate
    @given(broken_transcripts)
    def test_shows_any_broken_transcript_with_all_indices(self, messages):
        """Each message of an invalid transcript is there under its index."""
        page, text = shown(conversation(*messages))
        assert "cannot be drawn" not in page.text
        if len(messages) < 20:
            for index in range(len(messages)):
                assert f"[{index}]" in page.text
                assert f"[{index}]" in text


class TestSizes:
    """Outputs stay small, whatever they show."""

    def test_a_thousand_messages_stay_below_a_megabyte(self):
        """A long conversation is folded in its middle and bounded."""
        session = conversation()
        for number in range(500):
            session.messages += [
                UserMessage(f"Question {number}: " + "why? " * 40, run_id=str(number)),
                AssistantMessage(f"**Answer** {number}\n\n" + "- because `x`\n" * 60, run_id=str(number)),
            ]
            session.runs.append(run(id=str(number)))
        bundle = mimebundle(session)
        assert len(bundle["text/html"].encode()) <= 1_000_000
        assert len(bundle["text/plain"].encode()) <= 200_000
        page = read(bundle["text/html"])
        assert "[8]–[983]: 976 more messages" in page.text
        assert "Question 499" in page.text
        assert "Question 250" in page.text
        assert "976 messages not shown here: session.messages[8:984]" in bundle["text/plain"]

    def test_a_hundred_thousand_messages_stay_below_a_megabyte(self):
        """What does not even fit as a line each is a number."""
        message = UserMessage("&" * 300)
        bundle = mimebundle(conversation(*[message] * 100_000))
        assert len(bundle["text/html"].encode()) <= 1_000_000
        assert "are not shown: session.messages[8:" in read(bundle["text/html"]).text

    @pytest.mark.parametrize("text", ["x" * 20_000_000, '"' * 20_000_000, '{"a": [' + "1,\n" * 6_000_000])
    def test_a_huge_tool_result_is_cut(self, text):
        """Twenty megabytes of result are less than 100 kB of HTML, with what is left out said."""
        session = conversation(AssistantMessage(ToolCall("a", "f")), ToolMessage("a", "f", text))
        bundle = mimebundle(session)
        assert len(bundle["text/html"].encode()) < 100_000
        assert len(bundle["text/plain"].encode()) < 20_000
        assert "characters left out" in read(bundle["text/html"]).text
        assert "characters left out" in bundle["text/plain"]

    @pytest.mark.parametrize(
        "message",
        [
            UserMessage("<" * 5_000_000),
            UserMessage("|a" * 500_000),
            AssistantMessage(ReasoningPart("*a*\n\n" * 500_000)),
            AssistantMessage(ToolCall("a", "f" * 100_000, '{"x": "' + "&" * 5_000_000)),
            AssistantMessage([ToolCall(str(n), "f", '{"n": 1}') for n in range(5_000)]),
            AssistantMessage([TextPart("a"), ReasoningPart("b")] * 20_000),
            ToolMessage("a", "f", [TextPart("&" * 6_000)] * 5_000),
            UserMessage([FilePart("n" * 10_000, b"x", "t" * 10_000)] * 5_000),
            UserMessage("Hi", metadata={"k" * 1_000_000: "v" * 1_000_000}),
        ],
        ids=["line", "table", "reasoning", "call", "calls", "parts", "results", "files", "metadata"],
    )
    def test_a_huge_message_is_bounded(self, message):
        """No kind of part makes a message huge."""
        bundle = mimebundle(message)
        assert len(bundle["text/html"].encode()) < 500_000
        assert len(bundle["text/plain"].encode()) < 250_000
        read(bundle["text/html"])

    def test_many_calls_in_one_step_are_bounded(self):
        """A thousand calls with a thousand results are one answer to a reader; both looks say that not all is shown."""
        calls = [ToolCall(str(number), "f", f'{{"n": {number}}}') for number in range(1_000)]
        session = conversation(AssistantMessage(calls), *(ToolMessage(it.id, "f", "y" * 20_000) for it in calls))
        bundle = mimebundle(session)
        assert len(bundle["text/html"].encode()) < 500_000
        assert len(bundle["text/plain"].encode()) < 150_000
        assert "characters left out" in bundle["text/plain"]

    def test_huge_settings_errors_and_notes_are_cut(self):
        """Prompts, tools, errors, warnings and metadata are cut as well."""
        session = conversation(UserMessage("Hi", run_id="r1"), title="t" * 1_000_000, metadata={"a": "b" * 1_000_000})
        long = "&" * 1_000_000
        for number in range(30):
            key = str(number)
            session.configs[key] = {"model": long, "system_prompt": long, "tools": [{"name": long}] * 9, long: long}
            error = RunError(type=long, message=long)
            session.runs.append(run(id=key, config=key, error=error, warnings=(long,) * 99, model=long))
        bundle = mimebundle(session)
        assert len(bundle["text/html"].encode()) < 1_000_000
        assert len(bundle["text/plain"].encode()) < 200_000


class TestInertness:
    """Nothing that a model, a tool, a user or a file says can act in the reader's browser."""

    @pytest.mark.parametrize("text", HOSTILE)
    def test_hostile_text_in_every_field_of_a_session_stays_text(self, text):
        """Title, ids, models, names, arguments, results, errors, notes and settings are shown as text."""
        session = Session(
            text, title=text, metadata={text: text}, parent=Parent(session_id=text, message_count=1), created_at=START
        )
        meta = {"metadata": {text: text}, "run_id": text}
        session.messages += [
            UserMessage([TextPart(text), FilePart(text, b"x", text), ImagePart(b"x", media_type=text)], **meta),
            UserMessage([ImagePart(url=text), ImagePart(url=f"data:{text};base64,{text}")]),
            AssistantMessage(
                [ReasoningPart(text), TextPart(text), ToolCall(text, text, text), ToolCall("b", "f", {text: text})],
                model=text,
                finish_reason=text,
                **meta,
            ),
            ToolMessage(text, text, text, **meta),
            ToolMessage("b", "f", [FilePart(text, b"x", text), TextPart(text)], status="error"),
            SummaryMessage(text, 3, **meta),
            ToolMessage(text, text, text),
        ]
        session.configs[text] = {
            "model": text,
            "host": text,
            "system_prompt": text,
            text: {text: text},
            "tools": [{"name": text}],
        }
        error = RunError(type=text, message=text)
        session.runs.append(run(id=text, config=text, model=text, error=error, stop_reason="error", warnings=(text,)))
        page, plain = shown(session)
        assert "cannot be drawn" not in page.text
        assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", plain)
        plain.encode()
        for run_view in session.runs:
            shown(run_view)
        for message in session.messages:
            shown(message)

    @pytest.mark.parametrize("text", HOSTILE)
    def test_hostile_text_in_a_response_stays_text(self, text):
        """Partial text, errors and structured output are shown as text."""
        record = run(model=text, stop_reason="error", warnings=(text,), id=text)
        page, plain = shown(
            AgentResponse(run=record, content=text, output={text: text}, partial=text, error=ValueError(text))
        )
        assert "cannot be drawn" not in page.text
        assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", plain)
        shown(SessionInfo(id=text, title=text, parent=Parent(session_id=text, message_count=1), updated_at=START))

    @pytest.mark.parametrize("text", HOSTILE)
    def test_a_hostile_answer_stays_text(self, text):
        """The answer of ``run`` runs nothing."""
        read(mimebundle(Answer(text))["text/html"])

    def test_tags_are_shown_and_not_lost(self):
        """What looks like a tag is content."""
        page, _ = shown(conversation(UserMessage("<thinking>"), AssistantMessage("a <b>c</b>")))
        assert "<thinking>" in page.text
        assert "a <b>c</b>" in page.text


class TestMessages:
    """A message by itself in a cell."""

    def test_has_no_index(self):
        """A message does not know where it stands."""
        page, text = shown(UserMessage("Hello"))
        assert page.text == "user Hello"
        assert text == "user: Hello"

    def test_indents_further_lines_of_plain_text(self):
        """It is seen where a message ends."""
        assert shown(UserMessage("a\nb"))[1] == "user: a\n    b"

    def test_an_assistant_message_shows_calls_without_asking_for_results(self):
        """Its results stand in other messages, so none is missing."""
        page, _ = shown(weather().messages[1])
        assert 'get_weather(city="Paris")' in page.text
        assert "no result" not in page.text
        assert "gpt-4o-mini-2024-07-18 · 1.2 s · 312 tokens in, 58 out (31 reasoning) · $0.000082" in page.text

    def test_a_tool_message_says_its_tool_and_status(self):
        """Name, status and time are in its line."""
        page, text = shown(ToolMessage("a", "f", "x", status="cancelled", duration=0.5))
        assert page.text == "tool f cancelled · 0.50 s x"
        assert text == "tool f (cancelled, 0.50 s): x"

    def test_an_empty_message_says_so(self):
        """Nothing said is not nothing shown."""
        page, text = shown(AssistantMessage([]))
        assert "(empty)" in page.text
        assert "(empty)" in text

    def test_shows_arguments_that_are_no_json_as_they_are(self):
        """Broken arguments are not mended by showing them."""
        page, text = shown(AssistantMessage(ToolCall("a", "f", '{"path": "/tmp')))
        assert 'f({"path": "/tmp)' in page.text
        assert '→ f({"path": "/tmp)' in text


class TestNumbers:
    """Usage, runs and what stores tell."""

    def test_usage_is_a_small_table(self):
        """All five counts and their sum are named."""
        page, text = shown(Usage(2, 1200, 34, 1000, 5))
        assert page.text == (
            "requests 2 input tokens 1,200 of them cached 1,000 output tokens 34 of them reasoning 5 all tokens 1,234"
        )
        assert text == "2 requests: 1,200 tokens in (1,000 cached), 34 out (5 reasoning), 1,234 in all"

    def test_a_run_says_how_it_ended(self):
        """Model, end, cost and error of a run are there."""
        error = RunError(type="ModelTimeoutError", message="no answer")
        page, text = shown(run(stop_reason="error", error=error, cost=None, usage=None, duration=75.0))
        for said in (page.text, text):
            assert "Run: gpt-4o-mini, error" in said
            assert "ModelTimeoutError: no answer" in said
            assert "1 min 15 s" in said
            assert "unknown" in said

    def test_session_info_says_what_a_store_knows(self):
        """Title, counts, parent and time of a stored session are there."""
        info = SessionInfo(
            id="b", title="T", message_count=3, run_count=1, usage=Usage(1, 2, 3), cost=1.5, updated_at=START,
            parent=Parent(session_id="a", message_count=2), path="x/b.jsonl", backup=True,
        )  # fmt: skip
        for said in (shown(info)[0].text, shown(info)[1]):
            for part in ("T", "2 tokens in, 3 out", "$1.50", "2026-01-02", "after message [1]", "b.jsonl", "an older"):
                assert part in said

    @pytest.mark.parametrize(
        ("value", "said"),
        [
            (0, "$0"),
            (1e-9, "<$0.000001"),
            (0.00012, "$0.00012"),
            (0.00999, "$0.0100"),
            (0.0123, "$0.0123"),
            (1234.5, "$1,234.50"),
            (None, "unknown"),
            (float("nan"), "unknown"),
            (float("inf"), "unknown"),
        ],
    )
    def test_money_keeps_two_digits_of_small_amounts(self, value, said):
        """Tiny costs are no zeros, unknown ones no numbers."""
        assert money(value) == said

    @pytest.mark.parametrize(
        ("value", "said"),
        [(0, "0 s"), (0.05, "0.05 s"), (59.99, "1 min 0 s"), (3599.7, "1 h 0 min"), (None, "unknown")],
    )
    def test_seconds_are_rounded_by_their_size(self, value, said):
        """A duration has the digits that matter."""
        assert seconds(value) == said

    def test_unknown_tokens_are_said_to_be_unknown(self):
        """No usage is not no tokens."""
        assert tokens(None) == "tokens unknown"

    def test_moments_at_the_end_of_time_are_shown(self):
        """A time that has no UTC is shown in its own zone."""
        east = timezone(timedelta(hours=5))
        assert moment(datetime.min.replace(tzinfo=east)) == "0001-01-01 00:00:00+05:00"

    def test_only_random_ids_are_shortened(self):
        """An id that a person chose is kept."""
        assert short_id("a" * 32) == "a" * 8
        assert short_id("study-1") == "study-1"


class TestResponses:
    """What a run hands back."""

    def response(self, **fields):
        session = weather()
        session.messages.insert(0, SummaryMessage("Before.", 2))
        return AgentResponse(
            run=run(steps=2), content="x", messages=tuple(session.messages[1:]), session=session, **fields
        )

    def test_an_answer_is_markdown_and_its_plain_text_is_the_text(self):
        """``run`` gives a text that a notebook renders."""
        page, text = shown(Answer("**Hello** $5\n"))
        assert page.tags("strong")
        assert text == "**Hello** $5\n"
        assert type(text) is str

    def test_shows_new_messages_under_the_indices_of_the_session(self):
        """The indices are those that ``session.fork`` takes."""
        page, text = shown(self.response())
        assert "messages [1]–[5] of session study-1" in page.text
        assert "[1] user" in page.text
        assert "[1] user: How warm" in text

    def test_says_how_it_went(self):
        """End, steps, tokens and cost stand on top."""
        page, text = shown(self.response())
        assert "completed · 2 steps · 10 tokens in, 5 out · $0.00012" in page.text
        assert text.startswith("Response of gpt-4o-mini-2024-07-18: completed, 2 steps, 10 tokens in, 5 out, $0.00012")

    def test_counts_from_zero_when_its_messages_are_gone(self):
        """After a truncation the response still shows what it added."""
        response = self.response()
        response.session.truncate(0)
        page, _ = shown(response)
        assert "[0] user" in page.text

    def test_marks_what_was_cut_off(self):
        """Text of a stopped completion is shown, and said to be in no transcript."""
        page, text = shown(self.response(partial="Once upon"))
        assert "stands in no transcript Once upon" in page.text
        assert "in no transcript) Once upon" in text

    def test_shows_an_error_that_the_run_does_not_record(self):
        """The exception is said once, whoever knows it."""
        page, text = shown(self.response(error=ValueError("no luck")))
        assert page.text.count("ValueError: no luck") == 1
        assert text.count("ValueError: no luck") == 1

    def test_a_cancelled_run_has_no_empty_error(self):
        """The exception of a cancelled run says nothing but that."""
        response = AgentResponse(run=run(stop_reason="cancelled"), content="", error=CancelledError())
        page, text = shown(response)
        assert page.text.endswith("the run was stopped: cancelled")
        assert text.endswith("\n    Cancelled")
        assert "Error" not in page.text + text

    def test_an_error_without_a_text_is_its_class(self):
        """There is no colon with nothing behind it."""
        own = AgentResponse(run=run(stop_reason="error"), content="", error=TimeoutError())
        record = run(stop_reason="error", error=RunError(type="TimeoutError", message=""))
        recorded = AgentResponse(run=record, content="", error=TimeoutError())
        for said in (shown(own)[0].text, shown(own)[1], shown(recorded)[0].text, shown(recorded)[1]):
            assert said.endswith("TimeoutError")

    def test_shows_structured_output(self):
        """An output of another type is shown as data."""
        page, text = shown(self.response(output=Usage(1, 2, 3)))
        assert "output: Usage" in page.text
        assert '"input_tokens": 2' in page.text
        assert "input_tokens=2" in text


class TestFallback:
    """Displaying never fails."""

    def test_what_cannot_be_drawn_is_shown_by_its_repr(self):
        """A damaged value is shown as text, with the reason."""
        damaged = weather().model_copy(update={"messages": [object()]})
        page, text = shown(damaged)
        assert "this Session cannot be drawn" in page.text
        assert "study-1" in page.text
        assert "this Session cannot be drawn" in text

    def test_a_repr_that_fails_does_not_matter(self):
        """Even the last way out cannot raise."""

        class Hopeless:
            def __repr__(self):
                raise RuntimeError("<b>no</b>")

        bundle = mimebundle(Hopeless())
        assert "Hopeless" in read(bundle["text/html"]).text

    def test_unknown_types_are_shown_by_their_repr(self):
        """A type without a look is text."""
        page, text = shown_of([1, "<b>"])
        assert page.text == "[1, '<b>']"
        assert text == "[1, '<b>']"


def shown_of(value):
    bundle = mimebundle(value)
    return read(bundle["text/html"]), bundle["text/plain"]


class TestStyle:
    """The style sheet that each output carries."""

    STYLES = (("base",), ("base", "transcript"), ("base", "transcript", "comparison"), ("base", "tree"))

    @pytest.mark.parametrize("names", STYLES)
    def test_wide_tables_scroll_in_sight(self, names):
        """A frame that scrolls has a scrollbar of its own, which the page's own style does not take away."""
        assert ".cy-scroll{overflow-x:auto;scrollbar-width:thin}" in html.stylesheet(*names)

    @pytest.mark.parametrize("names", [*STYLES, ("base", "transcript", "live")])
    def test_is_small(self, names):
        """It repeats in each output, so it has less than 4 kB."""
        assert 0 < len(html.stylesheet(*names).encode()) < 4_000

    @pytest.mark.parametrize("names", STYLES)
    def test_touches_nothing_outside_the_output(self, names):
        """Each selector begins with a class of ours."""
        css = re.sub(r"@media[^{]*\{((?:[^{}]*\{[^}]*\})*)\}", r"\1", html.stylesheet(*names))
        selectors = [
            part for rule in re.findall(r"([^{}]+)\{", css) for part in re.sub(r"\([^()]*\)", "", rule).split(",")
        ]
        assert len(selectors) > 20
        assert all(
            selector.strip().startswith((".cy-", ".cy ", ".cy.")) or selector.strip() == ".cy" for selector in selectors
        )

    def test_wide_outputs_stay_wide_below_later_style_sheets(self):
        """The basic sheet of a later output does not narrow an earlier one: what lifts its limit is more specific."""
        css = html.stylesheet("base", "transcript", "comparison")
        assert ".cy.cy-session{max-width:none}" in css
        assert ".cy.cy-comparison{max-width:none}" in css

    def test_is_valid_after_squeezing(self):
        """Blanks that mean something are kept."""
        css = html.stylesheet("base")
        assert ".cy .cy-md :is(p, ul" in css or ".cy .cy-md :is(p,ul" in css
        assert css.count("{") == css.count("}")

    def test_has_colours_without_a_theme(self):
        """Each colour of a theme has a fallback, or the property is only a nicety."""
        css = html.stylesheet("base", "transcript", "comparison")
        for name in re.findall(r"var\((--jp-[\w-]+)\)", css):
            assert name.startswith("--jp-mirror-editor-")
