"""Sessions: their JSON, forks, cuts, edits and repairs."""

import contextlib
import copy
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from strategies import broken_transcripts, input_content, moderate, sessions

from cyclops_nb.errors import InputError, SessionBusyError, TranscriptError
from cyclops_nb.messages import AssistantMessage, SummaryMessage, TextPart, ToolCall, ToolMessage, UserMessage
from cyclops_nb.runs import Run
from cyclops_nb.session import Session, claim, release
from cyclops_nb.transcript import check, find_problems
from cyclops_nb.usage import Usage

INDEXES = st.integers(-12, 12)


def conversation(*messages, **fields):
    return Session("s", messages=list(messages), **fields)


def with_tools():
    """Return a session with a question, two calls, their results, and an answer."""
    return conversation(
        UserMessage("weather?"),
        AssistantMessage([ToolCall("a", "f"), ToolCall("b", "f")]),
        ToolMessage("a", "f", "1"),
        ToolMessage("b", "f", "2"),
        AssistantMessage("fine"),
    )


def spoil(value, seen):
    """Change everything reachable from `value` that lets itself be changed, the inner things first."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, BaseModel):
        items = list(value)
        for _, item in items:
            spoil(item, seen)
        for name, _ in items:
            attempt(lambda name=name: setattr(value, name, "spoilt"))
        attempt(lambda: setattr(value, "added", ["spoilt"]))
    elif isinstance(value, dict):
        for item in list(value.values()):
            spoil(item, seen)
        attempt(lambda: value.update(spoilt=True))
        attempt(value.clear)
    elif isinstance(value, list | tuple):
        for item in value:
            spoil(item, seen)
        attempt(lambda: value.append("spoilt"))
        attempt(lambda: value.reverse())
        attempt(lambda: value.__setitem__(0, "spoilt"))


def attempt(change):
    with contextlib.suppress(TypeError, AttributeError, ValidationError, IndexError):
        change()


class TestFork:
    @moderate
    @given(sessions(broken_transcripts))
    def test_copies_everything_under_a_new_id(self, session):
        """A fork differs in id, time and parent alone, and its parent names origin and place."""
        fork = session.fork()
        changed = {"id", "created_at", "parent"}
        assert fork.model_dump(exclude=changed) == session.model_dump(exclude=changed)
        assert fork.id != session.id
        assert fork.created_at >= session.created_at or session.created_at.year > 2025
        assert (fork.parent.session_id, fork.parent.message_count) == (session.id, len(session.messages))

    @moderate
    @given(sessions())
    def test_spoiling_the_fork_leaves_the_origin(self, session):
        """Changing whatever is reachable in a fork never changes what its origin writes."""
        before = session.model_dump_json()
        spoil(session.fork(), set())
        assert session.model_dump_json() == before

    @moderate
    @given(sessions())
    def test_spoiling_the_origin_leaves_the_fork(self, session):
        """Changing whatever is reachable in a session never changes what its fork writes."""
        fork = session.fork()
        before = fork.model_dump_json()
        spoil(session, set())
        assert fork.model_dump_json() == before

    @moderate
    @given(sessions(), INDEXES)
    def test_at_an_index_is_a_fork_then_truncated(self, session, index):
        """`fork(at=i)` equals a fork that is truncated there, or is refused as that is, and leaves the origin."""
        before = session.model_dump_json()
        fork = session.fork()
        try:
            fork.truncate(index)
        except ValueError as error:
            with pytest.raises(type(error), match=re.escape(str(error))):
                session.fork(at=index)
        else:
            changed = {"id", "created_at"}
            assert session.fork(at=index).model_dump(exclude=changed) == fork.model_dump(exclude=changed)
        assert session.model_dump_json() == before

    def test_shares_messages_and_not_lists(self):
        """A fork holds the same messages, which cannot change, in a list of its own."""
        session = with_tools()
        fork = session.fork()
        assert fork.messages is not session.messages
        assert all(new is old for new, old in zip(fork.messages, session.messages, strict=True))

    def test_goes_on_independently(self):
        """What is said in one is not said in the other, however often one forks."""
        session = conversation(UserMessage("a"))
        forks = [session.fork(), session.fork(), session.fork().fork()]
        for number, fork in enumerate(forks):
            fork.messages.append(AssistantMessage(str(number)))
        assert [len(item.messages) for item in (session, *forks)] == [1, 2, 2, 2]

    def test_keeps_the_runs_as_inherited(self):
        """The runs of the origin keep its id, so that they are known as inherited."""
        session = conversation(runs=[Run(session_id="s", model="m", usage=Usage(1, 2, 3))])
        fork = session.fork()
        assert fork.runs == session.runs
        assert [run.session_id for run in fork.runs] == ["s"]

    def test_takes_a_title(self):
        """A fork has its origin's title unless it is given one."""
        session = Session("s", title="first")
        assert (session.fork().title, session.fork(title="second").title) == ("first", "second")

    def test_of_a_fork_names_the_fork(self):
        """The parent of a fork's fork is the fork."""
        fork = Session("s").fork()
        assert fork.fork().parent.session_id == fork.id

    def test_at_zero_keeps_nothing(self):
        """`fork(at=0)` is an empty conversation and not a whole one."""
        fork = with_tools().fork(at=0)
        assert (fork.messages, fork.parent.message_count) == ([], 0)


