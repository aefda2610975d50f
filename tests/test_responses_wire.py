"""Reading streams of the Responses API: what servers send, in all its oddities, and what is made of it."""

import json

import pytest
from chunks import cut
from hypothesis import given
from hypothesis import strategies as st
from response_events import (
    DONE,
    added,
    answer,
    calls,
    completed,
    delta,
    done,
    event,
    failure,
    function,
    message,
    parts,
    read,
    stream,
    thought,
)
from strategies import moderate

from cyclops_nb.errors import ModelError
from cyclops_nb.events import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStarted
from cyclops_nb.messages import TextPart
from cyclops_nb.models.base import Completion
from cyclops_nb.models.responses_wire import ResponsesReader
from cyclops_nb.testing import reasoning, reply, text, tool_call
from cyclops_nb.testing.answers import answer_to
from cyclops_nb.usage import Usage

RICH = stream(
    event("created", response={"status": "in_progress", "model": "m", "output": [], "usage": None}),
    added("reasoning", "rs", 0, summary=[]),
    event("reasoning_summary_part.added", item_id="rs", output_index=0, summary_index=0, part={"text": ""}),
    delta("Hmm 🤔 ", "rs", 0, of="reasoning_summary_text", summary_index=0),
    delta("é\u2028.", "rs", 0, of="reasoning_summary_text", summary_index=0),
    delta("So.", "rs", 0, of="reasoning_summary_text", summary_index=1),
    done("reasoning", "rs", 0, summary=[{"text": "Hmm 🤔 é\u2028."}, {"text": "So."}], encrypted_content="gAAA"),
    added("message", "msg", 1, role="assistant", content=[]),
    event("content_part.added", item_id="msg", output_index=1, content_index=0, part={"type": "output_text"}),
    delta("Grüße\u2028 ", "msg", 1),
    delta("👋🏽 \ud83d", "msg", 1),
    delta("\ude00", "msg", 1),
    done("message", "msg", 1, content=[{"type": "output_text", "text": "Grüße\u2028 👋🏽 😀"}]),
    added("function_call", "fc1", 2, call_id="a", name="f", arguments=""),
    delta('{"city": ', "fc1", 2, of="function_call_arguments"),
    delta('"Köln 😀"}', "fc1", 2, of="function_call_arguments"),
    event("function_call_arguments.done", item_id="fc1", output_index=2, arguments='{"city": "Köln 😀"}'),
    done("function_call", "fc1", 2, call_id="a", name="f", arguments='{"city": "Köln 😀"}'),
    done("function_call", "fc2", 3, call_id="b", name="g", arguments='{"n": 1}'),
    completed(
        usage={
            "input_tokens": 9,
            "input_tokens_details": {"cached_tokens": 7},
            "output_tokens": 8,
            "output_tokens_details": {"reasoning_tokens": 5},
            "total_tokens": 17,
            "cost": 0.5,
        }
    ),
)


def facts(completion):
    """Return what is the same in two readings of one stream: generated ids and times are not."""
    return completion.message().model_dump(exclude={"id", "created_at"}), completion.reported_cost


