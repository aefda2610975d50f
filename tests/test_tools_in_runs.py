"""Tools as a run uses them: together, each in its place, each with a result whatever happens."""

import asyncio
import contextvars
import functools
import json
import threading

import pandas as pd
import pytest
from scenarios import agent_for, call, note, roles, shape

from cyclops_nb import (
    Agent,
    AssistantMessage,
    FilePart,
    ImagePart,
    Middleware,
    RunContext,
    Session,
    TextPart,
    Tool,
    tool,
)
from cyclops_nb.testing import gate, reply, text, tool_call, tool_calls

request_id = contextvars.ContextVar("request_id", default="none")
PNG = b"\x89PNG\r\n\x1a\n"


def result_of(ask, function, arguments="{}", name=None, **settings):
    """Run one call of one tool and return its result message; the model answers after it."""
    made = function if isinstance(function, Tool) else tool(function)
    agent = ask(tool_call(name or made.name, arguments), text("done"), tools=[made], **settings)
    response = agent.run_with_response("go")
    assert response.content == "done"
    (result,) = response.tool_results
    return result


def sent_results(agent):
    """Return the tool messages of the second request."""
    return [message for message in agent.server.completions[1].messages if message["role"] == "tool"]


class TestTogether:
    def test_async_tools_run_at_the_same_time(self, ask):
        """Two tools that wait for each other both end."""
        met = []

        async def one() -> str:
            met.append("one")
            while len(met) < 2:
                await asyncio.sleep(0)
            return "1"

        async def two() -> str:
            met.append("two")
            while len(met) < 2:
                await asyncio.sleep(0)
            return "2"

        agent = ask(tool_calls(tool_call("one"), tool_call("two")), text("done"), tools=[one, two])
        response = agent.run_with_response("go")
        assert [result.text for result in response.tool_results] == ["1", "2"]

    @pytest.mark.parametrize("form", ["run", "arun"])
    def test_sync_tools_run_at_the_same_time(self, ask, form):
        """Twenty blocking tools that wait for each other all end: each has a thread of its own."""
        barrier = threading.Barrier(20)

        def wait(n: int) -> int:
            barrier.wait(20)
            return n

        calls = tool_calls(*(tool_call("wait", {"n": n}) for n in range(20)))
        agent = ask(calls, text("done"), tools=[wait])
        session = Session()
        call(agent, form, "go", session=session)
        assert [message.text for message in session.messages[2:-1]] == [str(n) for n in range(20)]

    def test_results_stand_in_call_order(self, ask):
        """Whatever the order in which tools end, the transcript has their results in the order of the calls."""
        turns = [threading.Event() for _ in range(4)]
        turns[3].set()

        def wait(n: int) -> str:
            turns[n].wait(20)
            turns[n - 1].set()
            return f"r{n}"

        agent = ask(tool_calls(*(tool_call("wait", {"n": n}) for n in range(4))), text("done"), tools=[wait])
        session = Session()
        events = [e for e in agent.stream_events("go", session=session) if e.type == "tool_result"]
        assert [event.message.text for event in events] == ["r3", "r2", "r1", "r0"]
        assert [message.text for message in session.messages[2:-1]] == ["r0", "r1", "r2", "r3"]
        assert [m["content"] for m in sent_results(agent)] == ["r0", "r1", "r2", "r3"]
        assert [m["tool_call_id"] for m in sent_results(agent)] == ["call_1", "call_2", "call_3", "call_4"]

    def test_all_calls_are_ready_before_any_result(self, ask):
        """A view can show all calls of a step before the first tool ends."""
        agent = ask(tool_calls(tool_call("note", {"n": 1}), tool_call("note", {"n": 2})), text("done"), tools=[note])
        kinds = [event.type for event in agent.stream_events("go")]
        ready = [index for index, kind in enumerate(kinds) if kind == "tool_call_ready"]
        assert len(ready) == 2
        assert max(ready) < kinds.index("tool_result")

    def test_siblings_of_a_failing_tool_keep_their_results(self, ask):
        """One that ends later, one that raises without a word, one that raises CancelledError: three results."""
        raised = threading.Event()

        def slow_ok() -> str:
            raised.wait(20)
            return "ok"

        def silent() -> str:
            raised.set()
            raise ValueError

        async def cancels() -> str:
            raise asyncio.CancelledError

        calls = tool_calls(tool_call("slow_ok"), tool_call("silent"), tool_call("cancels"))
        agent = ask(calls, text("done"), tools=[slow_ok, silent, cancels])
        session = Session()
        assert agent.run("go", session=session) == "done"
        assert roles(session)[2:5] == [
            ("tool", "ok", "ok"),
            ("tool", "ValueError", "error"),
            ("tool", "CancelledError", "error"),
        ]

    def test_doubled_call_ids_are_told_apart(self, ask):
        """Two calls of one message under the same id get ids of their own, each with its result."""
        agent = ask(
            tool_calls(tool_call("note", {"n": 1}, id="x"), tool_call("note", {"n": 2}, id="x")),
            text("done"),
            tools=[note],
        )
        session = Session()
        agent.run("go", session=session)
        first, second = session.messages[1].tool_calls
        assert first.id != second.id
        assert [(m.call_id, m.text) for m in session.messages[2:4]] == [(first.id, "noted 1"), (second.id, "noted 2")]


