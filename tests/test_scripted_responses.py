"""What the scripted server answers under the Responses API, read with the openai client as its users do."""

import json

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_client import post

from cyclops_nb.testing import (
    ScriptedServer,
    cut,
    delay,
    end,
    error,
    error_in_stream,
    gate,
    raw,
    reasoning,
    reply,
    text,
    tool_call,
    tool_calls,
)
from cyclops_nb.testing.answers import answer_to

ASK = [{"role": "user", "content": [{"type": "input_text", "text": "How warm is it?"}]}]
BODY = {"model": "m", "input": ASK}


def ask(server, items=ASK, *, retries=0, **parameters):
    """Send one request with a client of its own."""
    with openai.OpenAI(base_url=server.base_url, api_key="any", max_retries=retries) as client:
        answer = client.responses.create(model="m", input=items, **parameters)
        return list(answer) if parameters.get("stream") else answer


def types(events):
    """Return the types of events, without what they all begin with."""
    return [event.type.removeprefix("response.") for event in events]


class TestText:
    def test_a_request_is_answered_with_one_response(self):
        """A request that is not streamed gets the text as one message."""
        with ScriptedServer([text("Hello world")]) as server:
            answer = ask(server)
        assert (answer.object, answer.status, answer.output_text) == ("response", "completed", "Hello world")
        assert [item.type for item in answer.output] == ["message"]

    def test_a_stream_comes_word_by_word(self):
        """A stream tells the item, its part, a delta for each word, and the end of each."""
        with ScriptedServer([text("Hello  wide\nworld ")]) as server:
            events = ask(server, stream=True)
        assert types(events) == [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            *["output_text.delta"] * 4,
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed",
        ]
        assert [event.delta for event in events[4:8]] == ["Hello", "  wide", "\nworld", " "]
        assert events[-1].response.output_text == events[8].text == "Hello  wide\nworld "
        assert [event.sequence_number for event in events] == list(range(len(events)))

    def test_pieces_of_text_are_one_message(self):
        """Texts with a gate or a pause between them are one message, as they are in a chat completion."""
        door = gate()
        door.release()
        with ScriptedServer(reply(text("a b", delay=0.001), door, delay(0.001), text(" c"))) as server:
            events, whole = ask(server, stream=True), ask(server)
        assert [event.delta for event in events if event.type == "response.output_text.delta"] == ["a", " b", " c"]
        assert [item.content[0].text for item in events[-1].response.output] == ["a b c"]
        assert whole.output_text == "a b c"

    def test_a_surrogate_pair_may_lie_in_two_chunks(self):
        """Half a character goes out as an escape, and the whole text is whole."""
        with ScriptedServer(text("a😀", chunks=["a\ud83d", "\ude00"])) as server:
            _, streamed = post(server, json.dumps({**BODY, "stream": True}).encode(), path="/responses")
            _, whole = post(server, json.dumps(BODY).encode(), path="/responses")
        assert rb'"a\ud83d"' in streamed
        assert json.loads(whole)["output"][0]["content"][0]["text"] == "a😀"

    def test_an_empty_text_is_an_answer(self):
        """A reply without text, and one without anything, are complete all the same."""
        with ScriptedServer([text(""), reply()]) as server:
            first, second = ask(server, stream=True), ask(server, stream=True)
        assert first[-1].response.status == second[-1].response.status == "completed"
        assert [len(events[-1].response.output) for events in (first, second)] == [1, 0]

    def test_the_model_can_be_chosen(self):
        """The answer names the request's model, or the one that the script says."""
        with ScriptedServer([text("a"), text("b", model="other")]) as server:
            assert [ask(server).model, ask(server).model] == ["m", "other"]

    @pytest.mark.parametrize(
        ("reason", "told"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
    )
    def test_an_answer_may_be_cut(self, reason, told):
        """What chat completions call a finish reason is an incomplete response here."""
        with ScriptedServer(text("Hello", finish_reason=reason)) as server:
            events, whole = ask(server, stream=True), ask(server)
        assert events[-1].type == "response.incomplete"
        for response in (events[-1].response, whole):
            assert (response.status, response.incomplete_details.reason) == ("incomplete", told)


class TestUsage:
    def test_words_are_counted_by_default(self):
        """The words of instructions, texts, calls, results and the answer are counted."""
        items = [
            *ASK,
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}'},
            {"type": "function_call_output", "call_id": "c", "output": "quite warm"},
        ]
        with ScriptedServer([reply(reasoning("Three words here"), text("Quite warm"))]) as server:
            usage = ask(server, items, instructions="Be brief.").usage
        assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (10, 5, 15)

    def test_numbers_are_reported_as_they_are_given(self):
        """A pair of numbers and its details are what the server reports, streamed or not, asked for or not."""
        with ScriptedServer(text("Hi", usage=(12, 3), cached=8, reasoning_tokens=2, cost=0.5)) as server:
            for usage in (ask(server).usage, ask(server, stream=True)[-1].response.usage):
                assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (12, 3, 15)
                assert usage.input_tokens_details.cached_tokens == 8
                assert usage.output_tokens_details.reasoning_tokens == 2
                assert usage.cost == 0.5

    def test_none_is_no_report(self):
        """A server can be one that reports no usage."""
        with ScriptedServer(text("Hi", usage=None)) as server:
            assert ask(server).usage is None


