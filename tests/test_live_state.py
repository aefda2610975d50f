"""What is seen of a run that goes on: events in, blocks out."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pages import HOSTILE, read
from strategies import moderate

from cyclops_nb.display.conversation import unit_block
from cyclops_nb.display.live_state import LiveState
from cyclops_nb.display.live_text import GrowingText
from cyclops_nb.display.parts import Room
from cyclops_nb.display.tool_output import ToolOutput
from cyclops_nb.display.units import Result, Unit
from cyclops_nb.events import (
    Compacted,
    ReasoningDelta,
    RequestRetried,
    RunStarted,
    StepFinished,
    StepStarted,
    TextDelta,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolResult,
)
from cyclops_nb.messages import (
    AssistantMessage,
    ReasoningPart,
    SummaryMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from cyclops_nb.render.markdown import settled, to_html
from cyclops_nb.usage import Usage

BLOCKS = [
    "# Title\n\n", "Some **bold** words, and `code`.\n\n", "- one\n- two\n\n- three\n", "1. a\n2. b\n   - c\n\n   d\n", "> quoted\nlazily\n",
    "```python\nx = 1\n\n# no title\ny = 2\n```\n", "| a | b |\n|---|--:|\n| 1 | 2 |\n", "    indented\n\n    code\n", "line\nTitle\n=====\n",
    "$$\nx^2\n$$\n", "\\[ a \\]\n", "---\n", "price $5 and $6\n", "~~~\nopen\n", "<div>\n", "\r\n", "\n\n", "* * *\n", "- x\n", "  y\n", "2. z\n", "=\n",
]  # fmt: skip
MARKDOWN = st.lists(st.sampled_from(BLOCKS) | st.text("ab-*`#>|$\\[]: \n\t1.=~", max_size=12), max_size=14).map("".join)
SEAM = re.compile(r'</div><div class="cy-md [^"]*">')


def told(*events, outputs=None):
    """Return the state after some events."""
    state = LiveState(outputs)
    for event in events:
        state.add(event)
    return state


def finished(message, **fields):
    """Return the end of a step."""
    return StepFinished(message=message, usage=message.usage, cost=message.cost, step=1, **fields)


def seen(state):
    """Return all that is seen, as one page."""
    return read("".join(block.html for block in state.blocks()))


def body(state):
    """Return the HTML of the parts of all answers, without what makes blocks of it."""
    parts = [
        re.sub(r'^<div class="cy cy-live cy-more[^>]*>(.*)</div>$', r"\1", str(block.html), flags=re.DOTALL)
        for block in state.blocks()
    ]
    return SEAM.sub("", "".join(part for part in parts if not part.startswith('<div class="cy cy-live cy-m ')))


def body_of(message, results=()):
    """Return the HTML of an answer as a session shows it that has nothing else."""
    given = [result and Result(number, result) for number, result in enumerate(results, 1)]
    calls = tuple(zip(message.tool_calls, given, strict=True))
    return SEAM.sub(
        "",
        str(unit_block(Unit(0, message, calls), Room()))
        .partition('<div class="cy-body">')[2]
        .removesuffix("</div></div>"),
    )


def deltas(data, kind, text):
    """Return a text cut into deltas at any places."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [kind(text=text[start:end], step=1) for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


