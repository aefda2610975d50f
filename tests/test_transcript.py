"""What a valid transcript is, and how an invalid one is mended."""

from collections import Counter

import pytest
from hypothesis import given
from strategies import broken_transcripts, moderate, valid_transcripts

from cyclops_nb.errors import TranscriptError
from cyclops_nb.messages import AssistantMessage, SummaryMessage, TextPart, ToolCall, ToolMessage, UserMessage
from cyclops_nb.transcript import calls_with_results, check, find_problems, open_calls, repaired, with_unique_call_ids

U, S = UserMessage("go"), SummaryMessage("before", 3)


def A(*ids):
    """Return an answer that calls tools under these ids, or says something if there are none."""
    return AssistantMessage([ToolCall(call_id, "f") for call_id in ids] or "done")


def R(call_id, text="r"):
    """Return a result."""
    return ToolMessage(call_id, "f", text)


VALID = {
    "empty": [],
    "text": [U, A()],
    "one call": [U, A("a"), R("a"), A()],
    "results in any order": [U, A("a", "b", "c"), R("c"), R("a"), R("b")],
    "the same id in two turns": [U, A("a"), R("a"), U, A("a"), R("a")],
    "the same id in two steps": [U, A("a"), R("a"), A("a"), R("a"), A()],
    "ends with results": [U, A("a"), R("a")],
    "summary first": [S, U, A()],
    "several users": [U, U, A(), U],
}
INVALID = {
    "no result at the end": ([U, A("a")], 1, "'a' has no result"),
    "no result before a user": ([U, A("a"), U], 1, "'a' has no result"),
    "no result before an answer": ([U, A("a"), A()], 1, "'a' has no result"),
    "no result before a summary": ([U, A("a"), S], 1, "'a' has no result"),
    "one of two missing": ([U, A("a", "b"), R("a")], 1, "'b' has no result"),
    "result in a later turn": ([U, A("a"), U, R("a")], 1, "'a' has no result"),
    "result before its call": ([U, R("a"), A("a")], 1, "'a' belongs to no open call"),
    "result without a call": ([U, A(), R("a")], 2, "'a' belongs to no open call"),
    "second result": ([U, A("a"), R("a"), R("a")], 3, "'a' belongs to no open call"),
    "result of an earlier turn": ([U, A("a"), R("a"), A("b"), R("a"), R("b")], 4, "'a' belongs to no open call"),
    "two calls with one id": ([U, A("a", "a"), R("a"), R("a")], 1, "two tool calls share the id 'a'"),
    "call without an id": ([U, A(""), R("")], 1, "'f' has no id"),
}


def case(table):
    return pytest.mark.parametrize("name", table)


class TestCheck:
    @case(VALID)
    def test_accepts(self, name):
        """A transcript in which each call is answered once in its turn is valid."""
        assert find_problems(VALID[name]) == []
        check(VALID[name])

    @case(INVALID)
    def test_refuses_and_names_the_place(self, name):
        """An invalid transcript is refused with index, message id, what is wrong and what mends it."""
        messages, index, text = INVALID[name]
        with pytest.raises(TranscriptError) as caught:
            check(messages)
        said = str(caught.value)
        assert f"message {index} " in said
        assert repr(messages[index].id) in said
        assert text in said
        assert "repair()" in said

    def test_each_problem_is_told_once_in_order(self):
        """All problems are found, each once and at its place."""
        messages = [A("a"), U, A("b", "b"), R("b"), U, R("a")]
        assert [(problem.index, problem.text) for problem in find_problems(messages)] == [
            (0, "tool call 'a' has no result"),
            (2, "two tool calls share the id 'b'"),
            (5, "tool result for 'a' belongs to no open call"),
        ]

    def test_its_error_is_a_value_error(self):
        """The error is a ValueError too, as for any bad value."""
        with pytest.raises(ValueError, match="no result"):
            check([A("a")])

    @moderate
    @given(valid_transcripts)
    def test_any_valid_transcript_passes(self, messages):
        """No valid transcript is refused, whatever stands in it."""
        check(messages)

    @moderate
    @given(broken_transcripts)
    def test_finds_exactly_what_the_rule_says(self, messages):
        """A transcript is refused if and only if some turn has not one result for each of its calls."""
        valid, turn = True, Counter()
        for message in [*messages, U]:
            if isinstance(message, ToolMessage):
                turn[message.call_id] -= 1
                valid &= turn[message.call_id] == 0
                continue
            valid &= not any(turn.values())
            turn = Counter(call.id for call in getattr(message, "tool_calls", ()))
            valid &= all(count == 1 for count in turn.values())
        assert (find_problems(messages) == []) is valid


class TestOpenCalls:
    def test_are_those_of_the_last_turn(self):
        """The open calls are those that the last answer made and nothing answered."""
        assert [call.id for call in open_calls([U, A("a", "b", "c"), R("b")])] == ["a", "c"]

    @case(VALID)
    def test_of_a_valid_transcript_are_none(self, name):
        """A valid transcript has no open calls."""
        assert open_calls(VALID[name]) == []

    def test_do_not_reach_over_a_user_message(self):
        """A call that a user message already followed is not open: nothing can answer it there."""
        assert open_calls([A("a"), U]) == []