class TestWhere:
    def test_sync_tools_have_a_copy_of_the_callers_context(self, ask):
        """Context variables set before the run are seen in threads and coroutines; changes there do not leak."""
        seen = []

        def sync() -> str:
            seen.append(("sync", request_id.get(), threading.current_thread() is not threading.main_thread()))
            request_id.set("changed")
            return ""

        async def coroutine() -> str:
            seen.append(("async", request_id.get(), True))
            request_id.set("changed too")
            return ""

        for form in ("run", "arun", "start", "stream"):
            seen.clear()
            agent = ask(tool_calls(tool_call("sync"), tool_call("coroutine")), text("done"), tools=[sync, coroutine])
            context = contextvars.copy_context()

            def go():
                request_id.set("7")
                call(agent, form, "go")
                return request_id.get()

            assert context.run(go) == "7"
            assert sorted(seen) == [("async", "7", True), ("sync", "7", True)]

    def test_the_loop_goes_on_while_a_sync_tool_blocks(self, ask):
        """A heartbeat on the caller's loop ticks while a tool of arun blocks its thread."""
        beats, enough = [], threading.Event()

        def block() -> str:
            enough.wait(20)
            return "free"

        async def main():
            async def beat():
                while True:
                    beats.append(None)
                    if len(beats) > 50:
                        enough.set()
                    await asyncio.sleep(0)

            heart = asyncio.create_task(beat())
            agent = ask(tool_call("block"), text("done"), tools=[block])
            answer = await agent.arun("go")
            heart.cancel()
            return answer

        assert asyncio.run(main()) == "done"
        assert len(beats) > 50

    def test_async_tools_run_on_the_loop_of_the_run(self, ask):
        """With arun that is the caller's loop, so what belongs to it can be used."""

        async def main():
            lock = asyncio.Lock()
            mine = asyncio.get_running_loop()

            async def locked() -> bool:
                async with lock:
                    return asyncio.get_running_loop() is mine

            agent = ask(tool_call("locked"), text("done"), tools=[locked])
            return (await agent.arun_with_response("go")).tool_results[0].value

        assert asyncio.run(main()) is True

    @pytest.mark.parametrize("form", ["run", "run_with_response", "stream", "stream_events", "arun", "astream_events"])
    def test_a_tool_of_the_callers_thread(self, ask, form):
        """With thread="caller" a sync tool runs on the thread that waits for the run."""
        threads = []

        @tool(thread="caller")
        def plot(n: int) -> str:
            threads.append(threading.current_thread())
            return f"plot {n}"

        agent = ask(tool_calls(tool_call("plot", {"n": 1}), tool_call("plot", {"n": 2})), text("done"), tools=[plot])
        assert call(agent, form, "go") == "done"
        assert threads == [threading.main_thread()] * 2

    def test_a_tool_of_the_callers_thread_when_nobody_waits(self, ask):
        """Under start() it gets a worker thread like all others."""
        threads = []

        @tool(thread="caller")
        def plot() -> str:
            threads.append(threading.current_thread())
            return "plot"

        agent = ask(tool_call("plot"), text("done"), tools=[plot])
        assert agent.start("go").result().content == "done"
        assert threads[0] is not threading.main_thread()

    @pytest.mark.parametrize("error", [ValueError("bad"), StopIteration(), SystemExit(3), asyncio.CancelledError("x")])
    def test_a_tool_of_the_callers_thread_that_raises(self, ask, error):
        """What it raises is an error result, as with any tool."""

        @tool(thread="caller")
        def plot() -> str:
            raise error

        result = result_of(ask, plot)
        assert (result.status, type(error).__name__ in result.text) == ("error", True)

    def test_something_made_on_another_loop_is_recognised(self, ask):
        """The error about another event loop tells how to avoid it."""

        async def main():
            lock = asyncio.Lock()
            await lock.acquire()
            waiting = asyncio.create_task(lock.acquire())  # now the lock belongs to this loop
            await asyncio.sleep(0)

            async def locked() -> str:
                async with lock:
                    return "never"

            result = result_of(ask, locked)
            waiting.cancel()
            return result

        result = asyncio.run(main())
        assert result.status == "error"
        assert "await agent.arun" in result.text