class TestWholeStreams:
    def test_give_their_message(self):
        """Reasoning, text and calls come in order, with usage, model and reason."""
        completion, _ = read(RICH)
        content = completion.message().content
        assert [part.type for part in content] == ["reasoning", "text", "tool_call", "tool_call"]
        assert (content[0].text, content[1].text) == ("Hmm 🤔 é\u2028.\n\nSo.", "Grüße\u2028 👋🏽 😀")
        assert [(call.id, call.name, call.args) for call in content[2:]] == [
            ("a", "f", {"city": "Köln 😀"}),
            ("b", "g", {"n": 1}),
        ]
        assert content[0].provider_metadata["item"]["encrypted_content"] == "gAAA"
        assert completion.usage == Usage(1, 9, 8, 7, 5)
        assert (completion.reported_cost, completion.model, completion.finish_reason) == (0.5, "m", "tool_calls")
        assert completion.finished

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
            b"\xef\xbb\xbf" + RICH,
            RICH.replace(b"data: ", b"data:").replace(b"event: ", b"event:"),
            RICH.replace(b"event: ", b": a comment\n:\nid: 7\nevent: "),
            b"".join(line for line in RICH.splitlines(keepends=True) if not line.startswith(b"event: ")),
            RICH + b"data: [DONE]\n\n",
            RICH.removesuffix(b"\n\n"),
            RICH.replace(b'"output_index": ', b'"other": '),
            RICH.replace(b'"item_id": ', b'"other": '),
            RICH.replace(b"data: {", b'data: {"unknown": [1], '),
            RICH.replace(b"event: response.completed", b'event: keepalive\ndata: {"type": "keepalive"}\n\nevent: x'),
        ],
        ids=["crlf", "cr", "bom", "no space", "comments", "no names", "done", "no end", "no index", "no item ids",
             "unknown fields", "unknown events"],
    )  # fmt: skip
    def test_any_form_of_a_stream_gives_the_same_message(self, variant):
        """Line ends, comments, names of events, indexes and ids of items: the message is the same without them."""
        expected = facts(read(RICH)[0])
        assert facts(read(variant)[0]) == expected
        assert facts(read(b"", [bytes([byte]) for byte in variant])[0]) == expected

    def test_the_name_of_the_event_may_stand_outside(self):
        """A server that names events in their frames alone is understood."""
        events = [delta("Hi"), completed()]
        frames = [f"event: {item.pop('type')}\ndata: {json.dumps(item)}\n\n".encode() for item in events]
        assert read(b"".join(frames))[0].text == "Hi"

    def test_events_add_up_to_the_message(self):
        """What the deltas of the events say is what stands in the message."""
        completion, events = read(RICH)
        made = completion.message()
        assert "".join(item.text for item in events if isinstance(item, TextDelta)) == made.text
        assert "".join(item.text for item in events if isinstance(item, ReasoningDelta)) == made.reasoning
        for call in made.tool_calls:
            pieces = [i.arguments for i in events if isinstance(i, ToolCallDelta) and i.call_id == call.id]
            assert "".join(pieces) == call.arguments
        assert [item.name for item in events if isinstance(item, ToolCallStarted)] == ["f", "g"]
        assert {(item.run_id, item.step) for item in events} == {("r", 1)}

    @pytest.mark.parametrize(
        "script",
        [
            text("Hello world"),
            text(""),
            reply(),
            reply(reasoning("Hm, so."), text("a"), tool_call("f", {"x": 1}), text("b"), tool_call("g")),
            text("Half", finish_reason="length"),
        ],
    )
    def test_a_stream_and_a_document_say_the_same(self, script):
        """An answer that came as one object gives the same message as its stream."""
        body = {"include": ["reasoning.encrypted_content"]}
        (streamed,) = answer_to(script, {**body, "stream": True}, 1, "responses").actions
        (document,) = answer_to(script, body, 1, "responses").actions
        completion = Completion()
        list(ResponsesReader(completion).whole(json.loads(document)))
        assert facts(completion) == facts(read(streamed)[0])

    @given(st.text(max_size=12).flatmap(lambda text: st.tuples(st.just(text), cut(text))))
    def test_any_split_of_a_text_into_deltas_gives_the_text(self, text_and_pieces):
        """However a server cuts a text into deltas, also between the halves of a pair, its text is the same."""
        whole, _ = text_and_pieces
        units = whole.encode("utf-16-le")
        halves = [chr(int.from_bytes(units[i : i + 2], "little")) for i in range(0, len(units), 2)]
        for pieces in (text_and_pieces[1], halves):
            for of in ("output_text", "refusal", "reasoning_text", "reasoning_summary_text"):
                made = answer(*(delta(piece, of=of) for piece in pieces), completed()).message()
                assert made.text + made.reasoning == whole


