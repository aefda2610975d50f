"""How sessions descend from one another."""

from hypothesis import given
from hypothesis import strategies as st

from cyclops_nb.family import family
from cyclops_nb.messages import UserMessage
from cyclops_nb.session import Parent, Session


def shape(sessions):
    return [(branch.value.id, branch.depth) for branch in family(sessions)]


def child(id, of, at=0):
    session = Session(id)
    session.parent = Parent(session_id=of, message_count=at)
    return session


class TestFamily:
    """The order in which a family is shown."""

    def test_puts_each_session_before_its_forks(self):
        """Whatever the order they come in."""
        sessions = [child("c", "b"), child("b", "a"), Session("a"), Session("z")]
        assert shape(sessions) == [("a", 0), ("b", 1), ("c", 2), ("z", 0)]

    def test_puts_forks_in_the_order_in_which_they_left(self):
        """And those that left at the same message in the order given."""
        sessions = [Session("a"), child("late", "a", 4), child("x", "a", 2), child("early", "a", 1), child("y", "a", 2)]
        assert [name for name, _ in shape(sessions)] == ["a", "early", "x", "y", "late"]

    def test_puts_the_latest_first_for_a_picture(self):
        """In which a line goes down from its parent, past those that left later."""
        sessions = [Session("a"), child("x", "a", 2), child("late", "a", 4), child("y", "a", 2)]
        assert [branch.value.id for branch in family(sessions, latest_first=True)] == ["a", "late", "x", "y"]

    def test_takes_a_fork_whose_origin_is_not_there_for_a_root(self):
        """And says that it has an origin elsewhere."""
        (branch,) = family([child("b", "gone", 3)])
        assert (branch.depth, branch.is_orphan, branch.forked_at) == (0, True, 3)

    def test_says_which_siblings_are_the_last(self):
        """Which is what a picture of a tree needs."""
        sessions = [Session("a"), child("b", "a"), child("b1", "b"), child("c", "a"), child("c1", "c")]
        assert [(b.value.id, b.path, b.is_last) for b in family(sessions)][1:] == [
            ("b", (), False),
            ("b1", (False,), True),
            ("c", (), True),
            ("c1", (True,), True),
        ]

    def test_breaks_a_circle_at_its_first_session(self):
        """In a stored file a session may name its own descendant as its parent, or itself."""
        sessions = [child("tail", "b"), child("a", "b"), child("b", "a"), child("self", "self")]
        assert shape(sessions) == [("a", 0), ("b", 1), ("tail", 2), ("self", 0)]

    def test_follows_a_line_of_forks_of_any_length(self):
        """Deeper than functions of Python may call one another."""
        line = [Session("0")]
        for number in range(1, 3_000):
            line.append(child(str(number), str(number - 1)))
        assert [branch.depth for branch in family(reversed(line))] == list(range(3_000))

    @given(st.lists(st.tuples(st.integers(0, 8), st.none() | st.integers(0, 9)), max_size=12))
    def test_gives_every_session_one_place(self, pairs):
        """Whatever they say of their parents: one place for each id, and none before its parent."""
        sessions = [Session(str(a)) if b is None else child(str(a), str(b), a) for a, b in pairs]
        branches = family(sessions)
        ids = [branch.value.id for branch in branches]
        assert sorted(ids) == sorted({session.id for session in sessions})
        for place, branch in enumerate(branches):
            if branch.depth:
                above = next(b for b in reversed(branches[:place]) if b.depth == branch.depth - 1)
                assert above.value.id == branch.value.parent.session_id

    def test_works_for_sessions_with_messages(self):
        """As real forks are."""
        root = Session("root")
        root.messages.append(UserMessage("q"))
        fork = root.fork()
        assert shape([fork, root]) == [("root", 0), (fork.id, 1)]
