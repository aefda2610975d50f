"""What the tests of runs share: agents on a scripted server, all ways in, and stores that remember their calls."""

import asyncio
import os
import signal
import threading
from contextlib import aclosing, closing

from cyclops_nb import Agent, RunFinished
from cyclops_nb.stores import InMemorySessionStore
from cyclops_nb.testing import text, tool_call

FORMS = (
    "run",
    "arun",
    "run_with_response",
    "arun_with_response",
    "stream",
    "astream",
    "stream_events",
    "astream_events",
    "start",
)
SYNC_FORMS = ("run", "run_with_response", "stream", "stream_events", "start")
ASYNC_FORMS = ("arun", "arun_with_response", "astream", "astream_events")


def agent_for(server, tools=(), **settings):
    """Return an agent that asks `server`, once for each request."""
    return Agent("m", tools, **{"base_url": server.base_url, "api_key": "k", "max_retries": 0, **settings})


def call(agent, form, *args, **kwargs):
    """Run the whole of one form, from sync code, and return the text of its answer; raise what the run failed with."""
    if form in ASYNC_FORMS:
        return asyncio.run(acall(agent, form, *args, **kwargs))
    given = getattr(agent, form)(*args, **kwargs)
    if form == "run":
        return given
    if form == "stream":
        return "".join(given)
    if form == "stream_events":
        return [event for event in given if isinstance(event, RunFinished)].pop().content
    return _content(given.result() if form == "start" else given)


async def acall(agent, form, *args, **kwargs):
    """Same as `call`, for the async forms and `start`, on the running loop."""
    given = getattr(agent, form)(*args, **kwargs)
    if form == "arun":
        return await given
    if form == "astream":
        return "".join([piece async for piece in given])
    if form == "astream_events":
        return [event async for event in given if isinstance(event, RunFinished)].pop().content
    return _content(await given)


def _content(response):
    if response.error is not None:
        raise response.error
    return response.content


def begin(agent, form, *args, **kwargs):
    """Call a form and await or read the first thing of it: where everything that is wrong with the call shows."""

    async def first():
        given = getattr(agent, form)(*args, **kwargs)
        if form.startswith("astream"):
            async with aclosing(given):
                return await anext(given)
        return await given

    if form in ASYNC_FORMS:
        return asyncio.run(first())
    given = getattr(agent, form)(*args, **kwargs)
    if form.startswith("stream"):
        with closing(given):
            return next(given)
    return given


def roles(session):
    """Return role, text and, for tool results, status of each message, in short."""
    return [
        (message.role, message.text, message.status) if message.role == "tool" else (message.role, message.text)
        for message in session.messages
    ]


def shape(session):
    """Return one letter for each message: u, a, t (an ok result), e (error), c (cancelled), s."""
    letters = {"ok": "t", "error": "e", "cancelled": "c"}
    return "".join(letters[item.status] if item.role == "tool" else item.role[0] for item in session.messages)


def content_of(session):
    """Return what was said, without ids, times and durations."""
    return [
        message.model_dump(exclude={"id", "run_id", "created_at", "duration"}, mode="json")
        for message in session.messages
    ]


def steps_script(count, answer="done"):
    """Return a script in which the model calls ``note`` until the last of `count` steps."""
    return [*(tool_call("note", {"n": n}) for n in range(1, count)), text(answer)]


def note(n: int) -> str:
    """Take a note."""
    return f"noted {n}"


def interrupt_when(ready):
    """Send this process what Ctrl-C sends, from a thread, when `ready` returns."""

    def work():
        ready()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


class RecordingStore:
    """A store in memory that remembers how it was called, and fails when told to."""

    def __init__(self, fail=lambda number: None):
        self.calls = []
        self.snapshots = []
        self.inner = InMemorySessionStore()
        self.fail = fail
        self.active = 0
        self.overlaps = 0

    async def load(self, session_id):
        return await self.inner.load(session_id)

    async def save(self, session):
        await self._call(("save", len(session.messages)), session, self.inner.save(session))

    async def add_messages(self, session, messages):
        await self._call(("add", len(messages)), session, self.inner.add_messages(session, messages))

    async def delete(self, session_id):
        await self.inner.delete(session_id)

    async def _call(self, entry, session, doing):
        self.calls.append(entry)
        self.snapshots.append(session)
        self.overlaps += self.active
        self.active += 1
        try:
            await self.before(len(self.calls))
            error = self.fail(len(self.calls))
            if error is not None:
                doing.close()
                raise error
            await doing
        finally:
            doing.close()
            self.active -= 1

    async def before(self, number):
        """Do something before the call of that number; for subclasses."""
        await asyncio.sleep(0)

    def stored(self, session_id):
        """Return what is stored, from sync code."""
        return asyncio.run(self.load(session_id))
