"""Session files on disks that are full, refuse, break, or are left in the middle of a write."""

import asyncio
import copy
import errno
import os
import signal
import stat
import subprocess
import sys
import time
import warnings

import pytest
from stored import add, limited, load, names, save, say, talk

from cyclops_nb.errors import InputError, SessionNotFoundError
from cyclops_nb.session import Session
from cyclops_nb.stores import FileSessionStore, files, read_session

pytestmark = pytest.mark.filterwarnings("error")


class TestDisk:
    def test_disk_full_on_save(self, folder, store):
        """A save for which the disk has no room raises, and what was stored before is still there, alone."""
        session = talk()
        save(store, session)
        before = copy.copy(session)
        say(session, "x" * 100_000)
        with limited(20_000), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            save(store, session)
        assert names(folder) == ["study-1.jsonl"]
        assert load(FileSessionStore(folder)) == before
        save(store, session)
        assert load(store) == session

    def test_disk_full_on_add(self, folder, store, path):
        """An addition that was written in part is taken back, and the next one works."""
        session = talk()
        save(store, session)
        data = path.read_bytes()
        new = say(session, "x" * 100_000)
        with limited(20_000), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            add(store, session, new)
        assert path.read_bytes() == data
        add(store, session, new)
        assert load(FileSessionStore(folder)) == session

    @pytest.mark.parametrize("way", ["save", "add"])
    def test_flush_fails(self, folder, store, path, monkeypatch, way):
        """Data that the disk does not confirm counts as not written."""
        session = talk()
        save(store, session)
        data = path.read_bytes()
        new = say(session)

        def fsync(descriptor):
            raise OSError(errno.EIO, "broken")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fsync)
            with pytest.raises(OSError, match="broken"):
                add(store, session, new) if way == "add" else save(store, session)
        assert path.read_bytes() == data
        assert names(folder) == ["study-1.jsonl"]
        add(store, session, new)
        assert load(FileSessionStore(folder)) == session

    def test_flushed(self, store, monkeypatch):
        """A save flushes the file and the folder, an addition the file."""
        flushed = []
        monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(stat.S_IFMT(os.fstat(descriptor).st_mode)))
        session = talk()
        save(store, session)
        assert flushed == [stat.S_IFREG, stat.S_IFDIR]
        add(store, session, [])
        assert flushed == [stat.S_IFREG, stat.S_IFDIR, stat.S_IFREG]

    def test_mode(self, store, path):
        """A new file gets the user's usual mode; a save keeps the mode that a file has."""
        old = os.umask(0o027)
        try:
            save(store, talk())
        finally:
            os.umask(old)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o600)
        session = load(store)
        save(store, session)
        add(store, session, [])
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_link(self, folder, store, path, tmp_path):
        """A session file that is a symbolic link stays one, and what it points to is written."""
        session = talk()
        save(store, session)
        real = path.replace(tmp_path / "real.jsonl")
        path.symlink_to(real)
        say(session)
        save(store, session)
        add(store, session, say(session))
        assert path.is_symlink()
        assert read_session(real) == session
        assert names(folder) == ["study-1.jsonl"]

    def test_what_a_crash_left(self, folder, store):
        """A temporary file of a save that was killed is no session, and the next program clears it away."""
        save(store, talk())
        for name, age in ((".study-1.jsonl.0123abcd.tmp", 7200), (".study-1.jsonl.4567abcd.tmp", 0)):
            (folder / name).write_bytes(b'{"id": "study-1"')
            os.utime(folder / name, (time.time() - age,) * 2)
        assert len(asyncio.run(store.list(backups=True))) == 1
        save(store, load(store))
        assert len(names(folder)) == 3  # a store that has cleared away does not look around again
        again = FileSessionStore(folder)
        load(again)
        assert len(names(folder)) == 3  # and who only reads changes nothing
        save(again, load(again))
        assert names(folder) == [".study-1.jsonl.4567abcd.tmp", "study-1.jsonl"]  # the new one may be in use

    def test_disk_that_ignores_case(self, folder, store, monkeypatch):
        """Where a path with other letters finds the same file, a session is still found by its own id alone."""
        save(store, talk())
        # what such a disk does, as far as paths can tell
        for name in ("STUDY-1.jsonl", "study-1.JSONL", "STUDY-1.JSONL"):
            os.link(folder / "study-1.jsonl", folder / name)
        monkeypatch.setattr(files, "names_in", lambda folder: ["study-1.jsonl"])
        assert load(store, "STUDY-1") is None
        asyncio.run(store.delete("STUDY-1"))
        with pytest.raises(SessionNotFoundError):
            add(store, Session("STUDY-1"), [])
        assert load(store) is not None
        asyncio.run(store.delete("study-1"))
        assert not (folder / "study-1.jsonl").exists()

    def test_case_clash_of_another_program(self, folder, store):
        """The case of ids is compared with the files that are there, whoever wrote them."""
        save(store, Session("Study-1"))
        with pytest.raises(InputError, match=r"has 'Study-1.jsonl' already, which differs by case"):
            save(FileSessionStore(folder), talk())

    def test_killed(self, folder):
        """Whenever a program is killed in a save or an addition, the file loads, and only whole steps are in it."""
        script = (
            "import asyncio, sys\n"
            "from cyclops_nb.messages import UserMessage, AssistantMessage\n"
            "from cyclops_nb.session import Session\n"
            "from cyclops_nb.stores import FileSessionStore\n"
            "store, session = FileSessionStore(sys.argv[1]), Session('study-1')\n"
            "async def main():\n"
            "    while True:\n"
            "        step = [UserMessage('x' * 300_000), AssistantMessage('y' * 300_000)]\n"
            "        session.messages[:] = [*session.messages[-4:], *step]\n"
            "        await store.save(session)\n"
            "        print(flush=True)\n"
            "        for _ in range(3):\n"
            "            await store.add_messages(session, step)\n"
            "asyncio.run(main())\n"
        )
        for round_number in range(3):
            directory = folder / str(round_number)
            with subprocess.Popen([sys.executable, "-c", script, str(directory)], stdout=subprocess.PIPE) as child:
                child.stdout.readline()
                time.sleep(0.013 * (1 + round_number))
                child.send_signal(signal.SIGKILL)
            store = FileSessionStore(directory)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a line may well be torn
                loaded = load(store)
            assert len(loaded.messages) >= 2
            assert len(loaded.messages) % 2 == 0
            add(store, loaded, [])
            assert load(FileSessionStore(directory)) == loaded
