"""Settings that a server refuses by name: left out, remembered, and told."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from scenarios import agent_for, note

from cyclops_nb import ModelError, Session
from cyclops_nb.models.refused_names import refused_names
from cyclops_nb.testing import error, raw, reasoning, reply, text


class Number(BaseModel):
    """An answer with a form."""

    n: int


VALUES = {
    "temperature": 0.5,
    "top_p": 0.9,
    "parallel_tool_calls": False,
    "reasoning_effort": "low",
    "max_tokens": 50,
    "seed": 1,
}
CHAT = {
    "seed": "seed",
    "temperature": "temperature",
    "top_p": "top_p",
    "parallel_tool_calls": "parallel_tool_calls",
    "reasoning_effort": "reasoning_effort",
}
RESPONSES = {
    "temperature": "temperature",
    "top_p": "top_p",
    "parallel_tool_calls": "parallel_tool_calls",
    "reasoning": "reasoning_effort",
}
FIELDS = [("chat", *item) for item in CHAT.items()] + [("responses", *item) for item in RESPONSES.items()]
SILENT = [("chat", "stream_options"), ("responses", "include"), ("responses", "store")]


def statuses(server):
    """Return the status of each completion that was asked for."""
    return [request.status for request in server.completions]


def about(warnings, host="127.0.0.1"):
    """Return the warnings about what a host does not take."""
    return [warning for warning in warnings if warning.startswith(f"{host} does not take")]


class TestLeftOut:
    @pytest.mark.parametrize(("api", "field", "setting"), FIELDS)
    def test_a_setting_that_a_server_does_not_know(self, serve, api, field, setting):
        """It is left out in one more try and from then on; each run affected has a warning naming setting and host."""
        server = serve(text("a"), text("b"), refuse_parameters=[field])
        agent = agent_for(server, [note], api=api, **{setting: VALUES[setting]})
        runs = [agent.run_with_response("x").run, agent.run_with_response("y").run]
        assert statuses(server) == [400, 200, 200]
        assert [field in request.body for request in server.completions] == [True, False, False]
        for run in runs:
            (warning,) = about(run.warnings)
            assert setting in warning

    @pytest.mark.parametrize(("api", "field"), [("chat", "response_format"), ("responses", "text.format")])
    def test_the_form_of_an_answer(self, serve, api, field):
        """A server that takes no schema is asked without; the answer is checked all the same."""
        server = serve(text('{"n": 1}'), refuse_parameters=[field])
        agent = agent_for(server, api=api)
        response = agent.run_with_response("x", response_model=Number)
        assert response.output == Number(n=1)
        assert statuses(server) == [400, 200]
        assert "response_model" in about(response.warnings)[0]

    @pytest.mark.parametrize(("api", "field"), SILENT)
    def test_what_shapes_no_answer_goes_silently(self, serve, api, field):
        """Fields that are the library's own are left out without a word."""
        server = serve(text("a"), text("b"), refuse_parameters=[field])
        agent = agent_for(server, api=api)
        assert [about(agent.run_with_response("x").warnings) for _ in range(2)] == [[], []]
        assert statuses(server) == [400, 200, 200]

    def test_usage_is_unknown_without_stream_options(self, serve):
        """A server that refuses them reports no usage, which is unknown and not nought."""
        server = serve(text("a", usage=None), text("b", usage=None), refuse_parameters=["stream_options"])
        session = Session()
        agent = agent_for(server)
        assert [agent.run("x", session=session), agent.run("y", session=session)] == ["a", "b"]
        assert session.usage is None
        assert session.runs[0].warnings[0] == "the server reported no usage"

    def test_several_one_after_the_other(self, serve):
        """A server that refuses one field at a time is asked until it takes the rest."""
        server = serve(text("a"), refuse_parameters=["seed", "temperature", "stream_options"])
        response = agent_for(server, seed=1, temperature=0, top_p=0.5).run_with_response("x")
        assert response.content == "a"
        assert statuses(server) == [400, 400, 400, 200]
        assert len(about(response.warnings)) == 2
        assert server.completions[-1].body["top_p"] == 0.5

    def test_a_summary_that_a_key_may_not_have(self, serve):
        """Summaries of reasoning are asked for by the library itself, and go silently; the effort stays."""
        refusal = error(
            400,
            "Your organization must be verified to generate reasoning summaries.",
            param="reasoning.summary",
            code="unsupported_value",
        )
        server = serve(refusal, text("a"))
        response = agent_for(server, api="responses", reasoning_effort="low").run_with_response("x")
        assert about(response.warnings) == []
        assert server.completions[1].body["reasoning"] == {"effort": "low"}

    def test_the_whole_is_refused_after_a_part(self, serve):
        """Where the summary is gone and reasoning is refused altogether, it is left out with a warning."""
        server = serve(text("a"), refuse_parameters=["reasoning.summary", "reasoning"])
        response = agent_for(server, api="responses", reasoning_effort="low").run_with_response("x")
        assert statuses(server) == [400, 400, 200]
        assert len(about(response.warnings)) == 1

    def test_it_is_remembered_for_the_agent_alone(self, serve):
        """Another agent asks with all of its settings."""
        server = serve(lambda _: text("a"), refuse_parameters=["seed"])
        for _ in range(2):
            agent_for(server, seed=1).run("x")
        assert statuses(server) == [400, 200, 400, 200]

    def test_the_settings_of_the_session_stay(self, serve):
        """What was asked for stands in the session; that it was left out stands in the warnings."""
        server = serve(text("a"), refuse_parameters=["seed"])
        session = Session()
        agent_for(server, seed=1).run("x", session=session)
        assert next(iter(session.configs.values()))["seed"] == 1


