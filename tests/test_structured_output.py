"""Runs with `response_model`: what is sent, what is taken for an answer, and what is left when there is none."""

import asyncio
import dataclasses
import datetime as dt
import enum
import json
from collections.abc import Callable
from typing import Annotated, Generic, Literal, NamedTuple, NotRequired, TypeVar

import pydantic.dataclasses
import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator, model_validator
from scenarios import FORMS, RecordingStore, acall, begin, call, note, roles, shape
from typing_extensions import TypedDict

from cyclops_nb import (
    Agent,
    AgentResponse,
    ConfigError,
    InMemorySessionStore,
    MaxIterationsError,
    Middleware,
    OutputError,
    Redaction,
    Session,
    TextPart,
)
from cyclops_nb.testing import error, reasoning, reply, text, tool_call

T = TypeVar("T")
GOOD = '{"name": "Oslo", "people": 700000}'
MISFIT = '{"name": "Oslo", "people": "many"}'


class City(BaseModel):
    name: str
    people: int


OSLO = City(name="Oslo", people=700000)


class Person(BaseModel):
    """Someone."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="The full name.", min_length=1)
    born: dt.date | None = None
    home: City | None = Field(None, alias="homeTown")
    tags: list[str] = Field(default_factory=list)

    @field_validator("name")
    @classmethod
    def _not_shouted(cls, name):
        return name.title()


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


class Page(BaseModel, Generic[T]):
    items: list[T]
    more: bool = False


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    tricks: list[str]


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str


@dataclasses.dataclass
class Box:
    width: float
    colours: list[str] = dataclasses.field(default_factory=list)


@pydantic.dataclasses.dataclass
class Lid:
    box: Box
    thickness: int = 1


class Options(TypedDict):
    depth: int
    width: NotRequired[int]


class Settings(TypedDict, total=False):
    verbose: bool


class Flags(TypedDict):
    on: bool


class Point(NamedTuple):
    x: float
    y: float = 0


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]

# the type, an answer, what that is, and whether a server can be held to the schema
TYPES = {
    "model": (City, {"name": "Oslo", "people": 1}, City(name="Oslo", people=1), True),
    "model of models, with an alias, defaults, a validator, and no extras": (
        Person,
        {"name": "ada lovelace", "born": "1815-12-10", "homeTown": {"name": "London", "people": 1}, "tags": []},
        Person(name="Ada Lovelace", born=dt.date(1815, 12, 10), homeTown=City(name="London", people=1)),
        True,
    ),
    "model with extras": (Loose, {"name": "a", "b": 1}, Loose(name="a", b=1), False),
    "recursive model": (Tree, {"answer": {"name": "a", "children": [{"name": "b", "children": []}]}}, Tree(name="a", children=[Tree(name="b")]), True),
    "generic model": (Page[City], {"items": [{"name": "a", "people": 1}], "more": True}, Page[City](items=[City(name="a", people=1)], more=True), True),
    "dataclass": (Box, {"width": 1.5, "colours": ["red"]}, Box(1.5, ["red"]), True),
    "dataclass of pydantic": (Lid, {"box": {"width": 1, "colours": []}, "thickness": 2}, Lid(Box(1.0), 2), True),
    "typed dict": (Flags, {"on": True}, {"on": True}, True),
    "typed dict with a key that may be missing": (Options, {"depth": 1}, {"depth": 1}, False),
    "typed dict of keys that may be missing": (Settings, {}, {}, False),
    "named tuple": (Point, {"x": 1, "y": 2}, Point(1.0, 2.0), True),
    "list of models": (list[City], {"answer": [{"name": "Oslo", "people": 1}]}, [City(name="Oslo", people=1)], True),
    "dict": (dict[str, int], {"answer": {"a": 1}}, {"a": 1}, False),
    "dict of models": (dict[str, City], {"answer": {"a": {"name": "Oslo", "people": 1}}}, {"a": City(name="Oslo", people=1)}, False),
    "enum": (Colour, {"answer": "red"}, Colour.RED, True),
    "enum of numbers": (Size, {"answer": 2}, Size.LARGE, True),
    "literal": (Literal["yes", "no"], {"answer": "no"}, "no", True),
    "union of models": (Cat | Dog, {"answer": {"kind": "dog", "tricks": ["sit"]}}, Dog(tricks=["sit"]), True),
    "tagged union": (Pet, {"answer": {"kind": "cat", "lives": 9}}, Cat(lives=9), True),
    "optional": (City | None, {"answer": None}, None, True),
    "int": (int, {"answer": 0}, 0, True),
    "float": (float, {"answer": 1}, 1.0, True),
    "str": (str, {"answer": ""}, "", True),
    "bool": (bool, {"answer": False}, False, True),
    "date and time": (dt.datetime, {"answer": "2026-01-02T03:04:05Z"}, dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC), True),
    "pair of one type": (tuple[int, int], {"answer": [1, 2]}, (1, 2), True),
    "pair of two types": (tuple[int, str], {"answer": [1, "a"]}, (1, "a"), False),
    "set": (set[int], {"answer": [1, 2, 1]}, {1, 2}, True),
}  # fmt: skip


def sent_format(server, number=0):
    """Return the form that a request asked the answer to have."""
    return server.completions[number].body["response_format"]["json_schema"]


class TestTypes:
    @pytest.mark.parametrize("name", TYPES)
    def test_the_answer_is_of_the_type(self, ask, name):
        """The strict server takes the schema, the model is held to it where that is possible, and an object comes back."""
        kind, answer, value, strict = TYPES[name]
        agent = ask(text(json.dumps(answer)))
        output = agent.run("go", response_model=kind)
        assert output == value
        assert type(output) is type(value)
        sent = sent_format(agent.server)
        assert sent["schema"]["type"] == "object"
        assert sent.get("strict", False) is strict
        assert (sent["schema"].get("additionalProperties") is False) or not strict

    def test_aliases_may_be_several(self, ask):
        """The first one is asked for, each is taken."""

        class Named(BaseModel):
            name: str = Field(validation_alias=AliasChoices("title", "name"))

        agent = ask(text('{"title": "a"}'), text('{"name": "a"}'))
        assert [agent.run("go", response_model=Named).name for _ in range(2)] == ["a", "a"]
        assert list(sent_format(agent.server)["schema"]["properties"]) == ["title"]

    def test_middleware_may_ask_for_another_schema(self, ask):
        """Whether it is strict is seen from the schema that is sent."""

        class Opens(Middleware):
            async def wrap_model_call(self, request, call_next):
                return await call_next(
                    request.replace(response_schema={**request.response_schema, "additionalProperties": True})
                )

        agent = ask(text(GOOD), middleware=[Opens()])
        assert agent.run("go", response_model=City) == OSLO
        assert "strict" not in sent_format(agent.server)


class TestAnswers:
    @pytest.mark.parametrize(
        "answer",
        [
            GOOD,
            f"```json\n{GOOD}\n```",
            f"Of course!\n\n```json\n{GOOD}\n```\nAnything else?",
            f"The answer is {GOOD}.",
            '{"name": "Oslo", "people": "700000"}',
            '{"name": "Oslo", "people": 700000.0, "country": "Norway"}',
        ],
    )
    def test_servers_without_schemas(self, ask, answer):
        """JSON in a fence or among words, numbers as text and superfluous fields need no second try."""
        session = Session()
        assert ask(text(answer)).run("go", response_model=City, session=session) == OSLO
        assert roles(session) == [("user", "go"), ("assistant", answer)]

    @pytest.mark.parametrize(
        ("first", "complaint"),
        [
            (text("It is Oslo."), "Invalid JSON"),
            (text(MISFIT), "people: Input should be a valid integer"),
            (text('{"name": "Oslo"}'), "people: Field required"),
            (text('{"name": "Oslo", "peo', finish_reason="length"), "it ends too early"),
            (text(f"Either {GOOD} or {MISFIT}"), "Invalid JSON"),
            (text("null"), "Input should be an object"),
            (text(""), "it is empty"),
            (text(" \n"), "it is empty"),
            (reasoning("Hm."), "it is empty"),
            (reasoning("I cannot say that.", field="refusal"), "Invalid JSON"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_one_more_try(self, ask, first, complaint):
        """What is wrong is said to the model as a user message, with the schema, and the strict server takes it all."""
        agent = ask(first, text(GOOD), text("fine"))
        session = Session()
        response = agent.run_with_response("go", response_model=City, session=session)
        assert (response.output, response.content, response.error, response.steps) == (OSLO, GOOD, None, 2)
        assert shape(session) == "uaua"
        said = session.messages[2]
        assert complaint in said.text
        assert '"people"' in said.text
        assert said.run_id == response.id
        assert sent_format(agent.server, 1) == sent_format(agent.server, 0)
        assert agent.run("thanks", session=session) == "fine"
        assert "response_format" not in agent.server.completions[2].body

    def test_two_failures(self, ask):
        """The error has the last complaint; text and both tries stay, and the session goes on."""
        agent = ask(text("Oslo"), text('{"name": "Oslo"}', usage=(10, 2)), text("fine"))
        session = Session()
        response = agent.run_with_response("go", response_model=City, session=session)
        assert isinstance(response.error, OutputError)
        assert str(response.error).startswith(
            "The answer does not fit the required JSON schema: people: Field required."
        )
        assert (response.output, response.content, response.stop_reason) == (None, '{"name": "Oslo"}', "error")
        assert (response.steps, response.usage.requests) == (2, 2)
        assert shape(session) == "uaua"
        assert (session.runs[0].error.type, session.runs[0].error.message) == ("OutputError", str(response.error))
        assert agent.run("never mind", session=session) == "fine"

    def test_a_refusal_can_be_read(self, ask):
        """What the model said in place of an answer stands in the response."""
        agent = ask(*[reasoning("I cannot say that.", field="refusal")] * 2)
        assert agent.run_with_response("go", response_model=City).content == "I cannot say that."

    def test_a_server_that_fails_the_second_time(self, ask):
        """The error is the server's; the first try and the complaint stay, and the next run answers that."""
        agent = ask(text("Oslo"), error(500, "down"), text(GOOD))
        session = Session()
        with pytest.raises(Exception, match="down"):
            agent.run("go", response_model=City, session=session)
        assert shape(session) == "uau"
        assert agent.run(session=session, response_model=City) == OSLO

    def test_validators_see_the_whole(self, ask):
        """What a validator of the whole model says is told, and it may stumble as well."""

        class Range(BaseModel):
            low: int
            high: int

            @model_validator(mode="after")
            def _in_order(self):
                if self.low > self.high:
                    raise ValueError("low is above high")
                return {1: self}[self.low]

        agent = ask(text('{"low": 3, "high": 2}'), text('{"low": 2, "high": 3}'))
        session = Session()
        with pytest.raises(OutputError, match="KeyError: 2"):
            agent.run("go", response_model=Range, session=session)
        assert "low is above high" in session.messages[2].text
        assert shape(session) == "uaua"


