"""The type that an answer is to have: how it is asked for, and what counts as an answer."""

import dataclasses
import datetime as dt
import enum
import functools
import json
import types
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypeVar
from uuid import UUID, uuid4

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, create_model
from strategies import moderate
from typing_extensions import TypedDict

from cyclops_nb import Usage
from cyclops_nb.engine.output import OutputType
from cyclops_nb.errors import ConfigError
from cyclops_nb.models.strictness import is_strict, strict_form
from cyclops_nb.testing.strict import chat_refusal


class City(BaseModel):
    name: str


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


class Options(TypedDict):
    depth: int


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Point(NamedTuple):
    x: int
    y: int = 0


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


@dataclasses.dataclass
class Box:
    width: int


class Plain:
    pass


class Describes:
    """Something whose class describes itself to pydantic."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        return handler(int)


NOWHERE = "Nowhere"


def field(kind, **facts):
    """Return what is sent for the field of a model that has that one field."""
    model = create_model("M", value=(kind, Field(**facts)))
    return OutputType(model).schema["properties"]["value"]


class TestSchema:
    @pytest.mark.parametrize(
        "kind", [int, list[City], dict, dict[str, int], dict[str, City], City | None, Tree, Any], ids=str
    )
    def test_what_is_no_object_with_fields_is_wrapped(self, kind):
        """Servers take objects with named fields only, so any other type is asked for as the one field of such."""
        schema = OutputType(kind).schema
        assert (schema["type"], list(schema["properties"])) == ("object", ["answer"])
        assert schema["required"] == ["answer"]

    @pytest.mark.parametrize(("kind", "field"), [(City, "name"), (Options, "depth"), (Box, "width"), (Point, "x")])
    def test_an_object_with_fields_is_asked_for_as_it_is(self, kind, field):
        """A model, dataclass, TypedDict or NamedTuple needs no wrapping."""
        assert next(iter(OutputType(kind).schema["properties"])) == field

    @pytest.mark.parametrize(
        "kind",
        [
            {"type": "object"},
            {"type": "int"},
            "int",
            5,
            [int],
            (int, str),
            City(name="a"),
            Box(1),
            Point(1),
            Colour.RED,
            Usage(),
            Describes(),
            lambda a: a,
            print,
            City.model_validate,
            functools.partial(City, name="a"),
            object(),
            dt.datetime(2026, 1, 1),
            TypeAdapter(int),
            TypeVar("T"),
            json,
            ...,
        ],
        ids=lambda kind: repr(kind).partition(" at 0x")[0][:40],
    )
    def test_what_is_no_type_is_refused(self, kind):
        """A JSON schema, a name, a value, a function or a module is no type, and the error says what would be one."""
        with pytest.raises(ConfigError, match=r"response_model must be a type, not an instance of .*list\[str\]"):
            OutputType(kind)

    @pytest.mark.parametrize(
        "kind", [Plain, Callable, Callable[[int], str], list[Plain], list[NOWHERE], type, types.ModuleType], ids=repr
    )
    def test_a_type_that_cannot_be_described_is_refused(self, kind):
        """The error names the type and the reason, and no setting of pydantic's that would not help."""
        with pytest.raises(ConfigError, match="cannot be described by a JSON schema: ") as caught:
            OutputType(kind)
        assert "arbitrary_types_allowed" not in str(caught.value)

    def test_what_json_cannot_give_is_not_offered(self):
        """Of a union the other choices are asked for."""
        model = create_model("M", __config__=ConfigDict(arbitrary_types_allowed=True), a=(Plain | int, ...))
        assert OutputType(model).schema["properties"]["a"] == {"type": "integer"}

    def test_a_type_whose_own_description_fails_is_refused(self):
        """Whatever a hook of the type raises is a ConfigError."""

        class Broken(BaseModel):
            @classmethod
            def __get_pydantic_json_schema__(cls, core_schema, handler):
                raise LookupError("no schema today")

        with pytest.raises(ConfigError, match="no schema today"):
            OutputType(list[Broken])

    def test_an_extra_schema_that_is_none_is_refused(self):
        """What a model adds to its schema must be JSON."""
        model = create_model("M", __config__=ConfigDict(json_schema_extra={"x": object()}), a=(int, ...))
        with pytest.raises(ConfigError, match="object"):
            OutputType(model)

    def test_defaults_that_are_no_json_are_not_shown(self):
        """A default that JSON cannot hold is left out without a warning, and infinity is none."""
        model = create_model("M", a=(Any, object()), b=(float, float("inf")), c=(int, 1))
        with warnings.catch_warnings(action="error"):
            schema = OutputType(model).schema
        json.dumps(schema, allow_nan=False)
        assert list(schema["properties"]) == ["a", "b", "c"]

    def test_names_of_fields_are_not_repeated_as_titles(self):
        """Titles that pydantic makes of names are left out; those of the user stay."""
        assert field(int) == {"type": "integer"}
        assert field(int, title="How many") == {"type": "integer", "title": "How many"}

    def test_a_field_goes_by_its_alias(self):
        """The name that a model is asked for is the one that pydantic reads."""
        model = create_model("M", snake=(int, Field(alias="camelCase")))
        output = OutputType(model)
        assert list(output.schema["properties"]) == ["camelCase"]
        assert output.judge('{"camelCase": 1}').output.snake == 1

    def test_a_named_tuple_is_an_object_with_names(self):
        """Also within another type; an array is taken as well."""
        output = OutputType(list[Point])
        assert set(output.schema["$defs"]["Point"]["properties"]) == {"x", "y"}
        assert output.judge('{"answer": [{"x": 1, "y": 2}, [3, 4]]}').output == [Point(1, 2), Point(3, 4)]