class TestLimitOfTokens:
    @pytest.mark.parametrize(
        ("host", "first", "then"),
        [("127.0.0.1", "max_tokens", "max_completion_tokens"), (None, "max_completion_tokens", "max_tokens")],
    )
    def test_its_other_name(self, serve, host, first, then, monkeypatch):
        """A server that knows the limit under its other name gets it under that, without a warning."""
        if host is None:
            monkeypatch.setattr("cyclops_nb.models.payload.OPENAI_URL", "http://127.0.0.1/v1")
        refusal = error(
            400, f"Unsupported parameter: '{first}' is not supported with this model. Use '{then}' instead."
        )
        server = serve(refusal, text("a"), text("b"))
        agent = agent_for(server, max_tokens=50)
        assert [about(agent.run_with_response("x").warnings) for _ in range(2)] == [[], []]
        assert [(first in r.body, r.body.get(then)) for r in server.completions] == [
            (True, None),
            (False, 50),
            (False, 50),
        ]

    def test_neither_name(self, serve):
        """A server that takes neither has its second refusal raised: the limit is never dropped."""
        server = serve(refuse_parameters=["max_tokens", "max_completion_tokens"])
        with pytest.raises(ModelError, match="max_completion_tokens"):
            agent_for(server, max_tokens=50).run("x")
        assert statuses(server) == [400, 400]

    def test_of_the_other_api(self, serve):
        """The Responses API has one name for it, so that its refusal is raised."""
        server = serve(refuse_parameters=["max_output_tokens"])
        with pytest.raises(ModelError, match="max_output_tokens"):
            agent_for(server, api="responses", max_tokens=50).run("x")
        assert statuses(server) == [400]


