"""The part of the store contract about calls that fail, are cancelled, are looked at half-way, or take long.

What happens inside a call cannot be seen from outside. So these tests hold it up where every store comes by, which is
where it writes the session as JSON, or give it so much to do that others have the time to look.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Any, cast

from cyclops_nb.messages import Message, UserMessage
from cyclops_nb.session import Session
from cyclops_nb.stores.base import SessionStore
from cyclops_nb.stores.memory import InMemorySessionStore
from cyclops_nb.testing.store_rules import (
    BrokenRuleError,
    Contract,
    OpenStore,
    Watched,
    expect,
    in_threads,
    refused,
    rule,
    run,
    same,
    say,
    talk,
)

__all__ = ["CallsContract"]

_SOON = 0.2
"""Seconds in which something must not happen; where it would happen, it takes a few milliseconds."""
_ATTEMPTS = 10
_LARGE = 1_000_000
"""Characters of a message that takes a while to write."""


class CallsContract(Contract):
    """What a store must do when its calls do not simply come one after the other; a part of `StoreContract`."""

    @rule("Let the error out, and write in one transaction, which takes back what was written before the error.")
    async def test_what_cannot_be_stored_changes_nothing(self, open_store: OpenStore) -> None:
        """`save` and `add_messages` of what cannot be stored raise, and what is stored stays as it was."""
        store, session = open_store(), talk("study-1", turns=2)
        await store.save(session)
        before = copy.copy(session)
        new = say(session, "q", "a")
        bad = new[-1].model_copy(update={"metadata": {"is": _Unwritable()}})
        for what, metadata, messages in (
            ("metadata that cannot be copied", {"lock": threading.Lock()}, new),
            ("metadata that JSON cannot hold", {"is": _Unwritable()}, new),
            ("a message, the last of several, that JSON cannot hold", {}, [*new[:-1], bad]),
        ):
            session.metadata, session.messages[-1] = metadata, messages[-1]
            await refused(store.save(session), Exception, f"save with {what}")
            same(await store.load("study-1"), before, f"after a save that failed because of {what}")
            await refused(store.add_messages(session, messages), Exception, f"add_messages with {what}")
            same(await store.load("study-1"), before, f"after an add_messages that failed because of {what}")
        session.metadata, session.messages[-1] = {}, new[-1]
        await store.add_messages(session, new)
        same(await store.load("study-1"), session, "after the next add_messages")

    @rule("Write in one transaction, so that a cancel in the middle rolls all of it back.")
    async def test_a_cancelled_call_is_done_or_not_done(self, open_store: OpenStore) -> None:
        """A call that is cancelled has stored everything or nothing."""
        store, session = open_store(), talk("study-1", turns=5)
        await store.save(session)
        for name in ("save", "add_messages"):
            for awaits in range(1, 6):
                before = copy.copy(session)
                calling = asyncio.ensure_future(_store(name, store, session, say(session, "q", f"{name} {awaits}")))
                for _ in range(awaits):
                    await asyncio.sleep(0)
                calling.cancel()
                await asyncio.wait([calling])
                loaded = await store.load("study-1")
                if loaded != before:
                    same(loaded, session, f"after a {name} that was cancelled")
                await store.save(session)

    @rule(
        "Do the calls for a session in the order in which they come (one worker thread, or a queue): what a cancelled "
        "call has begun in a thread or on a server must have ended, or be dropped, before the next call writes."
    )
    async def test_a_cancelled_call_is_not_overtaken(self, open_store: OpenStore) -> None:
        """A call that was cancelled, and that takes longer than the next one, does not undo that."""
        store, session = open_store(), talk("study-1")
        slow = copy.copy(session)
        say(slow, "x" * _LARGE, "a")
        began = time.perf_counter()
        await store.save(slow)
        takes = time.perf_counter() - began
        patience = max(_SOON, 3 * takes)
        for name in ("save", "add_messages"):
            when = f"when a save had followed {name}, which was cancelled"
            held = Held()
            await store.save(session)
            early, session.title = copy.copy(session), f"after {name}"
            early.metadata = held
            calling = asyncio.ensure_future(_store(name, store, early, say(early, "q", "early")))
            await held.reached_by(calling)
            await _cancel(calling, patience)
            if not calling.done():  # it waits for its thread, so nothing can overtake it
                held.changed.set()
                await asyncio.wait([calling])
            later = asyncio.ensure_future(store.save(session))
            await asyncio.wait([later], timeout=patience)  # in vain where calls keep their order
            held.changed.set()
            await later
            await _stay(store, [session], patience, when)
            sessions = [talk(f"{name}-{count}") for count in range(12)]
            # a store that takes a lock before it encodes has let nothing overtake so far, by luck or not
            for count, each in enumerate(sessions):
                await store.save(each)
                for number in range(1 + count // 2):
                    early = copy.copy(each)
                    new = say(early, "x" * (number % 2 * _LARGE), f"early {number}")
                    calling = asyncio.ensure_future(_store(name, store, early, new))
                    await asyncio.wait([calling], timeout=number % 2 * (count % 2) * takes / 2)
                    await _cancel(calling, None)
                await store.save(each)
            await _stay(store, sessions, patience, when)

    @rule(
        "Return from `save` and `add_messages` only when all of it is stored (committed); start nothing that goes on."
    )
    async def test_a_call_returns_when_it_has_stored(self, open_store: OpenStore) -> None:
        """A call that takes long has stored everything when it returns."""
        store, other, session = open_store(), open_store(), talk("study-1")
        await store.save(session)
        for name in ("save", "add_messages"):
            held = Held()
            session.metadata = held
            new: list[Message] = [UserMessage("x" * _LARGE)]
            session.messages.extend(new)
            calling = asyncio.ensure_future(_store(name, store, session, new))
            try:
                if await held.reached_by(calling):
                    await asyncio.wait([calling], timeout=_SOON)  # in vain where calls return when they have ended
                    early = calling.done() and not held.gave_up
                    expect(not early, f"{name} returned, and a thread still reads what it was to store")
                    held.changed.set()
                await calling
                loading = asyncio.ensure_future(other.load("study-1"))
                if await held.reached_by(loading):
                    expect(held.changed.is_set(), f"{name} returned, and a thread begins to read what it was to store")
                same(await loading, session, f"at once after {name}, in another store object")
            finally:
                held.changed.set()

    @rule(
        "Write in one transaction, encode all of it before, and read in one transaction too; in files, write another "
        "file and move it into place."
    )
    def test_nobody_sees_half_a_call(self, open_store: OpenStore) -> None:
        """Who loads while a call is under way, or after the process was killed in it, finds all of it or nothing."""
        store, other = open_store(), open_store()
        short = talk("study-1", turns=2)
        long = copy.copy(short)
        long.messages[:] = [message for number in range(600) for message in say(long, f"question {number}", "a")]
        longer = copy.copy(long)
        new = [message for number in range(300) for message in say(longer, f"more {number}", "a")]
        run(store.save(short))
        for what, call, before, after in (
            ("save", partial(store.save, long), short, long),
            ("add_messages", partial(store.add_messages, longer, new), long, longer),
            ("save of a shorter session", partial(store.save, short), longer, short),
            ("save", partial(store.save, long), short, long),
            ("delete", partial(store.delete, "study-1"), long, None),
            ("save", partial(store.save, long), None, long),
        ):
            ended = threading.Event()
            look = partial(_look, other, f"while {what} was under way", (before, after), ended)
            in_threads([partial(_run_and_tell, call, ended), lambda look=look: run(look())])  # type: ignore[misc]

    @rule("Let a thread do what takes time (`asyncio.to_thread`, an executor), or use an async driver.")
    async def test_the_event_loop_goes_on(self, open_store: OpenStore) -> None:
        """While a session of some megabytes is stored, the event loop goes on, for other runs and the display."""
        store, memory, session = open_store(), InMemorySessionStore(), talk("study-1")
        new: list[Message] = [UserMessage(f"{number} " + "abcd efgh " * 10_000) for number in range(20)]
        large = copy.copy(session)
        large.messages.extend(new)

        async def stop(of: SessionStore) -> tuple[float, float]:
            await of.save(session)
            await asyncio.sleep(0.02)  # a thread that has rested is seldom made to wait for other processes
            return await _longest_stop(_store(name, of, large, new))

        for name in ("save", "add_messages"):
            await store.save(session)
            small = copy.copy(session)
            small.metadata = held = Held()
            calling = asyncio.ensure_future(_store(name, store, small, []))
            await held.reached_by(calling)
            held.changed.set()
            await calling
            expect(not held.gave_up, f"{name} stops the event loop until a thread has ended")
            usual = min([(await stop(memory))[0] for _ in range(5)])  # it does nothing but encode, on the event loop
            stops = []
            for _ in range(_ATTEMPTS):  # a busy machine stops a loop now and then, but not each time
                longest, all_of_it = await stop(store)
                stops.append(longest)
                if longest < all_of_it / 2 or min(stops) < max(0.01, 2 * usual):
                    break
                usual = min(usual, (await stop(memory))[0])
            else:
                raise BrokenRuleError(
                    f"in each of {_ATTEMPTS} calls of {name} the event loop stood still for {min(stops) * 1000:.0f} ms "
                    f"or more; InMemorySessionStore takes {usual * 1000:.0f} ms for the same"
                )


class Held(Watched):
    """Metadata that hold up other threads in copies too: a call that reads it in a thread waits until `changed` is set.

    A store that reads it on the event loop is not held up.
    """

    patience = 5.0

    def __init__(self) -> None:
        super().__init__({"a": 1})
        self.gave_up = False
        self._reached: Future[None] = Future()

    def _wait(self) -> None:
        if threading.get_ident() != self._home:
            with contextlib.suppress(InvalidStateError):
                self._reached.set_result(None)
            self.gave_up = not self.changed.wait(self.patience)

    def __deepcopy__(self, memo: dict[int, Any]) -> Held:
        return self

    async def reached_by(self, call: asyncio.Future[Any]) -> bool:
        """Return whether a thread has come to read this before a call has ended."""
        reached = asyncio.wrap_future(self._reached)
        await asyncio.wait([reached, call], return_when=asyncio.FIRST_COMPLETED)
        return reached.done()


class _Unwritable:
    """Can be copied, as a store may do before it begins, but not be written as JSON."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _Unwritable:
        return self


