"""The family of sessions as a picture."""

import asyncio
import re

import pandas as pd
import pytest
from branching import ask, origin, two
from hypothesis import given
from hypothesis import strategies as st
from pages import HOSTILE, shown
from strategies import moderate

from cyclops_nb import FileSessionStore, InMemorySessionStore, InputError, tree
from cyclops_nb.messages import AssistantMessage, SummaryMessage, UserMessage
from cyclops_nb.session import Parent, Session


def grown():
    """Return a root of six messages, forks of it at the second and the fourth, and a fork of the first of these."""
    root = origin()
    for number in (2, 3):
        ask(root, f"Q{number}", AssistantMessage("A"), run_id=f"r{number}")
    early, late = root.fork(2, title="early"), root.fork(4, title="late")
    ask(early, "Other", AssistantMessage("A"), run_id="re", cost=0.5)
    return root, early, late, early.fork(4, title="leaf")


def child(id, of, at=0):
    session = Session(id)
    session.parent = Parent(session_id=of, message_count=at)
    return session


class TestTree:
    """What a tree is made of."""

    def test_takes_sessions_lists_and_stores(self, tmp_path):
        """In any mixture; an id that comes again is left out."""
        root, early, late, leaf = grown()
        store = FileSessionStore(tmp_path)
        asyncio.run(store.save(root))
        found = tree(store, [early, (late,)], root, leaf)
        assert [branch.title for branch in found.branches] == ["Origin", "late", "early", "leaf"]
        assert [branch.depth for branch in found.branches] == [0, 1, 1, 2]

    def test_loads_nothing_of_a_store(self):
        """It is asked for its list alone."""

        class Store(InMemorySessionStore):
            async def load(self, session_id):
                raise AssertionError(session_id)

        store = Store()
        for session in grown():
            asyncio.run(store.save(session))
        assert len(tree(store).branches) == 4
        assert len(tree(asyncio.run(store.list())).branches) == 4

    @pytest.mark.parametrize("value", [None, 5, "text", {"a": Session()}])
    def test_refuses_what_is_no_session(self, value):
        """And says what to give instead."""
        with pytest.raises(InputError, match="give sessions, responses"):
            tree(value)

    def test_is_a_picture_of_the_moment(self):
        """What is said later does not change it."""
        root = origin()
        found = tree(root)
        before = str(found)
        ask(root, "More", AssistantMessage("..."), run_id="later")
        assert str(found) == before


