"""A list of 10,000 stored sessions, against reading the first line of each file as JSON."""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cyclops_nb import AssistantMessage, FileSessionStore, Session, UserMessage

COUNT = 10_000
ROUNDS = 3
TEXT = "Paris is the capital of France, and its largest city. " * 20


def fill(folder: Path) -> None:
    """Write files as a store does: one by it, the others after its example, for 10,000 flushes take minutes."""
    session = Session("x")
    for number in range(10):
        session.messages += [UserMessage(f"question {number}"), AssistantMessage(TEXT)]
    asyncio.run(FileSessionStore(folder).save(session))
    data = (folder / "x.jsonl").read_bytes()
    (folder / "x.jsonl").unlink()
    for number in range(COUNT):
        name = f"s{number:05}"
        line = data.replace(b'"id":"x"', b'"id":"%b"' % name.encode())
        place = line.rindex(b',"session_info"')
        old = data.rindex(b',"session_info"')
        (folder / f"{name}.jsonl").write_bytes(line.replace(b'{"at":%d,' % old, b'{"at":%d,' % place))


def by_hand(folder: Path) -> list[tuple[str, int]]:
    """Do what one would do without a store's list."""
    found = []
    for path in folder.glob("*.jsonl"):
        with path.open("rb") as file:
            data = json.loads(file.readline())
        found.append((data["id"], len(data["messages"])))
    return sorted(found)


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder)
        listed = asyncio.run(FileSessionStore(folder).list())
        assert sorted((info.id, info.message_count) for info in listed) == by_hand(folder)
        times: dict[str, list[float]] = {"ours": [], "by hand": []}
        for _ in range(ROUNDS):
            times["by hand"].append(seconds(lambda: by_hand(folder)))
            times["ours"].append(seconds(lambda: asyncio.run(FileSessionStore(folder).list())))
    ours, hand = (statistics.median(times[name]) for name in ("ours", "by hand"))
    told = f"{ours * 1000:.0f} ms, json of the first lines {hand * 1000:.0f} ms, ratio {ours / hand:.2f}"
    print(f"list of {COUNT} sessions: {told}")


if __name__ == "__main__":
    main()
