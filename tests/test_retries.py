"""Requests that are sent again, and the events that tell of them."""

import asyncio
import itertools

import openai
import pytest
from scenarios import FORMS, agent_for, call, note, shape

from cyclops_nb import Agent, ModelConnectionError, ModelError, RequestRetried, RunFinished, Session, TextDelta, Usage
from cyclops_nb.testing import ScriptedServer, cut, error, gate, reply, text, tool_call

NOW = {"retry-after-ms": "1"}
APIS = pytest.mark.parametrize("api", ["chat", "responses"])


def retries(events):
    """Return attempt and reason of the retries among events."""
    return [(event.attempt, event.reason) for event in events if isinstance(event, RequestRetried)]


class TestEvent:
    @APIS
    @pytest.mark.parametrize(
        ("failure", "reason"),
        [
            (error(429, "slow down", headers={"Retry-After": "0", **NOW}), "429 Too Many Requests"),
            (error(500, "down", headers=NOW), "500 Internal Server Error"),
            (error(599, "odd", headers=NOW), "599"),
            (reply(cut()), "connection failed"),
        ],
    )
    def test_a_retry_is_told(self, ask, api, failure, reason):
        """Before the answer an event says that the request is sent again, and what came of the try before."""
        events = list(ask(failure, text("fine"), max_retries=1, api=api).stream_events("go"))
        assert retries(events) == [(1, reason)]
        kinds = [event.type for event in events]
        assert kinds[:4] == ["run_started", "step_started", "request_retried", "text_delta"]
        assert events[-1].content == "fine"

    def test_each_retry_is_told(self, ask):
        """Retries are counted from 1, each with the reason of its own."""
        agent = ask(error(503, "busy", headers=NOW), error(429, "slow", headers=NOW), text("fine"), max_retries=2)
        told = retries(agent.stream_events("go"))
        assert told == [(1, "503 Service Unavailable"), (2, "429 Too Many Requests")]

    def test_a_timeout_is_told_as_one(self, ask):
        """A server that did not answer in time is told from one that cannot be reached."""
        door = gate()
        agent = ask(reply(door), text("fine"), timeout=0.2, max_retries=1)
        assert retries(agent.stream_events("go")) == [(1, "timed out")]

    def test_a_server_that_is_not_there(self):
        """Tries that find no server are told, and the run fails as ever."""
        with ScriptedServer() as server:
            base_url = server.base_url
        events = []
        agent = Agent("m", base_url=base_url, max_retries=1)
        with pytest.raises(ModelConnectionError):
            events.extend(agent.stream_events("go"))
        assert retries(collected(agent)) == [(1, "connection failed")]

    def test_an_event_belongs_to_its_step(self, ask):
        """Run and step of the event are those of the completion that was asked for."""
        agent = ask(tool_call("note", {"n": 1}), error(500, "x", headers=NOW), text("a"), tools=[note], max_retries=1)
        events = list(agent.stream_events("go"))
        (event,) = [event for event in events if isinstance(event, RequestRetried)]
        assert (event.run_id, event.step) == (events[-1].run.id, 2)

    def test_nothing_is_told_of_a_first_try(self, ask):
        """A request that is answered at once, or refused for good, was not retried."""
        agent = ask(text("a"), error(400, "no"), max_retries=2)
        assert retries(agent.stream_events("go")) == []
        assert retries(collected(agent)) == []

    def test_another_try_without_a_setting_is_no_retry(self, serve):
        """A request that is asked again without a field is another request."""
        agent = agent_for(serve(text("a"), refuse_parameters=["seed"]), seed=1, max_retries=2)
        assert retries(agent.stream_events("go")) == []

    def test_runs_side_by_side_hear_of_their_own(self, serve):
        """A retry of one run is not told in another on the same client."""
        failed = itertools.count()

        def answer(request):
            is_bad = request.messages[-1]["content"] == "bad"
            return error(500, "x", headers=NOW) if is_bad and not next(failed) else text("a")

        agent = agent_for(serve(answer), max_retries=1)

        async def told(prompt):
            return retries([event async for event in agent.astream_events(prompt)])

        async def main():
            return await asyncio.gather(told("good"), told("bad"), told("good"))

        assert asyncio.run(main()) == [[], [(1, "500 Internal Server Error")], []]


