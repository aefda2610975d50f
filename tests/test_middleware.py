"""Middleware around model and tool calls: what it may see, change, repeat, refuse and raise."""

import asyncio

import pytest
from scenarios import FORMS, call, note, roles, shape, steps_script

from cyclops_nb import (
    Agent,
    AssistantMessage,
    ConfigError,
    Middleware,
    ModelError,
    ModelRequest,
    Session,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from cyclops_nb.testing import error, error_in_stream, gate, reply, text, tool_call, tool_calls


class Logs(Middleware):
    """Writes down when it is entered and left."""

    def __init__(self, name, log):
        self.name = name
        self.log = log

    async def wrap_model_call(self, request, call_next):
        self.log.append(f"{self.name} asks")
        message = await call_next(request)
        self.log.append(f"{self.name} hears")
        return message

    async def wrap_tool_call(self, call, call_next):
        self.log.append(f"{self.name} calls {call.name}")
        message = await call_next(call)
        self.log.append(f"{self.name} gets {message.text}")
        return message


class Retries(Middleware):
    """Asks again, up to three times in all, when the model fails."""

    def __init__(self, good=lambda message: True):
        self.good = good

    async def wrap_model_call(self, request, call_next):
        for _ in range(2):
            try:
                message = await call_next(request)
            except ModelError:
                continue
            if self.good(message):
                return message
        return await call_next(request)


def model(function):
    """Return middleware whose model wrapper is `function`."""

    class Made(Middleware):
        async def wrap_model_call(self, request, call_next):
            return await function(request, call_next)

    return Made()


def around_tools(function):
    """Return middleware whose tool wrapper is `function`."""

    class Made(Middleware):
        async def wrap_tool_call(self, call, call_next):
            return await function(call, call_next)

    return Made()


class TestChecked:
    """What is no middleware is refused when the agent is made, before a question could be kept unfiltered."""

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            (Logs, "a list of Middleware: write middleware=.*the class Logs"),
            (Middleware(), "a list of Middleware"),
            ("x", "a list of Middleware"),
            (None, "a list of Middleware"),
            ([Logs], r"not the class Logs: write Logs\("),
            ([None], "not NoneType"),
            (["x"], "not str"),
        ],
    )
    def test_in_words(self, given, told):
        """The error says what to write."""
        with pytest.raises(ConfigError, match=told):
            Agent("m", middleware=given)

    def test_a_filter_of_an_object(self, ask):
        """A filter that is set on an object, not written in a class, filters as well."""
        quiet = Middleware()
        quiet.filter_text = lambda text: text.replace("secret", "…")
        session = Session()
        ask(text("a secret"), middleware=[quiet]).run("my secret", session=session)
        assert [message.text for message in session.messages] == ["my …", "a …"]


class TestOrder:
    def test_the_first_is_the_outermost(self, ask):
        """Middleware is entered in the order of the list and left in the reverse."""
        log = []
        agent = ask(*steps_script(2), tools=[note], middleware=[Logs("A", log), Logs("B", log)])
        agent.run("go")
        asked = ["A asks", "B asks", "B hears", "A hears"]
        called = ["A calls note", "B calls note", "B gets noted 1", "A gets noted 1"]
        assert log == [*asked, *called, *asked]

    @pytest.mark.parametrize("form", FORMS)
    def test_every_form_uses_it(self, ask, form):
        """Whichever way a run is begun, its calls go through the middleware."""
        log = []
        agent = ask(*steps_script(2), tools=[note], middleware=[Logs("A", log)])
        assert call(agent, form, "go") == "done"
        assert len(log) == 6

    def test_the_base_class_changes_nothing(self, ask):
        """Middleware that overrides nothing passes everything on, also for streams."""
        agent = ask(text("one two"), middleware=[Middleware()])
        assert list(agent.stream("go")) == ["one", " two"]


