"""Short forms of servers, and which key arrives where: looked at in the headers that servers get."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values

from cyclops_nb import Agent, AgentConfig, ConfigError, ModelError
from cyclops_nb.models import presets
from cyclops_nb.models.presets import PRESETS, is_service, resolve, wants_reasoning
from cyclops_nb.models.windows import window_of
from cyclops_nb.testing import raw, text

PAGE = Path(__file__).parents[1] / "docs" / "servers.md"
SERVICES = sorted(name for name, preset in PRESETS.items() if preset.key_variables)
OWN = sorted(name for name, preset in PRESETS.items() if not preset.key_variables)
OTHER_SECRETS = (
    "OPENAI_ADMIN_KEY",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT_ID",
    "OPENAI_WEBHOOK_SECRET",
    "OPENAI_CUSTOM_HEADERS",
    "AZURE_OPENAI_API_KEY",
    "AZURE_OPENAI_AD_TOKEN",
    "OLLAMA_API_KEY",
    "VLLM_API_KEY",
    "LLAMA_API_KEY",
    "GITHUB_TOKEN",
)


def sentinel(variable):
    """Return the key that stands in a variable."""
    return f"sentinel-{variable.lower().replace('_', '-')}"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    """An environment without keys and addresses."""
    for variable in ["OPENAI_BASE_URL", "OLLAMA_HOST", *OTHER_SECRETS, *all_variables()]:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def all_keys(no_keys, monkeypatch):
    """An environment with a key for everything."""
    for variable in [*OTHER_SECRETS, *all_variables()]:
        header = "x-secret: " if variable == "OPENAI_CUSTOM_HEADERS" else ""
        monkeypatch.setenv(variable, header + sentinel(variable))


def all_variables():
    """Return the variables of all services."""
    return [variable for preset in PRESETS.values() for variable in preset.key_variables]


def headers_at(server):
    """Return all headers that have arrived at a server, as one text."""
    return " ".join(f"{name}: {value}" for request in server.requests for name, value in request.headers.items())


def move(monkeypatch, name, server):
    """Let a preset's server be a scripted one."""
    monkeypatch.setitem(presets.PRESETS, name, PRESETS[name]._replace(base_url=server.base_url))


