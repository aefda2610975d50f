"""Kills processes that run agents and save, at random moments, and looks at what their stores hold.

``python tests/kills.py`` kills 200 processes for each store that outlives its process, and reports.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import select
import signal
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from scenarios import agent_for, note
from test_store_contract import example

from cyclops_nb import FileSessionStore, Session, UserMessage, transcript
from cyclops_nb.testing import ScriptedServer, text, tool_call, tool_calls

STORES = {
    "FileSessionStore": FileSessionStore,
    "SQLiteSessionStore": lambda folder: example()(Path(folder) / "sessions.db"),
}
_LONGEST = 0.15
"""Seconds after its first save until which a process is killed."""
_PATIENCE = 30.0


class Telling:
    """A store that tells what it has stored, once it has."""

    def __init__(self, inner, pipe):
        self.inner = inner
        self.pipe = pipe

    async def load(self, session_id):
        return await self.inner.load(session_id)

    async def save(self, session):
        await self.inner.save(session)
        self._tell(session)

    async def add_messages(self, session, messages):
        await self.inner.add_messages(session, messages)
        self._tell(session)

    async def delete(self, session_id):
        await self.inner.delete(session_id)

    def _tell(self, session):
        stored = {"id": session.id, "messages": [message.id for message in session.messages], "runs": len(session.runs)}
        os.write(self.pipe, json.dumps(stored).encode() + b"\n")


def answer(request):
    """Call two tools, then one, then answer."""
    since = [message["role"] for message in request.messages][::-1]
    steps = since[: since.index("user")].count("assistant")
    calls = [tool_call("note", {"n": n}) for n in range(2 - steps)]
    return tool_calls(*calls) if calls else text("done")


async def work(store, server):
    """Run and save for ever."""
    agent = agent_for(server, [note], session_store=store)
    for number in range(1000):
        session = Session(f"s{number}")
        if number % 3 == 2:
            session.messages.append(UserMessage("x" * 300_000))
            await store.save(session)
        for durability in ("async", "sync", "exit", "sync", "async"):
            await agent.arun("go", session=session, durability=durability)
        new = [UserMessage("by hand")]
        session.messages.extend(new)
        await store.add_messages(session, new)


def child(make, folder, pipe):
    """Be the process that is killed."""
    with ScriptedServer(answer) as server:
        asyncio.run(work(Telling(make(folder), pipe), server))


def kill_one(make, folder, seconds):
    """Kill a process so long after its first save, and return what it has told."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        os.close(reading)
        try:
            child(make, folder, writing)
        finally:
            os._exit(1)
    os.close(writing)
    told = b""
    try:
        if not select.select([reading], [], [], _PATIENCE)[0]:
            raise TimeoutError("the process saves nothing")
        time.sleep(seconds)
    finally:
        os.kill(process, signal.SIGKILL)
        while data := os.read(reading, 1 << 20):
            told += data
        os.close(reading)
        os.waitpid(process, 0)
    *whole, _ = told.split(b"\n")
    return [json.loads(line) for line in whole]


async def look(store, told):
    """Return what is wrong with what a store holds, given what it had told."""
    wrong = []
    last = {stored["id"]: stored for stored in told}
    if not last:
        wrong.append("nothing was told")
    for session_id, stored in last.items():
        session = await store.load(session_id)
        if session is None:
            wrong.append(f"{session_id} is gone")
            continue
        wrong += [f"{session_id}: {problem}" for problem in transcript.find_problems(session.messages)]
        held = [message.id for message in session.messages]
        if held[: len(stored["messages"])] != stored["messages"] or len(session.runs) < stored["runs"]:
            wrong.append(f"{session_id} holds {len(held)} messages, {len(stored['messages'])} were stored")
        session.messages.append(UserMessage("after the crash"))
        await store.add_messages(session, session.messages[-1:])
        again = await store.load(session_id)
        if again is None or again.messages != session.messages:
            wrong.append(f"{session_id} cannot be gone on with")
    return wrong


def kill_many(name, count, seed=0):
    """Kill so many processes that use a store, and return what is wrong."""
    chance = random.Random(seed)
    wrong = []
    for number in range(count):
        with tempfile.TemporaryDirectory() as folder:
            told = kill_one(STORES[name], folder, chance.uniform(0, _LONGEST))
            wrong += [f"{name}, kill {number}: {text}" for text in asyncio.run(look(STORES[name](folder), told))]
            left = [path.name for path in Path(folder).iterdir() if path.suffix == ".jsonl" and path.name[0] == "."]
            wrong += [f"{name}, kill {number}: {text} looks like a session" for text in left]
    return wrong


def main():
    """Kill and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="for each store")
    count = parser.parse_args().kills
    failed = False
    with ProcessPoolExecutor(len(STORES), mp_context=multiprocessing.get_context("spawn")) as pool:
        found = dict(zip(STORES, pool.map(kill_many, STORES, [count] * len(STORES)), strict=True))
    for name, wrong in found.items():
        print("\n".join([*wrong[:10], f"{name}: {count} kills, {len(wrong)} violations"]), flush=True)
        failed = failed or bool(wrong)
    return failed


if __name__ == "__main__":
    sys.exit(main())