class TestCallsWithResults:
    def test_are_joined_within_the_turn(self):
        """A call has the result that answers it in its own turn, whichever ids come again in others."""
        first, second = R("a", "first"), R("a", "second")
        found = calls_with_results([U, A("a", "b"), first, U, A("a"), second])
        assert [(call.id, result) for call, result in found[1]] == [("a", (2, first)), ("b", None)]
        assert [(call.id, result) for call, result in found[4]] == [("a", (5, second))]

    def test_strays_belong_to_no_call(self):
        """A result before any call, behind a user message, or under another id, is no call's."""
        found = calls_with_results([R("a"), A("a"), U, R("a"), A("b"), R("c"), A(), R("b")])
        assert [result for calls in found.values() for _, result in calls] == [None, None]

    def test_calls_of_one_id_get_results_in_their_order(self):
        """Where calls of a turn share an id, the first result is the first call's, and a third is no one's."""
        found = calls_with_results([A("a", "a"), R("a", "1"), R("a", "2"), R("a", "3")])
        assert [result[1].text for _, result in found[0]] == ["1", "2"]

    @moderate
    @given(broken_transcripts)
    def test_every_call_is_there_once(self, messages):
        """Of any messages each call is there once, in its place, and no result is two calls'."""
        found = calls_with_results(messages)
        assert {index: [call for call, _ in calls] for index, calls in found.items()} == {
            index: list(message.tool_calls)
            for index, message in enumerate(messages)
            if isinstance(message, AssistantMessage) and message.tool_calls
        }
        places = [result[0] for calls in found.values() for _, result in calls if result]
        assert len(set(places)) == len(places)
        for calls in found.values():
            for call, result in calls:
                assert result is None or (messages[result[0]] is result[1] and result[1].call_id == call.id)

    @moderate
    @given(valid_transcripts)
    def test_of_a_valid_transcript_all_are_answered(self, messages):
        """In a valid transcript each call has a result, and each result a call."""
        results = [result for calls in calls_with_results(messages).values() for _, result in calls]
        assert all(results)
        assert len(results) == sum(isinstance(message, ToolMessage) for message in messages)


class TestRepair:
    @moderate
    @given(broken_transcripts)
    def test_makes_anything_valid(self, messages):
        """Whatever is repaired is a valid transcript."""
        check(repaired(messages)[0])

    @moderate
    @given(broken_transcripts)
    def test_is_done_once(self, messages):
        """Repairing what was repaired changes nothing and adds nothing."""
        once, _ = repaired(messages)
        again, added = repaired(once)
        assert (again, added) == (once, [])

    @moderate
    @given(valid_transcripts)
    def test_leaves_a_valid_transcript_alone(self, messages):
        """A valid transcript keeps the very same messages."""
        result, added = repaired(messages)
        assert added == []
        assert len(result) == len(messages)
        assert all(new is old for new, old in zip(result, messages, strict=True))

    @moderate
    @given(broken_transcripts)
    def test_says_only_what_was_said(self, messages):
        """All that was said stays in its order; what is new are error results, and nothing but results is lost."""
        result, added = repaired(messages)
        assert all(message.status == "error" for message in added)
        said = [message.id for message in messages if not isinstance(message, ToolMessage)]
        assert [message.id for message in result if not isinstance(message, ToolMessage)] == said
        rest = iter([message.id for message in messages])
        assert all(message.id in rest for message in result if not any(message is new for new in added))

    def test_answers_open_calls(self):
        """An open call gets an error result under its id and name, where its turn ends."""
        result, added = repaired([U, A("a", "b"), R("b"), U])
        assert [message.role for message in result] == ["user", "assistant", "tool", "tool", "user"]
        assert added == [result[3]]
        assert (added[0].call_id, added[0].name, added[0].status) == ("a", "f", "error")
        assert added[0].text

    def test_drops_stray_results(self):
        """Results that belong to no call are dropped, the second result of a call too."""
        first, second = R("a", "first"), R("a", "second")
        result, added = repaired([R("x"), U, A("a"), first, second, A(), R("a")])
        assert [message.text for message in result] == ["go", "", "first", "done"]
        assert added == []

    def test_gives_calls_of_one_id_ids_of_their_own(self):
        """Calls of one turn that share an id get new ids, and each keeps its result."""
        result, added = repaired([U, A("a", "a", ""), R("a", "1"), R("", "3"), R("a", "2")])
        ids = [call.id for call in result[1].tool_calls]
        assert len(set(ids)) == 3
        assert ids[0] == "a"
        assert "" not in ids
        texts = {message.call_id: message.text for message in result[2:]}
        assert [texts[call_id] for call_id in ids] == ["1", "2", "3"]
        assert added == []

    def test_does_not_touch_its_input(self):
        """The list that is repaired stays as it was."""
        messages = [U, A("a")]
        repaired(messages)
        assert len(messages) == 2


class TestUniqueCallIds:
    def test_only_what_is_double_changes(self):
        """The first call keeps its id, and so do all others that are unique."""
        answer = with_unique_call_ids(A("a", "b", "a"))
        assert [call.id for call in answer.tool_calls][:2] == ["a", "b"]

    def test_a_new_id_is_not_taken_by_another(self):
        """A new id is never one that another call of the message has."""
        for ids in (("a", "a", "a_2"), ("a_2", "a", "a"), ("call", "", ""), ("", "call", "call_2", "")):
            made = [call.id for call in with_unique_call_ids(A(*ids)).tool_calls]
            assert len(set(made)) == len(ids)
            assert "" not in made

    def test_nothing_to_change_gives_the_same_message(self):
        """A message whose ids are fine comes back as it is."""
        answer = A("a", "b")
        assert with_unique_call_ids(answer) is answer

    def test_other_parts_stay(self):
        """Text around the calls stays where it is, and so do the call's name, arguments and provider data."""
        call = ToolCall("a", "f", '{"x": 1}', provider_metadata={"signature": "s"})
        answer = with_unique_call_ids(AssistantMessage([TextPart("t"), call, TextPart("u"), call]))
        assert [part.type for part in answer.content] == ["text", "tool_call", "text", "tool_call"]
        second = answer.tool_calls[1]
        assert (second.name, second.arguments, second.provider_metadata) == ("f", '{"x": 1}', {"signature": "s"})