class TestResults:
    @pytest.mark.parametrize(
        ("value", "said"),
        [
            ("11 °C", "11 °C"),
            ({"a": [1, 2.5, None, True]}, '{"a": [1, 2.5, null, true]}'),
            ([1, 2], "[1, 2]"),
            (7, "7"),
            (None, "null"),
            ("", ""),
            (float("nan"), "null"),
            ({1: "x"}, '{"1": "x"}'),
        ],
    )
    def test_text_and_data(self, ask, value, said):
        """Text is sent as it is, data as JSON; the object itself stays in memory as `.value`."""

        def give() -> str:
            return value

        result = result_of(ask, give)
        assert (result.status, result.text) == ("ok", said)
        assert result.value is value
        assert json.loads(result.model_dump_json())["content"] == [{"type": "text", "text": said}]

    def test_a_dataframe(self, ask):
        """A table is sent as text and stays a table as `.value`."""
        frame = pd.DataFrame({"city": ["Oslo", "Rome"], "people": [1, 2]})

        def give() -> pd.DataFrame:
            return frame

        result = result_of(ask, give)
        assert result.text == frame.to_string()
        assert result.value is frame

    def test_objects_that_can_be_made_json(self, ask):
        """Models, dates, sets and numpy arrays are sent as JSON."""
        from datetime import date

        import numpy as np
        from pydantic import BaseModel

        class Point(BaseModel):
            x: int

        def give() -> dict:
            return {
                "p": Point(x=1),
                "d": date(2026, 1, 2),
                "s": {3},
                "a": np.array([[1, 2]]),
                "n": np.int64(4),
            }

        assert json.loads(result_of(ask, give).text) == {
            "p": {"x": 1},
            "d": "2026-01-02",
            "s": [3],
            "a": [[1, 2]],
            "n": 4,
        }

    def test_an_image_follows_as_a_user_message(self, ask):
        """Results can only hold text for the server, so a picture comes after all results of the step."""

        class Picture:
            def _repr_png_(self):
                return PNG

        picture = Picture()

        def draw(n: int) -> object:
            return picture

        calls = tool_calls(tool_call("draw", {"n": 1}), tool_call("note", {"n": 2}))
        agent = ask(calls, text("done"), tools=[draw, note])
        session = Session()
        agent.run("go", session=session)
        (part,) = session.messages[2].content
        assert (part.type, part.media_type) == ("image", "image/png")
        assert session.messages[2].value is picture
        assert shape(session) == "uatta"
        sent = agent.server.completions[1].messages
        assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]
        assert [part["type"] for part in sent[-1]["content"]] == ["text", "image_url"]
        assert "draw" in sent[-1]["content"][0]["text"]
        assert sent[-1]["content"][1]["image_url"]["url"] == f"data:image/png;base64,{part.data}"

    def test_a_figure(self, ask):
        """A matplotlib figure is sent as a picture."""
        figure = pytest.importorskip("matplotlib.figure").Figure()
        figure.subplots().plot([1, 2])

        def plot() -> object:
            return figure

        (part,) = result_of(ask, plot).content
        assert part.media_type == "image/png"

    def test_parts(self, ask):
        """Parts, and lists of texts and parts, are taken in their order."""
        image = ImagePart(PNG, media_type="image/png")
        file = FilePart("a.txt", b"hello", "text/plain")

        def give() -> list:
            return ["before", image, TextPart("after"), file]

        result = result_of(ask, give)
        assert [part.type for part in result.content] == ["text", "image", "text", "file"]
        assert result.content[1] == image

    def test_what_is_no_result(self, ask):
        """Something that cannot be put into words is told to the model as an error."""

        def give() -> object:
            return object()

        result = result_of(ask, give)
        assert result.status == "error"
        assert "a object cannot be sent" in result.text

    def test_text_that_cannot_be_encoded(self, ask, tmp_path):
        """Bytes read as surrogates become U+FFFD once, so that request, save and load all work."""
        from cyclops_nb.stores import FileSessionStore

        def read() -> dict:
            return {b"\x89k".decode("utf-8", "surrogateescape"): b"\x89PNG".decode("utf-8", "surrogateescape")}

        store = FileSessionStore(tmp_path)
        agent = ask(tool_call("read"), text("done"), tools=[read], session_store=store)
        session = Session("s")
        agent.run("go", session=session)
        assert session.messages[2].text == '{"\ufffdk": "\ufffdPNG"}'
        assert asyncio.run(store.load("s")).messages == session.messages

    @pytest.mark.parametrize(
        "kind", ["generator", "async generator", "awaitable", "partial", "method", "callable object"]
    )
    def test_callables_of_all_kinds(self, ask, kind):
        """Generators give lists, awaitables are awaited, and whatever can be called is a tool."""

        def generator() -> list:
            yield "a"
            yield "b"

        async def async_generator() -> list:
            yield "a"
            yield "b"

        async def later():
            return ["a", "b"]

        def awaitable() -> list:
            return later()

        def partial(first: str, second: str) -> list:
            return [first, second]

        class Object:
            def method(self) -> list:
                return ["a", "b"]

            def __call__(self) -> list:
                return ["a", "b"]

        made = {
            "generator": generator,
            "async generator": async_generator,
            "awaitable": awaitable,
            "partial": functools.partial(partial, "a", second="b"),
            "method": Object().method,
            "callable object": Object(),
        }[kind]
        assert result_of(ask, made).value == ["a", "b"]

    def test_values_live_in_memory_only(self, ask):
        """A session that was loaded has the text of a result and no object."""
        agent = ask(tool_call("note", {"n": 1}), text("done"), tools=[note])
        session = Session()
        agent.run("go", session=session)
        loaded = Session.model_validate_json(session.model_dump_json())
        assert (session.messages[2].value, loaded.messages[2].value) == ("noted 1", None)

    def test_duration(self, ask):
        """A result knows how long its tool took."""
        assert result_of(ask, note, {"n": 1}).duration > 0


