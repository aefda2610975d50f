"""The nine ways into a run: they differ in how they are called, and in nothing else."""

import asyncio
import inspect
from contextlib import aclosing

import pytest
from pydantic import BaseModel
from scenarios import (
    ASYNC_FORMS,
    FORMS,
    RecordingStore,
    acall,
    agent_for,
    begin,
    call,
    content_of,
    note,
    roles,
    shape,
    steps_script,
)

import cyclops_nb
from cyclops_nb import (
    Agent,
    AgentConfig,
    AssistantMessage,
    ConfigError,
    FileSessionStore,
    InputError,
    MaxIterationsError,
    Middleware,
    ModelError,
    OutputError,
    RunHandle,
    RunStarted,
    Session,
    SessionBusyError,
    StepFinished,
    TextDelta,
    ToolCall,
    ToolMessage,
    TranscriptError,
    Usage,
    UserMessage,
)
from cyclops_nb.testing import error, gate, reasoning, reply, text, tool_call


class City(BaseModel):
    name: str
    people: int


def events_of(agent, *args, **kwargs):
    return list(agent.stream_events(*args, **kwargs))


def kinds(events):
    return [event.type for event in events]


def settled(session):
    """Return what of a session must not change when a call is refused."""
    return session.model_dump_json(), session.busy


class TestParity:
    @pytest.mark.parametrize("form", FORMS)
    def test_all_forms_give_the_same(self, ask, form):
        """Answer, transcript, usage, cost and steps are the same whichever way the run was begun."""
        agent = ask(*steps_script(3), tools=[note], prices={"input": 1, "output": 2})
        session = Session()
        assert call(agent, form, "go", session=session) == "done"
        (run,) = session.runs
        assert roles(session) == [
            ("user", "go"),
            ("assistant", ""),
            ("tool", "noted 1", "ok"),
            ("assistant", ""),
            ("tool", "noted 2", "ok"),
            ("assistant", "done"),
        ]
        assert run.usage == session.usage == Usage(3, 1 + 4 + 7, 1 + 1 + 1)
        assert run.cost == session.cost == pytest.approx((12 + 2 * 3) / 1e6)
        assert (run.steps, run.stop_reason, run.error, run.usage_complete) == (3, "completed", None, True)
        assert not session.busy

    def test_all_transcripts_are_equal(self, ask):
        """But for ids, times and durations the nine transcripts are one."""
        transcripts = []
        for form in FORMS:
            session = Session()
            call(ask(*steps_script(2), tools=[note]), form, "go", session=session)
            transcripts.append(content_of(session))
        assert all(transcript == transcripts[0] for transcript in transcripts)

    @pytest.mark.parametrize("name", ["run", "run_with_response", "stream", "stream_events", "open"])
    def test_signatures_of_pairs(self, name):
        """A sync form and its async twin take the same arguments."""
        one, other = (inspect.signature(getattr(Agent, prefix + name)) for prefix in ("", "a"))
        assert list(one.parameters.values()) == list(other.parameters.values())

    @pytest.mark.parametrize("form", FORMS)
    def test_signature(self, form):
        """Each form takes an input by position and all else by name."""
        parameters = inspect.signature(getattr(Agent, form)).parameters
        assert list(parameters) == ["self", "input", "session", "response_model", "durability"]
        assert [p.kind for p in parameters.values()][2:] == [inspect.Parameter.KEYWORD_ONLY] * 3

    @pytest.mark.parametrize("form", FORMS)
    def test_all_forms_raise_what_the_run_failed_with(self, ask, form):
        """The error is the same object that the response holds, and the transcript the same, in each form."""
        agent = ask(tool_call("note", {"n": 1}), error(400, "no"), tools=[note])
        session = Session()
        with pytest.raises(ModelError, match="no"):
            call(agent, form, "go", session=session)
        assert shape(session) == "uat"
        assert session.runs[0].stop_reason == "error"
        assert (session.runs[0].error.type, session.busy) == ("ModelError", False)

    @pytest.mark.parametrize("form", FORMS)
    def test_all_forms_take_a_durability(self, ask, form):
        """The call's durability goes before the agent's."""
        store = RecordingStore()
        agent = ask(*steps_script(2), tools=[note], session_store=store, durability="sync")
        call(agent, form, "go", session=Session("s"), durability="exit")
        assert store.calls == [("save", 4)]

    def test_all_async_forms_work_side_by_side_on_one_loop(self, serve):
        """Ten runs of each kind at once on the caller's loop all get their own answers."""
        agent = agent_for(serve(lambda request: text(request.messages[-1]["content"])))

        async def main():
            forms = [*ASYNC_FORMS, "start"] * 10
            return await asyncio.gather(*(acall(agent, form, str(n)) for n, form in enumerate(forms)))

        assert asyncio.run(main()) == [str(n) for n in range(50)]


