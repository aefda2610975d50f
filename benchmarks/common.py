"""What the benchmarks share: interleaved rounds, medians, and one line of result."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable

ROUNDS = 7


async def compare(
    what: str,
    ours: Callable[[], Awaitable[object]],
    raw: Callable[[], Awaitable[object]],
    *,
    repeat: int,
    goal: float,
) -> None:
    """Time both in turn, so that a busy machine slows both, and print the ratio of the medians."""
    await ours()
    await raw()
    times: dict[str, list[float]] = {"ours": [], "raw": []}
    for _ in range(ROUNDS):
        for name, call in (("raw", raw), ("ours", ours)):
            start = time.perf_counter()
            for _ in range(repeat):
                await call()
            times[name].append((time.perf_counter() - start) / repeat)
    ours_ms, raw_ms = (statistics.median(times[name]) * 1000 for name in ("ours", "raw"))
    print(f"{what}: {ours_ms:.2f} ms, raw openai client {raw_ms:.2f} ms, ratio {ours_ms / raw_ms:.2f} (goal {goal})")
