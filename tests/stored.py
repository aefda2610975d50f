"""Does with a store of files what a run does, from plain functions."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from cyclops_nb.messages import AssistantMessage, UserMessage
from cyclops_nb.runs import Run
from cyclops_nb.session import Session
from cyclops_nb.usage import Usage


def talk(turns=1):
    session = Session("study-1")
    for number in range(turns):
        say(session, f"question {number}")
    return session


def say(session, question="q", answer="é\u2028"):
    """Do what a run does to a session, and return its messages."""
    run = Run(session_id=session.id, model="m", usage=Usage(1, 10, 5), stop_reason="completed")
    new = [UserMessage(question, run_id=run.id), AssistantMessage(answer, run_id=run.id)]
    session.messages.extend(new)
    session.runs.append(run)
    return new


def save(store, session):
    asyncio.run(store.save(session))


def add(store, session, messages):
    asyncio.run(store.add_messages(session, messages))


def load(store, session_id="study-1"):
    return asyncio.run(store.load(session_id))


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def bytes_read(call):
    """Return how many bytes this process reads meanwhile, from whatever, and what the call returns."""
    counts = Path("/proc/self/io")
    before = counts.read_text()
    returned = call()
    now, then = (int(text.split()[1]) for text in (counts.read_text(), before))
    return now - then, returned


@contextlib.contextmanager
def limited(size):
    """Let no file grow beyond `size` bytes meanwhile: what a full disk looks like."""
    resource = pytest.importorskip("resource", reason="only POSIX has such limits")
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
