"""One workload on one server, run again and again, each time stopped at another place."""

import asyncio
import contextlib
import gc
import http.client
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from faults import stepping
from faults.stepping import Injector, interrupt_main
from faults.stores import make_store
from faults.workloads import NEXT_ANSWER, NEXT_QUESTION, QUESTION, Log
from scenarios import agent_for

from cyclops_nb import Session, tool, transcript
from cyclops_nb.portal import portal
from cyclops_nb.testing import ScriptedServer
from cyclops_nb.usage import Usage

_PATIENCE = 20.0
_INTERRUPTS = {"interrupt", "interrupt in a kernel", "signal"}
_RAISING = {"error", "own cancel", *_INTERRUPTS} - {"signal"}
_STORE_CALLS = ("save", "add_messages")


@dataclass
class Outcome:
    """What came of one run that was stopped, or of the one that was not."""

    injector: Injector
    session: Session
    log: Log
    told: list = field(default_factory=list)
    """Events that a reader was given, for forms that give them."""
    raised: BaseException | None = None
    response: object = None
    before: int = 0
    """How many messages stood in the transcript at the stop."""
    begun: list = field(default_factory=list)
    """Which tools had begun at the stop."""
    complaints: list = field(default_factory=list)
    asked: int = 0
    """How many requests the server took."""

    @property
    def run(self):
        return self.session.runs[0] if self.session.runs else None