class TestForms:
    @pytest.mark.parametrize("form", FORMS)
    def test_each_form_gives_the_answer(self, ask, form):
        """As an object where answers are given, as text elsewhere; the transcript is the same."""
        session = Session()
        given = call(ask(text("Oslo"), text(GOOD)), form, "go", response_model=City, session=session)
        texts = {"run": OSLO, "arun": OSLO, "stream": f"Oslo{GOOD}", "astream": f"Oslo{GOOD}"}
        assert given == texts.get(form, GOOD)
        assert shape(session) == "uaua"
        assert (session.runs[0].stop_reason, session.runs[0].steps) == ("completed", 2)

    @pytest.mark.parametrize("form", FORMS)
    def test_each_form_fails_alike(self, ask, form):
        """With the last complaint."""
        session = Session()
        with pytest.raises(OutputError, match="people: Field required"):
            call(ask(text("Oslo"), text('{"name": "a"}')), form, "go", response_model=City, session=session)
        assert shape(session) == "uaua"

    @pytest.mark.parametrize("form", ["run_with_response", "arun_with_response", "start"])
    def test_responses_have_the_object(self, ask, form):
        """Beside the text that it was made of."""
        given = begin(ask(text(GOOD)), form, "go", response_model=City)
        response = given if isinstance(given, AgentResponse) else given.result()
        assert (response.output, response.content) == (OSLO, GOOD)

    @pytest.mark.parametrize("form", ["stream", "astream"])
    def test_text_comes_once_it_is_final(self, ask, form):
        """Whole answers, one after the other, and none of the complaint."""
        agent = ask(text("not so", chunks=2), text(GOOD, chunks=5))

        async def pieces():
            return [piece async for piece in agent.astream("go", response_model=City)]

        given = list(agent.stream("go", response_model=City)) if form == "stream" else asyncio.run(pieces())
        assert given == ["not so", GOOD]

    def test_many_at_once(self, serve):
        """Runs side by side with other types keep them apart."""
        from scenarios import agent_for

        kinds = {"int": (int, "1", 1), "list": (list[int], "[1]", [1]), "city": (City, GOOD, OSLO)}
        agent = agent_for(serve(lambda request: text(kinds[request.messages[-1]["content"]][1]), strict=True))

        async def main():
            names = list(kinds) * 5
            given = await asyncio.gather(*(acall(agent, "arun", name, response_model=kinds[name][0]) for name in names))
            return given == [kinds[name][2] for name in names]

        assert asyncio.run(main())