class TestRun:
    def test_gives_a_str(self, ask):
        """The answer of run and arun is a str, equal to the plain text."""
        agent = ask(text("**Hi**"), text("**Hi**"))
        for answer in (agent.run("x"), asyncio.run(agent.arun("x"))):
            assert isinstance(answer, str)
            assert answer == "**Hi**"
            assert answer + "!" == "**Hi**!"

    @pytest.mark.parametrize("form", ["run", "arun"])
    def test_a_response_model_gives_an_object(self, ask, form):
        """With response_model= the answer is asked for as JSON of that type and comes as an object of it."""
        agent = ask(text('{"name": "Oslo", "people": 700000}'))
        session = Session()
        assert call(agent, form, "Which?", session=session, response_model=City) == City(name="Oslo", people=700000)
        sent = agent.server.completions[0].body["response_format"]
        assert sent["json_schema"]["schema"]["properties"].keys() == {"name", "people"}
        assert shape(session) == "ua"

    @pytest.mark.parametrize(
        ("kind", "answer", "value"),
        [(list[int], "[1, 2]", [1, 2]), (str, '"yes"', "yes"), (int, "```json\n3\n```", 3), (bool, "false", False)],
    )
    def test_any_type_is_a_response_model(self, ask, kind, answer, value):
        """Lists, numbers and text are response models too, a falsy value included."""
        assert ask(text(answer)).run("x", response_model=kind) == value

    def test_an_answer_that_does_not_fit_gets_one_more_try(self, ask):
        """It stays in the transcript, followed by the error as a user message."""
        agent = ask(text("Oslo"), text('{"name": "Oslo", "people": 1}'))
        session = Session()
        assert agent.run("Which?", session=session, response_model=City).name == "Oslo"
        assert shape(session) == "uaua"
        assert "does not fit" in session.messages[2].text

    def test_two_answers_that_do_not_fit_fail_the_run(self, ask):
        """After the second one OutputError is raised, and the transcript stays one that can go on."""
        agent = ask(text("Oslo"), text("Oslo!"), text("fine"))
        session = Session()
        with pytest.raises(OutputError, match="asked twice"):
            agent.run("Which?", session=session, response_model=City)
        assert shape(session) == "uaua"
        assert agent.run("never mind", session=session) == "fine"


class TestResponse:
    def test_fields(self, ask):
        """A response holds all that came of a run."""
        agent = ask(
            reply(text("Let me see. "), tool_call("note", {"n": 1}), usage=(10, 2)),
            text("done", usage=(20, 3), finish_reason="stop", model="m-2026"),
            tools=[note],
            prices=0,
        )
        session = Session()
        session.messages.extend([UserMessage("old"), AssistantMessage("older")])
        response = agent.run_with_response("go", session=session)
        assert (response.content, response.output, str(response.content)) == ("done", "done", "done")
        assert list(response.messages) == session.messages[2:]
        assert [item.name for item in response.tool_calls] == ["note"]
        assert [item.value for item in response.tool_results] == ["noted 1"]
        assert (response.usage, response.cost) == (Usage(2, 30, 5), 0.0)
        assert (response.model, response.stop_reason, response.finish_reason) == ("m-2026", "completed", "stop")
        assert (response.error, response.partial, response.steps) == (None, "", 2)
        assert response.duration > 0
        assert response.warnings == ()
        assert response.session is session
        assert response.id == session.runs[0].id == session.messages[-1].run_id

    @pytest.mark.parametrize("form", ["run_with_response", "arun_with_response", "start"])
    def test_a_failed_run_is_told_and_not_raised(self, ask, form):
        """A response has the exception in `error`; only forms that give no response raise it."""
        agent = ask(reply(text("half an ans"), error_frame()))
        given = begin(agent, form, "go")
        response = given.result() if form == "start" else given
        assert isinstance(response.error, ModelError)
        assert (response.stop_reason, response.content, response.partial) == ("error", "", "half an ans")

    def test_without_a_session_the_response_has_one(self, ask):
        """The run's own session can be kept and gone on with."""
        agent = ask(text("a"), text("b"))
        response = agent.run_with_response("x")
        agent.run("y", session=response.session)
        assert shape(response.session) == "uaua"

    def test_max_iterations(self, ask):
        """When the steps are used up and the model still calls, all calls are answered and the run says so."""
        agent = ask(*steps_script(5), text("fine"), tools=[note], max_iterations=2)
        session = Session()
        response = agent.run_with_response("go", session=session)
        assert (response.stop_reason, type(response.error), response.steps) == ("max_iterations", MaxIterationsError, 2)
        assert shape(session) == "uatat"
        assert len(agent.server.completions) == 2
        with pytest.raises(MaxIterationsError, match="after 2 steps"):
            agent.run("again", session=session)


