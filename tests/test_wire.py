"""Reading streams: what servers send, in all its oddities, and what is made of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import moderate

from cyclops_nb.errors import ModelError
from cyclops_nb.events import TextDelta, ToolCallDelta, ToolCallStarted
from cyclops_nb.messages import ReasoningPart, TextPart
from cyclops_nb.models.base import Completion
from cyclops_nb.models.sse import Frame, SSEDecoder
from cyclops_nb.models.surrogates import SurrogateJoiner
from cyclops_nb.models.wire import ChatReader
from cyclops_nb.usage import Usage

DONE = "[DONE]"
LENGTH = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}


def delta(finish=None, **fields):
    """Return a chunk with one delta."""
    return {"model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(finish=None, *, args=None, name=None, **entry):
    """Return a chunk with one piece of one tool call."""
    function = {key: value for key, value in (("name", name), ("arguments", args)) if value is not None}
    return delta(finish, tool_calls=[{**entry, "function": function}])


def usage(**report):
    """Return a chunk that reports usage alone."""
    return {"choices": [], "usage": report}


def stream(*chunks):
    """Return the bytes of a stream of these chunks; text stands as it is."""
    return b"".join(
        b"data: " + (chunk if isinstance(chunk, str) else json.dumps(chunk)).encode() + b"\n\n" for chunk in chunks
    )


def read(data, pieces=None):
    """Read a stream to its end and return the completion, and the events."""
    completion = Completion()
    reader = ChatReader(completion, "r", 1)
    events = []
    for piece in [data] if pieces is None else pieces:
        events += reader.feed(piece)
    events += reader.close()
    return completion, events


def answer(*chunks):
    """Return the completion that a stream of these chunks gives."""
    return read(stream(*chunks))[0]


def calls(*chunks):
    """Return id, name and arguments of the calls that a stream of these chunks gives."""
    return [(item.id, item.name, item.arguments) for item in answer(*chunks, DONE).message().tool_calls]


def failure(*chunks):
    """Return the error with which reading a stream of these chunks fails."""
    with pytest.raises(ModelError) as caught:
        answer(*chunks)
    return caught.value


def facts(completion):
    """Return what is the same in two readings of one stream: generated ids and times are not."""
    message = completion.message()
    return message.model_dump(exclude={"id", "created_at"}), completion.reported_cost


RICH = stream(
    {"choices": [], "prompt_filter_results": [{}]},
    delta(role="assistant", content="", reasoning_content="Hmm 🤔 "),
    delta(content=None, reasoning_content="é\u2028."),
    delta(content="Grüße\u2028 "),
    delta(content="👋🏽 \ud83d"),
    delta(content="\ude00"),
    call(index=0, id="a", name="f", args='{"city": '),
    call(index=1, id="b", name="g", args=""),
    call(index=0, args='"Köln 😀"}'),
    call("tool_calls", index=1, args='{"n": 1}'),
    usage(prompt_tokens=9, completion_tokens=8, prompt_tokens_details={"cached_tokens": 7}, cost=0.5),
    DONE,
)


@st.composite
def cut(draw, data):
    """Cut bytes into pieces, some of them empty."""
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


class TestSplits:
    @moderate
    @given(cut(RICH))
    def test_any_split_into_bytes_gives_the_same_message(self, pieces):
        """Wherever the network cuts a stream, also inside a character, the message is the same."""
        assert facts(read(b"", pieces)[0]) == facts(read(RICH)[0])

    @pytest.mark.parametrize(
        "variant",
        [
            RICH.replace(b"\n", b"\r\n"),
            RICH.replace(b"\n", b"\r"),
            RICH.replace(b"\n\n", b"\n\r\n"),
            b"\xef\xbb\xbf" + RICH,
            RICH.replace(b"data: ", b"data:"),
            RICH.replace(b"data: ", b" data: "),
            RICH.replace(b"data: ", b": a comment\n:\nid: 7\nretry: 10\nevent: message\ndata: "),
            b"\n\n" + RICH + b"\n\n",
            RICH.removesuffix(b"\n\n"),
            RICH.removesuffix(b"\n"),
        ],
        ids=["crlf", "cr", "mixed", "bom", "no space", "blank first", "comments", "blank lines", "no end", "half end"],
    )
    def test_any_form_of_a_stream_gives_the_same_message(self, variant):
        """Line ends of each kind, a byte order mark, comments and missing spaces change nothing, in any split."""
        expected = facts(read(RICH)[0])
        assert facts(read(variant)[0]) == expected
        assert facts(read(b"", [bytes([byte]) for byte in variant])[0]) == expected

    @given(st.text(max_size=12).flatmap(lambda text: st.tuples(st.just(text), cut(text))))
    def test_any_split_of_a_text_into_deltas_gives_the_text(self, text_and_pieces):
        """However a server cuts a text into deltas, its text is the same."""
        text, pieces = text_and_pieces
        completion = answer(*(delta(content=piece) for piece in pieces), DONE)
        assert completion.text == text

    @given(st.lists(st.sampled_from("a😀é"), min_size=1, max_size=4).flatmap(lambda letters: cut(_units("".join(letters)))))
    def test_any_split_of_a_text_into_utf16_units_gives_the_text(self, pieces):
        """A server that cuts between the halves of a surrogate pair does no damage, in text, reasoning and arguments."""
        whole = "".join(pieces).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        quoted = json.dumps(whole, ensure_ascii=False)
        for field in ("content", "reasoning", "reasoning_content"):
            message = answer(*(delta(**{field: piece}) for piece in pieces), DONE).message()
            assert message.text + message.reasoning == whole
        chunks = [call(index=0, id="a", name="f", args='"'), *(call(index=0, args=piece) for piece in pieces)]
        assert calls(*chunks, call(index=0, args='"')) == [("a", "f", quoted)]

    @given(cut('{"city": "Paris", "days": [1, 2]}'))
    def test_any_split_of_arguments_gives_the_call(self, pieces):
        """However arguments are cut into deltas, they are the same."""
        chunks = [call(index=0, args=piece) for piece in pieces]
        assert calls(call(index=0, id="a", name="f"), *chunks) == [("a", "f", "".join(pieces))]

    def test_events_add_up_to_the_message(self):
        """What the deltas of the events say is what stands in the message."""
        completion, events = read(RICH)
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == completion.message().text
        for item in completion.message().tool_calls:
            pieces = [event.arguments for event in events if isinstance(event, ToolCallDelta) and event.call_id == item.id]
            assert "".join(pieces) == item.arguments
        assert [event.name for event in events if isinstance(event, ToolCallStarted)] == ["f", "g"]
        assert {(event.run_id, event.step) for event in events} == {("r", 1)}

    def test_nothing_is_empty(self):
        """No event says nothing."""
        _, events = read(RICH)
        assert all(getattr(event, "text", "x") and getattr(event, "arguments", "x") for event in events)


def _units(text):
    data = text.encode("utf-16-le")
    return "".join(chr(int.from_bytes(data[i : i + 2], "little")) for i in range(0, len(data), 2))


class TestEnd:
    def test_done_alone_is_enough(self):
        """A stream that ends with [DONE] and never had a finish_reason is complete."""
        completion = answer(delta(content="Hi"), DONE)
        assert (completion.finished, completion.finish_reason, completion.text) == (True, None, "Hi")

    def test_a_finish_reason_alone_is_enough(self):
        """A stream that ends after a finish_reason, without [DONE], is complete."""
        assert answer(delta("stop", content="Hi")).finished

    @pytest.mark.parametrize(
        "chunks", [(), (delta(content="Hi"),), (call(index=0, id="a", name="f", args="{}"),), (delta("", content="Hi"),)]
    )
    def test_neither_is_a_failure(self, chunks):
        """A stream with neither has failed, however whole what came looks."""
        assert "ended early" in str(failure(*chunks))

    def test_what_was_read_of_a_failed_stream_can_be_shown(self):
        """The text that came before a stream broke off is still at hand."""
        completion = Completion()
        reader = ChatReader(completion)
        list(reader.feed(stream(delta(content="Half an ans"))))
        with pytest.raises(ModelError):
            list(reader.close())
        assert (completion.text, completion.finished) == ("Half an ans", False)

    def test_a_finish_reason_may_come_twice(self):
        """The finish_reason is the last one that says something."""
        assert answer(delta("tool_calls"), delta("stop"), delta(None), delta(""), DONE).finish_reason == "stop"

    def test_nothing_is_read_after_done(self):
        """Whatever follows [DONE] is not part of the answer."""
        assert answer(delta("stop", content="Hi"), DONE, delta(content=" there"), {"error": "late"}).text == "Hi"

    @pytest.mark.parametrize("done", ["[DONE]", " [DONE] ", "[DONE]\t"])
    def test_done_may_have_blanks_around_it(self, done):
        """[DONE] is known with blanks around it."""
        assert answer(delta(content="Hi"), done).finished

    def test_a_stop_with_calls_keeps_the_calls(self):
        """Calls are there whatever the finish_reason says."""
        assert calls(call("stop", index=0, id="a", name="f", args="{}")) == [("a", "f", "{}")]

    def test_a_call_that_was_cut_is_kept_as_it_came(self):
        """With finish_reason length the call and its half arguments are kept, with the reason beside them."""
        completion = answer(call(index=0, id="a", name="f", args='{"path": "x.p'), LENGTH, DONE)
        assert completion.finish_reason == "length"
        assert completion.message().tool_calls[0].arguments == '{"path": "x.p'


class TestChoices:
    def test_chunks_without_choices_are_read(self):
        """Chunks with an empty, missing or null list of choices do no harm."""
        completion = answer({"choices": []}, {"model": "m"}, {"choices": None}, delta("stop", content="Hi"), DONE)
        assert completion.text == "Hi"

    def test_other_choices_are_not_mixed_in(self):
        """Of several choices only the first one is the answer."""
        other = {"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "stop"}]}
        completion = answer(other, delta(content="Hi"), other, DONE)
        assert (completion.text, completion.finish_reason) == ("Hi", None)

    @pytest.mark.parametrize("choice", [{}, {"delta": None}, {"delta": {}}, {"delta": {"content": None}}, None, 3])
    def test_odd_choices_say_nothing(self, choice):
        """A choice without a delta, or that is no object, is nothing."""
        assert answer({"choices": [choice]}, delta("stop", content="Hi")).text == "Hi"

    @pytest.mark.parametrize("chunk", ["null", "[]", '"text"', "3", "{}"])
    def test_chunks_that_are_no_object_say_nothing(self, chunk):
        """JSON that is no object is passed over."""
        assert answer(chunk, delta("stop", content="Hi")).text == "Hi"

    def test_the_model_is_the_last_that_was_named(self):
        """The model that answered is named by the chunks; empty names say nothing."""
        chunks = ({"model": "", "choices": []}, delta(content="Hi"), {"model": "", "choices": []}, {"model": None}, DONE)
        assert answer(*chunks).model == "m"

    def test_unknown_fields_of_a_delta_are_kept(self):
        """Fields that nobody knows are kept as provider data of the message; empty ones are not."""
        completion = answer(delta(content="a", channel="final"), delta("stop", content="b", audio={"id": "x"}, name="", more=None))
        assert completion.message().provider_metadata == {"channel": "final", "audio": {"id": "x"}}

    def test_a_refusal_is_text_that_says_so(self):
        """A refusal is shown as text and marked as one; an empty refusal is nothing."""
        message = answer(delta(refusal=""), delta("stop", refusal="I will not.")).message()
        assert message.content == (TextPart("I will not.", provider_metadata={"refusal": True}),)
        assert answer(delta("stop", content="Hi", refusal="")).message().content == (TextPart("Hi"),)


class TestUsage:
    def test_is_none_when_nothing_was_reported(self):
        """An answer without a report has no usage, which is not zero usage."""
        assert answer(delta("stop", content="Hi"), DONE).usage is None
        assert answer({**delta("stop", content="Hi"), "usage": None}, DONE).usage is None
        assert answer({**delta("stop", content="Hi"), "usage": {}}, DONE).usage is None

    def test_is_read_from_a_chunk_without_choices(self):
        """The usual report comes last, with no choices."""
        report = usage(
            prompt_tokens=10,
            completion_tokens=5,
            total_tokens=15,
            prompt_tokens_details={"cached_tokens": 4},
            completion_tokens_details={"reasoning_tokens": 3},
        )
        assert answer(delta("stop", content="Hi"), report, DONE).usage == Usage(1, 10, 5, 4, 3)

    def test_is_the_last_report_and_never_a_sum(self):
        """Reports on every chunk are cumulative: the last one counts."""
        chunks = [{**delta(content="x"), "usage": {"prompt_tokens": 10, "completion_tokens": n}} for n in (1, 5, 9)]
        assert answer(*chunks, DONE).usage == Usage(1, 10, 9)

    def test_is_merged_field_by_field(self):
        """A later report replaces the fields that it has; null and missing ones erase nothing."""
        first = usage(prompt_tokens=10, completion_tokens=1, prompt_tokens_details={"cached_tokens": 4})
        second = usage(
            prompt_tokens=None,
            completion_tokens=7,
            prompt_tokens_details=None,
            completion_tokens_details={"reasoning_tokens": 2},
        )
        third = usage(prompt_tokens_details={"cached_tokens": None, "audio_tokens": 0})
        assert answer(delta("stop"), first, second, third, DONE).usage == Usage(1, 10, 7, 4, 2)

    def test_details_may_be_null(self):
        """Details that are null count as nothing cached and nothing reasoned."""
        report = usage(prompt_tokens=40, completion_tokens=2, prompt_tokens_details=None, completion_tokens_details=None)
        assert answer(delta("stop"), report).usage == Usage(1, 40, 2)

    def test_cached_tokens_have_two_names(self):
        """What was in the cache is known by either name."""
        report = usage(prompt_tokens=339, completion_tokens=83, prompt_cache_hit_tokens=320)
        assert answer(delta("stop"), report).usage == Usage(1, 339, 83, 320)

    def test_the_total_is_not_trusted(self):
        """Input and output are what was reported, even where the total says otherwise."""
        assert answer(delta("stop"), usage(prompt_tokens=40, completion_tokens=9, total_tokens=160)).usage == Usage(1, 40, 9)

    def test_is_found_where_groq_puts_it(self):
        """A report inside x_groq counts."""
        chunk = {**delta("stop"), "x_groq": {"usage": {"prompt_tokens": 3, "completion_tokens": 2}}}
        assert answer(chunk).usage == Usage(1, 3, 2)

    def test_the_cost_a_server_reports_is_kept(self):
        """A reported cost is kept, zero too; none is none."""
        assert answer(delta("stop"), usage(prompt_tokens=1, completion_tokens=1, cost=0.000837)).reported_cost == 0.000837
        assert answer(delta("stop"), usage(prompt_tokens=1, completion_tokens=1, cost=0)).reported_cost == 0.0
        assert answer(delta("stop"), usage(prompt_tokens=1, completion_tokens=1)).reported_cost is None

    @pytest.mark.parametrize("value", ["12", True, -1, [1], {"a": 1}])
    def test_a_number_that_is_none_counts_as_zero(self, value):
        """A count that is no count is not believed."""
        assert answer(delta("stop"), usage(prompt_tokens=5, completion_tokens=value)).usage == Usage(1, 5, 0)


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
        assert calls(
            call(index=0, id="0", name="f", args=""), call(index=0, id="0", name="f", args="{}")
        ) == [("0", "f", "{}")]

    @pytest.mark.parametrize("missing", [{}, {"id": ""}, {"id": None}])
    def test_an_empty_id_is_no_id(self, missing):
        """Later pieces with an empty id, a null one or none go on with the call of their index."""
        assert calls(
            call(index=0, id="a", name="f", args='{"x"'), call(index=0, name="", args=": 1}", **missing)
        ) == [("a", "f", '{"x": 1}')]

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
        assert [item[1:] for item in calls(*(call(index=0, name="f", args=piece) for piece in ('{"x"', ": 1}", "")))] == [
            ("f", '{"x": 1}')
        ]

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
        completion, events = read(stream(call(index=0, id="a", args='{"x"'), call(index=0, name="f", args=": 1}"), DONE))
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
        assert calls(delta(tool_calls=[entry]), delta(tool_calls=None), call(index=0, id="a", name="f")) == [("a", "f", "{}")]

    def test_text_before_and_after_stays_in_order(self):
        """Text and calls stand in the order in which they began."""
        message = answer(delta(content="a"), call(index=0, id="c", name="f"), delta(content="b"), DONE).message()
        assert [part.type for part in message.content] == ["text", "tool_call", "text"]


class TestReasoning:
    @pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
    def test_has_two_names(self, field):
        """Reasoning is read under either name, and the name is remembered."""
        message = answer(delta(**{field: "Let "}), delta(content="", **{field: "me."}), delta("stop", content="Hi")).message()
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
        ]
        message = answer(*chunks, DONE).message()
        assert message.reasoning == "We think"
        assert message.content[0].provider_metadata["reasoning_details"] == (
            {"type": "reasoning.text", "text": "We think", "index": 0, "signature": "sig"},
            {"type": "reasoning.text", "text": "b", "index": 1},
            {"type": "reasoning.encrypted", "data": "x", "index": 1},
        )

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

    @pytest.mark.parametrize("odd", [[None], [3], [{}], [{"type": "thinking"}], [{"type": "text"}], [[]], {"type": "x"}, 3])
    def test_odd_parts_say_nothing(self, odd):
        """Parts that are not understood are passed over."""
        assert answer(delta(content=odd), delta("stop", content="Hi")).text == "Hi"

    def test_tags_in_text_stay_text(self):
        """Tags around a thought are part of the text, which is not torn apart."""
        assert answer(delta(content="<thou"), delta("stop", content="ght>a</thought>b")).text == "<thought>a</thought>b"


class TestErrors:
    def test_an_error_in_a_chunk_fails_the_answer(self):
        """An error key in a chunk fails with the server's message and code, and its usage counts."""
        completion = Completion()
        reader = ChatReader(completion)
        chunk = {
            **delta(content=""),
            "error": {"code": 400, "message": "Token limit reached"},
            "usage": {"prompt_tokens": 43, "completion_tokens": 10},
        }
        with pytest.raises(ModelError, match="Token limit reached") as caught:
            list(reader.feed(stream(delta("length", content="Half"), chunk, DONE)))
        assert caught.value.code == "400"
        assert completion.usage == Usage(1, 43, 10)
        assert not completion.finished

    def test_an_error_event_fails_the_answer(self):
        """A frame of the event error fails too, with what it says, in an inner error or not."""
        for body in ('{"error": {"message": "tool_use_failed", "code": "x"}}', '{"message": "tool_use_failed", "code": "x"}'):
            with pytest.raises(ModelError, match="tool_use_failed") as caught:
                read(stream(delta(content="a")) + f"event: error\ndata: {body}\n\n".encode())
            assert caught.value.code == "x"

    @pytest.mark.parametrize("error", ["overloaded", {"message": "overloaded"}, {"error": {"message": "overloaded"}}])
    def test_an_error_may_be_text_or_an_object(self, error):
        """The server's words are found wherever it puts them."""
        assert failure({"error": error}).message == "overloaded"

    @pytest.mark.parametrize("error", [None, "", {}])
    def test_an_empty_error_is_none(self, error):
        """A server that sends an empty error with each chunk has no error."""
        assert answer({**delta("stop", content="Hi"), "error": error}).text == "Hi"

    def test_an_error_without_a_message_is_shown_whole(self):
        """An error object in another form is shown as it is."""
        assert '"detail"' in str(failure({"error": {"detail": "no"}}))

    @pytest.mark.parametrize("body", ["<html>502 Bad Gateway</html>", "plain text", '{"half": '])
    def test_a_chunk_that_is_no_json_is_named(self, body):
        """What cannot be read is a clear error that shows it."""
        assert body in str(failure(body))

    @pytest.mark.parametrize("body", [b"<html>502</html>", b"\xff\xfe\x00", b""])
    def test_a_body_that_is_no_stream_is_a_failure(self, body):
        """Bytes without any frame are no answer."""
        with pytest.raises(ModelError):
            read(body)

    def test_frames_are_counted(self):
        """The number of frames tells a stream from a body that is none."""
        for body, count in ((b"<html>", 0), (stream(delta("stop")), 1)):
            reader = ChatReader(Completion())
            list(reader.feed(body))
            assert reader.frames == count