class TestTruncate:
    @moderate
    @given(sessions(), INDEXES)
    def test_keeps_a_valid_transcript_or_changes_nothing(self, session, index):
        """At any index what is left is valid and as a slice says, or ValueError is raised and all is as before."""
        before, kept = session.model_dump_json(), session.messages[:index]
        spent = list(session.runs)
        try:
            session.truncate(index)
        except ValueError:
            assert find_problems(kept)
            assert session.model_dump_json() == before
        else:
            assert session.messages == kept
            check(session.messages)
        assert session.runs == spent

    @moderate
    @given(sessions(broken_transcripts), INDEXES)
    def test_never_loses_a_result_alone(self, session, index):
        """No cut, not even of an invalid transcript, leaves more open calls than there were."""
        before = [problem for problem in find_problems(session.messages) if "no result" in problem.text]
        try:
            session.truncate(index)
        except ValueError:
            return
        after = [problem for problem in find_problems(session.messages) if "no result" in problem.text]
        assert set(after) <= set(before)

    @pytest.mark.parametrize(("index", "left"), [(5, 5), (99, 5), (4, 4), (-1, 4), (1, 1), (0, 0), (-5, 0), (-99, 0)])
    def test_follows_slice_arithmetic(self, index, left):
        """An index counts as in a slice: from the end if negative, and one past either end is allowed."""
        session = with_tools()
        session.truncate(index)
        assert len(session.messages) == left

    @pytest.mark.parametrize("index", [2, 3, -2, -3])
    def test_does_not_part_calls_from_results(self, index):
        """A cut between calls and results is refused, naming the call and what to do instead."""
        session = with_tools()
        with pytest.raises(TranscriptError, match=r"'[ab]' \('f'\).*before the assistant message"):
            session.truncate(index)
        assert len(session.messages) == 5

    def test_keeps_the_list(self):
        """The list of messages stays the same object, for whoever holds it."""
        session = with_tools()
        held = session.messages
        session.truncate(1)
        assert held is session.messages

    @pytest.mark.parametrize(("index", "count"), [(4, 3), (3, 3), (2, 2), (0, 0)])
    def test_lowers_the_count_of_inherited_messages(self, index, count):
        """A cut below the place of the fork moves that place, one above does not."""
        origin = conversation(UserMessage("a"), AssistantMessage("b"), UserMessage("c"))
        fork = origin.fork()
        fork.messages.extend([AssistantMessage("d"), UserMessage("e")])
        fork.truncate(index)
        assert fork.parent.message_count == count
        assert fork.parent.session_id == "s"


