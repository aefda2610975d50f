"""Sessions as JSON lines files: format, damage, conflicts, backups, crashes."""

import asyncio
import contextlib
import copy
import errno
import gc
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import moderate, sessions

from cyclops_nb.errors import InputError, SessionConflictError, SessionFormatError, SessionNotFoundError
from cyclops_nb.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from cyclops_nb.runs import Run
from cyclops_nb.session import Session
from cyclops_nb.stores import FileSessionStore, file, files, read_session
from cyclops_nb.usage import Usage

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "sessions"


@pytest.fixture
def store(folder):
    return FileSessionStore(folder)


@pytest.fixture
def path(folder):
    return folder / "study-1.jsonl"


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


class TestFormat:
    def test_first_line(self, store, path):
        """The first line is the whole session as its own JSON; nothing else is in the file or beside it."""
        session = talk(2)
        save(store, session)
        assert path.read_bytes() == session.model_dump_json().encode() + b"\n"
        assert names(path.parent) == ["study-1.jsonl"]

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
        assert abs(sizes[1] - sizes[0]) < 10

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


class TestTornLine:
    @pytest.mark.parametrize("behind", [b"", b"\n", b"\n\n", b"\r\n"])
    def test_every_offset(self, folder, path, behind):
        """Wherever the last line is cut, all lines before it load with a warning, and the next addition mends it."""
        session = talk()
        first = FileSessionStore(folder)
        save(first, session)
        add(first, session, say(session))
        whole = copy.copy(session)
        start = path.stat().st_size
        session.messages.append(UserMessage("ü"))
        add(first, session, session.messages[-1:])
        data = path.read_bytes()
        # with something behind it, the interesting cuts are few
        for cut in range(start + 1, len(data) - 1, 1 if not behind else 37):
            path.write_bytes(data[:cut] + behind)
            store = FileSessionStore(folder)
            with pytest.warns(UserWarning, match=r"study-1.jsonl' ends with a torn line, which was left out"):
                loaded = load(store)
            assert loaded == whole
            assert path.read_bytes() == data[:cut] + behind
            add(store, loaded, say(loaded))
            assert load(FileSessionStore(folder)) == loaded
            assert path.read_bytes().startswith(data[:start])
            assert path.read_bytes().count(b"\n") == 3

    def test_cut_at_line_ends(self, folder, path):
        """A file cut just before or behind a line feed has lost nothing and is read and added to without a warning."""
        session = talk()
        first = FileSessionStore(folder)
        save(first, session)
        add(first, session, say(session))
        data = path.read_bytes()
        path.write_bytes(data[:-1])
        for store in (FileSessionStore(folder), FileSessionStore(folder)):
            assert load(store) == session
        add(store, session, say(session))
        add(store, session, say(session))
        assert load(FileSessionStore(folder)) == session
        assert path.read_bytes().startswith(data)

    def test_only_line_without_line_feed(self, folder, path):
        """A file with the session alone and no line feed, as an editor may leave it, can be added to."""
        session = talk()
        save(FileSessionStore(folder), session)
        path.write_bytes(path.read_bytes()[:-1])
        add(FileSessionStore(folder), session, say(session))
        assert load(FileSessionStore(folder)) == session

    def test_add_without_load(self, folder, store, path):
        """An addition by a store that has not loaded the session mends the torn line too, with the warning."""
        session = talk()
        save(store, session)
        with path.open("ab") as stream:
            stream.write(b'{"start":2,"mess')
        other = FileSessionStore(folder)
        with pytest.warns(UserWarning, match="torn line"):
            add(other, session, say(session))
        add(other, session, say(session))
        assert load(FileSessionStore(folder)) == session

    def test_save_mends(self, folder, store, path):
        """A save replaces the torn line with everything else."""
        session = talk()
        save(store, session)
        with path.open("ab") as stream:
            stream.write(b"\x00" * 100)
        other = FileSessionStore(folder)
        with pytest.warns(UserWarning, match="torn line"):
            load(other)
        save(other, session)
        assert path.read_bytes() == session.model_dump_json().encode() + b"\n"

    def test_warning_points_to_the_caller(self, folder, store, path):
        """The warning names the line that called the store, also if warnings are errors."""
        save(store, talk())
        with path.open("ab") as stream:
            stream.write(b"{")

        async def main():
            return await FileSessionStore(folder).load("study-1")

        with pytest.warns(UserWarning, match="torn") as caught:
            asyncio.run(main())
        assert caught[0].filename == __file__
        with pytest.raises(UserWarning):
            asyncio.run(main())

    @given(session=sessions(), data=st.data())
    @settings(moderate, max_examples=10)
    def test_any_session(self, tmp_path_factory, session, data):
        """Any session whose last line is cut anywhere loads as it was before that line, and goes on from there."""
        folder = tmp_path_factory.mktemp("torn")
        path, store = folder / f"{session.id}.jsonl", FileSessionStore(folder)
        save(store, session)
        start = path.stat().st_size
        before = copy.copy(session)
        add(store, session, say(session, "ü😀\u2028", "\r\n"))
        whole = path.read_bytes()
        cut = data.draw(st.integers(start, len(whole)))
        path.write_bytes(whole[:cut])
        store = FileSessionStore(folder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = load(store, session.id)
        assert loaded == (session if cut >= len(whole) - 1 else before)
        add(store, loaded, say(loaded))
        assert load(FileSessionStore(folder), session.id) == loaded


class TestDamage:
    def damaged(self, path, number, line):
        """Put `line` in place of line `number` of a session with three additions."""
        session = talk()
        store = FileSessionStore(path.parent)
        save(store, session)
        for _ in range(3):
            add(store, session, say(session))
        lines = path.read_bytes().split(b"\n")
        lines[number - 1] = line
        path.write_bytes(b"\n".join(lines))
        return session

    @pytest.mark.parametrize(
        ("number", "line"),
        [
            (number, line)
            for number in (1, 2, 3)
            for line in (b"{", b"nonsense", b"\xff\xfe", b"\0\0", b"5", b"[]", b"null")
        ]
        + [(1, b'{"id": 5}'), (1, b'{"id": "study-1", "version": 2}'), (1, b'{"id": "study-1", "messages": {}}')]
        + [(2, line) for line in (b"{}", b'{"start": -1}', b'{"start": 2, "messages": 5}')]
        + [(2, b'{"start": 2, "runs": [{}]}'), (2, b'{"start": 2, "session": {"id": "study-1", "version": 9}}')]
        + [(3, b'{"start": 4, "session": {"id": "other"}}'), (3, b'{"start": 4, "configs": {"c1": 5}}')],
    )
    def test_names_file_and_line(self, path, number, line):
        """Damage before the last line is an error that names file and line, in all calls; the file stays as it is."""
        session = self.damaged(path, number, line)
        before = path.read_bytes()
        store = FileSessionStore(path.parent)
        where = rf"study-1.jsonl', line {number}\b"
        with pytest.raises(SessionFormatError, match=where):
            load(store)
        with pytest.raises(SessionFormatError, match=where):
            add(store, session, [])
        with pytest.raises(SessionFormatError, match=where):
            read_session(path)
        with pytest.warns(UserWarning, match=where):
            assert asyncio.run(store.list()) == []
        assert path.read_bytes() == before

    @pytest.mark.parametrize("message", [{"role": "user"}, {"role": "nobody", "content": ""}, 5, {"content": "x"}])
    def test_message(self, path, message):
        """A line that holds what is no message is damage, whatever else is right about it."""
        self.damaged(path, 3, json.dumps({"start": 4, "messages": [message, message]}).encode())
        with pytest.raises(SessionFormatError, match=r"study-1.jsonl', line 3, holds what is no message \(0"):
            load(FileSessionStore(path.parent))

    def test_two_writers(self, path):
        """A line that does not start where the messages before it end is damage."""
        self.damaged(path, 3, b'{"start": 2, "messages": []}')
        with pytest.raises(SessionFormatError, match=r"line 3, starts at message 2, but 4 stand before it"):
            load(FileSessionStore(path.parent))

    def test_lost_line(self, path):
        """A line that was deleted is noticed."""
        self.damaged(path, 2, b"")
        with pytest.raises(SessionFormatError, match=r"line 3, starts at message 4, but 2 stand before it"):
            load(FileSessionStore(path.parent))

    @pytest.mark.parametrize("data", [b"", b"\n", b'{"version":1,"id":"stu'])
    def test_no_session_at_all(self, store, path, data):
        """A file without a readable session is an error, not a new session."""
        path.parent.mkdir()
        path.write_bytes(data)
        with pytest.raises(SessionFormatError, match=r"study-1.jsonl', line 1"):
            load(store)

    def test_other_id(self, store, path):
        """A file that was given another name is an error that says so."""
        save(store, talk())
        path.rename(path.with_name("other.jsonl"))
        with pytest.raises(SessionFormatError, match=r"holds the session 'study-1', not 'other'"):
            load(store, "other")

    def test_later_version(self, store, path):
        """A session of a later format version is refused by an error that names the file and both versions."""
        save(store, talk())
        path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":7'))
        with pytest.raises(SessionFormatError, match=r"study-1.jsonl', line 1: .* version 7, .* version 1"):
            load(store)

    def test_short_errors(self, store, path):
        """The error about a huge damaged line does not repeat it."""
        path.parent.mkdir()
        path.write_bytes(b'{"id": "study-1", "messages": [{"role": "' + b"x" * 10**6 + b'"}]}\n')
        with pytest.raises(SessionFormatError) as caught:
            load(store)
        assert len(str(caught.value)) < 600

    def test_blank_lines_and_crlf(self, path):
        """Blank lines and the line ends of Windows, as editors and checkouts leave them, are no damage."""
        session = self.damaged(path, 2, b"")
        save(FileSessionStore(path.parent), session)
        store = FileSessionStore(path.parent)
        add(store, session, say(session))
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n\r\n"))
        again = FileSessionStore(path.parent)
        assert load(again) == session
        add(again, session, say(session))
        assert load(FileSessionStore(path.parent)) == session

    def test_escaped_surrogates(self, store, path):
        """A file whose JSON another program wrote with escapes is read; lone surrogates become U+FFFD."""
        session = talk()
        session.messages[:] = [UserMessage("a😀b")]
        session.metadata["k"] = "?"
        save(store, session)
        data = json.dumps(json.loads(path.read_bytes())).replace('"?"', r'"\ud83d"')
        path.write_bytes(data.encode() + b"\n")
        loaded = load(FileSessionStore(path.parent))
        assert loaded.messages == session.messages
        assert loaded.metadata == {"k": "\ufffd"}


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
        """What stands there and cannot be read, or is another session's, is kept as well."""
        path.parent.mkdir()
        path.write_bytes(data)
        session = talk()
        with pytest.warns(UserWarning, match="another conversation"):
            save(store, session)
        assert load(store) == session
        assert (path.parent / "study-1.backup-1.jsonl").read_bytes() == data

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
        again = FileSessionStore(folder)
        load(again)
        save(again, load(again))
        assert len(names(folder)) == 3  # a store that knows the file does not look around
        save(FileSessionStore(folder), load(store))
        assert names(folder) == [".study-1.jsonl.4567abcd.tmp", "study-1.jsonl"]

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


class TestList:
    def test_paths_and_times(self, store, path):
        """Each entry has its file and the time at which that was last written."""
        save(store, talk())
        os.utime(path, (1_700_000_000, 1_700_000_000))
        (info,) = asyncio.run(store.list())
        assert info.path == path
        assert info.updated_at.timestamp() == 1_700_000_000

    def test_foreign_files(self, folder, store):
        """Files and folders that are not named like sessions are none of the store's business."""
        save(store, talk())
        for name in ("notes.txt", "a b.jsonl", "study-1-Ünïcode.jsonl", ".hidden.jsonl", "con.jsonl", "study-1.ipynb"):
            (folder / name).write_text("nonsense")
        (folder / ".ipynb_checkpoints").mkdir()
        (folder / "folder.jsonl").mkdir()
        assert [info.id for info in asyncio.run(store.list(backups=True))] == ["study-1"]

    def test_damaged_files(self, folder, store):
        """A file that cannot be read is left out with a warning that names it; the others are listed."""
        save(store, talk())
        (folder / "broken.jsonl").write_text("nonsense")
        shutil.copy(folder / "study-1.jsonl", folder / "study-1-Copy1.jsonl")

        async def main():
            return [info.id for info in await store.list()]

        with pytest.warns(UserWarning, match="left out") as caught:
            assert asyncio.run(main()) == ["study-1"]
        texts = sorted(str(warning.message) for warning in caught)
        assert len(texts) == 2
        assert "broken.jsonl" in texts[0]
        assert "study-1-Copy1.jsonl" in texts[1]
        assert {warning.filename for warning in caught} == {__file__}

    def test_torn_line(self, store, path):
        """A torn last line is not counted, and no cause for a warning: another program may be writing it."""
        session = talk()
        save(store, session)
        with path.open("ab") as stream:
            stream.write(b'{"start": 2')
        (info,) = asyncio.run(store.list())
        assert info.message_count == 2

    def test_reads_what_changed(self, store, monkeypatch):
        """A second call reads only the files that were changed since the first."""
        parsed = []
        real = file.parse
        monkeypatch.setattr(file, "parse", lambda data, where: parsed.append(where) or real(data, where))
        for name in "abc":
            save(store, Session(name))
        first = asyncio.run(store.list())
        assert len(parsed) == 3
        assert asyncio.run(store.list()) == first
        assert len(parsed) == 3
        add(store, asyncio.run(store.load("b")), [UserMessage("x")])
        del parsed[:]
        infos = {info.id: info.message_count for info in asyncio.run(store.list())}
        assert infos == {"a": 0, "b": 1, "c": 0}
        assert len(parsed) == 1

    def test_is_no_read(self, folder, store):
        """A session that was only listed is not one that the store has read: it may be replaced."""
        session = talk()
        save(FileSessionStore(folder), session)
        asyncio.run(store.list())
        add(FileSessionStore(folder), session, say(session))
        save(store, session)
        assert load(store) == session

    def test_whole_conversation(self, store):
        """Tool calls, results and additions are counted as the session counts them."""
        session = talk()
        save(store, session)
        step = [AssistantMessage(ToolCall("c", "f")), ToolMessage("c", "f", "x")]
        add(store, session, step)
        add(store, session, [UserMessage("later")])
        (info,) = asyncio.run(store.list())
        assert (info.message_count, info.title) == (5, "question 0")
