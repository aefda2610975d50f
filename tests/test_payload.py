"""What is sent back of what a model made up: always something that a server takes."""

from __future__ import annotations

import pandas as pd
import pytest

from cyclops_nb import (
    Agent,
    AgentConfig,
    AssistantMessage,
    ModelRequest,
    ReasoningPart,
    Session,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from cyclops_nb.models.base import Endpoint
from cyclops_nb.models.payload import chat_payload
from cyclops_nb.testing import ScriptedServer, error, reasoning, reply, text, tool_call


class TestMadeUpCalls:
    """Calls that no tool stands for, or with arguments that are none."""

    @pytest.mark.parametrize("name", ["functions.get_weather", "get weather", "w" * 80, "wetter_für"])
    def test_an_illegal_tool_name_does_not_poison_the_session(self, name):
        """The model is told that there is no such tool, and the strict server takes all later requests."""
        session = Session()
        with ScriptedServer([tool_call(name, {}), text("I see."), text("Fine.")]) as server:
            agent = Agent("scripted", base_url=server.base_url)
            assert agent.run("hi", session=session) == "I see."
            assert agent.run("again", session=session) == "Fine."
        assert session.messages[1].tool_calls[0].name == name
        assert session.messages[2].status == "error"

    @pytest.mark.parametrize("arguments", ["[" * 100_000, '{"a": listt}', "[1]", "null"])
    def test_arguments_that_are_no_object_do_not_poison_the_session(self, arguments):
        """They are kept as the model wrote them, answered with an error, and sent back as valid JSON."""
        session = Session()
        with ScriptedServer([tool_call("f", arguments), text("I see."), text("Fine.")]) as server:
            agent = Agent("scripted", [lambda_tool], base_url=server.base_url)
            assert agent.run("hi", session=session) == "I see."
            assert agent.run("again", session=session) == "Fine."
        assert session.messages[1].tool_calls[0].arguments == arguments
        assert session.messages[2].status == "error"


def f() -> str:
    """Do nothing."""
    return "done"


lambda_tool = f


class TestReasoning:
    """What a server gets of reasoning that it, or another one, has sent before."""

    @staticmethod
    def missing(request):
        """Refuse a request in which an answer lacks the key, or else answer without reasoning."""
        said = [message for message in request.messages if message["role"] == "assistant"]
        if any("reasoning_content" not in message for message in said):
            return error(400, "Missing `reasoning_content` in an assistant message")
        return text("ok")

    @staticmethod
    def unwanted(request):
        """Refuse a request in which an answer has such a key, or else answer."""
        if any(key.startswith("reasoning") for message in request.messages for key in message):
            return error(400, "property 'reasoning_content' is unsupported")
        return text("ok")

    def test_a_server_that_wants_the_key_gets_it_everywhere(self):
        """With ``always`` each answer has the key, empty where there was no reasoning, calls alone included."""
        script = [reply(reasoning("Hm"), tool_call("f")), tool_call("f"), text("a"), *[self.missing] * 2]
        session = Session()
        with ScriptedServer(script) as server:
            agent = Agent("m", [f], base_url=server.base_url, reasoning_replay="always")
            for _ in range(3):
                agent.run("x", session=session)
            said = [
                item["reasoning_content"] for item in server.completions[-1].messages if item["role"] == "assistant"
            ]
        assert said == ["Hm", "", "", ""]

    def test_a_server_that_refuses_the_key_does_not_get_it(self):
        """By default reasoning stays away from servers that are not known to want it."""
        session = Session()
        with ScriptedServer([reply(reasoning("Hm"), tool_call("f")), self.unwanted, self.unwanted]) as server:
            agent = Agent("m", [f], base_url=server.base_url)
            assert [agent.run("x", session=session), agent.run("y", session=session)] == ["ok", "ok"]

    def test_it_is_never_mixed_into_the_text(self):
        """What a model thought is no part of what it said."""
        for replay in ("auto", "always", "never"):
            session = Session()
            with ScriptedServer([reply(reasoning("Hm", field="reasoning"), text("Hi")), text("ok")]) as server:
                agent = Agent("m", base_url=server.base_url, reasoning_replay=replay)
                agent.run("x", session=session)
                agent.run("y", session=session)
                answer = server.completions[1].messages[1]
            assert answer == {"role": "assistant", "content": "Hi"} | (
                {"reasoning": "Hm"} if replay == "always" else {}
            )

    @pytest.mark.parametrize(("host", "sent"), [("api.deepseek.com", ["Hm", ""]), ("api.example.org", [None, None])])
    def test_hosts_that_are_known_to_want_it(self, host, sent):
        """By default they get their own reasoning back, and the key where there is none."""
        messages = (
            UserMessage("x"),
            AssistantMessage(
                [ReasoningPart("Hm", provider_metadata={"field": "reasoning_content"}), ToolCall("c", "f")], run_id="r"
            ),
            ToolMessage("c", "f", "1"),
            AssistantMessage(ToolCall("c", "f"), run_id="elsewhere"),
            ToolMessage("c", "f", "1"),
        )
        request = ModelRequest(AgentConfig("m"), messages, hosts={"r": host, "elsewhere": "other"})
        body = chat_payload(request, Endpoint(f"https://{host}/v1", "m", host=host))
        assert [item.get("reasoning_content") for item in body["messages"] if item["role"] == "assistant"] == sent


class TestTexts:
    """Texts beside each other."""

    def test_begin_on_lines_of_their_own(self, ask):
        """A table after words, and two texts, are not glued together."""
        agent = ask(text("x"), text("x"))
        agent.run(["The numbers:", pd.Series([1, 2])])
        agent.run(["first", "second", " third"])
        first, second = (request.messages[0]["content"] for request in agent.server.completions)
        assert first == "The numbers:\n0    1\n1    2"
        assert second == "first\nsecond third"

    @pytest.mark.parametrize("api", ["chat", "responses"])
    def test_an_empty_result_is_empty(self, ask, api):
        """The model is told nothing that is not so."""
        agent = ask(tool_call("quiet", {}), text("x"), tools=[quiet], api=api)
        agent.run("go")
        body = agent.server.requests[-1].body
        result = body["messages"][-1]["content"] if api == "chat" else body["input"][-1]["output"]
        assert result == ""


def quiet() -> str:
    """Say nothing."""
    return ""
