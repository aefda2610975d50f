"""However a run ends: what its transcript keeps, what is raised, what is stored, and that the session can go on.

`ENDINGS` and `STOPS` are tables with a row for each way to end. Each row is tried from all nine entry points, with each
durability, without a store, with one in memory and with one in files.
"""

import asyncio
import gc
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from scenarios import ASYNC_FORMS, FORMS, RecordingStore, acall, agent_for, begin, call, interrupt_when, shape

from cyclops_nb import (
    AgentResponse,
    AssistantMessage,
    FileSessionStore,
    InputError,
    MaxIterationsError,
    Middleware,
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
    Session,
    SessionBusyError,
    ToolCall,
    TranscriptError,
    Usage,
    UserMessage,
    tool,
)
from cyclops_nb.portal import portal
from cyclops_nb.testing import cut, end, error, error_in_stream, gate, reply, text, tool_call, tool_calls
from cyclops_nb.threads import run_in_thread
from cyclops_nb.transcript import check

MODES = ("async", "sync", "exit")
STREAMS = ("stream", "stream_events", "astream", "astream_events")
SPENT = {"usage": (10, 5)}
NOTE = tool_call("note", {"n": 1}, **SPENT)
DONE = text("done", **SPENT)
FAILURE = LookupError("it failed")


class Scene:
    """What the tools of a run have come to, and a gate for the server to stand at."""

    def __init__(self):
        self.door = gate()
        self.began = []
        self.quick_ended, self.slow_began, self.slow_ended = (threading.Event() for _ in range(3))
        self.released = threading.Event()

    def wait_for_tools(self):
        """Wait until the quick tool has its result and the slow one runs."""
        assert self.quick_ended.wait(20)
        assert self.slow_began.wait(20)


SCENES = [Scene()]
"""The last one is that of the running test."""


def note(n: int) -> str:
    return f"noted {n}"


async def quick() -> str:
    return "quick"


async def bad() -> str:
    raise FAILURE


async def cancels() -> str:
    raise asyncio.CancelledError("its own")


async def waits() -> str:
    await asyncio.Event().wait()


def slow() -> str:
    """Block a thread until the test is over."""
    scene = SCENES[-1]
    scene.slow_began.set()
    scene.released.wait(20)
    scene.slow_ended.set()
    return "late"


async def last() -> str:
    SCENES[-1].began.append("last")


TOOLS = [tool(function) for function in (note, quick, bad, cancels, waits, slow, last)]


class Watches(Middleware):
    """Tells when the quick tool has ended, and lets the last one never begin."""

    async def wrap_tool_call(self, call, call_next):
        if call.name == "last":
            await asyncio.Event().wait()
        result = await call_next(call)
        if call.name == "quick":
            SCENES[-1].quick_ended.set()  # nothing is awaited from here to the end of the call
        return result


class RaisesAroundTools(Middleware):
    """Raises in place of the call of the tool ``bad``."""

    def __init__(self, failure):
        self.failure = failure

    async def wrap_tool_call(self, call, call_next):
        if call.name == "bad":
            raise self.failure
        return await call_next(call)


class RaisesAroundModels(Middleware):
    """Raises in the second step, before or after the model has answered."""

    def __init__(self, when):
        self.when = when

    async def wrap_model_call(self, request, call_next):
        if request.step == 2 and self.when == "before":
            raise FAILURE
        answer = await call_next(request)
        if request.step == 2:
            raise FAILURE
        return answer


@dataclass
class Ending:
    """One way to end, and all that is expected then."""

    script: list
    shape: str
    stop_reason: str = "error"
    error: type | None = None
    said: str = ""
    spent: int = 0
    """How many completions have told what they used."""
    all_spent: bool = True
    """Whether that is all that was used."""
    settings: dict = field(default_factory=dict)


