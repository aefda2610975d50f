"""What becomes of a run when its server refuses, fails, stalls, or answers nonsense."""

import asyncio
import contextlib
import json
import socket
import threading
import traceback

import openai
import pytest
from scenarios import FORMS, agent_for, begin, call, note, shape

from cyclops_nb import (
    Agent,
    ConfigError,
    ContextOverflowError,
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
    RateLimitError,
    Session,
    Usage,
)
from cyclops_nb.testing import cut, end, error, error_in_stream, gate, raw, reasoning, reply, text, tool_call

HTML = b"<html><body><h1>Bad gateway</h1></body></html>"


def chunk(**fields):
    """Return a frame of a stream."""
    return (
        b"data: "
        + json.dumps({"id": "c", "object": "chat.completion.chunk", "model": "m", **fields}).encode()
        + b"\n\n"
    )


def said(content, reason=None):
    """Return a frame with a piece of text."""
    return chunk(choices=[{"index": 0, "delta": {"content": content}, "finish_reason": reason}])


def fails(agent, session=None, **settings):
    """Run into an error, look at what holds for all of them, and return it."""
    session = session or Session()
    before = shape(session)
    response = agent.run_with_response("go", session=session, **settings)
    assert isinstance(response.error, ModelError)
    assert response.stop_reason == "error"
    assert shape(session) == before + "u"
    assert not session.busy
    assert session.runs[-1].error.type == type(response.error).__name__
    assert session.runs[-1].error.message == str(response.error)
    assert_no_http_library(response.error)
    return response.error


def assert_no_http_library(failure):
    """Check that nobody who looks at an error sees the HTTP library."""
    assert type(failure).__module__ == "cyclops_nb.errors"
    cause = failure.__cause__
    assert cause is None or isinstance(cause, openai.OpenAIError)
    assert "httpx" not in str(failure)
    assert "httpcore" not in str(failure)
    if cause is None:
        shown = "".join(traceback.format_exception(failure))
        assert "httpx" not in shown.replace("site-packages/httpx", "")


class TestStatuses:
    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (400, ModelError),
            (401, ModelError),
            (403, ModelError),
            (404, ModelError),
            (422, ModelError),
            (429, RateLimitError),
            (408, ModelTimeoutError),
            (500, ModelError),
            (503, ModelError),
            (504, ModelTimeoutError),
        ],
    )
    def test_each_status(self, ask, status, kind):
        """The error has the server's words, status, host and code, and the client's exception as its cause."""
        agent = ask(error(status, "Not today.", code="why"), text("fine"))
        session = Session()
        failure = fails(agent, session)
        assert type(failure) is kind
        assert (failure.message, failure.status, failure.host, failure.code) == (
            "Not today.",
            status,
            "127.0.0.1",
            "why",
        )
        assert str(failure) == f"Not today. (host 127.0.0.1, status {status})"
        assert isinstance(failure.__cause__, openai.APIStatusError)
        assert agent.run("again", session=session) == "fine"
        assert len(agent.server.completions) == 2

    @pytest.mark.parametrize("form", FORMS)
    def test_every_form_raises_it(self, ask, form):
        """All forms fail with the same error."""
        with pytest.raises(ModelError, match=r"Not today\. \(host 127\.0\.0\.1, status 400\)"):
            call(ask(error(400, "Not today.")), form, "go")

    @pytest.mark.parametrize(
        ("message", "code"),
        [
            ("This model's maximum context length is 8192 tokens. However, your messages resulted in 9000.", None),
            ("too long", "context_length_exceeded"),
            ("prompt is too long: 212345 tokens > 200000 maximum", "invalid_request_error"),
            ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", "400"),
            ("This model's maximum prompt length is 131072 but the request contains 140000 tokens.", None),
            ("Your request exceeded model token limit: 8192 (requested: 9000)", "invalid_request_error"),
            ("Please reduce the length of the messages or completion.", None),
            ("the request exceeds the available context size, try increasing it", "exceed_context_size_error"),
        ],
    )
    def test_context_overflow(self, ask, message, code):
        """A request that is too long for the model has a class of its own, also inside a stream."""
        agent = ask(error(400, message, code=code), reply(error_in_stream(message, code=code)))
        assert type(fails(agent)) is ContextOverflowError
        failure = fails(agent)
        assert type(failure) is ContextOverflowError
        assert failure.host == "127.0.0.1"

    def test_a_body_that_is_html(self, ask):
        """An error page of a proxy is told as what it is."""
        failure = fails(ask(raw(HTML, content_type="text/html", status=502)))
        assert failure.status == 502
        assert "Bad gateway" in str(failure)

    def test_an_empty_body(self, ask):
        """A refusal without a word still says its status."""
        failure = fails(ask(raw(b"", content_type="text/plain", status=403)))
        assert failure.status == 403

    def test_a_wrong_key(self, serve):
        """The key is not repeated in the error."""
        agent = agent_for(serve(text("x"), require_key="right"), api_key="sk-secret-and-wrong")
        failure = fails(agent)
        assert failure.status == 401
        assert "secret" not in str(failure)

    def test_usage_is_not_touched_by_a_refusal(self, ask):
        """A refused request consumed nothing, and the run knows all it used."""
        agent = ask(tool_call("note", {"n": 1}, usage=(5, 1)), error(400, "no"), tools=[note])
        response = agent.run_with_response("go")
        assert (response.usage, response.run.usage_complete) == (Usage(1, 5, 1), True)