class TestRaised:
    @pytest.mark.parametrize("api", ["chat", "responses"])
    @pytest.mark.parametrize(
        "refusal",
        [
            error(400, "Invalid 'temperature': decimal above maximum value. Expected <= 2.", param="temperature"),
            error(400, "temperature must be <= 2", param="temperature"),
            error(400, "Unsupported value: 'temperature' does not support 3 with this model.", param="temperature"),
            error(400, "'temperature' is not supported with values above 1", param="temperature"),
            error(422, "unknown field `foo`, expected one of `model`, `temperature`, `seed`"),
            error(400, "Invalid schema for response_format 'answer': 'oneOf' is not permitted."),
            error(403, "Unsupported parameter: 'temperature'", param="temperature"),
            error(400, "no"),
        ],
    )
    def test_what_is_no_refusal_of_a_field(self, serve, api, refusal):
        """A value that is refused, a field that was not sent, or another status is an error as ever."""
        server = serve(refusal, strict=False)
        with pytest.raises(ModelError) as caught:
            agent_for(server, api=api, temperature=3).run("x")
        assert caught.value.message == refusal.message
        assert statuses(server) == [refusal.status]

    def test_a_refusal_that_does_not_end(self, serve):
        """A server that goes on refusing what is gone is believed at last."""
        server = serve(lambda _: error(400, "Unknown parameter: 'seed'.", param="seed"))
        with pytest.raises(ModelError, match="seed"):
            agent_for(server, seed=1).run("x")
        assert statuses(server) == [400, 400]

    @pytest.mark.parametrize("api", ["chat", "responses"])
    def test_what_was_asked_for_by_name(self, serve, api):
        """Fields of extra_body are the user's own words, and are never left out."""
        server = serve(refuse_parameters=["store"])
        with pytest.raises(ModelError, match="store"):
            agent_for(server, api=api, extra_body={"store": True}).run("x")
        assert statuses(server) == [400]

    def test_another_field(self, serve):
        """What is not refused by one of these names is an error as ever."""
        server = serve(text("a"), refuse_parameters=["tools"])
        with pytest.raises(ModelError, match=r"Unknown parameter: 'tools'\."):
            agent_for(server, [note]).run("x")
        assert statuses(server) == [400]


class TestOtherApi:
    @pytest.mark.parametrize("setting", [{"seed": 1}, {"stop": ["END"]}])
    def test_settings_that_it_does_not_have(self, serve, setting):
        """The Responses API has neither a seed nor stops: they are not sent, and a warning names them."""
        server = serve(text("a"), text("b"))
        agent = agent_for(server, api="responses", **setting)
        (name,) = setting
        for _ in range(2):
            assert any(name in warning for warning in agent.run_with_response("x").warnings)
        assert all(name not in request.body for request in server.completions)


class TestReasoningOfAnotherModel:
    """Reasoning that came from the same host, which the model or the key that is asked now can do nothing with."""

    WORDS = [
        (
            "Reasoning input items can only be provided to a reasoning model. Remove reasoning items and try again.",
            None,
        ),
        (
            "The encrypted content gAAA... could not be verified. Reason: Encrypted content could not be decrypted.",
            None,
        ),
        ("The content is not valid.", "invalid_encrypted_content"),
        ("Encrypted content is not supported with this model.", None),
    ]

    @pytest.mark.parametrize(("message", "code"), WORDS)
    def test_is_left_out(self, serve, message, code):
        """It is asked once more without it, and from then on; a warning says so, and the session keeps it."""

        def plain(request):
            has_reasoning = any(item["type"] == "reasoning" for item in request.input)
            return error(400, message, code=code, param="input") if has_reasoning else text("ok")

        server = serve(reply(reasoning("Hm"), text("Hi")), plain, plain, plain)
        session = Session()
        agent = agent_for(server, api="responses")
        agent.run("x", session=session)
        kept = session.messages[1]
        other = agent.replace(model="other")
        runs = [other.run_with_response(prompt, session=session).run for prompt in "yz"]
        assert statuses(server) == [200, 400, 200, 200]
        assert all(any("reasoning of earlier answers" in warning for warning in run.warnings) for run in runs)
        assert session.messages[1] == kept

    def test_a_request_without_any(self, serve):
        """Where none was sent there is nothing to leave out, and the refusal is raised."""
        server = serve(error(400, self.WORDS[0][0]))
        with pytest.raises(ModelError, match="Remove reasoning items"):
            agent_for(server, api="responses").run("x")
        assert statuses(server) == [400]


