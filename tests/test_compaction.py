"""Long sessions: older messages are replaced by a summary, on the way or on demand."""

import asyncio
import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenarios import FORMS, RecordingStore, acall, agent_for, call, interrupt_when, note, roles, shape
from strategies import moderate, valid_transcripts

from cyclops_nb import (
    Agent,
    AssistantMessage,
    Compacted,
    Compaction,
    ContextOverflowError,
    Middleware,
    ModelError,
    OutputError,
    Session,
    SessionBusyError,
    SummaryMessage,
    TranscriptError,
    Usage,
    UserMessage,
    runs_frame,
    transcript,
)
from cyclops_nb.middleware.redaction import Redaction
from cyclops_nb.stores import FileSessionStore, InMemorySessionStore
from cyclops_nb.testing import ScriptedServer, error, gate, reply, text, tool_call

LONG = "word " * 200
LIMIT = 1000
FULL = error(
    400, "This model's maximum context length is 1000 tokens, you requested 1200.", code="context_length_exceeded"
)
SUMMARY = text("They spoke of words.", usage=(700, 6))


def is_summary_request(request):
    return request.messages[0]["content"].startswith("You are given a conversation")


def talked(turns=3, size=20, **fields):
    """Return a session with some turns."""
    session = Session(**fields)
    for number in range(turns):
        session.messages.append(UserMessage(f"question {number} " * size))
        session.messages.append(AssistantMessage(f"answer {number} " * size))
    return session


def plain(messages):
    """Return messages without pictures and files, which a server may refuse."""
    return [
        message.model_copy(
            update={"content": tuple(part for part in message.content if not hasattr(part, "media_type"))}
        )
        for message in messages
    ]


def near_limit(turns=3):
    """Return a session whose last answer the server counted as nearly too long."""
    session = talked(turns)
    last = session.messages[-1]
    session.messages[-1] = last.model_copy(update={"usage": Usage(1, 820, 30)})
    return session


@pytest.fixture
def compacting(ask):
    """Give a function that returns an agent whose sessions are compacted at 1,000 tokens."""

    def make(*script, **settings):
        return ask(*script, **{"compaction": Compaction(keep_last=2), "input_limit": LIMIT, **settings})

    return make