BAD_STEP = tool_calls(tool_call("quick"), tool_call("bad"), tool_call("waits"), tool_call("slow"), **SPENT)
STALL = gate()
"""Never released."""
ENDINGS = {
    "completes": Ending([NOTE, NOTE, DONE], "uatata", "completed", spent=3),
    "the provider refuses the first completion": Ending([error(400, "no")], "u", error=ModelError, said="no"),
    "the provider refuses the second": Ending([NOTE, error(400, "no")], "uat", error=ModelError, said="no", spent=1),
    "the provider fails at the third": Ending(
        [NOTE, NOTE, error(500, "no")], "uatat", error=ModelError, said="no", spent=2
    ),
    "the connection breaks in a text": Ending(
        [NOTE, reply(text("half"), cut())], "uat", error=ModelConnectionError, spent=1, all_spent=False
    ),
    "the connection breaks in the arguments of a call": Ending(
        [reply(tool_call("note", '{"n": 1'), cut())], "u", error=ModelConnectionError, all_spent=False
    ),
    "the connection breaks after a whole call": Ending(
        [NOTE, reply(tool_call("note", {"n": 1}), cut())], "uat", error=ModelConnectionError, spent=1, all_spent=False
    ),
    "the stream ends after a whole call": Ending(
        [reply(tool_call("note", {"n": 1}), end())], "u", error=ModelError, all_spent=False
    ),
    "an error after status 200": Ending(
        [NOTE, reply(text("half"), tool_call("note", {"n": 1}), error_in_stream("overloaded"))],
        "uat",
        error=ModelError,
        said="overloaded",
        spent=1,
        all_spent=False,
    ),
    "a tool raises": Ending(
        [tool_calls(tool_call("bad"), tool_call("note", {"n": 1}), tool_call("cancels"), **SPENT), DONE],
        "uaetea",
        "completed",
        spent=2,
    ),
    "a tool raises under on_tool_error='raise'": Ending(
        [NOTE, BAD_STEP],
        "uatatecc",
        error=LookupError,
        said="it failed",
        spent=2,
        settings={"on_tool_error": "raise"},
    ),
    "a tool raises CancelledError under on_tool_error='raise'": Ending(
        [tool_calls(tool_call("quick"), tool_call("cancels"), tool_call("waits"), **SPENT)],
        "uatec",
        error=RuntimeError,
        said="CancelledError: its own",
        spent=1,
        settings={"on_tool_error": "raise"},
    ),
    "tool middleware raises": Ending(
        [NOTE, BAD_STEP],
        "uatatecc",
        error=LookupError,
        said="it failed",
        spent=2,
        settings={"middleware": [RaisesAroundTools(FAILURE)]},
    ),
    "tool middleware raises CancelledError": Ending(
        [BAD_STEP],
        "uatecc",
        error=RuntimeError,
        said="CancelledError",
        spent=1,
        settings={"middleware": [RaisesAroundTools(asyncio.CancelledError())]},
    ),
    "model middleware raises before the model is asked": Ending(
        [NOTE],
        "uat",
        error=LookupError,
        said="it failed",
        spent=1,
        settings={"middleware": [RaisesAroundModels("before")]},
    ),
    "model middleware raises after the answer": Ending(
        [NOTE, DONE],
        "uat",
        error=LookupError,
        said="it failed",
        spent=2,
        settings={"middleware": [RaisesAroundModels("after")]},
    ),
    "the steps are used up": Ending(
        [NOTE, NOTE],
        "uatat",
        "max_iterations",
        MaxIterationsError,
        spent=2,
        settings={"max_iterations": 2},
    ),
}


class Keeping:
    """Where a run's session is kept, and when."""

    def __init__(self, kind, durability, folder):
        self.durability = durability
        self.folder = folder if kind == "files" else None
        self.store = None if kind == "no store" else RecordingStore()
        if self.folder is not None:
            self.store.inner = FileSessionStore(self.folder)

    def stored(self):
        """Load the session as another process would, if there is a store."""
        inner = self.store.inner if self.folder is None else FileSessionStore(self.folder)
        return portal().run(inner.load("s"))

    def check(self, session):
        """Check that everything is stored."""
        if self.store is not None:
            assert self.stored() == session
            assert self.store.overlaps == 0


QUICK = [("no store", "async"), ("memory", "async"), ("files", "sync")]
PLACES = [*QUICK, ("memory", "sync"), ("memory", "exit"), ("files", "async"), ("files", "exit")]


def _place(kind, mode):
    marks = () if (kind, mode) in QUICK else pytest.mark.slow
    return pytest.param((kind, mode), id=f"{kind}-{mode}", marks=marks)


@pytest.fixture(params=[_place(kind, mode) for kind, mode in PLACES])
def keeping(request, tmp_path):
    """Give a durability with a store, or with none."""
    kind, durability = request.param
    return Keeping(kind, durability, tmp_path)


@pytest.fixture
def scene():
    """Give a scene; what it holds is let go after the test."""
    SCENES.append(Scene())
    yield SCENES[-1]
    SCENES.pop().released.set()


@pytest.fixture
def runner():
    with asyncio.Runner() as made:
        yield made


def agent_of(serve, script, keeping, **settings):
    """Return an agent on a strict server with a script, which answers one more question after it."""
    server = serve(*script, text("fine", **SPENT))
    agent = agent_for(server, TOOLS, session_store=keeping.store, durability=keeping.durability, **settings)
    agent.server = server
    return agent


