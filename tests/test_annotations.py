"""Annotations: what people think of a message stays with it, in forks, stores and notebooks, and goes with it."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import read
from stored import load, save
from strategies import any_transcripts, json_values, messages, moderate

from cyclops_nb import (
    Agent,
    AssistantMessage,
    FileSessionStore,
    InMemorySessionStore,
    InputError,
    NotebookSessionStore,
    Run,
    Session,
    SessionBusyError,
    ToolCall,
    ToolMessage,
    TranscriptError,
    UserMessage,
)
from cyclops_nb.annotations import ANNOTATION, Annotation, annotation_of
from cyclops_nb.display.register import mimebundle
from cyclops_nb.testing import ScriptedServer, gate, reply, text

STORES = {"memory": lambda _: InMemorySessionStore(), "file": FileSessionStore, "notebook": NotebookSessionStore}


def conversation():
    """Return a session with a call in it."""
    session = Session("study-1")
    session.messages += [
        UserMessage("How warm is it?"),
        AssistantMessage([ToolCall("c1", "get_weather")]),
        ToolMessage("c1", "get_weather", "11 °C"),
        AssistantMessage("11 °C."),
    ]
    return session


class TestAnnotate:
    def test_keeps_rating_note_and_tags(self):
        """An annotation stands in the metadata of its message, which is the same otherwise, its id included."""
        session = conversation()
        before = session.messages[3]
        session.annotate(-1, rating=4, note="Too short.", tags=["short", "right"])
        after = session.messages[3]
        assert after.metadata == {"annotation": {"rating": 4, "note": "Too short.", "tags": ("short", "right")}}
        assert after.model_copy(update={"metadata": before.metadata}) == before
        assert annotation_of(before) == Annotation()

    def test_what_is_not_given_stays(self):
        """A second call changes what it names; None takes something away, and nothing is left of an empty one."""
        session = conversation()
        session.annotate(0, rating=1, note="a", tags="x")
        session.annotate(0, rating=2)
        assert annotation_of(session.messages[0]) == Annotation(2, "a", ("x",))
        session.annotate(0, note=None, tags=None)
        assert session.messages[0].metadata == {"annotation": {"rating": 2}}
        session.annotate(0, rating=None)
        assert session.messages[0].metadata == {}
        assert session.messages[0] == UserMessage(**dict(session.messages[0]))

    def test_other_metadata_stay(self):
        """Metadata of the user's own are not touched."""
        session = Session(messages=[UserMessage("a", metadata={"source": {"page": 3}, "note": "mine"})])
        session.annotate(0, note="new")
        assert session.messages[0].metadata == {
            "source": {"page": 3},
            "note": "mine",
            "annotation": {"note": "new"},
        }
        session.annotate(0, note=None)
        assert session.messages[0].metadata == {"source": {"page": 3}, "note": "mine"}

    def test_the_value_of_a_result_stays_in_memory(self):
        """What a tool returned is still there after its result was annotated."""
        session = conversation()
        session.messages[2].remember({"celsius": 11})
        session.annotate(2, rating=1)
        assert session.messages[2].value == {"celsius": 11}

    @pytest.mark.parametrize(
        ("given_value", "kept"), [(0, 0), (-1.5, -1.5), (True, 1), (np.int64(3), 3), (np.float32(0.5), 0.5)]
    )
    def test_a_rating_is_any_number(self, given_value, kept):
        """Ratings are numbers on any scale, those of numpy and yes or no included."""
        session = conversation()
        session.annotate(0, rating=given_value)
        found = annotation_of(session.messages[0]).rating
        assert found == kept
        assert type(found) is type(kept)

    @pytest.mark.parametrize("rating", [float("nan"), float("inf"), 10**400, "5", [5], {}])
    def test_what_is_no_number_is_no_rating(self, rating):
        """What is no finite number is refused, and nothing is changed."""
        session = conversation()
        with pytest.raises(InputError, match="a rating must be a finite number"):
            session.annotate(0, rating=rating, note="a")
        assert session.messages[0].metadata == {}

    def test_a_note_is_text(self):
        """A note that is no text is refused; a blank one is none."""
        session = conversation()
        with pytest.raises(InputError, match="a note must be text, got a int"):
            session.annotate(0, note=3)
        session.annotate(0, note=" \n")
        assert session.messages[0].metadata == {}

    def test_tags_are_texts_without_a_comma(self):
        """One tag or several, each once, blanks made one; a comma would part it in a frame."""
        session = conversation()
        session.annotate(0, tags="good")
        session.annotate(1, tags=(tag for tag in [" very  good", "a", "very good"]))
        assert annotation_of(session.messages[0]).tags == ("good",)
        assert annotation_of(session.messages[1]).tags == ("very good", "a")
        for wrong in ("a, b", ["a", 3], ["a", " "], 3):
            with pytest.raises(InputError, match="a tag must be a text without a comma"):
                session.annotate(0, tags=wrong)

    @pytest.mark.parametrize("index", [4, -5])
    def test_there_must_be_such_a_message(self, index):
        """An index that leads nowhere is refused, saying how many messages there are."""
        with pytest.raises(TranscriptError, match=rf"no message {index} to annotate: the session has 4"):
            conversation().annotate(index, rating=1)

    def test_a_busy_session_refuses(self):
        """While a run extends a session nothing is annotated, since its store is given new messages alone."""
        session, door = conversation(), gate()
        with ScriptedServer(reply(text("Hello"), door)) as server:
            agent = Agent("m", base_url=server.base_url, api_key="k")
            handle = agent.start("Is it?", session=session)
            door.wait_reached()
            with pytest.raises(SessionBusyError, match="cannot be annotated now"):
                session.annotate(0, rating=5)
            door.release()
            handle.result()
        assert session.messages[0].metadata == {}
        session.annotate(-1, rating=5)
        assert annotation_of(session.messages[-1]).rating == 5