class TestAnyStream:
    """However it is cut, and whenever one looks."""

    @moderate
    @given(MARKDOWN, MARKDOWN, st.data())
    def test_comes_to_what_a_session_shows(self, thought, answer, data):
        """The blocks of a finished step are those of its message."""
        answer *= 3
        parts = [kind(text) for kind, text in ((ReasoningPart, thought), (TextPart, answer)) if text]
        message = AssistantMessage(parts or "")
        state = told(StepStarted(step=1))
        for event in [*deltas(data, ReasoningDelta, thought), *deltas(data, TextDelta, answer)]:
            state.add(event)
            if data.draw(st.booleans()):
                state.blocks()
        state.add(finished(message))
        assert body(state) == body_of(message).replace('<div class="cy-note">(empty)</div>', "")

    @moderate
    @given(MARKDOWN, st.data())
    def test_has_blocks_that_stay(self, answer, data):
        """While an answer is written, a block that is final is never sent again, and none before it is new."""
        state, before = told(StepStarted(step=1)), {}
        for event in deltas(data, TextDelta, answer * 20):
            state.add(event)
            blocks = state.blocks()
            final = {block.name: block.html for block in blocks if block.is_final}
            assert before.items() <= final.items()
            assert [block.name for block in blocks][1 : 1 + len(before)] == list(before)
            before = final

    @settings(max_examples=200, deadline=None)
    @example("1$$\nx^2\n$$\n# Title\n\n", "$$\nx^2\n$$\n")
    @example(">$$\nx^2\n$$\n# Title\n\n", "$$\nx^2\n$$\n")
    @example("1. a\n\n2", ". b")
    @example("a\n\nb\n", "===\n")
    @given(MARKDOWN, MARKDOWN)
    def test_is_parted_where_nothing_that_follows_changes_what_was_shown(self, begin, rest):
        """A finished part and the rest look as the whole does; only the target of a link may come later."""
        length, opener = settled(begin, limit=1_000_000)
        parts = [part for part in (begin[:length], begin[length:] + rest) if part]
        assert opener == ""
        if "]:" not in begin + rest:
            assert SEAM.sub("", "".join(map(str, map(to_html, parts)))) == str(to_html(begin + rest) if parts else "")


