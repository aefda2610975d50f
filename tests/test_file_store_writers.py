"""Session files that several stores and programs write to."""

import asyncio
import os
import shutil

import pytest
from stored import add, load, names, save, say, talk

from cyclops_nb.errors import SessionConflictError, SessionNotFoundError
from cyclops_nb.session import Session
from cyclops_nb.stores import FileSessionStore

pytestmark = pytest.mark.filterwarnings("error")


class TestConflict:
    def test_save(self, folder, store, path):
        """A save is refused when another store changed the file since this one read it; a load makes it possible."""
        save(store, talk())
        mine, other = load(store), FileSessionStore(folder)
        theirs = load(other)
        add(other, theirs, say(theirs))
        before = path.read_bytes()
        with pytest.raises(SessionConflictError, match=r"'study-1' cannot be stored: .* was changed by someone else"):
            save(store, mine)
        assert path.read_bytes() == before
        assert names(folder) == ["study-1.jsonl"]
        load(store)
        save(store, mine)
        assert load(FileSessionStore(folder)) == mine

    def test_add(self, folder, store, path):
        """An addition is refused in the same way, and the other's lines are unharmed."""
        session = talk()
        save(store, session)
        theirs = load(FileSessionStore(folder))
        add(FileSessionStore(folder), theirs, say(theirs))
        with pytest.raises(SessionConflictError, match="was changed by someone else"):
            add(store, session, say(session))
        assert load(FileSessionStore(folder)) == theirs

    def test_same_size(self, folder, store, path):
        """A change that leaves size and time as they were is found by the new file it is in."""
        session = Session("study-1", title="aaa")
        save(store, session)
        times = path.stat()
        changed = path.with_name("new")
        changed.write_bytes(path.read_bytes().replace(b"aaa", b"bbb"))
        changed.replace(path)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        with pytest.raises(SessionConflictError):
            save(store, session)

    @pytest.mark.parametrize("how", ["touch", "copy"])
    def test_same_content(self, store, path, how):
        """A file that was touched, or written anew with the same content, is no conflict."""
        session = talk()
        save(store, session)
        for _ in range(2):
            if how == "touch":
                os.utime(path, ns=(1, 1))
            else:
                path.replace(path.with_name("old"))
                shutil.copy(path.with_name("old"), path)
            add(store, session, say(session))
            os.utime(path, ns=(2, 2))
            save(store, session)
        assert load(store) == session

    def test_deleted_by_someone(self, store, path):
        """When someone deleted the file, a save writes it again, and an addition says that there is nothing."""
        session = talk()
        save(store, session)
        path.unlink()
        with pytest.raises(SessionNotFoundError):
            add(store, session, say(session))
        save(store, session)
        assert load(store) == session

    @pytest.mark.parametrize("first", ["load", "delete"])
    def test_appeared_since(self, folder, store, first):
        """A session that someone stored after this store found nothing there is not overwritten."""
        asyncio.run(getattr(store, first)("study-1"))
        theirs = talk()
        save(FileSessionStore(folder), theirs)
        with pytest.raises(SessionConflictError):
            save(store, talk())
        with pytest.raises(SessionConflictError):
            add(store, talk(), [])
        assert load(FileSessionStore(folder)) == theirs

    def test_own_writes(self, store):
        """A store's own writes are no conflict, in any order."""
        session = talk()
        for _ in range(3):
            save(store, session)
            add(store, session, say(session))
            add(store, load(store), [])
        assert load(store) == session

    @pytest.mark.parametrize("how", ["add", "save"])
    def test_at_the_very_same_time(self, folder, store, path, monkeypatch, how):
        """When someone writes in the instant between the look and the write, the addition is refused and leaves no trace."""
        session = talk()
        save(store, session)
        theirs = load(FileSessionStore(folder))
        other = FileSessionStore(folder)
        load(other)
        if how == "save":
            say(theirs)
        real, calls = os.write, []

        def write(descriptor, data):
            if not calls:
                calls.append(descriptor)
                add(other, theirs, say(theirs)) if how == "add" else save(other, theirs)
            return real(descriptor, data)

        monkeypatch.setattr(os, "write", write)
        with pytest.raises(SessionConflictError):
            add(store, session, say(session))
        assert load(FileSessionStore(folder)) == theirs
        with pytest.raises(SessionConflictError):
            add(store, session, [])