class TestItems:
    def test_a_call_is_an_item(self):
        """A call comes with id, name and arguments in pieces, then whole."""
        with ScriptedServer([tool_call("f", '{"a": [1, 2]}', id="x", chunks=3)]) as server:
            events = ask(server, stream=True)
        assert types(events)[2:-1] == [
            "output_item.added",
            *["function_call_arguments.delta"] * 3,
            "function_call_arguments.done",
            "output_item.done",
        ]
        item = events[-1].response.output[0]
        assert (item.type, item.call_id, item.name, item.arguments) == ("function_call", "x", "f", '{"a": [1, 2]}')
        assert "".join(event.delta for event in events[3:6]) == events[6].arguments == item.arguments

    def test_calls_have_ids_of_their_own(self):
        """Calls in one answer are items in order, and ids are made up where the script gives none."""
        with ScriptedServer(tool_calls(tool_call("f"), tool_call("g", id="mine"), tool_call("h"))) as server:
            output = ask(server).output
        assert [(item.call_id, item.name) for item in output] == [("call_1", "f"), ("mine", "g"), ("call_3", "h")]
        assert len({item.id for item in output}) == 3

    def test_reasoning_has_a_summary(self):
        """Reasoning is an item with a summary, encrypted where that is asked for."""
        with ScriptedServer(reply(reasoning("They greet.", field="reasoning"), text("Hi"), tool_call("f"))) as server:
            events = ask(server, stream=True, include=["reasoning.encrypted_content"])
            plain = ask(server).output[0]
        output = events[-1].response.output
        assert [item.type for item in output] == ["reasoning", "message", "function_call"]
        assert output[0].summary[0].text == "They greet."
        assert output[0].encrypted_content.startswith("scripted:")
        assert plain.encrypted_content is None
        deltas = [event.delta for event in events if event.type == "response.reasoning_summary_text.delta"]
        assert deltas == ["They", " greet."]

    def test_only_the_finished_item_has_what_is_to_be_sent_back(self):
        """What is encrypted in the first event of an item is not what is in the last."""
        with ScriptedServer(reasoning("hm")) as server:
            events = ask(server, stream=True, include=["reasoning.encrypted_content"])
        first, last = (event.item for event in events if event.type.startswith("response.output_item"))
        assert first.encrypted_content != last.encrypted_content


class TestFailures:
    def test_an_error_is_an_http_error(self):
        """Errors are answered as they are in the other API."""
        with ScriptedServer([error(429, "Slow down", code="c")]) as server, pytest.raises(openai.RateLimitError) as got:
            ask(server)
        assert got.value.body["code"] == "c"

    def test_an_error_in_the_stream_is_an_event(self):
        """The error comes after the text, and nothing after the error; where nothing is streamed it is a 500."""
        with ScriptedServer(reply(text("half"), error_in_stream("overloaded", code="busy"))) as server:
            _, body = post(server, json.dumps({**BODY, "stream": True}).encode(), path="/responses")
            with pytest.raises(openai.InternalServerError, match="overloaded"):
                ask(server)
        last = json.loads(body.strip().rpartition(b"data: ")[2])
        assert (last["type"], last["message"], last["code"]) == ("error", "overloaded", "busy")

    def test_an_end_is_a_stream_without_its_last_event(self):
        """The stream ends in good order, but neither the item nor the response is done."""
        with ScriptedServer(reply(text("half"), end())) as server:
            events, whole = ask(server, stream=True), ask(server)
        assert types(events)[-1] == "output_text.delta"
        assert whole.status == "in_progress"

    def test_a_cut_breaks_the_body(self):
        """A cut leaves the client without an end."""
        with ScriptedServer(reply(text("half"), cut())) as server, pytest.raises(openai.APIConnectionError):
            ask(server)

    def test_bytes_are_sent_as_they_are(self):
        """Recorded bytes are the body."""
        event = b'event: response.created\ndata: {"type": "response.created"}\n\n'
        with ScriptedServer([raw(event)]) as server:
            assert post(server, json.dumps(BODY).encode(), path="/responses")[1] == event


class TestRules:
    def test_requests_are_recorded(self):
        """Items can be looked at, an input that is a text as the message that it stands for."""
        with ScriptedServer(text("a")) as server:
            ask(server)
            ask(server, "Hi")
        assert server.completions[0].input == ASK
        assert server.completions[1].input == [{"role": "user", "content": "Hi"}]
        assert server.completions[0].messages == []

    @pytest.mark.parametrize("name", ["temperature", "text.format", "reasoning.effort"])
    def test_parameters_can_be_refused(self, name):
        """A server can be one that does not know a parameter, or one inside another."""
        given = {"temperature": 1, "text": {"format": {"type": "text"}}, "reasoning": {"effort": "low"}}
        with ScriptedServer(text("a"), refuse_parameters=[name]) as server:
            with pytest.raises(openai.BadRequestError, match=f"Unknown parameter: '{name}'") as caught:
                ask(server, **given)
            assert ask(server).output_text == "a"
        assert caught.value.param == name


class TestAnyText:
    @settings(deadline=None)
    @given(st.text(alphabet=st.characters(exclude_categories=())), st.data())
    def test_any_text_in_any_chunks_is_streamed_whole(self, content, data):
        """Whatever the text and the cuts, the deltas of the stream make up the text."""
        chunks = data.draw(st.none() | st.integers(1, max(len(content), 1)))
        (body,) = answer_to(text(content, chunks=chunks), {"stream": True}, 1, "responses").actions
        events = [json.loads(frame.partition(b"data: ")[2]) for frame in body.strip().split(b"\n\n")]
        deltas = [event["delta"] for event in events if event["type"].endswith(".delta")]
        assert "".join(deltas).encode("utf-16", "surrogatepass") == content.encode("utf-16", "surrogatepass")
