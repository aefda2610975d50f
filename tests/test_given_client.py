"""A client of the user's own."""

from __future__ import annotations

import asyncio

import openai
import pytest

from cyclops_nb import Agent, ConfigError, ModelError, Session
from cyclops_nb.testing import ScriptedServer, raw, text


class TestGivenClient:
    """``Agent(client=...)``."""

    def test_is_used_as_it_is(self):
        """Requests go through it, with its key."""
        with ScriptedServer(text("ok"), require_key="sk-mine") as server:

            async def main():
                async with openai.AsyncOpenAI(api_key="sk-mine", base_url=server.base_url) as client:
                    return await Agent("scripted", client=client).arun("hi")

            assert asyncio.run(main()) == "ok"

    def test_speaks_either_api(self):
        """The Responses API goes through it as well, to its address."""
        with ScriptedServer(text("ok"), require_key="sk-mine") as server:

            async def main():
                async with openai.AsyncOpenAI(api_key="sk-mine", base_url=server.base_url) as client:
                    return await Agent("scripted", client=client, api="responses").arun("hi")

            assert asyncio.run(main()) == "ok"
            assert [request.path for request in server.completions] == ["/v1/responses"]

    def test_on_another_loop_is_refused(self):
        """Its connections belong to the loop of its first use, whichever agent uses it."""
        with ScriptedServer(text("ok")) as server:
            client = openai.AsyncOpenAI(api_key="sk-mine", base_url=server.base_url, max_retries=0)

            async def main():
                return await Agent("scripted", client=client).arun("hi")

            async def close():
                await main()
                await client.close()

            asyncio.run(close())
            with pytest.raises(ConfigError, match="another event loop"):
                asyncio.run(main())

    @pytest.mark.parametrize("wrong", [openai.OpenAI(api_key="x"), 5])
    def test_must_be_async(self, wrong):
        """Anything else is refused by name."""
        with pytest.raises(ConfigError, match=r"must be an openai\.AsyncOpenAI"):
            Agent("m", client=wrong)

    @pytest.mark.parametrize(
        "setting", [{"base_url": "http://127.0.0.1:9/v1"}, {"api_key": "sk-other"}, {"timeout": 1}]
    )
    def test_takes_no_settings_that_are_its_own(self, setting):
        """What belongs to the client cannot be set beside it, where it would be ignored."""
        with pytest.raises(ConfigError, match=next(iter(setting))):
            Agent("m", client=openai.AsyncOpenAI(api_key="x"), **setting)


class TestRedirects:
    """A server that points elsewhere."""

    def test_are_not_followed(self):
        """Keys in headers would go along, so the run fails and names where the server points."""
        with ScriptedServer(text("stolen")) as elsewhere:
            answer = raw(b"", status=307, headers={"location": f"{elsewhere.base_url}/chat/completions"})
            with ScriptedServer(answer) as server:
                agent = Agent("m", base_url=server.base_url, default_headers={"x-key": "sk-secret-1"}, max_retries=0)
                with pytest.raises(ModelError, match="redirects to"):
                    agent.run("hi", session=Session())
            assert elsewhere.requests == []