class TestTable:
    """What each row of the table says."""

    @pytest.mark.parametrize("name", SERVICES)
    def test_a_service_needs_its_key(self, name):
        """Without a key the error names the host and the variable, before anything is sent."""
        preset = PRESETS[name]
        with pytest.raises(ConfigError, match=f"no key for {urlsplit(preset.base_url).hostname}") as caught:
            resolve(AgentConfig(f"{name}:some-model"))
        assert all(variable in str(caught.value) for variable in preset.key_variables)
        assert "api_key=" in str(caught.value)

    @pytest.mark.parametrize("name", SERVICES)
    def test_a_service_is_asked_with_the_key_of_its_variable(self, name, all_keys):
        """The first of its variables holds its key, and the model's name goes without the prefix."""
        endpoint = resolve(AgentConfig(f"{name}:org/some-model:tag"))
        preset = PRESETS[name]
        assert (endpoint.base_url, endpoint.model) == (preset.base_url, "org/some-model:tag")
        assert (endpoint.api_key, endpoint.free) == (sentinel(preset.key_variables[0]), False)

    @pytest.mark.parametrize("name", OWN)
    def test_a_program_of_ones_own_needs_none_and_is_free(self, name, all_keys):
        """A program on this computer is asked without a key, and its tokens cost nothing."""
        endpoint = resolve(AgentConfig(f"{name}:qwen3:8b"))
        assert (endpoint.base_url, endpoint.model) == (PRESETS[name].base_url, "qwen3:8b")
        assert (endpoint.api_key, endpoint.free, endpoint.host) == ("", True, "127.0.0.1")

    @pytest.mark.parametrize("name", sorted(PRESETS))
    def test_addresses_are_sound(self, name):
        """Services are reached with encryption, and each address is one that the setting takes."""
        preset = PRESETS[name]
        assert AgentConfig("m", base_url=preset.base_url).base_url == preset.base_url
        assert preset.base_url.startswith("https://" if preset.key_variables else "http://127.0.0.1:")
        assert preset.free == (not preset.key_variables)
        assert is_service(preset.base_url) == bool(preset.key_variables)

    def test_is_the_documented_one(self):
        """The page on servers has a row for each short form, with its address and its variables, and no others."""
        rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
        assert [row.split("`")[1] for row in rows] == [f"{name}:" for name in [*SERVICES, *OWN]]
        for row, name in zip(rows, [*SERVICES, *OWN], strict=True):
            preset = PRESETS[name]
            assert all(f"`{word}`" in row for word in (preset.base_url, *preset.key_variables))

    def test_a_given_key_wins(self, all_keys):
        """A key that is passed is taken, whatever the environment has."""
        assert resolve(AgentConfig("groq:m", api_key="mine")).api_key == "mine"
        assert resolve(AgentConfig("ollama:m", api_key="mine")).api_key == "mine"

    def test_the_second_variable_counts_where_the_first_is_unset(self, monkeypatch):
        """A variable that is empty counts as one that is not set, and white space around a key is no part of it."""
        monkeypatch.setenv("GEMINI_API_KEY", " ")
        monkeypatch.setenv("GOOGLE_API_KEY", "second\n")
        assert resolve(AgentConfig("gemini:m")).api_key == "second"

    def test_a_damaged_key_is_named_by_its_variable(self, monkeypatch):
        """Characters that no key has are an error that names the variable and not the key."""
        monkeypatch.setenv("GROQ_API_KEY", "abc\u200bdef")
        with pytest.raises(ConfigError, match="key in GROQ_API_KEY has characters") as caught:
            resolve(AgentConfig("groq:m"))
        assert "abc" not in str(caught.value)

    def test_a_header_of_ones_own_stands_for_the_key(self):
        """Who passes the header that holds the key needs no other one; any other header is no key."""
        assert resolve(AgentConfig("groq:m", default_headers={"Authorization": "Bearer abc"})).api_key == ""
        with pytest.raises(ConfigError, match="no key"):
            resolve(AgentConfig("groq:m", default_headers={"x-title": "study"}))

    @pytest.mark.parametrize("model", ["ollama:", "openrouter:", "openai:"])
    def test_a_prefix_alone_is_no_model(self, model, all_keys):
        """A short form without a model's name is an error that shows the form."""
        with pytest.raises(ConfigError, match=f"as in '{model}model'"):
            resolve(AgentConfig(model))

    @pytest.mark.parametrize(
        ("host", "wanted"),
        [
            ("api.deepseek.com", True),
            ("api.moonshot.ai", True),
            ("api.moonshot.cn", True),
            ("api.xiaomimimo.com", True),
            ("api.openai.com", False),
            ("notapi.deepseek.com", False),
            ("127.0.0.1", False),
            ("", False),
        ],
    )
    def test_some_hosts_want_reasoning_back(self, host, wanted):
        """The table knows the hosts that refuse a conversation whose reasoning is left out."""
        assert wants_reasoning(host) == wanted


class TestNames:
    """What a colon in a model's name means."""

    @pytest.mark.parametrize(
        "model", ["qwen3:8b", "ft:gpt-4o-mini:org::id", "org/name:free", "gpt-4o", "Ollama:x", "a:b:c", ":x"]
    )
    def test_an_unknown_prefix_is_a_part_of_the_name(self, model, all_keys):
        """A name with a colon but no known prefix stays as it is."""
        endpoint = resolve(AgentConfig(model))
        assert (endpoint.model, endpoint.base_url) == (model, "https://api.openai.com/v1")

    def test_openai_is_the_default(self, all_keys):
        """``openai:`` says what no prefix says."""
        assert resolve(AgentConfig("openai:gpt-4o")) == resolve(AgentConfig("gpt-4o"))

    @pytest.mark.parametrize("name", OWN)
    def test_with_an_address_ones_own_program_is_there(self, name):
        """The prefix of a program of one's own says what runs at a given address: without a key, and free."""
        endpoint = resolve(AgentConfig(f"{name}:qwen3:8b", base_url="https://gpu.example.org/v1"))
        assert (endpoint.base_url, endpoint.model) == ("https://gpu.example.org/v1", "qwen3:8b")
        assert (endpoint.free, endpoint.api_key) == (True, "")

    @pytest.mark.parametrize("name", SERVICES)
    def test_with_an_address_the_name_of_a_service_is_a_name(self, name, all_keys):
        """A service has its own address; with another one its prefix is a part of the name, as of ``mistral:7b``."""
        endpoint = resolve(AgentConfig(f"{name}:7b", base_url="http://127.0.0.1:11434/v1"))
        assert (endpoint.model, endpoint.base_url) == (f"{name}:7b", "http://127.0.0.1:11434/v1")
        assert (endpoint.free, endpoint.api_key) == (False, "")


