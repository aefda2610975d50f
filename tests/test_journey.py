"""One session through everything: both APIs, another host, tools, pictures, a fork, a store, a compaction."""

import asyncio

import pytest
from scenarios import agent_for, note, shape

from cyclops_nb import Compaction, ImagePart, Session, transcript
from cyclops_nb.stores import FileSessionStore, InMemorySessionStore
from cyclops_nb.testing import reasoning, reply, text, tool_call

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def script():
    """Return a tool step, an answer, and answers to what follows."""
    return [
        reply(reasoning("I look it up."), text("Wait."), tool_call("note", {"n": 1}), usage=(10, 5)),
        reply(reasoning("Found."), text("It is one."), usage=(20, 5)),
        *(text(f"Answer {n}.", usage=(30 + n, 4)) for n in range(9)),
    ]


@pytest.mark.parametrize("order", [("chat", "responses"), ("responses", "chat")])
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_session_goes_anywhere_and_comes_back_equal(serve, order, kind, tmp_path):
    """Each strict server takes it, and after each leg what is stored is the session."""
    store = InMemorySessionStore() if kind == "memory" else FileSessionStore(tmp_path)
    here, there = serve(*script()), serve(*script())
    first, second = (agent_for(here, [note], api=api, session_store=store) for api in order)
    elsewhere = [
        agent_for(
            there, [note], api=api, session_store=store, base_url=there.base_url.replace("127.0.0.1", "localhost")
        )
        for api in order
    ]
    session = Session("journey")

    def go(agent, *question):
        agent.run(list(question), session=session)
        transcript.check(session.messages)
        assert asyncio.run(store.load(session.id)) == session

    go(first, "Look it up.", ImagePart(PNG, media_type="image/png"))
    go(second, "And under the other API?")
    go(first, "And back?")
    kept = list(session.messages)
    session = session.fork()
    assert session.messages == kept
    for agent in elsewhere:
        go(agent, "And on another host?")
    loaded = asyncio.run(store.load(session.id))
    assert loaded.messages[: len(kept)] == kept
    session = loaded
    go(second, "And loaded?")
    summary = second.replace(compaction=Compaction(keep_last=6)).compact(session)
    assert shape(session).startswith("s")
    assert summary.replaced > 2
    asyncio.run(store.save(session))
    assert asyncio.run(store.load(session.id)) == session
    for agent in (first, *elsewhere):
        go(agent, "And after the summary?")
    assert Session.model_validate_json(session.model_dump_json()) == session
    assert session.usage.requests == sum(run.usage.requests for run in session.runs)
    assert all(request.status == 200 for server in (here, there) for request in server.requests)