class TestWithTools:
    def test_tools_first_then_the_answer(self, ask):
        """Each request of the run asks for both; a text beside calls is no answer."""
        agent = ask(reply(text("{"), tool_call("note", {"n": 1})), text(GOOD), tools=[note])
        session = Session()
        assert agent.run("go", response_model=City, session=session) == OSLO
        assert shape(session) == "uata"
        for request in agent.server.completions:
            assert {"tools", "response_format"} <= request.body.keys()

    def test_tools_after_a_complaint(self, ask):
        """The model may look things up before its second try, which is its last one."""
        agent = ask(text("Oslo"), tool_call("note", {"n": 1}), text("Oslo!"), tools=[note])
        session = Session()
        with pytest.raises(OutputError):
            agent.run("go", response_model=City, session=session)
        assert shape(session) == "uauata"

    @pytest.mark.parametrize(
        ("limit", "script", "left"),
        [
            (1, [text("Oslo")], "ua"),
            (2, [tool_call("note", {"n": 1}), text("Oslo")], "uata"),
            (2, [text("Oslo"), text("Oslo!")], "uaua"),
        ],
    )
    def test_no_steps_left_for_another_try(self, ask, limit, script, left):
        """An answer of the last step that does not fit fails the run, and nothing is asked in vain."""
        agent = ask(*script, text("fine"), tools=[note], max_iterations=limit)
        session = Session()
        with pytest.raises(OutputError):
            agent.run("go", response_model=City, session=session)
        assert shape(session) == left
        assert len(agent.server.completions) == limit
        assert agent.run("go on", session=session) == "fine"

    def test_the_last_step_may_answer(self, ask):
        """One step is enough for a good answer."""
        assert ask(text(GOOD), max_iterations=1).run("go", response_model=City) == OSLO

    def test_calls_to_the_end(self, ask):
        """A model that never answers is told of as without a response model."""
        agent = ask(*[tool_call("note", {"n": 1})] * 2, tools=[note], max_iterations=2)
        response = agent.run_with_response("go", response_model=City)
        assert isinstance(response.error, MaxIterationsError)
        assert response.output is None


