"""Conversations side by side."""

from datetime import timedelta

import pandas as pd
import pytest
from branching import START, ask, origin, two
from hypothesis import given
from hypothesis import strategies as st
from pages import HOSTILE, shown
from strategies import any_transcripts, broken_transcripts, moderate

from cyclops_nb.display.branches import compare
from cyclops_nb.display.content_keys import common_prefix, content_keys
from cyclops_nb.display.wording import changes
from cyclops_nb.errors import InputError
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
from cyclops_nb.response import AgentResponse
from cyclops_nb.runs import RunError
from cyclops_nb.session import Session
from cyclops_nb.usage import Usage


class TestCompare:
    """What `compare` finds out."""

    def test_finds_the_common_part_by_content(self):
        """Two sessions that were made apart have in common what was said in both."""
        comparison = compare(origin(), ask(Session("x"), "Hello", AssistantMessage("Hi."), run_id="other"))
        assert comparison.shared == 2

    def test_ends_the_common_part_at_the_first_difference(self):
        """What is the same again later is not common."""
        assert compare(*two()).shared == 2

    def test_has_the_common_part_of_all_branches(self):
        """With three, the common part is what all three say."""
        assert compare(*two(), Session("empty")).shared == 0

    def test_counts_a_branch_without_what_it_inherited(self):
        """Messages, steps, calls, tokens, cost and time are those after the common part."""
        first, second = compare(*two()).branches
        assert [len(first.own), len(first.answers), first.tool_calls] == [2, 1, 0]
        assert [len(second.own), len(second.answers), second.tool_calls] == [4, 2, 1]
        assert first.usage == Usage(1, 100, 10)
        assert second.usage == Usage(2, 300, 25, 50, 5)
        assert (first.cost, second.cost, second.duration) == (0.001, 0.0034, 2.5)
        assert first.session_cost == pytest.approx(0.002)

    def test_counts_a_run_of_the_same_question_with_another_answer_whole(self):
        """A common question does not make the run that answers it common."""
        other = ask(Session("x"), "Hello", AssistantMessage("Good day."), run_id="other", cost=0.5)
        comparison = compare(origin(), other)
        assert comparison.shared == 1
        assert [branch.cost for branch in comparison.branches] == [0.001, 0.5]

    def test_does_not_count_inherited_runs_whose_messages_were_left_off(self):
        """A fork from an earlier point is not charged for what was cut off."""
        session = ask(origin(), "Is it cold?", AssistantMessage("Yes."), run_id="r2", cost=9.0)
        fork = ask(session.fork(at=2), "Is it warm?", AssistantMessage("No."), run_id="r3")
        first, second = compare(session, fork).branches
        assert (first.cost, second.cost) == (9.0, 0.001)
        assert len(second.session_runs) == 3

    def test_uses_what_messages_report_where_no_run_does(self):
        """Imported conversations have no runs; their answers may know what they cost."""
        known = Session(messages=[AssistantMessage("a", usage=Usage(1, 2, 3), cost=0.5, duration=1.0)])
        unknown = Session(messages=[AssistantMessage("b")])
        first, second = compare(known, unknown).branches
        assert (first.usage, first.cost, first.duration) == (Usage(1, 2, 3), 0.5, 1.0)
        assert (second.usage, second.cost, second.duration) == (None, None, None)

    def test_is_a_picture_of_the_moment(self):
        """What is said later does not change a comparison."""
        first, second = two()
        comparison = compare(first, second)
        before = shown(comparison)[1]
        ask(first, "More", AssistantMessage("..."), run_id="later")
        assert shown(comparison)[1] == before

    def test_names_branches_by_title_or_id(self):
        """Titles are the labels, the beginning of an id where there is none."""
        nameless = Session("a" * 32)
        assert compare(origin(), nameless).labels == ["Origin", "aaaaaaaa"]

    def test_tells_branches_of_the_same_title_apart(self):
        """Forks keep the title, so the id is added."""
        session = origin()
        fork = session.fork()
        assert compare(session, fork).labels == ["Origin (origin)", f"Origin ({fork.id[:8]})"]
        assert compare(session, session).labels == ["Origin", "Origin #2"]

    def test_takes_labels(self):
        """Given labels are used."""
        assert compare(*two(), labels=["cold", "warm"]).labels == ["cold", "warm"]

    def test_cleans_labels(self):
        """Control characters in a label do not reach a terminal, and labels stay different."""
        comparison = compare(*two(), labels=["a\x1b[31m\n", "a\x1b[31m\n"])
        assert "\x1b" not in shown(comparison)[1]
        assert "\n" not in "".join(comparison.labels)
        assert len(set(comparison.labels)) == 2

    @pytest.mark.parametrize("labels", [["a"], ["a", "b", "c"], "ab", []])
    def test_refuses_labels_that_do_not_fit(self, labels):
        """There is one label for each."""
        with pytest.raises(InputError, match="labels must have a name for each of the 2"):
            compare(*two(), labels=labels)

    @pytest.mark.parametrize("count", [0, 1])
    def test_needs_two(self, count):
        """One conversation cannot be compared."""
        with pytest.raises(ValueError, match=f"two or more sessions or responses, got {count}"):
            compare(*two()[:count])

    @pytest.mark.parametrize("item", [[Session()], "study-1", None])
    def test_refuses_what_is_no_conversation(self, item):
        """Lists and ids are not taken for sessions."""
        with pytest.raises(InputError, match=type(item).__name__):
            compare(Session(), item)

    def test_shows_settings_that_differ(self):
        """Of the settings only those that are not the same for all are named."""
        first, second = two()
        first.configs["a"] = {"model": "m", "temperature": 0, "cyclops_nb": "0.1"}
        second.configs["b"] = {"model": "m", "temperature": 0.7, "seed": 1, "cyclops_nb": "0.2"}
        first.runs[-1] = first.runs[-1].model_copy(update={"config": "a"})
        second.runs[-1] = second.runs[-1].model_copy(update={"config": "b"})
        comparison = compare(first, second)
        assert comparison.differing_settings == ["seed", "temperature"]
        page, text = shown(comparison)
        assert "seed (default) 1" in page.text
        assert "temperature 0 0.7" in page.text
        assert "settings that differ" in text