def error_frame():
    from cyclops_nb.testing import error_in_stream

    return error_in_stream("broken")


class TestStream:
    @pytest.mark.parametrize("form", ["stream", "astream"])
    def test_yields_the_text_of_all_steps_in_deltas(self, ask, form):
        """Text comes in the pieces in which the server sends it, also that beside tool calls, and no reasoning."""
        agent = ask(
            reply(reasoning("hm"), text("Let me look.", chunks=["Let ", "me ", "look."]), tool_call("note", {"n": 1})),
            text("Done it.", chunks=["Done", " it."]),
            tools=[note],
        )

        async def pieces():
            return [piece async for piece in agent.astream("go")]

        given = list(agent.stream("go")) if form == "stream" else asyncio.run(pieces())
        assert given == ["Let ", "me ", "look.", "Done", " it."]

    def test_text_comes_while_the_model_writes(self, ask):
        """The first piece is there before the server has sent the second."""
        door = gate()
        stream = ask(reply(text("one ", chunks=1), door, text("two"))).stream("go")
        assert next(stream) == "one "
        door.release()
        assert list(stream) == ["two"]

    @pytest.mark.parametrize("form", ["stream", "astream"])
    def test_with_a_response_model_text_is_whole(self, ask, form):
        """What may turn out to be void is held back until its step is final."""
        agent = ask(text("[1, 2]", chunks=3))

        async def pieces():
            return [piece async for piece in agent.astream("go", response_model=list[int])]

        given = list(agent.stream("go", response_model=list[int])) if form == "stream" else asyncio.run(pieces())
        assert given == ["[1, 2]"]

    def test_under_middleware_that_wraps_model_calls_text_is_whole(self, ask):
        """Such middleware may ask again, so deltas are not told as text."""

        class Passes(Middleware):
            async def wrap_model_call(self, request, call_next):
                return await call_next(request)

        agent = ask(text("one two three"), middleware=[Passes()])
        assert list(agent.stream("go")) == ["one two three"]

    def test_a_run_error_comes_after_the_text(self, ask):
        """What was written is told, then the error is raised."""
        stream = ask(reply(text("half"), error_frame())).stream("go")
        assert next(stream) == "half"
        with pytest.raises(ModelError, match="broken"):
            next(stream)