def collected(agent):
    """Return all events of a run, also of one that fails."""

    async def main():
        handle = agent.start("go")
        return [event async for event in handle.events()]

    return asyncio.run(main())


class TestWhatStaysTheSame:
    @pytest.mark.parametrize("form", FORMS)
    def test_every_form_gives_the_answer(self, ask, form):
        """A retry is no part of the text, the message or the usage."""
        agent = ask(error(429, "slow", headers=NOW), text("fine", usage=(3, 1)), max_retries=1)
        session = Session()
        assert call(agent, form, "go", session=session) == "fine"
        assert (shape(session), session.usage) == ("ua", Usage(1, 3, 1))

    def test_the_server_says_how_long_to_wait(self, ask):
        """Retry-After is heard: with nought there is no pause."""
        agent = ask(error(429, "slow", headers={"Retry-After": "0", **NOW}), text("fine"), max_retries=1)
        events = list(agent.stream_events("go"))
        assert [event.text for event in events if isinstance(event, TextDelta)] == ["fine"]

    def test_retries_end(self, ask):
        """After max_retries the last word of the server is the error, and as many retries were told."""
        agent = ask(*[error(500, f"no {n}", headers=NOW) for n in range(3)], max_retries=2)
        events = collected(agent)
        assert [attempt for attempt, _ in retries(events)] == [1, 2]
        assert isinstance(events[-1], RunFinished)
        assert events[-1].run.error.message.startswith("no 2")


class TestGivenClient:
    def test_its_retries_are_told(self, serve):
        """A client of the user's own retries as it was made to, and that is told too."""
        server = serve(error(500, "x", headers=NOW), text("a"), error(500, "x", headers=NOW), text("b"))

        async def main():
            async with openai.AsyncOpenAI(base_url=server.base_url, api_key="k", max_retries=1) as client:
                agent = Agent("m", client=client)
                return [retries([event async for event in agent.astream_events("x")]) for _ in range(2)]

        assert asyncio.run(main()) == [[(1, "500 Internal Server Error")]] * 2

    def test_its_own_requests_are_left_alone(self, serve):
        """What the user asks with it beside the agent works as before, retries and hooks of the user's included."""
        server = serve(text("a"), error(500, "x", headers=NOW), text("b"))
        seen = []

        async def hook(request):
            seen.append(request.url.path)

        async def main():
            async with openai.AsyncOpenAI(base_url=server.base_url, api_key="k", max_retries=1) as client:
                client._client.event_hooks = {"request": [hook], "response": []}
                await Agent("m", client=client).arun("x")
                answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "y"}])
                return answer.choices[0].message.content

        assert asyncio.run(main()) == "b"
        assert len(seen) == 3

    def test_a_failure_is_told_once(self, serve):
        """An agent that has been used many times tells each retry once."""
        server = serve(text("a"), text("b"), error(500, "x", headers=NOW), text("c"))

        async def main():
            async with openai.AsyncOpenAI(base_url=server.base_url, api_key="k", max_retries=1) as client:
                agents = [Agent("m", client=client) for _ in range(3)]
                return [len(retries([event async for event in agent.astream_events("x")])) for agent in agents]

        assert asyncio.run(main()) == [0, 0, 1]


def test_a_refusal_is_no_retry(ask):
    """A status that says no for good is told by the error alone."""
    agent = ask(error(401, "no"), max_retries=2)
    with pytest.raises(ModelError):
        agent.run("go")
    assert len(agent.server.completions) == 1