class TestWhatIsMissing:
    @pytest.mark.parametrize(
        "events",
        [
            [done("message", content=[{"type": "output_text", "text": "Hi"}]), completed()],
            [completed(message("Hi"))],
            [added("message"), completed(message("Hi", id="other"))],
            [added("message"), delta("H"), completed(message("Hi"))],
            [added("message"), delta("H"), done("message", content=[{"type": "output_text", "text": "Hi"}]), completed()],
            [delta("Hi"), completed()],
            [delta("Hi"), DONE],
            [delta("Hi"), completed(message("Hi", id="other"))],
            [delta("Hi", id=""), done("message", id="x", content=[{"type": "output_text", "text": "Hi"}]), completed()],
            [event("output_text.done", item_id="i", text="Hi"), completed(message("Hi"))],
            [event("output_text.done", item_id="i", text="Hi"), completed()],
            [delta("Hi"), event("output_text.done", item_id="i", text="Hi"), completed(message("Hi"))],
            [delta("H", id="a"), delta("i", id="b"), completed(message("Hi", id="c"))],
            [delta("H", id="a", index=None), delta("i", id="b", index=None), completed(message("Hi", id="c"))],
            [delta("Hi"), completed(message("Bye"))],
            [completed({"type": "message", "content": "none"}, message("Hi"))],
        ],
    )  # fmt: skip
    def test_a_text_is_told_once(self, events):
        """Whichever of deltas, whole items and last event are there, with whatever ids, the text is told once."""
        assert parts(*events) == [("text", "Hi")]

    def test_several_items_under_one_index(self):
        """Ids tell items apart where every index is 0, and both give way to the order of the last event."""
        events = [
            added("message", "a", 0),
            delta("One.", "a", 0),
            done("message", "a", 0, content=[{"type": "output_text", "text": "One."}]),
            added("function_call", "b", 0, call_id="c1", name="f"),
            delta('{"n": 1}', "b", 0, of="function_call_arguments"),
            done("function_call", "b", 0, call_id="c1", name="f", arguments='{"n": 1}'),
            added("function_call", "c", 0, call_id="c2", name="f"),
            delta('{"n": 2}', "c", 0, of="function_call_arguments"),
            done("function_call", "c", 0, call_id="c2", name="f", arguments='{"n": 2}'),
            added("message", "d", 0),
            delta("Two.", "d", 0),
        ]
        last = [message("One.", id="w"), function('{"n": 1}', id="x"), function('{"n": 2}', id="y"), message("Two.")]
        expected = [("text", "One."), ("tool_call", '{"n": 1}'), ("tool_call", '{"n": 2}'), ("text", "Two.")]
        assert parts(*events, completed(*last)) == expected
        assert parts(*events, completed()) == expected

    def test_pieces_that_come_in_turns(self):
        """Pieces of two calls that come mixed go each to its own, by id or by index."""
        for ids in (("a", "b"), ("", "")):
            events = [
                added("function_call", ids[0], 0, call_id="c1", name="f"),
                added("function_call", ids[1], 1, call_id="c2", name="g"),
                delta('{"x": ', ids[0], 0, of="function_call_arguments"),
                delta('{"y": ', ids[1], 1, of="function_call_arguments"),
                delta("1}", ids[0], 0, of="function_call_arguments"),
                delta("2}", ids[1], 1, of="function_call_arguments"),
            ]
            assert calls(*events) == [("c1", "f", '{"x": 1}'), ("c2", "g", '{"y": 2}')]

    def test_two_messages_are_two_parts(self):
        """Messages stay apart, each with what only the provider understands."""
        content = (
            answer(
                added("message", "a", 0),
                delta("I look.", "a", 0),
                done("message", "a", 0, phase="commentary", content=[{"type": "output_text", "text": "I look."}]),
                added("message", "b", 1),
                delta("Found.", "b", 1),
                completed(),
            )
            .message()
            .content
        )
        assert content == (TextPart("I look.", provider_metadata={"phase": "commentary"}), TextPart("Found."))

    def test_a_refusal_is_text_that_says_so(self):
        """A refusal is shown as text and marked as one, streamed or whole."""
        item = {"type": "message", "id": "i", "content": [{"type": "refusal", "refusal": "I will not."}]}
        for events in ([delta("I will not.", of="refusal"), completed()], [completed(item)]):
            assert answer(*events).message().content == (TextPart("I will not.", provider_metadata={"refusal": True}),)

    def test_sources_are_kept(self):
        """What a text refers to is kept with it."""
        note = {"type": "url_citation", "url": "https://example.org"}
        item = {"type": "message", "content": [{"type": "output_text", "text": "Hi", "annotations": [note]}]}
        assert answer(completed(item)).message().content[0].provider_metadata["annotations"] == (note,)


