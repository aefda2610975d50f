"""One turn, against the raw openai client."""

from __future__ import annotations

import asyncio

from common import asking, compare

from cyclops_nb import Agent


async def main() -> None:
    async with asking() as (server, ask):
        agent = Agent("scripted", base_url=server.base_url)

        async def ours() -> None:
            await agent.arun("What is the capital of France?")

        async def raw() -> None:
            await ask([{"role": "user", "content": "What is the capital of France?"}])

        await compare("1 turn, arun", ours, raw, repeat=50, goal=1.3)


if __name__ == "__main__":
    asyncio.run(main())