class TestResponses:
    """Responses in a comparison."""

    def test_stand_for_their_session(self):
        """What stood before the run is part of the conversation."""
        first, second = two()
        response = AgentResponse(run=first.runs[-1], content="Yes.", messages=tuple(first.messages[2:]), session=first)
        assert compare(response, second).branches[0].messages == tuple(first.messages)

    def test_end_with_their_own_messages(self):
        """What was asked later in the session does not belong to a response."""
        first, second = two()
        response = AgentResponse(run=first.runs[-1], content="Yes.", messages=tuple(first.messages[2:]), session=first)
        ask(first, "More", AssistantMessage("..."), run_id="later")
        assert len(compare(response, second).branches[0].messages) == 4

    def test_outlive_a_truncation(self):
        """Two tries at one question in one session can be compared."""
        session = Session("s")
        responses = []
        for number in range(2):
            started = START + timedelta(hours=number)
            session.messages[:] = session.messages[:2]
            old = [m.model_copy(update={"created_at": START - timedelta(hours=1)}) for m in origin().messages]
            session.messages[:] = old
            ask(session, "Really?", AssistantMessage(f"Answer {number}"), run_id=str(number), started_at=started)
            new = [m.model_copy(update={"created_at": started}) for m in session.messages[2:]]
            session.messages[2:] = new
            responses.append(AgentResponse(run=session.runs[-1], content="", messages=tuple(new), session=session))
        comparison = compare(*responses)
        assert comparison.shared == 3
        assert [branch.own[0].text for branch in comparison.branches] == ["Answer 0", "Answer 1"]
        assert [branch.cost for branch in comparison.branches] == [0.001, 0.001]


