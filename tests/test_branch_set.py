"""Branches that somebody explores: what can be done with them, and that nothing is lost by it."""

from __future__ import annotations

import copy

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cyclops_nb import (
    AssistantMessage,
    ImagePart,
    InputError,
    Session,
    SessionBusyError,
    SessionNotFoundError,
    TextPart,
    ToolCall,
    ToolMessage,
    TranscriptError,
    UserMessage,
)
from cyclops_nb.display.branch_set import Actions
from cyclops_nb.display.branch_sources import branches_of
from cyclops_nb.session import claim, release
from cyclops_nb.transcript import find_problems, open_calls

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def turn(question, *, tools=0):
    """Return the messages of a run: a question, perhaps calls with their results, and an answer."""
    calls = [ToolCall(f"c{number}", "look_up", "{}") for number in range(tools)]
    steps = [AssistantMessage(calls), *(ToolMessage(call.id, call.name, "42") for call in calls)] if calls else []
    return [UserMessage(question), *steps, AssistantMessage(f"answer to {question}")]


@pytest.fixture
def branches():
    """A session with a plain turn and one with two tool calls: user, answer, user, calls, two results, answer."""
    session = Session("trip", title="Trip")
    session.messages += [*turn("Oslo?"), *turn("Rome?", tools=2)]
    return branches_of(session)


def texts(session):
    """Return what is said in a session."""
    return [message.text for message in session.messages]


class TestActions:
    """What is offered at a message."""

    def test_of_questions_and_answers(self, branches):
        """A question and an answer can be forked after, cut before, edited and asked again."""
        everything = Actions(fork=True, truncate=True, edit=True, retry=True)
        assert branches.actions(0) == branches.actions(1) == branches.actions(6) == everything

    def test_of_calls_keep_them_with_their_results(self, branches):
        """A message with calls can be forked after with its results only, and not edited."""
        assert branches.actions(3) == Actions(truncate=True, retry=True)
        assert branches.actions(3, 5) == Actions(fork=True, truncate=True, retry=True)

    def test_of_a_result_alone_part_nothing(self, branches):
        """At a result in the middle of its turn nothing is offered."""
        assert branches.actions(4) == Actions()

    def test_of_what_follows_an_open_call_are_none(self, branches):
        """Where a call lost its result by other hands, no branch is begun that would keep it so at its end."""
        del branches.session.messages[5]
        assert not branches.actions(3, 4).fork