class TestWrongCalls:
    """What a model gets wrong is answered to it, and the run goes on."""

    @pytest.mark.parametrize(
        ("name", "arguments", "said"),
        [
            ("nothing", "{}", "There is no tool 'nothing'; the tools are 'note'."),
            ("note", '{"n": ', "not valid JSON"),
            ("note", "[1]", "must be a JSON object, got list"),
            ("note", '{"n": "many"}', "n: Input should be a valid integer"),
            ("note", "{}", "n: Field required"),
            ("note", '{"n": 1, "m": 2}', "m: Extra inputs are not permitted"),
        ],
    )
    @pytest.mark.parametrize("on_tool_error", ["answer", "raise"])
    def test_wrong_calls(self, ask, name, arguments, said, on_tool_error):
        """An unknown tool, broken JSON and arguments that do not fit get an error result that says what is wrong."""
        result = result_of(ask, note, arguments, name, on_tool_error=on_tool_error)
        assert result.status == "error"
        assert said in result.text

    @pytest.mark.parametrize("arguments", ["", "   "])
    def test_no_arguments_at_all(self, ask, arguments):
        """Empty arguments stand for none, and are stored and sent back as an empty object."""

        def now() -> str:
            return "12:00"

        agent = ask(tool_call("now", arguments), text("done"), tools=[now])
        session = Session()
        agent.run("go", session=session)
        assert session.messages[2].text == "12:00"
        assert session.messages[1].tool_calls[0].arguments == "{}"
        assert agent.server.completions[1].messages[1]["tool_calls"][0]["function"]["arguments"] == "{}"

    def test_broken_arguments_are_kept_and_sent_back_as_valid_json(self, ask):
        """The transcript has what the model wrote; the strict server gets JSON."""
        agent = ask(tool_call("note", '{"n": listt}'), text("done"), text("more"), tools=[note])
        session = Session()
        agent.run("go", session=session)
        agent.run("again", session=session)
        assert session.messages[1].tool_calls[0].arguments == '{"n": listt}'
        assert shape(session) == "uaeaua"

    @pytest.mark.parametrize("arguments", ['{"n": 1', '{"n": 1}'])
    def test_calls_that_were_cut_by_the_length_limit(self, ask, arguments):
        """With finish_reason "length" no call of the message is run, whole or not, and each is told so."""
        ran = []

        def write(n: int) -> str:
            ran.append(n)
            return "written"

        calls = tool_calls(tool_call("write", {"n": 0}), tool_call("write", arguments), finish_reason="length")
        agent = ask(calls, text("done"), tools=[write])
        session = Session()
        assert agent.run("go", session=session) == "done"
        assert (ran, shape(session)) == ([], "uaeea")
        assert "cut off by its length limit" in session.messages[3].text
        assert any("length limit" in warning for warning in session.runs[0].warnings)

    def test_endless_wrong_calls_are_bounded(self, serve):
        """A model that repeats its mistake is stopped by max_iterations."""
        server = serve(lambda request: tool_call("note", '{"n": '))
        response = agent_for(server, [note], max_iterations=3).run_with_response("go")
        assert (response.stop_reason, response.steps, len(server.completions)) == ("max_iterations", 3, 3)

    def test_calls_decide_and_not_the_finish_reason(self, ask):
        """A server that says "stop" beside a call still gets its call run."""
        agent = ask(tool_call("note", {"n": 1}, finish_reason="stop"), text("done"), tools=[note])
        assert agent.run("go") == "done"


