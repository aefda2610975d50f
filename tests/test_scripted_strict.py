"""What the scripted server refuses, as OpenAI does, and what it takes."""

import json

import openai
import pytest
from changed_requests import JSON, changed, places
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import completion_create_params
from scripted_client import ask, post

from cyclops_nb.testing import ScriptedServer, text
from cyclops_nb.testing.strict import chat_refusal

USER = {"role": "user", "content": "Hi"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "11 °C"}
TOOL = {
    "type": "function",
    "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
}
PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aW1n"}}
FILE = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aW1n"}}


def body(*messages, **parameters):
    """Make a request body."""
    return {"model": "m", "messages": list(messages) or [USER], **parameters}


def call(**function):
    """Make an assistant message with a call that differs in what is given."""
    return {"role": "assistant", "tool_calls": [{**CALL, "function": {**CALL["function"], **function}}]}


def parts(*content, role="user"):
    """Make a message of parts."""
    return {"role": role, "content": list(content)}


def image(url):
    """Make an image part."""
    return {"type": "image_url", "image_url": {"url": url}}


def tool(strict=None, **function):
    """Make a tool that differs in what is given."""
    return {"type": "function", "function": {**TOOL["function"], **function, "strict": strict}}


def schema(properties, **more):
    """Make parameters of a tool."""
    return {"type": "object", "properties": properties, **more}


def json_schema(**facts):
    """Make a response format that differs in what is given."""
    return {"type": "json_schema", "json_schema": {"name": "a", "schema": schema({}), **facts}}


class TestWhatIsTaken:
    @pytest.mark.parametrize(
        "request_body",
        [
            body(),
            body({"role": "system", "content": "Be brief."}, USER),
            body({"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}, USER),
            body(USER, {"role": "assistant", "content": "Hello"}, USER, USER),
            body(USER, CALLS, RESULT),
            body(USER, CALLS, RESULT, CALLS, RESULT, USER),
            body(USER, {**CALLS, "content": ""}, {**RESULT, "content": [{"type": "text", "text": ""}]}, tools=[TOOL]),
            body(parts({"type": "text", "text": "What is it?"}, PNG, FILE, image("https://example.org/a.png"))),
            body(parts({"type": "file", "file": {"file_id": "file-1"}})),
            body(USER, {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}),
            body({**USER, "content": ""}),
            body(tools=[TOOL], tool_choice="auto", parallel_tool_calls=False),
            body(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "f"}}),
            body(tools=[tool(strict=True, parameters=schema({}, additionalProperties=False))]),
            body(tools=[{"type": "function", "function": {"name": "f"}}], tool_choice=None),
            body(stream=True, stream_options={"include_usage": True}, temperature=2, seed=-1, stop=["a", "b"]),
            body(temperature=None, max_tokens=None, stop=None, reasoning_effort=None, response_format=None),
            body(response_format=json_schema()),
            body({**USER, "content": "Answer in JSON."}, response_format={"type": "json_object"}),
        ],
    )
    def test_a_valid_request_is_taken(self, request_body):
        """What OpenAI takes is not refused."""
        assert chat_refusal(request_body) is None

    def test_all_parameters_of_the_client_are_known(self):
        """Every parameter that the openai client has a name for is a known one."""
        names = set(completion_create_params.CompletionCreateParamsStreaming.__annotations__)
        names |= set(completion_create_params.CompletionCreateParamsBase.__annotations__)
        refusals = [chat_refusal({**body(), name: None}) for name in names - {"model", "messages"}]
        assert [refusal for refusal in refusals if refusal and "Unknown parameter" in refusal.message] == []


UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: b, c"
)
TURNS = {
    "open call at the end": (body(USER, CALLS), "did not have response messages: call_1", "messages.[1].role"),
    "open call before a user": (body(USER, CALLS, USER), "did not have response messages: call_1", "messages.[2].role"),
    "half of the calls answered": (
        body(USER, {**CALLS, "tool_calls": [CALL, {**CALL, "id": "b"}, {**CALL, "id": "c"}]}, RESULT, USER),
        UNANSWERED,
        "messages.[3].role",
    ),
    "result without a call": (
        body(USER, RESULT),
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        "messages.[1].role",
    ),
    "result after another message": (
        body(USER, CALLS, RESULT, USER, RESULT),
        "must be a response",
        "messages.[4].role",
    ),
    "result of another call": (
        body(USER, CALLS, {**RESULT, "tool_call_id": "x"}),
        "'tool_call_id' of 'x' not found in 'tool_calls' of previous message.",
        "messages.[2].tool_call_id",
    ),
    "two results of one call": (
        body(USER, CALLS, RESULT, RESULT),
        "Duplicate value for 'tool_call_id' of 'call_1', in messages[2] and messages[3].",
        "messages.[3].tool_call_id",
    ),
    "two calls of one id": (body(USER, {**CALLS, "tool_calls": [CALL, CALL]}, RESULT), "Duplicate", None),
}

