"""A run of three tool steps and an answer, against the loop one writes by hand on the raw openai client."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
from common import compare

from cyclops_nb import Agent, tool
from cyclops_nb.testing import ScriptedServer, text, tool_call


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    script = [tool_call("add", {"a": 1, "b": 2}) for _ in range(3)]
    with ScriptedServer([*script, text("The sum is 3.")], repeat=True) as server:
        agent = Agent("scripted", tools=[add], base_url=server.base_url)
        client = openai.AsyncOpenAI(api_key="none", base_url=server.base_url)
        tools: list[Any] = [{"type": "function", "function": add.schema()}]

        async def ours() -> None:
            await agent.arun("Add.")

        async def raw() -> None:
            messages: list[Any] = [{"role": "user", "content": "Add."}]
            while True:
                answer = await client.chat.completions.create(model="scripted", messages=messages, tools=tools)
                message = answer.choices[0].message
                messages.append(message.model_dump(exclude_none=True))
                if not message.tool_calls:
                    return
                for call in message.tool_calls:
                    result = await add(**json.loads(call.function.arguments))
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})

        await compare("3 tool steps", ours, raw, repeat=15, goal=1.3)
        await client.close()


if __name__ == "__main__":
    asyncio.run(main())