SAYINGS = [
    ("Unknown parameter: 'stream_options'.", None, "stream_options"),
    ("Unknown parameter: 'stream_options.include_usage'.", None, "stream_options.include_usage"),
    ("Unrecognized request argument supplied: seed", None, "seed"),
    ("temperature: Extra inputs are not permitted", None, "temperature"),
    ("`temperature` is deprecated for this model.", None, "temperature"),
    ("Argument not supported on this model: seed", None, "seed"),
    ("Model grok-4 does not support parameter temperature.", None, "temperature"),
    ("This model does not support temperature", None, "temperature"),
    ("seed is not supported", None, "seed"),
    ("Unsupported parameter: 'parallel_tool_calls' is not supported with this model.", None, "parallel_tool_calls"),
    ("Unsupported parameter: 'reasoning.effort' is not supported with this model.", None, "reasoning.effort"),
    ("Encrypted content is not supported with this model.", "include[0]", "include"),
    ("Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.", None,
     "response_format"),
    ("This model does not support response format `json_schema`.", "response_format", "response_format"),
    ("Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.",
     "temperature", "temperature"),
    ('json: unknown field "parallel_tool_calls"\n', None, "parallel_tool_calls"),
    ("property 'stream_options' is unsupported", None, "stream_options"),
    ("Additional properties are not allowed ('seed' was unexpected)", None, "seed"),
    ("create_completion() got an unexpected keyword argument 'seed'", None, "seed"),
    ('Invalid JSON payload received. Unknown name "seed": Cannot find field.', None, "seed"),
    ("extraneous key [seed] is not permitted, please reformat your input", None, "seed"),
    ("The model does not support the parameter `top_p`.", None, "top_p"),
    ("This server doesn't accept 'temperature'", None, "temperature"),
    ("Parameter not supported: seed", None, "seed"),
    ("`seed` is not currently supported", None, "seed"),
    ("the field \u2018seed\u2019 is not allowed", None, "seed"),
    ("[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'msg': 'Extra inputs are not permitted', 'input': 1}]",
     None, "seed"),
    ('[{"loc":["body","seed"],"msg":"extra fields not permitted","type":"value_error.extra"}]', None, "seed"),
]  # fmt: skip
OTHER_SAYINGS = [
    ("temperature must be <= 2", "temperature"),
    ("Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead.", "temperature"),
    ("Unsupported value: 'reasoning_effort' does not support 'xhigh' with this model. Supported values are: 'low'.",
     "reasoning_effort"),
    ("max_tokens is too large: 100000. This model supports at most 16384 completion tokens", "max_tokens"),
    ("'seed' is not allowed to be negative", None),
    ("'top_p' is not supported with values above 1", None),
    ("Invalid value for 'temperature'", "temperature"),
    ("Missing required parameter: 'messages'.", "messages"),
    ("The server had an error while processing your request", None),
    ("'temperature' should be between 0 and 1; larger numbers are not supported", "temperature"),
]  # fmt: skip


class TestWords:
    @pytest.mark.parametrize(("message", "param", "name"), SAYINGS)
    def test_how_servers_refuse_a_field(self, message, param, name):
        """The name is found in the words of many servers."""
        assert name in refused_names({"message": message, "param": param})

    @pytest.mark.parametrize(("message", "param"), OTHER_SAYINGS)
    def test_how_servers_complain_of_a_value(self, message, param):
        """Complaints about values and about other things name no field that is refused."""
        known = {"temperature", "top_p", "seed", "max_tokens", "reasoning_effort", "messages"}
        assert not known & refused_names({"message": message, "param": param})

    def test_a_list_of_what_is_known_refuses_nothing_in_it(self):
        """Only the field that is unknown is named."""
        names = refused_names({"message": "unknown field `foo`, expected one of `model`, `seed`, `temperature`"})
        assert names == {"foo"}

    def test_a_list_of_problems(self, serve):
        """What FastAPI answers is understood, with its own status."""
        detail = [
            {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": 1}
        ]
        body = json.dumps({"detail": detail}).encode()
        server = serve(raw(body, status=422, content_type="application/json"), text("a"))
        assert agent_for(server, seed=1).run("x") == "a"

    @given(st.text() | st.lists(st.text()) | st.dictionaries(st.sampled_from(["message", "param", "code"]), st.text()))
    def test_any_body_is_read(self, body):
        """Whatever a server sends with a refusal, reading it does not fail."""
        assert isinstance(refused_names(body), set)