class TestTransitions:
    """What each of them does."""

    def test_fork_keeps_the_message(self, branches):
        """A fork ends with the message it was made at, and is the current branch."""
        new = branches.fork(1)
        assert texts(new) == ["Oslo?", "answer to Oslo?"]
        assert branches.session is new
        assert (new.parent.session_id, new.parent.message_count) == ("trip", 2)

    def test_titles_are_told_apart(self, branches):
        """Each new branch has the title of its origin with the next number."""
        titles = [branches.fork(1).title, branches.fork(1).title]
        branches.switch("trip")
        assert [*titles, branches.edit(0, "Bergen?").title] == ["Trip (2)", "Trip (3)", "Trip (4)"]

    def test_edit_keeps_images(self, branches):
        """The text of a question is replaced, its image stays, and the origin is as it was."""
        branches.session.messages.append(
            UserMessage([TextPart("What?"), ImagePart(data=PIXEL, media_type="image/png")])
        )
        new = branches.edit(7, "Which colour?")
        assert [part.type for part in new.messages[7].content] == ["text", "image"]
        assert new.messages[7].text == "Which colour?"
        assert texts(branches.entries["trip"].value)[7] == "What?"

    def test_edit_of_an_answer(self, branches):
        """An edited answer is the last message of its branch."""
        assert texts(branches.edit(1, "Take the boat.")) == ["Oslo?", "Take the boat."]

    @pytest.mark.parametrize("index", [3, 4])
    def test_edit_of_calls_and_results_is_refused(self, branches, index):
        """A call and its result belong together, and no branch comes of the attempt."""
        with pytest.raises(TranscriptError, match=f"message {index} cannot be edited"):
            branches.edit(index, "43")
        assert list(branches.entries) == ["trip"]

    def test_edit_to_nothing_is_refused(self, branches):
        """A question without a word is none."""
        with pytest.raises(InputError, match="empty question"):
            branches.edit(0, "  ")
        assert branches.current == "trip"

    @pytest.mark.parametrize("index", [2, 3, 6, -1])
    def test_retry_ends_with_the_question(self, branches, index):
        """Whatever message of a turn is asked for again, the branch ends with its question."""
        assert texts(branches.retry(index)) == ["Oslo?", "answer to Oslo?", "Rome?"]

    def test_truncate_keeps_what_was_cut(self, branches):
        """The session is cut in place, and what it was is a branch that left it there."""
        session = branches.session
        whole = branches.truncate(2)
        assert branches.session is session
        assert texts(session) == ["Oslo?", "answer to Oslo?"]
        assert len(whole.messages) == 7
        assert (whole.parent.session_id, whole.parent.message_count) == ("trip", 2)
        assert list(branches.entries) == ["trip", whole.id]

    def test_truncate_discards_when_told_so(self, branches):
        """Nothing is kept of what the user does not want to keep."""
        assert branches.truncate(2, keep=False) is None
        assert list(branches.entries) == ["trip"]

    def test_truncate_at_the_end_does_nothing(self, branches):
        """Where nothing is cut, nothing is kept."""
        assert branches.truncate(7) is None
        assert list(branches.entries) == ["trip"]

    def test_truncate_between_call_and_result_is_refused(self, branches):
        """A torn call is refused, and no branch comes of the attempt."""
        with pytest.raises(TranscriptError):
            branches.truncate(5)
        assert (list(branches.entries), len(branches.session.messages)) == (["trip"], 7)

    def test_delete_goes_to_the_parent(self, branches):
        """When the current branch is deleted, its parent is current."""
        branches.fork(1)
        branches.delete()
        assert branches.current == "trip"

    def test_the_last_branch_stays(self, branches):
        """There is always a branch."""
        with pytest.raises(InputError, match="only branch"):
            branches.delete()

    def test_rename_cleans_nothing_away(self, branches):
        """A title is kept as it is typed; one of blanks is none."""
        assert branches.rename(" <b>Rome</b> ").title == "<b>Rome</b>"
        assert branches.rename(" ").title is None

    def test_unknown_branches_are_named(self, branches):
        """The error says which branches there are."""
        with pytest.raises(SessionNotFoundError, match="there are trip"):
            branches.switch("nowhere")

    def test_busy_sessions_are_not_changed(self, branches):
        """While a run extends a session it can be forked, but not cut, renamed or deleted."""
        session = branches.session
        claim(session, "run")
        branches.fork(1)
        branches.switch("trip")
        for refused in (lambda: branches.truncate(2), lambda: branches.rename("x"), branches.delete):
            with pytest.raises(SessionBusyError):
                refused()
        assert (len(session.messages), session.title, len(branches.entries)) == (7, "Trip", 2)
        release(session, "run")


class TestCode:
    """The Python that gives a branch."""

    def test_gives_the_branch(self, branches):
        """Run on a copy of the session, it gives the same conversation."""
        origin = Session.model_validate_json(branches.session.model_dump_json())
        branches.edit(2, 'Say "{hello}" in Rome?')
        branches.fork(1)
        code = branches.entry.code
        names = {"session": origin}
        exec("\n".join(code), names)  # noqa: S102 - it is what is tested
        assert texts(names[branches.entry.name]) == texts(branches.session)
        assert code[0] == "branch = session.edit(2, 'Say \"{hello}\" in Rome?')"

    def test_gives_what_was_kept_and_what_was_cut(self, branches):
        """A cut branch and the one that keeps the rest each have a code of their own."""
        branches.asked("Oslo?")
        whole = branches.truncate(2)
        assert branches.entry.code == ("agent.run('Oslo?', session=session)", "session.truncate(2)")
        assert branches.entries[whole.id].code == ("agent.run('Oslo?', session=session)", "branch = session.fork()")