class TestRetries:
    def test_retry_after_is_heard(self, ask):
        """A rate limit is waited for as the server says, and the answer comes after it."""
        agent = ask(error(429, "slow down", headers={"retry-after-ms": "1"}), text("fine"), max_retries=1)
        session = Session()
        assert agent.run("go", session=session) == "fine"
        assert (shape(session), len(agent.server.completions)) == ("ua", 2)
        assert session.usage.requests == 1

    def test_retries_end(self, ask):
        """After max_retries the server's last word is the error."""
        failure = fails(ask(*[error(429, f"no {n}", headers={"retry-after-ms": "1"}) for n in range(3)], max_retries=2))
        assert (type(failure), failure.message) == (RateLimitError, "no 2")

    def test_no_retries(self, ask):
        """With max_retries=0 nothing is sent twice."""
        agent = ask(error(503, "busy", headers={"retry-after-ms": "1"}), text("never"))
        fails(agent)
        assert len(agent.server.completions) == 1

    def test_a_quota_is_not_asked_again(self, ask):
        """What the server says not to be worth a retry is told at once."""
        agent = ask(
            error(
                429, "You exceeded your current quota", code="insufficient_quota", headers={"x-should-retry": "false"}
            ),
            max_retries=5,
        )
        assert fails(agent).code == "insufficient_quota"