class TestEvents:
    def test_order_of_a_run_with_tools(self, ask):
        """Events tell the whole run in its order: start, steps with deltas, calls and results, end."""
        agent = ask(
            reply(reasoning("hm"), text("Wait."), tool_call("note", {"n": 1}, chunks=2)), text("done"), tools=[note]
        )
        events = events_of(agent, "go")
        assert kinds(events) == [
            "run_started",
            "step_started",
            "reasoning_delta",
            "text_delta",
            "tool_call_started",
            "tool_call_delta",
            "tool_call_delta",
            "tool_call_ready",
            "tool_result",
            "step_finished",
            "step_started",
            "text_delta",
            "step_finished",
            "run_finished",
        ]
        assert [event.step for event in events] == [0, *[1] * 9, *[2] * 4]
        assert len({event.run_id for event in events}) == 1

    def test_what_events_say(self, ask):
        """Each event carries its facts."""
        agent = ask(tool_call("note", {"n": 1}, usage=(5, 2)), text("done", usage=(9, 1)), tools=[note], prices=0)
        session = Session()
        events = {event.type: event for event in events_of(agent, "go", session=session)}
        assert (events["run_started"].session_id, events["run_started"].model) == (session.id, "m")
        assert events["tool_call_started"].name == "note"
        assert events["tool_call_ready"].call.args == {"n": 1}
        assert events["tool_result"].message == session.messages[2]
        assert events["step_finished"].message == session.messages[3]
        assert (events["step_finished"].usage, events["step_finished"].cost) == (Usage(1, 9, 1), 0.0)
        assert events["run_finished"].run == session.runs[0]
        assert events["run_finished"].content == "done"

    def test_all_readings_tell_the_same_events(self, ask):
        """stream_events, astream_events and the handle of start tell one story."""

        async def astream(agent):
            return [event async for event in agent.astream_events("go")]

        async def handle(agent):
            return [event async for event in agent.start("go").events()]

        told = [
            kinds(events_of(ask(*steps_script(3), tools=[note]), "go")),
            kinds(asyncio.run(astream(ask(*steps_script(3), tools=[note])))),
            kinds(asyncio.run(handle(ask(*steps_script(3), tools=[note])))),
        ]
        assert told[0] == told[1] == told[2]

    @pytest.mark.parametrize("ending", ["error", "max_iterations", "cancelled", "store", "middleware"])
    def test_run_started_is_first_and_run_finished_always_last(self, ask, ending):
        """However a run ends, its events begin and end in the same way, and the last one says how it ended."""
        door = gate()

        class Raises(Middleware):
            async def wrap_model_call(self, request, call_next):
                raise LookupError("no")

        settings = {
            "max_iterations": {"max_iterations": 1},
            "store": {"session_store": RecordingStore(fail=lambda number: OSError("full"))},
            "middleware": {"middleware": [Raises()]},
        }.get(ending, {})
        script = {
            "error": [error(400, "no")],
            "max_iterations": steps_script(3),
            "cancelled": [reply(text("a"), door)],
        }.get(ending, [text("a")])
        agent = ask(*script, tools=[note], **settings)
        handle = agent.start("go", session=Session("s"))
        if ending == "cancelled":
            door.wait_reached()
            handle.cancel()
        handle.result()

        async def read():
            return [event async for event in handle.events()]

        events = asyncio.run(read())
        assert (events[0].type, events[-1].type) == ("run_started", "run_finished")
        assert events[-1].run.stop_reason == (ending if ending in {"max_iterations", "cancelled"} else "error")
        assert kinds(events).count("run_finished") == 1

    @pytest.mark.parametrize("form", ["stream_events", "astream_events"])
    def test_run_finished_comes_before_the_error(self, ask, form):
        """A reader of events has the record of the failed run before the exception is raised."""
        agent = ask(error(400, "no"))
        seen = []

        async def read():
            async for event in agent.astream_events("go"):
                seen.append(event)

        with pytest.raises(ModelError):
            if form == "stream_events":
                seen.extend(iter_into(seen, agent.stream_events("go")))
            else:
                asyncio.run(read())
        assert seen[-1].type == "run_finished"
        assert seen[-1].run.error.message == "no (host 127.0.0.1, status 400)"

    def test_the_transcript_is_valid_at_every_event(self, ask):
        """At each event what stands in the session is a valid transcript, and a fork of it can be run."""
        from cyclops_nb.transcript import check

        agent = ask(*steps_script(3), tools=[note])
        session = Session()
        shapes = []
        for _ in agent.stream_events("go", session=session):
            check(session.fork().messages)
            shapes.append(shape(session))
        assert set(shapes) == {"u", "uat", "uatat", "uatata"}

    def test_events_are_data(self, ask):
        """Every event survives its JSON."""
        from pydantic import TypeAdapter

        adapter = TypeAdapter(cyclops_nb.AnyEvent)
        for event in events_of(ask(*steps_script(2), tools=[note]), "go"):
            assert adapter.validate_json(event.model_dump_json()) == event


def iter_into(seen, events):
    for event in events:
        seen.append(event)
    return ()