class TestCalls:
    @pytest.mark.parametrize(
        "events",
        [
            [done("function_call", "fc", call_id="c", name="f", arguments='{"x": 1}')],
            [completed(function('{"x": 1}'))],
            [added("function_call", "fc", call_id="c", name="f"), completed(function('{"x": 1}'))],
            [
                added("function_call", "fc", call_id="c", name="f", arguments='{"x"'),
                event("function_call_arguments.done", item_id="fc", output_index=0, arguments='{"x": 1}'),
            ],
            [
                added("function_call", "fc", call_id="c", name="f"),
                delta('{"x"', "fc", of="function_call_arguments"),
                completed(function('{"x": 1}', id="other")),
            ],
            [
                added("function_call", "fc", call_id="c", name="f"),
                delta('{"x": 1}', "changed", of="function_call_arguments"),
                done("function_call", "again", call_id="c", name="f", arguments='{"x": 1}'),
                completed(function('{"x": 1}', id="once more")),
            ],
            [
                added("function_call", "fc", call_id="c"),
                delta('{"x": 1}', "fc", of="function_call_arguments"),
                done("function_call", "fc", call_id="c", name="f", arguments='{"x": 1}'),
            ],
            [done("function_call", "fc", call_id="c", name="f", arguments={"x": 1})],
        ],
    )
    def test_a_call_is_told_once(self, events):
        """Whichever of announcement, deltas, whole item and last event are there, it is one call."""
        assert calls(*events) == [("c", "f", '{"x": 1}')]

    @pytest.mark.parametrize(
        ("known", "index"), [({"call_id": "x"}, None), ({}, 0)], ids=["by their call ids", "by their indexes"]
    )
    def test_calls_that_end_in_another_order(self, known, index):
        """Whole calls find the ones that were announced, also where the ids of items change with each event."""
        first, second = ({**known, "name": name} for name in "fg")
        if known:
            second["call_id"] = "y"
        after = None if index is None else index + 1
        made = calls(
            added("function_call", "a", index, **first),
            added("function_call", "b", after, **second),
            done("function_call", "c", after, **second, arguments='{"n": 2}'),
            done("function_call", "d", index, **first, arguments='{"n": 1}'),
        )
        assert [item[1:] for item in made] == [("f", '{"n": 1}'), ("g", '{"n": 2}')]

    def test_the_id_of_the_item_is_better_than_none(self):
        """A call that came without a call id is known by the id of its item."""
        assert calls(completed(function(id="fc_7", call_id=None))) == [("fc_7", "f", "{}")]

    @pytest.mark.parametrize("arguments", [None, "", "  ", "{}", {}])
    def test_no_arguments_are_an_empty_object(self, arguments):
        """Arguments that are missing, null, blank or an empty object are stored as "{}"."""
        assert calls(completed(function(arguments))) == [("c", "f", "{}")]

    def test_broken_arguments_are_kept(self):
        """Arguments that are no JSON are stored as the model wrote them."""
        assert calls(completed(function('{"a": listt}'))) == [("c", "f", '{"a": listt}')]

    @pytest.mark.parametrize("missing", ["", None])
    def test_a_call_without_an_id_gets_one(self, missing):
        """Calls that came without any id have ids that are their own."""
        made = calls(completed(function(id=missing, call_id=missing), function(id=missing, call_id=missing)))
        assert [item[1:] for item in made] == [("f", "{}")] * 2
        assert len({item[0] for item in made} - {"", None}) == 2

    def test_one_id_for_two_calls_is_two_calls(self):
        """Two items that share a call id are two calls, the second with an id of its own."""
        made = calls(
            done("function_call", "x", 0, call_id="c", name="f", arguments='{"n": 1}'),
            added("function_call", "y", 1, call_id="c", name="f"),
            delta('{"n": 2}', "y", 1, of="function_call_arguments"),
        )
        assert [item[2] for item in made] == ['{"n": 1}', '{"n": 2}']
        assert len({item[0] for item in made}) == 2

    def test_a_call_without_a_name_is_a_failure(self):
        """A call that never got a name cannot be made."""
        assert "without a name" in str(failure(added("function_call", call_id="c"), completed()))


