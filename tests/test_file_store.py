"""Sessions as JSON lines files: the format, restarts, threads."""

import asyncio
import copy
import errno
import gc
import json
import os
import shutil
import threading
import warnings
from pathlib import Path

import pytest
from stored import add, load, names, save, say, talk

from cyclops_nb.session import Session
from cyclops_nb.stores import FileSessionStore, file, read_session
from cyclops_nb.usage import Usage

pytestmark = pytest.mark.filterwarnings("error")


class TestFormat:
    def test_first_line(self, store, path):
        """The first line is the session as its own JSON, with what lists tell at its end; nothing else is stored."""
        session = talk(2)
        save(store, session)
        data = path.read_bytes()
        own = session.model_dump_json().encode().removesuffix(b"}")
        assert data.startswith(own + b',"session_info":{"at":%d,"id":"study-1","title":"question 0",' % len(own))
        assert data.endswith(b"}}\n")
        assert data.count(b"\n") == 1
        assert names(path.parent) == ["study-1.jsonl"]

    def test_first_line_is_a_session(self, store, path):
        """The first line alone can be read as a session by its own class, and saved as one."""
        session = talk(2)
        save(store, session)
        before = copy.copy(session)
        add(store, session, say(session))
        first = path.read_bytes().split(b"\n")[0]
        alone = Session.model_validate_json(first)
        assert alone == before
        save(store, alone)
        assert path.read_bytes() == first + b"\n"
        assert load(store).model_extra == {}

    def test_file_without_summaries(self, folder, store, path):
        """A file whose lines do not tell what lists show, as another program may write it, is as good as any."""
        session = talk(2)
        save(store, session)
        add(store, session, say(session))
        expected = asyncio.run(store.list())[0].model_dump(exclude={"updated_at"})
        lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:2]]
        for line in lines:
            del line["session_info"]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        other = FileSessionStore(folder)
        assert load(other) == session
        assert asyncio.run(other.list())[0].model_dump(exclude={"updated_at"}) == expected
        add(other, session, say(session))
        assert asyncio.run(other.list())[0].message_count == 8
        assert load(FileSessionStore(folder)) == session

    def test_added_line(self, store, path):
        """An addition is one line with the index it starts at, the new messages, and the runs that are new."""
        session = talk(2)
        save(store, session)
        before = path.read_bytes()
        new = say(session)
        add(store, session, new)
        data = path.read_bytes()
        assert data.startswith(before)
        line = json.loads(data[len(before) :])
        assert data.count(b"\n") == 2
        assert line.pop("session_info") == {
            "at": data.rindex(b',"session_info"'),
            "id": "study-1",
            "title": "question 0",
            "message_count": 6,
            "run_count": 3,
            "usage": Usage(3, 30, 15).model_dump(),
            "cost": 0.0,
            "parent": None,
        }
        assert line == {
            "start": 4,
            "messages": [message.model_dump(mode="json") for message in new],
            "runs": [session.runs[-1].model_dump(mode="json")],
        }

    def test_added_line_with_all(self, store, path):
        """What else of the session changed stands in the addition, without the lists."""
        session = talk()
        save(store, session)
        session.title = "New"
        session.configs["c1"] = {"model": "m"}
        add(store, session, [])
        line = json.loads(path.read_bytes().splitlines()[1])
        assert line["configs"] == {"c1": {"model": "m"}}
        assert (line["session"]["title"], line["session"]["id"]) == ("New", "study-1")
        assert not {"messages", "runs", "configs"} & set(line["session"])

    def test_same_session_same_bytes(self, store, path):
        """Saving a session that did not change gives the same bytes, also after it was loaded."""
        save(store, talk(2))
        before = path.read_bytes()
        loaded = load(store)
        save(store, loaded)
        assert path.read_bytes() == before

    def test_additions_do_not_grow(self, store, path):
        """An addition to a long conversation is as large as one to a short one, and reads nothing."""
        sizes = []
        for turns in (2, 300):
            session = talk(turns)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                save(store, session)
            before = path.stat().st_size
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(file, "read", None)
                patch.setattr(Path, "read_bytes", None)
                add(store, session, say(session))
            sizes.append(path.stat().st_size - before)
        assert abs(sizes[1] - sizes[0]) < 30  # numbers have more digits

    def test_relative_directory(self, tmp_path, monkeypatch):
        """A relative directory stays where it was when the program changes its working directory."""
        monkeypatch.chdir(tmp_path)
        store = FileSessionStore("here")
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path / "other")
        save(store, talk())
        assert names(tmp_path / "here") == ["study-1.jsonl"]
        assert store.directory == tmp_path / "here"
        assert repr(store) == f"FileSessionStore({str(tmp_path / 'here')!r})"

    def test_directory_appears_when_needed(self, folder, store):
        """Nothing is made before the first save; a folder that vanished is made again."""
        assert load(store) is None
        assert asyncio.run(store.list()) == []
        assert not folder.exists()
        save(store, talk())
        shutil.rmtree(folder)
        save(store, talk())
        assert names(folder) == ["study-1.jsonl"]

    def test_another_store_reads_it(self, folder, store):
        """Another store object, as after a restart, loads what this one wrote and goes on with it."""
        session = talk()
        save(store, session)
        add(store, session, say(session))
        other = FileSessionStore(folder)
        loaded = load(other)
        assert loaded == session
        add(other, loaded, say(loaded))
        assert load(FileSessionStore(folder)) == loaded

    def test_add_without_reading_first(self, folder, store):
        """A store object that has not seen the session reads once where it stands, and adds there."""
        session = talk(3)
        save(store, session)
        add(store, session, say(session))
        add(FileSessionStore(folder), session, say(session))
        loaded = load(FileSessionStore(folder))
        assert loaded == session
        assert [run.id for run in loaded.runs] == [run.id for run in session.runs]

    def test_read_session(self, store, path, tmp_path):
        """A session file can be read wherever it is, whatever its name."""
        session = talk()
        save(store, session)
        add(store, session, say(session))
        elsewhere = path.replace(tmp_path / "sent by a friend.jsonl")
        assert read_session(elsewhere) == session
        with pytest.raises(FileNotFoundError):
            read_session(path)

    def test_read_session_with_a_torn_line(self, store, path):
        """A torn last line is left out with a warning there, too."""
        session = talk()
        save(store, session)
        with path.open("ab") as stream:
            stream.write(b"{")
        with pytest.warns(UserWarning, match="torn line") as caught:
            assert read_session(path) == session
        assert caught[0].filename == __file__