class Lab:
    """An agent on a server of its own, and the loop that its runs are on.

    `form` is an async entry point, on a loop of this lab; or ``start``, ``run_with_response`` or ``stream_events``, on the library's own.
    """

    def __init__(self, workload, *, form="arun_with_response", durability="async", store=None, folder=None):
        self.workload = workload
        self.form = form
        self.durability = durability
        self.store_kind = store
        self.folder = folder
        self.number = 0

    def __str__(self):
        return f"{self.workload.name}, {self.form}, {self.durability}, store: {self.store_kind}"

    def __enter__(self):
        self.server = ScriptedServer(self.workload).start()
        self.address = urlsplit(self.server.base_url).netloc
        self.loop = asyncio.new_event_loop()
        self.run_loop = self.loop if self.form.startswith("a") else portal()._loop
        self.log = Log()
        self.agent = agent_for(
            self.server,
            [_forwarding(self, item) for item in self.log.tools()],
            middleware=self.workload.middleware,
            durability=self.durability,
            **self.workload.settings,
        )
        self.baseline = None
        self.whole = self._whole()
        self.threads, self.sockets = set(threading.enumerate()), _sockets()
        self.baseline = self.attempt(Injector())
        return self

    def __exit__(self, *_):
        self.agent = None
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
        self.server.stop()
        gc.collect()  # what a Ctrl-C leaves unfinished is complained of when it goes: here, not in another test

    def _whole(self):
        """Return all that is said in a run without a compaction; this opens the connection, too."""
        agent, summary = self.agent, self.workload.summary
        self.agent, self.workload.summary = agent.replace(compaction=None), None
        outcome = self.attempt(Injector())
        self.agent, self.workload.summary = agent, summary
        self.attempt(Injector())
        return [_said(message) for message in outcome.session.messages]

    def expected(self, messages):
        """Return what is said in a run that nothing stops, with a summary if there is one in `messages`."""
        if self.baseline is None or not _is_compacted(messages):
            return self.whole
        return [_said(message) for message in self.baseline.session.messages]

    def attempt(self, injector):
        """Run the workload in a new session, have it stopped, and look at what is left."""
        self.number += 1
        self.log = Log()
        self.store = make_store(self.store_kind, self.folder)
        self.agent._store = self.store  # another agent would bring a client of its own
        asked = self._asked()
        outcome = Outcome(injector, Session(f"s{self.number}"), self.log)

        def note():
            outcome.before = len(outcome.session.messages)
            outcome.begun = list(outcome.log.begun)

        injector.before = note
        stepping.current = injector
        self.run_loop.set_task_factory(injector.task)
        try:
            if self.run_loop is self.loop:
                self._run_here(outcome)
            else:
                self._run_there(outcome)
        finally:
            self.run_loop.set_task_factory(None)
            stepping.current = Injector()
        outcome.asked = self._asked() - asked
        return outcome

    def _asked(self):
        """Return how many requests the server has not refused: those cost tokens.

        One that was sent and given up at once may not have been read yet. The server reads it before it answers one
        that comes after it on another connection.
        """
        connection = http.client.HTTPConnection(self.address, timeout=_PATIENCE)
        with contextlib.closing(connection):
            connection.request("GET", "/v1/models")
            connection.getresponse().read()
        return sum(request.status is None or request.status < 400 for request in self.server.completions)

    def _arguments(self, outcome):
        return {"input": QUESTION, "session": outcome.session, "response_model": self.workload.response_model}

    def _run_here(self, outcome):
        """Run an async form."""
        main = self.loop.create_task(self._read(outcome))
        outcome.injector.stop = lambda: _on(self.loop, main.cancel)
        try:
            outcome.response = self.loop.run_until_complete(main)
        except KeyboardInterrupt as error:
            outcome.raised = error
            while not main.done() and outcome.injector.kind == "interrupt in a kernel":
                with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
                    self.loop.run_until_complete(main)
            if main.done():
                main.cancelled() or main.exception()  # looked at: it is the same one
            else:
                self._cancel_all()  # as asyncio.run does
        except (asyncio.CancelledError, Exception) as error:
            outcome.raised = error
        left = asyncio.all_tasks(self.loop)
        if left:
            outcome.complaints.append(f"tasks are left: {left}")
            self._cancel_all()

    def _run_there(self, outcome):
        """Run a form that has the library's own loop do it."""
        if self.form == "start":
            ready = threading.Event()
            outcome.injector.stop = lambda: (ready.wait(), handle.cancel())
            handle = self.agent.start(**self._arguments(outcome))
            ready.set()
            outcome.response = handle.result(_PATIENCE)
        else:
            outcome.injector.stop = interrupt_main
            late = []
            before = signal.signal(signal.SIGINT, lambda *_: late.append(KeyboardInterrupt("after the run")))
            try:
                if self.form == "stream_events":
                    outcome.told.extend(self.agent.stream_events(**self._arguments(outcome)))
                else:
                    outcome.response = self.agent.run_with_response(**self._arguments(outcome))
            except (KeyboardInterrupt, Exception) as error:
                outcome.raised = error
            finally:
                signal.signal(signal.SIGINT, before)
            if late:  # heard between two events, or after the run, by whoever reads
                outcome.raised = late[0]
        deadline = time.monotonic() + 5
        while left := asyncio.all_tasks(self.run_loop):  # the very task of the run is just ending
            if time.monotonic() > deadline:
                outcome.complaints.append(f"tasks are left: {left}")
                break
            time.sleep(0.0005)

    def _cancel_all(self):
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        waiting = asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(KeyboardInterrupt):
            self.loop.run_until_complete(waiting)
        if not waiting.done():
            self.loop.run_until_complete(waiting)

    async def _read(self, outcome):
        given = getattr(self.agent, self.form)(**self._arguments(outcome))
        if self.form != "astream_events":
            return await given
        async for event in given:
            outcome.told.append(event)
        return None

    def check(self, outcome):
        """Return what is wrong with what a stopped run has left."""
        complaints = list(outcome.complaints)
        for look in (_session, _messages, _ending, _usage):
            complaints += look(self, outcome)
        complaints += self._check_store(outcome, must_hold=not _broke_the_store(outcome))
        complaints += self._go_on(outcome)
        complaints += self._check_store(outcome, must_hold=True)
        complaints += self._check_leaks()
        return complaints

    def _go_on(self, outcome):
        """Run the session again: the server is strict, and the store is to hold everything then."""
        if outcome.session.busy:
            return ["the session is still busy"]
        try:
            answer = self.loop.run_until_complete(self.agent.arun(NEXT_QUESTION, session=outcome.session))
        except (Exception, asyncio.CancelledError) as error:
            return [f"the next run fails: {error!r}"]
        return [] if answer == NEXT_ANSWER else [f"the next run answers {answer!r}"]

    def _check_store(self, outcome, *, must_hold):
        if self.store is None or not must_hold:
            return []
        stored = self.loop.run_until_complete(self.store.load(outcome.session.id))
        if stored is None:
            return [] if not outcome.session.runs else ["the session is not stored"]
        if stored.model_dump() != outcome.session.model_dump():
            return [f"the store holds something else: {len(stored.messages)} messages, runs {stored.runs}"]
        return []

    def _check_leaks(self):
        complaints = []
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            threads = [
                item
                for item in threading.enumerate()
                if item not in self.threads and not item.name.startswith(("cyclops-nb", "asyncio_"))
            ]
            sockets = _sockets() - self.sockets
            if not threads and sockets <= 2:
                return []
            time.sleep(0.002)
        if threads:
            complaints.append(f"threads are left: {threads}")
        if sockets > 2:
            complaints.append(f"{sockets} more sockets are open than before")
        return complaints