class TestReasoning:
    def test_parts_of_a_summary_are_paragraphs(self):
        """Parts of a summary stand apart, streamed or whole."""
        pieces = [
            delta("One", "rs", of="reasoning_summary_text", summary_index=0),
            delta(".", "rs", of="reasoning_summary_text", summary_index=0),
            delta("Two.", "rs", of="reasoning_summary_text", summary_index=1),
        ]
        item = {"type": "reasoning", "id": "rs", "summary": [{"text": "One."}, {"text": "Two."}]}
        for events in ([*pieces, completed()], [*pieces, completed(item)], [completed(item)]):
            assert parts(*events) == [("reasoning", "One.\n\nTwo.")]

    def test_items_stay_apart(self):
        """Each item is a part of its own, with the whole item beside it, in order with text and calls."""
        items = [
            thought("One.", id="rs1", encrypted_content="a"),
            thought("", id="rs2", encrypted_content="b"),
            function(),
            thought("Two.", id="rs3", encrypted_content="c"),
            message("Hi"),
        ]
        content = answer(completed(*items)).message().content
        assert [(part.type, getattr(part, "text", None)) for part in content] == [
            ("reasoning", "One."),
            ("reasoning", ""),
            ("tool_call", None),
            ("reasoning", "Two."),
            ("text", "Hi"),
        ]
        kept = [part.provider_metadata["item"] for part in content if part.type == "reasoning"]
        assert [item["id"] for item in kept] == ["rs1", "rs2", "rs3"]
        assert kept[0] == {**items[0], "summary": ({"type": "summary_text", "text": "One."},)}

    def test_what_is_encrypted_is_taken_from_the_whole_item(self):
        """The announcement of an item has not all of it, and a last event without it takes nothing away."""
        made = answer(
            added("reasoning", "rs", summary=[], encrypted_content="half"),
            done("reasoning", "rs", summary=[], encrypted_content="whole"),
            completed({"type": "reasoning", "id": "rs", "summary": []}),
        ).message()
        assert made.content[0].provider_metadata["item"]["encrypted_content"] == "whole"

    def test_the_text_itself_is_read(self):
        """Servers with open reasoning send the text in place of a summary, streamed or whole."""
        item = {"type": "reasoning", "id": "rs", "content": [{"type": "reasoning_text", "text": "Hm"}], "summary": []}
        for events in ([delta("Hm", "rs", of="reasoning_text"), completed(item)], [completed(item)]):
            assert parts(*events) == [("reasoning", "Hm")]

    def test_text_and_summary_are_not_mixed(self):
        """Where both come, the first that came is the reasoning."""
        both = {"type": "reasoning", "id": "rs", "content": [{"text": "Long"}], "summary": [{"text": "Short"}]}
        long = [delta("Lo", "rs", of="reasoning_text"), delta("Short", "rs", of="reasoning_summary_text")]
        assert parts(*long, completed(both)) == [("reasoning", "Long")]
        assert parts(*reversed(long), completed(both)) == [("reasoning", "Short")]

    def test_what_led_to_an_unknown_item_says_so(self):
        """Reasoning before an item that is not kept is marked, as it must not go back without it."""
        search = {"type": "web_search_call", "id": "ws"}
        for events in (
            [completed(thought("Hm"), search, message("Hi"))],
            [done("reasoning", "rs", summary=[]), event("output_item.added", item=search), completed(message("Hi"))],
        ):
            content = answer(*events).message().content
            assert content[0].provider_metadata["led_to"] == "web_search_call"
            assert content[1] == TextPart("Hi")