MESSAGES = {
    "no model": ({"messages": [USER]}, "you must provide a model parameter", None),
    "model of another type": ({"model": 5, "messages": [USER]}, "expected a string, but got an integer", "model"),
    "no messages": ({"model": "m"}, "Missing required parameter: 'messages'.", "messages"),
    "empty messages": ({"model": "m", "messages": []}, "Invalid 'messages': empty array.", "messages"),
    "messages of another type": ({"model": "m", "messages": "Hi"}, "expected an array of objects", "messages"),
    "message of another type": (body("Hi"), "expected an object, but got a string", "messages[0]"),
    "no role": (body({"content": "Hi"}), "Missing required parameter: 'messages[0].role'.", "messages[0].role"),
    "unknown role": (body({**USER, "role": "human"}), "Invalid value: 'human'. Supported", "messages[0].role"),
    "late system message": (body(USER, {"role": "system", "content": "a"}), "at the beginning", "messages[1].role"),
    "second system message": (
        body({"role": "system", "content": "a"}, {"role": "developer", "content": "a"}, USER),
        "once at most",
        "messages[1].role",
    ),
    "odd name": (body({**USER, "name": "a b"}), "does not match pattern", "messages[0].name"),
    "result without an id": (body({"role": "tool", "content": "a"}), "Missing", "messages[0].tool_call_id"),
    "no calls": (body(USER, {**CALLS, "tool_calls": []}), "empty array", "messages[1].tool_calls"),
    "null for calls": (body({"role": "assistant", "content": "a", "tool_calls": None}), "got null", None),
    "call without an id": (body(USER, {**CALLS, "tool_calls": [{**CALL, "id": ""}]}), "empty string", None),
    "call of another type": (body(USER, {**CALLS, "tool_calls": [{**CALL, "type": "x"}]}), "Supported", None),
    "call without a name": (body(USER, call(name="")), "empty string", "messages[1].tool_calls[0].function.name"),
    "call of an odd name": (body(USER, call(name="a.b")), "'^[a-zA-Z0-9_-]+$'", None),
    "call of a long name": (
        body(USER, call(name="f" * 65)),
        "maximum length 64, but got a string with length 65",
        None,
    ),
    "arguments as an object": (
        body(USER, call(arguments={})),
        "expected a string, but got an object",
        "messages[1].tool_calls[0].function.arguments",
    ),
    "arguments that are no JSON": (body(USER, call(arguments="{")), "holds a JSON object, but got '{'", None),
    "arguments that are no object": (body(USER, call(arguments="[]")), "holds a JSON object", None),
}

CONTENT = {
    "null": (
        body({"role": "user", "content": None}),
        "Invalid value for 'content': expected a string, got null.",
        None,
    ),
    "missing": (body({"role": "user"}), "Missing", "messages[0].content"),
    "number": (body({"role": "user", "content": 5}), "one of a string or array of objects", "messages[0].content"),
    "no parts": (body(parts()), "empty array", "messages[0].content"),
    "assistant that says nothing": (
        body(USER, {"role": "assistant", "content": ""}),
        "Invalid value for 'content': expected a string, got null.",
        "messages.[1].content",
    ),
    "assistant without content": (body(USER, {"role": "assistant"}), "got null", "messages.[1].content"),
    "assistant with empty parts": (body(parts({"type": "text", "text": ""}, role="assistant")), "got null", None),
    "null result": (body(USER, CALLS, {**RESULT, "content": None}), "got null", "messages.[2].content"),
    "part without a type": (body(parts({"text": "a"})), "Missing", "messages[0].content[0].type"),
    "part of another type": (body(parts({"type": "thinking"})), "Supported values", "messages[0].content[0].type"),
    "text without text": (body(parts({"type": "text"})), "Missing", "messages[0].content[0].text"),
    "text of another type": (body(parts({"type": "text", "text": 5})), "expected a string", None),
    "image without a url": (body(parts({"type": "image_url", "image_url": {}})), "Missing", None),
    "image as a string": (body(parts({"type": "image_url", "image_url": "http://a"})), "expected an object", None),
    "image of no base64": (body(parts(image("data:image/png;base64,a?="))), "not base64-encoded", None),
    "image of no bytes": (body(parts(image("data:image/png;base64,"))), "not base64-encoded", None),
    "image of another type": (body(parts(image("data:image/svg+xml;base64,aW1n"))), "MIME type 'image/svg+xml'", None),
    "image by a path": (body(parts(image("pictures/a.png"))), "without the 'data:' prefix", None),
    "image in a result": (
        body(USER, CALLS, {**RESULT, "content": [PNG]}),
        "Image URLs are only allowed for messages with role 'user', but this message with role 'tool' contains an",
        "messages[2]",
    ),
    "file in a result": (body(USER, CALLS, {**RESULT, "content": [FILE]}), "Supported values are: 'text'.", None),
    "file without data": (body(parts({"type": "file", "file": {}})), "Missing", "messages[0].content[0].file.file_id"),
    "file without a name": (body(parts({"type": "file", "file": {"file_data": "a"}})), "filename", None),
    "file of bare base64": (
        body(parts({"type": "file", "file": {"file_data": "aW1n", "filename": "a"}})),
        "but got a value without the 'data:' prefix",
        "messages[0].content[0].file.file_data",
    ),
}