def _broke_the_store(outcome):
    """Whether the stop was within a call of the store, so that what it holds then is not known."""
    where = outcome.injector.where
    return outcome.injector.kind in _RAISING and ("persistence.py" in where or where.endswith(_STORE_CALLS))


def _on(loop, function):
    """Call a function on a loop, at once if this is its thread."""
    try:
        is_here = asyncio.get_running_loop() is loop
    except RuntimeError:
        is_here = False
    if is_here:
        function()
    else:
        loop.call_soon_threadsafe(function)


def _forwarding(lab, example):
    """Return the tool of a name, of whichever log is in use."""
    name = example.__name__

    def current():
        return next(item for item in lab.log.tools() if item.__name__ == name)

    if asyncio.iscoroutinefunction(example):

        async def work(n: int) -> str:
            return await current()(n)
    else:

        def work(n: int) -> str:
            return current()(n)

    return tool(work, name=name, description=example.__doc__, thread="caller" if name == "here" else "worker")


def _sockets():
    count = 0
    for name in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            count += name.readlink().name.startswith("socket:")
    return count


def _is_compacted(messages):
    return bool(messages) and messages[0].role == "summary"


def _calls(said):
    return {item["call_id"] for item in said if item["role"] == "tool"}


def _said(message):
    return message.model_dump(include={"role", "content", "call_id", "name", "status"}, mode="json")


def _session(lab, outcome):
    found = []
    if outcome.session.busy:
        found.append("the session is busy after the run")
    found += [str(problem) for problem in transcript.find_problems(outcome.session.messages)]
    if [run.kind for run in outcome.session.runs] not in ([], ["run"], ["run", "compaction"]):
        found.append(f"these runs are recorded: {outcome.session.runs}")
    if any(run.stop_reason is None for run in outcome.session.runs):
        found.append("a run is recorded as still going on")
    if any(run.kind == "compaction" and run.stop_reason == "completed" for run in outcome.session.runs) != (
        _is_compacted(outcome.session.messages)
    ):
        found.append("the record of the compaction does not fit the transcript")
    return found


def _messages(lab, outcome):
    """What stands in the transcript is the beginning of the whole, but for results of calls that were stopped."""
    if lab.baseline is None:
        return []
    messages = outcome.session.messages
    whole = lab.expected(messages)
    found = []
    if len(messages) > len(whole):
        return [f"there are {len(messages)} messages, more than in a run that nothing stops"]
    for index, message in enumerate(messages):
        said = _said(message)
        if said == whole[index] or whole[index].get("status") == "cancelled":
            continue
        if message.role != "tool" or message.status == "ok" or message.call_id != whole[index]["call_id"]:
            found.append(f"message {index} is {said}, not {whole[index]}")
        elif message.status == "cancelled" and not outcome.injector.fired:
            found.append(f"call {message.call_id} is cancelled though nothing was")
    found += _tools(lab, outcome)
    return found


