"""The JSON of a session: any session comes back, version 1 does not change."""

import copy
import json
import pickle
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from pydantic import BaseModel
from strategies import broken_transcripts, json_objects, moderate, sessions

from cyclops_nb.errors import SessionFormatError
from cyclops_nb.session import Session, claim
from cyclops_nb.transcript import check

DATA = Path(__file__).parent / "data"


GOLDEN = sorted(DATA.glob("session_v1_*.json"))


def _models(kind):
    """Return the models that the JSON schema of a model is made of."""
    names = {kind.__name__, *kind.model_json_schema()["$defs"]}
    found, waiting = set(), [BaseModel]
    while waiting:
        for child in waiting.pop().__subclasses__():
            if child not in found and child.__module__.startswith("cyclops_nb."):
                found.add(child)
                waiting.append(child)
    return {child for child in found if child.__name__ in names}


def committed_schema():
    return json.loads((DATA / "session_v1.schema.json").read_text("utf-8"))


def without_words(schema):
    """Drop the descriptions, which are for people and may be worded better at any time."""
    if isinstance(schema, dict):
        return {
            key: without_words(value)
            for key, value in schema.items()
            if not (key in {"description", "title"} and isinstance(value, str))
        }
    return [without_words(item) for item in schema] if isinstance(schema, list) else schema


class TestJson:
    @moderate
    @given(sessions())
    def test_any_session_survives_dump_and_load(self, session):
        """Any session, with all its runs, settings and unknown fields, comes back equal."""
        data = session.model_dump_json()
        loaded = Session.model_validate_json(data)
        assert loaded == session
        assert loaded.model_dump_json() == data

    @moderate
    @given(sessions(broken_transcripts))
    def test_an_invalid_transcript_loads_and_forks(self, session):
        """A session whose transcript is invalid can be loaded, written and forked all the same."""
        data = session.model_dump_json()
        loaded = Session.model_validate_json(data)
        assert loaded.messages == session.messages
        assert loaded.fork().messages == session.messages

    @moderate
    @given(json_objects())
    def test_any_metadata_can_be_saved(self, metadata):
        """Metadata is written whatever text is in it, and what was written is read back as it is."""
        data = Session("s", metadata=metadata).model_dump_json()
        assert Session.model_validate_json(data).model_dump_json() == data

    @pytest.mark.parametrize("version", [2, 0, "1", None, True, [1]])
    def test_another_version_is_refused_naming_both(self, version):
        """A session of another format version is refused with that version and the one that is read."""
        with pytest.raises(SessionFormatError) as caught:
            Session.model_validate({"version": version})
        assert repr(version) in str(caught.value)
        assert "reads version 1" in str(caught.value)

    def test_another_version_in_text_is_refused_too(self):
        """The same goes for JSON text."""
        with pytest.raises(SessionFormatError, match="version 2"):
            Session.model_validate_json('{"version": 2, "messages": "of another kind"}')

    def test_the_version_may_be_left_out(self):
        """Data without a version is read as the current one, and is written with it."""
        assert json.loads(Session.model_validate({"id": "a"}).model_dump_json())["version"] == 1

    def test_surrogates_in_unknown_fields_do_not_prevent_saving(self):
        """Text in unknown fields, and the names of settings, are made such that they can be written."""
        session = Session.model_validate({"future": {"\ud800": "\udc00"}, "configs": {"\ud800": {}}, "title": "\ud800"})
        data = json.loads(session.model_dump_json())
        assert (data["future"], data["configs"], data["title"]) == ({"\ufffd": "\ufffd"}, {"\ufffd": {}}, "\ufffd")

    def test_a_title_that_is_set_later_can_be_saved(self):
        """A title assigned with a lone surrogate in it is written with U+FFFD."""
        session = Session()
        session.title = "x\udc9d"
        assert json.loads(session.model_dump_json())["title"] == "x\ufffd"

    def test_being_in_a_run_is_not_written(self):
        """Whether a session is busy is nothing that is saved or compared."""
        session = Session("s")
        data, other = session.model_dump_json(), session.model_copy()
        claim(session, "r")
        assert session.model_dump_json() == data
        assert session == other

    @moderate
    @given(sessions())
    def test_pickles_and_copies(self, session):
        """A pickled session and one copied in any way equal the original."""
        assert pickle.loads(pickle.dumps(session)) == session  # noqa: S301 - written in the line itself
        assert copy.copy(session) == copy.deepcopy(session) == session.model_copy() == session


class TestGoldenFiles:
    def test_are_there(self):
        """There are files of version 1, one of them with unknown fields."""
        assert len(GOLDEN) >= 3

    @pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
    def test_load_and_dump_to_the_same_json(self, path):
        """A file of version 1 loads, and is written with the same content."""
        text = path.read_text("utf-8")
        assert json.loads(Session.model_validate_json(text).model_dump_json()) == json.loads(text)

    @pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
    def test_have_valid_transcripts(self, path):
        """The transcripts of these files are valid."""
        check(Session.model_validate_json(path.read_text("utf-8")).messages)

    @pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
    def test_fit_the_schema(self, path):
        """The files fit the committed schema."""
        jsonschema.Draft202012Validator(committed_schema()).validate(json.loads(path.read_text("utf-8")))

    def test_have_every_field(self):
        """Every field of every class that a session is made of stands in some file."""
        seen = set()

        def walk(value):
            if isinstance(value, BaseModel):
                names = set(type(value).model_fields) & value.model_fields_set
                seen.update(f"{type(value).__name__}.{name}" for name in names)
                for _, item in value:
                    walk(item)
            elif isinstance(value, list | tuple):
                for item in value:
                    walk(item)

        for path in GOLDEN:
            walk(Session.model_validate_json(path.read_text("utf-8")))
        kinds = {name.partition(".")[0] for name in seen}
        every = {
            f"{kind.__name__}.{name}"
            for kind in _models(Session)
            if kind.__name__ in kinds
            for name in kind.model_fields
        }
        assert kinds == {kind.__name__ for kind in _models(Session)}
        assert every - seen == set()


class TestSchema:
    def test_is_the_committed_one(self):
        """The schema of what a session reads is the committed one: version 1 does not change."""
        schema = json.loads(json.dumps(Session.model_json_schema(mode="validation")))
        assert without_words(schema) == without_words(committed_schema()), (
            "the JSON of a session has changed; fields may only be added, with a default: then write "
            "Session.model_json_schema() to tests/data/session_v1.schema.json, and add a golden file"
        )

    def test_is_a_valid_schema(self):
        """The committed schema is a JSON schema."""
        jsonschema.Draft202012Validator.check_schema(committed_schema())

    @moderate
    @given(sessions())
    def test_any_session_fits(self, session):
        """Whatever a session writes fits the schema."""
        jsonschema.Draft202012Validator(committed_schema()).validate(json.loads(session.model_dump_json()))
