"""Notebooks of sessions on disks that are full, refuse, break, or are left in the middle of a write."""

import asyncio
import errno
import os
import stat
import time

import pytest
from stored import add, limited, load, names, save, say, talk

from cyclops_nb import NotebookSessionStore
from cyclops_nb.messages import UserMessage
from notebooks import check_valid

pytestmark = pytest.mark.filterwarnings("error")
STORE = NotebookSessionStore
either = pytest.mark.parametrize("way", ["save", "add"])


@pytest.fixture
def session(store):
    """A session, stored."""
    session = talk()
    save(store, session)
    return session


def work(way, store, session, new):
    """Add what is new, or cut the session and save it, so that its file is written whole."""
    if way == "add":
        add(store, session, new)
    else:
        session.messages.pop(0)
        save(store, session)


@either
def test_a_full_disk(folder, store, path, session, way):
    """When there is no room, what was stored before is still there, alone, and the next time it works."""
    before = path.read_bytes()
    session.messages.append(UserMessage("x" * 100_000))
    with limited(20_000), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        work(way, store, session, session.messages[-1:])
    assert path.read_bytes() == before
    assert names(folder) == ["study-1.ipynb"]
    work(way, store, session, session.messages[-1:])
    assert load(NotebookSessionStore(folder)) == session
    check_valid(path)


@either
@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
def test_a_disk_that_refuses(folder, store, path, session, monkeypatch, way, call):
    """Data that are not confirmed count as not written; a folder that cannot be written to leaves the file as it is."""
    before = path.read_bytes()
    new = say(session)
    real = os.open

    def fail(*given, **_settings):
        if call == "open" and not given[1] & os.O_CREAT:
            return real(*given)
        raise OSError(errno.EROFS, "read-only")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="read-only"):
            work(way, store, session, new)
    assert path.read_bytes() == before
    assert names(folder) == ["study-1.ipynb"]
    work(way, store, session, new)
    assert load(NotebookSessionStore(folder)) == session


@either
def test_flushed(store, session, monkeypatch, way):
    """The file is flushed before it takes its place, the folder afterwards."""
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(stat.S_IFMT(os.fstat(descriptor).st_mode)))
    work(way, store, session, say(session))
    assert flushed == [stat.S_IFREG, stat.S_IFDIR]


@either
def test_mode(store, path, session, way):
    """A file keeps the mode that it has."""
    path.chmod(0o640)
    work(way, store, session, say(session))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@either
def test_link(folder, store, path, session, tmp_path, way):
    """A notebook that is a symbolic link stays one, and what it points to is written."""
    real = path.replace(tmp_path / "real.ipynb")
    path.symlink_to(real)
    work(way, store, session, say(session))
    assert path.is_symlink()
    assert real.is_file()
    assert load(NotebookSessionStore(folder)) == session
    assert names(folder) == ["study-1.ipynb"]


def test_what_a_crash_left(folder, store, session):
    """A temporary file of a save that was killed is no session."""
    left = folder / ".study-1.ipynb.0123abcd.tmp"
    left.write_bytes(b'{"cells": [')
    os.utime(left, (time.time() - 7200,) * 2)
    assert [info.id for info in asyncio.run(store.list(backups=True))] == ["study-1"]
    again = NotebookSessionStore(folder)
    save(again, load(again))
    assert names(folder) == ["study-1.ipynb"]
