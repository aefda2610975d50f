"""Errors, broken answers and recordings of the scripted server, read with the openai client and without it."""

import http.client
import json

import openai
import pytest
from scripted_client import ASK, ask, post, said

from cyclops_nb.errors import ConfigError
from cyclops_nb.testing import (
    ScriptedServer,
    cut,
    end,
    error,
    error_in_stream,
    raw,
    replay,
    reply,
    text,
)

NOW = {"retry-after-ms": "1"}


class TestErrors:
    def test_an_error_has_openais_form(self):
        """An error comes as the openai exception of its status, with all its fields and headers."""
        failure = error(429, "Slow down", code="rate_limit_exceeded", headers={"Retry-After": "7"})
        with ScriptedServer([failure]) as server, pytest.raises(openai.RateLimitError) as caught:
            ask(server)
        assert caught.value.body == {
            "message": "Slow down",
            "type": "rate_limit_error",
            "param": None,
            "code": "rate_limit_exceeded",
        }
        assert caught.value.response.headers["retry-after"] == "7"
        assert server.requests[0].status == 429

    def test_a_client_that_tries_again_gets_the_next_reply(self):
        """Each try of the client is a request of its own."""
        with ScriptedServer([error(503, "busy", headers=NOW), text("Hello")]) as server:
            assert ask(server, retries=1).choices[0].message.content == "Hello"
        assert [request.status for request in server.requests] == [503, 200]

    def test_an_error_status_is_needed(self):
        """A status that is no error is an error of the script."""
        with pytest.raises(ConfigError, match="400 to 599"):
            error(200, "fine")

    @pytest.mark.parametrize("header", [{"a b": "c"}, {"a": "b\r\nc: d"}, {"a": "…"}])
    def test_headers_must_be_headers(self, header):
        """A header that HTTP cannot carry is an error of the script."""
        with pytest.raises(ConfigError, match="HTTP header"):
            error(500, "no", headers=header)

    def test_an_error_in_the_stream_comes_after_the_text(self):
        """The client has read the text when the error comes."""
        script = [reply(text("half"), error_in_stream("overloaded", code=503))] * 2
        with ScriptedServer(script) as server:
            with openai.OpenAI(base_url=server.base_url, api_key="k", max_retries=0) as client:
                chunks = iter(client.chat.completions.create(model="m", messages=ASK, stream=True))
                assert next(chunks).choices[0].delta.role == "assistant"
                assert next(chunks).choices[0].delta.content == "half"
                with pytest.raises(openai.APIError, match="overloaded"):
                    next(chunks)
            with pytest.raises(openai.InternalServerError, match="overloaded"):
                ask(server)

    def test_a_cut_breaks_the_body(self):
        """A cut after some text leaves the client with a body that has no end."""
        with ScriptedServer([reply(text("half"), cut())]) as server:
            with pytest.raises(http.client.IncompleteRead) as caught:
                post(server, json.dumps({"model": "m", "messages": ASK, "stream": True}).encode())
            assert b"half" in caught.value.partial
            server.wait_disconnected()

    def test_a_cut_at_the_beginning_is_no_answer(self):
        """A cut before anything else closes the connection without an answer."""
        with ScriptedServer(reply(cut())) as server:
            with pytest.raises(openai.APIConnectionError):
                ask(server, stream=True)
            with pytest.raises(openai.APIConnectionError):
                ask(server)
        assert [request.status for request in server.requests] == [None, None]

    def test_an_end_is_a_body_without_a_finish(self):
        """The stream ends in good order, but no chunk says why and no [DONE] comes."""
        with ScriptedServer(reply(text("half"), end())) as server:
            _, body = post(server, json.dumps({"model": "m", "messages": ASK, "stream": True}).encode())
            assert b"half" in body
            assert b"[DONE]" not in body
            assert b'"finish_reason":"' not in body
            assert ask(server).choices[0].finish_reason is None


class TestRecordings:
    STREAM = (
        b'data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":'
        b'[{"index":0,"delta":{"role":"assistant","content":"Gr\xc3\xbc\xc3\x9fe: \xe2\x80\xa8"}}]}\n\n'
        b": a comment\n\ndata: [DONE]\n\n"
    )

    @pytest.fixture
    def recording(self, tmp_path):
        """Make a file with a recorded stream."""
        path = tmp_path / "answer.sse"
        path.write_bytes(self.STREAM)
        return path

    def test_a_recording_is_sent_as_it_is(self, recording):
        """The body is the file, byte for byte."""
        with ScriptedServer(replay(recording)) as server:
            response, body = post(server)
        assert body == self.STREAM
        assert response.getheader("content-type") == "text/event-stream"

    @pytest.mark.parametrize("split", [None, 1, 7])
    @pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
    def test_the_client_reads_any_line_ends_and_splits(self, recording, split, newline):
        """The same events come in other line ends and in pieces of some bytes."""
        with ScriptedServer(replay(recording, split=split, newline=newline)) as server:
            assert said(ask(server, stream=True)) == "Grüße: \u2028"

    def test_bytes_come_one_by_one(self):
        """With a split of 1 each byte is an HTTP chunk, so that no client reads two at once."""
        with (
            ScriptedServer(raw(b"abc", split=1)) as server,
            openai.OpenAI(base_url=server.base_url, api_key="k") as client,
            client.chat.completions.with_streaming_response.create(model="m", messages=ASK) as answer,
        ):
            assert list(answer.iter_bytes()) == [b"a", b"b", b"c"]

    def test_the_form_of_the_lines_can_be_chosen(self, recording):
        """A byte order mark, other line ends and no blank after the colon are ways to write the same."""
        body = replay(recording, newline="\r\n", bom=True, space=False).body
        assert body.startswith(b'\xef\xbb\xbfdata:{"id"')
        assert body.endswith(b"\r\n\r\ndata:[DONE]\r\n\r\n")
        assert b"Gr\xc3\xbc\xc3\x9fe: " in body

    @pytest.mark.parametrize("options", [{"split": 0}, {"newline": "\u2028"}])
    def test_options_that_cannot_be_are_refused(self, recording, options):
        """A split of no bytes and an odd line end are errors of the script."""
        with pytest.raises(ConfigError, match=r"split|newline"):
            replay(recording, **options)

    def test_a_missing_file_is_told(self, tmp_path):
        """A path that cannot be read is an error that names it."""
        with pytest.raises(ConfigError, match=r"none\.sse"):
            replay(tmp_path / "none.sse")

    def test_bytes_can_be_anything(self):
        """A raw answer has the status, the type, the headers and the body that the script says."""
        html = raw(b"<h1>Bad</h1>", content_type="text/html", status=502, headers={"X-A": "b"})
        with ScriptedServer(html) as server:
            response, body = post(server)
        assert (response.status, body) == (502, b"<h1>Bad</h1>")
        assert (response.getheader("content-type"), response.getheader("x-a")) == ("text/html", "b")

    def test_an_empty_body_is_an_answer(self):
        """An answer without a body ends all the same."""
        with ScriptedServer([raw(b""), raw(b"", split=1)]) as server:
            assert [post(server)[1], post(server)[1]] == [b"", b""]
