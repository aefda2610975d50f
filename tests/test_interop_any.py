"""Sessions out of notebooks whatever was done to them there, and notebooks without session data whatever they hold."""

import json
from datetime import timedelta

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenarios import agent_for
from strategies import clean_texts, json_values

from cyclops_nb import AgentResponse, AssistantMessage, Session, UserMessage, sessions_in_notebook, strip
from cyclops_nb.interop.json_text import without
from cyclops_nb.interop.run_record import MEDIA_TYPE
from cyclops_nb.runs import Run
from cyclops_nb.testing import ScriptedServer, text
from cyclops_nb.values import now
from notebooks import read


def cell_with(*bundles):
    """Return a cell with outputs that hold these."""
    return nbformat.v4.new_code_cell("x", outputs=[nbformat.v4.new_output("display_data", data) for data in bundles])


def record_of(response):
    """Return the record that an output has when it is shown now."""
    return json.loads(json.dumps(response._repr_mimebundle_()[MEDIA_TYPE]))


def notebook_of(path, records):
    """Save a notebook in which a cell holds each of the records."""
    nbformat.write(nbformat.v4.new_notebook(cells=[cell_with({MEDIA_TYPE: record}) for record in records]), path)
    return path


class Notebook:
    """What someone does in a notebook, as quickly as a hypothesis may ask for it."""

    def __init__(self):
        self.sessions = [Session("first")]
        self.shown = []
        """The records, in the order of the cells."""
        self.last = {}
        """By the id of a session, its messages when it was shown last, and which messages had been shown by then."""
        self.seen = set()
        self.count = 0

    def run(self, session, is_shown):
        self.count += 1
        begun = now() + timedelta(seconds=self.count)
        run = Run(session_id=session.id, model="m", stop_reason="completed", started_at=begun)
        new = [UserMessage(f"q{self.count}", run_id=run.id), AssistantMessage(f"a{self.count}", run_id=run.id)]
        start = len(session.messages)
        session.messages += new
        session.runs.append(run)
        if is_shown:
            response = AgentResponse(
                run=run, content="", messages=tuple(new), session=session, start=start, runs=(run,)
            )
            self.shown.append(record_of(response))
            self.seen.update(message["id"] for message in self.shown[-1]["messages"])
            self.last[session.id] = list(session.messages), set(self.seen)

    def do(self, what, which, place):
        session = self.sessions[which % len(self.sessions)]
        places = range(0, len(session.messages) + 1, 2)
        place = places[place % len(places)]
        if what in {"show", "hide"}:
            self.run(session, what == "show")
        elif what == "cut":
            session.truncate(place)
        elif what == "fork":
            self.sessions.append(session.fork(place))
            self.sessions[-1].created_at = now() + timedelta(seconds=self.count, milliseconds=len(self.sessions))
        elif what == "edit" and place < len(session.messages):
            fork = session.edit(place, "edited")
            fork.created_at = now() + timedelta(seconds=self.count, milliseconds=len(self.sessions) + 1)
            fork.messages.append(AssistantMessage("by hand"))
            self.sessions.append(fork)
        elif what == "put":
            session.messages += [UserMessage("by hand"), AssistantMessage("by hand")]


STEPS = st.lists(
    st.tuples(st.sampled_from(["show", "show", "hide", "cut", "fork", "edit", "put"]), st.integers(0, 9), st.integers(0, 9)),
    max_size=14,
)  # fmt: skip


def texts(messages):
    return [(message.id, message.text) for message in messages]


@settings(max_examples=100, deadline=None)
@given(steps=STEPS)
def test_no_conversation_is_put_together_that_never_was(tmp_path_factory, steps):
    """A session is what it was when it was shown last, without what no cell shows, and nothing else is in it."""
    notebook = Notebook()
    for step in steps:
        notebook.do(*step)
    result = sessions_in_notebook(notebook_of(tmp_path_factory.mktemp("any") / "a.ipynb", notebook.shown))
    by_id = {session.id: session for session in result}
    assert set(notebook.last) == {name for name in by_id if "-before-cut-" not in name}
    for name, (messages, seen) in notebook.last.items():
        known = [message for message in messages if message.id in seen]
        assert texts(by_id[name].messages) == texts(known)
        gaps = [piece for piece in result.missing if piece.session_id == name]
        assert not gaps or len(known) < len(messages)
    put_together = {message.id for session in result for message in session.messages}
    assert notebook.seen <= put_together  # nothing that a cell shows is lost
    if all(what != "hide" for what, *_ in steps):
        assert result.missing == ()


