"""Lists of session files."""

import asyncio
import json
import os
import shutil

import pytest
from hypothesis import given
from stored import add, bytes_read, load, save, say, talk
from strategies import moderate, sessions

from cyclops_nb.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from cyclops_nb.stores import FileSessionStore

pytestmark = pytest.mark.filterwarnings("error")


def without_summaries(folder):
    """Return what a list tells where the lines do not say what lists show."""
    (path,) = folder.iterdir()
    lines = [json.loads(line) for line in path.read_bytes().removesuffix(b"\n").split(b"\n")]
    status = path.stat()
    for line in lines:
        del line["session_info"]
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    (info,) = asyncio.run(FileSessionStore(folder).list())
    return info


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

    def test_does_not_read_files_whole(self, store):
        """Of each file its end is read, whether the session was saved whole, or added to."""
        session = talk()
        session.messages.append(UserMessage("x" * 3_000_000))
        save(store, session)
        read, (info,) = bytes_read(lambda: asyncio.run(store.list()))
        assert read < 100_000
        assert (info.message_count, info.title) == (3, "question 0")
        add(store, session, [UserMessage("y" * 3_000_000)])
        read, (info,) = bytes_read(lambda: asyncio.run(store.list()))
        assert read < 100_000
        assert info.message_count == 4

    @pytest.mark.parametrize("saved", ["at once", "in pieces"])
    @moderate
    @given(session=sessions())
    def test_tells_the_same_as_a_reading_of_the_file(self, tmp_path_factory, saved, session):
        """For any session, title and length, what the end of the file says is what the whole of it says."""
        folder = tmp_path_factory.mktemp("sessions")
        session.id = "study-1"
        store = FileSessionStore(folder)
        messages = list(session.messages)
        if saved == "in pieces":
            del session.messages[len(messages) // 2 :]
        save(store, session)
        if saved == "in pieces":
            add(store, session, messages[len(messages) // 2 :])
        (quick,) = asyncio.run(store.list())
        assert quick == without_summaries(folder)

    def test_an_edit_by_hand_is_noticed(self, folder, store, path):
        """What stands at the end is not believed where something before it was changed."""
        save(store, talk(2))
        path.write_bytes(path.read_bytes().replace(b"question 0", b"Why?"))
        (info,) = asyncio.run(store.list())
        assert (info.title, info.message_count) == ("Why?", 4)

    def test_a_copy_under_another_name_is_left_out(self, folder, store, path):
        """A file that holds another session says so when it is listed, too."""
        save(store, talk())
        shutil.copy(path, folder / "study-2.jsonl")
        with pytest.warns(UserWarning, match=r"study-2.jsonl.*holds the session 'study-1'"):
            assert [info.id for info in asyncio.run(store.list())] == ["study-1"]

    @pytest.mark.parametrize(
        "text", [',"session_info":{"at":7,"id":"study-1","title":"no"}}', '"},"session_info":{"at":0']
    )
    def test_a_text_that_looks_like_it_is_none(self, store, text):
        """What a message says is not taken for what the store has written."""
        session = talk()
        save(store, session)
        new = [UserMessage(text)]
        session.messages.extend(new)
        add(store, session, new)
        (info,) = asyncio.run(store.list())
        assert (info.title, info.message_count) == ("question 0", 3)

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
