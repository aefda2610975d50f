"""One turn, and ten turns in one session, against the raw openai client."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
from common import compare

from cyclops_nb import Agent, Session
from cyclops_nb.testing import ScriptedServer, text

ANSWER = "Paris is the capital of France, and its largest city."


async def main() -> None:
    with ScriptedServer(text(ANSWER)) as server:
        agent = Agent("scripted", base_url=server.base_url)
        client = openai.AsyncOpenAI(api_key="none", base_url=server.base_url)

        async def ask(messages: list[Any]) -> str:
            answer = await client.chat.completions.create(model="scripted", messages=messages)
            return answer.choices[0].message.content or ""

        async def one() -> None:
            await agent.arun("What is the capital of France?")

        async def one_raw() -> None:
            await ask([{"role": "user", "content": "What is the capital of France?"}])

        async def ten() -> None:
            session = Session()
            for _ in range(10):
                await agent.arun("And what is the capital of the next one?", session=session)

        async def ten_raw() -> None:
            messages: list[Any] = []
            for _ in range(10):
                messages.append({"role": "user", "content": "And what is the capital of the next one?"})
                messages.append({"role": "assistant", "content": await ask(messages)})

        await compare("1 turn, arun", one, one_raw, repeat=50, goal=1.3)
        await compare("10 turns, one session", ten, ten_raw, repeat=5, goal=1.3)
        await client.close()


if __name__ == "__main__":
    asyncio.run(main())
