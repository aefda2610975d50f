"""What users write into the first and the last cell of a session's notebook, which are written anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored import add, load, save, say, talk
from strategies import moderate

from cyclops_nb import NotebookSessionStore
from cyclops_nb.session import Parent
from notebooks import (
    MARKDOWN,
    PNG,
    cell_of,
    check_valid,
    code,
    conversation,
    edit,
    kinds,
    note,
    put_in,
    read,
    source,
    write,
)

pytestmark = pytest.mark.filterwarnings("error")
STORE = NotebookSessionStore


def own(path):
    """Return the sources of the user's own cells."""
    return [source(cell) for cell in read(path)["cells"] if "cyclops_nb" not in cell["metadata"]]


def put(path, kind, change):
    """Change the source of the first or the last cell of ours."""
    notebook = read(path)
    cell = cell_of(notebook, kind)
    cell["source"] = change(source(cell))
    write(path, notebook)


def go_on(store, session, how):
    """Do what writes the last cell anew."""
    match how:
        case "add":
            add(store, session, say(session, "more"))
        case "save":
            say(session, "more")
            save(store, session)
        case _:
            save(store, session)


def check_stable(path, session):
    """Fail unless another save, from whatever store, writes the same bytes."""
    before = path.read_bytes()
    store = NotebookSessionStore(path.parent)
    assert load(store) == session
    for writer in (store, NotebookSessionStore(path.parent)):
        save(writer, session)
        add(writer, session, [])
        assert path.read_bytes() == before
    check_valid(path)


@pytest.mark.parametrize("how", ["add", "save", "same"])
@pytest.mark.parametrize("reads", ["before", "after", "never"])
class TestTheLastCell:
    @pytest.mark.parametrize(
        "change",
        [
            lambda text: f"{text}\n\nMy *note*.\n\n    code",
            lambda text: f"My *note*.\n\n    code\n\n{text}",
            lambda text: f"My *note*.\n\n{text}\n\n    code",
        ],
        ids=["behind", "before", "around"],
    )
    def test_what_was_written_into_it_becomes_a_cell(self, store, path, how, reads, change):
        """It stands behind the message behind which it was written, whoever has read it, and there it stays."""
        session = conversation()
        save(store, session)
        store = NotebookSessionStore(path.parent) if reads == "never" else store
        put(path, "foot", change)
        if reads == "after":
            session = load(store)
        if reads == "never" and how == "add":
            session = load(NotebookSessionStore(path.parent))
        go_on(store, session, how)
        text = "My *note*.\n\n    code"
        assert own(path) == [text]
        place = kinds(path).index(text)
        assert kinds(path)[place - 1 : place + 2] == [6, text, 7 if how != "same" else "foot"]
        check_stable(path, session)

    @pytest.mark.parametrize(
        ("change", "kept"),
        [
            (lambda text: text.replace("**1 run: ", "**cheap: "), ["**cheap: ", "runs and settings"]),
            (lambda text: text.replace("</details>", "inside\n\n</details>"), ["inside"]),
            (lambda text: "Mine alone.", ["Mine alone."]),
        ],
        ids=["changed", "within", "all"],
    )
    def test_what_cannot_be_told_from_ours_is_kept_with_it(self, store, path, how, reads, change, kept):
        """Where a line of ours was changed, the cell is kept as it is, and ours stands anew."""
        session = conversation()
        save(store, session)
        put(path, "foot", change)
        if reads != "before":
            session = load(store)
        go_on(store, session, how)
        (text,) = own(path)
        assert all(piece in text for piece in kept)
        assert source(cell_of(read(path), "foot")).startswith("***\n\n**1 run: " if how == "same" else "***\n\n**2 ")
        check_stable(path, session)

    @pytest.mark.parametrize(
        "change",
        [
            lambda text: "",
            lambda text: text.replace("***", "").replace("</details>", ""),
            lambda text: "\n\n".join(f"{line}  " for line in text.split("\n")),
        ],
        ids=["empty", "less", "blank"],
    )
    def test_where_nothing_was_written_nothing_is_kept(self, store, path, how, reads, change):
        """Lines of ours that were taken out come back, and no copy of ours stays."""
        session = conversation()
        save(store, session)
        put(path, "foot", change)
        if reads != "before":
            session = load(store)
        go_on(store, session, how)
        assert own(path) == []
        check_stable(path, session)


