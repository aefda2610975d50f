"""Reading streams: what servers send, in all its oddities, and what is made of it."""

import json

import pytest
from chunks import DONE, answer, call, calls, cut, delta, failure, read, stream, usage
from hypothesis import given
from hypothesis import strategies as st
from strategies import moderate

from cyclops_nb.errors import ModelError
from cyclops_nb.events import TextDelta, ToolCallDelta, ToolCallStarted
from cyclops_nb.messages import TextPart
from cyclops_nb.models.base import Completion
from cyclops_nb.models.wire import ChatReader
from cyclops_nb.usage import Usage

LENGTH = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}


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

    @given(
        st.lists(st.sampled_from("a😀é"), min_size=1, max_size=4).flatmap(lambda letters: cut(_units("".join(letters))))
    )
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
            pieces = [
                event.arguments for event in events if isinstance(event, ToolCallDelta) and event.call_id == item.id
            ]
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
        "chunks",
        [(), (delta(content="Hi"),), (call(index=0, id="a", name="f", args="{}"),), (delta("", content="Hi"),)],
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
        chunks = (
            {"model": "", "choices": []},
            delta(content="Hi"),
            {"model": "", "choices": []},
            {"model": None},
            DONE,
        )
        assert answer(*chunks).model == "m"

    def test_unknown_fields_of_a_delta_are_kept(self):
        """Fields that nobody knows are kept as provider data of the message; empty ones are not."""
        completion = answer(
            delta(content="a", channel="final"), delta("stop", content="b", audio={"id": "x"}, name="", more=None)
        )
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
        report = usage(
            prompt_tokens=40, completion_tokens=2, prompt_tokens_details=None, completion_tokens_details=None
        )
        assert answer(delta("stop"), report).usage == Usage(1, 40, 2)

    def test_cached_tokens_have_two_names(self):
        """What was in the cache is known by either name."""
        report = usage(prompt_tokens=339, completion_tokens=83, prompt_cache_hit_tokens=320)
        assert answer(delta("stop"), report).usage == Usage(1, 339, 83, 320)

    def test_the_total_is_not_trusted(self):
        """Input and output are what was reported, even where the total says otherwise."""
        assert answer(delta("stop"), usage(prompt_tokens=40, completion_tokens=9, total_tokens=160)).usage == Usage(
            1, 40, 9
        )

    def test_is_found_where_groq_puts_it(self):
        """A report inside x_groq counts."""
        chunk = {**delta("stop"), "x_groq": {"usage": {"prompt_tokens": 3, "completion_tokens": 2}}}
        assert answer(chunk).usage == Usage(1, 3, 2)

    def test_the_cost_a_server_reports_is_kept(self):
        """A reported cost is kept, zero too; none is none."""
        assert (
            answer(delta("stop"), usage(prompt_tokens=1, completion_tokens=1, cost=0.000837)).reported_cost == 0.000837
        )
        assert answer(delta("stop"), usage(prompt_tokens=1, completion_tokens=1, cost=0)).reported_cost == 0.0
        assert answer(delta("stop"), usage(prompt_tokens=1, completion_tokens=1)).reported_cost is None

    @pytest.mark.parametrize("value", ["12", True, -1, [1], {"a": 1}])
    def test_a_number_that_is_none_counts_as_zero(self, value):
        """A count that is no count is not believed."""
        assert answer(delta("stop"), usage(prompt_tokens=5, completion_tokens=value)).usage == Usage(1, 5, 0)


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
        for body in (
            '{"error": {"message": "tool_use_failed", "code": "x"}}',
            '{"message": "tool_use_failed", "code": "x"}',
        ):
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


class TestReasoningDetails:
    """Reasoning that a server sends in ``reasoning_details`` alone."""

    def test_is_read_as_text_and_kept_whole(self):
        """Its readable text is the reasoning, and the details are kept to be sent back."""
        pieces = [
            delta(reasoning_details=[{"type": "reasoning.text", "text": text, "index": 0}]) for text in ("Hm", ", so.")
        ]
        message = answer(*pieces, delta(content="Yes."), DONE).message()
        assert (message.reasoning, message.text) == ("Hm, so.", "Yes.")
        details = message.content[0].provider_metadata["reasoning_details"]
        assert details == ({"type": "reasoning.text", "text": "Hm, so.", "index": 0},)

    def test_is_not_read_twice(self):
        """Where the same text also stands in ``reasoning`` it is read once."""
        details = [{"type": "reasoning.text", "text": "Hm", "index": 0}]
        assert answer(delta(reasoning="Hm", reasoning_details=details), DONE).message().reasoning == "Hm"
