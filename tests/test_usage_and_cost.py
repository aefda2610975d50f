"""What steps, runs and sessions say about tokens and dollars, and what they warn of."""

import json

import pytest
from scenarios import agent_for, note, steps_script

from cyclops_nb import Agent, Session, Usage
from cyclops_nb.testing import error, error_in_stream, gate, raw, reply, text, tool_call

PRICES = {"input": 2.0, "output": 8.0, "cached": 0.5}


def frames(*usages):
    """Return a stream whose chunks carry these usage reports."""
    parts = []
    for index, usage in enumerate(usages):
        reason = "stop" if index == len(usages) - 1 else None
        choice = {"index": 0, "delta": {"content": "x"}, "finish_reason": reason}
        parts.append(b"data: " + json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode() + b"\n\n")
    return raw(b"".join(parts) + b"data: [DONE]\n\n")


class TestUsage:
    def test_of_step_run_and_session(self, ask):
        """A step has what its completion reported, a run the sum of its steps, a session that of its runs."""
        agent = ask(
            tool_call("note", {"n": 1}, usage=(10, 2), cached=4),
            text("done", usage=(20, 3), reasoning_tokens=1),
            text("more", usage=(30, 4)),
            tools=[note],
        )
        session = Session()
        events = list(agent.stream_events("go", session=session))
        steps = [event.usage for event in events if event.type == "step_finished"]
        assert steps == [Usage(1, 10, 2, 4, 0), Usage(1, 20, 3, 0, 1)]
        assert [session.messages[1].usage, session.messages[3].usage] == steps
        assert session.runs[0].usage == events[-1].run.usage == Usage(2, 30, 5, 4, 1)
        agent.run("on", session=session)
        assert session.usage == Usage(3, 60, 9, 4, 1)

    def test_reports_are_merged_and_never_summed(self, ask):
        """With usage on every chunk the last report counts, field by field; null erases nothing."""
        agent = ask(
            frames(
                {"prompt_tokens": 10, "completion_tokens": 1},
                {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 6}},
                {"completion_tokens": 3, "prompt_tokens_details": None},
                None,
            )
        )
        assert agent.run_with_response("go").usage == Usage(1, 10, 3, 6)

    def test_none_for_a_run_with_one_silent_completion(self, ask):
        """Once a finished completion of a run reported none, the run's usage is None, and so is the session's."""
        agent = ask(tool_call("note", {"n": 1}, usage=(5, 1)), text("done", usage=None), tools=[note])
        session = Session()
        response = agent.run_with_response("go", session=session)
        assert (response.usage, response.cost, session.usage, session.cost) == (None, None, None, None)
        assert session.messages[1].usage == Usage(1, 5, 1)
        assert session.messages[3].usage is None
        assert response.run.usage_complete

    def test_of_a_session_without_runs(self):
        """Nothing was consumed, which is known."""
        assert (Session().usage, Session().cost) == (Usage(), 0.0)

    def test_of_a_completion_that_was_stopped(self, ask):
        """A completion stopped before its report adds nothing, and the run says that its usage is not all."""
        door = gate()
        agent = ask(tool_call("note", {"n": 1}, usage=(5, 1)), reply(text("a"), door), tools=[note], prices=PRICES)
        session = Session()
        handle = agent.start("go", session=session)
        door.wait_reached()
        handle.cancel()
        run = handle.result().run
        assert (run.usage, run.usage_complete) == (Usage(1, 5, 1), False)
        assert session.usage == Usage(1, 5, 1)
        assert run.cost == pytest.approx((5 * 2 + 8) / 1e6)

    def test_of_a_run_stopped_between_completions(self, ask):
        """A run that was stopped while tools ran knows all that it used."""
        agent = ask(tool_call("note", {"n": 1}, usage=(5, 1)), tools=[note])
        session = Session()
        for event in agent.stream_events("go", session=session):
            if event.type == "tool_result":
                break
        assert (session.runs[0].usage, session.runs[0].usage_complete) == (Usage(1, 5, 1), True)

    def test_of_a_run_in_progress(self, ask):
        """While a run goes on its record has what its finished steps used."""
        door = gate()
        agent = ask(tool_call("note", {"n": 1}, usage=(5, 1)), reply(door, text("done")), tools=[note])
        session = Session()
        handle = agent.start("go", session=session)
        door.wait_reached()
        assert session.usage == Usage(1, 5, 1)
        assert session.runs[0].stop_reason is None
        door.release()
        handle.result()

    def test_of_forks(self, ask):
        """A fork has what its origin used, and knows what it used itself."""
        agent = ask(text("a", usage=(10, 1)), text("b", usage=(20, 2)), prices={"input": 1, "output": 0})
        session = Session()
        agent.run("x", session=session)
        fork = session.fork()
        agent.run("y", session=fork)
        assert (session.usage, fork.usage, fork.own_usage) == (Usage(1, 10, 1), Usage(2, 30, 3), Usage(1, 20, 2))
        assert fork.own_cost == pytest.approx(20e-6)
        fork.truncate(0)
        assert fork.usage == Usage(2, 30, 3)