def _store(name: str, store: SessionStore, session: Session, new: list[Message]) -> Coroutine[Any, Any, None]:
    return store.save(session) if name == "save" else store.add_messages(session, new)


async def _cancel(calling: asyncio.Future[None], timeout: float | None) -> None:  # noqa: ASYNC109
    """Cancel a call and wait until it has ended, as a run does."""
    calling.cancel()
    await asyncio.wait([calling], timeout=timeout)


async def _stay(store: SessionStore, sessions: list[Session], seconds: float, when: str) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for session in sessions:
            same(await store.load(session.id), session, when)


def _run_and_tell(call: Callable[[], Coroutine[Any, Any, None]], ended: threading.Event) -> None:
    try:
        run(call())
    finally:
        ended.set()


async def _look(
    store: SessionStore, when: str, allowed: tuple[Session | None, Session | None], ended: threading.Event
) -> None:
    while not ended.is_set():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a store may say that it left out what is half-written
            try:
                found = await store.load("study-1")
            except Exception as error:
                raise BrokenRuleError(f"{when}, load raised {type(error).__name__}: {error}") from error
        if found not in allowed:
            whole = allowed[1] or allowed[0]
            same(found, cast("Session", whole), when)
        await asyncio.sleep(0.001)  # let the other store object come to its turn


async def _longest_stop(call: Awaitable[None]) -> tuple[float, float]:
    """Return for how long the event loop stood still at most during a call, and how long that took, in seconds."""
    turns: list[float] = []

    async def count() -> None:
        while True:
            turns.append(time.perf_counter())
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    await asyncio.sleep(0)
    began = time.perf_counter()
    await call
    ended = time.perf_counter()
    await asyncio.sleep(0)
    counting.cancel()
    inside = [began, *(turn for turn in turns if began < turn < ended), ended]
    return max(later - sooner for sooner, later in itertools.pairwise(inside)), ended - began
