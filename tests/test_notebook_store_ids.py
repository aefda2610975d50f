"""The names of cells in a session's notebook: other programs may give cells other ids, and messages may repeat."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored import add, load, save, say, talk
from strategies import moderate

from cyclops_nb import NotebookSessionStore, export_notebook, sessions_in_notebook
from cyclops_nb.errors import TranscriptError
from cyclops_nb.messages import UserMessage
from cyclops_nb.session import Session
from notebooks import check_valid, note, put_in, read, write

pytestmark = pytest.mark.filterwarnings("error")
STORE = NotebookSessionStore

NAMES = ["m0", "m1", "m2", "m0-2", "m0-3", "head", "foot", "note", "head-2"]
DOING = st.one_of(
    st.tuples(st.just("rename"), st.permutations(NAMES)),
    st.tuples(st.just("append"), st.sampled_from(NAMES)),
    st.tuples(st.just("repeat"), st.integers(0, 5)),
    st.tuples(st.just("insert"), st.sampled_from(NAMES)),
    st.tuples(st.just("turn round"), st.none()),
    st.tuples(st.just("cut"), st.integers(0, 3)),
    st.tuples(st.just("own cell"), st.sampled_from(NAMES)),
    st.tuples(st.just("note"), st.none()),
    st.tuples(st.just("fork"), st.none()),
    st.tuples(st.just("new store"), st.none()),
)


def renamed(path, names):
    """Give the cells of a notebook other ids, as another program may."""
    notebook = read(path)
    for number, cell in enumerate(notebook["cells"]):
        cell["id"] = names[number] if number < len(names) else f"new-{number}"
    write(path, notebook)


def do(what, given, path, session):
    """Do something to a notebook or to its session, and return the session that goes on."""
    match what:
        case "rename":
            renamed(path, given)
        case "append" | "insert":
            session.messages.insert(len(session.messages) if what == "append" else 0, UserMessage("x", id=given))
        case "repeat":
            session.messages += session.messages[given : given + 2]
        case "turn round":
            session.messages.reverse()
        case "cut":
            session.messages[given:] = []
        case "own cell":
            notebook = read(path)
            if given not in {cell["id"] for cell in notebook["cells"]}:
                put_in(path, "head", {**note("mine"), "id": given})
        case "note":
            notebook = read(path)
            notebook["cells"][-1]["source"] = ["my note\n", "\n", *notebook["cells"][-1]["source"]]
            write(path, notebook)
        case "fork":
            fork = session.fork()
            fork.id, fork.parent = session.id, session.parent
            fork.created_at = session.created_at
            return fork
    return session


@moderate
@given(
    first=st.lists(st.sampled_from(NAMES), max_size=4),
    steps=st.lists(DOING, min_size=1, max_size=6),
    adds=st.booleans(),
)
def test_any_file_that_is_written_loads(tmp_path_factory, first, steps, adds):
    """Whatever other programs call the cells, and however often a message stands in the session."""
    path = tmp_path_factory.mktemp("sessions") / "study-1.ipynb"
    store, session = NotebookSessionStore(path.parent), Session("study-1")
    session.messages += [UserMessage(f"q{place}", id=name) for place, name in enumerate(first)]
    save(store, session)
    for what, given_to_it in steps:
        if what == "new store":
            store = NotebookSessionStore(path.parent)
            session = load(store)
        before = list(session.messages)
        session = do(what, given_to_it, path, session)
        if adds and session.messages[: len(before)] == before:
            add(store, session, session.messages[len(before) :])
        else:
            save(store, session)
        written = path.read_bytes()
        assert load(NotebookSessionStore(path.parent)) == session
        check_valid(path)
        save(store, session)
        assert path.read_bytes() == written


@pytest.mark.parametrize("how", ["add", "save"])
def test_a_message_that_stands_twice_after_cells_got_other_ids(store, path, how):
    """No new cell takes a name under which a message was written, though no cell has it for its id any more."""
    session = talk()
    save(store, session)
    renamed(path, [f"new-{number}" for number in range(9)])
    session = load(store)
    again = session.messages[:2]
    session.messages += again
    add(store, session, again) if how == "add" else save(store, session)
    assert load(NotebookSessionStore(path.parent)) == session
    check_valid(path)


def test_ids_that_changed_places(store, path):
    """A cell that is written anew keeps the name under which its message was written, as others may have its id now."""
    session = talk(2)
    save(store, session)
    names = [cell["id"] for cell in read(path)["cells"]]
    renamed(path, [names[0], *names[4:0:-1], names[5]])
    session = load(store)
    session.messages[1:3] = []
    save(store, session)
    assert load(NotebookSessionStore(path.parent)) == session
    check_valid(path)


def test_an_id_is_free_again_when_its_cell_is_gone(store, path):
    """A message that was taken out and put in again has the cell that it would have had at once."""
    session = talk(2)
    save(store, session)
    before = path.read_bytes()
    gone = session.messages[2:]
    session.messages[2:] = []
    save(store, session)
    session.messages += gone
    add(store, session, gone)
    assert path.read_bytes() == before


class TestOtherSessions:
    """Messages of another session that someone has put into a notebook."""

    def test_are_refused(self, store, path):
        """The cell and the session that it comes from are named, and nothing is written."""
        session, other = talk(), Session("study-2")
        other.messages += [UserMessage("secret", id="s")]
        save(store, session)
        save(store, other)
        (cell,) = read(path.with_name("study-2.ipynb"))["cells"][1:-1]
        put_in(path, 1, {**cell, "id": "pasted"})
        before = path.read_bytes()
        for work in (
            lambda: load(store),
            lambda: load(NotebookSessionStore(path.parent)),
            lambda: save(store, session),
            lambda: save(NotebookSessionStore(path.parent), session),
            lambda: add(store, session, say(session)),
        ):
            with pytest.raises(
                TranscriptError, match=r"cells\[3\] \(message 0\) is of the session 'study-2', not of 'study-1'"
            ):
                work()
            assert path.read_bytes() == before

    def test_are_refused_when_all_was_pasted(self, store, path):
        """With the cells around them."""
        save(store, talk())
        other = talk(2)
        other.id = "study-2"
        save(store, other)
        notebook = read(path)
        pasted = read(path.with_name("study-2.ipynb"))["cells"]
        notebook["cells"] += [{**cell, "id": f"pasted-{number}"} for number, cell in enumerate(pasted)]
        write(path, notebook)
        with pytest.raises(TranscriptError, match=r"is a second last cell of a session"):
            load(store)

    def test_are_refused_in_a_notebook_that_was_handed_out(self, path):
        """There each session has its own."""
        sessions = [talk(), talk()]
        sessions[1].id = "study-2"
        path.parent.mkdir(exist_ok=True)
        export_notebook(sessions, path)
        notebook = read(path)
        cells = notebook["cells"]
        cells.insert(3, cells.pop(5))
        write(path, notebook)
        with pytest.raises(
            TranscriptError, match=r"cells\[3\] \(message 0\) is of the session 'study-2', not of 'study-1'"
        ):
            sessions_in_notebook(path)

    def test_are_messages_of_this_one_where_it_took_them_over(self, store, path):
        """A fork has what it shares with its origin in cells of its own, and so has a session that was given an id."""
        origin = talk(2)
        save(store, origin)
        fork = origin.fork()
        say(fork)
        save(store, fork)
        assert load(NotebookSessionStore(path.parent), fork.id) == fork
        fork.id = "study-3"
        save(store, fork)
        assert load(NotebookSessionStore(path.parent), "study-3") == fork

    def test_cells_that_do_not_say_whose_they_are(self, store, path):
        """As they were written before they did: they load, and what stands is not written anew by an addition."""
        session = talk()
        save(store, session)
        notebook = read(path)
        for cell in notebook["cells"]:
            cell["metadata"]["cyclops_nb"].pop("session", None) if "index" in cell["metadata"]["cyclops_nb"] else None
        write(path, notebook)
        before = path.read_bytes()
        session = load(store)
        add(store, session, say(session))
        assert path.read_bytes().startswith(before[: before.rindex(b'"id": "foot"') - 100])
        save(store, session)
        assert load(NotebookSessionStore(path.parent)) == session