class TestModelCalls:
    def test_sees_whole_messages(self, ask):
        """It gets the settings, the transcript and the tools, and the whole answer."""
        seen = []

        async def look(request, call_next):
            message = await call_next(request)
            seen.append((request, message))
            return message

        agent = ask(*steps_script(2), tools=[note], middleware=[model(look)])
        session = Session()
        agent.run("go", session=session)
        (first, call_message), (second, last) = seen
        assert isinstance(first, ModelRequest)
        assert first.config is agent.config
        assert [item["name"] for item in first.tools] == ["note"]
        assert [message.role for message in first.messages] == ["user"]
        assert list(second.messages) == session.messages[:3]
        assert (first.step, second.step) == (1, 2)
        assert call_message == session.messages[1]
        assert last == session.messages[3]

    def test_may_change_the_request(self, ask):
        """Other messages and settings go to the server; the transcript keeps what was asked."""

        async def change(request, call_next):
            messages = (*request.messages[:-1], UserMessage("translated"))
            return await call_next(request.replace(messages=messages, config=request.config.replace(temperature=0.5)))

        agent = ask(text("ok"), middleware=[model(change)])
        session = Session()
        agent.run("original", session=session)
        sent = agent.server.completions[0]
        assert (sent.messages[-1]["content"], sent.body["temperature"]) == ("translated", 0.5)
        assert session.messages[0].text == "original"

    def test_may_change_the_answer(self, ask):
        """What it returns is the answer: in the transcript, in the response and in the text of streams."""

        async def shout(request, call_next):
            message = await call_next(request)
            return message.model_copy(update={"content": (TextPart(message.text.upper()),)})

        agent = ask(text("ok"), text("ok"), middleware=[model(shout)])
        session = Session()
        response = agent.run_with_response("go", session=session)
        assert (response.content, session.messages[1].text) == ("OK", "OK")
        assert session.messages[1].usage == response.usage
        assert list(agent.stream("go")) == ["OK"]

    def test_may_answer_by_itself(self, ask):
        """Without asking the model nothing is sent and nothing is consumed; the step is told as any other."""

        async def cached(request, call_next):
            return AssistantMessage("from memory")

        agent = ask(middleware=[model(cached)])
        session = Session()
        kinds = [event.type for event in agent.stream_events("go", session=session)]
        assert kinds == ["run_started", "step_started", "step_finished", "run_finished"]
        assert roles(session)[1] == ("assistant", "from memory")
        assert session.messages[1].run_id == session.runs[0].id
        assert (session.usage, session.cost, session.runs[0].usage_complete) == (Usage(), 0.0, True)
        assert agent.server.requests == []

    def test_an_answer_of_its_own_may_call_tools(self, ask):
        """Calls it makes up are run; calls without an id, or with a doubled one, get ids of their own."""

        async def plans(request, call_next):
            if request.step == 1:
                return AssistantMessage([ToolCall("x", "note", '{"n": 1}'), ToolCall("x", "note", '{"n": 2}')])
            return await call_next(request)

        agent = ask(text("done"), tools=[note], middleware=[model(plans)])
        session = Session()
        assert agent.run("go", session=session) == "done"
        assert [message.text for message in session.messages[2:4]] == ["noted 1", "noted 2"]
        assert len({message.call_id for message in session.messages[2:4]}) == 2

    def test_may_ask_again(self, ask):
        """A retry emits StepStarted again with the same step, and leaves nothing of the failed try."""
        agent = ask(
            reply(text("half"), error_in_stream("down")), error(500, "down"), text("whole"), middleware=[Retries()]
        )
        session = Session()
        events = list(agent.stream_events("go", session=session))
        told = [(event.type, event.step) for event in events if event.type in {"step_started", "text_delta"}]
        assert told == [
            ("step_started", 1),
            ("text_delta", 1),
            ("step_started", 1),
            ("step_started", 1),
            ("text_delta", 1),
        ]
        assert roles(session) == [("user", "go"), ("assistant", "whole")]

    def test_usage_of_all_tries_counts(self, ask):
        """What every try consumed is in the usage of the run, but one answer stands in the transcript."""
        agent = ask(
            text("bad", usage=(10, 1)), text("good", usage=(10, 2)), middleware=[Retries(lambda m: m.text == "good")]
        )
        session = Session()
        response = agent.run_with_response("go", session=session)
        assert (response.content, response.usage, response.steps) == ("good", Usage(2, 20, 3), 1)
        assert shape(session) == "ua"
        assert session.messages[1].usage == Usage(1, 10, 2)

    def test_stream_yields_the_last_try_alone(self, ask):
        """Under retrying middleware text is told once the step is final."""
        agent = ask(text("bad try"), text("good"), middleware=[Retries(lambda m: m.text == "good")])
        assert list(agent.stream("go")) == ["good"]

    def test_what_a_reader_of_events_keeps(self, ask):
        """Dropping the deltas at each StepStarted gives the answer."""
        from cyclops_nb.accumulator import Accumulator

        agent = ask(text("bad try"), text("good"), middleware=[Retries(lambda m: m.text == "good")])
        accumulator = Accumulator()
        for event in agent.stream_events("go"):
            accumulator.add(event)
        assert accumulator.text == "good"

    @pytest.mark.parametrize("form", FORMS)
    def test_what_it_raises_ends_the_run(self, ask, form):
        """The run fails with that exception; the question stays."""
        failure = LookupError("not allowed")

        async def refuse(request, call_next):
            raise failure

        session = Session()
        agent = ask(text("fine"), middleware=[model(refuse)])
        with pytest.raises(LookupError) as caught:
            call(agent, form, "go", session=session)
        assert caught.value is failure
        assert (shape(session), session.runs[0].stop_reason, session.busy) == ("u", "error", False)

    def test_raising_after_the_answer(self, ask):
        """An answer that was read and then refused is not in the transcript, but its tokens were spent."""

        async def refuse(request, call_next):
            await call_next(request)
            raise LookupError("bad word")

        session = Session()
        response = ask(text("bad", usage=(3, 1)), middleware=[model(refuse)]).run_with_response("go", session=session)
        assert isinstance(response.error, LookupError)
        assert (shape(session), session.usage) == ("u", Usage(1, 3, 1))

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
    def test_raising_what_ends_programs(self, ask, kind):
        """It is the run's error, as from a tool, and the library's loop goes on."""

        async def refuse(request, call_next):
            raise kind("stop")

        session = Session()
        agent = ask(text("fine"), middleware=[model(refuse)])
        with pytest.raises(RuntimeError, match=f"raised {kind.__name__}"):
            agent.run("go", session=session)
        assert (shape(session), session.busy, session.runs[0].stop_reason) == ("u", False, "error")
        assert ask(text("fine")).run("go on", session=session) == "fine"

    @pytest.mark.parametrize("form", FORMS)
    def test_raising_a_cancelled_error_of_its_own(self, ask, form):
        """Where nobody has cancelled anything that is an error as any, and no cancel of the run."""

        async def refuse(request, call_next):
            raise asyncio.CancelledError("mine")

        session = Session()
        with pytest.raises(RuntimeError, match="mine"):
            call(ask(middleware=[model(refuse)]), form, "go", session=session)
        assert session.runs[0].stop_reason == "error"

    def test_returning_something_else(self, ask):
        """An answer must be an assistant message."""

        async def forget(request, call_next):
            await call_next(request)

        response = ask(text("x"), middleware=[model(forget)]).run_with_response("go")
        assert isinstance(response.error, TypeError)
        assert "must return an AssistantMessage, got NoneType" in str(response.error)

    def test_a_cancel_reaches_it(self, ask):
        """Middleware that is waiting for the model is cancelled with the run."""
        door, heard = gate(), []

        async def waits(request, call_next):
            try:
                return await call_next(request)
            except asyncio.CancelledError:
                heard.append("cancelled")
                raise

        handle = ask(reply(door), middleware=[model(waits)]).start("go")
        door.wait_reached()
        handle.cancel()
        assert handle.result().stop_reason == "cancelled"
        assert heard == ["cancelled"]


