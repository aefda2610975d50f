"""The part of the store contract about runs, event loops, and the next process."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

from cyclops_nb.agent import Agent
from cyclops_nb.config import Durability
from cyclops_nb.errors import ModelError
from cyclops_nb.session import Session
from cyclops_nb.testing.bodies import error
from cyclops_nb.testing.gates import gate
from cyclops_nb.testing.replies import reply, text, tool_call
from cyclops_nb.testing.script import ScriptLike
from cyclops_nb.testing.server import ScriptedServer
from cyclops_nb.testing.store_rules import Contract, OpenStore, expect, in_threads, rule, run, same, say, talk

__all__ = ["RunsContract"]

_DURABILITIES: tuple[Durability, ...] = ("async", "sync", "exit")


class RunsContract(Contract):
    """What a store must do for runs, and for whoever opens it next; a part of `StoreContract`."""

    @rule(
        "Keep nothing that belongs to one event loop (a connection, a lock, a task) in the store, or one for each loop."
    )
    def test_one_store_serves_many_event_loops(self, open_store: OpenStore) -> None:
        """One store object can be used from several event loops, one after the other and at the same time."""
        store, sessions = open_store(), [talk(f"study-{number}") for number in range(4)]

        async def work(session: Session, additions: int) -> None:
            await store.save(session)
            for number in range(additions):
                await store.add_messages(session, say(session, f"{session.id} {number}", "a"))
            same(await store.load(session.id), session, "in a loop and thread of its own")

        for session in sessions:
            run(work(session, 1))
        in_threads([partial(run, work(session, 8)) for session in sessions])
        for session in sessions:
            same(run(store.load(session.id)), session)
        with ScriptedServer(text("a")) as server:
            agent = Agent("m", base_url=server.base_url, api_key="none", session_store=store)
            agent.run("on the library's own loop", session=sessions[0])
            run(agent.arun("on a loop of the user's", session=sessions[0]))
            agent.run("and again", session=sessions[0])
        same(run(store.load(sessions[0].id)), sessions[0], "after runs on the library's own loop and another one")

    @rule("Let calls wait for each other; what one call reads and writes belongs into one transaction.")
    async def test_many_sessions_can_be_stored_at_once(self, open_store: OpenStore) -> None:
        """Calls for different sessions may overlap, as runs at the same time make them; none is lost or mixed up."""
        store, sessions = open_store(), [talk(f"study-{number}") for number in range(20)]

        async def work(session: Session) -> Session | None:
            await store.save(session)
            for number in range(4):
                await store.add_messages(session, say(session, f"{session.id} {number}", "a"))
            return await store.load(session.id)

        for loaded, session in zip(await asyncio.gather(*map(work, sessions)), sessions, strict=True):
            same(loaded, session)

    @rule(
        "Return from `save`, `add_messages` and `delete` only when all of it is stored (committed), and cache nothing."
    )
    async def test_another_store_object_finds_everything(self, open_store: OpenStore) -> None:
        """Once a call has returned, another store object on the same place sees what it did."""
        session, other = talk("study-1"), talk("study-2")
        first = open_store()
        await first.save(session)
        await first.save(other)
        same(await open_store().load("study-1"), session, "after save")
        await first.add_messages(session, say(session, "q", "a"))
        same(await open_store().load("study-1"), session, "after add_messages")
        second = open_store()
        await second.add_messages(session, say(session, "q", "a"))
        await second.delete("study-2")
        third = open_store()
        same(await third.load("study-1"), session, "after add_messages of the second store object")
        expect(await third.load("study-2") is None, "what the second store object deleted is there for the third one")

    @rule(
        "Do the calls in the order in which they come (one worker thread, or a queue): what a cancelled call has begun "
        "in a thread or on a server must have ended, or be dropped, before the next call writes."
    )
    def test_a_cancelled_call_does_not_come_late(self, open_store: OpenStore) -> None:
        """A call that was cancelled changes nothing once a later call has returned."""
        store, session = open_store(), talk("study-1")
        run(store.save(session))

        async def cancel_and_save(awaits: int) -> None:
            adding = asyncio.ensure_future(store.add_messages(session, say(session, "q", f"{awaits}")))
            for _ in range(awaits):
                await asyncio.sleep(0)
            adding.cancel()
            await asyncio.wait([adding])
            await store.save(session)

        for awaits in range(1, 6):
            run(cancel_and_save(awaits))  # the end of its loop waits for threads that still write
            same(run(store.load("study-1")), session, "when a save had followed an add_messages that was cancelled")

    @rule("See which other test fails as well, and mend that first.")
    async def test_runs_are_stored(self, open_store: OpenStore) -> None:
        """What a run leaves in the session is what the store has, with each durability, and the next run goes on."""
        store = open_store()
        script = [tool_call("note", {"n": 1}), tool_call("note", {"n": 2}), text("done")]
        with ScriptedServer(script, repeat=True) as server:
            for durability in _DURABILITIES:
                agent = Agent("m", [_note], base_url=server.base_url, api_key="none", session_store=store)
                session = await agent.aopen(f"run-{durability}")
                await agent.arun("go", session=session, durability=durability)
                same(await store.load(session.id), session, f"with durability={durability!r}")
                session = await agent.aopen(session.id)
                await agent.arun("go on", session=session, durability=durability)
                same(await store.load(session.id), session, f"after a second run with durability={durability!r}")

    @rule("Return from `save` and `add_messages` only when all of it is stored.")
    async def test_a_step_is_stored_before_the_next_one(self, open_store: OpenStore) -> None:
        """With durability="sync" each step is in the store before the next one starts."""
        store = open_store()
        counts: list[int] = []

        async def look() -> str:
            """Look into the store."""
            stored = await store.load("study-1")
            counts.append(len(stored.messages) if stored else 0)
            return "seen"

        script = [tool_call("look", {}), tool_call("look", {}), tool_call("look", {}), text("done")]
        with ScriptedServer(script) as server:
            agent = Agent("m", [look], base_url=server.base_url, api_key="none", session_store=store)
            await agent.arun("go", session=Session("study-1"), durability="sync")
        expect(counts == [0, 3, 5], f"tools in steps 1, 2 and 3 find {counts} messages stored, not [0, 3, 5]")

    @rule(
        "See which other test fails as well; a run that stops ends with an `add_messages`, often one without messages."
    )
    async def test_runs_that_stop_are_stored(self, open_store: OpenStore) -> None:
        """What a run that fails, or is cancelled, leaves in the session is stored, and the session can go on."""
        store = open_store()
        for durability in _DURABILITIES:
            session, door = Session(f"stopped-{durability}"), gate()
            script: ScriptLike = [
                tool_call("note", {"n": 1}),
                error(500, "down"),
                tool_call("note", {"n": 2}),
                reply(door),
                text("a"),
            ]
            with ScriptedServer(script) as server:
                agent = Agent(
                    "m", [_note], base_url=server.base_url, api_key="none", max_retries=0, session_store=store
                )
                with contextlib.suppress(ModelError):
                    await agent.arun("go", session=session, durability=durability)
                same(await store.load(session.id), session, f"after a run that failed with durability={durability!r}")
                running = asyncio.ensure_future(agent.arun("go on", session=session, durability=durability))
                await door.reached()
                running.cancel()
                await asyncio.wait([running])
                same(
                    await store.load(session.id), session, f"after a run that was cancelled, durability={durability!r}"
                )
                await agent.arun(session=session, durability=durability)
            same(await store.load(session.id), session, f"after the next run with durability={durability!r}")


def _note(n: int) -> str:
    """Take a note."""
    return f"noted {n}"