class TestHandle:
    def test_is_there_at_once(self, ask):
        """Start returns while the model has not answered."""
        door = gate()
        handle = ask(reply(door, text("hi"))).start("go")
        assert isinstance(handle, RunHandle)
        assert (handle.done, handle.response) == (False, None)
        with pytest.raises(TimeoutError, match="it goes on"):
            handle.result(timeout=0.01)
        door.release()
        assert handle.result().content == "hi"
        assert handle.done
        assert handle.response is handle.result()
        assert handle.id == handle.response.id

    def test_can_be_awaited_on_any_loop(self, ask):
        """Await handle gives the response, any number of times, also when the run is over."""

        async def main(handle):
            return await handle, await handle

        handle = ask(text("hi")).start("go")
        first, second = asyncio.run(main(handle))
        assert first is second is handle.response

    def test_events_have_any_number_of_readers_from_the_start(self, ask):
        """Readers that come late, or read side by side on several loops, get all events."""
        door = gate()
        agent = ask(tool_call("note", {"n": 1}), reply(text("a"), door, text("b")), tools=[note])

        async def read():
            return kinds([event async for event in handle.events()])

        async def main():
            early = [asyncio.create_task(read()) for _ in range(3)]
            await door.reached()
            late = asyncio.create_task(read())
            await asyncio.sleep(0)
            door.release()
            return await asyncio.gather(*early, late)

        handle = agent.start("go")
        told = asyncio.run(main())
        told.append(asyncio.run(read()))
        assert told == [told[0]] * 5
        assert (told[0][0], told[0][-1]) == ("run_started", "run_finished")

    def test_a_reader_may_leave(self, ask):
        """Leaving the events of a handle does not stop its run."""
        door = gate()
        handle = ask(reply(text("a"), door, text("b"))).start("go")

        async def main():
            async with aclosing(handle.events()) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        return

        asyncio.run(main())
        door.release()
        assert handle.result().content == "ab"


class TestNoInput:
    @pytest.mark.parametrize("form", FORMS)
    def test_answers_what_stands_at_the_end(self, ask, form):
        """With input=None a user message at the end of the session is answered; nothing is put before it."""
        agent = ask(text("hi"))
        session = Session()
        session.messages.append(UserMessage("hello"))
        assert call(agent, form, session=session) == "hi"
        assert roles(session) == [("user", "hello"), ("assistant", "hi")]

    def test_goes_on_after_tool_results(self, ask):
        """A run that failed after its tools is taken up where it stopped."""
        agent = ask(tool_call("note", {"n": 1}), error(500, "down"), text("done"), tools=[note])
        session = Session()
        with pytest.raises(ModelError):
            agent.run("go", session=session)
        assert agent.run(session=session) == "done"
        assert shape(session) == "uata"

    def test_retries_after_an_edit(self, ask):
        """An edited question is answered in the fork that holds it."""
        agent = ask(text("4"), text("9"))
        session = Session()
        agent.run("2+2?", session=session)
        fork = session.edit(0, "3*3?")
        assert agent.run(session=fork) == "9"
        assert [text for _, text in roles(fork)] == ["3*3?", "9"]

    def test_a_run_id_marks_what_the_run_added(self, ask):
        """The user message that stood there before keeps its own run id."""
        agent = ask(text("hi"))
        session = Session()
        session.messages.append(UserMessage("hello"))
        response = agent.run_with_response(session=session)
        assert session.messages[0].run_id is None
        assert [message.run_id for message in response.messages] == [response.id]


BAD = {
    "empty input": (InputError, {"input": ""}),
    "blank input": (InputError, {"input": " \n"}),
    "no parts": (InputError, {"input": []}),
    "an object that cannot be sent": (InputError, {"input": object()}),
    "one bad thing in a list": (InputError, {"input": ["look", 3.5]}),
    "a file that is not there": (InputError, {"input": [__import__("pathlib").Path("/nowhere/at/all.png")]}),
    "a stray tool result": (TranscriptError, {"input": ToolMessage("c1", "f", "x")}),
    "an answer as input": (InputError, {"input": AssistantMessage("me")}),
    "nothing to answer": (InputError, {"input": None}),
    "an unknown durability": (ConfigError, {"input": "x", "durability": "always"}),
    "a response model that is no type": (ConfigError, {"input": "x", "response_model": object()}),
    "a response model without a schema": (ConfigError, {"input": "x", "response_model": type(lambda: None)}),
}


