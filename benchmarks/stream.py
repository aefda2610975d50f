"""A stream of 2,000 tokens, against the raw openai client reading the same."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
from common import compare

from cyclops_nb import Agent
from cyclops_nb.testing import ScriptedServer, text

TOKENS = ["word "] * 2000


async def main() -> None:
    with ScriptedServer(text("".join(TOKENS), chunks=TOKENS)) as server:
        agent = Agent("scripted", base_url=server.base_url)
        client = openai.AsyncOpenAI(api_key="none", base_url=server.base_url)

        async def events() -> None:
            async for _ in agent.astream_events("Go."):
                pass

        async def sync_text() -> None:
            await asyncio.to_thread(lambda: "".join(agent.stream("Go.")))

        async def raw() -> None:
            messages: list[Any] = [{"role": "user", "content": "Go."}]
            stream = await client.chat.completions.create(model="scripted", messages=messages, stream=True)
            async for chunk in stream:
                if chunk.choices:
                    _ = chunk.choices[0].delta.content

        await compare("2,000 tokens, astream_events", events, raw, repeat=2, goal=0.4)
        await compare("2,000 tokens, stream (sync)", sync_text, raw, repeat=2, goal=0.4)
        await client.close()


if __name__ == "__main__":
    asyncio.run(main())