class TestNearTheLimit:
    """A run replaces older messages once a request nears the model's input limit."""

    @pytest.mark.parametrize("form", FORMS)
    def test_every_form(self, compacting, form):
        """The summary comes first, the last messages stay, the run goes on as if nothing was."""
        agent = compacting(SUMMARY, text("Fine.", usage=(90, 2)))
        session = near_limit()
        kept = session.messages[4:]
        assert call(agent, form, "And now?", session=session) == "Fine."
        assert shape(session) == "suaua"
        summary = session.messages[0]
        assert (summary.text, summary.replaced) == ("They spoke of words.", 4)
        assert session.messages[1:3] == kept
        asked, answered = (request.messages for request in agent.server.completions)
        assert [message["role"] for message in asked] == ["system", "user"]
        assert "question 0" in asked[1]["content"]
        assert "question 2" not in asked[1]["content"]
        assert [message["role"] for message in answered] == ["user", "user", "assistant", "user"]
        assert answered[0]["content"].endswith("They spoke of words.")

    def test_events_tell_of_it(self, compacting):
        """Before the step that it makes room for."""
        events = list(compacting(SUMMARY, text("Fine.")).stream_events("And now?", session=near_limit()))
        assert [event.type for event in events] == [
            "run_started", "compacted", "step_started", "text_delta", "step_finished", "run_finished",
        ]  # fmt: skip
        assert events[1].message.text == "They spoke of words."
        assert len({event.run_id for event in events}) == 1

    def test_its_usage_is_a_run_of_its_own(self, compacting):
        """Of kind compaction; the session counts both, the run its own alone."""
        agent = compacting(SUMMARY, text("Fine.", usage=(90, 2)), prices={"input": 1, "output": 1})
        session = near_limit()
        response = agent.run_with_response("And now?", session=session)
        run, compaction = session.runs
        assert (run.kind, compaction.kind) == ("run", "compaction")
        assert compaction.usage == Usage(1, 700, 6)
        assert (compaction.stop_reason, compaction.steps) == ("completed", 1)
        assert compaction.cost == pytest.approx(706e-6)
        assert response.usage == run.usage == Usage(1, 90, 2)
        assert session.usage == Usage(2, 790, 8)
        assert session.messages[0].run_id == compaction.id
        assert session.configs[compaction.config]["system_prompt"].startswith("You are given")
        assert list(runs_frame(session)["kind"]) == ["run", "compaction"]

    def test_not_before(self, compacting):
        """A session with room left is not touched."""
        agent = compacting(text("Fine."))
        session = talked()
        agent.run("And now?", session=session)
        assert shape(session) == "uauauaua"

    def test_not_without_the_setting(self, ask):
        """Nothing is replaced unasked."""
        session = near_limit()
        ask(text("Fine."), input_limit=LIMIT).run("And now?", session=session)
        assert shape(session) == "uauauaua"

    def test_room_for_the_answer_counts(self, compacting):
        """Servers want room for the answer that is allowed."""
        session = talked()
        session.messages[-1] = session.messages[-1].model_copy(update={"usage": Usage(1, 620, 30)})
        compacting(SUMMARY, text("Fine."), max_tokens=400).run("And now?", session=session)
        assert session.messages[0].role == "summary"

    def test_between_the_steps_of_a_run(self, compacting):
        """Results of tools fill the window as well; no call is parted from its result."""

        def look(n: int) -> str:
            """Look."""
            return LONG

        agent = compacting(
            *(tool_call("look", {"n": n}, usage=(250 * (n + 1), 10)) for n in range(3)),
            SUMMARY,
            tool_call("look", {"n": 9}, usage=(400, 10)),
            text("Found.", usage=(500, 3)),
            tools=[look],
        )
        session = Session()
        assert agent.run("Look for it.", session=session) == "Found."
        assert shape(session) == "satata"
        assert session.messages[0].replaced == 5

    def test_a_system_prompt_is_never_part_of_it(self, compacting):
        """After three compactions each request begins with the one system message."""
        agent = compacting(
            *(text(f"{LONG}{n}", usage=(850, 10)) if n % 2 == 0 else SUMMARY for n in range(7)),
            system_prompt="Answer in French.",
        )
        session = Session()
        for _ in range(4):
            agent.run(LONG, session=session)
        assert [run.kind for run in session.runs].count("compaction") == 3
        for request in agent.server.completions:
            systems = [message["content"] for message in request.messages if message["role"] == "system"]
            assert len(systems) == 1
            assert request.messages[0]["role"] == "system"
            if not is_summary_request(request):
                assert systems == ["Answer in French."]
            assert "Answer in French." not in json.dumps(request.messages[1:])

    def test_an_old_summary_is_replaced_and_not_wrapped(self, compacting):
        """The new one stands for all that the old one stood for."""
        agent = compacting(SUMMARY, text("Fine."))
        session = near_limit()
        session.messages.insert(0, SummaryMessage("Long ago.", 12, created_at=session.created_at))
        agent.run("And now?", session=session)
        assert [message.role for message in session.messages].count("summary") == 1
        assert session.messages[0].replaced == 16
        assert "Long ago." in agent.server.completions[0].messages[1]["content"]

    def test_another_model_may_summarise(self, compacting):
        """On the same server; the record says which."""
        agent = compacting(
            SUMMARY, text("Fine."), compaction=Compaction(keep_last=2, model="small", prompt="Be brief.")
        )
        session = near_limit()
        agent.run("And now?", session=session)
        first, second = agent.server.completions
        assert (first.body["model"], second.body["model"]) == ("small", "m")
        assert first.messages[0]["content"] == "Be brief."
        assert session.runs[1].model == "small"

    def test_prices_are_those_of_the_agents_own_model(self, compacting):
        """What another one costs is not known by them."""
        agent = compacting(
            SUMMARY, text("Fine."), compaction=Compaction(keep_last=2, model="small"), prices={"input": 1, "output": 1}
        )
        session = near_limit()
        agent.run("And now?", session=session)
        assert session.runs[0].cost > 0
        assert session.runs[1].cost is None

    def test_a_server_that_does_not_count(self, compacting):
        """A usage that cannot be right is not believed."""
        session = talked(size=100)
        last = session.messages[-1]
        session.messages[-1] = last.model_copy(update={"usage": Usage(1, 1, 1)})
        compacting(SUMMARY, text("Fine.")).run("And now?", session=session)
        assert session.messages[0].role == "summary"

    def test_settings_of_answers_are_not_those_of_summaries(self, compacting):
        """A stop word, a length limit, tools or a schema would spoil it."""
        agent = compacting(
            SUMMARY, text("Fine."), stop="\n", max_tokens=7, tools=[note], tool_choice="required", seed=3
        )
        agent.run("And now?", session=near_limit())
        body = agent.server.completions[0].body
        assert body["seed"] == 3
        assert not {"stop", "tools", "tool_choice", "response_format"} & body.keys()
        assert body.get("max_tokens") != 7

    def test_middleware_is_around_it(self, compacting):
        """A request says what it is for, and its text passes the filters."""
        kinds = []

        class Watch(Middleware):
            async def wrap_model_call(self, request, call_next):
                kinds.append(request.kind)
                return await call_next(request)

        agent = compacting(
            text("They spoke of Zorro."), text("Fine."), middleware=[Watch(), Redaction(secrets=["Zorro", "answer 0"])]
        )
        session = near_limit()
        agent.run("And now?", session=session)
        assert kinds == ["compaction", "run"]
        assert session.messages[0].text == "They spoke of [redacted]."
        assert "answer 0" not in json.dumps(agent.server.completions[0].body)


