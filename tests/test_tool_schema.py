"""The schema that a signature gives, and the objects that arrive in the function."""

import dataclasses
import enum
from datetime import date
from typing import Annotated, Literal

import pytest
from calling import Mode, Place, call, properties, refusal, required, schema
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from cyclops_nb.errors import InputError
from cyclops_nb.tools import tool


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Options(TypedDict, total=False):
    depth: int
    place: Place


class Node(BaseModel):
    name: str
    children: list["Node"] = []


class TestOptional:
    def test_without_a_default_is_required_and_nullable(self):
        """A parameter that may be None and has no default must be given, and null is allowed."""

        def f(a: int | None, b: int | None, c: int | str | None):
            return a, b, c

        assert required(f) == ["a", "b", "c"]
        for name in ("a", "b"):
            assert {"type": "null"} in properties(f)[name]["anyOf"]
        assert call(f, {"a": None, "b": 2, "c": "x"}) == (None, 2, "x")

    def test_with_a_default_is_not_required(self):
        """A parameter with a default may be left out, and the schema shows the default."""

        def f(a: int = 3, b: str | None = None, c: bool = False):
            return a, b, c

        assert required(f) == []
        assert properties(f)["a"]["default"] == 3
        assert properties(f)["c"]["default"] is False
        assert call(f) == (3, None, False)


class TestChoices:
    def test_literal_is_an_enum(self):
        """A Literal becomes an enum of its values."""

        def f(mode: Literal["a", "b"]):
            return mode

        assert properties(f)["mode"]["enum"] == ["a", "b"]
        assert call(f, {"mode": "b"}) == "b"
        assert "mode" in refusal(f, {"mode": "c"})

    def test_enum_members_arrive_as_members(self):
        """An Enum becomes an enum of its values, and the function gets the member."""

        def f(mode: Mode, level: Level = Level.LOW):
            return mode, level

        assert schema(f)["$defs"]["Mode"]["enum"] == ["fast", "slow"]
        assert call(f, {"mode": "slow", "level": 2}) == (Mode.SLOW, Level.HIGH)
        assert call(f, {"mode": "fast"})[1] is Level.LOW
        assert "mode" in refusal(f, {"mode": "SLOW"})

    def test_unions_allow_each_kind(self):
        """A union of kinds is described as such and not as text."""

        def f(value: int | str):
            return value

        assert [kind["type"] for kind in properties(f)["value"]["anyOf"]] == ["integer", "string"]
        assert (call(f, {"value": 3}), call(f, {"value": "3"})) == (3, "3")


class TestNestedTypes:
    def test_models_arrive_as_models(self):
        """Models, dataclasses and lists of them are described in $defs and arrive as objects."""

        def f(places: list[Place], point: Point):
            return places, point

        assert {"Place", "Point"} <= set(schema(f)["$defs"])
        places, point = call(f, {"places": [{"city": "Paris"}], "point": {"x": 1}})
        assert places == [Place(city="Paris")]
        assert point == Point(1.0)

    def test_typed_dicts_and_containers(self):
        """TypedDicts, dicts, tuples and dates are described and arrive as such."""

        def f(options: Options, counts: dict[str, int], pair: tuple[int, str], when: date):
            return options, counts, pair, when

        values = {"options": {"depth": 2}, "counts": {"a": 1}, "pair": [1, "b"], "when": "2025-03-01"}
        assert call(f, values) == ({"depth": 2}, {"a": 1}, (1, "b"), date(2025, 3, 1))
        assert properties(f)["when"]["format"] == "date"

    def test_models_may_contain_themselves(self):
        """A recursive model is described once."""

        def f(tree: Node):
            return tree

        assert call(f, {"tree": {"name": "a", "children": [{"name": "b"}]}}).children[0].name == "b"

    def test_descriptions_and_limits_are_kept(self):
        """What Field and Annotated say is in the schema and holds."""

        def f(n: Annotated[int, Field(ge=1, le=5, description="How many.")]):
            return n

        assert properties(f)["n"] == {"type": "integer", "minimum": 1, "maximum": 5, "description": "How many."}
        assert "n" in refusal(f, {"n": 9})

    def test_made_up_titles_are_left_out_and_real_ones_kept(self):
        """Titles that only repeat names are left out; a field named title and data with that key stay."""

        def f(place: Place, title: str = "x"):
            return place, title

        described = schema(f)
        assert "title" not in described
        assert described["properties"]["title"] == {"default": "x", "type": "string"}
        place = described["$defs"]["Place"]["properties"]
        assert place["title"] == {"default": "none", "type": "string"}
        assert place["tags"]["default"] == {"title": "kept"}
        assert place["city"]["description"] == "Its name."


class TestDescription:
    def test_comes_from_the_docstring(self):
        """The text before the parameters is the tool's description."""

        @tool
        def f(a: int) -> int:
            """Add one.

            Slowly.
            """
            return a

        assert f.description.split() == ["Add", "one.", "Slowly."]

    @pytest.mark.parametrize(
        "text",
        [
            "Do.\n\nParameters\n----------\na : int\n    The first.\nb : int, optional\n    The second.\n\nReturns\n-------\nint",
            "Do.\n\nArgs:\n    a (int): The first.\n    b: The second.\n\nReturns:\n    A number.",
            "Do.\n\n:param a: The first.\n:param b: The second.\n:return: A number.",
        ],
        ids=["numpy", "google", "rest"],
    )
    def test_of_parameters_in_any_style(self, text):
        """Parameter texts of the usual docstring styles go to their parameters and not into the description."""

        def f(a: int, b: int = 2):
            return a + b

        f.__doc__ = text
        assert tool(f).description == "Do."
        assert [item["description"] for item in properties(f).values()] == ["The first.", "The second."]

    def test_may_be_given(self):
        """Name and description can be given instead."""

        @tool(name="other", description="Something else.")
        def f() -> None:
            """Do."""

        assert (f.name, f.description) == ("other", "Something else.")

    def test_may_be_missing(self):
        """A function without a docstring has an empty description."""

        def f():
            return 1

        assert tool(f).description == ""

    def test_schema_has_name_description_and_parameters(self):
        """What a session keeps of a tool is these three."""

        @tool
        def f(a: int) -> int:
            """Do."""
            return a

        assert f.schema() == {"name": "f", "description": "Do.", "parameters": f.parameters}


class TestFieldDefaults:
    """Parameters described by pydantic's Field in place of a default."""

    def test_give_default_text_and_bounds(self):
        """Default, description and bounds of a Field hold, and the function gets the plain value."""

        @tool
        def f(a: int = Field(3, description="How many.", ge=1), b: int = Field(description="How far.")) -> int:
            return a * b

        assert f.parameters["required"] == ["b"]
        assert properties(f)["a"] == {"default": 3, "description": "How many.", "minimum": 1, "type": "integer"}
        assert f.bind('{"b": 2}', None)() == 6
        with pytest.raises(InputError, match="a: "):
            f.bind('{"a": 0, "b": 2}', None)