class TestOllamaHost:
    """``OLLAMA_HOST`` is read as Ollama's own programs read it."""

    @pytest.mark.parametrize(
        ("value", "address"),
        [
            ("gpu", "http://gpu:11434/v1"),
            ("gpu:8080", "http://gpu:8080/v1"),
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),  # noqa: S104 - a value that users have
            ("0.0.0.0:1234", "http://127.0.0.1:1234/v1"),
            (":1234", "http://127.0.0.1:1234/v1"),
            ("http://gpu", "http://gpu/v1"),
            ("http://gpu:11434/", "http://gpu:11434/v1"),
            ("http://gpu:11434/v1", "http://gpu:11434/v1"),
            ("https://box.example.org/ollama", "https://box.example.org/ollama/v1"),
            ("[::1]:11434", "http://[::1]:11434/v1"),
            ("::1", "http://[::1]:11434/v1"),
            (' "gpu" ', "http://gpu:11434/v1"),
            ("", "http://127.0.0.1:11434/v1"),
        ],
    )
    def test_is_where_ollama_is(self, value, address, monkeypatch):
        """A host, a port, both, or a whole address; where a server listens everywhere, it is this computer."""
        monkeypatch.setenv("OLLAMA_HOST", value)
        assert resolve(AgentConfig("ollama:qwen3")).base_url == address

    @pytest.mark.parametrize("value", ["gpu:many", "ftp://gpu", "http://me:secret-1@gpu", "g pu", "["])
    def test_that_is_no_address_is_named(self, value, monkeypatch):
        """What is no address is an error that names the variable, and repeats no password."""
        monkeypatch.setenv("OLLAMA_HOST", value)
        with pytest.raises(ConfigError, match="OLLAMA_HOST in the environment") as caught:
            resolve(AgentConfig("ollama:qwen3"))
        assert "secret-1" not in str(caught.value)

    def test_is_nobody_elses(self, monkeypatch):
        """It moves Ollama alone, and a ``base_url`` wins over it."""
        monkeypatch.setenv("OLLAMA_HOST", "gpu")
        assert resolve(AgentConfig("vllm:m")).base_url == PRESETS["vllm"].base_url
        assert resolve(AgentConfig("ollama:m", base_url="http://here:1/v1")).base_url == "http://here:1/v1"