class TestEnd:
    @pytest.mark.parametrize(
        ("facts", "reason"),
        [
            ({"status": "completed"}, "stop"),
            ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
            ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
            ({"status": "incomplete", "incomplete_details": None}, "length"),
        ],
    )
    def test_the_reason_is_in_the_words_of_the_other_api(self, facts, reason):
        """Views and tools need not know which API has answered."""
        assert answer(delta("Hi"), completed(**facts)).finish_reason == reason

    def test_calls_decide(self):
        """A response that is complete and has calls has ended for them; one that was cut was cut."""
        assert answer(completed(function())).finish_reason == "tool_calls"
        assert answer(completed(function(), status="incomplete")).finish_reason == "length"

    @pytest.mark.parametrize(
        "events",
        [
            [],
            [delta("Hi")],
            [done("message", content=[{"type": "output_text", "text": "Hi"}])],
            [done("function_call", call_id="c", name="f", arguments="{}")],
            [event("in_progress", response={"status": "in_progress", "output": []})],
        ],
    )
    def test_a_stream_without_an_end_is_a_failure(self, events):
        """However whole what came looks, a stream that does not say that it is complete has failed."""
        assert "ended early" in str(failure(*events))

    def test_nothing_is_read_after_the_end(self):
        """Whatever follows the last event is not part of the answer."""
        assert answer(delta("Hi"), completed(), delta(" there"), {"type": "error", "message": "late"}).text == "Hi"

    @pytest.mark.parametrize("chunk", ["null", "[]", '"text"', "3", "{}", '{"type": 3}', '{"type": "response."}'])
    def test_odd_events_say_nothing(self, chunk):
        """JSON that is no event is passed over."""
        assert answer(chunk, delta("Hi"), completed()).text == "Hi"

    @pytest.mark.parametrize(
        "odd",
        [
            event("output_item.added"),
            event("output_item.added", item=None),
            event("output_item.done", item=[]),
            event("output_item.added", item={"type": None}),
            event("output_item.added", item={"type": ["message"]}),
            event("output_text.delta"),
            event("output_text.delta", delta=None),
            event("output_text.delta", delta=""),
            event("output_text.annotation.added", annotation={}),
            event("completed"),
            event("in_progress", response=None),
            event("reasoning_summary_text.delta", delta=3),
            done("message", content=[None, 3, {"type": "output_text", "text": None}]),
            done("message", content={"type": "output_text"}),
        ],
    )
    def test_odd_facts_say_nothing(self, odd):
        """Events that lack what they should have are passed over."""
        assert parts(odd, delta("Hi", id="x", index=5), completed()) == [("text", "Hi")]


class TestUsage:
    def test_is_none_when_nothing_was_reported(self):
        """An answer without a report has no usage, which is not zero usage."""
        for usage in ({}, {"usage": None}, {"usage": {}}):
            assert answer(delta("Hi"), completed(**usage)).usage is None

    def test_details_may_be_missing(self):
        """A report without details has nothing cached and nothing reasoned."""
        report = {"input_tokens": 4, "output_tokens": 2, "input_tokens_details": None}
        assert answer(completed(usage=report)).usage == Usage(1, 4, 2)

    def test_the_names_of_the_other_api_are_known(self):
        """A server that reports in the words of chat completions is understood."""
        report = {"prompt_tokens": 4, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 1}}
        assert answer(completed(usage=report)).usage == Usage(1, 4, 2, 0, 1)

    def test_reports_are_never_added_up(self):
        """Where each event reports, the last report counts, field by field."""
        first = event("in_progress", response={"usage": {"input_tokens": 4, "output_tokens": 1}})
        assert answer(first, completed(usage={"input_tokens": None, "output_tokens": 3})).usage == Usage(1, 4, 3)