class TestLook:
    """A comparison in a cell."""

    def test_folds_the_common_part_once(self):
        """What all say is said once, with its number of messages."""
        page, text = shown(compare(*two()))
        assert page.text.count("Hi.") == 1
        assert "[0]–[1]: 2 messages in common" in page.text
        assert "2 messages in common, then 2 and 4" in page.text
        assert text.count("Hi.") == 1

    def test_has_a_column_for_each_branch(self):
        """Branches stand side by side under their labels, in a frame that scrolls."""
        page, text = shown(compare(*two(), Session("third")))
        columns = [cell for cell in page.tags("th") if cell.get("scope") == "col"]
        assert len(columns) == 6
        assert page.has_class("cy-scroll")
        assert text.index("--- A ---") < text.index("--- B ---") < text.index("--- third ---")

    def test_aligns_final_answers(self):
        """An answer stands beside the answer of the other branch, however many steps came before it."""
        page, _ = shown(compare(*two()))
        rows = page.text[page.text.index("[2] user") :]
        assert rows.index("I look.") < rows.index("Yes.") < rows.index("No.")
        assert len(page.has_class("cy-none")) == 1

    def test_says_that_messages_are_the_same_in_all(self):
        """After the branches have parted, what all say again is said once."""
        first, second = two()
        for session in (first, second):
            ask(session, "Thank you.", AssistantMessage("Welcome."), run_id=f"t{session.id}")
        page, _ = shown(compare(first, second))
        assert page.text.count("Thank you.") == 1
        assert "the same in all, at [4], [6]" in page.text

    def test_says_that_a_message_is_the_same_as_in_another_branch(self):
        """With three branches, two may agree."""
        first, second = two()
        third = origin().fork(title="C")
        ask(third, "Is it cold?", AssistantMessage("Yes."), run_id="rc")
        page, _ = shown(compare(first, second, third))
        assert page.text.count("Yes.") == 1
        assert page.text.count("the same as in A") == 2

    def test_marks_changed_words(self):
        """A question that was reworded shows which words."""
        page, _ = shown(compare(*two()))
        assert page.tags("del")
        assert page.tags("ins")

    def test_shows_numbers_with_their_difference(self):
        """Each number says by how much it differs from the first branch."""
        page, text = shown(compare(*two()))
        for row in (
            "messages 2 4 (+2)",
            "tool calls 0 1 (+1)",
            "tokens in 100 300 (+200)",
            "cost $0.0010 $0.0034 (+$0.0024)",
        ):
            assert row in page.text
            assert row in " ".join(text.split())
        assert "time 1.0 s 2.5 s (+1.5 s)" in page.text
        assert "model m big" in page.text
        assert "stop reason completed completed" in page.text

    def test_tells_the_branch_from_its_session(self):
        """Numbers after the common part and of the whole session have headings of their own."""
        page, text = shown(compare(*two()))
        for said in (page.text, text):
            assert said.index("after the common part") < said.index("whole session")

    def test_shows_unknown_and_incomplete_numbers_as_such(self):
        """Unknown is unknown, a lower bound is one, and there is no difference from an unknown number."""
        first, second = two()
        first.runs[-1] = first.runs[-1].model_copy(update={"cost": None})
        second.runs[-1] = second.runs[-1].model_copy(update={"usage_complete": False})
        page, _ = shown(compare(first, second))
        assert "cost unknown ≥$0.0034" in page.text
        assert "tokens in 100 ≥300 (+200)" in page.text

    def test_shows_how_runs_failed(self):
        """An error of a branch stands at its end."""
        first, second = two()
        error = RunError(type="RateLimitError", message="too many")
        second.runs[-1] = second.runs[-1].model_copy(update={"error": error, "stop_reason": "error"})
        page, _ = shown(compare(first, second))
        assert "failed with RateLimitError: too many" in page.text

    def test_prints_as_its_plain_text(self):
        """``print`` shows what a notebook without HTML would."""
        comparison = compare(*two())
        assert str(comparison) == shown(comparison)[1]

    def test_does_not_deny_what_branches_say_alike(self):
        """Branches that begin differently may say the same later: they lack a common beginning, no more."""
        first = ask(Session("one"), "Hello", AssistantMessage("Hi."), run_id="r1")
        other = ask(Session("two"), "Good day", AssistantMessage("Hi."), run_id="r2")
        page, text = shown(compare(first, other))
        assert "no common beginning" in page.text
        assert "no common beginning" in text
        assert "the same in all" in page.text

    def test_says_a_warning_of_many_runs_once_a_branch(self):
        """A warning is said at the first run after the common part, also if a run in the common part had it."""
        session = ask(Session("s"), "Hello", AssistantMessage("Hi."), run_id="r0", warnings=("no price",))
        branches = [session.fork(), session.fork()]
        for branch in branches:
            for number in range(3):
                words = f"{branch.id} {number}"
                ask(branch, words, AssistantMessage(words), run_id=words, warnings=("no price",))
        page, text = shown(compare(*branches))
        assert page.text.count("run [1]: no price") == 2
        assert page.text.count("no price") == 2
        assert text.count("Warning: no price") == 2

    def test_says_that_branches_are_the_same(self):
        """Two forks with nothing new have nothing to compare."""
        page, _ = shown(compare(origin(), origin().fork()))
        assert "they say the same" in page.text

    def test_shows_a_result_whose_call_is_common(self):
        """Branches may part at a tool result."""
        base = [UserMessage("Look"), AssistantMessage(ToolCall("c", "look"))]
        one = Session("one", messages=[*base, ToolMessage("c", "look", "blue")])
        other = Session("other", messages=[*base, ToolMessage("c", "look", "grey")])
        page, _ = shown(compare(one, other))
        assert "blue" in page.text
        assert "grey" in page.text
        assert "no result" not in page.text

    def test_is_the_same_each_time(self):
        """The same branches give the same bytes."""
        first, second = two()
        assert compare(first, second)._repr_mimebundle_() == compare(first, second)._repr_mimebundle_()

    def test_stays_small(self):
        """Many long branches stay below a megabyte."""
        sessions = []
        for number in range(8):
            session = Session(str(number))
            for turn in range(300):
                ask(
                    session,
                    f"Q {turn} of {number} " * 30,
                    AssistantMessage(f"*A* {turn} `x` " * 60),
                    run_id=f"{number}-{turn}",
                )
            sessions.append(session)
        bundle = compare(*sessions)._repr_mimebundle_()
        assert len(bundle["text/html"].encode()) < 1_000_000
        assert "more rows of messages not shown" in bundle["text/html"]
        assert len(bundle["text/plain"].encode()) < 1_000_000

    @pytest.mark.parametrize("text", HOSTILE)
    def test_hostile_text_stays_text(self, text):
        """Labels, settings and all that is said are shown as text."""
        first, second = Session(text, title=text), Session("x", title=text)
        for session in (first, second):
            session.configs["k"] = {"model": text, text: session.id, "tools": [{"name": text + session.id}]}
            ask(
                session,
                text + session.id,
                AssistantMessage(text, model=text),
                run_id=f"r{session.id}",
                config="k",
                model=text,
            )
        page, plain = shown(compare(first, second))
        assert "cannot be drawn" not in page.text
        plain.encode()
        page, _ = shown(compare(first, second, labels=[text, text]))
        assert "cannot be drawn" not in page.text

    @moderate
    @given(st.lists(any_transcripts | broken_transcripts, min_size=2, max_size=4))
    def test_any_conversations_can_be_compared(self, transcripts):
        """Whatever stands in them, valid or not, the comparison is shown, inert."""
        page, text = shown(compare(*[Session(str(n), messages=said) for n, said in enumerate(transcripts)]))
        assert "cannot be drawn" not in page.text
        text.encode()


