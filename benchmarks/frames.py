"""Rows per second of the frames of 1,000 sessions of 100 messages, against ``pandas.json_normalize`` of the same."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd

from cyclops_nb import (
    AssistantMessage,
    Run,
    Session,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    messages_frame,
    runs_frame,
    steps_frame,
    tool_calls_frame,
    usage_table,
)
from cyclops_nb.messages import Message

SESSIONS = 1_000
TURNS = 25
ROUNDS = 5
TEXT = "Paris is the capital of France, and its largest city. " * 10


def session(number: int) -> Session:
    """Return a session of 25 runs, each of four messages, one of which calls a tool."""
    made = Session(f"s{number}", configs={"c": {"model": "m", "temperature": number % 3}})
    for turn in range(TURNS):
        run = Run(session_id=made.id, config="c", model="m", steps=2, usage=Usage(2, 400, 80), cost=0.001, duration=1.5)
        shared: dict[str, Any] = {"run_id": run.id, "model": "m", "usage": Usage(1, 200, 40), "duration": 0.7}
        new: list[Message] = [
            UserMessage(f"question {turn}?", run_id=run.id),
            AssistantMessage([ToolCall("call_1", "search", '{"query": "Paris"}')], cost=0.0005, **shared),
            ToolMessage("call_1", "search", TEXT, run_id=run.id, duration=0.1),
            AssistantMessage(TEXT, cost=0.0005, **shared),
        ]
        made.messages += new
        made.runs.append(run)
    return made


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def rate(rows: int, times: list[float]) -> str:
    """Return rows, and rows per second, of the median."""
    median = statistics.median(times)
    return f"{median:.2f} s ({rows / median:,.0f} rows/s)"


def main() -> None:
    sessions = [session(number) for number in range(SESSIONS)]
    data = [one.model_dump(mode="json") for one in sessions]
    for frame, part in ((messages_frame, "messages"), (runs_frame, "runs")):
        ours: list[float] = []
        theirs: list[float] = []
        rows = len(frame(sessions))
        for _ in range(ROUNDS):
            ours.append(seconds(partial(frame, sessions)))
            theirs.append(seconds(partial(pd.json_normalize, data, part, ["id"], meta_prefix="session.")))
        ratio = statistics.median(ours) / statistics.median(theirs)
        told = f"{rate(rows, ours)}, json_normalize {rate(rows, theirs)}, ratio {ratio:.2f}"
        print(f"{frame.__name__} of {rows:,} rows: {told}")
    for frame in (steps_frame, tool_calls_frame):
        rows = len(frame(sessions))
        told = rate(rows, [seconds(partial(frame, sessions)) for _ in range(ROUNDS)])
        print(f"{frame.__name__} of {rows:,} rows: {told}")
    print(f"usage_table of {SESSIONS:,} branches: {seconds(partial(usage_table, sessions, by='branch')):.2f} s")


if __name__ == "__main__":
    main()