def _tools(lab, outcome):
    found = []
    messages = outcome.session.messages
    results = {
        int(item.call_id.removeprefix("call_")): item for item in outcome.session.messages if item.role == "tool"
    }
    summed_up = _calls(lab.whole[: outcome.session.messages[0].replaced]) if _is_compacted(messages) else ()
    for n in outcome.begun:
        if n not in results and f"call_{n}" not in summed_up:
            found.append(f"tool {n} had begun, but its step is not in the transcript")
    for n, item in results.items():
        if item.status == "ok" and n not in outcome.log.ended:
            found.append(f"tool {n} has a result but has not ended")
    if outcome.injector.fired and outcome.injector.kind.startswith("cancel"):
        added = outcome.session.messages[outcome.before :]
        steps = sum(item.role == "assistant" for item in added)
        if steps > 1:
            found.append(f"{steps} steps were added after the stop")
    for event in outcome.told if not summed_up else ():
        if event.type == "tool_result" and event.message not in outcome.session.messages:
            found.append(f"a result was told that is not in the transcript: {event.message}")
        if event.type == "step_finished" and event.message not in outcome.session.messages:
            found.append("a step was told that is not in the transcript")
    return found


def _ending(lab, outcome):
    """What is raised, or told by the response, is what the record of the run says."""
    run, raised, injector = outcome.run, outcome.raised, outcome.injector
    found = []
    is_stopped = injector.fired
    if is_stopped and injector.kind in _INTERRUPTS and not isinstance(raised, KeyboardInterrupt):
        if not _in_thread(injector):
            found.append(f"KeyboardInterrupt was swallowed: {raised!r}")
    elif injector.kind not in _INTERRUPTS and isinstance(raised, KeyboardInterrupt):
        found.append("KeyboardInterrupt came from nowhere")
    is_cancelled = is_stopped and injector.kind in {"cancel", "cancel twice"} and lab.run_loop is lab.loop
    if is_cancelled != isinstance(raised, asyncio.CancelledError):
        found.append(f"what is raised does not fit: {raised!r}, {outcome.response!r}")
    if run is None:
        return found
    if raised is None and outcome.response is not None and outcome.response.stop_reason != run.stop_reason:
        found.append(f"the response says {outcome.response.stop_reason}, the record {run.stop_reason}")
    if run.stop_reason == "completed" and len(outcome.session.messages) != len(lab.expected(outcome.session.messages)):
        found.append("a run is recorded as completed that is not")
    if run.stop_reason == "cancelled" and injector.kind in {"error", "own cancel", None}:
        found.append(f"an error was taken for a cancel: {run}")
    return found


def _in_thread(injector):
    """Whether something was raised in a tool's own thread, where it is the tool's error and nothing else."""
    return injector.counts == "calls" and injector.where.startswith("tool 3")


def _usage(lab, outcome):
    """The tokens of completed completions are counted, and no others."""
    run = outcome.run
    if run is None or lab.baseline is None:
        return []
    counted = outcome.session.usage or Usage()
    is_complete = all(run.usage_complete for run in outcome.session.runs)
    found = []
    if outcome.asked < counted.requests:
        found.append(f"{counted.requests} completions are counted, {outcome.asked} were asked for")
    if is_complete and counted.requests != outcome.asked:
        found.append(f"{outcome.asked} completions were asked for and {counted.requests} counted, as if that was all")
    spent = Usage()
    for message in outcome.session.messages:
        if message.role == "assistant":
            spent += message.usage
    if counted.input_tokens < spent.input_tokens:
        found.append(f"{counted} is less than the {spent} of the steps in the transcript")
    return found
