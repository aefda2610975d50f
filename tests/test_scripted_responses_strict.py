"""What the scripted server refuses under the Responses API, as OpenAI does, and what it takes."""

import copy
import json

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import response_create_params

from cyclops_nb.testing import ScriptedServer, text
from cyclops_nb.testing.strict_responses import responses_refusal

USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "11 °C"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
PNG = {"type": "input_image", "image_url": "data:image/png;base64,aW1n", "detail": "auto"}
FILE = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aW1n"}
TOOL = {
    "type": "function",
    "name": "f",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    "strict": False,
}
FORM = {"type": "json_schema", "name": "a", "schema": {"type": "object", "properties": {}}}


def body(*items, **parameters):
    """Make a request body."""
    return {"model": "m", "input": list(items) or [USER], **parameters}


def second(item=CALL):
    """Make a copy of a call or result with another id."""
    return {**item, "call_id": "c2"}


class TestWhatIsTaken:
    @pytest.mark.parametrize(
        "request_body",
        [
            body(),
            {"model": "m", "input": "Hi"},
            body({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}, USER),
            body(USER, SAID, USER, instructions="Be brief.", store=False, include=["reasoning.encrypted_content"]),
            body({**USER, "content": [*USER["content"], PNG, FILE]}),
            body(USER, CALL, RESULT),
            body(USER, CALL, second(), second(RESULT), RESULT, SAID),
            body(USER, CALL, SAID, RESULT, USER),
            body(USER, CALL, {**RESULT, "output": [{"type": "input_text", "text": "x"}, PNG]}),
            body(USER, THOUGHT, SAID),
            body(USER, THOUGHT, {**THOUGHT, "id": "rs_2"}, CALL, RESULT),
            body(USER, {**SAID, "content": [{"type": "refusal", "refusal": "No."}], "phase": "final_answer"}),
            body(tools=[TOOL], tool_choice="required", parallel_tool_calls=False),
            body(tools=[TOOL], tool_choice={"type": "function", "name": "f"}),
            body(text={"format": FORM}, reasoning={"effort": "low", "summary": "auto"}, max_output_tokens=16),
            body(stream=True, stream_options={"include_obfuscation": False}, temperature=None),
        ],
    )
    def test_a_valid_request_is_taken(self, request_body):
        """What OpenAI takes is not refused."""
        assert responses_refusal(request_body) is None

    def test_all_parameters_of_the_client_are_known(self):
        """Every parameter that the openai client has a name for is a known one."""
        names = set(response_create_params.ResponseCreateParamsStreaming.__annotations__)
        names |= set(response_create_params.ResponseCreateParamsBase.__annotations__)
        refusals = [responses_refusal({**body(), name: None}) for name in names - {"model", "input"}]
        assert [refusal for refusal in refusals if refusal and "Unknown parameter" in refusal.message] == []


