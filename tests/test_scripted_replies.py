"""What the scripted server answers, read with the openai client as its users do."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_client import ASK, ask, post, said, stream

from cyclops_nb.errors import ConfigError
from cyclops_nb.testing import (
    ScriptedServer,
    cut,
    delay,
    end,
    error,
    error_in_stream,
    reasoning,
    reply,
    text,
    tool_call,
    tool_calls,
)
from cyclops_nb.testing.answers import answer_to


class TestText:
    def test_a_request_is_answered_with_one_message(self):
        """A request that is not streamed gets the text as one chat completion."""
        with ScriptedServer([text("Hello world")]) as server:
            answer = ask(server)
        assert answer.object == "chat.completion"
        assert answer.choices[0].message.content == "Hello world"
        assert answer.choices[0].finish_reason == "stop"

    def test_a_stream_comes_word_by_word(self):
        """A stream is a chunk with the role, one for each word, one with the reason, one with usage."""
        with ScriptedServer([text("Hello  wide\nworld ")]) as server:
            chunks = stream(server)
        deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
        assert deltas[0].role == "assistant"
        assert [delta.content for delta in deltas[1:-1]] == ["Hello", "  wide", "\nworld", " "]
        assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * 5 + ["stop"]
        assert chunks[-1].choices == []
        assert chunks[-1].usage.total_tokens == 7

    def test_usage_is_streamed_only_where_it_is_asked_for(self):
        """Without include_usage no chunk of a stream has usage."""
        with ScriptedServer(text("Hello", usage=(1, 2))) as server:
            chunks = ask(server, stream=True)
        assert [chunk.usage for chunk in chunks] == [None] * 3

    @pytest.mark.parametrize(
        ("chunks", "expected"),
        [(1, ["Hello"]), (2, ["He", "llo"]), (5, list("Hello")), (["Hel", "lo"], ["Hel", "lo"])],
    )
    def test_the_chunks_can_be_chosen(self, chunks, expected):
        """A number of chunks or the chunks themselves say how a text is cut."""
        with ScriptedServer(text("Hello", chunks=chunks)) as server:
            received = stream(server)
        assert [chunk.choices[0].delta.content for chunk in received[1:-2]] == expected

    @pytest.mark.parametrize("chunks", [0, 6, ["Hel", "o"], []])
    def test_chunks_that_are_not_the_text_are_refused(self, chunks):
        """A number of chunks that cannot be, or chunks of another text, are an error of the script."""
        with pytest.raises(ConfigError, match="chunks"):
            text("Hello", chunks=chunks)

    def test_a_surrogate_pair_may_lie_in_two_chunks(self):
        """Half a character goes out as an escape, as from servers that cut between UTF-16 units."""
        with ScriptedServer(text("a😀", chunks=["a\ud83d", "\ude00"])) as server:
            _, streamed = post(server, json.dumps({"model": "m", "messages": ASK, "stream": True}).encode())
            _, whole = post(server)
        assert rb'"a\ud83d"' in streamed
        assert json.loads(whole)["choices"][0]["message"]["content"] == "a😀"

    def test_characters_go_out_as_utf_8(self):
        """Text beyond ASCII is sent in UTF-8, not as escapes."""
        with ScriptedServer(text("Grüße 👋")) as server:
            _, body = post(server)
        assert "Grüße 👋".encode() in body

    def test_an_empty_text_is_an_answer(self):
        """A reply without text is a complete stream all the same."""
        with ScriptedServer([text(""), reply()]) as server:
            first, second = stream(server), stream(server)
        assert said(first) == said(second) == ""
        assert first[-2].choices[0].finish_reason == second[-2].choices[0].finish_reason == "stop"

    def test_the_model_is_the_one_asked_for(self):
        """The answer names the request's model, or the one that the script says."""
        with ScriptedServer([text("a"), text("b", model="other-model")]) as server:
            assert ask(server, model="m-1").model == "m-1"
            assert ask(server, model="m-1").model == "other-model"

    def test_the_finish_reason_can_be_chosen(self):
        """A script may say that the answer was cut by its length."""
        with ScriptedServer(text("Hello", finish_reason="length")) as server:
            assert ask(server).choices[0].finish_reason == "length"
            assert stream(server)[-2].choices[0].finish_reason == "length"