SETTINGS = {
    "unknown parameter": (body(top_k=5), "Unknown parameter: 'top_k'.", "top_k"),
    "temperature too high": (body(temperature=2.5), "decimal above maximum value. Expected a value <= 2, but", None),
    "temperature too low": (body(temperature=-1), "Expected a value >= 0, but got -1 instead.", "temperature"),
    "temperature as text": (body(temperature="0"), "expected a decimal, but got a string", "temperature"),
    "half a token": (body(max_tokens=1.5), "expected an integer, but got a decimal", "max_tokens"),
    "true as a number": (body(seed=True), "expected an integer, but got a boolean", "seed"),
    "text for a boolean": (body(stream="yes"), "expected a boolean", "stream"),
    "two limits": (body(max_tokens=1, max_completion_tokens=1), "at the same time", None),
    "unknown effort": (body(reasoning_effort="huge"), "Supported values are: 'none', 'minimal'", "reasoning_effort"),
    "many stops": (body(stop=list("abcde")), "maximum length 4, but got an array with length 5", "stop"),
    "stop of another type": (body(stop=[1]), "array of strings", "stop"),
    "stream options alone": (body(stream_options={}), "only allowed when 'stream' is enabled", "stream_options"),
    "unknown stream option": (body(stream=True, stream_options={"a": 1}), "'stream_options.a'", None),
    "no tools": (body(tools=[]), "Invalid 'tools': empty array", "tools"),
    "choice without tools": (body(tool_choice="auto"), "'tool_choice' is only allowed when 'tools' are", "tool_choice"),
    "parallel without tools": (body(parallel_tool_calls=True), "is only allowed when 'tools'", "parallel_tool_calls"),
    "unknown choice": (body(tools=[TOOL], tool_choice="f"), "Invalid value: 'f'", "tool_choice"),
    "choice of no tool": (
        body(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "g"}}),
        "function 'g' is not in 'tools'",
        "tool_choice",
    ),
    "tool of an odd name": (body(tools=[tool(name="a b")]), "'^[a-zA-Z0-9_-]+$'", "tools[0].function.name"),
    "tool without a name": (body(tools=[tool(name="")]), "empty string", "tools[0].function.name"),
    "two tools of one name": (body(tools=[TOOL, TOOL]), "another tool has the name 'f'", "tools[1].function.name"),
    "tool without a type": (body(tools=[TOOL["function"]]), "Missing", "tools[0].type"),
    "null description": (body(tools=[tool(description=None)]), "got null", "tools[0].function.description"),
    "parameters of another type": (
        body(tools=[tool(parameters={"type": "string"})]),
        "Invalid schema for function 'f': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"string\"'.",
        "tools[0].function.parameters",
    ),
    "empty parameters": (body(tools=[tool(parameters={})]), "got 'type: \"None\"'", None),
    "parameters without properties": (body(tools=[tool(parameters={"type": "object"})]), "missing properties", None),
    "array without items": (
        body(tools=[tool(parameters=schema({"a": {"anyOf": [{"type": "array"}]}}))]),
        "In context=('properties', 'a', 'anyOf', '0'), array schema missing items.",
        None,
    ),
    "strict tool that takes more": (body(tools=[tool(strict=True)]), "'additionalProperties' is required", None),
    "strict tool with a default": (
        body(tools=[tool(strict=True, parameters=schema({"a": {}}, additionalProperties=False))]),
        "Missing 'a'.",
        None,
    ),
    "format without a schema": (body(response_format={"type": "json_schema"}), "Missing", None),
    "format of an odd name": (body(response_format=json_schema(name="a b")), "does not match pattern", None),
    "strict format that takes more": (body(response_format=json_schema(strict=True)), "response_format 'a'", None),
    "JSON that nobody speaks of": (body(response_format={"type": "json_object"}), "the word 'json'", "messages"),
}


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        "cases", [TURNS, MESSAGES, CONTENT, SETTINGS], ids=["turns", "messages", "content", "settings"]
    )
    def test_an_invalid_request_is_refused_in_openais_words(self, cases):
        """Each invalid request is a 400 that says what is wrong and at which parameter."""
        for name, (request_body, message, param) in cases.items():
            failure = chat_refusal(request_body)
            assert failure is not None, name
            assert message in failure.message, name
            assert param in {None, failure.param}, (name, failure.param)
            assert (failure.status, failure.type) == (400, "invalid_request_error"), name

    def test_the_client_gets_the_refusal(self):
        """The openai client raises its own error for a bad request, and no reply is used up."""
        with ScriptedServer([text("Hello")]) as server:
            with pytest.raises(openai.BadRequestError, match="did not have response messages: call_1") as caught:
                ask(server, [USER, CALLS])
            assert ask(server).choices[0].message.content == "Hello"
        assert (caught.value.param, caught.value.type) == ("messages.[1].role", "invalid_request_error")
        assert [request.status for request in server.requests] == [400, 200]
        assert server.requests[0].messages == [USER, CALLS]

    @pytest.mark.parametrize(
        ("raw", "reason"),
        [
            (b"{", "not JSON in UTF-8"),
            (b"", "not JSON in UTF-8"),
            (b"[]", "not a JSON object"),
            (b'{"model": "\xff"}', "not JSON in UTF-8"),
            (b'\xef\xbb\xbf{"model": "m"}', "not JSON in UTF-8"),
            (b'{"temperature": NaN}', "NaN is not a JSON number"),
            (rb'{"model": "m", "user": "\ud83d"}', "half of a surrogate pair"),
            (b"[" * 100_000, "not JSON in UTF-8"),
        ],
    )
    def test_a_body_that_is_no_json_is_refused(self, raw, reason):
        """A body that is not JSON in UTF-8 is refused, and kept as it came."""
        with ScriptedServer([text("Hello")]) as server:
            response, answer = post(server, raw)
        error = json.loads(answer)["error"]
        assert response.status == 400
        assert "could not parse the JSON body" in error["message"]
        assert reason in error["message"]
        assert server.requests[0].raw == raw

    def test_an_escaped_pair_is_a_character(self):
        """A whole surrogate pair in escapes is valid JSON."""
        with ScriptedServer([text("Hello")]) as server:
            raw = rb'{"model": "m", "messages": [{"role": "user", "content": "\ud83d\ude00"}]}'
            assert post(server, raw)[0].status == 200
        assert server.requests[0].messages[0]["content"] == "😀"

    @pytest.mark.parametrize(
        "raw", [b"{", b'{"model": ["m"], "messages": 5, "stream": 1}', b'{"messages": [5, {"content": [1]}]}']
    )
    def test_a_lenient_server_takes_anything(self, raw):
        """With strict=False even nonsense is answered by the script."""
        with ScriptedServer(text("Hello"), strict=False) as server:
            response, answer = post(server, raw)
        assert response.status == 200
        assert json.loads(answer)["choices"][0]["message"]["content"] == "Hello"


