"""Frames of several sessions: what forks share is counted once."""

from types import SimpleNamespace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import moderate, sessions

from cyclops_nb.errors import InputError
from cyclops_nb.frames import messages_frame, runs_frame, steps_frame, tool_calls_frame, usage_table
from cyclops_nb.messages import (
    AssistantMessage,
    SummaryMessage,
    UserMessage,
)
from cyclops_nb.runs import Run
from cyclops_nb.session import Session
from cyclops_nb.usage import Usage

FRAMES = (runs_frame, messages_frame, steps_frame, tool_calls_frame)


def run(session_id="s", **fields):
    fields = {"usage": Usage(1, 10, 5, 4, 3), "cost": 0.5, **fields}
    return Run(session_id=session_id, **{"model": "m", **fields})


def asked(session, text, run_id=None):
    """Add a question and its answer, said in this session."""
    made = run(session.id, **({"id": run_id} if run_id else {}))
    session.runs.append(made)
    session.messages.extend([UserMessage(text, run_id=made.id), AssistantMessage(text.upper(), run_id=made.id)])
    return session


def family():
    """Return an origin, a fork of it and a fork of the fork, each with a question of its own."""
    origin = asked(Session("origin"), "a")
    fork = origin.fork()
    asked(origin, "b")
    asked(fork, "c")
    grandchild = fork.fork()
    asked(grandchild, "d")
    return origin, fork, grandchild


class TestShared:
    def test_runs_and_messages_are_counted_once(self):
        """What forks share is shown once, in the session it was made in, whatever the order of the sources."""
        origin, fork, grandchild = family()
        names = {origin.id: "origin", fork.id: "fork", grandchild.id: "grandchild"}
        for sources in ((origin, fork, grandchild), (grandchild, fork, origin)):
            runs, messages = runs_frame(*sources), messages_frame(*sources)
            order = [names[session.id] for session in sources]
            assert not runs["inherited"].any()
            assert not messages["inherited"].any()
            shown = runs["session_id"].map(names).tolist()
            assert shown == [name for name in order for _ in range(2 if name == "origin" else 1)]
            texts = messages.groupby(messages["session_id"].map(names))["text"].apply(list).to_dict()
            assert texts == {"origin": ["a", "A", "b", "B"], "fork": ["c", "C"], "grandchild": ["d", "D"]}

    def test_what_is_inherited_from_elsewhere_is_shown(self):
        """Where the origin is not among the sources, the first session that has a run or message shows it."""
        _, fork, grandchild = family()
        runs = runs_frame(grandchild, fork)
        assert runs["session_id"].tolist() == [grandchild.id, grandchild.id, fork.id]
        assert runs["inherited"].tolist() == [True, False, False]
        messages = messages_frame(grandchild, fork)
        assert messages["text"].tolist() == ["a", "A", "d", "D", "c", "C"]
        assert messages["inherited"].tolist() == [True, True, False, False, False, False]

    def test_inherited_shows_them_in_each(self):
        """With `inherited=True` every session shows all that it has, marked where it was made elsewhere."""
        origin, fork, _ = family()
        runs = runs_frame(origin, fork, inherited=True)
        assert runs["session_id"].tolist() == ["origin", "origin", fork.id, fork.id]
        assert runs["inherited"].tolist() == [False, False, True, False]
        messages = messages_frame(origin, fork, inherited=True)
        assert messages["text"].tolist() == ["a", "A", "b", "B", "a", "A", "c", "C"]
        assert messages["inherited"].tolist() == [False] * 4 + [True, True, False, False]
        assert messages["index"].tolist() == [0, 1, 2, 3] * 2

    @pytest.mark.parametrize("inherited", [True, False])
    def test_a_session_is_counted_once(self, inherited):
        """A session that is given twice, or beside a loaded copy of itself, is shown once."""
        session = asked(Session("s"), "a")
        copy = Session.model_validate_json(session.model_dump_json())
        for frame in FRAMES:
            once = frame(session)
            pd.testing.assert_frame_equal(frame(session, [session], copy, inherited=inherited), once)

    def test_a_run_in_progress_is_taken_from_its_own_session(self):
        """A fork made during a run has an old record of it: the one that counts is that of the session itself."""
        origin = Session("origin", runs=[run("origin", id="r", usage=Usage(1, 1, 1))])
        fork = origin.fork()
        origin.runs[0] = run("origin", id="r", usage=Usage(2, 9, 9), stop_reason="completed")
        frame = runs_frame(fork, origin)
        assert frame["input_tokens"].tolist() == [9]
        assert frame["session_id"].tolist() == ["origin"]

    def test_an_edited_message_is_new(self):
        """A fork made by an edit shows its edited message as its own."""
        origin = asked(asked(Session("origin"), "a"), "b")
        fork = origin.edit(2, "B?")
        frame = messages_frame(origin, fork)
        assert frame[frame["session_id"] == fork.id]["text"].tolist() == ["B?"]

    def test_messages_kept_by_a_compaction_are_inherited_still(self):
        """After a fork was compacted, the messages that it kept are still known as its origin's, by their runs."""
        origin = asked(asked(Session("origin"), "a"), "b")
        fork = origin.fork()
        fork.messages[:2] = [SummaryMessage("said a", 2, run_id="compaction")]
        fork.runs.append(run(fork.id, id="compaction", kind="compaction"))
        frame = messages_frame(fork, inherited=True)
        assert frame["inherited"].tolist()[1:] == [True, True]
        assert messages_frame(fork, origin)["text"].tolist().count("b") == 1

    def test_doubles_within_a_session_are_all_shown(self):
        """Ids that repeat within one session hide nothing: the sum stays that of the session."""
        session = Session("s", runs=[run(id="r"), run(id="r")])
        assert int(runs_frame(session)["input_tokens"].sum()) == session.usage.input_tokens == 20

    @moderate
    @given(sessions(), st.integers(0, 3))
    def test_forks_cost_nothing(self, session, count):
        """However often a session is forked, the frame of all is that of the session alone."""
        for frame in FRAMES:
            forks = [session.fork() for _ in range(count)]
            pd.testing.assert_frame_equal(frame(session, *forks), frame(session))


class TestSources:
    def test_lists_of_lists(self):
        """Sessions may be given one by one, in lists, in lists of lists, and by a generator."""
        first, second = asked(Session("a"), "x"), asked(Session("b"), "y")
        expected = runs_frame(first, second)
        for sources in ([[first, second]], [[first], [second]], [(first, [[second]])], [iter([first, second])]):
            pd.testing.assert_frame_equal(runs_frame(*sources), expected)

    def test_responses_stand_for_their_sessions(self):
        """Anything with a session, as the response of an agent, stands for that session."""
        session = asked(Session("a"), "x")
        response = SimpleNamespace(session=session)
        pd.testing.assert_frame_equal(messages_frame([response, session]), messages_frame(session))

    @pytest.mark.parametrize(
        "source", [None, 3, "study-1", b"x", {"a": Session()}, object(), SimpleNamespace(session=None), [3]]
    )
    @pytest.mark.parametrize("frame", [*FRAMES, usage_table])
    def test_anything_else_is_refused(self, frame, source):
        """What has no session is refused, naming its type and what to give."""
        with pytest.raises(InputError, match=r"has no runs or messages to show: give sessions"):
            frame(source)

    def test_a_frame_does_not_change_its_sources(self):
        """Looking at a session changes nothing in it."""
        session = asked(Session("s"), "a")
        before = session.model_dump_json()
        runs_frame(session)
        frame = messages_frame(session)
        frame["text"] = "spoilt"
        assert session.model_dump_json() == before