class TestInputLimit:
    """Where the limit is known from."""

    def test_from_the_price_list(self, ask):
        """By host and model."""
        assert ask(text("x")).replace(model="m").run_with_response("x").run.input_limit is None

    def test_from_the_server(self, serve):
        """Its list of models names it; it is asked once for an agent."""
        server = serve(SUMMARY, text("Fine.", usage=(90, 2)), text("Fine.", usage=(90, 2)), context_window=LIMIT)
        agent = agent_for(server, compaction=Compaction(keep_last=2))
        session = near_limit()
        agent.run("And now?", session=session)
        agent.run("And then?", session=session)
        assert session.messages[0].role == "summary"
        assert {run.input_limit for run in session.runs} == {LIMIT}
        assert [request.path for request in server.requests].count("/v1/models") == 1

    def test_a_server_that_does_not_tell(self, serve):
        """Then only its refusal leads to a compaction."""
        server = serve(text("Fine."))
        session = near_limit()
        agent_for(server, compaction=True).run("And now?", session=session)
        assert shape(session) == "uauauaua"

    def test_the_server_is_not_asked_without_need(self, serve):
        """Not without compaction, and not when the limit is known."""
        server = serve(text("Fine."), repeat=True, context_window=LIMIT)
        agent_for(server).run("Hello")
        agent_for(server, compaction=True, input_limit=LIMIT).run("Hello")
        assert {request.path for request in server.requests} == {"/v1/chat/completions"}


