"""The embedded model over the Responses API: a real model behind a real server."""

import pytest
from pydantic import BaseModel

from cyclops_nb import Agent, ContextOverflowError, Session

SETTINGS = {"api": "responses", "temperature": 0}


class Animal(BaseModel):
    """An answer with a form."""

    name: str
    legs: int


@pytest.fixture(scope="module")
def agent():
    """Give an agent on the embedded model."""
    return Agent("local", max_tokens=24, **SETTINGS)


class TestEmbeddedModel:
    def test_it_answers(self, agent):
        """Text comes with its usage and costs nothing; the model is the one that was asked for."""
        response = agent.run_with_response("Hello!")
        assert response.content
        assert response.usage.input_tokens > 5
        assert (response.cost, response.model) == (0.0, "local")

    def test_it_streams(self, agent):
        """Text comes in pieces that add up to what a run without a stream gives."""
        pieces = list(agent.stream("Hello!"))
        assert len(pieces) > 3
        assert "".join(pieces) == agent.run("Hello!")

    def test_a_second_turn(self, agent):
        """It gets what was said before, under either API."""
        session = Session()
        for api in ("responses", "responses", "chat", "responses"):
            assert agent.replace(api=api).run("Hello!", session=session)
        first, second = (run.usage.input_tokens for run in session.runs[:2])
        assert second > first + 10
        assert [run.stop_reason for run in session.runs] == ["completed"] * 4

    def test_an_answer_that_was_cut(self):
        """One that has reached the limit says so."""
        response = Agent("local", max_tokens=5, **SETTINGS).run_with_response("Describe a fox.")
        assert response.finish_reason == "length"

    def test_a_structured_answer(self):
        """It is held to the form that was asked for."""
        animal = Agent("local", max_tokens=60, **SETTINGS).run("Invent an animal.", response_model=Animal)
        assert isinstance(animal.legs, int)

    def test_a_prompt_that_is_too_long(self, agent):
        """It is told as such."""
        response = agent.run_with_response("word " * 6000)
        assert type(response.error) is ContextOverflowError