class Researcher(RuleBasedStateMachine):
    """Somebody who does anything, in any order, and code that goes on meanwhile."""

    @initialize()
    def begin(self):
        self.branches = branches_of(Session("root", title="Root"))
        self.runs = {}
        """The numbers of runs by the id of the session they extend."""
        self.number = 0
        self.deleted = set()
        """Ids of messages that are gone on purpose."""
        self.known = set()

    def _place(self, data):
        return data.draw(st.integers(0, len(self.branches.session.messages) - 1))

    def _there(self):
        return {message.id for session in self.branches.sessions for message in session.messages}

    @rule(tools=st.integers(0, 2))
    def ask(self, tools):
        session = self.branches.session
        if session.busy:
            return
        self.number += 1
        session.messages += turn(f"question {self.number}", tools=tools)
        self.branches.asked(f"question {self.number}")

    @rule()
    def run_begins(self):
        session = self.branches.session
        if session.busy:
            return
        self.number += 1
        claim(session, str(self.number))
        self.runs[session.id] = (session, str(self.number))
        session.messages.append(UserMessage(f"question {self.number}"))

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), tools=st.integers(0, 2))
    def run_goes_on(self, data, tools):
        session, _ = self.runs[data.draw(st.sampled_from(sorted(self.runs)))]
        session.messages += turn("", tools=tools)[1:]

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def run_ends(self, data):
        session, run = self.runs.pop(data.draw(st.sampled_from(sorted(self.runs))))
        release(session, run)

    @precondition(lambda self: self.branches.session.messages)
    @rule(data=st.data(), what=st.sampled_from(["fork", "retry", "edit"]))
    def begin_branch(self, data, what):
        place = self._place(data)
        offered = getattr(self.branches.actions(place), what)
        try:
            new = (
                self.branches.edit(place, f"edited {self.number}")
                if what == "edit"
                else getattr(self.branches, what)(place)
            )
        except TranscriptError:
            assert not offered, f"{what} at {place} was offered and is refused"
        else:
            assert self.branches.session is new

    @rule(data=st.data(), keep=st.sampled_from([True, True, True, False]))
    def truncate(self, data, keep):
        session = self.branches.session
        place = data.draw(st.integers(0, len(session.messages)))
        before = self._there()
        offered = place < len(session.messages) and self.branches.actions(place).truncate and not session.busy
        try:
            self.branches.truncate(place, keep=keep)
        except (TranscriptError, SessionBusyError):
            assert not offered
        if not keep:
            self.deleted |= before - self._there()

    @rule(data=st.data())
    def switch(self, data):
        self.branches.switch(data.draw(st.sampled_from(sorted(self.branches.entries))))

    @rule(title=st.text(max_size=8))
    def rename(self, title):
        if self.branches.session.busy:
            return
        self.branches.rename(title)

    @rule(data=st.data())
    def delete(self, data):
        gone = data.draw(st.sampled_from(sorted(self.branches.entries)))
        before = self._there()
        try:
            self.branches.delete(gone)
        except (InputError, SessionBusyError):
            assert len(self.branches.entries) == 1 or gone in self.runs
        self.deleted |= before - self._there()

    @precondition(lambda self: not self.branches.session.busy)
    @rule(data=st.data())
    def code_cuts(self, data):
        session = self.branches.session
        before = self._there()
        try:
            session.truncate(data.draw(st.integers(0, len(session.messages))))
        except TranscriptError:
            return
        self.deleted |= before - self._there()

    @rule(data=st.data(), turns=st.integers(0, 2))
    def someone_else_saves(self, data, turns):
        name = data.draw(st.sampled_from(sorted(self.branches.entries)))
        stored = copy.copy(self.branches.loaded(name))
        place = data.draw(st.integers(0, len(stored.messages)))
        if not open_calls(stored.messages[:place]):
            del stored.messages[place:]
        for _ in range(turns):
            self.number += 1
            stored.messages += turn(f"question {self.number}")
        before = self.branches.loaded(name).messages[:]
        kept = self.branches.reread(stored)
        now = self.branches.loaded(name).messages
        assert now == before if name in self.runs else now in (before, stored.messages)
        assert kept is None or kept.messages == before

    @invariant()
    def transcripts_are_valid(self):
        for session in self.branches.sessions:
            assert find_problems(session.messages) == [], session.id

    @invariant()
    def nothing_is_lost(self):
        there = self._there()
        self.known |= there
        assert self.known - there <= self.deleted

    @invariant()
    def a_branch_is_current(self):
        assert self.branches.current in self.branches.entries

    def teardown(self):
        for session, run in getattr(self, "runs", {}).values():
            release(session, run)


def test_anything_leaves_valid_transcripts_and_loses_nothing():
    """Five hundred intents in any order, with runs and code beside them: every transcript is valid, no message is lost."""
    run_state_machine_as_test(
        Researcher,
        settings=settings(
            max_examples=10, stateful_step_count=500, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