@pytest.fixture
def agent():
    """Give an agent whose model says what it was asked."""
    with ScriptedServer(lambda request: text(f"answer to {request.messages[-1]['content']}")) as server:
        yield agent_for(server)


@pytest.fixture
def summing():
    """Give an agent whose model makes many words, and short summaries of them."""

    def model(request):
        is_summary = "summary" in str(request.messages[0]["content"])
        return text("They counted." if is_summary else "a fine long answer " * 8)

    with ScriptedServer(model) as server:
        yield agent_for(server)


def show(agent, question, session=None):
    """Ask, and return what an output keeps of it."""
    return record_of(agent.run_with_response(question, session=session))


class TestWhereARunGoesOn:
    """A run goes on from what stood before it, not from what stands in that place now."""

    def test_a_fork_that_was_made_before_a_cut(self, agent, tmp_path):
        """It has what its origin had then; and that is not there once more, as a branch."""
        session = Session("s")
        shown = [show(agent, question, session=session) for question in ("one", "two")]
        fork = session.fork(title="kept")
        session.truncate(2)
        shown.append(show(agent, "two again", session=session))
        shown.append(show(agent, "three", session=fork))
        result = sessions_in_notebook(notebook_of(tmp_path / "a.ipynb", shown))
        assert [one.messages for one in result] == [session.messages, fork.messages]
        assert result.missing == ()

    def test_a_run_behind_one_that_no_cell_shows(self, agent, tmp_path):
        """What was cut off does not stand in for what took its place."""
        session = Session("s")
        shown = [show(agent, question, session=session) for question in ("one", "two")]
        session.truncate(2)
        agent.run("not shown", session=session)
        shown.append(show(agent, "three", session=session))
        result = sessions_in_notebook(notebook_of(tmp_path / "a.ipynb", shown))
        assert [message.text for message in result[0].messages[::2]] == ["one", "three"]
        assert [message.text for message in result[1].messages[::2]] == ["one", "two"]
        assert [str(piece)[:42] for piece in result.missing] == ["cells[2]: messages [2] to [3] of session '"]

    def test_a_fork_of_the_older_of_two_with_the_same_id(self, agent, tmp_path):
        """It has what the older one said."""
        old, new = Session("s"), Session("s")
        shown = [show(agent, "one", session=old), show(agent, "two", session=new)]
        fork = old.fork()
        shown.append(show(agent, "three", session=fork))
        *_, back = sessions_in_notebook(notebook_of(tmp_path / "a.ipynb", shown))
        assert back == fork

    def test_a_fork_of_one_that_no_cell_shows(self, agent, tmp_path):
        """It has what the first of them said, with its runs."""
        session = Session("s")
        shown = [show(agent, str(number), session) for number in range(12)]
        fork = session.fork().fork()
        shown.append(show(agent, "on", fork))
        _, back = sessions_in_notebook(notebook_of(tmp_path / "a.ipynb", shown))
        assert back == fork

    def test_a_fork_that_was_made_before_a_compaction(self, summing, tmp_path):
        """It has all the messages, however many, and its origin the summary."""
        session = Session("s")
        shown = [show(summing, f"question {number} " * 5, session) for number in range(12)]
        fork = session.fork()
        assert summing.compact(session) is not None
        shown += [show(summing, "and now", one) for one in (session, fork)]
        result = sessions_in_notebook(notebook_of(tmp_path / "a.ipynb", shown))
        assert list(result) == [session, fork]

    def test_a_run_behind_one_that_no_cell_shows_and_a_compaction(self, summing, tmp_path):
        """What the summary has left stands behind it."""
        session = Session("s")
        shown = [show(summing, f"question {number} " * 5, session) for number in range(4)]
        assert summing.compact(session) is not None
        summing.run("not shown", session=session)
        shown.append(show(summing, "and now", session))
        (back,) = sessions_in_notebook(path := notebook_of(tmp_path / "a.ipynb", shown))
        assert back.messages == [*session.messages[:-4], *session.messages[-2:]]
        (piece,) = sessions_in_notebook(path).missing
        count = len(session.messages)
        assert f"messages [{count - 4}] to [{count - 3}] of session 's'" in piece.text

    def test_what_was_put_there_by_hand(self, agent, tmp_path):
        """Examples before the first question, and what takes the place of an answer: the next run has them."""
        session = Session("s")
        session.messages += [UserMessage("1 + 1"), AssistantMessage("2")]
        shown = [show(agent, "one", session)]
        before = list(session.messages)
        session.messages[2:] = [UserMessage("other"), AssistantMessage("answer")]
        shown.append(show(agent, "two", session))
        result = sessions_in_notebook(notebook_of(tmp_path / "a.ipynb", shown))
        assert result[0] == session
        assert result[1].messages == before
        assert result.missing == ()


