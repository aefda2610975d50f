"""Events: plain data that can be stored, sent and compared."""

import inspect
import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError
from strategies import assistant_messages, moderate, runs, summary_messages, texts, tool_calls, tool_messages, usages

from cyclops_nb import events
from cyclops_nb.events import AnyEvent, Event, TextDelta

ANY = TypeAdapter(AnyEvent)
CLASSES = [
    item
    for name, item in inspect.getmembers(events, inspect.isclass)
    if item.__module__ == events.__name__ and issubclass(item, BaseModel) and not name.startswith("_")
]
DURATIONS = st.floats(0, 1e6)
PLACE = {"run_id": texts.map(lambda text: text.encode("utf-8", "replace").decode()), "step": st.integers(0, 99)}
CLEAN = PLACE["run_id"]
FIELDS = {
    "RunStarted": {"session_id": CLEAN, "model": CLEAN},
    "StepStarted": {},
    "RequestRetried": {"attempt": st.integers(1, 99), "reason": CLEAN},
    "TextDelta": {"text": CLEAN},
    "ReasoningDelta": {"text": CLEAN},
    "ToolCallStarted": {"call_id": CLEAN, "name": CLEAN},
    "ToolCallDelta": {"call_id": CLEAN, "arguments": CLEAN},
    "ToolCallReady": {"call": tool_calls},
    "ToolResult": {"message": tool_messages, "duration": DURATIONS},
    "StepFinished": {"message": assistant_messages, "usage": st.none() | usages, "cost": st.none() | DURATIONS},
    "Compacted": {"message": summary_messages},
    "RunFinished": {"run": runs, "content": CLEAN},
}
ANY_EVENT = st.one_of([st.builds(kind, **PLACE, **FIELDS[kind.__name__]) for kind in CLASSES])


def each_class():
    return pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)


class TestUnions:
    def test_the_plain_one_has_every_class(self):
        """Every event class of the module is in the union for isinstance, and nothing else."""
        assert set(get_args(Event)) == set(CLASSES)

    def test_the_one_for_reading_has_every_class(self):
        """The union for reading is the plain one, told apart by the type."""
        union, field = get_args(AnyEvent)
        assert set(get_args(union)) == set(CLASSES)
        assert field.discriminator == "type"

    def test_every_class_is_exported(self):
        """All event classes and both unions are public."""
        assert set(events.__all__) == {"AnyEvent", "Event"} | {kind.__name__ for kind in CLASSES} | {"Place"}

    def test_isinstance_works(self):
        """Any event is an instance of the union."""
        assert isinstance(TextDelta(text="a"), Event)


class TestEachClass:
    @each_class()
    def test_type_is_the_name_in_snake_case(self, kind):
        """The type of an event is its class name in snake case."""
        assert kind.model_fields["type"].default == re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()

    @each_class()
    def test_says_run_and_step(self, kind):
        """Every event has the id of its run and the number of its step."""
        assert {"type", "run_id", "step"} <= set(kind.model_fields)

    @each_class()
    def test_has_the_fields_of_the_contract(self, kind):
        """An event has the documented fields and no others."""
        assert set(kind.model_fields) == {"type", "run_id", "step"} | set(FIELDS[kind.__name__])

    @each_class()
    def test_says_what_it_means(self, kind):
        """Every event class has a docstring of its own."""
        assert kind.__doc__
        assert kind.__doc__.strip().endswith(".")


class TestAnyEvent:
    @moderate
    @given(ANY_EVENT)
    def test_survives_dump_and_load(self, event):
        """Any event can be written as JSON and comes back equal and of its class."""
        loaded = ANY.validate_json(event.model_dump_json())
        assert type(loaded) is type(event)
        assert loaded == event

    @moderate
    @given(ANY_EVENT)
    def test_cannot_change(self, event):
        """No field of an event can be assigned."""
        for name in type(event).model_fields:
            with pytest.raises(ValidationError):
                setattr(event, name, getattr(event, name))

    def test_one_bad_event_gives_one_error(self):
        """Data that fits its type in all but one field gives that error alone."""
        with pytest.raises(ValidationError) as caught:
            ANY.validate_python({"type": "text_delta", "text": 3})
        assert [problem["loc"] for problem in caught.value.errors()] == [("text_delta", "text")]

    def test_an_unknown_type_is_named(self):
        """An event of a type that does not exist is refused."""
        with pytest.raises(ValidationError, match="text_delta"):
            ANY.validate_python({"type": "telepathy"})