class TestCost:
    def test_by_prices_of_the_users_own(self, ask):
        """Dollars per million tokens, cached ones at their own price."""
        agent = ask(
            tool_call("note", {"n": 1}, usage=(1000, 10), cached=400),
            text("d", usage=(50, 5)),
            tools=[note],
            prices=PRICES,
        )
        session = Session()
        response = agent.run_with_response("go", session=session)
        first = (600 * 2 + 400 * 0.5 + 10 * 8) / 1e6
        second = (50 * 2 + 5 * 8) / 1e6
        assert response.cost == session.cost == pytest.approx(first + second)
        assert isinstance(response.cost, float)
        assert [session.messages[1].cost, session.messages[3].cost] == pytest.approx([first, second])

    def test_cached_tokens_cost_as_others_unless_said_otherwise(self, ask):
        """Without a price for cached tokens they are counted at that of input."""
        agent = ask(text("d", usage=(1000, 0), cached=400), prices={"input": 1, "output": 1})
        assert agent.run_with_response("go").cost == pytest.approx(1e-3)

    def test_prices_of_nought(self, ask):
        """prices=0 is free, and known to be, also where no usage is reported."""
        agent = ask(text("d"), text("d", usage=None), prices=0)
        session = Session()
        assert agent.run_with_response("go", session=session).cost == 0.0
        response = agent.run_with_response("go", session=session)
        assert (response.cost, response.usage, session.cost) == (0.0, None, 0.0)
        assert not any("price" in warning for warning in response.warnings)

    def test_prices_win_over_what_the_server_reports(self, ask):
        """The user's prices come first, the server's report second."""
        script = [text("d", usage=(100, 0), cost=0.25)]
        assert ask(*script).run_with_response("go").cost == 0.25
        assert ask(*script, prices={"input": 1, "output": 1}).run_with_response("go").cost == pytest.approx(1e-4)
        assert ask(*script, prices=0).run_with_response("go").cost == 0.0

    def test_reported_costs_are_summed(self, ask):
        """A run costs what its completions cost, reported ones included that failed."""
        failing = raw(
            b'data: {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.5},'
            b' "error": {"message": "x"}}\n\n'
        )
        agent = ask(tool_call("note", {"n": 1}, cost=0.25), failing, tools=[note])
        assert agent.run_with_response("go").cost == 0.75

    def test_of_an_unknown_model(self, ask):
        """Unknown is None, never 0, and is warned of; a model's name alone says nothing about a host."""
        session = Session()
        agent = ask(text("d"))
        response = agent.replace(model="gpt-4o-mini").run_with_response("go", session=session)
        assert (response.cost, session.cost) == (None, None)
        assert any("price is unknown" in warning for warning in response.warnings)

    @pytest.mark.parametrize("model", ["ollama:deepseek-r1:8b", "vllm:gpt-4o-mini", "llamacpp:m"])
    def test_of_ones_own_program(self, serve, model):
        """What runs on a computer of one's own costs nothing, whatever a model of that name costs elsewhere."""
        server = serve(text("d", usage=(1000, 10), model=model.partition(":")[2]), strict=False)
        response = Agent(model, base_url=server.base_url).run_with_response("go")
        assert (response.cost, response.warnings) == (0.0, ())

    def test_of_a_server_on_this_computer(self, serve):
        """An address on this computer may be anything, a proxy to a service too: its price is unknown."""
        response = agent_for(serve(text("d"))).run_with_response("go")
        assert response.cost is None
        assert "the price is unknown: pass prices= to count costs" in response.warnings

    def test_a_session_with_one_unpriced_run(self, ask):
        """A sum over something unknown is unknown."""
        agent = ask(text("a"), text("b"))
        session = Session()
        agent.replace(prices=PRICES).run("x", session=session)
        assert session.cost is not None
        agent.run("y", session=session)
        assert session.cost is None

    def test_of_a_run_that_never_got_an_answer(self, ask):
        """A refused request costs nothing."""
        session = Session()
        ask(error(400, "no")).run_with_response("go", session=session)
        assert (session.cost, session.usage) == (0.0, Usage())


