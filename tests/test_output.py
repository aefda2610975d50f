"""The type that an answer is to have: how it is asked for, and what counts as an answer."""

from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from cyclops_nb.engine.output import OutputType
from cyclops_nb.errors import ConfigError


class City(BaseModel):
    name: str


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


class Options(TypedDict):
    depth: int


class TestSchema:
    @pytest.mark.parametrize(
        "kind", [int, list[City], dict, dict[str, int], dict[str, City], City | None, Tree, Any], ids=str
    )
    def test_what_is_no_object_with_fields_is_wrapped(self, kind):
        """Servers take objects with named fields only, so any other type is asked for as the one field of such."""
        schema = OutputType(kind).schema
        assert (schema["type"], list(schema["properties"])) == ("object", ["answer"])
        assert schema["required"] == ["answer"]

    @pytest.mark.parametrize(("kind", "field"), [(City, "name"), (Options, "depth")])
    def test_an_object_with_fields_is_asked_for_as_it_is(self, kind, field):
        """A model or TypedDict needs no wrapping."""
        assert list(OutputType(kind).schema["properties"]) == [field]

    @pytest.mark.parametrize(
        "kind",
        [{"type": "object"}, {"type": "int"}, "int", 5, [int], City(name="a"), lambda a: a, print, object()],
        ids=repr,
    )
    def test_what_is_no_type_is_refused(self, kind):
        """A JSON schema, a name, a value or a function is no type, and the error is one of ours."""
        with pytest.raises(ConfigError, match="response_model") as caught:
            OutputType(kind)
        assert "arbitrary_types_allowed" not in str(caught.value)


class TestJudge:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ('{"answer": {"a": 1}}', {"a": 1}),
            ('{"a": 1}', {"a": 1}),
            ('{"answer": 1}', {"answer": 1}),
            ('{"answer": 1, "b": 2}', {"answer": 1, "b": 2}),
            ("{}", {}),
        ],
    )
    def test_a_dict_may_be_wrapped_or_bare(self, text, value):
        """A dict is taken from the field it was asked for in, or bare, whatever its keys are."""
        assert OutputType(dict[str, int]).judge(text).output == value

    def test_what_fits_neither_way_is_complained_of(self):
        """An answer that fits neither wrapped nor bare gets a complaint that says what was expected."""
        verdict = OutputType(dict[str, int]).judge('{"answer": "x"}')
        assert verdict.output is None
        assert "answer" in verdict.complaint
