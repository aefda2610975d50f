"""Kills processes in the middle of what they store, and looks at what their stores hold.

``python tests/kills.py`` kills 200 processes for each store that outlives its process, and reports. Each of them runs
agents with tools, saves and adds by hand, cuts sessions and deletes them, and writes down which call it begins and which
has returned. So what may be stored is known: what the last call that returned has left, or the call that was under way
if there was one; never less, never half of it, and nothing else.

Another store that lives on a disk is one more line in `STORES`; one elsewhere is named as ``--stores module:class``.
"""

import argparse
import asyncio
import contextlib
import gc
import hashlib
import importlib
import itertools
import json
import multiprocessing
import os
import random
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from scenarios import agent_for, note
from test_store_contract import on_page

from cyclops_nb import (
    AssistantMessage,
    FileSessionStore,
    NotebookSessionStore,
    Session,
    UserMessage,
    transcript,
)
from cyclops_nb.testing import ScriptedServer, text, tool_call, tool_calls

STORES = {
    "FileSessionStore": FileSessionStore,
    "NotebookSessionStore": NotebookSessionStore,
    "SQLiteSessionStore": lambda folder: on_page("SQLiteSessionStore")(Path(folder) / "sessions.sqlite"),
}
DURABILITIES = ("async", "sync", "exit")
_PATIENCE = 30.0
_LARGE = 2_000_000


class Telling:
    """A store that writes down each call at its begin and at its end, with a digest of what is stored after it."""

    def __init__(self, inner, log, aim, reached):
        self.inner = inner
        self.load = inner.load
        self.log = log
        self.aim = aim
        self.reached = reached
        self.expected = {}
        self.numbers = itertools.count(1)

    async def save(self, session):
        await self._call(self.inner.save(session), session.id, session, session.messages)

    async def add_messages(self, session, messages):
        stored = self.expected[session.id].messages
        await self._call(self.inner.add_messages(session, messages), session.id, session, [*stored, *messages])

    async def delete(self, session_id):
        await self._call(self.inner.delete(session_id), session_id, None, [])

    async def _call(self, call, session_id, session, messages):
        after = None if session is None else session.model_copy(update={"messages": list(messages)})
        number = next(self.numbers)
        self._tell(call=number, name=call.__name__, id=session_id, count=len(messages), digest=digest(after))
        if number == self.aim:
            self.reached()
        await call
        self.expected[session_id] = after
        self._tell(done=number)

    def _tell(self, **facts):
        os.write(self.log, json.dumps(facts).encode() + b"\n")


def digest(session):
    """Return a digest of all that a session holds, or None for no session."""
    return session and hashlib.blake2b(session.model_dump_json().encode(), digest_size=16).hexdigest()


def answer(request):
    """Call two tools, then one, then answer."""
    since = [message["role"] for message in request.messages][::-1]
    steps = since[: since.index("user")].count("assistant")
    calls = [tool_call("note", {"n": n}) for n in range(2 - steps)]
    return tool_calls(*calls) if calls else text("done")


async def work(store, agent, name, chance):
    """Do with one session after the other whatever changes a store, for ever."""
    for number in itertools.count():
        session = Session(f"{name}-{number}", title="a title", metadata={"number": number})
        session.messages.extend(some_messages(chance))
        await store.save(session)
        for _ in range(chance.randrange(1, 7)):
            await act(store, agent, session, chance)
        if chance.random() < 0.1:
            await store.delete(session.id)


async def act(store, agent, session, chance):
    """Do one of the things that change what is stored."""
    durability = chance.choice(DURABILITIES)
    match chance.randrange(6):
        case 0 | 1:
            await agent.arun("go", session=session, durability=durability)
        case 2:
            await asyncio.to_thread(agent.run, "go", session=session, durability=durability)  # on the library's loop
        case 3:
            new = some_messages(chance)
            session.messages.extend(new)
            await store.add_messages(session, new)
        case 4:
            session.title = f"title {chance.random()}"
            await store.save(session)
        case 5:
            starts = [index for index, message in enumerate(session.messages) if message.role == "user"]
            session.truncate(chance.choice(starts or [0]))
            await store.save(session)