class Caller:
    """Calls one entry point of an agent, async ones on a loop that is kept from call to call."""

    def __init__(self, form, runner):
        self.form = form
        self.runner = runner
        self.is_async = form in ASYNC_FORMS

    def run(self, agent, *args, **kwargs):
        """Run to the end and return the text of the answer, or raise what the run failed with."""
        if self.is_async:
            return self.runner.run(acall(agent, self.form, *args, **kwargs))
        return call(agent, self.form, *args, **kwargs)

    def outcome(self, agent, session):
        """Run to the end; return what is raised, or what the response says that the run failed with."""
        try:
            given = self.runner.run(self._read(agent, session)) if self.is_async else self._read_here(agent, session)
        except Exception as raised:
            return raised
        if self.form.endswith("stream_events"):
            assert given[-1].run == session.runs[-1]
        if not isinstance(given, AgentResponse):
            return None
        assert given.run == session.runs[-1]
        assert list(given.messages) == session.messages
        return given.error

    def _read_here(self, agent, session):
        given = getattr(agent, self.form)("go", session=session)
        if self.form == "start":
            return given.result()
        return list(given) if self.form.startswith("stream") else given

    async def _read(self, agent, session):
        given = getattr(agent, self.form)("go", session=session)
        return [item async for item in given] if self.form.startswith("astream") else await given


@pytest.fixture
def caller(form):
    """Give the caller of the entry point that the test is about."""
    with asyncio.Runner() as runner:
        yield Caller(form, runner)


def usage(completions):
    """Return what so many completions have used."""
    return Usage(completions, 10 * completions, 5 * completions)


def check_end(session, ending, keeping):
    """Check what a run has left."""
    assert shape(session) == ending.shape
    check(session.messages)
    assert not session.busy
    (run,) = session.runs
    assert run.stop_reason == ending.stop_reason
    assert (run.usage, run.usage_complete) == (usage(ending.spent), ending.all_spent)
    assert session.usage == run.usage
    assert run.steps == ending.shape.count("a")
    keeping.check(session)


def check_late_results(session, scene):
    """Check that what a tool returns after the end of its run goes nowhere."""
    if scene.slow_began.is_set():
        before = session.model_dump_json()
        scene.released.set()
        assert scene.slow_ended.wait(20)
        assert session.model_dump_json() == before
    assert scene.began == []


def check_next(agent, caller, session, keeping):
    """Check that the strict server takes the next run, and that this stores everything."""
    before = shape(session)
    if agent._middleware or agent.config.on_tool_error == "raise":
        server = agent.server
        agent = agent_for(server, TOOLS, session_store=keeping.store, durability=keeping.durability)
    assert caller.run(agent, "go on", session=session) == "fine"
    assert shape(session) == before + "ua"
    assert not session.busy
    keeping.check(session)


@pytest.mark.parametrize("form", FORMS)
class TestEndings:
    """A run that comes to its end by itself."""

    @pytest.mark.parametrize("name", ENDINGS)
    def test_each(self, serve, scene, keeping, caller, name):
        """Transcript, record, error and store are what the table says, and the next run works."""
        ending = ENDINGS[name]
        agent = agent_of(serve, ending.script, keeping, **ending.settings)
        session = Session("s")
        failure = caller.outcome(agent, session)
        assert type(failure) is (ending.error or type(None))
        assert ending.said in str(failure)
        assert failure is FAILURE or not isinstance(failure, LookupError)
        check_end(session, ending, keeping)
        record = session.runs[0].error
        assert (record.type if record else None) == (type(failure).__name__ if failure else None)
        check_late_results(session, scene)
        check_next(agent, caller, session, keeping)

    def test_a_server_that_stalls(self, serve, scene, caller, tmp_path):
        """A completion that stands still in the arguments of a call fails after the timeout, and leaves nothing."""
        keeping = Keeping("files", "async", tmp_path)
        script = [reply(text("half"), tool_call("note", '{"n": 1'), scene.door)]
        agent = agent_of(serve, script, keeping, timeout=0.2)
        session = Session("s")
        assert type(caller.outcome(agent, session)) is ModelTimeoutError
        check_end(session, Ending(script, "u", all_spent=False), keeping)
        check_next(agent.replace(timeout=60), caller, session, keeping)