class TestRestart:
    def test_same_conversation(self, folder, store):
        """A store object that has not seen the session replaces an older state of the same conversation."""
        session = talk()
        save(store, session)
        session.truncate(0)
        save(FileSessionStore(folder), session)
        assert load(FileSessionStore(folder)) == session
        assert names(folder) == ["study-1.jsonl"]

    def test_other_conversation(self, folder, store, path):
        """A new session under an old id replaces it with a warning; the old file is kept and can be listed."""
        old = talk(3)
        save(store, old)
        add(store, old, say(old))
        before = path.read_bytes()
        new = talk()
        again = FileSessionStore(folder)
        with pytest.warns(UserWarning, match=r"another conversation was stored as 'study-1'; it is kept as .*backup-1"):
            save(again, new)
        assert load(again) == new
        backup = folder / "study-1.backup-1.jsonl"
        assert backup.read_bytes() == before
        assert read_session(backup) == old
        assert [info.message_count for info in asyncio.run(again.list())] == [2]
        infos = {info.path: info for info in asyncio.run(again.list(backups=True))}
        assert {(p.name, info.id, info.message_count, info.backup) for p, info in infos.items()} == {
            ("study-1.jsonl", "study-1", 2, False),
            ("study-1.backup-1.jsonl", "study-1", 8, True),
        }

    def test_same_store_object(self, folder, store):
        """The same holds when a cell is run again and the store object still knows the old conversation."""
        sessions = [talk(turns) for turns in (1, 2, 3)]
        save(store, sessions[0])
        for session in sessions[1:]:
            with pytest.warns(UserWarning, match="another conversation"):
                save(store, session)
        assert load(store) == sessions[2]
        assert read_session(folder / "study-1.backup-1.jsonl") == sessions[0]
        assert read_session(folder / "study-1.backup-2.jsonl") == sessions[1]

    def test_bring_back(self, folder, store, path):
        """A backup that is given the session's name is the session again."""
        old = talk(3)
        save(store, old)
        with pytest.warns(UserWarning, match="another conversation"):
            save(store, talk())
        (folder / "study-1.backup-1.jsonl").replace(path)
        assert load(store) == old

    @pytest.mark.parametrize("data", [b"nonsense\n", b'{"version":9,"id":"study-1"}\n', b'{"id":"other"}\n'])
    def test_unreadable(self, store, path, data):
        """What stands there and cannot be read, or is another session's, is kept as well, with a warning."""
        path.parent.mkdir()
        path.write_bytes(data)
        session = talk()
        with pytest.warns(
            UserWarning,
            match=r"stored as 'study-1' cannot be read by this version; it is kept as '.*study-1.backup-1.jsonl'",
        ):
            save(store, session)
        assert load(store) == session
        assert (path.parent / "study-1.backup-1.jsonl").read_bytes() == data

    @pytest.mark.parametrize(
        ("damage", "named"),
        [
            (lambda lines: [lines[0], b"{", *lines[2:]], "cannot be read by this version"),
            (lambda lines: [lines[0], *lines[2:]], "cannot be read by this version"),
            (lambda lines: [*lines[:2], lines[2][:-20], b""], "ends with a torn line"),
        ],
        ids=["nonsense", "lost line", "torn line"],
    )
    def test_damage_of_the_same_conversation(self, folder, store, path, damage, named):
        """A damaged file of the very conversation that is saved is kept: what stands in it may be all there is."""
        session = talk()
        save(store, session)
        for _ in range(2):
            add(store, session, say(session))
        data = b"\n".join(damage(path.read_bytes().split(b"\n")))
        path.write_bytes(data)
        session.truncate(2)
        with pytest.warns(UserWarning, match=rf"'study-1' {named}; it is kept as"):
            save(FileSessionStore(folder), session)
        assert load(FileSessionStore(folder)) == session
        assert (folder / "study-1.backup-1.jsonl").read_bytes() == data

    def test_nothing_to_keep(self, store, path):
        """An empty file is replaced without ado."""
        path.parent.mkdir()
        path.touch()
        save(store, talk())
        assert names(path.parent) == ["study-1.jsonl"]

    def test_disk_without_links(self, folder, store, path, monkeypatch):
        """On a disk without hard links the old conversation is copied, with its time."""

        def link(*args, **kwargs):
            raise OSError(errno.EPERM, "no links here")

        old = talk(3)
        save(store, old)
        os.utime(path, ns=(10**18, 10**18))
        monkeypatch.setattr(os, "link", link)
        with pytest.warns(UserWarning, match="another conversation"):
            save(FileSessionStore(folder), talk())
        backup = folder / "study-1.backup-1.jsonl"
        assert read_session(backup) == old
        assert backup.stat().st_mtime_ns == 10**18

    def test_failed_save_leaves_no_backup(self, folder, store, monkeypatch):
        """When the new session cannot be written after all, no backup is left of the old one that still stands."""
        old = talk(3)
        save(store, old)

        def replace(*args):
            raise OSError(errno.EIO, "broken")

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", replace)
            with pytest.raises(OSError, match="broken"):
                save(FileSessionStore(folder), talk())
        assert names(folder) == ["study-1.jsonl"]
        assert load(store) == old


