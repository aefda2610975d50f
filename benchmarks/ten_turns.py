"""Ten turns in one session, against the raw openai client and a list of messages."""

from __future__ import annotations

import asyncio
from typing import Any

from common import asking, compare

from cyclops_nb import Agent, Session

QUESTION = "And what is the capital of the next one?"


async def main() -> None:
    async with asking() as (server, ask):
        agent = Agent("scripted", base_url=server.base_url)

        async def ours() -> None:
            session = Session()
            for _ in range(10):
                await agent.arun(QUESTION, session=session)

        async def raw() -> None:
            messages: list[Any] = []
            for _ in range(10):
                messages.append({"role": "user", "content": QUESTION})
                messages.append({"role": "assistant", "content": await ask(messages)})

        await compare("10 turns, one session", ours, raw, repeat=5, goal=1.3)


if __name__ == "__main__":
    asyncio.run(main())