@pytest.mark.parametrize("form", FORMS)
class TestASaveFails:
    """A store that raises: the run has failed, everything is in memory, and the next run stores it."""

    @pytest.mark.parametrize(
        ("failing", "mode", "left"),
        [
            ({1}, "async", "uatat"),
            ({1}, "sync", "uat"),
            ({1}, "exit", "uatata"),
            ({2}, "async", "uatata"),
            ({2}, "sync", "uatat"),
            ({3}, "async", "uatata"),
            ({3}, "sync", "uatata"),
            (range(10), "async", "uatat"),
            (range(10), "sync", "uat"),
            (range(10), "exit", "uatata"),
        ],
    )
    @pytest.mark.parametrize("kind", ["memory", "files"])
    def test_each(self, serve, caller, kind, mode, failing, left, tmp_path):
        """No step begins after it; a whole save at the end of the run makes good what it can."""
        keeping = Keeping(kind, mode, tmp_path)
        keeping.store.fail = lambda number: OSError(f"failure {number}") if number in failing else None
        steps = left.count("a")
        agent = agent_of(serve, [NOTE, NOTE, DONE][:steps], keeping)
        session = Session("s")
        failure = caller.outcome(agent, session)
        assert (type(failure), str(failure)) == (OSError, f"failure {max(1, min(failing))}")
        is_stored = len(keeping.store.calls) not in failing
        stored = keeping.stored()
        check_end(session, Ending([], left, spent=steps), Keeping("no store", mode, tmp_path))
        assert session.runs[0].error.type == "OSError"
        if is_stored:
            assert stored == session
        else:
            assert stored is None or shape(stored) == shape(session)[: len(stored.messages)]
        keeping.store.fail = lambda number: None
        check_next(agent, caller, session, keeping)


@pytest.mark.parametrize("form", FORMS)
class TestRefused:
    """A run that cannot begin: it is refused at once, and nothing is touched."""

    @pytest.mark.parametrize(
        ("given", "messages", "kind"),
        [
            pytest.param(object(), [], InputError, id="no input"),
            pytest.param(None, [], InputError, id="nothing to answer"),
            pytest.param(
                "go", [UserMessage("q"), AssistantMessage([ToolCall("c", "note")])], TranscriptError, id="open"
            ),
        ],
    )
    def test_bad_input(self, serve, keeping, caller, given, messages, kind):
        """Neither session nor store nor server see anything of it."""
        agent = agent_of(serve, [], keeping)
        session = Session("s")
        session.messages.extend(messages)
        before = session.model_dump_json()
        with pytest.raises(kind):
            begin(agent, caller.form, given, session=session)
        assert session.model_dump_json() == before
        assert (session.busy, agent.server.requests) == (False, [])
        assert keeping.store is None or keeping.store.calls == []
        session.repair()
        check_next(agent, caller, session, keeping)

    def test_a_busy_session(self, serve, scene, keeping, caller):
        """The run that has the session is not disturbed, and is stored as ever."""
        agent = agent_of(serve, [NOTE, reply(scene.door, DONE, **SPENT)], keeping)
        session = Session("s")
        handle = agent.start("go", session=session)
        scene.door.wait_reached()
        before = session.model_dump_json()
        with pytest.raises(SessionBusyError):
            begin(agent, caller.form, "me too", session=session)
        assert (session.model_dump_json(), session.busy) == (before, True)
        scene.door.release()
        assert handle.result().content == "done"
        check_end(session, Ending([], "uata", "completed", spent=2), keeping)
        check_next(agent, caller, session, keeping)


class LeftError(Exception):
    """What a reader's own code raises."""


@dataclass
class Stop:
    """A moment at which a run is stopped from outside."""

    script: Callable[[Scene], list]
    shape: str
    spent: int
    leave_at: str
    """The event at which readers leave."""
    partial: str = ""
    all_spent: bool = False
    is_among_tools: bool = False


CALLS = tool_calls(*(tool_call(name) for name in ("quick", "slow", "waits", "last")), **SPENT)
STOPS = {
    "before the first byte": Stop(lambda scene: [reply(scene.door)], "u", 0, "step_started"),
    "in a text": Stop(lambda scene: [NOTE, reply(text("half"), scene.door)], "uat", 1, "text_delta", partial="half"),
    "in the arguments of a call": Stop(
        lambda scene: [reply(text("half"), tool_call("note", '{"n": 1'), scene.door)],
        "u",
        0,
        "tool_call_delta",
        partial="half",
    ),
    "while tools run": Stop(
        lambda scene: [NOTE, CALLS], "uatatccc", 2, "tool_result", all_spent=True, is_among_tools=True
    ),
}
STEPS = {"in a text": 2, "in the arguments of a call": 1, "while tools run": 2}
"""The step in which the reader leaves."""
FROM_OUTSIDE = [("start", "cancel")]
FROM_OUTSIDE += [(form, "cancel") for form in ASYNC_FORMS]
FROM_OUTSIDE += [(form, "Ctrl-C") for form in FORMS if form != "start"]
BY_READERS = [(form, way) for form in STREAMS for way in ("break", "raise", "close", "drop")]


