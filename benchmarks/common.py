"""What the benchmarks share: interleaved rounds, medians, and one line of result."""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import openai

from cyclops_nb.testing import ScriptedServer, text

ROUNDS = 7
ANSWER = "Paris is the capital of France, and its largest city."
Ask = Callable[[list[Any]], Awaitable[str]]


@asynccontextmanager
async def asking() -> AsyncIterator[tuple[ScriptedServer, Ask]]:
    """Give a server that answers, and the raw client's way of asking it."""
    with ScriptedServer(text(ANSWER)) as server:
        client = openai.AsyncOpenAI(api_key="none", base_url=server.base_url)

        async def ask(messages: list[Any]) -> str:
            answer = await client.chat.completions.create(model="scripted", messages=messages)
            return answer.choices[0].message.content or ""

        yield server, ask
        await client.close()


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
