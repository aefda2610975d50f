"""Keys reach the server they belong to, and nothing else."""

from __future__ import annotations

import pytest

from cyclops_nb import Agent, AgentConfig, FileSessionStore, ModelError, Session
from cyclops_nb.testing import ScriptedServer, error, error_in_stream, reply, text

KEY = "sk-test-0123456789abcdef"


def agent_for(server, **settings):
    """Return an agent with a key."""
    return Agent("scripted", base_url=server.base_url, api_key=KEY, **settings)


class TestKeys:
    """Where a key goes."""

    def test_it_is_sent_to_its_server(self):
        """The key given for a server arrives there."""
        with ScriptedServer(text("ok"), require_key=KEY) as server:
            assert agent_for(server).run("hi") == "ok"

    def test_the_openai_key_goes_to_no_other_server(self, monkeypatch):
        """``OPENAI_API_KEY`` and what stands beside it are not sent to another ``base_url``."""
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_ORG_ID", "org-0123456789")
        monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-0123456789")
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        with ScriptedServer(text("ok")) as server:
            Agent("scripted", base_url=server.base_url).run("hi")
            headers = str(server.requests[0].headers)
        assert not any(secret in headers for secret in (KEY, "org-", "proj-", "authorization"))

    def test_the_openai_key_goes_to_the_address_beside_it(self, monkeypatch):
        """With ``OPENAI_BASE_URL`` in the same environment the key goes there."""
        with ScriptedServer(text("ok"), require_key=KEY) as server:
            monkeypatch.setenv("OPENAI_API_KEY", KEY)
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
            assert Agent("scripted").run("hi") == "ok"


class TestTexts:
    """No text holds a key."""

    def test_no_repr_does(self):
        """Neither settings nor agents show it."""
        config = AgentConfig("m", api_key=KEY, default_headers={"x-key": KEY}, extra_body={"key": KEY})
        assert KEY not in f"{config!r} {Agent(config)!r} {config}"

    def test_no_saved_session_does(self, tmp_path):
        """The settings that a session keeps leave it out."""
        with ScriptedServer(text("ok")) as server:
            agent = agent_for(
                server,
                default_headers={"x-key": KEY},
                extra_body={"user": "me", "metadata": {"api_key": KEY}},
                session_store=FileSessionStore(tmp_path),
            )
            agent.run("hi", session=Session("s"))
        assert KEY not in (tmp_path / "s.jsonl").read_text()

    @pytest.mark.parametrize(
        "answer",
        [error(401, f"Incorrect API key provided: {KEY}."), reply(text("half"), error_in_stream(f"bad key {KEY}"))],
        ids=["status", "stream"],
    )
    def test_no_error_does(self, answer):
        """A server that repeats the key in its complaint does not bring it into the error, its cause or the record."""
        session = Session()
        with ScriptedServer(answer) as server, pytest.raises(ModelError, match="key") as caught:
            agent_for(server).run("hi", session=session)
        shown = f"{caught.value} {caught.value!r} {caught.value.__cause__} {session.model_dump_json()}"
        assert KEY not in shown