@pytest.mark.parametrize("form", FORMS)
class TestRaisedAtOnce:
    """What can be known before a run is raised before it, by every form alike, and nothing is changed."""

    @pytest.mark.parametrize("case", BAD)
    def test_bad_arguments(self, ask, form, case):
        """The session is untouched, no request is made, and nothing is saved."""
        kind, arguments = BAD[case]
        store = RecordingStore()
        agent = ask(text("hi"), session_store=store)
        session = Session("s")
        before = settled(session)
        with pytest.raises(kind):
            begin(agent, form, session=session, **arguments)
        assert settled(session) == before
        assert (store.calls, agent.server.requests) == ([], [])
        assert call(agent, form, "x", session=session) == "hi"

    def test_an_invalid_transcript(self, ask, form):
        """The error names index and id; after repair() the session runs."""
        agent = ask(text("hi"))
        session = Session()
        session.messages.extend([UserMessage("q"), AssistantMessage([ToolCall("c1", "f")])])
        before = settled(session)
        with pytest.raises(TranscriptError, match=r"message 1 .*'c1'") as caught:
            begin(agent, form, "x", session=session)
        assert session.messages[1].id in str(caught.value)
        assert settled(session) == before
        session.repair()
        assert call(agent, form, "x", session=session) == "hi"

    def test_a_transcript_that_ends_with_an_answer(self, ask, form):
        """input=None needs something to answer."""
        session = Session()
        session.messages.extend([UserMessage("q"), AssistantMessage("a")])
        before = settled(session)
        with pytest.raises(InputError, match="nothing to answer"):
            begin(ask(text("hi")), form, session=session)
        assert settled(session) == before

    def test_a_busy_session(self, ask, form):
        """Right after start the session is taken, for each form, and the first run is unharmed."""
        door = gate()
        agent = ask(reply(door, text("hi")), text("again"))
        session = Session()
        handle = agent.start("x", session=session)
        with pytest.raises(SessionBusyError, match=r"fork\(\)"):
            begin(agent, form, "y", session=session)
        door.release()
        assert handle.result().content == "hi"
        assert [text for _, text in roles(session)] == ["x", "hi"]
        assert call(agent, form, "z", session=session) == "again"

    def test_a_missing_key(self, form, monkeypatch):
        """Without a key for the host nothing is asked, and the error names the variable to set."""
        for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "GROQ_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        session = Session()
        before = settled(session)
        for model, variable in (("gpt-4o-mini", "OPENAI_API_KEY"), ("groq:llama-3", "GROQ_API_KEY")):
            with pytest.raises(ConfigError, match=variable):
                begin(Agent(model), form, "x", session=session)
        assert settled(session) == before

    def test_no_session(self, ask, form):
        """Something else than a session is told by its type."""
        with pytest.raises(InputError, match="must be a Session, not a str"):
            begin(ask(text("hi")), form, "x", session="study-1")