STRICT = [
    City, Tree, Options, Box, Point, Colour, int, float, str, bool, int | None, list[City],
    Literal["a", "b"], Literal[1, "a"], dt.datetime, dt.timedelta, UUID, Decimal, bytes, set[int], tuple[int, int],
    City | None, City | list[Box], Annotated[Cat | Dog, Field(discriminator="kind")], create_model("M"),
]  # fmt: skip
LOOSE = [
    dict[str, int], dict, list, Any, list[Any], tuple[int, str], create_model("M", a=(dict[str, int], ...)),
    create_model("M", __config__=ConfigDict(extra="allow"), a=(int, ...)),
    TypedDict("T", {"a": int}, total=False), create_model("M", a=(int, None)), create_model("M", a=(City, None)),
    create_model("M", a=(UUID, Field(default_factory=uuid4))),
]  # fmt: skip


def schema_id(kind):
    return str(kind).rpartition(".")[2].strip("'>")


def refusal_of(schema, *, strict=True):
    """Return what OpenAI has against a schema, as the scripted server knows it."""
    wanted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": strict}}
    return chat_refusal({"model": "m", "messages": [{"role": "user", "content": "x"}], "response_format": wanted})


class TestStrictSchemas:
    """Which types have a schema that servers can hold an answer to."""

    @pytest.mark.parametrize("kind", STRICT, ids=schema_id)
    def test_a_closed_type_is_strict(self, kind):
        """Types whose values all have named fields, items of one kind and no optional keys lose nothing by it."""
        schema = OutputType(kind).schema
        assert is_strict(schema)
        assert refusal_of(schema) is None

    @pytest.mark.parametrize("kind", LOOSE, ids=schema_id)
    def test_an_open_type_is_not(self, kind):
        """Free keys, any value, keys that may be missing, and defaults that a model cannot give stay as they are."""
        schema = OutputType(kind).schema
        assert not is_strict(schema)
        assert refusal_of(schema, strict=False) is None

    @pytest.mark.parametrize(
        ("kind", "text", "value"),
        [
            (create_model("M", a=(int, None)), "{}", {"a": None}),
            (TypedDict("T", {"a": int}, total=False), "{}", {}),
            (create_model("M", __config__=ConfigDict(extra="allow"), a=(int, 1)), '{"b": 2}', {"a": 1, "b": 2}),
        ],
    )
    def test_what_may_be_missing_may_still_be_missing(self, kind, text, value):
        """Such an answer fits the schema that is sent, and the type."""
        output = OutputType(kind)
        jsonschema.validate(json.loads(text), output.schema)
        assert TypeAdapter(kind).dump_python(output.judge(text).output) == value

    def test_a_field_with_a_default_must_be_given(self):
        """What the default is stands in the description, beside what the user says there."""
        model = create_model(
            "M", depth=(int, Field(3, description="How deep.")), tags=(list[str], Field(default_factory=list))
        )
        schema = OutputType(model).schema
        assert schema["required"] == ["depth", "tags"]
        assert schema["properties"] == {
            "depth": {"type": "integer", "description": "How deep. (default: 3)"},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "default: []"},
        }

    def test_none_as_a_default_is_not_spoken_of(self):
        """A field that may be null says so in its type."""
        assert field(int | None, default=None) == {"anyOf": [{"type": "integer"}, {"type": "null"}]}

    def test_an_answer_need_not_give_defaults(self):
        """What is checked is the type: a server that enforces nothing may leave out what has a default."""
        assert OutputType(Tree).judge('{"name": "a"}').output == Tree(name="a")

    @pytest.mark.parametrize(
        ("kind", "facts", "sent"),
        [
            (str, {"min_length": 1, "max_length": 9}, {"type": "string", "minLength": 1, "maxLength": 9}),
            (int, {"ge": 0, "lt": 9}, {"type": "integer", "minimum": 0, "exclusiveMaximum": 9}),
            (list[int], {"max_length": 3}, {"type": "array", "items": {"type": "integer"}, "maxItems": 3}),
            (str, {"pattern": "^a+$"}, {"type": "string", "pattern": "^a+$"}),
            (dt.date, {}, {"type": "string", "format": "date"}),
            (bytes, {}, {"type": "string", "description": 'format: "binary"'}),
            (int, {"examples": [1]}, {"type": "integer", "description": "examples: [1]"}),
            (set[int], {}, {"type": "array", "items": {"type": "integer"}, "description": "uniqueItems: true"}),
            (int, {"deprecated": True}, {"type": "integer"}),
            (City, {"description": "Where."}, {"anyOf": [{"$ref": "#/$defs/City"}], "description": "Where."}),
            (Literal[1, "a"], {}, {"enum": [1, "a"], "type": ["string", "integer"]}),
            (Annotated[Cat | Dog, Field(discriminator="kind")], {}, {"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]}),
            (tuple[int, int], {}, {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}),
        ],
    )  # fmt: skip
    def test_keywords(self, kind, facts, sent):
        """What servers can enforce is kept, what they refuse moves into the description."""
        assert field(kind, **facts) == sent

    def test_a_pattern_that_looks_around(self):
        """Servers refuse such a pattern, so it is described."""
        model = create_model("M", __config__=ConfigDict(regex_engine="python-re"), a=(str, Field(pattern="^(?=a)")))
        assert OutputType(model).schema["properties"]["a"] == {"type": "string", "description": 'pattern: "^(?=a)"'}


CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


def with_field(schema):
    return CLOSED | {"properties": {"a": schema}}


def nested(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = with_field(schema)
    return schema


class TestIsStrict:
    @pytest.mark.parametrize(
        "schema",
        [
            CLOSED,
            CLOSED | {"$defs": {"B": CLOSED}, "properties": {"a": {"$ref": "#/$defs/B"}}},
            with_field({"type": ["string", "null"]}),
            with_field({"anyOf": [CLOSED, {"type": "null"}]}),
            with_field({"type": "array", "items": CLOSED}),
            with_field({"type": "string", "enum": ["x" * 60] * 250}),
            CLOSED | {"properties": {"default": {"type": "string"}}, "required": ["default"]},
            nested(10),
        ],
    )
    def test_schemas_that_keep_all_rules(self, schema):
        """They may be sent as strict, and the scripted server agrees."""
        assert is_strict(schema)
        assert refusal_of(schema) is None

    @pytest.mark.parametrize(
        "schema",
        [
            {},
            {"type": "string"},
            {"anyOf": [CLOSED]},
            CLOSED | {"anyOf": [CLOSED]},
            CLOSED | {"additionalProperties": True},
            CLOSED | {"required": []},
            CLOSED | {"required": ["a", "b"]},
            {key: value for key, value in CLOSED.items() if key != "additionalProperties"},
            {key: value for key, value in CLOSED.items() if key != "required"},
            {key: value for key, value in CLOSED.items() if key != "properties"},
            CLOSED | {"$defs": {"B": {"type": "object"}}},
            with_field({}),
            with_field(True),
            with_field({"description": "anything"}),
            with_field({"type": "array"}),
            with_field({"type": "array", "items": {}}),
            with_field({"type": ["object", "null"]}),
            with_field({"type": "string", "default": "a"}),
            with_field({"type": "string", "format": "uri"}),
            with_field({"type": "string", "pattern": "(?<!a)b"}),
            with_field({"oneOf": [{"type": "string"}]}),
            with_field({"allOf": [{"type": "string"}]}),
            with_field({"$ref": "#/$defs/B", "description": "x"}),
            with_field({"anyOf": [{"type": "object"}]}),
            with_field({"type": "string", "enum": ["x" * 61] * 251}),
            with_field({"type": "integer", "enum": list(range(1001))}),
            with_field({"type": "string", "const": "x" * 120_000}),
            nested(11),
            CLOSED | {"properties": {"a" * n: {"type": "null"} for n in range(5001)}, "required": ["a" * n for n in range(5001)]},
        ],
        ids=lambda schema: str(schema)[:60],
    )  # fmt: skip
    def test_schemas_that_break_a_rule(self, schema):
        """One open object, unnamed type, unknown keyword or limit is enough."""
        assert not is_strict(schema)

    @pytest.mark.parametrize(
        "wrong", [{"type": 5}, {"properties": []}, {"required": "a"}, {"anyOf": {}}, {"pattern": 1}, {"format": []}, {"enum": 1}]
    )  # fmt: skip
    def test_what_is_no_schema_is_not_strict(self, wrong):
        """Middleware may send what it likes; the server is to say what is wrong with it."""
        assert not is_strict(CLOSED | wrong)
        assert not is_strict(with_field({"type": "string"} | wrong))


class TestStrictForm:
    def test_the_schema_itself_is_not_changed(self):
        """The same schema may be in use elsewhere."""
        schema = TypeAdapter(Tree).json_schema()
        before = json.dumps(schema)
        strict_form(schema)
        assert json.dumps(schema) == before

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "array", "prefixItems": [{"type": "integer"}], "minItems": 1},
            {"type": "object"},
            {"type": "object", "properties": {"a": {"type": "string"}}},
        ],
    )
    def test_what_is_open_stays_open(self, schema):
        """Items after those that are named, fields of any name, and fields that may be missing."""
        assert not is_strict(strict_form(with_field(schema)))

    def test_a_tag_is_not_spoken_of_twice(self):
        """What a field has to be says its type, so its default is not described."""
        assert OutputType(Cat).schema["properties"]["kind"] == {"type": "string", "const": "cat"}

    @pytest.mark.parametrize("kind", [*STRICT, *LOOSE], ids=schema_id)
    def test_doing_it_twice_changes_nothing(self, kind):
        """A strict schema is its own strict form."""
        once = strict_form(OutputType(kind).schema)
        assert strict_form(once) == once


