"""Tools: the schema that a signature gives, and what arrives in the function."""

import asyncio
import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pandas as pd
import pytest
from calling import CONTEXT, Mode, Place, call, properties, refusal, required, schema

from cyclops_nb.errors import ConfigError, InputError
from cyclops_nb.tools import RunContext, Tool, as_tools, tool

if TYPE_CHECKING:
    import a_package_that_only_type_checkers_know


class TestParameters:
    def test_every_kind_of_parameter(self):
        """Positional-only, usual and keyword-only parameters all arrive where they belong."""

        def f(a: int, b: int = 2, /, c: int = 3, *, d: int, e: int = 5):
            return a, b, c, d, e

        assert required(f) == ["a", "d"]
        assert call(f, {"a": 1, "d": 4}) == (1, 2, 3, 4, 5)
        assert call(f, {"a": 1, "b": 9, "c": 8, "d": 7, "e": 6}) == (1, 9, 8, 7, 6)

    @pytest.mark.parametrize("function", [lambda *args: args, lambda **kwargs: kwargs], ids=["args", "kwargs"])
    def test_open_ended_ones_are_refused(self, function):
        """*args and **kwargs cannot be described, and the error says which and what to do."""
        with pytest.raises(ConfigError, match=r"'f'.*'\*+\w+'.*name each parameter"):
            tool(name="f")(function)

    def test_no_parameters(self):
        """A function without parameters takes an empty object."""

        def f():
            return "done"

        assert (schema(f)["type"], properties(f)) == ("object", {})
        assert call(f) == "done"

    def test_without_annotation_anything_goes(self):
        """A parameter without an annotation takes any JSON as it is."""

        def f(a, b=None):
            return a, b

        assert properties(f)["a"] == {}
        assert call(f, {"a": [1, {"x": None}]}) == ([1, {"x": None}], None)

    def test_names_that_pydantic_reserves(self):
        """Parameters may have any name that Python allows."""

        def f(*, schema: int, copy: int, json: int, model_config: int, _hidden: int, p0: int, self: int):
            return locals()

        values = {name: number for number, name in enumerate(properties(f))}
        assert set(values) == {"schema", "copy", "json", "model_config", "_hidden", "p0", "self"}
        assert call(f, values) == values

    @pytest.mark.parametrize(
        "default", [np.arange(3), pd.DataFrame({"a": [1, 2]}), np.float64(0.5), np.int64(3), [], {}, {1}, object()]
    )
    def test_odd_defaults_are_passed_on(self, default):
        """Defaults that JSON cannot hold, or whose comparison is no yes or no, arrive as they are."""

        def f(a=default):
            return a

        assert required(f) == []
        assert call(f) is default
        json.dumps(schema(f), allow_nan=False)

    def test_a_default_that_is_not_a_number(self):
        """Not-a-number as a default leaves the schema valid JSON."""

        def f(a: float = float("nan")):
            return a

        json.dumps(schema(f), allow_nan=False)
        assert call(f) != call(f)

    def test_annotations_may_be_text(self):
        """Annotations given as text are resolved."""

        def f(a: "int", b: "list[Place]", c: "Mode | None" = None):
            return a, b, c

        assert call(f, {"a": 1, "b": [{"city": "x"}], "c": "fast"}) == (1, [Place(city="x")], Mode.FAST)

    @pytest.mark.parametrize("annotation", ["Unheard", "not python (", "pd.Unheard"])
    def test_annotations_that_cannot_be_resolved_are_refused(self, annotation):
        """An annotation that names nothing is an error that says so when the tool is made."""

        def f(a):
            return a

        f.__annotations__["a"] = annotation
        with pytest.raises(ConfigError, match=r"'f': an annotation cannot be resolved"):
            tool(f)

    def test_what_it_returns_is_nobodys_business(self):
        """A return annotation that only type checkers can resolve does no harm."""

        def f(a: int) -> "a_package_that_only_type_checkers_know.Thing":
            return a

        assert call(f, {"a": 1}) == 1

    @pytest.mark.parametrize("kind", [pd.DataFrame, np.ndarray, Callable[[int], int]])
    def test_types_that_json_does_not_know_are_refused(self, kind):
        """A parameter that no JSON can become is an error when the tool is made."""

        def f(a):
            return a

        f.__annotations__["a"] = kind
        with pytest.raises(ConfigError, match="'f': its parameters cannot be described"):
            tool(f)