class TestLook:
    """What is shown."""

    def test_has_forks_messages_tokens_and_cost(self):
        """For each session, in words."""
        page, text = shown(tree(*grown()))
        assert "Tree of 4 sessions" in page.text
        assert "Origin 6 300 30 $0.0030" in page.text
        assert "early after [1] 4 400 40 $0.5030 $0.5000" in page.text
        assert "late after [3] 4 300 30 $0.0030 $0" in page.text
        assert "all together $0.5030, what forks share counted once" in page.text
        assert text.splitlines() == [
            "Tree of 4 sessions",
            "Origin: 6 messages, 300 tokens in, 30 out, cost $0.0030",
            "├─ late, after [3]: 4 messages, 300 tokens in, 30 out, cost $0.0030, $0 since the fork",
            "└─ early, after [1]: 4 messages, 400 tokens in, 40 out, cost $0.5030, $0.5000 since the fork",
            "   └─ leaf, after [3]: 4 messages, 400 tokens in, 40 out, cost $0.5030, $0 since the fork",
            "all together $0.5030, what forks share counted once",
        ]

    def test_draws_a_line_for_each_session(self):
        """From the message where it was forked; those of later forks stand above, and no line crosses another."""
        page, _ = shown(tree(*grown()))
        lines = [path["d"] for path in page.tags("path")]
        assert lines[0] == "M40 13V28M72 13V28M8 13H104"
        assert lines[1].startswith("M40 -2V28M72 -2V")
        assert all(picture["aria-hidden"] == "true" for picture in page.tags("svg"))

    def test_marks_the_current_session(self):
        """By a word, and a ring."""
        root, early, *_ = grown()
        page, text = shown(tree(root, early, current=early))
        assert "early (current)" in page.text
        assert "early, after [1], current:" in text
        assert len([circle for circle in page.tags("circle") if circle["r"] == "6.5"]) == 1
        assert tree(root, early, current="origin").branches[0].is_current

    def test_says_whose_fork_a_session_is_whose_parent_is_not_there(self):
        """It is a root of the picture."""
        page, text = shown(tree(child("b", "gone", 3)))
        assert "after [2] of gone, not here" in page.text
        assert "b, after [2] of gone, not here: 0 messages" in text

    def test_of_a_store_says_what_its_list_tells(self):
        """What a fork has cost since then is not known, and no sum is made."""
        store = InMemorySessionStore()
        for session in grown():
            asyncio.run(store.save(session))
        page, text = shown(tree(store))
        assert "early after [1] 4 400 40 $0.5030" in page.text
        assert "all together" not in page.text + text

    def test_of_nothing(self):
        """An empty store has an empty tree."""
        page, text = shown(tree([]))
        assert page.text == text == "Tree of 0 sessions"

    @pytest.mark.parametrize("text", HOSTILE)
    def test_hostile_text_stays_text(self, text):
        """Titles, ids and questions are text."""
        sessions = [Session(text, title=text), child(text + "1", text), child("x", text + "?")]
        sessions.append(Session("q", messages=[UserMessage(text)]))
        page, plain = shown(tree(*sessions, current=text))
        assert "cannot be drawn" not in page.text
        plain.encode()

    def test_stays_small(self):
        """A thousand forks of one session, a line of a thousand forks, and very long conversations."""
        wide = [Session("root", messages=[UserMessage(str(n)) for n in range(1_000)])]
        wide += [child(f"c{n}", "root", n) for n in range(1_000)]
        deep = [Session("0"), *(child(str(n), str(n - 1), n) for n in range(1, 1_000))]
        for sessions in (wide, deep):
            page, text = shown(tree(sessions))
            assert re.search(r"… \d+ more sessions not shown", page.text)
            assert len(tree(sessions)._repr_html_()) < 300_000
            assert len(text) < 60_000

    def test_is_the_same_each_time(self):
        """The same sessions give the same bytes."""
        sessions = grown()
        assert tree(*sessions)._repr_mimebundle_() == tree(*sessions)._repr_mimebundle_()

    def test_of_a_session_that_was_cut_below_its_forks(self):
        """Truncated or compacted: the fork is drawn where it was made."""
        root, early, late, leaf = grown()
        root.messages[:] = [SummaryMessage("All", 6)]
        page, _ = shown(tree(root, early, late, leaf))
        assert "Origin 1 300" in page.text
        assert [path for path in page.tags("path") if path.get("stroke-dasharray")]

    @moderate
    @given(st.lists(st.tuples(st.integers(0, 8), st.none() | st.integers(0, 9), st.integers(0, 40)), max_size=12))
    def test_any_family_is_drawn(self, triples):
        """Whatever sessions say of their parents."""
        sessions = [Session(str(a)) if b is None else child(str(a), str(b), at) for a, b, at in triples]
        page, text = shown(tree(sessions))
        assert "cannot be drawn" not in page.text
        assert len(page.tags("svg")) == len({session.id for session in sessions})
        assert str(tree(sessions)) == text


class TestFrame:
    """The tree as a DataFrame."""

    def test_has_a_row_for_each_session(self):
        """Its own numbers are those since the fork."""
        frame = tree(*grown()).to_frame().set_index("title")
        assert frame.loc["early", ["parent", "depth", "forked_at", "forks"]].tolist() == ["origin", 1, 2, 1]
        assert frame.loc["early", ["messages", "own_messages", "runs", "cost", "own_cost"]].tolist() == [
            4, 2, 4, 0.503, 0.5,
        ]  # fmt: skip
        assert frame["own_cost"].sum() == 0.503

    def test_has_the_documented_columns_and_types(self):
        """Also when it is empty, or of a store."""
        store = InMemorySessionStore()
        asyncio.run(store.save(two()[0]))
        frames = [tree(*grown()).to_frame(), tree([]).to_frame(), tree(store).to_frame()]
        documented = dict(
            re.findall(r"^ {12}(\w+) +(string|Int64|Float64|boolean)\b", tree([]).to_frame.__doc__, re.MULTILINE)
        )
        assert [{name: str(dtype) for name, dtype in frame.dtypes.items()} for frame in frames] == [documented] * 3
        assert frames[2]["own_cost"][0] is pd.NA
        assert frames[2]["usage_complete"][0] is pd.NA