class TestRaising:
    @pytest.mark.parametrize(
        ("error", "said"),
        [
            (ValueError("no such city"), "ValueError: no such city"),
            (ValueError(), "ValueError"),
            (KeyError("x"), "KeyError: 'x'"),
            (asyncio.CancelledError(), "CancelledError"),
            (SystemExit(3), "SystemExit: 3"),
            (KeyboardInterrupt(), "KeyboardInterrupt"),
            (StopIteration(), "StopIteration"),
            (TimeoutError("slow"), "TimeoutError: slow"),
        ],
    )
    @pytest.mark.parametrize("kind", ["sync", "async"])
    @pytest.mark.parametrize("form", ["run_with_response", "arun_with_response"])
    def test_what_a_tool_raises_is_told_to_the_model(self, ask, error, said, kind, form):
        """Type and text are the error result, the model sees it, and the run goes on."""

        def sync() -> str:
            raise error

        async def coroutine() -> str:
            raise error

        is_ctrl_c = kind == "async" and isinstance(error, KeyboardInterrupt) and form.startswith("a")
        if is_ctrl_c:  # raised on the main thread, where it would be the user's own
            form = "run_with_response"
        function = sync if kind == "sync" else coroutine
        agent = ask(tool_call(function.__name__), text("done"), tools=[function])
        session = Session()
        assert call(agent, form, "go", session=session) == "done"
        result = session.messages[2]
        assert result.status == "error"
        assert said in result.text
        assert sent_results(agent)[0]["content"] == result.text

    def test_the_library_works_on_after_a_tool_that_exits(self, ask):
        """A tool that calls sys.exit ends neither the run nor the thread of the library's loop."""
        result_of(ask, exits)
        assert ask(text("hi")).start("go").result(timeout=10).content == "hi"

    @pytest.mark.parametrize("form", ["run_with_response", "arun_with_response", "start"])
    def test_on_tool_error_raise(self, ask, form):
        """The run fails with that exception: error result for the call, cancelled ones for unfinished siblings."""
        failure = ValueError("no such city")
        hold, ended = threading.Event(), threading.Event()

        async def quick() -> str:
            return "quick"

        def fails() -> str:
            ended.wait(20)
            raise failure

        async def slow() -> str:
            try:
                await asyncio.sleep(60)
            finally:
                hold.set()
            return "never"

        class Tells(Middleware):
            async def wrap_tool_call(self, call, call_next):
                message = await call_next(call)
                ended.set()
                return message

        calls = tool_calls(tool_call("quick"), tool_call("fails"), tool_call("slow"))
        agent = ask(calls, text("fine"), tools=[quick, fails, slow], on_tool_error="raise", middleware=[Tells()])
        session = Session()
        with pytest.raises(ValueError, match="no such city") as caught:
            call(agent, form, "go", session=session)
        assert caught.value is failure
        assert roles(session)[2:] == [
            ("tool", "quick", "ok"),
            ("tool", "ValueError: no such city", "error"),
            ("tool", session.messages[4].text, "cancelled"),
        ]
        assert hold.is_set()
        assert (session.runs[0].stop_reason, session.runs[0].steps) == ("error", 1)
        assert agent.run("go on", session=session) == "fine"

    def test_on_tool_error_raise_with_a_cancelled_error(self, ask):
        """A CancelledError of the tool's own fails the run; it is no cancel of the run."""

        async def cancels() -> str:
            raise asyncio.CancelledError("mine")

        response = ask(tool_call("cancels"), tools=[cancels], on_tool_error="raise").run_with_response("go")
        assert response.stop_reason == "error"
        assert "CancelledError: mine" in str(response.error)
        assert response.tool_results[0].status == "error"