class TestHostileRecords:
    """A notebook from anyone."""

    def test_an_enormous_index(self, agent, tmp_path):
        """It takes no memory: there is nothing before it."""
        path = notebook_of(tmp_path / "a.ipynb", [show(agent, "one")])
        notebook = read(path)
        notebook["cells"][0]["outputs"][0]["data"][MEDIA_TYPE]["start"] = 10**15
        path.write_text(json.dumps(notebook))
        (back,) = sessions_in_notebook(path)
        assert len(back.messages) == 2

    def test_a_later_version(self, agent, tmp_path):
        """Is named as one."""
        path = notebook_of(tmp_path / "a.ipynb", [show(agent, "one")])
        notebook = read(path)
        notebook["cells"][0]["outputs"][0]["data"][MEDIA_TYPE]["version"] = 2
        path.write_text(json.dumps(notebook))
        assert "it has version 2: a newer cyclops_nb wrote it" in str(sessions_in_notebook(path).missing[0])


NOTEBOOK = """\ufeff{
\t"cells" : [
\t\t{"cell_type": "code", "id": "a", "source": "\u2028 \\u00e9 \\/ é", "execution_count": 1, "metadata": { },
\t\t "outputs": [{"data": {RECORD"text/plain": "x"}, "metadata": {NUMBERS}, "output_type": "display_data"}]},
\t\t{"cell_type": "code", "id": "b", "source": [], "execution_count": null, "metadata": {}, "outputs": null},
\t\t{"cell_type": "code", "id": "c", "source": [], "execution_count": null, "metadata": {}, "outputs": {"data": 1}}
\t],
\t"metadata": {"a": 1, "a": 2}, "nbformat": 4, "nbformat_minor": 5
}\r\n
"""
NUMBERS = '"n": [1.50, 1E5, -0, 1e400, 0.1000000000000000055511151231257827, "\\ud800"]'


class TestStrip:
    """What is left of a notebook is what it was, character for character."""

    def test_leaves_every_character_of_the_rest(self, tmp_path):
        """Numbers, escapes, blanks, keys that stand twice, and outputs that are none."""
        path = tmp_path / "a.ipynb"
        rest = NOTEBOOK.replace("NUMBERS", NUMBERS)
        path.write_bytes(rest.replace("RECORD", f'"{MEDIA_TYPE}": {{"version": 1}}, ').encode())
        assert strip(path).records == 1
        assert path.read_bytes() == rest.replace("RECORD", "").encode()

    @given(
        value=st.dictionaries(clean_texts, json_values(clean_texts), max_size=4),
        indent=st.sampled_from([None, 1, "\t"]),
        gone=st.sets(st.integers(0, 30)),
    )
    def test_any_values_can_be_taken_out_of_any_others(self, value, indent, gone):
        """What is left reads as what one gets by taking them out of the data."""
        asked = []

        def is_gone(path, _):
            asked.append(path)
            return True if len(asked) in gone else None

        text = without(json.dumps(value, indent=indent), 0, is_gone)
        taken = {path for number, path in enumerate(asked, 1) if number in gone}
        assert json.loads(text) == left_of(value, taken)


def left_of(value, taken, path=()):
    """Return JSON data without what stands at some places."""
    if isinstance(value, dict):
        return {key: left_of(item, taken, (*path, key)) for key, item in value.items() if (*path, key) not in taken}
    if isinstance(value, list):
        return [left_of(item, taken, (*path, n)) for n, item in enumerate(value) if (*path, n) not in taken]
    return value