class TestFrame:
    """The numbers as a DataFrame."""

    def test_has_a_row_for_each_branch(self):
        """Columns are numbers of the branch, then of the session."""
        frame = compare(*two()).to_frame()
        assert list(frame["label"]) == ["A", "B"]
        assert list(frame["shared"]) == [2, 2]
        assert list(frame["input_tokens"]) == [100, 300]
        assert list(frame["cost"]) == [0.001, 0.0034]
        assert list(frame["stop_reason"]) == ["completed", "completed"]
        assert list(frame["session_messages"]) == [4, 6]
        assert list(frame["session_runs"]) == [2, 2]

    def test_has_the_documented_columns_and_types(self):
        """Types are the same whether something is unknown or not."""
        first, second = two()
        known = compare(first, second).to_frame()
        first.runs[-1] = first.runs[-1].model_copy(update={"usage": None, "cost": None, "duration": None})
        unknown = compare(first, second).to_frame()
        assert dict(known.dtypes) == dict(unknown.dtypes)
        doc = compare(first, second).to_frame.__doc__
        assert all(f" {name} " in doc for name in known.columns)
        assert known["input_tokens"].dtype == "Int64"
        assert known["cost"].dtype == "Float64"
        assert unknown["cost"].isna().tolist() == [True, False]

    def test_has_settings_that_differ(self):
        """A setting that is not the same for all has a column."""
        first, second = two()
        first.configs["a"] = {"model": "m", "temperature": 0, "stop": ["x"]}
        second.configs["b"] = {"model": "m", "temperature": 0.7}
        first.runs[-1] = first.runs[-1].model_copy(update={"config": "a"})
        second.runs[-1] = second.runs[-1].model_copy(update={"config": "b"})
        frame = compare(first, second).to_frame()
        assert list(frame["config.temperature"]) == [0, 0.7]
        assert frame["config.stop"][0] == '["x"]'
        assert frame["config.stop"][1] is pd.NA
        assert "config.model" not in frame