def exits() -> str:
    raise SystemExit


class TestTimeout:
    @pytest.mark.parametrize("kind", ["sync", "async"])
    @pytest.mark.parametrize("place", ["agent", "tool"])
    def test_a_tool_that_takes_too_long(self, ask, kind, place):
        """After the timeout of the tool, or of the agent, the call gets an error result and the run goes on."""
        release = threading.Event()

        def sync() -> str:
            release.wait(20)
            return "late"

        async def coroutine() -> str:
            await asyncio.sleep(60)
            return "late"

        function = sync if kind == "sync" else coroutine
        settings = {"tool_timeout": 0.02} if place == "agent" else {}
        made = tool(timeout=0.02 if place == "tool" else None)(function)
        result = result_of(ask, made, **settings)
        release.set()
        assert (result.status, result.text) == ("error", "TimeoutError: no result within 0.02 s")

    def test_the_tools_own_timeout_goes_before(self, ask):
        """A tool that may take longer than the others is given its time."""
        door = threading.Event()

        @tool(timeout=20)
        def slow() -> str:
            door.wait(20)
            return "done"

        threading.Timer(0.1, door.set).start()
        assert result_of(ask, slow, tool_timeout=0.01).text == "done"

    def test_a_timeout_of_the_tools_own_is_an_error_like_any(self, ask):
        """What a tool raises by itself is told in its own words."""

        async def impatient() -> str:
            async with asyncio.timeout(0):
                await asyncio.sleep(60)

        result = result_of(ask, impatient, tool_timeout=20)
        assert (result.status, result.text) == ("error", "TimeoutError")


class TestContext:
    def test_a_tool_knows_its_run(self, ask):
        """A parameter annotated with RunContext is injected, and is no parameter for the model."""
        seen = []

        def remember(text: str, context: RunContext) -> str:
            seen.append(context)
            context.session.metadata["note"] = text
            return "noted"

        agent = ask(tool_call("remember", {"text": "x"}, id="c9"), text("done"), tools=[remember])
        session = Session()
        response = agent.run_with_response("go", session=session)
        (context,) = seen
        assert context.session is session
        assert (context.run_id, context.step, context.call_id, context.agent) == (response.id, 1, "c9", agent)
        assert session.metadata == {"note": "x"}
        schema = agent.server.completions[0].body["tools"][0]["function"]["parameters"]
        assert list(schema["properties"]) == ["text"]

    def test_a_tool_can_fork_the_session_it_runs_in(self, ask):
        """A fork during a run has what was complete at that moment, and can be run."""
        forks = []

        def branch(context: RunContext) -> str:
            forks.append(context.session.fork())
            return "forked"

        agent = ask(tool_call("branch"), text("done"), text("other"), tools=[branch])
        agent.run("go", session=Session())
        assert shape(forks[0]) == "u"
        assert agent.run(session=forks[0]) == "other"

    def test_a_tool_without_a_python_signature(self, ask):
        """A tool made with a JSON schema is called with what fits it, and the rest is told to the model."""
        parameters = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        made = Tool("count", "Count.", parameters, lambda n: n + 1)
        assert result_of(ask, made, {"n": 1}).value == 2
        assert "'many' is not of type 'integer'" in result_of(ask, made, {"n": "many"}).text


class TestDefinitions:
    def test_what_the_model_is_told(self, ask):
        """Name, description and schema of each tool go with every request; without tools nothing goes."""
        agent = ask(tool_call("note", {"n": 1}), text("done"), text("bare"), tools=[note])
        agent.run("go")
        for request in agent.server.completions:
            (sent,) = request.body["tools"]
            assert sent["function"]["name"] == "note"
            assert sent["function"]["description"] == "Take a note."
        Agent("m", base_url=agent.server.base_url).run("go")
        assert "tools" not in agent.server.completions[-1].body

    def test_text_beside_calls_is_kept(self, ask):
        """What the model says before its calls stands in the same message, in order."""
        door = gate()
        door.release()
        agent = ask(reply(text("Wait."), door, tool_call("note", {"n": 1})), text("done"), tools=[note])
        session = Session()
        agent.run("go", session=session)
        assert [part.type for part in session.messages[1].content] == ["text", "tool_call"]
        assert isinstance(session.messages[1], AssistantMessage)