class TestCallables:
    class Counter:
        """Not the text of the tool."""

        def __init__(self):
            self.start = 10

        def __call__(self, step: int) -> int:
            """Count on."""
            return self.start + step

        def method(self, step: int) -> int:
            """Count by a method."""
            return self.start + step

        @classmethod
        def made(cls, step: int) -> int:
            return step

        @staticmethod
        def static(step: int) -> int:
            return step

    def test_methods_have_no_self(self):
        """Bound, class and static methods are tools of their own parameters."""
        for function in (self.Counter().method, self.Counter.made, self.Counter.static):
            assert list(properties(function)) == ["step"]
        assert call(self.Counter().method, {"step": 1}) == 11

    def test_objects_that_can_be_called(self):
        """An object with __call__ is named after its class and described by that method."""
        made = tool(self.Counter())
        assert (made.name, made.description, list(made.parameters["properties"])) == ("Counter", "Count on.", ["step"])
        assert call(self.Counter(), {"step": 1}) == 11

    def test_partials_leave_out_what_is_given(self):
        """A partial asks only for what it does not have, under the function's name and text."""

        def add(a: int, b: int, *, c: int = 0) -> int:
            """Add."""
            return a + b + c

        made = tool(functools.partial(add, 1))
        assert (made.name, made.description, list(made.parameters["properties"])) == ("add", "Add.", ["b", "c"])
        assert made.bind('{"b": 2}', CONTEXT)() == 3
        assert call(functools.partial(add, 1, c=5), {"b": 2}) == 8

    def test_decorated_functions(self):
        """A function behind a decorator that wraps it properly is described as itself."""

        def loud(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return function(*args, **kwargs).upper()

            return wrapper

        @loud
        def greet(name: str) -> str:
            """Greet."""
            return f"hello {name}"

        assert list(properties(greet)) == ["name"]
        assert call(greet, {"name": "bob"}) == "HELLO BOB"

    def test_async_functions_are_known(self):
        """Async functions, methods, partials and objects are known as such."""

        class Async:
            async def __call__(self):
                return 1

            async def method(self):
                return 1

        async def f():
            return 1

        for function in (f, functools.partial(f), Async(), Async().method):
            made = tool(name="f")(function)
            assert made.is_async
            assert asyncio.run(made.bind("{}", CONTEXT)()) == 1
        assert not tool(name="f")(lambda: 1).is_async

    def test_a_builtin_without_a_signature_is_refused(self):
        """A function that does not say what it takes is an error that tells what to do."""
        with pytest.raises(ConfigError, match=r"'max'.*wrap it"):
            tool(max)

    def test_a_tool_can_still_be_called(self):
        """The decorated name calls the function as before."""

        @tool
        def add(a: int, b: int = 1) -> int:
            return a + b

        assert (add(1), add(1, b=5)) == (2, 6)


class TestContext:
    @pytest.mark.parametrize("hint", [RunContext, RunContext | None, Annotated[RunContext, "the run"], "RunContext"])
    def test_is_injected_and_never_described(self, hint):
        """A parameter that asks for the run's context gets it, and the model sees nothing of it."""

        def f(note, context=None):
            return note, context

        f.__annotations__.update(note=str, context=hint)
        assert list(properties(f)) == ["note"]
        assert "$defs" not in schema(f)
        assert call(f, {"note": "x"}) == ("x", CONTEXT)

    def test_may_stand_anywhere(self):
        """The context may be the first parameter, positional-only or keyword-only."""

        def f(context: RunContext, /, a: int, *, again: RunContext):
            return context, a, again

        assert call(f, {"a": 1}) == (CONTEXT, 1, CONTEXT)

    def test_cannot_be_given_by_the_model(self):
        """A model that invents the parameter is refused."""

        def f(context: RunContext):
            return context

        assert "context" in refusal(f, {"context": {}})


class TestArguments:
    @staticmethod
    def f(n: int, mode: Literal["a", "b"] = "a", place: Place | None = None):
        return n, mode, place

    @pytest.mark.parametrize(
        ("arguments", "named"),
        [
            ({}, "n:"),
            ({"n": "many"}, "n:"),
            ({"n": None}, "n:"),
            ({"n": 1, "extra": 2}, "extra:"),
            ({"n": 1, "mode": "c"}, "mode:"),
            ({"n": 1, "place": {}}, "city"),
            ({"n": 1, "p0": 2}, "p0:"),
        ],
    )
    def test_that_do_not_fit_are_named(self, arguments, named):
        """Missing, wrong, null and unknown arguments are refused with the parameter's name, for the model to read."""
        text = refusal(self.f, arguments)
        assert named in text
        assert "do not fit" in text

    @pytest.mark.parametrize("text", ['{"n": 1', "", "{n: 1}", '{"a": listt"}', "[" * 100_000])
    def test_that_are_no_json_are_refused(self, text):
        """Text that is no JSON is refused with what is wrong in it."""
        assert "not valid JSON" in refusal(self.f, text)

    @pytest.mark.parametrize("text", ["[1]", '"a"', "3", "null"])
    def test_that_are_no_object_are_refused(self, text):
        """JSON that is no object is refused."""
        assert "must be a JSON object" in refusal(self.f, text)

    def test_all_problems_are_told_at_once(self):
        """A model is told everything that is wrong, so that it can mend it in one go."""
        text = refusal(self.f, {"mode": "c", "extra": 1})
        assert all(name in text for name in ("n:", "mode:", "extra:"))


class TestTool:
    SCHEMA = {
        "type": "object",
        "properties": {"x": {"type": "integer"}},
        "required": ["x"],
        "additionalProperties": False,
    }

    def test_takes_a_json_schema(self):
        """A tool can be described by a JSON schema, which is checked; the function gets the arguments by keyword."""
        made = Tool("double", "Double it.", self.SCHEMA, lambda x: 2 * x)
        assert made.bind('{"x": 4}', CONTEXT)() == 8
        for arguments in ('{"x": "4"}', "{}", '{"x": 1, "y": 2}', "[4]", "{"):
            with pytest.raises(InputError):
                made.bind(arguments, CONTEXT)

    def test_names_the_place_that_does_not_fit(self):
        """The refusal says where in the arguments the problem is."""
        made = Tool("double", "Double it.", self.SCHEMA, lambda x: 2 * x)
        with pytest.raises(InputError, match=r"\$\.x"):
            made.bind('{"x": "4"}', CONTEXT)

    def test_does_not_hold_on_to_the_schema(self):
        """Changing the schema that a tool was made of does not change the tool."""
        given = {"type": "object", "properties": {}}
        made = Tool("f", "d", given, lambda: None)
        given["properties"]["x"] = {}
        assert made.parameters == {"type": "object", "properties": {}}

    @pytest.mark.parametrize("name", ["", "a b", "a.b", "ä", "a" * 65, "a\n"])
    def test_name_must_be_one_that_models_accept(self, name):
        """A name that providers refuse is refused when the tool is made."""
        with pytest.raises(ConfigError, match="tool name"):
            Tool(name, "d", {}, lambda: None)

    def test_a_lambda_needs_a_name(self):
        """A lambda has no name that a model could use, and the error says how to give one."""
        with pytest.raises(ConfigError, match=r"tool\(name="):
            tool(lambda: 1)

    def test_thread_must_be_known(self):
        """A thread that does not exist is refused."""
        with pytest.raises(ConfigError, match="'worker' or 'caller'"):
            Tool("f", "d", {}, lambda: None, thread="main")

    def test_must_be_callable(self):
        """Something that cannot be called is no tool."""
        with pytest.raises(ConfigError, match="cannot be called"):
            Tool("f", "d", {}, 3)

    def test_keeps_thread_and_timeout(self):
        """Where and how long a call runs is kept."""

        @tool(thread="caller", timeout=2.5)
        def f():
            return 1

        assert (f.thread, f.timeout) == ("caller", 2.5)


class TestAsTools:
    def test_makes_tools_of_functions(self):
        """Functions become tools, tools stay what they are."""

        def f():
            return 1

        made = tool(name="g")(f)
        assert [item.name for item in as_tools([f, made])] == ["f", "g"]
        assert as_tools([made])[0] is made

    def test_refuses_two_of_one_name(self):
        """Two tools of one name are an error that names it."""

        def f(a: Any):
            return a

        with pytest.raises(ConfigError, match="two tools are named 'f'"):
            as_tools([f, f])