VALID = body(
    {"role": "system", "content": "Be brief."},
    parts({"type": "text", "text": "What?"}, PNG, FILE),
    CALLS,
    RESULT,
    tools=[
        tool(
            strict=True,
            parameters=schema({"a": {"type": "array", "items": {}}}, required=["a"], additionalProperties=False),
        )
    ],
    tool_choice={"type": "function", "function": {"name": "f"}},
    response_format=json_schema(),
    stop=["a"],
    stream=True,
    stream_options={"include_usage": True},
)


class TestAnything:
    @settings(deadline=None)
    @given(st.sampled_from(list(places(VALID))), st.none() | JSON)
    def test_any_change_to_a_request_is_taken_or_refused(self, path, replacement):
        """Whatever stands at any place of a request, the check gives a verdict and never fails itself."""
        failure = chat_refusal(changed(VALID, path, replacement))
        assert failure is None or json.dumps(failure.body)

    @settings(deadline=None)
    @given(st.lists(st.sampled_from([USER, CALLS, RESULT, {"role": "assistant", "content": "a"}]), min_size=1))
    def test_any_order_of_messages_is_judged_by_its_calls(self, messages):
        """A transcript is taken exactly if each call is followed by its one result."""
        kinds = "".join({"user": "-", "tool": "r"}.get(m["role"], "c" if "tool_calls" in m else "-") for m in messages)
        valid = "r" not in kinds.replace("cr", "") and "c" not in kinds.replace("cr", "")
        assert (chat_refusal(body(*messages)) is None) == valid

    def test_the_request_that_is_changed_is_valid(self):
        """The request that is changed above would be taken as it is."""
        assert chat_refusal(VALID) is None
