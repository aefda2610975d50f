"""Sessions when they are made: defaults, refusals, and what is saved of them."""

import pytest

from cyclops_nb.errors import InputError, SessionFormatError
from cyclops_nb.messages import UserMessage
from cyclops_nb.session import Session


class TestConstructor:
    def test_a_session_is_ready_as_it_is(self):
        """A session without arguments has an id of its own, version 1 and nothing in it."""
        session = Session()
        assert (session.version, session.title, session.metadata, session.parent) == (1, None, {}, None)
        assert (session.messages, session.runs, session.configs) == ([], [], {})
        assert session.id != Session().id
        assert session.created_at.tzinfo is not None

    def test_takes_an_id_by_position_or_by_name(self):
        """The id can be given either way, and None stands for a random one."""
        assert Session("a").id == Session(id="a").id == "a"
        assert Session(id=None).id

    def test_an_empty_id_is_refused(self):
        """An empty id is no id."""
        with pytest.raises(InputError, match="id: "):
            Session("")

    @pytest.mark.parametrize(
        ("name", "value"), [("id", 5), ("title", 5), ("metadata", 5), ("metadata", 0), ("messages", "a"), ("runs", [5])]
    )
    def test_wrong_values_are_refused_by_name(self, name, value):
        """An argument of another type is an error of ours, a ValueError too, that names it in plain words."""
        with pytest.raises(InputError, match=rf"Session.*: {name}") as caught:
            Session(**{name: value})
        assert "pydantic" not in str(caught.value)
        assert isinstance(caught.value, ValueError)

    def test_a_title_that_is_no_text_can_be_saved(self):
        """Whatever was assigned as the title, the session is written, with the title as text."""
        session = Session("s")
        session.title = 5
        assert session.model_dump()["title"] == "5"
        assert Session.model_validate_json(session.model_dump_json()).title == "5"

    @pytest.mark.parametrize(
        ("version", "is_newer"), [(2, True), (0, False), ("1", False), (None, False), (1.0, False)]
    )
    def test_only_a_larger_version_is_a_newer_one(self, version, is_newer):
        """A version that no release can have is not blamed on a newer one."""
        with pytest.raises(SessionFormatError) as caught:
            Session.model_validate({"version": version})
        assert ("newer" in str(caught.value)) == is_newer

    def test_is_true_when_empty(self):
        """An empty session is true, so that `load(...) or Session(...)` replaces only what is missing."""
        assert Session()
        assert not hasattr(Session, "__len__")

    def test_two_sessions_share_nothing(self):
        """What is put into one session is not in another."""
        first, second = Session(), Session()
        first.metadata["a"] = 1
        first.messages.append(UserMessage("a"))
        assert (second.metadata, second.messages) == ({}, [])
