"""Tool calls and reasoning in streams, under all the names and numbers that servers give them."""

import pytest
from chunks import DONE, answer, call, calls, delta, failure, read, stream

from cyclops_nb.events import ToolCallStarted
from cyclops_nb.messages import ReasoningPart, TextPart


class TestToolCalls:
    def test_pieces_go_to_the_call_of_their_index(self):
        """The usual form: id and name first, then arguments by index."""
        assert calls(
            call(index=0, id="a", name="f", args=""),
            call(index=0, args='{"x": '),
            call(index=0, args="1}"),
            call(index=1, id="b", name="g", args=""),
            call(index=1, args="{}"),
        ) == [("a", "f", '{"x": 1}'), ("b", "g", "{}")]

    def test_pieces_may_come_in_turns(self):
        """Pieces of two calls that come mixed go each to its own."""
        assert calls(
            call(index=0, id="a", name="f", args='{"x": '),
            call(index=1, id="b", name="g", args='{"y": '),
            call(index=0, args="1}"),
            call(index=1, args="2}"),
        ) == [("a", "f", '{"x": 1}'), ("b", "g", '{"y": 2}')]

    def test_a_new_id_under_a_used_index_begins_a_call(self):
        """Two calls that share the index 0 are two calls."""
        assert calls(
            call(index=0, id="a", name="read", args='{"p": 1}'), call(index=0, id="b", name="read", args='{"p": 2}')
        ) == [("a", "read", '{"p": 1}'), ("b", "read", '{"p": 2}')]

    def test_pieces_of_calls_that_share_an_index_go_by_id(self):
        """Where the index is no help the id that each piece repeats is."""
        assert calls(
            call(index=0, id="a", name="f", args='{"x": '),
            call(index=0, id="b", name="f", args='{"y": '),
            call(index=0, id="a", args="1}"),
            call(index=0, id="b", args="2}"),
        ) == [("a", "f", '{"x": 1}'), ("b", "f", '{"y": 2}')]

    def test_a_known_id_continues_its_call(self):
        """An id that is repeated with each piece is one call, and the name is not doubled."""
        assert calls(call(index=0, id="0", name="f", args=""), call(index=0, id="0", name="f", args="{}")) == [
            ("0", "f", "{}")
        ]

    @pytest.mark.parametrize("missing", [{}, {"id": ""}, {"id": None}])
    def test_an_empty_id_is_no_id(self, missing):
        """Later pieces with an empty id, a null one or none go on with the call of their index."""
        assert calls(call(index=0, id="a", name="f", args='{"x"'), call(index=0, name="", args=": 1}", **missing)) == [
            ("a", "f", '{"x": 1}')
        ]

    @pytest.mark.parametrize("missing", [{}, {"id": ""}, {"id": None}])
    def test_without_index_and_id_the_current_call_goes_on(self, missing):
        """A piece with neither index nor id belongs to the call that was written last."""
        assert calls(call(id="a", name="f", args='{"x"'), call(args=": 1}", **missing)) == [("a", "f", '{"x": 1}')]

    def test_without_index_and_id_a_name_after_a_whole_call_begins_one(self):
        """Two whole calls with neither index nor id are two calls with ids of their own."""
        made = calls(call(name="f", args='{"x": 1}'), call(name="f", args='{"x": 2}'))
        assert [item[1:] for item in made] == [("f", '{"x": 1}'), ("f", '{"x": 2}')]
        assert len({item[0] for item in made}) == 2

    def test_without_index_and_id_another_name_begins_a_call(self):
        """Two calls without arguments that differ by name alone are two calls."""
        assert [item[1:] for item in calls(call(name="f"), call(name="g", args=""))] == [("f", "{}"), ("g", "{}")]

    @pytest.mark.parametrize("missing", [{}, {"id": ""}])
    def test_whole_calls_under_one_index_and_no_id_are_calls_of_their_own(self, missing):
        """A server that numbers each call 0 and gives no ids has made as many calls as it named."""
        made = calls(
            call(index=0, name="f", args='{"x": 1}', **missing),
            call(index=0, name="f", args='{"x": 2}', **missing),
            call(index=0, name="g", args="{}", **missing),
        )
        assert [item[1:] for item in made] == [("f", '{"x": 1}'), ("f", '{"x": 2}'), ("g", "{}")]
        assert len({item[0] for item in made}) == 3

    def test_a_name_repeated_with_each_piece_begins_nothing(self):
        """A server that repeats the name with each piece of a call has made one call."""
        assert [
            item[1:] for item in calls(*(call(index=0, name="f", args=piece) for piece in ('{"x"', ": 1}", "")))
        ] == [("f", '{"x": 1}')]

    @pytest.mark.parametrize("missing", [{}, {"id": ""}, {"id": None}, {"id": "", "index": None}])
    def test_a_call_without_an_id_gets_one(self, missing):
        """A call that came without an id has one that is not empty and is its own in every answer."""
        first, second = (calls(call("tool_calls", name="f", args="{}", **missing))[0][0] for _ in range(2))
        assert first
        assert first != second

    def test_one_id_on_two_indexes_is_two_calls(self):
        """Two named calls under one id and different indexes are two calls with ids of their own."""
        made = calls(call(index=0, id="x", name="f", args='{"n": 1}'), call(index=1, id="x", name="f", args='{"n": 2}'))
        assert [item[2] for item in made] == ['{"n": 1}', '{"n": 2}']
        assert len({item[0] for item in made}) == 2

    def test_events_name_calls_by_the_ids_of_the_message(self):
        """The ids in the events are those of the message, also where they were double or missing in the stream."""
        chunks = [call(index=0, id="x", name="f"), call(index=1, id="x", name="f"), call(index=2, name="g")]
        completion, events = read(stream(*chunks, DONE))
        told = [event.call_id for event in events if isinstance(event, ToolCallStarted)]
        assert told == [item.id for item in completion.message().tool_calls]
        assert len(set(told)) == 3

    def test_several_calls_in_one_chunk(self):
        """A chunk may carry whole calls, and several pieces of one."""
        entries = [
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}},
            {"index": 1, "id": "b", "function": {"name": "g", "arguments": '{"y"'}},
            {"index": 1, "function": {"arguments": ": 1}"}},
        ]
        assert calls(delta(tool_calls=entries)) == [("a", "f", "{}"), ("b", "g", '{"y": 1}')]

    def test_the_name_may_come_late(self):
        """Arguments that come before the name are kept for when it comes."""
        completion, events = read(
            stream(call(index=0, id="a", args='{"x"'), call(index=0, name="f", args=": 1}"), DONE)
        )
        assert completion.message().tool_calls[0].arguments == '{"x": 1}'
        assert isinstance(events[0], ToolCallStarted)

    @pytest.mark.parametrize("arguments", [None, "", "  ", "{}", {}])
    def test_no_arguments_are_an_empty_object(self, arguments):
        """Arguments that are missing, null, blank or an empty object are stored as "{}"."""
        entry = {"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}}
        assert calls(delta(tool_calls=[entry])) == [("a", "f", "{}")]
        assert calls(call(index=0, id="a", name="f")) == [("a", "f", "{}")]

    def test_arguments_may_be_an_object(self):
        """Arguments that come as an object are stored as its JSON."""
        entry = {"index": 0, "id": "a", "function": {"name": "f", "arguments": {"city": "Köln"}}}
        assert calls(delta(tool_calls=[entry])) == [("a", "f", '{"city": "Köln"}')]

    def test_broken_arguments_are_kept(self):
        """Arguments that are no JSON are stored as the model wrote them."""
        assert calls(call("tool_calls", index=0, id="a", name="f", args='{"a": listt"}'))[0][2] == '{"a": listt"}'

    def test_a_call_without_a_name_is_a_failure(self):
        """A call that never got a name cannot be made, and the answer has failed."""
        assert "without a name" in str(failure(call("tool_calls", index=0, id="a", args="{}"), DONE))

    def test_what_only_the_provider_understands_is_kept(self):
        """Unknown fields of a call, such as signatures, are kept with it."""
        chunk = call(index=0, id="a", name="f", args="{}", extra_content={"google": {"thought_signature": "s"}})
        part = answer(chunk, DONE).message().tool_calls[0]
        assert part.provider_metadata["extra_content"] == {"google": {"thought_signature": "s"}}

    @pytest.mark.parametrize("entry", [None, 3, "a", []])
    def test_odd_entries_say_nothing(self, entry):
        """Entries that are no object are passed over, and so is a list that is null."""
        assert calls(delta(tool_calls=[entry]), delta(tool_calls=None), call(index=0, id="a", name="f")) == [
            ("a", "f", "{}")
        ]

    def test_text_before_and_after_stays_in_order(self):
        """Text and calls stand in the order in which they began."""
        message = answer(delta(content="a"), call(index=0, id="c", name="f"), delta(content="b"), DONE).message()
        assert [part.type for part in message.content] == ["text", "tool_call", "text"]


class TestReasoning:
    @pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
    def test_has_two_names(self, field):
        """Reasoning is read under either name, and the name is remembered."""
        message = answer(
            delta(**{field: "Let "}), delta(content="", **{field: "me."}), delta("stop", content="Hi")
        ).message()
        assert message.content == (ReasoningPart("Let me.", provider_metadata={"field": field}), TextPart("Hi"))

    def test_under_both_names_is_read_once(self):
        """A server that sends the same text under both names has said it once."""
        assert answer(delta("stop", reasoning="a", reasoning_content="a")).message().reasoning == "a"

    @pytest.mark.parametrize("empty", ["", None])
    def test_that_is_empty_makes_no_part(self, empty):
        """Empty reasoning is none."""
        chunk = delta("stop", content="Hi", reasoning=empty, reasoning_content=empty, reasoning_details=[])
        assert answer(chunk).message().content == (TextPart("Hi"),)

    def test_encrypted_details_are_kept_verbatim(self):
        """Encrypted details make a part without text, letter for letter."""
        details = [{"type": "reasoning.encrypted", "data": "gAAA+/=", "format": None, "id": "rs_1", "index": 0}]
        part = answer(delta(reasoning_details=details), delta("stop", content="Hi")).message().content[0]
        assert part.text == ""
        assert part.provider_metadata["reasoning_details"][0]["data"] == "gAAA+/="
        assert part.provider_metadata["reasoning_details"][0]["id"] == "rs_1"

    def test_pieces_of_a_detail_are_joined(self):
        """Pieces of one detail are put together, another index or type begins another."""

        def piece(text, index, kind="reasoning.text"):
            return {"type": kind, "text": text, "index": index}

        chunks = [
            delta(reasoning="We ", reasoning_details=[piece("We ", 0)]),
            delta(reasoning="think", reasoning_details=[piece("think", 0)]),
            delta(reasoning_details=[{"type": "reasoning.text", "index": 0, "signature": "sig"}]),
            delta(reasoning_details=[piece("b", 1), {"type": "reasoning.encrypted", "data": "x", "index": 1}]),
            delta(reasoning=" on."),
        ]
        message = answer(*chunks, DONE).message()
        assert message.reasoning == "We think on."
        assert message.content[0].provider_metadata["field"] == "reasoning_details"
        assert message.content[0].provider_metadata["reasoning_details"] == (
            {"type": "reasoning.text", "text": "We think", "index": 0, "signature": "sig"},
            {"type": "reasoning.text", "text": "b", "index": 1},
            {"type": "reasoning.encrypted", "data": "x", "index": 1},
        )

    def test_details_without_type_and_index_are_kept(self):
        """A detail that says nothing of itself is kept as it is."""
        message = answer(delta(reasoning_details=[{"data": "x"}, "odd", None]), DONE).message()
        assert message.content[0].provider_metadata["reasoning_details"] == ({"data": "x"},)

    def test_content_may_be_a_list_of_parts(self):
        """Content as a list has thinking parts, which are reasoning, and text parts."""
        chunks = [
            delta(content=""),
            delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Okay, "}]}]),
            delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "go."}]}]),
            delta(content=[{"type": "text", "text": "Look "}, {"type": "text", "text": "both"}]),
            delta("stop", content=" ways."),
        ]
        message = answer(*chunks).message()
        assert (message.reasoning, message.text) == ("Okay, go.", "Look both ways.")
        assert [part.type for part in message.content] == ["reasoning", "text"]

    @pytest.mark.parametrize(
        "odd", [[None], [3], [{}], [{"type": "thinking"}], [{"type": "text"}], [[]], {"type": "x"}, 3]
    )
    def test_odd_parts_say_nothing(self, odd):
        """Parts that are not understood are passed over."""
        assert answer(delta(content=odd), delta("stop", content="Hi")).text == "Hi"

    def test_tags_in_text_stay_text(self):
        """Tags around a thought are part of the text, which is not torn apart."""
        assert answer(delta(content="<thou"), delta("stop", content="ght>a</thought>b")).text == "<thought>a</thought>b"