class TestContentKeys:
    """When two messages say the same."""

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (UserMessage("a"), UserMessage("a", run_id="x", metadata={"a": 1})),
            (UserMessage([TextPart("a"), TextPart("b")]), UserMessage("ab")),
            (UserMessage([TextPart(""), TextPart("b")]), UserMessage("b")),
            (AssistantMessage("a", model="x", usage=Usage(1, 2, 3)), AssistantMessage("a", model="y", cost=1.0)),
            (
                AssistantMessage(ToolCall("1", "f", '{"a":1,"b":2}')),
                AssistantMessage(ToolCall("2", "f", '{"b": 2, "a": 1}')),
            ),
        ],
    )
    def test_are_equal_for_equal_content(self, one, other):
        """Ids, runs, models, measures and the way of writing JSON are no content."""
        assert content_keys([one]) == content_keys([other])

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (UserMessage("a"), UserMessage("b")),
            (UserMessage("a"), AssistantMessage("a")),
            (AssistantMessage("a"), AssistantMessage([ReasoningPart("r"), TextPart("a")])),
            (AssistantMessage(ToolCall("1", "f", '{"a": 1}')), AssistantMessage(ToolCall("1", "f", '{"a": true}'))),
            (AssistantMessage(ToolCall("1", "f")), AssistantMessage(ToolCall("1", "g"))),
            (AssistantMessage(ToolCall("1", "f")), AssistantMessage([ToolCall("1", "f"), ToolCall("2", "f")])),
            (ToolMessage("1", "f", "x"), ToolMessage("1", "f", "x", status="error")),
            (
                UserMessage(ImagePart(b"a", media_type="image/png")),
                UserMessage(ImagePart(b"b", media_type="image/png")),
            ),
            (UserMessage(FilePart("a", b"a", "t/t")), UserMessage(FilePart("b", b"a", "t/t"))),
            (SummaryMessage("a", 1), SummaryMessage("a", 2)),
        ],
    )
    def test_differ_for_different_content(self, one, other):
        """What the reader sees makes a difference."""
        assert content_keys([one]) != content_keys([other])

    def test_know_which_call_a_result_answers(self):
        """The place of the call counts, its id does not."""

        def said(first, second, answered):
            calls = AssistantMessage([ToolCall(first, "f"), ToolCall(second, "f")])
            return content_keys([calls, ToolMessage(answered, "f", "x")])

        assert said("1", "2", "1") == said("a", "b", "a")
        assert said("1", "2", "1") != said("a", "b", "b")

    def test_hold_arguments_that_are_no_json(self):
        """Broken and endless arguments are compared as text."""
        deep = "[" * 100_000
        assert content_keys([AssistantMessage(ToolCall("1", "f", deep))]) == content_keys(
            [AssistantMessage(ToolCall("2", "f", deep))]
        )

    @moderate
    @given(any_transcripts)
    def test_survive_saving_and_forking(self, messages):
        """A stored and loaded session says the same."""
        session = Session(messages=messages)
        again = Session.model_validate_json(session.model_dump_json())
        assert content_keys(session.messages) == content_keys(again.messages) == content_keys(session.fork().messages)

    @given(st.lists(st.text("ab", max_size=6), min_size=1, max_size=4))
    def test_common_prefix_is_the_longest(self, texts):
        """All begin with it, and not with one more."""
        length = common_prefix(texts)
        assert len({text[:length] for text in texts}) == 1
        assert len({text[: length + 1] for text in texts}) > 1 or length == min(map(len, texts))


class TestChanges:
    """Changed words."""

    def test_mark_what_went_and_what_came(self):
        """Both sides of a change are shown."""
        marked = changes("a warm day", "a cold day")
        assert marked.striptags() == "a [removed: warm] [added: cold] day"
        assert (marked.count("<del>"), marked.count("<ins>")) == (1, 1)

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("same", "same"),
            ("a b c", "x y z"),
            ("a " * 5_000, "b " * 5_000),
            ("a b " * 200, "b a " * 200),
            ("", ""),
            ("", "a"),
        ],
    )
    def test_are_not_marked_where_marks_say_nothing(self, old, new):
        """Equal, unlike and long texts have no marks."""
        assert changes(old, new) is None

    def test_leave_out_what_is_the_same_at_length(self):
        """One word in a long answer is found, with some words around it."""
        words = [f"w{number}" for number in range(8_000)]
        other = [*words[:4_000], "new", *words[4_001:]]
        assert changes(" ".join(words), " ".join(other)).striptags() == (
            f"[… 3,988 words the same …] {' '.join(words[3_988:4_000])} [removed: w4000] [added: new] "
            f"{' '.join(words[4_001:4_013])} [… 3,987 words the same …]"
        )

    @given(st.text(max_size=60), st.text(max_size=60))
    def test_escape_what_they_show(self, old, new):
        """Only our own elements are in it."""
        marked = changes(old, new)
        own = ("</div>", "</del>", "</ins>", "</span>")
        assert marked is None or marked.count("<") == 2 * sum(map(marked.count, own))
