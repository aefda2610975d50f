"""What people think of messages, as columns: in each row once, and in none that it is not about."""

import re

import pandas as pd
import pytest
from stored import save

from cyclops_nb import (
    AssistantMessage,
    InMemorySessionStore,
    Run,
    Session,
    UserMessage,
    messages_frame,
    runs_frame,
    usage_table,
)

NOTED = ["rating", "note", "tags"]


def asked(session, question, run_id):
    """Add a question and its answer, said in this session."""
    session.runs.append(Run(id=run_id, session_id=session.id, model="m"))
    session.messages += [UserMessage(question, run_id=run_id), AssistantMessage(question.upper(), run_id=run_id)]
    return session


@pytest.fixture
def session():
    """A session of two runs."""
    return asked(asked(Session("s"), "a", "r1"), "b", "r2")


def noted(frame):
    """Return what is noted in the rows of a frame, by their text."""
    return {row.text: (row.rating, row.note, row.tags) for row in frame.itertuples() if pd.notna(row.rating)}


class TestMessages:
    def test_have_rating_note_and_tags(self, session):
        """They stand in the row of their message, and are missing in all others."""
        session.annotate(1, rating=4, note="too long", tags=["x", "y z"])
        session.annotate(2, tags="x")
        frame = messages_frame(session)
        assert frame.loc[1, NOTED].tolist() == [4.0, "too long", "x, y z"]
        assert frame.loc[2, NOTED].tolist() == [pd.NA, pd.NA, "x"]
        assert frame.loc[[0, 3], NOTED].isna().all(axis=None)
        assert frame["tags"].str.get_dummies(", ").sum().to_dict() == {"x": 2, "y z": 1}

    def test_of_a_fork_are_not_passed_over(self, session):
        """A shared message that only a fork has annotated shows that, though it is in the origin's row."""
        fork = session.fork()
        fork.annotate(1, rating=2, note="of the fork")
        for sources in ((session, fork), (fork, session)):
            frame = messages_frame(*sources)
            assert len(frame) == 4
            assert noted(frame) == {"A": (2.0, "of the fork", pd.NA)}

    def test_of_the_session_that_shows_it_come_first(self, session):
        """Where both have annotated it, the row has that of the session it stands in; `inherited` shows both."""
        session.annotate(1, rating=5)
        fork = session.fork()
        fork.annotate(1, rating=1, note="no")
        assert noted(messages_frame(fork, session)) == {"A": (5.0, pd.NA, pd.NA)}
        both = messages_frame(session, fork, inherited=True)
        assert both[both["text"] == "A"]["rating"].tolist() == [5.0, 1.0]

    def test_everywhere_each_has_its_own(self, session):
        """With `inherited=True` a message that was not annotated in a session has nothing there."""
        fork = session.fork()
        fork.annotate(1, rating=2)
        both = messages_frame(session, fork, inherited=True)
        assert both[both["text"] == "A"]["rating"].tolist() == [pd.NA, 2.0]


class TestRuns:
    def test_have_the_mean_of_their_messages(self, session):
        """The rating of a run is the mean over its messages that have one; without any it is unknown."""
        session.annotate(0, rating=1)
        session.annotate(1, rating=4)
        assert runs_frame(session)["rating"].tolist() == [2.5, pd.NA]

    def test_have_that_of_a_fork(self, session):
        """What a fork thinks of an answer that it inherited is in the row of its run, once."""
        fork = asked(session.fork(), "c", "r3")
        fork.annotate(1, rating=3)
        fork.annotate(5, rating=1)
        frame = runs_frame(session, fork)
        assert dict(zip(frame["run_id"], frame["rating"], strict=True)) == {"r1": 3.0, "r2": pd.NA, "r3": 1.0}
        everywhere = runs_frame(session, fork, inherited=True)
        assert everywhere["rating"].tolist() == [pd.NA, pd.NA, 3.0, pd.NA, 1.0]


class TestUsageTable:
    def test_has_the_mean_over_messages(self, session):
        """The rating of a row is the mean over all rated messages of its runs, each counted once."""
        fork = asked(session.fork(title="fork"), "c", "r3")
        session.annotate(1, rating=1)
        session.annotate(3, rating=2)
        fork.annotate(5, rating=6)
        assert usage_table(session, fork).total.rating == 3.0
        assert [row.rating for row in usage_table(session, fork, by="session").rows] == [1.5, 6.0]
        frame = usage_table(session, fork, by="branch").to_frame()
        assert frame["rating"].tolist() == [1.5, 6.0]

    def test_a_branch_has_its_own(self, session):
        """Branches that think otherwise of the answers they share have each their own mean."""
        session.annotate(1, rating=1)
        fork = session.fork()
        fork.annotate(1, rating=5)
        assert [row.rating for row in usage_table(session, fork, by="branch").rows] == [1.0, 5.0]
        assert usage_table(session, fork).rows[0].ratings == (1.0,)

    def test_shows_a_column_where_there_are_any(self, session):
        """There is a column for ratings in the table only if something was rated."""
        assert "rating" not in usage_table(session).to_markdown()
        session.annotate(1, rating=2.5)
        assert usage_table(session).to_markdown().splitlines()[0].endswith("| time | rating |")
        assert usage_table(session).to_markdown().endswith("| 2.50 |")
        session.runs.append(Run(session_id="s", model="not rated"))
        assert [line.split()[-1] for line in str(usage_table(session)).splitlines()[3:]] == ["2.50", "unknown", "2.50"]
        assert not re.search(r" $", str(usage_table(session)), re.MULTILINE)


def test_stores_give_them_too(session):
    """What was annotated and saved is in the frame of the store."""
    session.annotate(-1, rating=3, note="kept")
    store = InMemorySessionStore()
    save(store, session)
    assert noted(messages_frame(store)) == {"B": (3.0, "kept", pd.NA)}
