"""The accumulator: what deltas add up to, however they were cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import texts

from cyclops_nb.accumulator import Accumulator
from cyclops_nb.events import ReasoningDelta, StepStarted, TextDelta, ToolCallDelta, ToolCallStarted
from cyclops_nb.messages import ReasoningPart, TextPart, ToolCall


@st.composite
def split(draw, text):
    """Cut a text into pieces, some of them empty."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=5)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@st.composite
def answers(draw):
    """Return parts as (kind, text), where neighbours are of different kinds, and twice their deltas."""
    kinds = draw(st.lists(st.sampled_from(["text", "reasoning", "call"]), max_size=5))
    kinds = [kind for i, kind in enumerate(kinds) if kind == "call" or i == 0 or kinds[i - 1] != kind]
    parts = [(kind, draw(texts.filter(bool))) for kind in kinds]
    return parts, draw(deltas(parts)), draw(deltas(parts))


@st.composite
def deltas(draw, parts):
    events = []
    for index, (kind, text) in enumerate(parts):
        pieces = draw(split(text))
        if kind == "call":
            events.append(ToolCallStarted(call_id=f"c{index}", name="f"))
            events += [ToolCallDelta(call_id=f"c{index}", arguments=piece) for piece in pieces]
        else:
            kind_of_event = TextDelta if kind == "text" else ReasoningDelta
            events += [kind_of_event(text=piece) for piece in pieces]
    return events


def filled(events):
    accumulator = Accumulator()
    for event in events:
        accumulator.add(event)
    return accumulator


class TestAccumulator:
    @given(answers())
    def test_any_split_gives_the_same_parts(self, answer):
        """However an answer is cut into deltas, empty ones and halves of characters too, its parts are the same."""
        parts, first, second = answer
        expected = tuple(
            ToolCall(f"c{index}", "f", text)
            if kind == "call"
            else TextPart(text)
            if kind == "text"
            else ReasoningPart(text)
            for index, (kind, text) in enumerate(parts)
        )
        assert filled(first).parts == filled(second).parts == expected

    def test_is_empty_at_first(self):
        """Nothing added is no parts and no text."""
        assert (Accumulator().parts, Accumulator().text) == ((), "")

    def test_empty_deltas_part_nothing(self):
        """An empty delta of another kind, as servers send with each chunk, does not part what belongs together."""
        pieces = [ReasoningDelta(text="a"), TextDelta(text=""), ReasoningDelta(text="b"), TextDelta(text="c")]
        assert filled(pieces).parts == (ReasoningPart("ab"), TextPart("c"))

    def test_keeps_the_order_of_kinds(self):
        """A new part begins where the kind changes, so reasoning between two texts stands between them."""
        accumulator = filled([TextDelta(text="a"), ReasoningDelta(text="b"), TextDelta(text="c"), TextDelta(text="d")])
        assert accumulator.parts == (TextPart("a"), ReasoningPart("b"), TextPart("cd"))
        assert accumulator.text == "acd"

    def test_calls_may_be_written_in_turns(self):
        """Deltas of two calls that come mixed go each to its own call."""
        accumulator = filled(
            [
                ToolCallStarted(call_id="a", name="f"),
                ToolCallStarted(call_id="b", name="g"),
                ToolCallDelta(call_id="b", arguments='{"y"'),
                ToolCallDelta(call_id="a", arguments='{"x": 1}'),
                ToolCallDelta(call_id="b", arguments=": 2}"),
            ]
        )
        assert accumulator.parts == (ToolCall("a", "f", '{"x": 1}'), ToolCall("b", "g", '{"y": 2}'))
        assert accumulator.arguments("b") == '{"y": 2}'

    def test_text_after_a_call_is_a_part_of_its_own(self):
        """Text before and after a call are two parts, and later arguments still go to the call."""
        accumulator = filled(
            [
                TextDelta(text="a"),
                ToolCallStarted(call_id="c", name="f"),
                TextDelta(text="b"),
                ToolCallDelta(call_id="c", arguments="{}"),
            ]
        )
        assert accumulator.parts == (TextPart("a"), ToolCall("c", "f"), TextPart("b"))

    def test_a_call_without_arguments_is_there(self):
        """A call of which no argument came is a part with an empty object."""
        assert filled([ToolCallStarted(call_id="c", name="f")]).parts == (ToolCall("c", "f", "{}"),)

    def test_a_new_step_voids_what_came_before(self):
        """The beginning of a step, which a retry repeats, starts from nothing."""
        accumulator = filled(
            [TextDelta(text="a"), ToolCallStarted(call_id="c", name="f"), StepStarted(), TextDelta(text="b")]
        )
        assert accumulator.parts == (TextPart("b"),)

    def test_parts_can_be_read_at_any_time(self):
        """Reading the parts in between changes nothing."""
        accumulator = Accumulator()
        seen = []
        for piece in ("H", "i", "!"):
            accumulator.add(TextDelta(text=piece))
            seen.append(accumulator.parts[0].text)
        assert seen == ["H", "Hi", "Hi!"]


class TestProviderData:
    def test_stays_with_its_part(self):
        """Provider data is kept with the part that was being written."""
        accumulator = filled([ReasoningDelta(text="a")])
        accumulator.metadata(ReasoningPart).update({"signature": "s"})
        accumulator.add(TextDelta(text="b"))
        accumulator.metadata(TextPart).update({"refusal": True})
        assert accumulator.parts == (
            ReasoningPart("a", provider_metadata={"signature": "s"}),
            TextPart("b", provider_metadata={"refusal": True}),
        )

    def test_without_text_makes_a_part(self):
        """Encrypted reasoning has no text and is a part all the same."""
        accumulator = Accumulator()
        accumulator.metadata(ReasoningPart).update({"data": "x"})
        assert accumulator.parts == (ReasoningPart("", provider_metadata={"data": "x"}),)

    def test_of_a_call(self):
        """Provider data of a call is kept with that call."""
        accumulator = filled([ToolCallStarted(call_id="a", name="f"), ToolCallStarted(call_id="b", name="f")])
        accumulator.note_call("a", {"signature": "s"})
        assert [part.provider_metadata for part in accumulator.parts] == [{"signature": "s"}, {}]

    def test_finished_parts_do_not_change(self):
        """Parts that were handed out stay as they were when more provider data comes."""
        accumulator = filled([ReasoningDelta(text="a")])
        accumulator.metadata(ReasoningPart)["details"] = [{"text": "a"}]
        parts = accumulator.parts
        accumulator.metadata(ReasoningPart)["details"].append({"text": "b"})
        assert parts[0].provider_metadata == {"details": ({"text": "a"},)}


@pytest.mark.parametrize("kind", [TextDelta, ReasoningDelta])
def test_empty_deltas_are_nothing(kind):
    """Deltas without text leave no part behind."""
    assert filled([kind(text=""), kind(text="")]).parts == ()