def stop_from_outside(agent, caller, way, ready, session):
    """Stop a run when it is ready for it, in one of the ways that are not its reader's; return the error."""

    async def cancelled():
        task = asyncio.create_task(caller._read(agent, session))
        await run_in_thread(ready)
        task.cancel()
        await task

    if way == "Ctrl-C":
        thread = interrupt_when(ready)
        try:
            return caller.outcome(agent, session)
        except KeyboardInterrupt as error:
            return error
        finally:
            thread.join()
    if caller.form == "start":
        handle = agent.start("go", session=session)
        ready()
        handle.cancel()
        return handle.result().error
    try:
        caller.runner.run(cancelled())
    except asyncio.CancelledError as error:
        return error
    return None


def leave(stream, way, is_now):
    """Read a stream until the moment, and leave it."""
    if way == "close":
        while not is_now(next(stream)):
            pass
        stream.close()
        stream.close()
    elif way == "raise":
        with pytest.raises(LeftError):
            for item in stream:
                if is_now(item):
                    raise LeftError
    else:
        for item in stream:
            if is_now(item):
                break


async def aleave(stream, way, is_now):
    """Do the same on a loop; only a stream that nobody holds any more is closed by itself."""
    try:
        async for item in stream:
            if is_now(item):
                break
    finally:
        if way != "drop":
            await stream.aclose()
            await stream.aclose()


async def until_free(session):
    """Wait until a session is in no run."""
    while session.busy:
        await asyncio.sleep(0)


class TestStopped:
    """A run that is stopped from outside, or by its reader."""

    @pytest.mark.parametrize(("form", "way"), FROM_OUTSIDE)
    @pytest.mark.parametrize("name", STOPS)
    def test_from_outside(self, serve, scene, keeping, caller, way, name):
        """Completed steps and finished results stay, other calls are cancelled, nothing is left of a completion."""
        stop = STOPS[name]
        agent = agent_of(serve, stop.script(scene), keeping, middleware=[Watches()])
        session = Session("s")
        ready = scene.wait_for_tools if stop.is_among_tools else scene.door.wait_reached
        failure = stop_from_outside(agent, caller, way, ready, session)
        assert type(failure) is (KeyboardInterrupt if way == "Ctrl-C" else asyncio.CancelledError)
        check_end(session, Ending([], stop.shape, "cancelled", spent=stop.spent, all_spent=stop.all_spent), keeping)
        check_late_results(session, scene)
        check_next(agent, caller, session, keeping)

    @pytest.mark.parametrize(("form", "way"), BY_READERS)
    @pytest.mark.parametrize("name", ["in a text", "in the arguments of a call", "while tools run"])
    def test_by_its_reader(self, serve, scene, keeping, caller, way, name):
        """A loop over a stream that is left stops the run where the reader was."""
        stop = STOPS[name]
        if not caller.form.endswith("events"):
            stop = STOPS["in a text"]  # the only one in which there is a text to leave at
        agent = agent_of(serve, stop.script(scene), keeping, middleware=[Watches()] if stop.is_among_tools else ())
        session = Session("s")

        def is_now(item):
            return item == "half" if isinstance(item, str) else item.type == stop.leave_at and item.step == STEPS[name]

        async def read():
            await aleave(getattr(agent, caller.form)("go", session=session), way, is_now)
            gc.collect()
            await until_free(session)

        if caller.is_async:
            caller.runner.run(read())
        else:
            leave(getattr(agent, caller.form)("go", session=session), way, is_now)
        check_end(session, Ending([], stop.shape, "cancelled", spent=stop.spent, all_spent=stop.all_spent), keeping)
        check_late_results(session, scene)
        check_next(agent, caller, session, keeping)

    @pytest.mark.parametrize("form", STREAMS)
    def test_a_stream_that_is_never_read(self, serve, keeping, caller):
        """It begins nothing and stores nothing."""
        agent = agent_of(serve, [], keeping)
        session = Session("s")

        async def make():
            getattr(agent, caller.form)("go", session=session)

        if caller.is_async:
            caller.runner.run(make())
        else:
            getattr(agent, caller.form)("go", session=session).close()
        assert (session.messages, session.runs, session.busy) == ([], [], False)
        assert keeping.store is None or keeping.store.calls == []
        check_next(agent, caller, session, keeping)