def plain(value):
    """Return a value as a model would write it: records by the names of their fields."""
    if isinstance(value, BaseModel):
        return {name: plain(item) for name, item in value}
    if dataclasses.is_dataclass(value) or hasattr(value, "_asdict"):
        return plain(dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value._asdict())
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    value = value.value if isinstance(value, enum.Enum) else value
    return str(value) if isinstance(value, dt.date | Decimal) else value


def valued(kind, values):
    return st.just((kind, values))


def made_of(inner):
    """Return types that hold values of other types, each with its values."""

    def record(fields):
        names = [f"f{n}" for n in range(len(fields))]
        kinds = dict(zip(names, (kind for kind, _ in fields), strict=True))
        values = dict(zip(names, (values for _, values in fields), strict=True))
        model = create_model("M", **{name: (kind, ...) for name, kind in kinds.items()})
        typed = TypedDict("T", kinds)
        data = dataclasses.make_dataclass("D", kinds.items())
        named = NamedTuple("N", kinds.items())
        makers = [(model, model), (typed, dict), (data, data), (named, named)]
        return st.sampled_from(makers).map(lambda made: (made[0], st.builds(made[1], **values)))

    return st.one_of(
        inner.map(lambda one: (list[one[0]], st.lists(one[1], max_size=2))),
        inner.map(lambda one: (dict[str, one[0]], st.dictionaries(st.text(max_size=3), one[1], max_size=2))),
        inner.map(lambda one: (one[0] | None, st.none() | one[1])),
        st.tuples(inner, inner).map(lambda two: (tuple[two[0][0], two[1][0]], st.tuples(two[0][1], two[1][1]))),
        st.lists(inner, min_size=1, max_size=3).flatmap(record),
    )


