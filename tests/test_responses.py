"""Runs over the Responses API: the same as over the other one, and both on one session."""

import asyncio
import json

import pytest
from pydantic import BaseModel
from scenarios import FORMS, agent_for, call, content_of, note, roles, shape

from cyclops_nb import (
    ContextOverflowError,
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
    RateLimitError,
    ReasoningDelta,
    Session,
    TextDelta,
    Usage,
)
from cyclops_nb.testing import (
    cut,
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


@pytest.fixture
def respond(ask):
    """Give a function that starts a server with a script and returns an agent that speaks the Responses API to it."""
    return lambda *script, **settings: ask(*script, api="responses", **settings)


def fails(agent, session=None):
    """Run into an error and return it."""
    response = agent.run_with_response("go", session=session or Session())
    assert isinstance(response.error, ModelError)
    return response.error


class City(BaseModel):
    """An answer with a form."""

    name: str
    people: int


class TestRuns:
    @pytest.mark.parametrize("form", FORMS)
    def test_every_form(self, respond, form):
        """All ways in work, and only this API is asked."""
        agent = respond(text("Hello world"))
        assert call(agent, form, "Hi") == "Hello world"
        assert [request.path for request in agent.server.requests] == ["/v1/responses"]

    def test_a_conversation(self, respond):
        """The system prompt goes as instructions, and each turn has all that was said before."""
        agent = respond(text("Tokyo"), text("Paris"), system_prompt="Be brief.")
        session = Session()
        assert [agent.run(question, session=session) for question in ("Japan?", "France?")] == ["Tokyo", "Paris"]
        request = agent.server.completions[1]
        assert request.body["instructions"] == "Be brief."
        said = [(item["role"], item["content"][0]["text"]) for item in request.input]
        assert said == [("user", "Japan?"), ("assistant", "Tokyo"), ("user", "France?")]

    def test_tools(self, respond):
        """Calls are run and answered, side by side, and the answer comes."""
        agent = respond(
            tool_calls(tool_call("note", {"n": 1}), tool_call("note", {"n": 2}), usage=(10, 4)),
            text("Done.", usage=(20, 2)),
            tools=[note],
        )
        session = Session()
        response = agent.run_with_response("go", session=session)
        assert response.content == "Done."
        assert [result.value for result in response.tool_results] == ["noted 1", "noted 2"]
        assert (shape(session), session.usage) == ("uatta", Usage(2, 30, 6))
        outputs = [item["output"] for item in agent.server.completions[1].input[-2:]]
        assert outputs == ["noted 1", "noted 2"]

    def test_the_same_script_gives_the_same_session(self, serve):
        """Both APIs leave the same messages, but for what a provider keeps for itself."""
        script = [
            reply(reasoning("I should note it."), text("One moment."), tool_call("note", {"n": 1}), usage=(9, 8)),
            reply(reasoning("Noted."), text("It is noted."), usage=(20, 5), cached=7, reasoning_tokens=2),
        ]
        sessions = {}
        for api in ("chat", "responses"):
            session = sessions[api] = Session()
            agent_for(serve(*script), [note], api=api, prices=0).run("go", session=session)
        chat, responses = ([plain(item) for item in content_of(sessions[api])] for api in ("chat", "responses"))
        assert responses == chat
        assert sessions["chat"].usage == sessions["responses"].usage

    def test_structured_answers(self, respond):
        """The form is asked for where this API has it, and the answer is of the type."""
        agent = respond(text('{"name": "Tokyo", "people": 37}'))
        assert agent.run("Largest city?", response_model=City) == City(name="Tokyo", people=37)
        form = agent.server.completions[0].body["text"]["format"]
        assert (form["type"], set(form["schema"]["properties"])) == ("json_schema", {"name", "people"})

    def test_reasoning_is_told_and_kept(self, respond):
        """Reasoning comes as its own events, and stands in the message with what the provider wants back."""
        agent = respond(reply(reasoning("They greet."), text("Hi")), reasoning_effort="low")
        session = Session()
        events = list(agent.stream_events("Hello", session=session))
        assert "".join(item.text for item in events if isinstance(item, ReasoningDelta)) == "They greet."
        part = session.messages[1].content[0]
        assert part.text == "They greet."
        assert part.provider_metadata["item"]["encrypted_content"]
        assert agent.server.completions[0].body["reasoning"] == {"effort": "low", "summary": "auto"}

    def test_a_saved_session_goes_on(self, respond):
        """What was kept survives being written and read, and goes back as it came."""
        agent = respond(reply(reasoning("hm"), tool_call("note", {"n": 1})), text("a"), text("b"), tools=[note])
        session = Session()
        agent.run("x", session=session)
        loaded = Session.model_validate_json(session.model_dump_json())
        assert agent.run("y", session=loaded) == "b"
        first, second = (agent.server.completions[n].input for n in (1, 2))
        assert second[: len(first)] == first
        assert [item["type"] for item in first] == ["message", "reasoning", "function_call", "function_call_output"]

    def test_a_json_answer(self, respond):
        """A server that does not stream is understood."""
        body = {"output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}]}
        agent = respond(raw(json.dumps(body).encode(), content_type="application/json"), text("again"))
        session = Session()
        assert [agent.run("x", session=session), agent.run("y", session=session)] == ["Hi", "again"]

    def test_a_cancel(self, respond):
        """A cancel in the middle leaves the question alone, and what came is told as partial."""
        door = gate()
        agent = respond(reply(text("half"), door), text("fine"))
        session = Session()

        async def main():
            handle = agent.start("go", session=session)
            async for event in handle.events():
                if isinstance(event, TextDelta):
                    handle.cancel()
            return await handle

        response = asyncio.run(main())
        assert (response.stop_reason, response.partial, shape(session)) == ("cancelled", "half", "u")
        assert agent.run("again", session=session) == "fine"


def plain(message):
    """Return a message without what is a matter of one API."""
    for part in message["content"]:
        part.pop("provider_metadata", None)
    return {name: value for name, value in message.items() if name != "provider_metadata"}


class TestCuts:
    def test_a_call_that_was_cut_is_not_run(self, respond):
        """With an answer cut by its length no call of it is run, whole or not; the next request is taken."""
        noted = []

        def note(n: int) -> str:
            """Take a note."""
            noted.append(n)
            return "noted"

        for arguments in ('{"n": 1', '{"n": 1}'):
            agent = respond(tool_call("note", arguments, finish_reason="length"), text("I see."), tools=[note])
            session = Session()
            response = agent.run_with_response("go", session=session)
            assert (response.content, shape(session)) == ("I see.", "uaea")
            assert "cut off" in session.messages[2].text
            assert any("length limit" in warning for warning in response.warnings)
        assert noted == []

    def test_broken_arguments_are_answered(self, respond):
        """Arguments that are no JSON are answered with an error, kept as written and sent as valid JSON."""
        agent = respond(tool_call("note", '{"n": listt'), text("I see."), text("Fine."), tools=[note])
        session = Session()
        assert [agent.run("x", session=session), agent.run("y", session=session)] == ["I see.", "Fine."]
        assert session.messages[1].tool_calls[0].arguments == '{"n": listt'
        assert session.messages[2].status == "error"

    def test_a_filter(self, respond):
        """A content filter is told as in the other API."""
        session = Session()
        respond(text("Ha", finish_reason="content_filter")).run("go", session=session)
        assert session.messages[1].finish_reason == "content_filter"


class TestFailures:
    @pytest.mark.parametrize(
        ("failure", "kind"),
        [
            (error(400, "Not today."), ModelError),
            (error(429, "Not today."), RateLimitError),
            (error(504, "Not today."), ModelTimeoutError),
            (error(400, "Not today.", code="context_length_exceeded"), ContextOverflowError),
            (reply(text("half"), error_in_stream("Not today.")), ModelError),
            (reply(text("half"), error_in_stream("Not today.", code="rate_limit_exceeded")), RateLimitError),
            (reply(error_in_stream("Not today.", code="context_length_exceeded")), ContextOverflowError),
            (reply(text("half"), cut()), ModelConnectionError),
            (reply(tool_call("note", {"n": 1}), end()), ModelError),
            (raw(b"<html>Bad gateway</html>", content_type="text/html"), ModelError),
            (raw(b'data: {"choices": []}\n\ndata: {}\n\n'), ModelError),
            (raw(b""), ModelError),
        ],
    )
    def test_each_is_an_error_of_ours(self, respond, failure, kind):
        """The error has its class, the host, and leaves the question alone, so that the retry is taken."""
        agent = respond(failure, text("fine"), tools=[note])
        session = Session()
        told = fails(agent, session)
        assert (type(told), told.host) == (kind, "127.0.0.1")
        assert shape(session) == "u"
        assert agent.run(session=session) == "fine"

    def test_what_a_failed_response_used_counts(self, respond):
        """Usage beside the error is counted."""
        facts = {"status": "failed", "error": {"code": "server_error", "message": "It broke."}}
        event = {"type": "response.failed", "response": {**facts, "usage": {"input_tokens": 4, "output_tokens": 1}}}
        agent = respond(raw(b"event: response.failed\ndata: " + json.dumps(event).encode() + b"\n\n"))
        session = Session()
        assert fails(agent, session).message == "It broke."
        assert session.usage == Usage(1, 4, 1)

    def test_a_server_without_this_api(self, respond):
        """What it says is told."""
        told = fails(respond(error(404, "Invalid URL (POST /v1/responses)")))
        assert (told.status, "Invalid URL" in str(told)) == (404, True)

    def test_no_key_is_in_an_error(self, respond):
        """A server that repeats the key does not bring it into the error."""
        agent = respond(reply(error_in_stream("bad key sk-0123456789")), api_key="sk-0123456789")
        assert "sk-0123456789" not in str(fails(agent))


class TestBothApis:
    def test_one_session_under_both_and_elsewhere(self, serve):
        """A session goes from one API to the other and back, and to another host; strict servers take each request."""
        one, other = serve(*turn("a"), *turn("b"), *turn("c")), serve(*turn("d"), *turn("e"))
        here = {"base_url": one.base_url}
        there = {"base_url": other.base_url.replace("127.0.0.1", "localhost")}
        session = Session()
        agent = agent_for(one, [note])
        for api, place in (
            ("chat", here),
            ("responses", here),
            ("chat", here),
            ("responses", there),
            ("chat", there),
        ):
            agent = agent.replace(api=api, **place)
            agent.run("go", session=session)
        assert shape(session) == "uata" * 5
        assert [text for role, text, *_ in roles(session) if role == "assistant" and text] == list("abcde")
        assert {request.status for request in [*one.completions, *other.completions]} == {200}
        assert [settings["api"] for settings in session.configs.values()].count("responses") == 2

    def test_reasoning_goes_where_it_came_from(self, serve):
        """Items go back to their host under this API alone; they stay in the session for when it is asked again."""
        server = serve(*turn("a"), text("b"), text("c"), text("d"))
        session = Session()
        agent = agent_for(server, [note], api="responses")
        agent.run("go", session=session)
        agent.replace(api="chat").run("x", session=session)
        elsewhere = agent.replace(base_url=server.base_url.replace("127.0.0.1", "localhost"))
        elsewhere.run("y", session=session)
        agent.run("z", session=session)
        kinds = [[item["type"] for item in request.input] for request in server.completions]
        assert kinds[1] == ["message", "reasoning", "function_call", "function_call_output"]
        assert "item" not in str(server.completions[2].messages)
        assert "encrypted_content" not in str(server.completions[2].messages)
        assert "reasoning" not in kinds[3]
        assert kinds[4].count("reasoning") == 2

    def test_what_chat_keeps_for_a_host(self, serve):
        """Details and signatures of chat completions are kept through a turn under the other API, and go back."""
        details = [{"type": "reasoning.encrypted", "data": "gAAA", "index": 0}]
        choice = {"index": 0, "delta": {"content": "a", "reasoning_details": details}, "finish_reason": "stop"}
        server = serve(raw(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"), text("b"), text("c"))
        session = Session()
        agent = agent_for(server)
        for api in ("chat", "responses", "chat"):
            agent.replace(api=api).run("x", session=session)
        assert "gAAA" not in str(server.completions[1].input)
        assert server.completions[2].messages[1]["reasoning_details"] == details

    def test_many_sessions_at_once(self, serve):
        """Runs of both APIs side by side on one loop do not disturb each other."""
        server = serve(lambda request: text(request.path.rpartition("/")[2]))
        agents = [agent_for(server, api=api) for api in ("chat", "responses")] * 5

        async def main():
            return await asyncio.gather(*(agent.arun("x") for agent in agents))

        assert asyncio.run(main()) == ["completions", "responses"] * 5


def turn(answer):
    """Return the script of a turn with reasoning, a call and an answer."""
    return [
        reply(reasoning("I should note it."), tool_call("note", {"n": 1})),
        reply(reasoning("Noted."), text(answer)),
    ]
