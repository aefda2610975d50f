"""Session files that are torn or damaged."""

import asyncio
import copy
import json
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import add, load, names, save, say, talk
from strategies import moderate, sessions

from cyclops_nb.errors import SessionConflictError, SessionFormatError
from cyclops_nb.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from cyclops_nb.session import Session
from cyclops_nb.stores import FileSessionStore, read_session
from cyclops_nb.transcript import find_problems

pytestmark = pytest.mark.filterwarnings("error")


class TestTornLine:
    @pytest.mark.parametrize("behind", [b"", b"\n", b"\n\n", b" \r\n"])
    def test_every_offset(self, folder, path, behind):
        """Wherever the last line is cut, all lines before it load with a warning, and no write is glued to the rest.

        The line is a step, with a call and its results, and has characters of two to four bytes. None of it is left:
        the transcript stays valid.
        """
        session = Session("study-1")
        session.messages.append(UserMessage("two calls, please"))
        first = FileSessionStore(folder)
        save(first, session)
        add(first, session, say(session))
        whole = copy.copy(session)
        start = path.stat().st_size
        step = [
            AssistantMessage([ToolCall("a", "f"), ToolCall("b", "f")]),
            ToolMessage("a", "f", "ü"),
            ToolMessage("b", "f", "😀\u2028"),
        ]
        session.messages.extend(step)
        add(first, session, step)
        data = path.read_bytes()

        async def go_on(cut):
            """Load, and write in one of the ways that there are."""
            store = FileSessionStore(folder)
            if cut % 3 == 0:  # without a load
                loaded = copy.copy(whole)
                with pytest.warns(UserWarning, match="torn line"):
                    await store.add_messages(loaded, say(loaded))
                return loaded, 3
            with pytest.warns(UserWarning, match=r"study-1.jsonl' ends with a torn line, which was left out"):
                loaded = await store.load("study-1")
            assert loaded == whole
            assert find_problems(loaded.messages) == []
            assert path.read_bytes() == data[:cut] + behind
            new = say(loaded)
            await (store.add_messages(loaded, new) if cut % 3 == 1 else store.save(loaded))
            return loaded, 3 if cut % 3 == 1 else 1

        async def main():
            for cut in range(start + 1, len(data) - 1):
                path.write_bytes(data[:cut] + behind)
                expected, lines = await go_on(cut)
                assert await FileSessionStore(folder).load("study-1") == expected
                assert path.read_bytes().count(b"\n") == lines
                assert lines == 1 or path.read_bytes().startswith(data[:start])

        asyncio.run(main())
        assert names(folder) == ["study-1.jsonl"]

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
        assert load(FileSessionStore(folder)) == session
        assert names(folder) == ["study-1.jsonl"]
        assert path.read_bytes().count(b"\n") == 1

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
        session, store = talk(), FileSessionStore(path.parent)
        save(store, session)
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

    def test_delete(self, path):
        """A damaged session can be deleted."""
        self.damaged(path, 2, b"{")
        asyncio.run(FileSessionStore(path.parent).delete("study-1"))
        assert names(path.parent) == []

    def test_damage_behind_the_back(self, path):
        """What was damaged since the store read it is in nobody's way, but nothing is written over it either."""
        session, store = talk(), FileSessionStore(path.parent)
        save(store, session)
        add(store, session, say(session))
        data = path.read_bytes().replace(b"question", b"quest", 1)[:-30] + b"\n{}\n"
        path.write_bytes(data)
        for call in (lambda: save(store, session), lambda: add(store, session, []), lambda: load(store)):
            with pytest.raises((SessionConflictError, SessionFormatError), match=r"study-1\.jsonl"):
                call()
        with pytest.raises(SessionConflictError):
            save(store, session)
        assert path.read_bytes() == data
        assert names(path.parent) == ["study-1.jsonl"]

    @given(data=st.data())
    @settings(moderate, max_examples=60)
    def test_any_damage(self, tmp_path_factory, data):
        """Whatever is done to a file, reading says what is wrong or gives a session, and writing loses nothing."""
        folder = tmp_path_factory.mktemp("damage")
        session, store, path = talk(), FileSessionStore(folder), folder / "study-1.jsonl"
        save(store, session)
        add(store, session, say(session))
        add(store, session, [])
        whole = path.read_bytes()
        start = data.draw(st.integers(0, len(whole)))
        end = data.draw(st.integers(start, min(len(whole), start + 40)))
        other = data.draw(
            st.binary(max_size=8) | st.sampled_from([b"", b"\n", b"}", b'"', b"\\", b"\xff", b"{}", b"9", b"[["])
        )
        damaged = whole[:start] + other + whole[end:]
        path.write_bytes(damaged)

        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            refusal = ""
            try:
                assert load(FileSessionStore(folder)).id == "study-1"
            except SessionFormatError as error:
                refusal = str(error)
            assert not refusal or "study-1.jsonl', line " in refusal
            for info in asyncio.run(store.list()):
                assert (info.id, info.path) == ("study-1", path)
            assert path.read_bytes() == damaged
            if refusal:
                with pytest.raises(SessionFormatError):
                    add(FileSessionStore(folder), session, say(session))
                assert path.read_bytes() == damaged
            save(FileSessionStore(folder), session)
        assert load(FileSessionStore(folder)) == session
        backup = folder / "study-1.backup-1.jsonl"
        if refusal and damaged:
            assert backup.read_bytes() == damaged
