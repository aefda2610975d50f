"""The body of a Responses API request, made of any transcript: always one that the strict server takes."""

import json

import pytest
from hypothesis import given
from strategies import moderate, valid_transcripts

from cyclops_nb import (
    AgentConfig,
    AssistantMessage,
    FilePart,
    ImagePart,
    ModelRequest,
    ReasoningPart,
    SummaryMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from cyclops_nb.models.base import Endpoint
from cyclops_nb.models.payload import chat_payload
from cyclops_nb.models.responses_payload import responses_payload
from cyclops_nb.testing.strict import chat_refusal
from cyclops_nb.testing.strict_responses import responses_refusal

HERE = Endpoint("http://here/v1", "m", host="here")
ITEM = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Hm"}],
    "encrypted_content": "g",
}
THOUGHT = ReasoningPart("Hm", provider_metadata={"item": ITEM})
TOOL = {"name": "f", "description": "Do it.", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
FORM = {"type": "object", "properties": {"n": {"type": "integer"}}}
CLOSED = {**FORM, "required": ["n"], "additionalProperties": False}


def payload(*messages, api=responses_payload, hosts=None, tools=(), schema=None, **settings):
    """Return the body of a request, as JSON gives it back."""
    request = ModelRequest(
        AgentConfig("m", **settings), messages, tools, response_schema=schema, run_id="r", hosts=hosts or {}
    )
    return json.loads(json.dumps(api(request, HERE)))


def items(*messages, **settings):
    """Return the input items of a request."""
    return payload(*messages, **settings)["input"]


def said(*parts, run_id="r"):
    """Return an answer."""
    return AssistantMessage(parts, run_id=run_id)


def result(call_id="c", content="11"):
    """Return the result of a call."""
    return ToolMessage(call_id, "f", content)


class TestSettings:
    def test_what_is_always_asked_for(self):
        """Answers are streamed, nothing is left with the server, and reasoning comes so that it can go back."""
        body = payload(UserMessage("Hi"))
        assert body == {
            "model": "m",
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
            "stream": True,
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }

    def test_all_of_them(self):
        """Each setting stands where this API has it."""
        body = payload(
            UserMessage("Hi"),
            system_prompt="Be brief.",
            temperature=0,
            top_p=0.5,
            max_tokens=50,
            reasoning_effort="low",
            tools=(TOOL,),
            tool_choice="f",
            parallel_tool_calls=False,
            schema=CLOSED,
        )
        assert responses_refusal(body) is None
        del body["model"], body["input"], body["stream"], body["store"], body["include"]
        assert body == {
            "instructions": "Be brief.",
            "temperature": 0,
            "top_p": 0.5,
            "max_output_tokens": 50,
            "reasoning": {"effort": "low", "summary": "auto"},
            "tools": [{"type": "function", **TOOL, "strict": False}],
            "tool_choice": {"type": "function", "name": "f"},
            "parallel_tool_calls": False,
            "text": {"format": {"type": "json_schema", "name": "answer", "schema": CLOSED, "strict": True}},
        }

    def test_a_form_that_is_not_strict(self):
        """A schema that leaves something open is sent as such."""
        body = payload(UserMessage("Hi"), schema=FORM)
        assert body["text"]["format"]["strict"] is False
        assert responses_refusal(body) is None

    @pytest.mark.parametrize(
        ("choice", "sent"),
        [
            ("auto", "auto"),
            ("none", "none"),
            ("required", "required"),
            ({"type": "function", "name": "f"}, {"type": "function", "name": "f"}),
            ({"type": "function", "function": {"name": "f"}}, {"type": "function", "name": "f"}),
        ],
    )
    def test_the_choice_of_a_tool(self, choice, sent):
        """It may be given in words, or in the form of either API."""
        body = payload(UserMessage("Hi"), tools=(TOOL,), tool_choice=choice)
        assert body["tool_choice"] == sent
        assert responses_refusal(body) is None

    def test_what_belongs_to_tools_needs_them(self):
        """Without tools nothing is said about them."""
        body = payload(UserMessage("Hi"), tool_choice="auto", parallel_tool_calls=True)
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(body)

    def test_fields_of_the_users_own(self):
        """They win, and stand beside ours in objects that both write to."""
        extra = {"text": {"verbosity": "low"}, "reasoning": {"summary": "detailed"}, "top_p": 1, "metadata": {"a": "b"}}
        body = payload(UserMessage("Hi"), schema=FORM, reasoning_effort="low", top_p=0.5, extra_body=extra)
        assert body["text"]["verbosity"] == "low"
        assert body["text"]["format"]["name"] == "answer"
        assert body["reasoning"] == {"effort": "low", "summary": "detailed"}
        assert (body["top_p"], body["metadata"]) == (1, {"a": "b"})


class TestItems:
    def test_a_conversation(self):
        """Texts, calls and results are items in their order."""
        made = items(
            UserMessage("Hi"),
            said(TextPart("I look."), ToolCall("c", "f", '{"a": 1}'), TextPart("Wait.")),
            result(),
            said(TextPart("11 °C")),
            SummaryMessage("They greeted.", 3),
        )
        assert made[1:-1] == [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}'},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Wait."}]},
            {"type": "function_call_output", "call_id": "c", "output": "11"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "11 °C"}]},
        ]
        head, summary = made[-1]["content"]
        assert (made[-1]["role"], head["text"]) == ("user", "Summary of the conversation so far:\n\n")
        assert summary["text"] == "They greeted."

    def test_pictures_and_files(self):
        """They are sent as data, or by their address."""
        picture, file = ImagePart(b"img", media_type="image/png"), FilePart("a.pdf", b"pdf", "application/pdf")
        (item,) = items(UserMessage([TextPart("What?"), picture, ImagePart(url="https://example.org/a.png"), file]))
        assert item["content"][1:] == [
            {"type": "input_image", "image_url": "data:image/png;base64,aW1n", "detail": "auto"},
            {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "auto"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,cGRm"},
        ]

    def test_pictures_in_results(self):
        """A result shows its pictures itself."""
        picture = ImagePart(b"img", media_type="image/png")
        made = items(UserMessage("x"), said(ToolCall("c", "f")), result(content=[TextPart("A plot"), picture]))
        assert [part["type"] for part in made[-1]["output"]] == ["input_text", "input_image"]
        assert responses_refusal({"model": "m", "input": made}) is None

    def test_an_answer_without_a_word(self):
        """Nothing is sent for it."""
        assert len(items(UserMessage("x"), said(ReasoningPart("Hm"), TextPart("")), UserMessage("y"))) == 2

    def test_what_a_model_made_up(self):
        """Names and arguments that a server would refuse are sent in a form that it takes."""
        made = items(UserMessage("x"), said(ToolCall("c", "a b.c", "[1]")), result())
        assert (made[1]["name"], made[1]["arguments"]) == ("a_b_c", '{"invalid_json": "[1]"}')

    def test_ids_that_repeat(self):
        """Ids that stand for another call in each turn get ids of their own, the same for call and result."""
        turn = [said(ToolCall("call_1", "f"), ToolCall("b", "f")), result("b"), result("call_1")]
        made = items(UserMessage("x"), *turn, *turn, *turn)
        called = [item["call_id"] for item in made if item["type"] == "function_call"]
        answered = [item["call_id"] for item in made if item["type"] == "function_call_output"]
        assert called[:2] == ["call_1", "b"]
        assert len(set(called)) == 6
        assert answered == [called[i] for i in (1, 0, 3, 2, 5, 4)]
        assert made == items(UserMessage("x"), *turn, *turn, *turn)

    def test_ids_that_are_too_long(self):
        """An id of another provider that is longer than servers take is sent as a shorter one."""
        made = items(UserMessage("x"), said(ToolCall("c" * 200, "f")), result("c" * 200))
        assert made[1]["call_id"] == made[2]["call_id"]
        assert len(made[1]["call_id"]) <= 64


class TestReasoning:
    @pytest.mark.parametrize(
        ("replay", "host", "item", "sent"),
        [
            ("auto", "here", ITEM, True),
            ("always", "here", ITEM, True),
            ("never", "here", ITEM, False),
            ("auto", "there", ITEM, False),
            ("always", "there", ITEM, False),
            ("auto", "here", {**ITEM, "encrypted_content": None}, False),
            ("always", "here", {**ITEM, "encrypted_content": ""}, False),
            ("auto", "here", {**ITEM, "encrypted_content": "", "content": [{"type": "reasoning_text"}]}, False),
            ("always", "here", {**ITEM, "encrypted_content": "", "content": [{"type": "reasoning_text"}]}, True),
            ("auto", "here", None, False),
            ("always", "here", None, False),
        ],
    )
    def test_when_it_is_sent_back(self, replay, host, item, sent):
        """It goes to the host it came from, whole, if the setting wants that and the item holds the reasoning."""
        part = ReasoningPart("Hm", provider_metadata={} if item is None else {"item": item})
        made = items(
            UserMessage("x"), said(part, TextPart("Hi")), UserMessage("y"), hosts={"r": host}, reasoning_replay=replay
        )
        assert [one["type"] for one in made] == ["message", *(["reasoning"] if sent else []), "message", "message"]
        if sent:
            assert made[1] == {name: value for name, value in item.items() if value is not None}

    def test_it_stands_before_what_it_led_to(self):
        """Each item keeps its place between texts and calls."""
        second = ReasoningPart("", provider_metadata={"item": {**ITEM, "id": "rs_2"}})
        made = items(
            UserMessage("x"),
            said(THOUGHT, ToolCall("c", "f"), second, TextPart("Hi")),
            result(),
            hosts={"r": "here"},
        )
        kinds = [item["type"] for item in made]
        assert kinds == ["message", "reasoning", "function_call", "reasoning", "message", "function_call_output"]
        assert responses_refusal({"model": "m", "input": made}) is None

    @pytest.mark.parametrize("parts", [(THOUGHT,), (TextPart("Hi"), THOUGHT), (THOUGHT, TextPart(""))])
    def test_it_is_not_sent_by_itself(self, parts):
        """Reasoning that has led to nothing stays away, since servers refuse it alone."""
        made = items(UserMessage("x"), said(*parts), UserMessage("y"), hosts={"r": "here"})
        assert "reasoning" not in [item["type"] for item in made]

    def test_it_is_not_sent_without_what_it_led_to(self):
        """Reasoning before an item that was not kept stays away."""
        part = ReasoningPart("Hm", provider_metadata={"item": ITEM, "led_to": "web_search_call"})
        made = items(UserMessage("x"), said(part, TextPart("Hi")), hosts={"r": "here"})
        assert "reasoning" not in [item["type"] for item in made]

    def test_fields_that_only_describe_it_stay_away(self):
        """Null fields and the status are refused in a question."""
        part = ReasoningPart("Hm", provider_metadata={"item": {**ITEM, "status": "completed", "content": None}})
        made = items(UserMessage("x"), said(part, TextPart("Hi")), hosts={"r": "here"})
        assert made[1] == ITEM

    def test_a_phase_goes_to_its_host_alone(self):
        """What a provider calls a message is for that provider."""
        part = TextPart("Hi", provider_metadata={"phase": "commentary"})
        for host, sent in (("here", "commentary"), ("there", None)):
            assert items(UserMessage("x"), said(part), hosts={"r": host})[1].get("phase") == sent


class TestTheOtherApi:
    def test_chat_does_not_send_items(self):
        """What only this API understands is left out of a chat completion, whatever the setting says."""
        for replay in ("auto", "always"):
            body = payload(
                UserMessage("x"),
                said(THOUGHT, TextPart("Hi", provider_metadata={"phase": "commentary"}), ToolCall("c", "f")),
                result(),
                api=chat_payload,
                hosts={"r": "here"},
                reasoning_replay=replay,
            )
            assert set(body["messages"][1]) == {"role", "content", "tool_calls"}
            assert body["messages"][1]["content"] == "Hi"

    def test_what_chat_has_left_is_not_sent(self):
        """Details, signatures and unknown fields of chat completions stay out of items."""
        message = AssistantMessage(
            [
                ReasoningPart(
                    "Hm", provider_metadata={"field": "reasoning_details", "reasoning_details": [{"data": "x"}]}
                ),
                ReasoningPart("So", provider_metadata={"field": "reasoning_content"}),
                ToolCall("c", "f", provider_metadata={"extra_content": {"google": {"thought_signature": "s"}}}),
            ],
            run_id="r",
            provider_metadata={"audio": {"id": "a"}},
        )
        made = items(UserMessage("x"), message, result(), hosts={"r": "here"}, reasoning_replay="always")
        assert made[1:] == [
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "11"},
        ]


def sendable(message):
    """Say whether a user could have sent what a message shows: nothing empty, and files with a name."""
    return all(
        not (isinstance(part, ImagePart | FilePart) and not (part.data or getattr(part, "url", None)))
        and not (isinstance(part, FilePart) and not part.name)
        for part in message.content
    )


class TestAnyTranscript:
    @pytest.mark.parametrize(("api", "refusal"), [(chat_payload, chat_refusal), (responses_payload, responses_refusal)])
    @moderate
    @given(valid_transcripts)
    def test_any_transcript_is_taken(self, api, refusal, transcript):
        """Whatever stands in a valid transcript, the request that is made of it is one that the strict server takes."""
        messages = [UserMessage("x"), *transcript]
        if all(map(sendable, messages)):
            body = payload(*messages, api=api, reasoning_replay="never")
            assert refusal(body) is None