class TestUsage:
    def test_words_are_counted_by_default(self):
        """Without a word about usage the words of all messages and of the answer are counted."""
        messages = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "How warm is it?"}]},
        ]
        with ScriptedServer([reply(reasoning("Three words here"), text("Quite warm"))]) as server:
            usage = ask(server, messages).usage
        assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (6, 5, 11)

    def test_numbers_are_reported_as_they_are_given(self):
        """A pair of numbers is what the server reports, streamed or not."""
        with ScriptedServer(text("Hi", usage=(12, 3), cached=8, reasoning_tokens=2, cost=0.5)) as server:
            for usage in (ask(server).usage, stream(server)[-1].usage):
                assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (12, 3, 15)
                assert usage.prompt_tokens_details.cached_tokens == 8
                assert usage.completion_tokens_details.reasoning_tokens == 2
                assert usage.cost == 0.5

    def test_an_object_is_sent_as_it_is(self):
        """A mapping is the usage object, odd or not."""
        with ScriptedServer(text("Hi", usage={"prompt_tokens": 7, "odd": None})) as server:
            _, body = post(server)
        assert json.loads(body)["usage"] == {"prompt_tokens": 7, "odd": None}

    def test_none_is_no_report(self):
        """A server can be one that reports no usage, also when it is asked."""
        with ScriptedServer(text("Hi", usage=None)) as server:
            assert ask(server).usage is None
            assert all(chunk.usage is None for chunk in stream(server))

    def test_details_need_a_report(self):
        """A cost in a report that is not sent is an error of the script."""
        with pytest.raises(ConfigError, match="usage=None"):
            text("Hi", usage=None, cost=0.1)


class TestCalls:
    def test_a_call_is_one_message(self):
        """A tool call comes with an id, its JSON arguments and its finish reason."""
        with ScriptedServer([tool_call("get_weather", {"city": "Zürich"})]) as server:
            choice = ask(server).choices[0]
        (call,) = choice.message.tool_calls
        assert (call.id, call.function.name) == ("call_1", "get_weather")
        assert json.loads(call.function.arguments) == {"city": "Zürich"}
        assert (choice.message.content, choice.finish_reason) == (None, "tool_calls")

    def test_a_streamed_call_brings_its_arguments_in_pieces(self):
        """The first delta of a call has id and name, the later ones parts of the arguments."""
        with ScriptedServer([tool_call("f", '{"a": [1, 2]}', id="x", chunks=3)]) as server:
            chunks = stream(server)
        deltas = [chunk.choices[0].delta.tool_calls[0] for chunk in chunks[1:-2]]
        assert (deltas[0].id, deltas[0].function.name, deltas[0].function.arguments) == ("x", "f", "")
        assert [delta.id for delta in deltas[1:]] == [None] * 3
        assert "".join(delta.function.arguments for delta in deltas) == '{"a": [1, 2]}'

    def test_parallel_calls_have_indexes_and_ids_of_their_own(self):
        """Calls in one message are numbered in order, and ids are made up where the script gives none."""
        script = tool_calls(tool_call("f"), tool_call("g", id="mine"), tool_call("h"))
        with ScriptedServer(script) as server:
            whole = ask(server).choices[0].message.tool_calls
            deltas = [chunk.choices[0].delta.tool_calls for chunk in stream(server)[1:-2]]
        assert [(call.id, call.function.name) for call in whole] == [("call_1", "f"), ("mine", "g"), ("call_3", "h")]
        assert [(part.index, part.id) for (part,) in deltas if part.id] == [(0, "call_1"), (1, "mine"), (2, "call_3")]

    def test_arguments_may_be_anything(self):
        """A string goes out as it stands, so that broken JSON can be tried."""
        with ScriptedServer([tool_call("f", '{"a": '), tool_call("f", "")]) as server:
            assert ask(server).choices[0].message.tool_calls[0].function.arguments == '{"a": '
            assert ask(server).choices[0].message.tool_calls[0].function.arguments == ""