class TestStartClaims:
    def test_two_starts_in_a_row(self, ask):
        """A session is taken when start returns, however quickly the next call comes."""
        for _ in range(30):
            door = gate()
            agent = ask(reply(door, text("hi")))
            session = Session()
            handle = agent.start("x", session=session)
            assert session.busy
            with pytest.raises(SessionBusyError):
                agent.start("y", session=session)
            door.release()
            assert handle.result().content == "hi"

    def test_a_stream_that_is_not_read_takes_nothing(self, ask):
        """Making a stream changes nothing; the run begins with the first reading."""
        agent = ask(text("hi"))
        session = Session()
        streams = [agent.stream("a", session=session), agent.stream_events("b", session=session)]
        assert not session.busy
        assert agent.run("x", session=session) == "hi"
        for stream in streams:
            stream.close()
        assert shape(session) == "ua"

    def test_a_session_taken_before_the_first_reading(self, ask):
        """A stream that was made while the session was free raises at its first reading if it is taken by then."""
        door = gate()
        agent = ask(reply(door, text("hi")))
        session = Session()
        streams = [agent.stream("a", session=session), agent.stream_events("b", session=session)]
        handle = agent.start("x", session=session)
        for stream in streams:
            with pytest.raises(SessionBusyError):
                next(stream)

        async def main():
            with pytest.raises(SessionBusyError):
                await anext(late)

        async def make():
            return agent.astream_events("c", session=other)

        other = Session()
        late = asyncio.run(make())
        second = agent.start("x", session=other)
        asyncio.run(main())
        door.release()
        handle.result()
        second.cancel()
        second.result()


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"temprature": 1}, "did you mean 'temperature'"),
            ({"max_iterations": 0}, "max_iterations"),
            ({"timeout": -1}, "timeout"),
            ({"on_tool_error": "ignore"}, "on_tool_error"),
            ({"durability": "always"}, "durability"),
            ({"prices": {"inputs": 1}}, "unknown price 'inputs'"),
            ({"base_url": "localhost:8000"}, "http://"),
        ],
    )
    def test_a_wrong_setting_is_refused_by_name(self, settings, words):
        """An agent with a wrong setting is not made."""
        with pytest.raises(ConfigError, match=words):
            Agent("m", **settings)

    def test_config_or_name(self):
        """An agent is made of a config, or of a model's name with settings."""
        config = AgentConfig("m", temperature=0)
        assert Agent(config).config is config
        assert Agent("m", temperature=0).config == config
        assert Agent(config, seed=3).config == AgentConfig("m", temperature=0, seed=3)
        with pytest.raises(ConfigError, match="not a int"):
            Agent(3)

    def test_replace(self, ask):
        """The new agent has other settings, and the same tools, store, middleware and durability."""
        store = RecordingStore()
        agent = ask(*steps_script(2), tools=[note], session_store=store, durability="exit", temperature=0)
        other = agent.replace(temperature=1, system_prompt="Be brief.")
        assert (agent.config.temperature, other.config.temperature) == (0, 1)
        assert other.tools == agent.tools
        session = Session("s")
        other.run("go", session=session)
        assert store.calls == [("save", 4)]
        request = agent.server.completions[0]
        assert request.body["temperature"] == 1
        assert request.messages[0] == {"role": "system", "content": "Be brief."}
        with pytest.raises(ConfigError, match="unknown setting"):
            agent.replace(tempature=1)

    def test_open(self, ask):
        """Open loads a session from the agent's store, or makes one under that id."""
        store = RecordingStore()
        agent = ask(text("a"), session_store=store)
        session = agent.open("s")
        assert (session.id, session.messages) == ("s", [])
        agent.run("x", session=session)
        assert agent.open("s") == session
        assert asyncio.run(agent.aopen("s")) == session
        with pytest.raises(ConfigError, match="no store"):
            Agent("m").open("s")


class TestInput:
    def test_messages_parts_and_texts(self, ask):
        """Texts and parts that stand together become one user message, messages stay as they are."""
        agent = ask(text("ok"))
        session = Session()
        agent.run(["a", "b", UserMessage("c")], session=session)
        assert roles(session)[:2] == [("user", "ab"), ("user", "c")]
        assert {message.run_id for message in session.messages} == {session.runs[0].id}

    def test_a_whole_conversation_as_input(self, ask):
        """A list of messages may hold calls with their results, as long as the whole is valid."""
        agent = ask(text("ok"))
        session = Session()
        messages = [UserMessage("q"), AssistantMessage([ToolCall("c1", "f")]), ToolMessage("c1", "f", "r")]
        assert agent.run(messages, session=session) == "ok"
        assert shape(session) == "uata"

    def test_text_that_cannot_be_encoded(self, ask):
        """A lone surrogate becomes U+FFFD where it comes in, so that request and transcript agree."""
        agent = ask(text("ok"))
        session = Session()
        agent.run("x\udc9d", session=session)
        assert session.messages[0].text == "x\ufffd"
        assert agent.server.completions[0].messages[0]["content"] == "x\ufffd"


class TestFinalStep:
    def test_an_empty_answer(self, ask):
        """An answer without a word is an answer; the next run is still accepted."""
        agent = ask(text(""), text("hi"))
        session = Session()
        assert agent.run("x", session=session) == ""
        assert agent.run("y", session=session) == "hi"

    def test_messages_of_steps(self, ask):
        """StepFinished comes once its messages stand in the transcript."""
        agent = ask(*steps_script(2), tools=[note])
        session = Session()
        for event in agent.stream_events("go", session=session):
            if isinstance(event, StepFinished):
                assert event.message in session.messages
            if isinstance(event, RunStarted):
                assert shape(session) == "u"


class TestWhatIsNoStore:
    """Things given as ``session_store`` that are none."""

    @pytest.mark.parametrize("wrong", ["sessions", FileSessionStore, 5], ids=["path", "class", "number"])
    def test_are_refused_at_once(self, ask, wrong):
        """The run is refused before the model is asked, and says what a store is."""
        agent = ask(text("fine"), session_store=wrong)
        session = Session()
        with pytest.raises(ConfigError, match="session_store must be a store"):
            agent.run("go", session=session)
        assert (session.messages, agent.server.requests) == ([], [])
