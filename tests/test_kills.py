"""What a store has stored outlives its process: a share of the kills of ``python tests/kills.py``."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

from cyclops_nb import Session

HERE = Path(__file__).parent


def kill(*arguments):
    """Kill processes, from one of their own: the many threads of this one should not be forked."""
    return subprocess.run(
        [sys.executable, "kills.py", *arguments], cwd=HERE, capture_output=True, text=True, timeout=100, check=False
    )


class Files:
    """A store in files that loses nothing as long as nobody is killed, for others to break."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, session_id):
        return self.folder / f"{session_id}.json"

    async def load(self, session_id):
        path = self.path(session_id)
        return Session.model_validate_json(path.read_text("utf-8")) if path.exists() else None

    async def save(self, session):
        await asyncio.to_thread(self.write, self.path(session.id), session.model_dump_json())

    async def add_messages(self, session, messages):
        stored = await self.load(session.id)
        await self.save(session.model_copy(update={"messages": [*stored.messages, *messages]}))

    async def delete(self, session_id):
        self.path(session_id).unlink(missing_ok=True)

    def write(self, path, text):
        whole = path.with_suffix(".tmp")
        fill(whole, text)
        whole.replace(path)


def fill(path, text):
    """Write a file piece by piece, as slowly as a disk may be."""
    with path.open("wb", buffering=0) as file:
        data, size = text.encode(), len(text) // 8 + 1
        for start in range(0, len(data), size):
            file.write(data[start : start + size])
            os.fsync(file.fileno())


class WritesInPlace(Files):
    def write(self, path, text):
        fill(path, text)


class WritesLater(Files):
    later = None

    async def load(self, session_id):
        self.flush()
        return await super().load(session_id)

    async def save(self, session):
        self.flush()
        self.later = (self.path(session.id), session.model_dump_json())

    def flush(self):
        if self.later is not None:
            self.write(*self.later)
            self.later = None


def test_a_killed_process_loses_nothing_that_was_stored():
    """What loads is valid, is what a call has left or was about to, and can be gone on with."""
    done = kill("--kills", "8", "--seed", "1")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    lines = done.stdout.splitlines()
    assert [line.partition(" kills, ")[0] for line in lines] == [
        "FileSessionStore: 8",
        "NotebookSessionStore: 8",
        "SQLiteSessionStore: 8",
    ]
    assert all("8 kills, 0 violations" in line for line in lines)


def test_what_is_lost_is_found():
    """The kills find stores that write in place or too late, and say nothing against a sound one."""
    done = kill(
        "--kills", "8", "--stores", *(f"test_kills:{name}" for name in ("Files", "WritesInPlace", "WritesLater"))
    )
    assert (done.returncode, done.stderr) == (1, "")
    found = re.findall(r":(\w+): 8 kills, (\d+) violations", done.stdout)
    assert [name for name, count in found if count != "0"] == ["WritesInPlace", "WritesLater"], done.stdout
    assert found[0] == ("Files", "0"), done.stdout