class TestReply:
    def test_pieces_make_one_message_in_their_order(self):
        """Reasoning, text and calls come in the order of the script, in one message."""
        script = reply(reasoning("hm"), text("ok"), tool_call("f"), usage=(5, 6))
        with ScriptedServer(script) as server:
            chunks, whole = stream(server), ask(server)
        kinds = [
            "reasoning" if hasattr(delta, "reasoning_content") else "call" if delta.tool_calls else "text"
            for delta in (chunk.choices[0].delta for chunk in chunks[1:-2])
        ]
        assert kinds == ["reasoning", "text", "call", "call"]
        message = whole.choices[0].message
        assert (message.reasoning_content, message.content, len(message.tool_calls)) == ("hm", "ok", 1)
        assert whole.usage.total_tokens == chunks[-1].usage.total_tokens == 11
        assert whole.choices[0].finish_reason == "tool_calls"

    def test_the_field_of_reasoning_can_be_chosen(self):
        """Reasoning goes into the field that the imitated server uses."""
        with ScriptedServer([reply(reasoning("hm", field="reasoning"), text("ok"))]) as server:
            assert ask(server).choices[0].message.reasoning == "hm"

    def test_settings_of_parts_hold_unless_the_reply_says_otherwise(self):
        """What a part says about the message holds for the whole; the reply's own word wins."""
        parts = (text("a", usage=(1, 2), model="x"), tool_call("f", model="y"))
        assert (reply(*parts).usage, reply(*parts).model) == ((1, 2), "y")
        assert reply(*parts, usage=None).usage is None

    @pytest.mark.parametrize("part", ["text", None, error(500, "no")])
    def test_what_is_no_piece_is_refused(self, part):
        """A part that cannot stand inside a message is an error of the script."""
        with pytest.raises(ConfigError, match="cannot be a part"):
            reply(text("a"), part)

    @pytest.mark.parametrize("last", [cut(), end(), error_in_stream("no")])
    def test_nothing_follows_the_end(self, last):
        """A piece after the one that ends the stream is an error of the script."""
        with pytest.raises(ConfigError, match="nothing can follow"):
            reply(last, text("more"))

    def test_a_delay_lies_between_what_is_sent(self):
        """With a delay the chunks are sent one by one, and arrive whole."""
        with ScriptedServer(reply(text("a b c", delay=0.001), delay(0.001), text(" d"))) as server:
            assert said(ask(server, stream=True)) == "a b c d"
            assert ask(server).choices[0].message.content == "a b c d"


class TestAnyText:
    @settings(deadline=None)
    @given(st.text(alphabet=st.characters(exclude_categories=())), st.data())
    def test_any_text_in_any_chunks_is_streamed_whole(self, content, data):
        """Whatever the text and the cuts, the deltas of the stream make up the text."""
        chunks = data.draw(st.none() | st.integers(1, max(len(content), 1)))
        stream_of = answer_to(text(content, chunks=chunks), {"stream": True}, 1)
        (body,) = stream_of.actions
        frames = [json.loads(line.removeprefix(b"data: ")) for line in body.split(b"\n\n")[:-2]]
        deltas = [frame["choices"][0]["delta"].get("content", "") for frame in frames]
        whole = json.loads(answer_to(text(content), {}, 1).actions[0])["choices"][0]["message"]["content"]
        assert "".join(deltas).encode("utf-16", "surrogatepass") == content.encode("utf-16", "surrogatepass")
        assert whole.encode("utf-16", "surrogatepass") == content.encode("utf-16", "surrogatepass")