def some_messages(chance):
    """Return some questions and answers; a large one now and then, which takes a while to write."""
    size = chance.randrange(_LARGE) if chance.random() < 0.3 else chance.randrange(200)
    turns = [(UserMessage(f"question {n}"), AssistantMessage(f"answer {n}")) for n in range(chance.randrange(4))]
    return [UserMessage("x" * size), *itertools.chain(*turns)]


def be_killed(make, folder, seed, aim, log, reached):
    """Be the process that is killed: two conversations at the same time, on one store."""
    chance = random.Random(seed)
    store = Telling(make(folder), log, aim, lambda: os.write(reached, b"."))

    async def main(server):
        agent = agent_for(server, [note], session_store=store)
        await asyncio.gather(*(work(store, agent, name, random.Random(chance.random())) for name in "ab"))

    try:
        with ScriptedServer(answer) as server:
            asyncio.run(main(server))
    except BaseException:
        os.write(log, json.dumps({"error": traceback.format_exc()}).encode() + b"\n")


def kill_one(make, folder, log, chance):
    """Start a process, kill it, mostly soon after it has begun a call, and return whether it had come that far."""
    aimed = chance.random() < 0.8
    aim = chance.randrange(1, 16) if aimed else 1
    seconds = chance.choice([0, chance.uniform(0, 0.002), chance.uniform(0, 0.01)]) if aimed else chance.uniform(0, 0.1)
    seed = chance.random()
    reading, writing = os.pipe()
    process = os.fork()  # cheaper than a new interpreter by a second; the parent has one thread
    if not process:
        with contextlib.suppress(BaseException):
            be_killed(make, folder, seed, aim, os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), writing)
        os._exit(1)
    os.close(writing)
    try:
        came = bool(select.select([reading], [], [], _PATIENCE)[0]) and bool(os.read(reading, 1))
        time.sleep(seconds)
    finally:
        os.kill(process, signal.SIGKILL)
        os.close(reading)
        os.waitpid(process, 0)
    return came


def read_log(log):
    """Return the facts that a killed process wrote down; a line that is torn was not written."""
    lines = Path(log).read_bytes().split(b"\n")[:-1] if Path(log).exists() else []
    return [json.loads(line) for line in lines]


def allowed(facts):
    """Return for each session the calls after one of which the store may stand; None for before the first."""
    done = {fact["done"] for fact in facts if "done" in fact}
    states = {}
    for fact in facts:
        if "call" in fact:
            before = states.get(fact["id"], [None])
            states[fact["id"]] = [fact] if fact["call"] in done else [*before, fact]
    return states


async def look(make, facts, chance):
    """Return what is wrong with what a killed process left."""
    wrong = [fact["error"] for fact in facts if "error" in fact]
    states = allowed(facts)
    sessions = {}
    store = make()
    for session_id, calls in states.items():
        try:
            sessions[session_id] = await store.load(session_id)
        except Exception as error:
            wrong.append(f"{session_id} cannot be loaded: {error!r}")
            continue
        wrong += [f"{session_id}: {problem}" for problem in problems(sessions[session_id], calls)]
    stand = {session_id: session for session_id, session in sessions.items() if session is not None}
    if hasattr(store, "list"):
        listed = {info.id: info.message_count for info in await store.list()}
        if listed != {session_id: len(session.messages) for session_id, session in stand.items()}:
            wrong.append(f"{sorted(stand)} are stored, {sorted(listed)} are listed, or they have other lengths")
    hit = [session_id for session_id in stand if len(states[session_id]) > 1]
    for session_id in {*hit, *chance.sample(sorted(stand), min(1, len(stand)))}:
        try:
            wrong += [f"{session_id}: {problem}" for problem in await go_on(make, stand[session_id], chance)]
        except Exception as error:
            wrong.append(f"{session_id} cannot be gone on with: {error!r}")
    return wrong


def problems(session, calls):
    """Return what is wrong with a session, given the calls after one of which it may stand."""
    if digest(session) not in [call and call["digest"] for call in calls]:
        could = [
            f"{call['count']} messages (call {call['call']}, {call['name']})" if call else "nothing" for call in calls
        ]
        held = "nothing" if session is None else f"{len(session.messages)} messages and {len(session.runs)} runs"
        yield f"holds {held}; it should be {' or '.join(could)}, with all else as that call had it"
    if session is not None:
        yield from transcript.find_problems(session.messages)