class TestGrowingText:
    """The pieces of a long text."""

    @pytest.mark.parametrize(
        "unit",
        ["A paragraph of some words.\n\n", "- an item\n", "    value = 1  # code\n", "no paragraph ends here "],
        ids=["paragraphs", "list", "code", "line"],
    )
    @pytest.mark.parametrize("size", [12_000, 127_000])
    def test_are_few_and_made_once(self, unit, size):
        """What is made for 100 looks is a small multiple of the text, and a browser has few pieces to arrange."""
        whole = ("```\n" if unit.startswith("    ") else "") + unit * (size // len(unit))
        text, made, before = GrowingText(), 0, []
        for look in range(1, 101):
            pieces = text.pieces(whole[: len(whole) * look // 100])
            made += sum(len(piece) for piece in pieces if piece not in before)
            before = pieces
        assert len(before) < 90
        assert made < 6 * size + 100 * 4_500

    def test_of_code_are_code(self):
        """A code block of many screens is parted between two lines, and each piece has its colours."""
        text = GrowingText()
        whole = "Look:\n\n```python\n" + "value = 1\n" * 1_000
        pieces = [text.pieces(whole[:length])[-1] for length in range(500, len(whole), 500)]
        assert all("<pre><code>value = <span" in piece for piece in pieces[3:])
        ended = text.pieces(whole + "```\n\nDone.\n")
        assert "Done." in ended[-1]
        assert sum(piece.count("value = ") for piece in ended[:-1]) + ended[-1].count("value = ") <= 1_000

    def test_show_the_whole_in_the_end(self):
        """Where pieces would look otherwise than the whole text does, the whole takes their place."""
        text = GrowingText()
        whole = "[late] link. " + "Words. " * 300 + "\n\nMore.\n\n[late]: https://example.org\n"
        assert len(text.pieces(whole)) > 1
        assert text.finished(whole, to_html(whole)) == [to_html(whole)]

    def test_stop_growing_in_the_page(self):
        """Of a text without end only so much is kept in view."""
        text = GrowingText()
        whole = "A paragraph of some words.\n\n" * 40_000
        for length in range(0, len(whole), 20_000):
            pieces = text.pieces(whole[:length])
        assert sum(map(len, pieces)) < 500_000
        assert "characters left out" in pieces[-1]


class TestReasoning:
    """Reasoning while it is written."""

    def test_is_folded_with_its_last_line_visible(self):
        """The last line stands below the fold, and changes with every delta."""
        state = told(StepStarted(step=1), ReasoningDelta(text="First I think.\nThen I wri", step=1))
        assert "Then I wri" in seen(state).text
        assert not any("open" in fold for fold in seen(state).tags("details"))
        state.add(ReasoningDelta(text="te.", step=1))
        *_, fold, line = state.blocks()
        assert "Then I write." in line.html
        assert "Then I write." not in fold.html  # not made anew for each word: one may be reading in it

    def test_is_whole_and_without_that_line_when_the_answer_begins(self):
        """Then the fold has all of it."""
        state = told(StepStarted(step=1))
        for word in ["All ", "of ", "it."]:
            state.add(ReasoningDelta(text=word, step=1))
            state.blocks()
        state.add(TextDelta(text="Answer", step=1))
        page = seen(state)
        assert page.has_class("cy-last") == []
        assert "reasoning 3 words All of it. Answer" in page.text


CALL = ToolCall("call_1", "get_weather", '{"city": "Paris"}')
WRITTEN = [
    StepStarted(step=1),
    ToolCallStarted(call_id="call_1", name="get_weather", step=1),
    ToolCallDelta(call_id="call_1", arguments='{"city": "Paris"}', step=1),
]


class TestTools:
    """Tool calls, from their first word to their result."""

    def test_are_seen_at_work(self):
        """A call is written, then it works: there is a sign of it."""
        state = told(*WRITTEN)
        assert "get_weather( city=" in seen(state).text.replace("(city", "( city")
        assert "being written" in seen(state).text
        state.add(ToolCallReady(call=CALL, step=1))
        assert "working" in seen(state).text
        assert seen(state).has_class("cy-work")

    @pytest.mark.parametrize(("status", "said"), [("ok", "→ 11 °C ok"), ("error", "→ 11 °C error")])
    def test_end_with_their_result(self, status, said):
        """The sign of work turns into what came of it, also while another tool still works."""
        other = ToolCall("call_2", "wait", "{}")
        result = ToolMessage("call_1", "get_weather", "11 °C", status=status, duration=0.5)
        more = ToolCallStarted(call_id="call_2", name="wait", step=1)
        ready = [ToolCallReady(call=call, step=1) for call in (CALL, other)]
        state = told(*WRITTEN, more, *ready, ToolResult(message=result, duration=0.5, step=1))
        assert said in seen(state).text
        assert seen(state).text.count("working") == 1

    def test_look_as_in_a_session_when_the_step_is_over(self):
        """Call and result are those that a session shows."""
        message = AssistantMessage([CALL])
        result = ToolMessage("call_1", "get_weather", "11 °C", duration=0.5)
        state = told(*WRITTEN, ToolCallReady(call=CALL), ToolResult(message=result, duration=0.5), finished(message))
        assert body(state) == body_of(message, [result])

    def test_that_were_not_run_are_not_at_work(self):
        """A call that was refused says that it has no result."""
        state = told(*WRITTEN, finished(AssistantMessage([CALL])))
        assert "no result" in seen(state).text
        assert seen(state).has_class("cy-work") == []

    def test_have_a_place_for_what_they_print(self):
        """It stands below the call, in the order in which it came, and the call of another step does not have it."""
        output = ToolOutput()
        state = told(*WRITTEN, ToolCallReady(call=CALL, step=1), outputs={(1, "call_1"): output})
        output.write("looking ")
        output.write("up\n")
        output.display(
            {"text/plain": "a table", "text/html": "<table><tr><td>cell</td></tr></table><script>x</script>"}
        )
        assert "get_weather" in seen(state).text
        assert seen(state).text.endswith("output looking up cell")
        state.add(finished(AssistantMessage([CALL])))
        state.add(StepStarted(step=2))
        for event in WRITTEN[1:]:
            state.add(event)
        assert seen(state).text.count("looking up") == 1
        assert [(it.place, it.call.name, it.output.text) for it in state.tools_with_output()] == [
            (1, "get_weather", "looking up\n\na table")
        ]


class TestToolOutput:
    """What tools print and display."""

    def test_is_bounded(self):
        """Of very much, the beginning and the end are kept."""
        output = ToolOutput()
        for number in range(100_000):
            output.write(f"line {number}\n")
        assert len(output.html) < 20_000
        assert "line 0\n" in output.text
        assert "line 99999\n" in output.text
        assert "characters left out" in output.text

    def test_has_one_line_for_a_progress_bar(self):
        """What was overwritten is gone, and so are codes for colours."""
        output = ToolOutput()
        for done in range(5):
            output.write(f"\r\x1b[32m{done}0%\x1b[0m")
        assert output.text == "40%"

    def test_follows_display_ids_and_clear_output(self):
        """An update replaces what it updates, clearing empties."""
        output = ToolOutput()
        output.display({"text/plain": "0 of 2"}, "progress")
        output.write("working")
        output.display({"text/plain": "2 of 2"}, "progress")
        assert output.text == "2 of 2\nworking"
        output.clear()
        assert output.html == ""

    @pytest.mark.parametrize("text", HOSTILE)
    @pytest.mark.parametrize("kind", ["printed", "text/plain", "text/html", "text/markdown", "image/png"])
    def test_can_do_nothing(self, kind, text):
        """Whatever it says, it runs and loads nothing."""
        output = ToolOutput()
        if kind == "printed":
            output.write(text)
        else:
            output.display({kind: text})
        read(output.html)


class TestRetries:
    """Completions that did not come to their end."""

    def test_are_dropped_when_the_step_begins_again(self):
        """Middleware has asked once more: what was read before is void."""
        state = told(StepStarted(step=1), TextDelta(text="first try", step=1))
        old = {block.name for block in state.blocks()}
        state.add(StepStarted(step=1))
        state.add(TextDelta(text="second", step=1))
        assert seen(state).text == "[0] assistant second"
        assert old.isdisjoint(block.name for block in state.blocks())

    def test_of_a_request_are_told_until_the_answer_comes(self):
        """The head says what the run waits for."""
        state = told(StepStarted(step=1), TextDelta(text="void", step=1))
        state.add(RequestRetried(attempt=1, reason="429 Too Many Requests", step=1))
        assert "void" not in seen(state).text
        assert "try 2, after 429 Too Many Requests" in read(state.head(1.0)).text
        state.add(TextDelta(text="Hello", step=1))
        assert "429" not in read(state.head(1.0)).text

    def test_leave_finished_steps_alone(self):
        """Only the step that is asked again is dropped."""
        state = told(*WRITTEN, finished(AssistantMessage([CALL])))
        for event in (StepStarted(step=2), TextDelta(text="void", step=2), StepStarted(step=2)):
            state.add(event)
        assert "get_weather" in seen(state).text
        assert "void" not in seen(state).text

    def test_an_answer_that_middleware_has_changed_takes_the_place_of_what_was_read(self):
        """What stands in the transcript is what is seen in the end."""
        message = AssistantMessage([TextPart("My number is <number>."), CALL])
        state = told(StepStarted(step=1), TextDelta(text="My number is 12345.", step=1), *WRITTEN[1:])
        assert "12345" in seen(state).text
        state.add(finished(message))
        assert body(state) == body_of(message, [None])


class TestHead:
    """What is said of a run that goes on."""

    def test_counts_steps_tokens_cost_and_seconds(self):
        """Finished steps count as reported, the one that is written is estimated."""
        message = AssistantMessage("Done.", usage=Usage(1, 1200, 34), cost=0.02, model="gpt")
        state = told(RunStarted(session_id="s", model="gpt"), StepStarted(step=1), finished(message))
        state.add(StepStarted(step=2))
        state.add(TextDelta(text="word " * 80, step=2))
        text = read(state.head(75.4)).text
        assert "Response of gpt running" in text
        assert "step 2 · 1 min 15 s · 1,200 tokens in, 34 out · $0.0200 · about 100 tokens being written" in text

    def test_says_that_a_cost_is_unknown(self):
        """An unknown price is no zero."""
        message = AssistantMessage("Done.", usage=Usage(1, 12, 3))
        state = told(StepStarted(step=1), finished(message))
        assert "cost unknown" in read(state.head(1.0)).text


class TestOtherBlocks:
    """What is no answer."""

    def test_the_question_stands_first(self):
        """Several runs at once are told apart by what was asked."""
        state = LiveState()
        state.add_input([UserMessage("What is the weather?")])
        state.add(StepStarted(step=1))
        assert seen(state).text == "[0] user What is the weather? [1] assistant"

    def test_a_compaction_is_shown_where_it_happened(self):
        """The summary stands before the step that came after it."""
        summary = SummaryMessage("They talked about Paris.", 4)
        state = told(Compacted(message=summary), StepStarted(step=1), TextDelta(text="Yes.", step=1))
        assert seen(state).text.startswith("summary of 4 messages They talked about Paris.")
        assert seen(state).text.endswith("assistant Yes.")


def indices(state):
    """Return the indices that are seen, from top to bottom."""
    return [int(number) for number in re.findall(r"\[(\d+)\]", seen(state).text)]


class TestIndices:
    """What `truncate`, `edit` and `fork` take, at each message as in the session."""

    def test_stand_at_each_message_from_the_beginning(self):
        """Of results before they are there, in the order of their calls."""
        state = LiveState()
        state.start = 7
        state.add_input([UserMessage("One."), UserMessage("Two.")])
        other = ToolCall("call_2", "wait", "{}")
        for event in (*WRITTEN, ToolCallStarted(call_id="call_2", name="wait", step=1)):
            state.add(event)
        assert indices(state) == [7, 8, 9, 10, 11]
        for event in (ToolCallReady(call=CALL, step=1), ToolCallReady(call=other, step=1)):
            state.add(event)
        state.add(ToolResult(message=ToolMessage("call_2", "wait", "x"), duration=0.1, step=1))
        assert indices(state) == [7, 8, 9, 10, 11, 11]  # the result is labelled with it too
        state.add(finished(AssistantMessage([CALL, other])))
        state.add(StepStarted(step=2))
        assert indices(state)[-1] == 12

    def test_count_the_message_that_says_why_an_answer_was_not_good(self):
        """A structured answer is asked for again in a message that stands between the two."""
        state = LiveState()
        state.add_input([UserMessage("q")])
        for event in (StepStarted(step=1), finished(AssistantMessage("bad")), StepStarted(step=2), StepStarted(step=2)):
            state.add(event)
        assert indices(state) == [0, 1, 3]

    def test_follow_a_compaction(self):
        """What stands in the session no more has no index; what comes has that which it will have."""
        state = LiveState()
        state.start = 4
        state.add_input([UserMessage("q")])
        state.add(StepStarted(step=1))
        state.add(finished(AssistantMessage([CALL])))
        assert indices(state) == [4, 5]
        state.start = 0  # the summary stands for all but the step
        for event in (Compacted(message=SummaryMessage("So far.", 5)), StepStarted(step=2)):
            state.add(event)
        assert indices(state) == [1, 3]


class TestHostileTexts:
    """What a model may write."""

    @pytest.mark.parametrize("text", HOSTILE)
    def test_do_nothing_in_any_state(self, text):
        """Whatever a model writes into whatever field, at any moment: nothing of it can act."""
        call = ToolCall("call_1", text or "x", text)
        message = AssistantMessage([ReasoningPart(text), TextPart(text), call], model=text)
        events = [
            RunStarted(session_id="s", model=text),
            StepStarted(step=1),
            RequestRetried(attempt=1, reason=text, step=1),
            ReasoningDelta(text=text, step=1),
            TextDelta(text=text, step=1),
            ToolCallStarted(call_id="call_1", name=text, step=1),
            ToolCallDelta(call_id="call_1", arguments=text, step=1),
            ToolCallReady(call=call, step=1),
            ToolResult(message=ToolMessage("call_1", text, text, status="error"), duration=0.1, step=1),
            finished(message),
            Compacted(message=SummaryMessage(text, 2), step=1),
        ]
        state = LiveState()
        state.add_input([UserMessage(text)])
        for event in events:
            state.add(event)
            read(state.head(1.0, text))
            seen(state)