class TestServerSaysFull:
    """A refusal because of a full context leads to a compaction, once."""

    @pytest.mark.parametrize("form", FORMS)
    def test_the_run_goes_on(self, ask, form):
        """The refused request is sent again with the summary."""
        agent = ask(FULL, SUMMARY, text("Fine."), compaction=Compaction(keep_last=2))
        session = talked()
        assert call(agent, form, "And now?", session=session) == "Fine."
        assert shape(session) == "suaua"
        assert session.runs[0].input_limit == LIMIT

    def test_an_error_in_the_stream_does_as_well(self, ask):
        """Some servers find out late."""
        late = reply(error_in_stream_full())
        agent = ask(late, SUMMARY, text("Fine."), compaction=Compaction(keep_last=2))
        session = talked()
        assert agent.run("And now?", session=session) == "Fine."

    def test_the_limit_that_it_names_is_remembered(self, ask):
        """The next runs of the agent compact before they are refused."""
        agent = ask(FULL, SUMMARY, text("Fine."), SUMMARY, text("Fine."), compaction=Compaction(keep_last=2))
        agent.run("And now?", session=talked())
        session = near_limit()
        agent.run("And now?", session=session)
        assert shape(session) == "suaua"
        assert {run.input_limit for run in session.runs} == {LIMIT}

    def test_an_error_about_a_value_is_none(self, ask):
        """A shorter conversation would not help."""
        agent = ask(error(400, "max_tokens must be less than the context length"), compaction=True)
        session = talked()
        with pytest.raises(ModelError):
            agent.run("And now?", session=session)
        assert shape(session) == "uauauau"

    def test_a_second_refusal_is_the_end(self, ask):
        """No second try."""
        agent = ask(FULL, SUMMARY, FULL, compaction=Compaction(keep_last=2))
        session = talked()
        response = agent.run_with_response("And now?", session=session)
        assert isinstance(response.error, ContextOverflowError)
        assert len(agent.server.completions) == 3
        assert shape(session) == "suau"

    def test_without_the_setting_it_is_an_error(self, ask):
        """And the transcript stays."""
        session = talked()
        with pytest.raises(ContextOverflowError):
            ask(FULL).run("And now?", session=session)
        assert shape(session) == "uauauau"

    def test_nothing_worth_a_summary(self, ask):
        """A few words before a huge result are not asked to be summarised."""
        agent = ask(tool_call("look", {}), FULL, tools=[look_long], compaction=Compaction(keep_last=0))
        with pytest.raises(ContextOverflowError):
            agent.run("Look.", session=Session())
        assert len(agent.server.completions) == 2

    def test_nothing_to_cut(self, ask):
        """A question that is too long by itself fails with what the server said."""
        agent = ask(FULL, compaction=True)
        with pytest.raises(ContextOverflowError):
            agent.run(LONG, session=Session())
        assert len(agent.server.completions) == 1

    def test_a_summary_that_fails_is_noted_on_the_error(self, ask):
        """The server's own words come first."""
        agent = ask(FULL, text(""), compaction=Compaction(keep_last=2))
        response = agent.run_with_response("And now?", session=talked())
        assert isinstance(response.error, ContextOverflowError)
        assert "summary is empty" in response.error.__notes__[0]
        assert any("could not be compacted" in warning for warning in response.warnings)


def look_long() -> str:
    """Look."""
    return LONG * 9


def error_in_stream_full():
    from cyclops_nb.testing import error_in_stream

    return error_in_stream("the context window of this model is full: at most 1000 tokens")


class TestRefusedSummaries:
    """A summary that is empty, or no shorter, is not taken."""

    @pytest.mark.parametrize("bad", [text(""), text("  \n"), text(LONG * 5), error(500, "Down.")])
    def test_on_the_way(self, compacting, bad):
        """The run goes on with the transcript as it was, and a warning; it is not tried again in this run."""
        agent = compacting(bad, tool_call("note", {"n": 1}, usage=(860, 5)), text("Fine."), tools=[note])
        session = near_limit()
        response = agent.run_with_response("And now?", session=session)
        assert response.stop_reason == "completed"
        assert shape(session) == "uauauauata"
        assert any("could not be compacted" in warning for warning in response.warnings)
        assert [run.stop_reason for run in session.runs] == ["completed", "error"]

    @pytest.mark.parametrize("bad", [text(""), text(LONG * 5)])
    def test_on_demand(self, ask, bad):
        """It is an error; what it used is counted."""
        session = talked()
        before = list(session.messages)
        agent = ask(bad)
        with pytest.raises(OutputError, match="the transcript is as it was"):
            agent.compact(session)
        assert session.messages == before
        assert [(run.kind, run.stop_reason) for run in session.runs] == [("compaction", "error")]
        assert session.usage.requests == 1
        assert not session.busy