class TestTheFirstCell:
    @pytest.mark.parametrize(
        ("change", "kept"),
        [
            (lambda text: f"{text}\n\nMy note.", "My note."),
            (lambda text: text.replace("\n\n", "\n\nMy note.\n\n"), "My note."),
            (lambda text: f"My note.\n\n{text}\n\nmore", "My note.\n\nmore"),
            (lambda text: f"# My analysis\n\nMy note.\n\n{text}", "# My analysis\n\nMy note."),
        ],
        ids=["behind", "between", "around", "a heading"],
    )
    @pytest.mark.parametrize("reads", [False, True])
    @pytest.mark.parametrize("how", ["title", "parent"])
    def test_what_was_written_into_it_becomes_a_cell(self, store, path, change, kept, reads, how):
        """It stands there as long as the cell does, and behind it once that says something else."""
        session = conversation()
        save(store, session)
        put(path, "head", change)
        if reads:
            session = load(store)
            assert session.title == "Weather"
        save(store, session)
        assert kept[:8] in source(cell_of(read(path), "head"))
        assert own(path) == []
        if how == "title":
            session.title = "Climate"
        else:
            session.parent = Parent(session_id="origin", message_count=2)
        save(store, session)
        (text,) = own(path)
        assert text.startswith(kept)
        assert kinds(path)[:3] == ["head", text, 0]
        assert source(cell_of(read(path), "head")).startswith("# Climate" if how == "title" else "# Weather")
        check_stable(path, session)

    @pytest.mark.parametrize(
        ("change", "kept"),
        [
            (lambda text: text.replace("begun", "started"), ["Session study-1, started"]),
            (lambda text: text.split("\n")[0], []),
            (lambda text: "", []),
        ],
        ids=["changed", "without a line", "empty"],
    )
    def test_what_was_changed_or_taken_out_of_it_stands_anew(self, store, path, change, kept):
        """And what the user has made of it is beside it."""
        save(store, conversation())
        before = source(cell_of(read(path), "head"))
        put(path, "head", change)
        session = load(store)
        save(store, session)
        assert source(cell_of(read(path), "head")) == before
        assert [text[: len(start)] for text, start in zip(own(path), kept, strict=True)] == kept
        check_stable(path, session)

    def test_with_a_new_title(self, store, path):
        """What is written beside a title that was edited is no part of it."""
        save(store, conversation())
        put(path, "head", lambda text: text.replace("# Weather", "# Climate\n\nMy note."))
        session = load(store)
        assert session.title == "Climate"
        session.title = "Other"
        add(store, session, [])
        assert own(path) == ["My note."]
        assert source(cell_of(read(path), "head")).startswith("# Other\n\nSession study-1, begun")
        check_stable(path, session)

    def test_when_a_turn_of_a_fork_is_taken_out(self, store, path):
        """What was written stands apart from what the first cell said of the origin."""
        session = talk(3)
        session.parent = Parent(session_id="origin", message_count=4)
        save(store, session)
        put(path, "head", lambda text: f"{text}\n\nMy note.")
        edit(path, 2, "question 1", "why")
        session = load(store)
        assert session.parent.message_count == 2
        save(store, session)
        session.title = "T"
        save(store, session)
        assert own(path) == ["My note."]
        check_stable(path, session)


class TestMergedCells:
    @pytest.mark.parametrize("kind", ["head", "foot"])
    @pytest.mark.parametrize("is_above", [True, False])
    def test_a_cell_of_the_users_own_is_one_again(self, store, path, kind, is_above):
        """Also with its pictures."""
        session = conversation()
        save(store, session)
        notebook = read(path)
        cell = cell_of(notebook, kind)
        text = "# Mine\n\n![plot](attachment:plot.png)"
        cell["source"] = "\n\n".join([text, source(cell)] if is_above else [source(cell), text])
        cell["attachments"] = {"plot.png": {"image/png": PNG}}
        write(path, notebook)
        session = load(store)
        assert session.title == "Weather"
        session.title = "New"
        add(store, session, say(session))
        (cell,) = [cell for cell in read(path)["cells"] if "cyclops_nb" not in cell["metadata"]]
        assert source(cell) == text
        assert cell["attachments"] == {"plot.png": {"image/png": PNG}}
        assert "attachments" not in cell_of(read(path), kind)
        check_stable(path, session)

    def test_other_cells_stay_where_they_are(self, store, path):
        """What was written into our cells stands beside them, and between the messages nothing moves."""
        session = talk(2)
        save(store, session)
        put_in(path, "head", note("top"))
        put_in(path, 1, code("x = 1"))
        put_in(path, 3, note("end"))
        put_in(path, "foot", note("behind"))
        put(path, "head", lambda text: f"{text}\n\nin the first")
        put(path, "foot", lambda text: f"{text}\n\nin the last")
        session.title = "T"
        add(store, session, [])
        order = ["head", "in the first", "top", 0, 1, "x = 1", 2, 3, "end", "in the last", "foot", "behind"]
        assert kinds(path) == order
        add(store, session, say(session))
        assert kinds(path) == [*order[:10], "behind", 4, 5, "foot"]
        check_stable(path, session)


@moderate
@given(
    text=MARKDOWN.map(lambda text: f"begin {text}"),
    kind=st.sampled_from(["head", "foot"]),
    is_first=st.booleans(),
    turns=st.integers(0, 2),
)
def test_any_text(tmp_path_factory, text, kind, is_first, turns):
    """Whatever was written, it stands in the notebook line by line, and stays the same from then on."""
    path = tmp_path_factory.mktemp("sessions") / "study-1.ipynb"
    store, session = NotebookSessionStore(path.parent), talk(turns)
    save(store, session)
    put(path, kind, lambda ours: "\n\n".join([text, ours] if is_first else [ours, text]))
    wanted = [
        line for line in source({"source": text}).replace("\r\n", "\n").replace("\r", "\n").split("\n") if line.strip()
    ]
    session.title = "Other"
    add(store, session, say(session))
    (found,) = own(path)
    assert [line for line in found.split("\n") if line.strip()] == wanted
    check_stable(path, session)


def test_a_file_without_a_hash_of_its_last_cell(store, path):
    """As it was written before there was one: it loads, and what was added is found all the same."""
    session = conversation()
    save(store, session)
    notebook = read(path)
    cell_of(notebook, "foot")["metadata"]["cyclops_nb"].pop("hash", None)
    write(path, notebook)
    put(path, "foot", lambda text: f"{text}\n\nMy note.")
    assert load(store) == session
    save(store, session)
    assert own(path) == ["My note."]
    check_stable(path, session)