class TestArrival:
    """Which keys arrive at a server."""

    @pytest.mark.parametrize("model", ["scripted", "ollama:m", "vllm:m", "openrouter:m", "openai:m", "mistral:7b"])
    def test_none_at_an_address_that_was_given(self, model, serve, all_keys):
        """Whatever the model is called, a ``base_url`` gets no key of the environment, nor another secret of it."""
        server = serve(text("ok"))
        assert Agent(model, base_url=server.base_url).run("hi") == "ok"
        assert "authorization" not in server.requests[0].headers
        assert "sentinel" not in headers_at(server)

    @pytest.mark.parametrize("name", OWN)
    def test_none_at_a_program_of_ones_own(self, name, serve, all_keys, monkeypatch):
        """Programs on this computer get no key of any service."""
        server = serve(text("ok"))
        move(monkeypatch, name, server)
        assert Agent(f"{name}:m").run("hi") == "ok"
        assert "authorization" not in server.requests[0].headers
        assert "sentinel" not in headers_at(server)

    @pytest.mark.parametrize("name", ["openrouter", "groq", "gemini"])
    def test_its_own_alone_at_a_service(self, name, serve, all_keys, monkeypatch):
        """A service gets its own key and no other."""
        server = serve(text("ok"))
        move(monkeypatch, name, server)
        assert Agent(f"{name}:m").run("hi") == "ok"
        key = sentinel(PRESETS[name].key_variables[0])
        assert server.requests[0].headers["authorization"] == f"Bearer {key}"
        assert headers_at(server).count("sentinel") == 1

    def test_its_own_at_the_address_of_a_service(self, serve, all_keys, monkeypatch):
        """A service that is named by its address gets its key, too: keys belong to servers, not to short forms."""
        server = serve(text("ok"))
        move(monkeypatch, "openrouter", server)
        Agent("org/model", base_url=server.base_url).run("hi")
        assert server.requests[0].headers["authorization"] == f"Bearer {sentinel('OPENROUTER_API_KEY')}"

    def test_that_of_openai_at_the_address_beside_it(self, serve, all_keys, monkeypatch):
        """With ``OPENAI_BASE_URL`` in the same environment the key goes there, however the model is written."""
        server = serve(text("ok"), text("ok"), text("ok"))
        monkeypatch.setenv("OPENAI_BASE_URL", f" {server.base_url}\n")
        for agent in [Agent("m"), Agent("openai:m"), Agent("m", base_url=server.base_url)]:
            agent.run("hi")
        sent = [request.headers["authorization"] for request in server.requests]
        assert sent == [f"Bearer {sentinel('OPENAI_API_KEY')}"] * 3
        assert [request.body["model"] for request in server.requests] == ["m", "m", "m"]

    def test_that_of_another_address_is_not_openais(self, all_keys, monkeypatch):
        """A key that belongs to the address in ``OPENAI_BASE_URL`` is not sent to OpenAI."""
        monkeypatch.setenv("OPENAI_BASE_URL", "https://proxy.example.org/v1")
        with pytest.raises(ConfigError, match=r"pass api_key= \(OPENAI_API_KEY belongs to the address"):
            resolve(AgentConfig("gpt-4o", base_url="https://api.openai.com/v1"))
        assert resolve(AgentConfig("groq:m")).api_key == sentinel("GROQ_API_KEY")

    @pytest.mark.parametrize(
        ("address", "is_openai"),
        [
            ("https://api.openai.com/v1/", True),
            ("https://API.openai.com:443/v1", True),
            ("https://eu.api.openai.com/v1", True),
            ("http://api.openai.com/v1", False),
            ("https://api.openai.com:8443/v1", False),
            ("https://api.openai.com.example.org/v1", False),
            ("https://notapi.openai.com/v1", False),
            ("https://example.org/api.openai.com/v1", False),
        ],
    )
    def test_that_of_openai_goes_to_openai(self, address, is_openai, all_keys):
        """The key is sent to OpenAI's own servers, with encryption, and to nothing that looks like them."""
        assert bool(resolve(AgentConfig("gpt-4o", base_url=address)).api_key) == is_openai

    def test_a_damaged_address_beside_it_is_named(self, all_keys, monkeypatch):
        """What is no address in ``OPENAI_BASE_URL`` is an error that names the variable, and repeats no password."""
        monkeypatch.setenv("OPENAI_BASE_URL", "https://me:secret-1@example.org/v1")
        with pytest.raises(ConfigError, match=r"OPENAI_BASE_URL in the environment: .*api_key") as caught:
            resolve(AgentConfig("gpt-4o"))
        assert "secret-1" not in str(caught.value)

    @pytest.mark.parametrize("status", [301, 302, 307, 308])
    def test_none_where_a_server_points(self, status, serve):
        """A redirect is not followed: the server that it points to is never asked."""
        elsewhere = serve(text("stolen"))
        there = f"{elsewhere.base_url}/chat/completions"
        server = serve(raw(b"", status=status, headers={"location": there}))
        agent = Agent("m", base_url=server.base_url, api_key="a-key-of-mine", max_retries=0)
        with pytest.raises(ModelError, match="redirects to"):
            agent.run("hi")
        assert elsewhere.requests == []

    def test_keys_that_were_set_later(self, serve, monkeypatch):
        """A key that is set after the agent was made is found, and a new one takes its place."""
        server = serve(text("one"), text("two"))
        move(monkeypatch, "groq", server)
        agent = Agent("groq:m")
        with pytest.raises(ConfigError, match="GROQ_API_KEY"):
            agent.run("hi")
        for key in ["first", "second"]:
            monkeypatch.setenv("GROQ_API_KEY", key)
            agent.run("hi")
        assert [item.headers["authorization"] for item in server.requests] == ["Bearer first", "Bearer second"]