class TestWarnings:
    def test_a_good_run_has_none(self, ask):
        """Nothing is warned of where nothing is odd."""
        assert ask(*steps_script(3), tools=[note], prices=PRICES).run_with_response("go").warnings == ()

    def test_no_usage(self, ask):
        """A server that reports no usage is told of, once."""
        agent = ask(tool_call("note", {"n": 1}, usage=None), text("d", usage=None), tools=[note])
        assert agent.run_with_response("go").warnings == ("the server reported no usage",)

    def test_ended_by_length(self, ask):
        """An answer that the length limit cut is told of."""
        response = ask(text("half", finish_reason="length"), prices=0).run_with_response("go")
        assert (response.content, response.finish_reason, response.stop_reason) == ("half", "length", "completed")
        assert response.warnings == ("an answer was cut off by its length limit",)

    @pytest.mark.parametrize(
        ("asked", "answered", "warned"),
        [
            ("gpt-4o-mini", "gpt-4o-mini", False),
            ("gpt-4o-mini", "gpt-4o-mini-2024-07-18", False),
            ("openai/gpt-4o-mini", "gpt-4o-mini", False),
            ("gpt-4o-mini", "openai/gpt-4o-mini", False),
            ("GPT-4o-mini", "gpt-4o-mini", False),
            ("claude-sonnet-latest", "claude-sonnet-20260101", False),
            ("qwen3", "qwen3:latest", False),
            ("qwen3-0.6b", "/models/Qwen3-0.6B-Q8_0.gguf", False),
            ("gpt-4o", "qwen3-0.6b", True),
            ("gpt-4o", "gpt-4o-mini", True),
            ("gpt-4", "gpt-4.1", True),
        ],
    )
    def test_another_model(self, ask, asked, answered, warned):
        """Another model than was asked for is told of; a dated or prefixed name is no other model."""
        response = ask(text("d", model=answered), prices=0).replace(model=asked).run_with_response("go")
        assert bool(response.warnings) == warned
        assert response.model == answered
        assert response.run.model == asked

    def test_they_stand_in_the_record(self, ask):
        """Warnings are kept with the run, and survive the session's JSON."""
        session = Session()
        ask(text("d", usage=None)).run("go", session=session)
        loaded = Session.model_validate_json(session.model_dump_json())
        assert loaded.runs[0].warnings == session.runs[0].warnings == ("the server reported no usage",)

    def test_of_a_failed_completion(self, ask):
        """A completion that failed does not complain of a missing report, too."""
        response = ask(reply(text("a"), error_in_stream("down")), prices=0).run_with_response("go")
        assert (response.warnings, response.run.usage_complete) == ((), False)


class TestRecord:
    def test_what_made_an_answer(self, ask):
        """The session keeps model, prompt, settings and tools of a run, once for equal ones, and no secret."""
        agent = ask(text("a"), text("b"), text("c"), tools=[note], system_prompt="Be brief.", temperature=0)
        session = Session()
        agent.run("x", session=session)
        agent.run("y", session=session)
        agent.replace(temperature=1).run("z", session=session)
        first, second, third = (run.config for run in session.runs)
        assert first == second != third
        assert len(session.configs) == 2
        kept = session.configs[first]
        assert (kept["model"], kept["host"], kept["system_prompt"], kept["temperature"]) == (
            "m",
            "127.0.0.1",
            "Be brief.",
            0,
        )
        assert [item["name"] for item in kept["tools"]] == ["note"]
        assert "api_key" not in kept
        assert '"k"' not in json.dumps(session.model_dump(mode="json")["configs"])

    def test_input_limit(self, ask):
        """The record has the context window: the setting's, or the price list's for hosts it knows."""
        agent = ask(text("a"), input_limit=1234)
        assert agent.run_with_response("x").run.input_limit == 1234
        assert ask(text("a")).run_with_response("x").run.input_limit is None

    def test_times(self, ask):
        """A run knows when it began and how long it took, an answer how long the model took."""
        session = Session()
        agent = ask(*steps_script(2), tools=[note])
        agent.run("go", session=session)
        run = session.runs[0]
        assert run.started_at.tzinfo is not None
        assert run.duration >= session.messages[1].duration + session.messages[3].duration > 0


@pytest.mark.parametrize("odd", ["-1.0", "NaN", "Infinity", "1e999", "true", '"0.5"', "null", "[0.5]"])
def test_an_odd_cost_is_no_cost(ask, odd):
    """What a server reports as its cost and is no amount of money is ignored, and never summed."""
    usage = f'{{"prompt_tokens": 7, "completion_tokens": 3, "cost": {odd}}}'
    chunk = f'{{"model": "m", "choices": [{{"index": 0, "delta": {{"content": "x"}}, "finish_reason": "stop"}}], "usage": {usage}}}'
    agent = ask(raw(f"data: {chunk}\n\ndata: [DONE]\n\n".encode()))
    session = Session()
    response = agent.run_with_response("go", session=session)
    assert (response.content, response.usage, response.cost, session.cost) == ("x", Usage(1, 7, 3), None, None)


def test_openrouter_style_cost(serve):
    """A server that reports its cost is believed for the cost of the run."""
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10, "cost": 0.000837}
    agent = agent_for(serve(text("d", usage=usage)))
    assert isinstance(agent, Agent)
    assert agent.run_with_response("go").cost == pytest.approx(0.000837)