class TestToolCalls:
    def test_may_change_call_and_result(self, ask):
        """The tool gets the changed call, the transcript the changed result; the model's call stays as it was."""

        async def change(call_, call_next):
            message = await call_next(call_.model_copy(update={"arguments": '{"n": 7}'}))
            return message.model_copy(update={"content": (TextPart(message.text + "!"),)})

        agent = ask(*steps_script(2), tools=[note], middleware=[around_tools(change)])
        session = Session()
        agent.run("go", session=session)
        assert session.messages[1].tool_calls[0].args == {"n": 1}
        assert roles(session)[2] == ("tool", "noted 7!", "ok")

    def test_may_refuse(self, ask):
        """A call it answers by itself is not run; order and ids of the results stay right."""
        ran = []

        def act(n: int) -> str:
            ran.append(n)
            return f"acted {n}"

        async def guard(call_, call_next):
            if call_.args["n"] == 2:
                return ToolMessage("some other id", call_.name, "Not allowed.", "error")
            return await call_next(call_)

        agent = ask(
            tool_calls(*(tool_call("act", {"n": n}) for n in (1, 2, 3))),
            text("done"),
            tools=[act],
            middleware=[around_tools(guard)],
        )
        session = Session()
        assert agent.run("go", session=session) == "done"
        assert sorted(ran) == [1, 3]
        assert shape(session) == "uateta"
        assert [message.call_id for message in session.messages[2:5]] == [c.id for c in session.messages[1].tool_calls]
        assert {message.run_id for message in session.messages} == {session.runs[0].id}

    def test_may_try_again(self, ask):
        """A call may be made several times; one result stands."""
        tries = []

        def flaky() -> str:
            tries.append(None)
            if len(tries) < 3:
                raise ValueError("flaky")
            return "at last"

        async def again(call_, call_next):
            for _ in range(3):
                message = await call_next(call_)
                if message.status == "ok":
                    break
            return message

        agent = ask(tool_call("flaky"), text("done"), tools=[flaky], middleware=[around_tools(again)])
        session = Session()
        agent.run("go", session=session)
        assert roles(session)[2] == ("tool", "at last", "ok")
        assert session.messages[2].value == "at last"

    @pytest.mark.parametrize("form", FORMS)
    def test_what_it_raises_ends_the_run(self, ask, form):
        """That call has an error result, unfinished siblings a cancelled one, finished ones their own."""
        failure = PermissionError("not this one")

        async def finishes_never() -> str:
            await asyncio.sleep(60)

        async def guard(call_, call_next):
            if call_.name == "note" and call_.args["n"] == 2:
                raise failure
            return await call_next(call_)

        calls = tool_calls(tool_call("note", {"n": 2}), tool_call("finishes_never"))
        agent = ask(calls, tools=[note, finishes_never], middleware=[around_tools(guard)])
        session = Session()
        with pytest.raises(PermissionError) as caught:
            call(agent, form, "go", session=session)
        assert caught.value is failure
        assert shape(session) == "uaec"
        assert roles(session)[2] == ("tool", "PermissionError: not this one", "error")
        assert session.runs[0].stop_reason == "error"

    def test_returning_something_else(self, ask):
        """A result must be a tool message; the call has an error result then."""

        async def forget(call_, call_next):
            await call_next(call_)

        session = Session()
        agent = ask(*steps_script(2), tools=[note], middleware=[around_tools(forget)])
        response = agent.run_with_response("go", session=session)
        assert "must return a ToolMessage, got NoneType" in str(response.error)
        assert shape(session) == "uae"

    def test_sees_unknown_tools_and_broken_arguments(self, ask):
        """Whatever the model called passes through it."""
        seen = []

        async def look(call_, call_next):
            message = await call_next(call_)
            seen.append((call_.name, message.status))
            return message

        calls = tool_calls(tool_call("nothing"), tool_call("note", '{"n"'))
        agent = ask(calls, text("done"), tools=[note], middleware=[around_tools(look)])
        assert agent.run("go") == "done"
        assert sorted(seen) == [("note", "error"), ("nothing", "error")]