@pytest.fixture
def gate(monkeypatch):
    """Makes flushing to the disk wait until the gate is opened; `gate.reached` tells that something waits."""

    class Gate:
        reached = threading.Event()
        opened = threading.Event()

    real = os.fsync

    def fsync(descriptor):
        Gate.reached.set()
        assert Gate.opened.wait(30)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    yield Gate
    Gate.opened.set()


def own_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("cyclops_nb ")]


class TestThreads:
    def test_loop_goes_on(self, store, gate):
        """While the disk is slow, the event loop runs other tasks."""

        async def main():
            saving = asyncio.ensure_future(store.save(talk()))
            while not gate.reached.is_set():
                await asyncio.sleep(0)
            assert not saving.done()
            gate.opened.set()
            await saving

        asyncio.run(main())
        assert load(store) is not None

    def test_cancelled_save_is_finished(self, folder, store, gate):
        """A save whose task is cancelled is still finished, and a later save is not overtaken by it."""
        session = talk()

        async def main():
            saving = asyncio.ensure_future(store.save(session))
            while not gate.reached.is_set():
                await asyncio.sleep(0)
            saving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await saving
            new = say(session)
            adding = asyncio.ensure_future(store.add_messages(session, new))
            await asyncio.sleep(0.01)
            gate.opened.set()
            await adding

        asyncio.run(main())
        assert load(store) == load(FileSessionStore(folder)) == session

    def test_cancelled_and_failed(self, store, gate, monkeypatch):
        """A cancelled save that fails later does so silently, and the next one works."""
        complaints = []

        async def main():
            asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
            bad = talk()
            saving = asyncio.ensure_future(store.save(bad))
            while not gate.reached.is_set():
                await asyncio.sleep(0)
            saving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await saving
            with monkeypatch.context() as patch:
                patch.setattr(Path, "replace", None)
                gate.opened.set()
                for thread in own_threads():
                    thread.join(30)
            await store.save(bad)

        asyncio.run(main())
        gc.collect()
        assert complaints == []
        assert load(store) is not None

    def test_no_thread_is_left(self, store):
        """After a call no thread is left, and nothing is remembered of its turn."""
        session = talk()
        save(store, session)
        add(store, session, [])
        load(store)
        asyncio.run(store.list())
        for thread in own_threads():
            thread.join(10)
        assert not own_threads()
        assert store._turns._last == {}

    def test_no_more_threads(self, store, monkeypatch):
        """When the system has no more threads, the call fails, and later ones work."""

        def start(self):
            raise RuntimeError("can't start new thread")

        session = talk()

        async def main():
            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", start)
                with pytest.raises(RuntimeError, match="can't start"):
                    await store.save(session)
            await store.save(session)

        asyncio.run(main())
        assert load(store) == session