async def go_on(make, session, chance):
    """Return what is wrong when a session that was loaded is added to, and run on."""
    wrong = []
    store = make()
    await store.load(session.id)
    session.messages.append(UserMessage("after the crash"))
    await store.add_messages(session, session.messages[-1:])
    if digest(await make().load(session.id)) != digest(session):
        wrong.append("is stored wrong when a message is added after the crash")
    with ScriptedServer(answer) as server:
        agent = agent_for(server, [note], session_store=store)
        await agent.arun("go", session=session, durability=chance.choice(DURABILITIES))
    if digest(await make().load(session.id)) != digest(session):
        wrong.append("is stored wrong by the next run")
    return wrong


@dataclass
class Report:
    """What came of some kills."""

    wrong: list = field(default_factory=list)
    hits: int = 0
    """Kills that struck while a call was under way."""
    warned: int = 0
    """Stores that said that something was torn."""


def kill_many(name, numbers, seed):
    """Kill a process for each of some numbers; return a `Report`."""
    report = Report()
    for number in numbers:
        chance = random.Random(f"{seed} {number}")
        with tempfile.TemporaryDirectory() as place, warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", UserWarning)
            folder, log = Path(place, "store"), Path(place, "log")
            folder.mkdir()
            make = store_named(name)
            wrong = [] if kill_one(make, folder, log, chance) else ["the process did not come to its calls"]
            facts = read_log(log)
            wrong += asyncio.run(look(lambda: make(folder), facts, chance))
            report.wrong += [f"{name}, seed {seed}, kill {number}: {text}" for text in wrong]
            report.hits += any(len(calls) > 1 for calls in allowed(facts).values())
            report.warned += any(issubclass(warning.category, UserWarning) for warning in heard)
        alone()
    return report


def alone():
    """Wait for threads that are ending: only a process with one thread is safely forked."""
    gc.collect()  # some end with the store that has them
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(_PATIENCE)


def store_named(name):
    """Return the function that opens a store in a folder."""
    if name in STORES:
        return STORES[name]
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def warm_up():
    """Load all that a run needs, before the forks, and leave no thread."""
    with ScriptedServer(answer) as server:
        asyncio.run(agent_for(server, [note]).arun("go"))
    alone()
    gc.freeze()  # what is loaded stays: no later collection needs to look at it, and forks share it


def kill_in_lanes(name, kills, seed, lanes):
    """Do the kills in some processes at the same time, and return the sum of their reports."""
    context = multiprocessing.get_context("fork")
    total = Report()
    started = []
    for lane in range(lanes):
        receiver, sender = context.Pipe(duplex=False)
        numbers = range(lane, kills, lanes)
        process = context.Process(
            target=lambda to, which: to.send(kill_many(name, which, seed)), args=(sender, numbers)
        )
        process.start()
        sender.close()
        started.append((process, receiver))
    for process, receiver in started:
        with contextlib.suppress(EOFError):
            report = receiver.recv()
            total.wrong += report.wrong
            total.hits += report.hits
            total.warned += report.warned
        process.join()
        if process.exitcode:
            total.wrong.append(f"{name}: the kills ended by themselves, with exit code {process.exitcode}")
    return total


def main():
    """Kill and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="for each store")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lanes", type=int, default=os.cpu_count(), help="how many at the same time")
    parser.add_argument("--stores", nargs="*", default=list(STORES), help="names, or module:class")
    given = parser.parse_args()
    warm_up()
    failed = False
    for name in given.stores:
        found = kill_in_lanes(name, given.kills, given.seed, given.lanes)
        torn = f" and {found.warned} left something torn" if found.warned else ""
        print("\n".join(found.wrong[:10]), end="\n" if found.wrong else "")
        print(
            f"{name}: {given.kills} kills, {len(found.wrong)} violations ({found.hits} struck a call{torn})", flush=True
        )
        failed = failed or bool(found.wrong)
    return failed


if __name__ == "__main__":
    sys.exit(main())