class TestInsideTheStream:
    def test_an_error_frame(self, ask):
        """An error after the status 200 fails the completion with the server's words; nothing of it is kept."""
        agent = ask(
            reply(
                reasoning("hm"), text("I will"), tool_call("note", {"n": 1}), error_in_stream("upstream down", code=502)
            ),
            text("fine"),
            tools=[note],
        )
        session = Session()
        response = agent.run_with_response("go", session=session)
        assert (response.error.message, response.error.code, response.error.host) == (
            "upstream down",
            "502",
            "127.0.0.1",
        )
        assert (response.partial, shape(session)) == ("I will", "u")
        assert_no_http_library(response.error)
        assert agent.run("again", session=session) == "fine"

    def test_an_event_named_error(self, ask):
        """`event: error` is an error too."""
        body = said("half") + b'event: error\ndata: {"message": "tool use failed", "code": "tool_use_failed"}\n\n'
        failure = fails(ask(raw(body)))
        assert (failure.message, failure.code) == ("tool use failed", "tool_use_failed")

    def test_an_error_as_plain_text(self, ask):
        """An error that is a string is told as it is."""
        failure = fails(ask(raw(said("half") + b'data: {"error": "out of memory"}\n\n')))
        assert failure.message == "out of memory"

    def test_usage_in_an_error_chunk_counts(self, ask):
        """What the server reports beside its error was consumed."""
        usage = {"prompt_tokens": 40, "completion_tokens": 10, "total_tokens": 50, "cost": 0.25}
        body = said("half") + chunk(choices=[], error={"code": 502, "message": "down"}, usage=usage)
        session = Session()
        response = ask(raw(body)).run_with_response("go", session=session)
        assert response.usage == session.usage == Usage(1, 40, 10)
        assert response.run.usage_complete
        assert response.cost == 0.25

    def test_an_error_without_usage(self, ask):
        """A completion that failed before its report adds nothing, and the run says that its usage is not all."""
        agent = ask(tool_call("note", {"n": 1}, usage=(5, 1)), reply(text("a"), error_in_stream("down")), tools=[note])
        response = agent.run_with_response("go")
        assert (response.usage, response.run.usage_complete) == (Usage(1, 5, 1), False)

    def test_a_connection_that_is_cut(self, ask):
        """A connection that breaks in the middle of the answer is a connection error."""
        agent = ask(reply(text("half an"), cut()), text("fine"))
        session = Session()
        response = agent.run_with_response("go", session=session)
        assert type(response.error) is ModelConnectionError
        assert response.partial == "half an"
        assert_no_http_library(response.error)
        assert response.error.host == "127.0.0.1"
        assert agent.run("again", session=session) == "fine"

    def test_a_connection_that_is_cut_before_any_answer(self, ask):
        """Neither status nor body: the server cannot be talked to."""
        failure = fails(ask(reply(cut())))
        assert type(failure) is ModelConnectionError
        assert isinstance(failure.__cause__, openai.APIConnectionError)

    def test_a_stream_that_just_ends(self, ask):
        """With neither a finish_reason nor [DONE] the completion has failed, a whole tool call in it or not."""
        for parts in ([text("half")], [tool_call("note", {"n": 1})], [text("")]):
            assert "ended early" in str(fails(ask(reply(*parts, end()), tools=[note])))

    def test_a_stream_that_ends_with_a_reason_alone(self, ask):
        """A finish_reason without [DONE] completes an answer, and so does [DONE] without a finish_reason."""
        agent = ask(raw(said("yes", "stop")), raw(said("yes") + b"data: [DONE]\n\n"))
        assert [agent.run("go"), agent.run("go")] == ["yes", "yes"]

    @pytest.mark.parametrize("body", [b"data: {oops}\n\n", b'data: {"choices": [\n\n', b"data: Internal error\n\n"])
    def test_a_chunk_that_is_no_json(self, ask, body):
        """Broken JSON in a frame fails the completion, and is shown."""
        failure = fails(ask(raw(said("half") + body + b"data: [DONE]\n\n")))
        assert "no JSON" in str(failure)

    def test_comments_and_empty_choices(self, ask):
        """Comment lines and chunks without choices are no trouble."""
        body = (
            b": PROCESSING\n\n"
            + chunk(choices=[], prompt_filter_results=[])
            + b": PROCESSING\n\n"
            + said("yes", "stop")
        )
        assert ask(raw(body + b"data: [DONE]\n\n")).run("go") == "yes"


def unfinished_generators():
    """Return the names of the running loop's asynchronous generators that stand in the middle."""
    generators = asyncio.get_running_loop()._asyncgens
    return [generator.__qualname__ for generator in generators if generator.ag_frame is not None]


LEAVERS = {
    "error frame": reply(text("a"), error_in_stream("x")),
    "broken JSON": raw(said("half") + b"data: {oops}\n\n" + said("never read") * 1000, split=64),
    "cut": reply(text("a"), cut()),
    "end": reply(text("a"), end()),
    "HTML": raw(HTML, content_type="text/html"),
    "done and more": raw(said("a", "stop") + b"data: [DONE]\n\n" + said("never read") * 1000, split=64),
    "good": text("a"),
}