class TestOnDemand:
    """`compact` and `acompact`."""

    @pytest.fixture(params=["compact", "acompact"])
    def compact(self, request):
        """Give a function that compacts."""
        if request.param == "compact":
            return lambda agent, session: agent.compact(session)
        return lambda agent, session: asyncio.run(agent.acompact(session))

    def test_needs_no_setting_and_no_limit(self, ask, compact):
        """All but the last four messages become a summary, which is returned."""
        agent = ask(SUMMARY)
        session = talked(4)
        summary = compact(agent, session)
        assert summary is session.messages[0]
        assert (summary.text, summary.replaced) == ("They spoke of words.", 4)
        assert shape(session) == "suaua"
        assert [(run.kind, run.stop_reason) for run in session.runs] == [("compaction", "completed")]

    @pytest.mark.parametrize("session", [Session(), talked(1), talked(2)])
    def test_nothing_to_cut(self, ask, compact, session):
        """None, nothing asked, and no record."""
        agent = ask()
        before = session.model_dump_json()
        assert compact(agent, session) is None
        assert agent.server.requests == []
        assert session.model_dump_json() == before

    def test_a_second_time_there_is_nothing_to_cut(self, ask, compact):
        """A summary alone is not summarised."""
        agent = ask(SUMMARY)
        session = talked(4)
        compact(agent, session)
        assert compact(agent, session) is None

    def test_saves_nothing(self, ask, compact):
        """The user's own save stores it."""
        store = RecordingStore()
        compact(ask(SUMMARY, session_store=store), talked(4))
        assert store.calls == []

    def test_a_busy_session(self, ask, compact):
        """Refused at once, untouched."""
        door = gate()
        agent = ask(reply(text("a"), door))
        session = talked(4)
        handle = agent.start("Go.", session=session)
        door.wait_reached()
        with pytest.raises(SessionBusyError):
            compact(agent, session)
        door.release()
        handle.result()
        assert session.messages[0].role == "user"

    def test_an_invalid_transcript(self, ask, compact):
        """Refused at once."""
        session = talked(4)
        from cyclops_nb import ToolCall

        session.messages.insert(1, AssistantMessage(ToolCall("c", "look")))
        with pytest.raises(TranscriptError):
            compact(ask(), session)

    def test_no_session(self, ask, compact):
        """Refused in words."""
        from cyclops_nb import InputError

        with pytest.raises(InputError, match="must be a Session"):
            compact(ask(), "study-1")

    def test_the_model_fails(self, ask, compact):
        """Its error is raised and stands in the record."""
        session = talked(4)
        with pytest.raises(ModelError, match="Down"):
            compact(ask(error(500, "Down.")), session)
        assert session.runs[0].error.type == "ModelError"
        assert shape(session) == "uauauaua"

    def test_a_compaction_setting_counts(self, ask, compact):
        """How many messages stay."""
        session = talked(4)
        compact(ask(SUMMARY, compaction=Compaction(keep_last=0)), session)
        assert shape(session) == "s"
        transcript.check(session.messages)

    def test_a_fork_has_left_its_parent_from_the_first_message_on(self, ask, compact):
        """What it shared with it is in the summary now."""
        fork = talked(4).fork()
        compact(ask(SUMMARY), fork)
        assert fork.parent.message_count == 0

    def test_a_saved_session_stays_compacted(self, ask, compact, tmp_path):
        """The summary is a message of the transcript."""
        agent = ask(SUMMARY, text("Fine."))
        session = talked(4, id="study-1")
        compact(agent, session)
        asyncio.run(FileSessionStore(tmp_path).save(session))
        loaded = asyncio.run(FileSessionStore(tmp_path).load("study-1"))
        assert loaded == session
        agent.run("And now?", session=loaded)
        assert len(agent.server.completions[1].messages) == 6