simple = st.one_of(
    valued(int, st.integers(-(2**63), 2**63)),
    valued(float, st.floats(allow_nan=False, allow_infinity=False)),
    valued(str, st.text(max_size=5)),
    valued(bool, st.booleans()),
    valued(dt.date, st.dates()),
    valued(Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    valued(Colour, st.sampled_from(Colour)),
    valued(Literal[1, "a"], st.sampled_from([1, "a"])),
)
kinds_and_values = st.recursive(simple, made_of, max_leaves=5).flatmap(lambda one: st.tuples(st.just(one[0]), one[1]))


class TestAnyType:
    @moderate
    @given(kinds_and_values)
    def test_any_value_of_any_type_can_be_answered(self, case):
        """It fits the schema that is sent, OpenAI takes that schema, and it comes back as it was."""
        kind, value = case
        output = OutputType(kind)
        text = json.dumps(plain(value))
        wrapped = f'{{"answer": {text}}}' if list(output.schema["properties"]) == ["answer"] else text
        jsonschema.validate(json.loads(wrapped), output.schema)
        assert refusal_of(output.schema, strict=is_strict(output.schema)) is None
        for answer in (text, wrapped, f" ```json\n{wrapped}\n``` ", f"Here you are:\n{wrapped}\nIs it what you want?"):
            assert output.judge(answer) == (value, None)
            assert type(output.judge(answer).output) is type(value)


def judged(kind, text):
    return OutputType(kind).judge(text)


class TestJudge:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ('{"answer": {"a": 1}}', {"a": 1}),
            ('{"a": 1}', {"a": 1}),
            ('{"answer": 1}', {"answer": 1}),
            ('{"answer": 1, "b": 2}', {"answer": 1, "b": 2}),
            ('{"answer": {"answer": 1}}', {"answer": 1}),
            ("{}", {}),
            ('{\n\t"answer" : {}\n}\n', {}),
        ],
    )
    def test_a_dict_may_be_wrapped_or_bare(self, text, value):
        """A dict is taken from the field it was asked for in, or bare, whatever its keys are."""
        assert OutputType(dict[str, int]).judge(text).output == value

    def test_what_fits_neither_way_is_complained_of(self):
        """An answer that fits neither wrapped nor bare gets a complaint that says what was expected."""
        verdict = OutputType(dict[str, int]).judge('{"answer": "x"}')
        assert verdict.output is None
        assert "answer: Input should be" in verdict.complaint

    @pytest.mark.parametrize(
        "text",
        [
            '```json\n{"name": "Oslo"}\n```',
            '```\n{"name": "Oslo"}```',
            '```{"name": "Oslo"}```',
            'Sure! {"name": "Oslo"}',
            'Here you are:\n\n```json\n{"name": "Oslo"}\n```\n\nShall I say more?',
            'It is [as far as I know] {"name": "Oslo"} [see above].',
            '\ufeff{"name": "Oslo"}',
            '{"name": "Oslo"}\n\n(That is the capital.)',
        ],
    )
    def test_json_among_words_is_found(self, text):
        """The one JSON object in an answer is the answer."""
        assert judged(City, text).output == City(name="Oslo")

    @pytest.mark.parametrize(
        "text",
        [
            'Either {"name": "Oslo"} or {"name": "Bergen"}.',
            'A list [1] and {"name": "Oslo"}.',
            '{"cities": [{"name": "Oslo"}, {"name": "Ber',
            'Sure: {"best": {"name": "Oslo"}, "others": [',
            "{'name': 'Oslo', 'near': {\"name\": \"Bergen\"}}",
            '[None, {"name": "Oslo"}]',
            "Oslo",
            "",
            " \n",
            "{",
            "[" * 100_000,
            "[x]" * 1000,
            '{"name": "Os',
            "```json\n```",
        ],
        ids=lambda text: text[:30],
    )
    def test_what_is_not_clear_is_no_answer(self, text):
        """Several objects, and what stands inside a broken or cut one, are not guessed from."""
        verdict = judged(City, text)
        assert verdict.output is None
        assert verdict.complaint.startswith("The answer does not fit the required JSON schema: ")

    @pytest.mark.parametrize("text", ["null", "5", '"Oslo"', "[]", '{"name": null}', '{"title": "Oslo"}'])
    def test_json_of_another_kind_is_no_answer(self, text):
        """It is JSON, but not of the type."""
        assert judged(City, text).complaint

    def test_null_is_an_answer_where_none_is_allowed(self):
        """Both wrapped and bare."""
        assert judged(int | None, "null") == judged(int | None, '{"answer": null}') == (None, None)

    def test_a_complaint_names_the_field(self):
        """By the path that the model has written."""
        assert " name: Field required." in judged(City, "{}").complaint
        assert " answer.1.name: Field required." in judged(list[City], '{"answer": [{"name": "a"}, {}]}').complaint
        assert " 1.name: Field required." in judged(list[City], '[{"name": "a"}, {}]').complaint

    def test_a_complaint_shows_the_schema(self):
        """A server that ignores the schema has not shown it to the model."""
        output = OutputType(City)
        complaint = output.judge("Oslo").complaint
        assert json.loads(complaint[complaint.index("{") :]) == output.schema

    def test_a_complaint_has_an_end(self):
        """Of very many problems the first ones are told."""
        complaint = judged(list[int], json.dumps(["x"] * 1000)).complaint
        assert "and 990 more" in complaint
        assert len(complaint) < 2000

    def test_cut_and_empty_answers_are_called_so(self):
        """The model learns that it has said too much, or nothing."""
        assert "it ends too early" in judged(City, '{"name": "Os').complaint
        assert "it is empty" in judged(City, "").complaint

    @pytest.mark.parametrize(
        ("kind", "text", "value"),
        [
            (int, '"12"', 12),
            (float, '"1.5"', 1.5),
            (bool, '"true"', True),
            (int, "3.0", 3),
            (dt.date, '"2026-01-02"', dt.date(2026, 1, 2)),
            (Decimal, '"0.12345678901234567890123"', Decimal("0.12345678901234567890123")),
        ],
    )
    def test_numbers_may_be_written_as_text(self, kind, text, value):
        """As pydantic reads JSON: what says the same is taken, and no digit is lost."""
        assert judged(kind, text).output == value

    def test_a_strict_model_takes_no_text_for_a_number(self):
        """The type decides."""
        model = create_model("M", __config__=ConfigDict(strict=True), a=(int, ...))
        assert "a: Input should be a valid integer" in judged(model, '{"a": "12"}').complaint

    @pytest.mark.parametrize(
        "failure", [ValueError("too far"), KeyError("far"), ZeroDivisionError("far"), TypeError("far")]
    )
    def test_validators_of_the_users(self, failure):
        """What one of them raises is told, whatever it is; the answer does not fit then."""

        def check(value):
            raise failure

        assert "far" in judged(Annotated[int, AfterValidator(check)], "5").complaint

    def test_a_stumbling_validator_is_named(self):
        """Where an error comes from that a validator did not mean to raise is told."""

        def check_age(value):
            return 1 / value

        complaint = judged(Annotated[int, AfterValidator(check_age)], "0").complaint
        assert "ZeroDivisionError: division by zero (raised by check_age, line " in complaint

    def test_extra_fields(self):
        """They are dropped, unless the model forbids them."""
        forbidding = create_model("M", __config__=ConfigDict(extra="forbid"), name=(str, ...))
        assert judged(City, '{"name": "a", "x": 1}').output == City(name="a")
        assert "x: Extra inputs are not permitted" in judged(forbidding, '{"name": "a", "x": 1}').complaint


class TestError:
    @pytest.mark.parametrize(("tries", "words"), [(1, "asked once"), (2, "asked twice")])
    def test_it_says_what_was_wrong_and_how_often_it_was_asked(self, tries, words):
        """And not what the model was told to do."""
        output = OutputType(City)
        message = str(output.error(output.judge("{}").complaint, tries))
        assert message.startswith("The answer does not fit the required JSON schema: name: Field required. (")
        assert words in message
        assert "properties" not in message
