"""What middleware filters out of texts is neither sent, nor kept, nor stored."""

import asyncio
import json
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from scenarios import FORMS, SYNC_FORMS, RecordingStore, call, interrupt_when, note, roles, shape, steps_script
from strategies import moderate

from cyclops_nb import (
    Agent,
    AssistantMessage,
    FilePart,
    FileSessionStore,
    ImagePart,
    Middleware,
    OutputError,
    ReasoningPart,
    Redaction,
    Session,
    SummaryMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from cyclops_nb.engine.filters import TextFilter
from cyclops_nb.testing import (
    ScriptedServer,
    error,
    error_in_stream,
    gate,
    reasoning,
    reply,
    text,
    tool_call,
    tool_calls,
)

SECRET = "hunter-7"
HIDDEN = Redaction(secrets=[SECRET])


def strings(value):
    """Yield every string in JSON data, and those in the arguments of calls, which are JSON within."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            try:
                yield from strings(json.loads(item) if key == "arguments" else item)
            except ValueError:
                yield item
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value
    elif value is not None:
        yield str(value)


def holding(secret, value):
    """Return the strings in JSON data that hold the secret."""
    return [item for item in strings(value) if secret in item]


def agent_with(ask, *script, tools=(note,), middleware=(HIDDEN,), **settings):
    return ask(*script, tools=tools, middleware=middleware, **settings)


def kept(message):
    """Return a message as a filter leaves it that hides the secret."""
    return TextFilter([HIDDEN]).message(message)


class TestWhatIsFiltered:
    """Every text of a message, before it enters the transcript."""

    @pytest.mark.parametrize("form", FORMS)
    def test_question_and_answer(self, ask, form):
        """They are sent, kept and given in their filtered form, by every form."""
        agent = agent_with(ask, text(f"I keep {SECRET}."))
        session = Session()
        assert call(agent, form, f"It is {SECRET}.", session=session) == "I keep [redacted]."
        assert roles(session) == [("user", "It is [redacted]."), ("assistant", "I keep [redacted].")]
        assert agent.server.completions[0].messages[-1]["content"] == "It is [redacted]."

    def test_names_of_files_and_addresses_of_images(self):
        """Names and addresses are texts; the data of files and images is left alone."""
        data = FilePart(f"{SECRET}.txt", SECRET.encode(), "application/pdf")
        shown = ImagePart(url=f"https://example.org/?key={SECRET}")
        inline = ImagePart(url="data:image/png;base64,AA==")
        file, image, picture = kept(UserMessage([data, shown, inline])).content
        assert (file.name, file.data) == ("[redacted].txt", data.data)
        assert image.url == "https://example.org/?key=[redacted]"
        assert picture is inline

    def test_reasoning_loses_its_signature(self, ask):
        """What was changed is no longer what the provider has signed."""
        agent = agent_with(ask, reply(reasoning(f"Say {SECRET}?"), text("No.")))
        session = Session()
        agent.run("go", session=session)
        assert session.messages[1].reasoning == "Say [redacted]?"
        signed = {"reasoning_details": [{"text": SECRET, "signature": "abc"}]}
        told = AssistantMessage([ReasoningPart(SECRET, provider_metadata=signed)])
        hidden = AssistantMessage([ReasoningPart("", provider_metadata=signed)])
        assert kept(told).content[0] == ReasoningPart("[redacted]")
        assert kept(hidden).content[0] == ReasoningPart("")

    def test_what_holds_nothing_is_the_same_object(self):
        """Signatures, metadata and the text of arguments stay as they came."""
        part = ReasoningPart("Hm.", provider_metadata={"signature": "abc"})
        message = AssistantMessage([part, ToolCall("c", "note", '{ "n":1.50, "n":"\\u00e9" }')])
        assert kept(message) is message

    def test_notes_and_provider_data_of_a_message(self):
        """What stands beside the content is filtered as well, however deep, with fields of later versions."""
        facts = {
            "metadata": {SECRET: [1, {"a": f"{SECRET}!"}]},
            "provider_metadata": {"annotations": [{"title": SECRET}]},
            "future": [SECRET],
        }
        message = kept(AssistantMessage("ok", **facts))
        data = message.model_dump(mode="json")
        assert holding(SECRET, data) == []
        assert message.metadata == {"[redacted]": (1, {"a": "[redacted]!"})}
        with pytest.raises(TypeError, match="read-only"):
            message.metadata["a"] = 1

    @pytest.mark.parametrize(
        ("written", "expected"),
        [
            (f'{{"a": "{SECRET}", "b": [1, 2.50]}}', '{"a": "[redacted]", "b": [1, 2.50]}'),
            (f'{{"{SECRET}": {{"x": ["{SECRET}"]}}}}', '{"[redacted]": {"x": ["[redacted]"]}}'),
            ('{"a": "hunter\\u002d7"}', '{"a": "[redacted]"}'),
            (f'{{"a": "{SECRET}", "a": "last"}}', '{"a": "[redacted]", "a": "last"}'),
            ('{"é": "\\u00e9", "a": "hunter-7 é \\n"}', '{"é": "\\u00e9", "a": "[redacted] é \\n"}'),
            (f'{{"a": "{SECRET}', '{"a": "[redacted]'),
            ('{"a": "hunter\\u002d7", ', '{"a": "[redacted]", '),
            (f"call it {SECRET}", "call it [redacted]"),
        ],
    )
    def test_arguments(self, written, expected):
        """Inside of JSON keys and strings are filtered; all else stays as the model wrote it."""
        message = kept(AssistantMessage([ToolCall("c", "note", written)]))
        assert message.content[0].arguments == expected

    def test_numbers_in_arguments(self):
        """A number that is found becomes a string, so that the JSON stays JSON."""
        card = Redaction("credit_card", patterns={"pin": r"-\d{4}"})
        call = ToolCall("c", "pay", '{"card": 4111111111111111, "pins": [-1234,0.5,1e3], "n": 12}')
        message = TextFilter([card]).message(AssistantMessage([call]))
        assert message.content[0].args == {"card": "[credit_card]", "pins": ["[pin]", 0.5, 1e3], "n": 12}

    def test_very_deep_arguments(self):
        """What is nested too deeply to be parsed is filtered nevertheless."""
        depth = 100_000
        call = ToolCall("c", "note", "[" * depth + f'"{SECRET}"' + "]" * depth)
        assert SECRET not in kept(AssistantMessage([call])).content[0].arguments

    def test_names_that_a_model_made_up(self, ask):
        """The name of a tool stays; that of none is a text like all others, in the call and in its result."""
        calls = tool_calls(tool_call(SECRET, {}), tool_call("note", {"n": 1}))
        agent = agent_with(ask, calls, text("done"), middleware=[Redaction(secrets=[SECRET, "note"])])
        session = Session()
        agent.run("go", session=session)
        assert [call.name for call in session.messages[1].tool_calls] == ["[redacted]", "note"]
        assert [message.name for message in session.messages[2:4]] == ["[redacted]", "note"]
        assert session.messages[2].text == "There is no tool '[redacted]'; the tools are '[redacted]'."

    def test_the_system_prompt(self, ask):
        """It is sent and kept with the run in its filtered form; the agent's own settings stay."""
        agent = agent_with(ask, text("ok"), system_prompt=f"Know {SECRET}.")
        session = Session()
        agent.run("go", session=session)
        assert agent.server.completions[0].messages[0]["content"] == "Know [redacted]."
        (config,) = session.configs.values()
        assert config["system_prompt"] == "Know [redacted]."
        assert agent.config.system_prompt == f"Know {SECRET}."

    def test_what_other_middleware_puts_into_a_request(self, ask):
        """It is filtered before it is sent, wherever in the list that middleware stands."""

        class Recalls(Middleware):
            async def wrap_model_call(self, request, call_next):
                messages = (UserMessage(f"Remember {SECRET}."), *request.messages)
                config = request.config.replace(system_prompt=f"Know {SECRET}.")
                return await call_next(request.replace(messages=messages, config=config))

        for middleware in ([Recalls(), HIDDEN], [HIDDEN, Recalls()]):
            agent = agent_with(ask, text("ok"), middleware=middleware)
            agent.run("go")
            sent = [message["content"] for message in agent.server.completions[0].messages]
            assert sent == ["Know [redacted].", "Remember [redacted].", "go"]

    def test_what_middleware_answers_by_itself(self, ask):
        """Answers and results that it makes up pass the filters, too."""

        class Answers(Middleware):
            async def wrap_model_call(self, request, call_next):
                if request.step == 1:
                    return AssistantMessage([ToolCall("c", "note", '{"n": 1}')])
                return AssistantMessage(SECRET)

            async def wrap_tool_call(self, call, call_next):
                return ToolMessage(call.id, call.name, SECRET)

        session = Session()
        agent_with(ask, middleware=[Answers(), HIDDEN]).run("go", session=session)
        assert [item[1] for item in roles(session)[2:]] == ["[redacted]", "[redacted]"]


class TestTools:
    """They work with what the model wrote, and what they give is filtered."""

    def test_get_the_arguments_as_written(self, ask):
        """Tools and middleware around them see the original; transcript, events and next request do not."""
        got = []

        def look(name: str) -> str:
            got.append(name)
            return f"{name} found"

        class Sees(Middleware):
            async def wrap_tool_call(self, call, call_next):
                got.append(call.args["name"])
                return await call_next(call)

        script = tool_call("look", {"name": SECRET}), text("done")
        agent = agent_with(ask, *script, tools=[look], middleware=[HIDDEN, Sees()])
        session = Session()
        events = list(agent.stream_events("go", session=session))
        assert got == [SECRET, SECRET]
        assert session.messages[1].tool_calls[0].args == {"name": "[redacted]"}
        assert session.messages[2].text == "[redacted] found"
        final = {"tool_call_ready", "tool_result", "step_finished", "run_finished"}
        told = [event.model_dump(mode="json") for event in events if event.type in final]
        assert len(told) == 5
        assert holding(SECRET, told) == []
        assert holding(SECRET, agent.server.completions[1].body) == []

    def test_the_value_stays_in_memory(self, ask):
        """The object that a tool returned is the program's own."""
        agent = agent_with(ask, tool_call("look_up"), text("done"), tools=[look_up])
        (result,) = agent.run_with_response("go").tool_results
        assert json.loads(result.text) == {"name": "[redacted]", "lines": "[redacted]\n2"}
        assert result.value == {"name": SECRET, "lines": f"{SECRET}\n2"}

    @pytest.mark.parametrize("on_tool_error", ["answer", "raise"])
    def test_errors(self, ask, on_tool_error):
        """What a tool raises is filtered for the model and in the record of the run; the exception is as raised."""

        def fails() -> str:
            raise LookupError(f"no {SECRET}")

        agent = agent_with(ask, tool_call("fails"), text("done"), tools=[fails], on_tool_error=on_tool_error)
        session = Session()
        response = agent.run_with_response("go", session=session)
        assert session.messages[2].text == "LookupError: no [redacted]"
        if on_tool_error == "raise":
            assert session.runs[0].error.message == "no [redacted]"
            assert str(response.error) == f"no {SECRET}"


def look_up() -> dict:
    """Look a name up."""
    return {"name": SECRET, "lines": f"{SECRET}\n2"}


class TestHowARunEnds:
    """What is kept of a run besides its messages."""

    def test_a_partial_answer(self, ask):
        """The text of a completion that was cut is filtered; the deltas were told as they came."""
        agent = agent_with(ask, reply(text(f"half of {SECRET}"), error_in_stream(f"down: {SECRET}")))
        session = Session()
        response = agent.run_with_response("go", session=session)
        assert response.partial == "half of [redacted]"
        assert session.runs[0].error.message.startswith("down: [redacted]")
        assert SECRET not in session.model_dump_json()
        assert SECRET not in repr(response.run)

    def test_a_cancelled_run(self, ask):
        """A handle that was cancelled gives the filtered part."""
        handle = agent_with(ask, reply(text(f"my {SECRET} "), gate())).start("go")

        async def wait_until_read():
            read = ""
            async for event in handle.events():
                read += event.text if event.type == "text_delta" else ""
                if SECRET in read:
                    return

        asyncio.run(wait_until_read())
        handle.cancel()
        assert handle.result().partial.strip() == "my [redacted]"

    def test_text_streams_give_whole_steps(self, ask):
        """Text is given once it is final; deltas among the events come at once, as the model wrote them."""
        script = reply(text("The word "), tool_call("note", {"n": 1})), text(f"is {SECRET}.")
        assert list(agent_with(ask, *script).stream("go")) == ["The word ", "is [redacted]."]
        events = list(agent_with(ask, *script).stream_events("go"))
        assert SECRET in "".join(event.text for event in events if event.type == "text_delta")
        assert events[-1].content == "is [redacted]."

    def test_an_object_is_made_of_the_answer_as_it_came(self, ask):
        """`response_model` is judged on the original, and what is kept is filtered."""

        class Login(BaseModel):
            word: str

        agent = agent_with(ask, text(f'{{"word": "{SECRET}"}}'), tools=[])
        session = Session()
        assert agent.run("go", session=session, response_model=Login).word == SECRET
        assert session.messages[1].text == '{"word": "[redacted]"}'

    def test_complaints_about_an_answer(self, ask):
        """What is wrong with an answer may repeat it; that is filtered, too."""

        def judge(value):
            raise ValueError(f"not {value}")

        from typing import Annotated

        from pydantic import AfterValidator

        answer = text(json.dumps({"answer": SECRET}))
        agent = agent_with(ask, answer, answer, tools=[])
        session = Session()
        with pytest.raises(OutputError) as caught:
            agent.run("go", session=session, response_model=Annotated[str, AfterValidator(judge)])
        assert "not [redacted]" in str(caught.value)
        assert SECRET not in session.model_dump_json()

    def test_answers_cut_by_their_length(self, ask):
        """Calls that are not run are filtered as well."""
        agent = agent_with(ask, tool_call("note", {"n": SECRET}, finish_reason="length"), text("done"))
        session = Session()
        agent.run("go", session=session)
        assert session.messages[1].tool_calls[0].args == {"n": "[redacted]"}
        assert shape(session) == "uaea"


class TestOldSessions:
    """What stood in a session before the run."""

    def old_session(self, ask):
        script = tool_call("note", {"n": SECRET}), reply(text("half"), error_in_stream(f"down: {SECRET}"))
        session = Session()
        agent = ask(*script, tools=[note], system_prompt=f"Know {SECRET}.")
        agent.run_with_response(SECRET, session=session)
        return session

    def test_is_replaced_in_place(self, ask):
        """The same messages in the same order, with prompts and errors of former runs; all of it is sent so."""
        session = self.old_session(ask)
        before, metadata = [message.id for message in session.messages], session.metadata
        metadata["mine"] = SECRET
        messages = session.messages
        agent = agent_with(ask, text("done"))
        agent.run("go on", session=session)
        assert session.messages is messages
        assert [message.id for message in messages][: len(before)] == before
        del metadata["mine"]  # what users write down themselves is theirs
        assert holding(SECRET, json.loads(session.model_dump_json())) == []
        assert [run.error and run.error.message[:16] for run in session.runs] == ["down: [redacted]", None]
        assert {config["system_prompt"] for config in session.configs.values() if "system_prompt" in config} == {
            "Know [redacted]."
        }
        assert holding(SECRET, agent.server.completions[0].body) == []

    def test_forks_keep_what_they_have(self, ask):
        """A fork is a session of its own."""
        session = self.old_session(ask)
        fork = session.fork()
        agent_with(ask, text("done")).run("go on", session=session)
        assert fork.messages[0].text == SECRET

    def test_a_second_run_changes_nothing_more(self, ask):
        """Marks stay, even where a secret is a part of them."""
        agent = agent_with(ask, text("one"), text("two"), middleware=[Redaction("email", secrets=["act", "mail"])])
        session = Session()
        agent.run("act by mail to a@example.org", session=session)
        agent.run("and again", session=session)
        assert session.messages[0].text == "[redacted] by [redacted] to [email]"


class Breaks(Middleware):
    """A filter that fails at texts which hold a word."""

    def __init__(self, failure=None):
        self.failure = failure

    def filter_text(self, text):
        if "BAD" not in text:
            return text
        if self.failure is None:
            return None
        raise self.failure


class TestFailingFilters:
    """What a filter could not filter is neither sent, nor kept, nor stored."""

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("where", ["input", "history", "prompt", "former error"])
    def test_before_the_run(self, ask, form, where):
        """The run fails with what the filter raised; session and store are as before, and nothing was sent."""
        session = Session()
        failure = LookupError("BAD luck")
        if where == "history":
            session.messages[:] = [UserMessage("first"), UserMessage("BAD")]
        if where == "former error":
            ask(error(400, "BAD")).run_with_response("go", session=session)
        before = session.model_dump_json()
        store = RecordingStore()
        agent = agent_with(
            ask, middleware=[Breaks(failure)], session_store=store, system_prompt="BAD" if where == "prompt" else None
        )
        with pytest.raises(LookupError) as caught:
            call(agent, form, "BAD" if where == "input" else "go", session=session)
        assert caught.value is failure
        assert session.model_dump_json() == before
        assert store.calls == []
        assert agent.server.requests == []
        assert not session.busy

    def test_the_record_of_a_run_that_did_not_begin(self, ask):
        """The run is told as one that failed, without the text."""
        agent = agent_with(ask, middleware=[Breaks(LookupError("BAD luck"))])
        events = []
        with pytest.raises(LookupError):
            for event in agent.stream_events("BAD"):
                events.append(event)
        assert [event.type for event in events] == ["run_started", "run_finished"]
        assert (events[1].run.stop_reason, events[1].run.error.type) == ("error", "LookupError")
        assert events[1].run.error.message == "(withheld: it could not be filtered)"
        response = agent.run_with_response("BAD")
        assert (response.stop_reason, response.messages, response.partial) == ("error", (), "")

    @pytest.mark.parametrize("failure", [None, LookupError("BAD"), asyncio.CancelledError("BAD"), SystemExit()])
    @pytest.mark.parametrize("answer", [text("a BAD word"), tool_call("note", {"n": "BAD"}), tool_call("BAD", {})])
    def test_an_answer(self, ask, answer, failure):
        """It is not kept, its calls are not run, and the run fails."""
        ran = []

        def note(n: str) -> str:
            ran.append(n)

        store, session = RecordingStore(), Session()
        script = tool_call("note", {"n": "1"}), answer
        agent = agent_with(ask, *script, tools=[note], middleware=[Breaks(failure)], session_store=store)
        response = agent.run_with_response("go", session=session)
        assert (shape(session), ran, response.partial) == ("uat", ["1"], "")
        assert "BAD" not in session.model_dump_json()
        assert "BAD" not in store.stored(session.id).model_dump_json()
        kinds = {LookupError: LookupError, type(None): TypeError}
        assert type(response.error) is kinds.get(type(failure), RuntimeError)
        assert response.stop_reason == "error"

    @pytest.mark.parametrize("failure", [None, LookupError("BAD")])
    @pytest.mark.parametrize("is_raised", [False, True])
    def test_a_result(self, ask, failure, is_raised):
        """The call gets an error without the text, the run fails, siblings keep their results."""

        def bad() -> str:
            if is_raised:
                raise ValueError("BAD")
            return "BAD"

        script = tool_calls(tool_call("note", {"n": 1}), tool_call("bad"))
        session, events = Session(), []
        agent = agent_with(ask, script, tools=[note, bad], middleware=[Breaks(failure)])
        with pytest.raises(LookupError if failure else TypeError):
            for event in agent.stream_events("go", session=session):
                events.append(event.model_dump(mode="json"))
        assert shape(session) in {"uate", "uace"}  # the first may have been at work still
        assert session.messages[3].text == "The result is withheld: it could not be filtered."
        assert session.messages[3].value is None
        assert holding("BAD", json.loads(session.model_dump_json())) == []
        assert holding("BAD", events) == []

    def test_a_call_that_was_not_done(self, ask):
        """The result of a cancelled call has the name that the transcript has."""

        class Stops(Middleware):
            async def wrap_tool_call(self, call, call_next):
                if call.name == "note":
                    raise LookupError("stop")
                await asyncio.Event().wait()

        calls = tool_calls(tool_call("note", {"n": 1}), tool_call(SECRET, {}))
        session = Session()
        agent_with(ask, calls, middleware=[HIDDEN, Stops()]).run_with_response("go", session=session)
        assert shape(session) == "uaec"
        assert session.messages[3].name == "[redacted]"

    def test_what_is_wrong_with_an_answer(self, ask):
        """A complaint that cannot be filtered is not told; the answer before it is left out as well."""
        from typing import Literal

        agent = agent_with(ask, text('{"answer": "x"}'), tools=[], middleware=[Breaks()])
        session = Session()
        with pytest.raises(TypeError, match="filter_text must return a str, got NoneType"):
            agent.run("go", session=session, response_model=Literal["BAD"])
        assert shape(session) == "u"

    def test_a_request_that_middleware_has_changed(self, ask):
        """It is not sent."""

        class Recalls(Middleware):
            async def wrap_model_call(self, request, call_next):
                return await call_next(request.replace(messages=(UserMessage("BAD"),)))

        session = Session()
        agent = agent_with(ask, middleware=[Recalls(), Breaks(LookupError("no"))])
        with pytest.raises(LookupError):
            agent.run("go", session=session)
        assert (shape(session), agent.server.requests) == ("u", [])

    def test_ctrl_c_in_a_filter(self, ask):
        """It stops the run as everywhere, and the text it was at is not kept."""

        class Slow(Middleware):
            def filter_text(self, text):
                if text != "BAD":
                    return text
                raise KeyboardInterrupt

        session = Session()
        agent = agent_with(ask, text("BAD"), middleware=[Slow()])
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(agent.arun("go", session=session))
        assert (shape(session), session.busy) == ("u", False)


class TestMiddleware:
    """The hook itself."""

    def test_filters_compose_in_the_order_of_the_list(self, ask):
        """Each gets what the one before it returned."""

        class Appends(Middleware):
            def __init__(self, letter):
                self.letter = letter

            def filter_text(self, text):
                return text + self.letter

        agent = agent_with(ask, text("ok"), middleware=[Appends("a"), Middleware(), Appends("b")])
        session = Session()
        agent.run("go", session=session)
        assert roles(session) == [("user", "goab"), ("assistant", "okab")]

    def test_middleware_without_a_filter_costs_nothing(self, ask):
        """No message is looked at, deltas come at once."""

        class Wraps(Middleware):
            async def wrap_tool_call(self, call, call_next):
                return await call_next(call)

        assert not TextFilter([Middleware(), Wraps()])
        session = Session()
        session.messages.append(UserMessage("before"))
        (before,) = session.messages
        agent = agent_with(ask, text("one two"), middleware=[Wraps()])
        assert list(agent.stream("go", session=session)) == ["one", " two"]
        assert session.messages[0] is before

    def test_what_a_filter_returns_can_be_stored(self, ask):
        """Half of a surrogate pair, or a subclass of str, is made plain text."""

        class Odd(str):
            __slots__ = ()

        class Halves(Middleware):
            def filter_text(self, text):
                return Odd(text + "\ud83d")

        session = Session()
        agent_with(ask, text("ok"), middleware=[Halves()]).run("go", session=session)
        assert session.messages[0].text == "go\ufffd"
        assert type(session.messages[1].text) is str


def _messages(secret):
    """Return a strategy for valid transcripts whose texts may hold the secret anywhere."""
    pieces = st.sampled_from([secret, secret[:-1], secret[1:], " and ", '"', "\\", "{", "n", "\n", "é"])
    words = st.lists(pieces, max_size=4).map("".join)
    data = st.dictionaries(words, words | st.lists(words, max_size=2) | st.integers(), max_size=2)
    facts = {"metadata": data, "provider_metadata": data}
    written = st.one_of(words, data, data.map(json.dumps), data.map(lambda value: json.dumps(value)[:-2]))
    thought = st.builds(ReasoningPart, words, provider_metadata=data)
    said = st.builds(TextPart, words, provider_metadata=data)
    shown = said | st.builds(FilePart, words, st.just(b"x"), st.just("text/plain"))
    shown |= st.builds(lambda word: ImagePart(url=f"https://x.example/{word}"), words)
    named = st.one_of(words, st.just("echo"))

    def turn(name, arguments, parts, result, facts):
        made = ToolCall("c", name, arguments)
        return [AssistantMessage([*parts, made], **facts), ToolMessage("c", name, result)]

    turns = st.builds(
        turn,
        named,
        written,
        st.lists(thought | said, max_size=2),
        st.lists(shown, max_size=2),
        st.fixed_dictionaries(facts),
    )
    plain = st.builds(UserMessage, st.lists(shown, max_size=3), **facts) | st.builds(SummaryMessage, words)
    lists = st.lists(turns | plain.map(lambda message: [message]), max_size=4)
    return st.tuples(words, lists.map(lambda found: [item for items in found for item in items]), written)


secrets = st.text('ZQX"\\\né😀', max_size=4).map(lambda text: f"Z{text}Q")
"""Secrets with characters that JSON writes in other ways, between two letters: no end of one is taken from the library's
own words, such as the line break before a summary, or from the quotes of a repr.
"""


def echo(said: str) -> dict:
    """Say it again."""
    return {"said": said}


class TestArguments:
    """Arguments are JSON, as text: what is looked for may stand in a value, or reach over several."""

    @pytest.mark.parametrize(
        ("pattern", "arguments", "kept"),
        [
            (
                r'"password": "[^"]*"',
                '{"user": "a", "password": "b"}',
                '{"filtered": "{\\"user\\": \\"a\\", [redacted]}"}',
            ),
            ('"Q', '{"Q": ""}', '{"filtered": "{[redacted]\\": \\"\\"}"}'),
            ('"Q', '"Q"', '[redacted]"'),
            ("b", '{"user": "a b"}', '{"user": "a [redacted]"}'),
            ("b", '["b"]', '["[redacted]"]'),
            ("12", '{"n": 123}', '{"n": "[redacted]3"}'),
        ],
    )
    def test_are_filtered_as_values_and_as_a_text(self, pattern, arguments, kept):
        """An object stays one, and nothing of what is looked for stays in it; filtered again it is the same."""
        filters = TextFilter([Redaction(patterns=[pattern])])
        message = filters.message(AssistantMessage(ToolCall("c", "f", arguments)))
        assert message.tool_calls[0].arguments == kept
        assert filters.message(message) is message


class TestTheSessionItself:
    """What is stored beside the messages."""

    def test_title_and_metadata(self, ask):
        """Are filtered, and can still be changed."""
        session = Session(title=f"On {SECRET}", metadata={SECRET: [f"a {SECRET}", 1], "n": {"b": SECRET}})
        agent_with(ask, text("x")).run("go", session=session)
        assert session.title == "On [redacted]"
        assert session.metadata == {"[redacted]": ["a [redacted]", 1], "n": {"b": "[redacted]"}}
        session.metadata["n"]["c"] = 1

    def test_text_in_a_text_file(self):
        """It is sent as text; other files are not looked into."""
        file = FilePart("a.csv", f"name\n{SECRET}\n".encode(), "text/csv")
        other = FilePart("a.pdf", f"%PDF- {SECRET}".encode(), "application/pdf")
        message = kept(UserMessage([file, other]))
        assert message.content[0] == FilePart("a.csv", b"name\n[redacted]\n", "text/csv")
        assert message.content[1] == other


class TestAnySecret:
    """The rule for all transcripts."""

    @moderate
    @given(st.data(), secrets, st.sampled_from(["async", "sync", "exit"]), st.sampled_from(SYNC_FORMS))
    def test_is_nowhere(self, tmp_path_factory, data, secret, durability, form):
        """Neither sent, nor in the store's file, nor in the session's JSON or repr."""
        question, history, written = data.draw(_messages(secret))
        answer = data.draw(st.sampled_from([secret, f"it is {secret}{secret}"]))
        arguments = written if isinstance(written, str) else json.dumps(written)
        script = [
            tool_calls(tool_call("echo", json.dumps({"said": secret})), tool_call("echo", arguments or "{}")),
            reply(reasoning(answer), text(answer)),
        ]
        folder = tmp_path_factory.mktemp("store")
        session = Session()
        session.messages[:] = history
        ids = [message.id for message in history]
        with ScriptedServer(script, strict=False) as server:
            agent = Agent(
                "m", [echo], base_url=server.base_url, session_store=FileSessionStore(folder), durability=durability,
                middleware=[Redaction(secrets=[secret])], system_prompt=f"Never say {secret}",
            )  # fmt: skip
            call(agent, form, f"say {question}", session=session)
            sent = [request.body for request in server.completions]
        assert len(sent) == 2
        assert holding(secret, sent) == []
        stored = [json.loads(line) for path in folder.rglob("*.jsonl") for line in path.read_text("utf-8").splitlines()]
        assert stored
        assert holding(secret, stored) == []
        assert holding(secret, json.loads(session.model_dump_json())) == []
        assert [message.id for message in session.messages[: len(ids)]] == ids
        assert repr(secret)[1:-1] not in repr(session) + repr(session.messages)


def test_a_reader_that_leaves_leaves_nothing_unfiltered(ask):
    """A stream that is left at any event has left filtered texts alone in its session."""
    for count in range(1, 14):
        agent = agent_with(ask, tool_call("note", {"n": SECRET}), text(f"my {SECRET}"))
        session = Session()
        with closing(agent.stream_events(SECRET, session=session)) as events:
            for _ in range(count):
                next(events, None)
        assert SECRET not in session.model_dump_json()
    assert shape(session) == "uaea"


def test_ctrl_c_while_the_answer_comes(ask):
    """What had come of the answer is not kept at all."""
    door = gate()
    agent = agent_with(ask, reply(text(f"my {SECRET}"), door))
    session = Session()
    thread = interrupt_when(door.wait_reached)
    with pytest.raises(KeyboardInterrupt):
        agent.run(SECRET, session=session)
    thread.join()
    assert roles(session) == [("user", "[redacted]")]


def test_steps_without_anything_to_redact(ask):
    """A run is as it would be without the middleware."""
    session = Session()
    assert agent_with(ask, *steps_script(3)).run("go", session=session) == "done"
    assert shape(session) == "uatata"