class TestEdit:
    @moderate
    @given(sessions(), INDEXES, input_content)
    def test_is_a_fork_that_ends_with_the_edited_message(self, session, index, content):
        """Any user message can be edited: the fork has what stood before it and the new content, nothing after."""
        count = len(session.messages)
        before = session.model_dump_json()
        if not -count <= index < count or session.messages[index].role != "user":
            return
        if not any(not isinstance(part, TextPart) or part.text.strip() for part in UserMessage(content).content):
            return
        old, place = session.messages[index], index % count
        fork = session.edit(index, content)
        *kept, new = fork.messages
        assert kept == session.messages[:place]
        assert new.content == UserMessage(content).content
        assert new.id != old.id
        assert new.metadata["edited_from"] == old.id
        assert (fork.parent.session_id, fork.parent.message_count) == (session.id, place)
        assert fork.runs == session.runs
        assert session.model_dump_json() == before

    @moderate
    @given(sessions(), INDEXES)
    def test_leaves_a_valid_transcript(self, session, index):
        """Editing any message gives a valid transcript or an error, and never changes the origin."""
        before = session.model_dump_json()
        try:
            fork = session.edit(index, "new")
        except TranscriptError:
            pass
        else:
            check(fork.messages)
        assert session.model_dump_json() == before

    def test_keeps_notes_and_drops_measurements(self):
        """An edited answer keeps its notes, and claims neither usage nor run nor provider data of the old text."""
        answer = AssistantMessage(
            "old",
            metadata={"mark": 1},
            usage=Usage(1, 2, 3),
            cost=0.5,
            run_id="r",
            model="m",
            provider_metadata={"a": 1},
        )
        new = conversation(UserMessage("q"), answer).edit(1, [TextPart("new")]).messages[1]
        assert isinstance(new, AssistantMessage)
        assert new.metadata == {"mark": 1, "edited_from": answer.id}
        assert (new.usage, new.cost, new.run_id, new.provider_metadata) == (None, None, None, {})

    @pytest.mark.parametrize("content", ["", " \n", [], [TextPart("")], TextPart(" ")])
    def test_a_question_cannot_become_empty(self, content):
        """An empty question cannot be asked, so a user message cannot be edited into one; an answer can be empty."""
        session = conversation(UserMessage("q"), AssistantMessage("a"))
        with pytest.raises(InputError, match="empty question"):
            session.edit(0, content)
        assert session.edit(1, content).messages[1].text.strip() == ""

    @pytest.mark.parametrize("content", [None, 5, UserMessage("a"), [5], ["a"], {"a": 1}, [ToolCall("a", "f")]])
    def test_what_is_no_content_is_refused(self, content):
        """Content that a message cannot have is an error that says what it may be."""
        with pytest.raises(InputError, match="user message must be text, a part, or a list of TextParts") as caught:
            with_tools().edit(0, content)
        assert "pydantic" not in str(caught.value)

    def test_an_answer_takes_its_own_kinds_of_parts(self):
        """The error about an answer's content names the parts of answers."""
        with pytest.raises(InputError, match=r"an assistant message .*ToolCalls"):
            with_tools().edit(4, None)

    def test_a_result_can_be_edited_where_all_are_there(self):
        """The last result of a step can be edited, an earlier one would leave its siblings open."""
        session = with_tools()
        assert session.edit(3, "3").messages[3].call_id == "b"
        with pytest.raises(TranscriptError, match="'b'"):
            session.edit(2, "3")

    def test_a_summary_can_be_edited(self):
        """An edited summary still says how many messages it stands for."""
        new = conversation(SummaryMessage("old", 7)).edit(0, "new").messages[0]
        assert (new.role, new.replaced, new.text) == ("summary", 7, "new")

    @pytest.mark.parametrize("index", [5, -6, 99])
    def test_there_must_be_such_a_message(self, index):
        """An index past either end is an error that says how many messages there are."""
        with pytest.raises(TranscriptError, match=rf"{index}.*has 5"):
            with_tools().edit(index, "new")


class TestRepair:
    @moderate
    @given(sessions(broken_transcripts))
    def test_makes_any_session_valid(self, session):
        """A repaired session is valid, keeps all but its messages, and tells what was added."""
        rest = session.model_dump(exclude={"messages"})
        added = session.repair()
        check(session.messages)
        assert all(any(message is new for message in session.messages) for new in added)
        assert session.model_dump(exclude={"messages"}) == rest
        assert session.repair() == []

    @moderate
    @given(sessions())
    def test_leaves_a_valid_session_alone(self, session):
        """Repairing a valid session changes nothing that is saved."""
        before = session.model_dump_json()
        assert session.repair() == []
        assert session.model_dump_json() == before


class TestBusy:
    def test_a_claim_makes_it_busy_until_released(self):
        """A session is busy while a run has claimed it."""
        session = Session("s")
        assert not session.busy
        claim(session, "r")
        assert session.busy
        release(session, "r")
        assert not session.busy

    @pytest.mark.parametrize(
        "change", [lambda s: s.truncate(0), lambda s: s.truncate(99), lambda s: s.repair(), lambda s: claim(s, "other")]
    )
    def test_changes_are_refused(self, change):
        """While a session is busy it can be neither cut nor repaired nor run again, and the error says what to do."""
        session = with_tools()
        claim(session, "run-7")
        before = session.model_dump_json()
        with pytest.raises(SessionBusyError, match=r"'s' is in run 'run-7'.*fork"):
            change(session)
        assert session.model_dump_json() == before
        assert session.busy

    def test_a_fork_is_allowed_and_free(self):
        """A busy session can be forked and edited, and the fork is not busy."""
        session = with_tools()
        claim(session, "r")
        forks = [
            session.fork(),
            session.fork(at=1),
            session.edit(0, "other"),
            copy.copy(session),
            copy.deepcopy(session),
        ]
        assert not any(fork.busy for fork in forks)
        forks[0].truncate(0)
        assert session.busy

    def test_only_the_run_that_has_it_frees_it(self):
        """A release by another run, or of a free session, does nothing."""
        session = Session("s")
        release(session, "r")
        claim(session, "r")
        release(session, "other")
        assert session.busy
