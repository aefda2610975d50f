"""An append to notebooks of 10, 1,000 and 10,000 messages, against a copy of the file and a whole rewrite."""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import nbformat

from cyclops_nb import AssistantMessage, NotebookSessionStore, Run, Session, Usage, UserMessage
from cyclops_nb.messages import Message

SIZES = (10, 1_000, 10_000)
ROUNDS = 9
TEXT = "Paris is the capital of France, and its largest city. " * 2


def turn(session: Session) -> list[Message]:
    """Do what a run does, and return the new messages."""
    run = Run(session_id=session.id, model="m", usage=Usage(1, 100, 20), cost=0.001, stop_reason="completed")
    number = len(session.messages)
    new: list[Message] = [
        UserMessage(f"question {number}?", run_id=run.id),
        AssistantMessage(TEXT, run_id=run.id, model="m", finish_reason="stop", usage=Usage(1, 100, 20), cost=0.001),
    ]
    session.messages += new
    session.runs.append(run)
    return new


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def copy(source: Path, target: Path) -> None:
    """Copy a file such that it outlives a crash, as a store must."""
    shutil.copyfile(source, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = NotebookSessionStore(folder)
        sessions = {}
        for size in SIZES:
            session = sessions[size] = Session(f"s{size}")
            while len(session.messages) < size:
                turn(session)
            asyncio.run(store.save(session))
            asyncio.run(store.add_messages(session, turn(session)))  # the first one writes all runs
        longest = folder / f"s{SIZES[-1]}.ipynb"

        def append(size: int) -> float:
            new = turn(sessions[size])
            return seconds(lambda: asyncio.run(store.add_messages(sessions[size], new)))

        def rewrite() -> None:
            notebook = nbformat.read(longest, nbformat.NO_CONVERT)
            nbformat.write(notebook, folder / "rewritten")

        times: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for size in SIZES:
                times.setdefault(f"append to {size:,}", []).append(append(size))
            times.setdefault("plain copy", []).append(seconds(lambda: shutil.copyfile(longest, folder / "copied")))
            times.setdefault("copy, flushed", []).append(seconds(lambda: copy(longest, folder / "flushed")))
        times["rewrite through nbformat"] = [seconds(rewrite) for _ in range(3)]
        median = {name: statistics.median(values) for name, values in times.items()}
        loaded = asyncio.run(NotebookSessionStore(folder).load(f"s{SIZES[-1]}"))
        assert loaded == sessions[SIZES[-1]]
        print(f"{longest.stat().st_size / 1e6:.1f} MB for {SIZES[-1]:,} messages and {SIZES[-1] // 2:,} runs")
        for what, value in median.items():
            print(f"{what}: {value * 1000:.1f} ms")
        small, large = median[f"append to {SIZES[0]}"], median[f"append to {SIZES[-1]:,}"]
        limit = 5 * small + 3 * median["plain copy"]
        print(f"the longest against 5 x the shortest plus 3 x the plain copy: {large / limit:.2f} (goal 1)")


if __name__ == "__main__":
    main()