LISTS = {
    "vllm": (
        {
            "object": "list",
            "data": [{"id": "Qwen/Qwen3-8B", "object": "model", "owned_by": "vllm", "max_model_len": 40960}],
        },
        "Qwen/Qwen3-8B",
        40960,
    ),
    "llama.cpp": (
        {
            "models": [{"name": "/models/q.gguf", "model": "/models/q.gguf", "type": "model", "tags": [""]}],
            "object": "list",
            "data": [{"id": "/models/q.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 262144, "n_ctx": 8192}}],
        },
        "any-name",
        8192,
    ),
    "llama.cpp, alias": (
        {
            "data": [
                {"id": "a.gguf", "aliases": ["small"], "meta": {"n_ctx": 2048}},
                {"id": "b.gguf", "aliases": ["large"], "meta": {"n_ctx": 4096}},
            ]
        },
        "large",
        4096,
    ),
    "llama.cpp, not loaded": ({"data": [{"id": "a", "meta": {"n_ctx_train": 262144}}]}, "a", None),
    "openrouter": (
        {
            "data": [
                {"id": "openai/gpt-4o", "context_length": 128000, "top_provider": {"context_length": 128000}},
                {"id": "a/b", "context_length": 262144, "top_provider": {"context_length": 131072}},
                {"id": "a/b:free", "context_length": 65536, "top_provider": {"context_length": None}},
            ]
        },
        "a/b",
        131072,
    ),
    "openrouter, free": (
        {"data": [{"id": "a/b", "context_length": 262144}, {"id": "a/b:free", "context_length": 65536}]},
        "a/b:free",
        65536,
    ),
    "openrouter, a choice": (
        {"data": [{"id": "a/b", "context_length": 262144}, {"id": "c/d", "context_length": 1}]},
        "a/b:nitro",
        262144,
    ),
    "groq": (
        {"object": "list", "data": [{"id": "llama-3.1-8b-instant", "active": True, "context_window": 131072}]},
        "llama-3.1-8b-instant",
        131072,
    ),
    "mistral": (
        {"data": [{"id": "mistral-small-2506", "aliases": ["mistral-small-latest"], "max_context_length": 131072}]},
        "mistral-small-latest",
        131072,
    ),
    "together": (
        [{"id": "Qwen/Qwen3-8B", "type": "chat", "context_length": 40960}, {"id": "x"}],
        "qwen/qwen3-8b",
        40960,
    ),
    "lm studio": (
        {
            "data": [
                {"id": "a", "state": "loaded", "max_context_length": 131072, "loaded_context_length": 4096},
                {"id": "b", "state": "not-loaded", "max_context_length": 32768},
            ]
        },
        "a",
        4096,
    ),
    "lm studio, not loaded": (
        {"data": [{"id": "b", "state": "not-loaded", "max_context_length": 32768}]},
        "b",
        None,
    ),
    "lm studio, its own list": (
        {
            "models": [
                {
                    "key": "openai/gpt-oss-20b",
                    "max_context_length": 131072,
                    "loaded_instances": [{"id": "openai/gpt-oss-20b", "config": {"context_length": 8192}}],
                },
                {"key": "b", "max_context_length": 32768, "loaded_instances": []},
            ]
        },
        "openai/gpt-oss-20b",
        8192,
    ),
    "lm studio, as openai": ({"data": [{"id": "a", "object": "model", "owned_by": "organization_owner"}]}, "a", None),
    "hugging face": (
        {
            "data": [
                {
                    "id": "a/b",
                    "providers": [
                        {"provider": "one", "context_length": 131072},
                        {"provider": "two", "context_length": 32768},
                        {"provider": "three"},
                    ],
                }
            ]
        },
        "a/b",
        32768,
    ),
    "hugging face, a provider": (
        {
            "data": [
                {
                    "id": "a/b",
                    "providers": [{"provider": "one", "context_length": 9}, {"provider": "two", "context_length": 3}],
                }
            ]
        },
        "a/b:one",
        9,
    ),
    "deepinfra": ({"data": [{"id": "a/b", "metadata": {"context_length": 40960}}]}, "a/b", 40960),
    "openai": (
        {"data": [{"id": "gpt-4o", "object": "model"}, {"id": "gpt-4o-mini", "object": "model"}]},
        "gpt-4o",
        None,
    ),
    "ollama": ({"object": "list", "data": [{"id": "qwen3:latest", "owned_by": "library"}]}, "qwen3", None),
    "ollama with a window": ({"data": [{"id": "qwen3:latest", "n_ctx": 4096}, {"id": "b", "n_ctx": 2}]}, "qwen3", 4096),
    "gemini": ({"data": [{"id": "models/g", "context_window": 1048576}, {"id": "models/h"}]}, "g", 1048576),
    "one model": ({"id": "a", "object": "model", "max_model_len": 4096}, "a", 4096),
    "another model": ({"data": [{"id": "a", "max_model_len": 1}, {"id": "b", "max_model_len": 2}]}, "c", None),
    "odd numbers": (
        {"data": [{"id": "a", "max_model_len": 0, "context_window": True, "context_length": "many", "n_ctx": -1}]},
        "a",
        None,
    ),
    "a float": ({"data": [{"id": "a", "context_length": 8192.0}]}, "a", 8192),
    "nothing": ({"data": []}, "a", None),
    "no list": ({"data": "no"}, "a", None),
    "null": (None, "a", None),
}


class TestWindows:
    """How large a server says a model's context window is."""

    @pytest.mark.parametrize("shape", sorted(LISTS))
    def test_each_server_has_its_own_words(self, shape):
        """The window is found under the name that each kind of server has for it, and is what is really served."""
        answer, model, window = LISTS[shape]
        assert window_of(answer, model) == window

    @given(json_values(), st.text(max_size=5))
    def test_any_json_is_survived(self, answer, model):
        """Whatever a server sends, there is a number of tokens or none."""
        window = window_of(answer, model)
        assert window is None or (type(window) is int and window > 0)

    @given(
        st.lists(
            st.fixed_dictionaries(
                {"id": st.sampled_from("abc")},
                optional=dict.fromkeys(
                    [
                        "meta", "top_provider", "providers", "loaded_instances", "limits", "metadata", "aliases",
                        "state", "context_length", "max_context_length", "n_ctx", "data", "models",
                    ],
                    json_values(),
                ),
            )
        )
    )  # fmt: skip
    def test_any_entry_is_survived(self, entries):
        """Fields that have other values than they should are passed over."""
        window = window_of({"data": entries}, "a")
        assert window is None or (type(window) is int and window > 0)


class TestOtherSettings:
    """`Agent.replace` and the model that summarises."""

    @pytest.mark.parametrize("change", [{"model": "ollama:q"}, {"base_url": "http://127.0.0.1:1/v1"}])
    def test_a_key_does_not_go_along_to_another_server(self, change):
        """It belongs to the first one, as headers do."""
        agent = Agent("gpt-4o-mini", api_key="sk-of-one-server", default_headers={"X-Key": "secret-one"})
        other = agent.replace(**change).config
        assert (other.api_key, other.default_headers) == (None, None)
        assert agent.replace(**change, api_key="sk-other").config.api_key.get_secret_value() == "sk-other"

    def test_it_stays_with_its_own(self):
        """Another model or setting there needs it."""
        agent = Agent("gpt-4o-mini", api_key="sk-of-one-server")
        assert agent.replace(model="gpt-4o", temperature=1).config.api_key is not None
