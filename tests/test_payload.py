"""What is sent back of what a model made up: always something that a server takes."""

from __future__ import annotations

import pytest

from cyclops_nb import Agent, Session
from cyclops_nb.testing import ScriptedServer, text, tool_call


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