class TestErrors:
    def test_a_failed_response(self):
        """It fails with the server's words and code, and what it used counts."""
        completion = Completion()
        reader = ResponsesReader(completion)
        facts = {"error": {"code": "server_error", "message": "The model broke."}, "usage": {"input_tokens": 3}}
        with pytest.raises(ModelError, match="The model broke") as caught:
            list(reader.feed(stream(delta("Half"), completed(status="failed", **facts))))
        assert caught.value.code == "server_error"
        assert (completion.usage, completion.text, completion.finished) == (Usage(1, 3, 0), "Half", False)

    @pytest.mark.parametrize("status", ["failed", "cancelled"])
    def test_one_that_does_not_say_why(self, status):
        """A response that has failed without a word has failed."""
        assert status in str(failure(completed(status=status, error=None)))

    @pytest.mark.parametrize(
        "error",
        [
            {"type": "error", "code": "busy", "message": "Slow down", "param": None},
            {"type": "error", "error": {"type": "x", "code": "busy", "message": "Slow down"}},
            {"error": {"code": "busy", "message": "Slow down"}},
        ],
    )
    def test_an_error_event(self, error):
        """An error in the stream is found wherever the server puts it."""
        caught = failure(delta("Half"), error)
        assert (caught.message, caught.code) == ("Slow down", "busy")

    def test_an_error_event_without_a_code(self):
        """The type of the event is no code of the provider's."""
        assert failure({"type": "error", "code": None, "message": "Slow down"}).code is None

    @pytest.mark.parametrize("error", [None, "", {}])
    def test_an_empty_error_is_none(self, error):
        """Responses name their error in each event, and there is none."""
        assert answer(delta("Hi"), {**completed(error=error), "error": error}).text == "Hi"

    @pytest.mark.parametrize("body", ["<html>502 Bad Gateway</html>", '{"half": '])
    def test_an_event_that_is_no_json_is_named(self, body):
        """What cannot be read is a clear error that shows it."""
        assert body in str(failure(body))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 2)
    | st.sampled_from(["", "message", "function_call", "reasoning", "x"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "id", "name", "text", "content", "summary", "arguments"]), inner)
    ),
    max_leaves=6,
)
TYPES = (
    "created",
    "output_item.added",
    "output_item.done",
    "output_text.delta",
    "refusal.done",
    "reasoning_text.delta",
    "reasoning_summary_text.done",
    "function_call_arguments.delta",
    "function_call_arguments.done",
    "completed",
    "incomplete",
)
FACTS = ("item", "item_id", "output_index", "summary_index", "delta", "text", "arguments", "response", "usage")


class TestAnything:
    @moderate
    @given(st.lists(st.tuples(st.sampled_from(TYPES), st.dictionaries(st.sampled_from(FACTS), JSON)), max_size=6))
    def test_any_events_give_an_answer_or_a_failure(self, events):
        """Whatever events hold, reading them gives a message that can be stored, or an error of ours."""
        try:
            completion = answer(*(event(type_, **facts) for type_, facts in events), completed())
        except ModelError:
            return
        completion.message().model_dump_json()


class TestDocuments:
    def test_without_a_status_is_complete(self):
        """A server that says nothing of the status has answered."""
        completion = Completion()
        list(ResponsesReader(completion).whole({"output": [message("Hi")], "usage": {"input_tokens": 1}}))
        assert (completion.text, completion.finished, completion.usage) == ("Hi", True, Usage(1, 1, 0))

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            ({}, "no output"),
            ({"choices": []}, "no output"),
            ({"output": None, "error": {"message": "no such model"}}, "no such model"),
            ({"error": {"message": "no such model"}}, "no such model"),
            ({"output": [], "status": "failed", "error": {"message": "no such model"}}, "no such model"),
            ({"output": [], "status": "in_progress"}, "'in_progress'"),
            ({"output": [], "status": "queued"}, "'queued'"),
        ],
    )
    def test_that_hold_no_answer_are_a_failure(self, body, words):
        """An object without an answer in it is a clear error."""
        with pytest.raises(ModelError, match=words):
            list(ResponsesReader(Completion()).whole(body))