ORDER = {
    "open call at the end": (body(USER, CALL), "No tool output found for function call c1.", "input"),
    "open call before a user": (body(USER, CALL, USER, RESULT), "No tool output found for function call c1.", "input"),
    "one of two answered": (body(USER, CALL, second(), RESULT), "No tool output found for function call c2.", "input"),
    "result without a call": (body(USER, RESULT), "No tool call found for function call output with call_id c1.", None),
    "result before its call": (body(USER, RESULT, CALL), "No tool call found", "input"),
    "two results": (body(USER, CALL, RESULT, RESULT), "Duplicate function call output", "input[3].call_id"),
    "two calls of one id": (body(USER, CALL, RESULT, CALL, RESULT), "Duplicate function call", "input[3].call_id"),
    "reasoning at the end": (
        body(USER, THOUGHT),
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "input",
    ),
    "reasoning before a user": (body(USER, THOUGHT, USER), "without its required following item", "input"),
    "reasoning before a result": (body(USER, CALL, THOUGHT, RESULT), "without its required following item", "input"),
}
ITEMS = {
    "no input": ({"model": "m"}, "Missing required parameter: 'input'.", "input"),
    "empty input": ({"model": "m", "input": []}, "empty array", "input"),
    "empty text": ({"model": "m", "input": ""}, "empty string", "input"),
    "input of another type": ({"model": "m", "input": 5}, "one of a string or array of objects", "input"),
    "item of another type": (body("Hi"), "expected an object", "input[0]"),
    "unknown item": (body({"type": "thought"}), "Invalid value: 'thought'. Supported values are: 'message'", None),
    "chat message": (body(USER, {"role": "tool", "content": "x"}), "Invalid value: 'tool'", "input[1].role"),
    "unknown key": (body({**USER, "name": "a"}), "Unknown parameter: 'input[0].name'.", "input[0].name"),
    "null status": (body(USER, {**THOUGHT, "status": None}, SAID), "Unknown parameter: 'input[1].status'.", None),
    "message without content": (body({"role": "user"}), "Missing", "input[0].content"),
    "no parts": (body({"role": "user", "content": []}), "empty array", "input[0].content"),
    "chat part": (
        body({"role": "user", "content": [{"type": "text", "text": "a"}]}),
        "Invalid value: 'text'. Supported values are: 'input_text', 'input_image', and 'input_file'.",
        "input[0].content[0].type",
    ),
    "input text of an assistant": (
        body({**SAID, "content": USER["content"]}),
        "Invalid value: 'input_text'. Supported values are: 'output_text', and 'refusal'.",
        "input[0].content[0].type",
    ),
    "text without text": (body({"role": "user", "content": [{"type": "input_text"}]}), "Missing", None),
    "null text": (body({"role": "user", "content": [{"type": "input_text", "text": None}]}), "got null", None),
    "chat image": (
        body({"role": "user", "content": [{**PNG, "image_url": {"url": "http://a"}}]}),
        "expected a string",
        "input[0].content[0].image_url",
    ),
    "image of another type": (
        body({"role": "user", "content": [{**PNG, "image_url": "data:image/svg+xml;base64,aW1n"}]}),
        "MIME type 'image/svg+xml'",
        None,
    ),
    "file without a name": (
        body({"role": "user", "content": [{"type": "input_file", "file_data": FILE["file_data"]}]}),
        "Missing",
        "input[0].content[0].filename",
    ),
    "call without an id": (body(USER, {**CALL, "call_id": ""}, RESULT), "empty string", "input[1].call_id"),
    "long id": (body(USER, {**CALL, "call_id": "c" * 65}), "maximum length 64", "input[1].call_id"),
    "call of an odd name": (body(USER, {**CALL, "name": "a.b"}, RESULT), "does not match pattern", None),
    "nested call": (body(USER, {"type": "function_call", "function": {}}), "input[1].function", None),
    "arguments as an object": (body(USER, {**CALL, "arguments": {}}), "expected a string, but got an object", None),
    "arguments that are no JSON": (body(USER, {**CALL, "arguments": "{"}), "holds a JSON object, but got '{'", None),
    "null result": (body(USER, CALL, {**RESULT, "output": None}), "one of an array of objects or string", None),
    "result of text parts": (body(USER, CALL, {**RESULT, "output": SAID["content"]}), "Supported values", None),
    "reasoning without a summary": (body(USER, {"type": "reasoning", "encrypted_content": "x"}, SAID), "Missing", None),
    "reasoning that is not stored": (
        body(USER, {**THOUGHT, "encrypted_content": ""}, SAID),
        "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
        "input",
    ),
    "reasoning without an id": (body(USER, {**THOUGHT, "id": ""}, SAID), "empty string", "input[1].id"),
}
SETTINGS = {
    "no model": ({"input": "Hi"}, "Missing required parameter: 'model'.", "model"),
    "chat parameters": ({"model": "m", "messages": []}, "Unknown parameter: 'messages'.", "messages"),
    "seed": (body(seed=1), "Unknown parameter: 'seed'.", "seed"),
    "stop": (body(stop=["a"]), "Unknown parameter: 'stop'.", "stop"),
    "chat limit": (body(max_tokens=20), "Unknown parameter: 'max_tokens'.", "max_tokens"),
    "low limit": (body(max_output_tokens=8), "Expected a value >= 16, but got 8 instead.", "max_output_tokens"),
    "high temperature": (body(temperature=2.5), "Expected a value <= 2", "temperature"),
    "text for a boolean": (body(store="no"), "expected a boolean", "store"),
    "instructions as a list": (body(instructions=[]), "expected a string", "instructions"),
    "unknown include": (body(include=["usage"]), "Invalid value: 'usage'", "include[0]"),
    "include as a text": (body(include="a"), "array of strings", "include"),
    "unknown effort": (body(reasoning={"effort": "huge"}), "Invalid value: 'huge'", "reasoning.effort"),
    "chat effort": (body(reasoning_effort="low"), "Unknown parameter", "reasoning_effort"),
    "unknown in reasoning": (body(reasoning={"depth": 1}), "Unknown parameter: 'reasoning.depth'.", None),
    "usage as a stream option": (body(stream=True, stream_options={"include_usage": True}), "include_usage", None),
    "stream options alone": (body(stream_options={}), "only allowed when 'stream' is enabled", "stream_options"),
    "no tools": (body(tools=[]), "empty array", "tools"),
    "chat tool": (
        body(tools=[{"type": "function", "function": {"name": "f"}}]),
        "Unknown parameter: 'tools[0].function'.",
        "tools[0].function",
    ),
    "tool without a name": (body(tools=[{"type": "function"}]), "Missing", "tools[0].name"),
    "two tools of one name": (body(tools=[TOOL, TOOL]), "another tool has the name 'f'", "tools[1].name"),
    "strict tool with a default": (
        body(tools=[{**TOOL, "strict": True}]),
        "Invalid schema for function 'f'",
        "tools[0].parameters",
    ),
    "choice without tools": (body(tool_choice="auto"), "only allowed when 'tools' are specified", "tool_choice"),
    "unknown choice": (body(tools=[TOOL], tool_choice="f"), "Invalid value: 'f'", "tool_choice"),
    "chat choice": (
        body(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "f"}}),
        "Missing required parameter: 'tool_choice.name'.",
        "tool_choice.name",
    ),
    "choice of no tool": (
        body(tools=[TOOL], tool_choice={"type": "function", "name": "g"}),
        "Tool choice 'function' with name 'g' not found in 'tools' parameter.",
        "tool_choice",
    ),
    "chat format": (body(response_format=FORM), "Unknown parameter", "response_format"),
    "nested format": (
        body(text={"format": {"type": "json_schema", "json_schema": FORM}}),
        "Unknown parameter: 'text.format.json_schema'.",
        None,
    ),
    "format without a schema": (body(text={"format": {"type": "json_schema", "name": "a"}}), "Missing", None),
    "unknown format": (body(text={"format": {"type": "xml"}}), "Invalid value: 'xml'", "text.format.type"),
    "strict format that takes more": (
        body(text={"format": {**FORM, "strict": True}}),
        "'additionalProperties' is required",
        "text.format.schema",
    ),
}