class TestStopped:
    """What stops a compaction leaves the old transcript."""

    def test_cancelled_on_the_way(self, compacting):
        """The run is cancelled, both records say so."""
        door = gate()
        agent = compacting(reply(text("They"), door))
        session = near_limit()
        handle = agent.start("And now?", session=session)
        door.wait_reached()
        handle.cancel()
        assert handle.result().stop_reason == "cancelled"
        assert shape(session) == "uauauau"
        assert [(run.stop_reason, run.usage_complete) for run in session.runs] == [
            ("cancelled", True),
            ("cancelled", False),
        ]

    def test_interrupted_on_demand(self, ask):
        """KeyboardInterrupt is raised once all is in order."""
        door = gate()
        agent = ask(reply(text("They"), door))
        session = talked(4)
        thread = interrupt_when(door.wait_reached)
        with pytest.raises(KeyboardInterrupt):
            agent.compact(session)
        thread.join()
        assert shape(session) == "uauauaua"
        assert [run.stop_reason for run in session.runs] == ["cancelled"]
        assert not session.busy

    def test_cancelled_task_on_demand(self, ask):
        """CancelledError is raised."""
        door = gate()
        agent = ask(reply(text("They"), door))
        session = talked(4)

        async def main():
            task = asyncio.create_task(agent.acompact(session))
            await asyncio.to_thread(door.wait_reached)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert shape(session) == "uauauaua"

    def test_a_reader_that_leaves_at_the_summary(self, compacting):
        """What was told stands."""
        agent = compacting(SUMMARY, text("Fine."))
        session = near_limit()
        stream = agent.stream_events("And now?", session=session)
        for event in stream:
            if isinstance(event, Compacted):
                break
        stream.close()
        assert shape(session) == "suau"
        assert len(agent.server.completions) == 1


class TestStores:
    """A store gets the whole session after a compaction."""

    @pytest.mark.parametrize("durability", ["async", "sync", "exit"])
    def test_save_follows(self, compacting, durability):
        """What it holds is no beginning of the transcript any more."""
        store = RecordingStore()
        script = [
            tool_call("note", {"n": n}, usage=(880, 5)) if n == 2 else tool_call("note", {"n": n}) for n in (1, 2)
        ]
        agent = compacting(
            *script, SUMMARY, tool_call("note", {"n": 3}), text("Fine."),
            tools=[note], session_store=store, durability=durability,
        )  # fmt: skip
        session = talked(3)
        agent.run("And now?", session=session)
        assert store.stored(session.id) == session
        kinds = [kind for kind, _ in store.calls]
        assert kinds == (["save"] if durability == "exit" else ["save", "add", "save", "add"])
        assert not store.overlaps

    @pytest.mark.parametrize("kind", ["memory", "file"])
    def test_what_is_loaded_is_the_session(self, compacting, kind, tmp_path):
        """Run after run."""
        store = InMemorySessionStore() if kind == "memory" else FileSessionStore(tmp_path)
        agent = compacting(
            *(text(f"{LONG}{n}", usage=(850, 10)) if n % 2 == 0 else SUMMARY for n in range(7)), session_store=store
        )
        session = Session("study-1")
        for _ in range(4):
            agent.run(LONG, session=session)
            assert asyncio.run(store.load("study-1")) == session


@moderate
@given(valid_transcripts, st.integers(0, 6))
def test_any_transcript_and_any_number_kept(messages, keep_last):
    """The summary's request and the one after it are accepted by a strict server, and the result is valid."""
    session = Session()
    session.messages[:] = plain(messages)
    with ScriptedServer(lambda request: text("So far.", usage=(9, 3)), strict=True) as server:
        agent = Agent("m", base_url=server.base_url, api_key="k", compaction=Compaction(keep_last=keep_last))
        with contextlib.suppress(OutputError):  # of such short messages that no summary is shorter
            agent.compact(session)
        transcript.check(session.messages)
        agent.run("And now?", session=session)
        assert all(request.status == 200 for request in server.completions)


@pytest.mark.parametrize("form", ["arun", "start"])
def test_two_sessions_at_once(compacting, form):
    """Each has its own summary."""
    agent = compacting(lambda request: SUMMARY if is_summary_request(request) else text("Fine."))
    sessions = [near_limit(), near_limit(4)]

    async def main():
        return await asyncio.gather(*(acall(agent, form, "And now?", session=session) for session in sessions))

    assert asyncio.run(main()) == ["Fine.", "Fine."]
    assert [session.messages[0].replaced for session in sessions] == [4, 6]
    assert roles(sessions[0])[-1] == ("assistant", "Fine.")