class TestWholeAnswers:
    BODY = {
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": None,
                    "reasoning": "Hm",
                    "tool_calls": [
                        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
                        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 2}'}},
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2},
    }

    def test_are_read_like_streams(self):
        """An answer that came as one object gives the same parts, each entry a call of its own."""
        completion = Completion()
        list(ChatReader(completion).whole(self.BODY))
        message = completion.message()
        assert completion.finished
        assert message.reasoning == "Hm"
        assert [item.arguments for item in message.tool_calls] == ['{"x": 1}', '{"x": 2}']
        assert len({item.id for item in message.tool_calls}) == 2
        assert (message.usage, message.finish_reason, message.model) == (Usage(1, 1, 2), "tool_calls", "m")

    @pytest.mark.parametrize("choices", [[], None, "none"])
    def test_without_choices_are_a_failure(self, choices):
        """An answer without choices is a clear error."""
        with pytest.raises(ModelError, match="no choices"):
            list(ChatReader(Completion()).whole({"choices": choices}))

    def test_that_are_an_error_fail_with_it(self):
        """An error object with status 200 fails with the server's message."""
        with pytest.raises(ModelError, match="no such model"):
            list(ChatReader(Completion()).whole({"error": {"message": "no such model"}}))


class TestDecoder:
    @staticmethod
    def frames(data):
        decoder = SSEDecoder()
        return decoder.feed(data) + decoder.close()

    @given(
        st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1, max_size=6), max_size=4),
        st.sampled_from(["\n", "\r\n", "\r"]),
        st.data(),
    )
    def test_any_data_comes_back(self, payloads, end, data):
        """Any frames, with any line ends, in any split, come back; U+2028 and the like end no line."""
        body = "".join(f"data: {payload}{end}{end}" for payload in payloads).encode()
        decoder = SSEDecoder()
        frames = [frame for piece in data.draw(cut(body)) for frame in decoder.feed(piece)]
        assert [frame.data.decode() for frame in [*frames, *decoder.close()]] == payloads

    def test_data_lines_of_one_frame_are_joined(self):
        """Several data lines are one piece of data with line ends between."""
        assert self.frames(b"data: a\ndata: b\n\n") == [Frame("", b"a\nb")]

    def test_only_one_space_after_the_colon_is_cut(self):
        """The first space after the colon does not count, a second does."""
        assert self.frames(b"data:  a\n\ndata:b\n\n") == [Frame("", b" a"), Frame("", b"b")]

    def test_the_event_belongs_to_its_frame(self):
        """The name of an event does not leak into the next frame, even without data."""
        assert self.frames(b"event: error\ndata: a\n\ndata: b\n\nevent: x\n\ndata: c\n\n") == [
            Frame("error", b"a"),
            Frame("", b"b"),
            Frame("", b"c"),
        ]

    def test_comments_and_unknown_fields_are_nothing(self):
        """Comments, ids, retry times and unknown fields make no frame."""
        assert self.frames(b": ping\n\nid: 1\nretry: 5\nother: x\nnothing\n\ndata: a\n\n") == [Frame("", b"a")]

    def test_the_end_of_the_stream_ends_a_frame(self):
        """A frame whose blank line never came is handed on at the end."""
        assert self.frames(b"data: a\n\ndata: b") == [Frame("", b"a"), Frame("", b"b")]

    def test_a_mark_of_byte_order_counts_at_the_start_only(self):
        """U+FEFF later in the stream is text."""
        assert self.frames(b"\xef\xbb\xbfdata: \xef\xbb\xbfa\n\n") == [Frame("", b"\xef\xbb\xbfa")]

    def test_frames_come_as_soon_as_they_are_complete(self):
        """A frame is not held back until more bytes come, with LF as well as CRLF line ends."""
        assert SSEDecoder().feed(b"data: a\n\n") == [Frame("", b"a")]
        assert SSEDecoder().feed(b"data: a\r\n\r\n") == [Frame("", b"a")]


class TestSurrogates:
    def test_a_half_waits_for_its_other_half(self):
        """The first half of a pair is held back, and handed on as a character."""
        joiner = SurrogateJoiner()
        assert (joiner.push("a\ud83d"), joiner.push(""), joiner.push("\ude00b")) == ("a", "", "😀b")

    def test_a_half_that_stays_alone_is_replaced(self):
        """A half whose other half never comes becomes U+FFFD, at once or at the end."""
        joiner = SurrogateJoiner()
        assert joiner.push("\ud83d") + joiner.push("x") == "\ufffdx"
        assert joiner.push("\ude00") == "\ufffd"
        assert joiner.push("\ud83d") + joiner.flush() == "\ufffd"
        assert joiner.flush() == ""

    def test_a_half_at_the_end_of_an_answer_is_replaced(self):
        """An answer that ends in the middle of a character can be stored."""
        completion = answer(delta(content="a\ud83d"), delta("stop"))
        assert completion.text == "a\ufffd"
        assert answer(delta(reasoning="a\ud83d"), delta("stop")).message().reasoning == "a\ufffd"
        assert calls(call(index=0, id="a", name="f", args='{"\ud83d')) == [("a", "f", '{"\ufffd')]