class TestStores:
    @pytest.mark.parametrize("durability", ["async", "sync", "exit"])
    @pytest.mark.parametrize("answers", [[GOOD], ["Oslo", GOOD], ["Oslo", "Oslo!"]], ids=["good", "mended", "failed"])
    def test_all_tries_are_stored(self, ask, durability, answers):
        """What is stored is what the session has, whether the run found an answer or not."""
        store = RecordingStore()
        agent = ask(*map(text, answers), session_store=store, durability=durability)
        session = Session("s")
        agent.run_with_response("go", response_model=City, session=session)
        assert store.stored("s") == session
        assert len(store.calls) == (1 if durability == "exit" else len(answers))

    def test_the_next_run_needs_no_type(self, ask):
        """A stored session goes on in words, or with another type."""
        store = InMemorySessionStore()
        agent = ask(text("Oslo"), text(GOOD), text("In Norway."), text("[1]"), session_store=store)
        agent.run("go", response_model=City, session=Session("s"))
        session = asyncio.run(store.load("s"))
        assert agent.run("Where is that?", session=session) == "In Norway."
        assert agent.run("And a number?", session=session, response_model=list[int]) == [1]
        assert shape(session) == "uauauaua"


class TestMiddleware:
    def test_what_middleware_makes_of_an_answer_is_judged(self, ask):
        """`wrap_model_call` may mend an answer before it is looked at."""

        class Mends(Middleware):
            async def wrap_model_call(self, request, call_next):
                message = await call_next(request)
                return message.model_copy(update={"content": (TextPart(message.text.replace("'", '"')),)})

        session = Session()
        agent = ask(text(GOOD.replace('"', "'")), middleware=[Mends()])
        assert agent.run("go", response_model=City, session=session) == OSLO
        assert session.messages[-1].text == GOOD

    def test_a_filter_changes_what_is_kept_alone(self, ask):
        """The object is made of the answer as it came; complaints are filtered as well."""
        agent = ask(text(MISFIT), text(GOOD), middleware=[Redaction(secrets=["Oslo", "integer"])])
        session = Session()
        response = agent.run_with_response("go", response_model=City, session=session)
        assert response.output == OSLO
        assert response.content == GOOD.replace("Oslo", "[redacted]")
        assert not any(word in session.model_dump_json() for word in ("Oslo", "integer"))

    def test_a_filtered_error(self, ask):
        """What could not be read into the type is not told with secrets in it."""
        agent = ask(*[text('{"kind": "Oslo"}')] * 2, middleware=[Redaction(secrets=["cat"])])
        response = agent.run_with_response("go", response_model=Pet)
        assert "cat" not in str(response.error)
        assert "[redacted]" in str(response.error)


