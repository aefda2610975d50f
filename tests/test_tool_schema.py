"""The schema that a signature or a user gives, the objects that arrive in the function, and what makes no tool."""

import dataclasses
import enum
from datetime import date
from typing import Annotated, Literal

import pytest
from calling import Mode, Place, call, properties, refusal, required, schema
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from cyclops_nb.errors import ConfigError, InputError
from cyclops_nb.tools import Tool, as_tools, tool


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


class TestDefaults:
    def test_enum_members_are_shown_by_their_value(self):
        """A default that is an enum member stands in the schema as its value, and arrives as the member."""

        def f(a: Mode = Mode.SLOW, b: Level = Level.HIGH, c: Mode | None = Mode.FAST, d=Mode.FAST):
            return a, b, c, d

        assert [properties(f)[name]["default"] for name in "abcd"] == ["slow", 2, "fast", "fast"]
        assert call(f) == (Mode.SLOW, Level.HIGH, Mode.FAST, Mode.FAST)

    def test_dates_are_shown(self):
        """A default that is a date stands in the schema as JSON writes it."""

        def f(since: date = date(2020, 1, 2)):
            return since

        assert properties(f)["since"]["default"] == "2020-01-02"
        assert call(f) == date(2020, 1, 2)

    def test_an_enum_member_without_a_json_value_is_passed_on(self):
        """A member whose value is no JSON is not shown, and arrives."""
        odd = enum.Enum("Odd", {"A": object()})

        def f(a=odd.A):
            return a

        assert properties(f)["a"] == {}
        assert call(f) is odd.A


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


def nothing():
    """Do nothing."""


class TestWhatIsNoTool:
    @pytest.mark.parametrize("thing", ["x", None, 5, [nothing]])
    def test_is_refused(self, thing):
        """What cannot be called makes no tool, however it is given, and the error says how tools are made."""
        for give in (tool, tool(name="a"), lambda thing: as_tools([thing])):
            with pytest.raises(ConfigError, match=rf"made of a function, not of a {type(thing).__name__}.*@tool"):
                give(thing)

    @pytest.mark.parametrize("tools", [5, "abc", b"abc", None, nothing, tool(nothing), {"a": nothing}])
    def test_tools_are_a_list(self, tools):
        """Anything but a list of functions is refused, showing how to write one."""
        with pytest.raises(ConfigError, match=r"list of functions, such as tools=\[f\], not a"):
            as_tools(tools)

    @pytest.mark.parametrize(
        ("option", "value"),
        [("timeout", value) for value in (-1, 0, "x", True, float("nan"), float("inf"))]
        + [("thread", "main"), ("thread", []), ("name", 5), ("name", "a b"), ("name", ""), ("description", 5)],
    )
    def test_wrong_options_are_refused(self, option, value):
        """An option with a value that makes no sense is refused by name, where it is written."""
        with pytest.raises(ConfigError, match=option):
            tool(**{option: value})

    def test_a_description_is_text(self):
        """A tool that is no Python function needs a description, which may be empty."""
        with pytest.raises(ConfigError, match="description"):
            Tool("a", None, {}, nothing)
        assert Tool("a", "", {}, nothing).description == ""


class TestGivenSchema:
    @pytest.mark.parametrize(
        "parameters",
        [None, 5, "abc", [], {"type": "nope"}, {"type": ["object"]}, {"type": "object", "properties": []}, {"a": {1}}],
    )
    def test_that_describes_no_object_is_refused(self, parameters):
        """Parameters that are no JSON schema of an object are refused, with an example of one."""
        with pytest.raises(ConfigError, match=r"'a': parameters must be a schema such as .*\"properties\""):
            Tool("a", "", parameters, nothing)

    @pytest.mark.parametrize("parameters", [{}, {"type": "object"}, {"properties": {}}])
    def test_always_has_type_and_properties(self, parameters):
        """Servers refuse an object without properties, so what is missing is added, and the given dict is left alone."""
        before = dict(parameters)
        assert Tool("a", "", parameters, nothing).parameters == {"type": "object", "properties": {}}
        assert parameters == before
