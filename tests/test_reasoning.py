"""What models think: in its place among text and calls, kept, and sent back where it is wanted."""

import asyncio
import json

import pytest
from scenarios import FORMS, agent_for, call, note

from cyclops_nb import ReasoningDelta, ReasoningPart, Session
from cyclops_nb.stores import FileSessionStore, InMemorySessionStore
from cyclops_nb.testing import reasoning, reply, text, tool_call

APIS = ["chat", "responses"]
SIGNED = {"reasoning_details": [{"type": "reasoning.encrypted", "data": "c2VjcmV0"}], "field": "reasoning_details"}


def thinking_script():
    """Return a script of a step that thinks, speaks and calls, and of a step that thinks and answers."""
    return [
        reply(reasoning("I should look."), text("Wait."), tool_call("note", {"n": 1}), usage=(10, 5)),
        reply(reasoning("Now I know."), text("Done."), usage=(20, 6)),
        text("Again."),
    ]


@pytest.mark.parametrize("api", APIS)
class TestBothApis:
    """The same under both."""

    @pytest.mark.parametrize("form", FORMS)
    def test_parts_in_order(self, ask, api, form):
        """As they came, in every form; the text of the answer has none of it."""
        session = Session()
        assert call(ask(*thinking_script(), tools=[note], api=api), form, "go", session=session) in (
            "Done.",
            "Wait.Done.",
        )
        first, last = session.messages[1], session.messages[3]
        assert [part.type for part in first.content] == ["reasoning", "text", "tool_call"]
        assert (first.reasoning, first.text) == ("I should look.", "Wait.")
        assert (last.reasoning, last.text) == ("Now I know.", "Done.")

    def test_events(self, ask, api):
        """Deltas of reasoning are told apart from those of text."""
        events = list(ask(*thinking_script(), tools=[note], api=api).stream_events("go"))
        assert (
            "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "I should look.Now I know."
        )

    def test_effort(self, ask, api):
        """Sent as the API wants it."""
        agent = ask(text("x"), api=api, reasoning_effort="high")
        agent.run("go")
        body = agent.server.requests[0].body
        assert body.get("reasoning_effort") == ("high" if api == "chat" else None)
        assert (body.get("reasoning") or {}).get("effort") == (None if api == "chat" else "high")

    def test_forks_and_stores_keep_it(self, ask, api, tmp_path):
        """Text and what only the provider understands."""
        session = Session("study-1")
        ask(*thinking_script(), tools=[note], api=api).run("go", session=session)
        assert session.fork().messages == session.messages
        for store in (InMemorySessionStore(), FileSessionStore(tmp_path)):
            asyncio.run(store.save(session))
            assert asyncio.run(store.load("study-1")) == session

    @pytest.mark.parametrize("replay", ["auto", "always", "never"])
    def test_the_next_turn_is_taken_by_a_strict_server(self, ask, api, replay):
        """Whatever is sent back."""
        session = Session()
        agent = ask(*thinking_script(), tools=[note], api=api, reasoning_replay=replay)
        agent.run("go", session=session)
        assert agent.run("go on", session=session) == "Again."

    def test_never_in_the_text(self, ask, api):
        """Nothing of it is mixed into what the assistant said."""
        session = Session()
        agent = ask(*thinking_script(), tools=[note], api=api)
        agent.run("go", session=session)
        agent.run("go on", session=session)
        body = agent.server.requests[-1].body
        for message in body.get("messages") or [item for item in body["input"] if item.get("type") == "message"]:
            assert "I should look" not in json.dumps(message.get("content"))


class TestReplay:
    """To whom it goes."""

    def test_signed_reasoning_goes_back_to_its_host_alone(self, serve):
        """Another provider would refuse it."""
        server = serve(text("x"), repeat=True)
        agent = agent_for(server)
        session = Session()
        agent.run("go", session=session)
        said = session.messages[1]
        part = ReasoningPart("", provider_metadata=SIGNED)
        session.messages[1] = said.model_copy(update={"content": (part, *said.content)})
        agent.run("go on", session=session)
        assert server.completions[1].messages[1]["reasoning_details"] == SIGNED["reasoning_details"]
        other = serve(text("y"))
        elsewhere = agent_for(other, base_url=other.base_url.replace("127.0.0.1", "localhost"))
        elsewhere.run("and you?", session=session)
        assert "c2VjcmV0" not in json.dumps(other.completions[0].body)
        assert session.messages[1].content[0] == part