class TestWhatIsRefused:
    @pytest.mark.parametrize("cases", [ORDER, ITEMS, SETTINGS], ids=["order", "items", "settings"])
    def test_an_invalid_request_is_refused_in_openais_words(self, cases):
        """Each invalid request is a 400 that says what is wrong and at which parameter."""
        for name, (request_body, message, param) in cases.items():
            failure = responses_refusal(request_body)
            assert failure is not None, name
            assert message in failure.message, (name, failure.message)
            assert param in {None, failure.param}, (name, failure.param)
            assert (failure.status, failure.type) == (400, "invalid_request_error"), name

    def test_the_client_gets_the_refusal(self):
        """The openai client raises its own error for a bad request, and no reply is used up."""
        with (
            ScriptedServer([text("Hello")]) as server,
            openai.OpenAI(base_url=server.base_url, api_key="k", max_retries=0) as client,
        ):
            with pytest.raises(openai.BadRequestError, match="No tool output found for function call c1"):
                client.responses.create(model="m", input=[USER, CALL])
            assert client.responses.create(model="m", input=[USER]).output_text == "Hello"

    def test_a_lenient_server_takes_anything(self):
        """With strict=False even nonsense is answered by the script."""
        with (
            ScriptedServer(text("Hello"), strict=False) as server,
            openai.OpenAI(base_url=server.base_url, api_key="k", max_retries=0) as client,
        ):
            assert client.responses.create(model="m", input=[CALL, {"type": "x"}]).output_text == "Hello"


VALID = body(
    {**USER, "content": [*USER["content"], PNG, FILE]},
    THOUGHT,
    SAID,
    CALL,
    {**RESULT, "output": [{"type": "input_text", "text": "x"}, PNG]},
    instructions="Be brief.",
    tools=[TOOL],
    tool_choice={"type": "function", "name": "f"},
    text={"format": FORM},
    reasoning={"effort": "low", "summary": "auto"},
    include=["reasoning.encrypted_content"],
    store=False,
    stream=True,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(value, path=()):
    """Give the paths of all values inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


class TestAnything:
    @settings(deadline=None)
    @given(st.sampled_from(list(places(VALID))), st.none() | JSON)
    def test_any_change_to_a_request_is_taken_or_refused(self, path, replacement):
        """Whatever stands at any place of a request, the check gives a verdict and never fails itself."""
        changed = copy.deepcopy(VALID)
        place = changed
        for key in path[:-1]:
            place = place[key]
        if replacement is None:
            del place[path[-1]]
        else:
            place[path[-1]] = replacement
        failure = responses_refusal(changed)
        assert failure is None or json.dumps(failure.body)

    @settings(deadline=None)
    @given(st.text("ucoar", min_size=1, max_size=7))
    def test_any_order_of_items_is_judged_by_calls_and_reasoning(self, kinds):
        """An input is taken exactly if its one call is answered once before the user speaks, and reasoning leads on."""
        items = {"u": USER, "c": CALL, "o": RESULT, "a": SAID, "r": THOUGHT}
        turns = kinds.replace("r", "").replace("a", "").replace("co", "-")
        answered = not {"c", "o"} & set(turns) and turns.count("-") < 2
        leads_on = all(kinds[n + 1 : n + 2] in ("r", "c", "a") for n, kind in enumerate(kinds) if kind == "r")
        assert (responses_refusal(body(*(items[kind] for kind in kinds))) is None) == (answered and leads_on)

    def test_the_request_that_is_changed_is_valid(self):
        """The request that is changed above would be taken as it is."""
        assert responses_refusal(VALID) is None