BAD = {
    "an instance": OSLO,
    "an instance of a dataclass": Box(1.0),
    "a member of an enum": Colour.RED,
    "a name": "City",
    "a number": 5,
    "a list": [City],
    "a schema": {"type": "object"},
    "a function": note,
    "a built-in function": len,
    "a module": json,
    "a class that pydantic does not know": type("Plain", (), {}),
    "a list of such": list[type("Plain", (), {})],
    "a callable": Callable,
    "a callable with types": Callable[[int], str],
}


class TestRaisedAtOnce:
    @pytest.mark.parametrize("case", BAD)
    @pytest.mark.parametrize("form", FORMS)
    def test_what_is_no_type(self, ask, form, case):
        """Each form refuses it before anything happens, and leaves the session as it was."""
        store = RecordingStore()
        agent = ask(text("hi"), session_store=store)
        session = Session("s")
        before = session.model_dump_json()
        with pytest.raises(ConfigError, match="response_model"):
            begin(agent, form, "go", session=session, response_model=BAD[case])
        assert (session.model_dump_json(), session.busy) == (before, False)
        assert (store.calls, agent.server.requests) == ([], [])


class Animal(BaseModel):
    name: str = Field(max_length=20)
    legs: int = Field(ge=0, le=9)


class Pair(NamedTuple):
    first: Colour
    second: bool


class TestEmbeddedModel:
    """A real model, which is held to the schema by a grammar."""

    @pytest.mark.parametrize(
        ("question", "kind", "check"),
        [
            ("Invent an animal.", Animal, lambda output: type(output) is Animal),
            (
                "Invent two animals.",
                Annotated[list[Animal], Field(min_length=2, max_length=2)],
                lambda output: list(map(type, output)) == [Animal, Animal],
            ),
            ("What colour is grass?", Colour, lambda output: output in Colour),
            ("Name a colour, and say whether you like it.", Pair, lambda output: type(output) is Pair),
        ],
        ids=["model", "list", "enum", "named tuple"],
    )
    def test_it_answers_in_the_type(self, question, kind, check):
        """At the first try, although it is small."""
        response = Agent("local", temperature=0, max_tokens=200).run_with_response(question, response_model=kind)
        assert response.error is None
        assert check(response.output)
        assert response.steps == 1