class TestNothingIsLeft:
    @pytest.mark.parametrize("case", LEAVERS)
    def test_no_generator_is_left_to_the_garbage_collector(self, ask, case):
        """However an answer ends, the HTTP library's generators have ended with it, before the loop does."""

        async def main():
            response = await ask(LEAVERS[case]).arun_with_response("go")
            return response.stop_reason, unfinished_generators()

        reason, left = asyncio.run(main())
        assert reason == ("completed" if case in {"good", "done and more"} else "error")
        assert left == ["_hold"]

    @pytest.mark.parametrize("place", ["before", "inside"])
    def test_neither_after_a_cancel(self, ask, place):
        """A run that is cancelled leaves none either."""
        door = gate()

        async def main():
            agent = ask(reply(*([text("a")] if place == "inside" else []), door))
            task = asyncio.create_task(agent.arun("go"))
            await door.reached()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return unfinished_generators()

        assert asyncio.run(main()) == ["_hold"]


class TestOtherBodies:
    def test_html_with_status_200(self, ask):
        """A web page in place of an answer hints at base_url."""
        failure = fails(ask(raw(HTML, content_type="text/html")))
        assert "Bad gateway" in str(failure)
        assert "base_url" in str(failure)

    def test_plain_text_with_status_200(self, ask):
        """Some words in place of an answer are shown."""
        assert "no stream of events" in str(fails(ask(raw(b"It works!", content_type="text/plain"))))

    def test_nothing_with_status_200(self, ask):
        """An empty body is no answer."""
        fails(ask(raw(b"")))

    def test_json_in_place_of_a_stream(self, ask):
        """A server that does not stream is understood: text, calls and usage come all the same."""
        call_ = {"id": "c1", "type": "function", "function": {"name": "note", "arguments": '{"n": 1}'}}

        def body(message, reason):
            usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
            choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
            document = {"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
            return raw(json.dumps(document).encode(), content_type="application/json")

        agent = ask(
            body({"content": None, "tool_calls": [call_]}, "tool_calls"),
            body({"content": "done"}, "stop"),
            tools=[note],
        )
        response = agent.run_with_response("go")
        assert (response.content, response.usage) == ("done", Usage(2, 6, 4))
        assert [result.value for result in response.tool_results] == ["noted 1"]

    @pytest.mark.parametrize("document", [{"choices": []}, {"object": "chat.completion"}, [1], "text"])
    def test_json_without_an_answer(self, ask, document):
        """Valid JSON that holds no answer is a clear error."""
        fails(ask(raw(json.dumps(document).encode(), content_type="application/json")))

    def test_an_error_as_json_with_status_200(self, ask):
        """An error object is an error, whatever the status."""
        body = json.dumps({"error": {"message": "no such model", "code": 404}}).encode()
        assert fails(ask(raw(body, content_type="application/json"))).message == "no such model"


class TestUnsendable:
    """A request that cannot be sent is an error of ours, and shows no key."""

    @pytest.mark.parametrize("key", ["sk-geheim-ü", "sk-geheim\nsk-other", "sk-geheim …", "Bearer sk-geheim"])
    def test_a_broken_key(self, serve, key):
        """A key with characters that no key has is refused with the settings, and not shown."""
        with pytest.raises(ConfigError) as caught:
            agent_for(serve(text("a")), api_key=key)
        assert "geheim" not in "".join(traceback.format_exception(caught.value))

    def test_a_broken_key_in_the_environment(self, serve, monkeypatch):
        """One that comes from the environment is refused at once by the run, and not shown."""
        monkeypatch.setenv("OPENAI_BASE_URL", serve(text("a")).base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-geheim\nsk-other")
        session = Session()
        with pytest.raises(ConfigError) as caught:
            Agent("m").run("x", session=session)
        assert "geheim" not in "".join(traceback.format_exception(caught.value))
        assert session.runs == []

    @pytest.mark.parametrize("key", ["mine\n", " mine"])
    def test_blanks_around_a_key(self, serve, key):
        """A key read from a file works with the line's end."""
        assert agent_for(serve(text("a"), require_key="mine"), api_key=key).run("x") == "a"

    @pytest.mark.parametrize("headers", [{"X-Key": "geheim-ü"}, {"X-Key": "geheim\nb"}, {"X Key": "geheim"}])
    def test_a_broken_header(self, serve, headers):
        """A header that cannot be sent is refused with the settings, and its value is not shown."""
        with pytest.raises(ConfigError, match="default_headers") as caught:
            agent_for(serve(text("a")), default_headers=headers)
        assert "geheim" not in "".join(traceback.format_exception(caught.value))

    def test_a_port_that_does_not_exist(self):
        """An address that cannot be one is told in a sentence."""
        with pytest.raises(ConfigError, match=r"base_url.*port"):
            Agent("m", base_url="http://127.0.0.1:99999/v1")


class TestUnreachable:
    def test_nobody_listens(self):
        """The error names the address and asks the right questions."""
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
            port = listener.getsockname()[1]
        agent = Agent("m", base_url=f"http://127.0.0.1:{port}/v1", max_retries=0)
        failure = fails(agent)
        assert type(failure) is ModelConnectionError
        assert f"127.0.0.1:{port}" in str(failure)
        assert "is the server running" in str(failure)
        assert isinstance(failure.__cause__, openai.APIConnectionError)

    def test_nothing_was_consumed(self):
        """Where no connection came about, the usage is known: nothing."""
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
            port = listener.getsockname()[1]
        response = Agent("m", base_url=f"http://127.0.0.1:{port}/v1", max_retries=0).run_with_response("go")
        assert (response.usage, response.cost, response.run.usage_complete) == (Usage(), 0.0, True)

    def test_a_server_that_goes_away(self, serve):
        """A server that is no more is told as such, however good its last answer was."""
        server = serve(text("a"))
        agent = agent_for(server)
        session = Session()
        agent.run("x", session=session)
        server.stop()
        assert type(fails(agent, session)) is ModelConnectionError
        assert shape(session) == "uau"


class TestTimeouts:
    def test_before_the_answer(self, ask):
        """A server that says nothing within the timeout is a timeout, with its number in the text."""
        door = gate()
        failure = fails(ask(reply(door, text("late")), timeout=0.2))
        assert type(failure) is ModelTimeoutError
        assert "0.2 s" in str(failure)
        assert isinstance(failure.__cause__, openai.APITimeoutError)

    def test_in_the_middle_of_the_answer(self, ask):
        """A stream that stalls is a timeout; what had come is told as partial."""
        door = gate()
        agent = ask(reply(text("half"), door, text("late")), text("fine"), timeout=0.2)
        session = Session()
        response = agent.run_with_response("go", session=session)
        assert type(response.error) is ModelTimeoutError
        assert response.partial == "half"
        assert_no_http_library(response.error)
        assert agent.run("again", session=session) == "fine"

    def test_a_timeout_is_asked_again_if_retries_are_left(self, ask):
        """A retry after a timeout can still bring the answer."""
        door = gate()
        agent = ask(reply(door), text("fine"), timeout=0.2, max_retries=1)
        assert agent.run("go") == "fine"

    def test_of_connecting(self, serve):
        """A host that does not take the connection is told as such, and nothing was consumed."""
        base_url = serve(text("a")).base_url.replace("http", "https")
        session = Session()
        failure = fails(Agent("m", base_url=base_url, timeout=0.2, max_retries=0), session)
        assert type(failure) is ModelTimeoutError
        assert f"cannot connect to {base_url} within 0.2 s" in str(failure)
        assert session.runs[0].usage_complete

    def test_of_a_client_of_the_users_own(self, ask, serve):
        """The seconds are read from its timeout, of whatever kind that is."""
        server, door = serve(lambda request: reply(door)), gate()

        async def main(timeout):
            async with openai.AsyncOpenAI(
                base_url=server.base_url, api_key="k", timeout=timeout, max_retries=0
            ) as client:
                return str((await Agent("m", client=client).arun_with_response("go")).error)

        for timeout in (0.1, openai.Timeout(5, read=0.1)):
            assert "no answer within the timeout of 0.1 s" in asyncio.run(main(timeout))


class TestManyFailures:
    def test_a_session_goes_on_after_any_sequence(self, ask):
        """Whatever failed before, the strict server takes the next request of the same session."""
        failures = [
            error(500, "down"),
            reply(text("half"), cut()),
            reply(tool_call("note", '{"n"'), end()),
            raw(HTML, content_type="text/html"),
            reply(text("a"), error_in_stream("x")),
        ]
        agent = ask(*failures, text("fine"), tools=[note])
        session = Session()
        for _ in failures:
            fails(agent, session)
        assert agent.run("at last", session=session) == "fine"
        assert shape(session) == "u" * 6 + "a"
        assert len(session.runs) == 6

    def test_runs_side_by_side_fail_by_themselves(self, serve):
        """An error of one run does not touch another on the same client."""
        door = gate()

        def answer(request):
            return error(400, "no") if request.messages[-1]["content"] == "bad" else reply(door, text("good"))

        agent = agent_for(serve(answer))
        good = agent.start("good")
        door.wait_reached()
        assert isinstance(agent.run_with_response("bad").error, ModelError)
        door.release()
        assert good.result().content == "good"


class TestClients:
    def test_a_client_of_the_users_own(self, serve):
        """A client that is passed in is used as it is, with its key and address."""
        server = serve(text("a"), text("b"), require_key="mine")
        client = openai.AsyncOpenAI(base_url=server.base_url, api_key="mine")

        async def main():
            agent = Agent("m", client=client)
            answers = [await agent.arun("x"), await agent.arun("y")]
            await client.close()
            return answers

        assert asyncio.run(main()) == ["a", "b"]

    def test_it_is_used_on_one_loop(self, serve):
        """Used on a second loop it is refused with an error that says what to do."""
        server = serve(lambda request: text("a"))
        client = openai.AsyncOpenAI(base_url=server.base_url, api_key="k")
        agent = Agent("m", client=client)

        async def main():
            await agent.arun("x")
            with pytest.raises(ConfigError, match="another event loop"):
                agent.run("y")
            await client.close()

        asyncio.run(main())

    def test_no_key_is_sent_where_there_is_none(self, serve, monkeypatch):
        """OPENAI_API_KEY never goes to another base_url."""
        monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
        server = serve(text("a"), text("b"))
        Agent("m", base_url=server.base_url).run("x")
        Agent("m", base_url=server.base_url, api_key="mine").run("x")
        keys = [request.headers.get("authorization") for request in server.completions]
        assert keys == [None, "Bearer mine"]

    def test_one_client_for_runs_side_by_side(self, serve):
        """Ten first runs at once on a new loop share one client, so that connections are used again."""
        server = serve(lambda request: text("a"))
        agent = agent_for(server)
        made = []
        original = openai.AsyncOpenAI.__init__

        def counted(self, *args, **kwargs):
            made.append(self)
            original(self, *args, **kwargs)

        async def main():
            openai.AsyncOpenAI.__init__ = counted
            try:
                await asyncio.gather(*(agent.arun("x") for _ in range(10)))
            finally:
                openai.AsyncOpenAI.__init__ = original
            return len(made)

        assert asyncio.run(main()) == 1
        assert made[0].is_closed()
        server.wait_disconnected()


def test_threads_that_ask_at_once(serve):
    """Errors in eight threads at once are eight errors."""
    agent = agent_for(serve(lambda request: error(400, "no")))
    failures = []

    def work():
        try:
            begin(agent, "run", "x")
        except ModelError as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, failures))) == 8