class TestWhereItGoes:
    def test_forks_take_it_along(self):
        """A fork has the annotations of its origin, and from then on each has its own."""
        session = conversation()
        session.annotate(0, rating=1)
        fork = session.fork()
        fork.annotate(0, rating=5)
        session.annotate(3, tags="x")
        assert [annotation_of(one.messages[0]).rating for one in (session, fork)] == [1, 5]
        assert annotation_of(fork.messages[3]) == Annotation()
        assert fork.messages[0].id == session.messages[0].id

    def test_truncation_drops_it_with_its_message(self):
        """What is cut off is gone with its annotation, and nothing of it is left in the session."""
        session = conversation()
        session.annotate(3, note="drop me")
        session.annotate(0, note="keep me")
        session.truncate(1)
        assert "drop me" not in session.model_dump_json()
        assert annotation_of(session.messages[0]).note == "keep me"

    def test_an_edit_drops_it(self):
        """What was thought of the old text is not claimed of the edited one; other metadata stay."""
        session = Session(messages=[UserMessage("a", metadata={"source": "mine"})])
        session.annotate(0, rating=1)
        edited = session.edit(0, "b").messages[0]
        assert edited.metadata == {"source": "mine", "edited_from": session.messages[0].id}
        assert annotation_of(session.messages[0]).rating == 1

    @pytest.mark.parametrize("kind", STORES)
    def test_every_store_keeps_it(self, kind, tmp_path):
        """It comes back from each store, also when it was given to a message that was stored before."""
        store = STORES[kind](tmp_path)
        session = conversation()
        save(store, session)
        session.annotate(1, rating=2.5, note="“Why?” — `x` <b>*&", tags=["ä", "b c"])
        session.annotate(2, note="A result.")
        save(store, session)
        loaded = load(store)
        assert loaded == session
        assert annotation_of(loaded.messages[1]) == Annotation(2.5, "“Why?” — `x` <b>*&", ("ä", "b c"))
        session.annotate(1, rating=None, note=None, tags=None)
        save(store, session)
        assert load(store).messages[1].metadata == {}

    @pytest.mark.parametrize("kind", STORES)
    def test_the_next_run_stores_it(self, kind, tmp_path):
        """A run begins with a save of the whole session, so what was annotated before it is stored."""
        store = STORES[kind](tmp_path)
        with ScriptedServer([text("Hello."), text("Fine.")]) as server:
            agent = Agent("m", base_url=server.base_url, api_key="k", session_store=store)
            session = agent.open("study-1")
            agent.run("Hello", session=session)
            session.annotate(1, rating=3)
            agent.run("How are you?", session=session)
        assert load(store) == session
        assert annotation_of(load(store).messages[1]).rating == 3

    def test_a_notebook_shows_it(self, tmp_path):
        """In the notebook of a session it stands in the line of facts, as text and nothing else."""
        session = conversation()
        session.annotate(3, rating=4, note="<script>*x*", tags=["a", "b"])
        save(NotebookSessionStore(tmp_path), session)
        cells = json.loads((tmp_path / "study-1.ipynb").read_text("utf-8"))["cells"]
        assert "rating 4 · note &lt;script&gt;&#42;x&#42; · tags a, b" in "".join(cells[4]["source"])

    @moderate
    @given(any_transcripts.filter(bool), st.data())
    def test_json_keeps_it(self, transcript, data):
        """Any message can be annotated, and comes back from JSON the same."""
        session = Session(messages=transcript)
        index = data.draw(st.integers(0, len(transcript) - 1))
        session.annotate(index, rating=0.1, note=data.draw(st.text(max_size=5)), tags=["a"])
        assert Session.model_validate_json(session.model_dump_json()) == session
        assert annotation_of(session.messages[index]).tags == ("a",)


class TestReading:
    @given(json_values(), messages)
    def test_whatever_stands_there(self, value, message):
        """What a stored file has in the place of an annotation, whatever it is, does no harm."""
        odd = message.model_copy(update={"metadata": type(message.metadata)({ANNOTATION: value})})
        found = annotation_of(odd)
        assert found.rating is None or isinstance(found.rating, int | float)
        assert found.note is None or isinstance(found.note, str)
        assert all(isinstance(tag, str) for tag in found.tags)

    def test_odd_values_are_passed_over(self):
        """Of an annotation that is none in parts the rest counts."""
        odd = {"rating": "5", "note": 3, "tags": ["a", 1]}
        assert annotation_of(UserMessage("a", metadata={"annotation": odd})) == Annotation(tags=("a",))
        assert annotation_of(UserMessage("a", metadata={"annotation": {"rating": 10**400}})) == Annotation()
        assert annotation_of(UserMessage("a", metadata={"annotation": {"rating": True}})) == Annotation()


class TestShown:
    def test_beside_the_message(self):
        """The transcript shows it beside what else is known of the message."""
        session = conversation()
        session.runs.append(Run(session_id="study-1", model="m"))
        session.annotate(0, rating=4, note="<b>bold</b>", tags=["a", "b"])
        html = mimebundle(session)["text/html"]
        assert "rating: 4, note: &lt;b&gt;bold&lt;/b&gt;, tags: a, b" in html
        assert "annotation" not in read(html).text
