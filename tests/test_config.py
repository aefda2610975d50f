"""Settings: unknown ones are refused by name, secrets are kept out of everything that is stored or shown."""

import json
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from pydantic import SecretStr, ValidationError
from strategies import json_objects, moderate

from cyclops_nb.config import AgentConfig, Compaction, clean_key, config_key
from cyclops_nb.errors import ConfigError

SECRET = "sk-verysecret123"


def snapshot(*tools, **settings):
    return AgentConfig("m", **settings).snapshot(host="api.example.org", tools=tools)


class TestSettings:
    def test_have_the_documented_defaults(self):
        """A config needs a model alone; what is not set is not sent."""
        config = AgentConfig("gpt-4o-mini")
        assert AgentConfig(model="gpt-4o-mini") == config
        assert (config.api, config.timeout, config.max_retries, config.max_iterations) == ("chat", 600.0, 2, 10)
        assert (config.on_tool_error, config.reasoning_replay) == ("answer", "auto")
        for name in [
            "base_url",
            "api_key",
            "default_headers",
            "default_query",
            "system_prompt",
            "temperature",
            "top_p",
            "seed",
            "stop",
            "max_tokens",
            "reasoning_effort",
            "tool_choice",
            "parallel_tool_calls",
            "tool_timeout",
            "compaction",
            "input_limit",
            "prices",
            "extra_body",
        ]:
            assert getattr(config, name) is None

    def test_unknown_ones_are_refused_with_a_guess(self):
        """A misspelt setting is an error that names it and the one that was meant."""
        with pytest.raises(ConfigError, match=r"unknown setting 'temprature': did you mean 'temperature'\?"):
            AgentConfig("m", temprature=0)

    def test_unknown_ones_without_a_guess_name_the_known_ones(self):
        """A setting that resembles nothing is an error that lists what there is."""
        with pytest.raises(ConfigError, match=r"'xyzzy'.*settings are model, base_url"):
            AgentConfig("m", xyzzy=1)

    def test_unknown_ones_of_compaction_are_refused_too(self):
        """The same goes for the settings of compaction, inside a config as well."""
        with pytest.raises(ConfigError, match="'trigger'"):
            Compaction(triger=0.5)
        with pytest.raises(ConfigError, match=r"compaction\.triger"):
            AgentConfig("m", compaction={"triger": 0.5})

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("temperature", "hot"),
            ("timeout", 0),
            ("max_retries", -1),
            ("max_iterations", 0),
            ("max_tokens", 0),
            ("tool_timeout", -1),
            ("input_limit", 0),
            ("api", "telepathy"),
            ("on_tool_error", "ignore"),
            ("reasoning_replay", "sometimes"),
            ("reasoning_effort", "huge"),
            ("base_url", "api.example.org"),
            ("base_url", "ftp://example.org"),
            ("base_url", "http://"),
            ("prices", 3),
            ("prices", {"input": 1, "ouput": 2}),
            ("prices", {"input": "much"}),
            ("prices", {}),
            ("prices", {"input": "1"}),
            ("prices", {"input": True}),
            ("prices", {"input": None}),
            ("prices", {"input": -1}),
            ("prices", {"output": math.nan}),
            ("prices", {"cached": math.inf}),
            ("prices", {"input": 10**400}),
            ("prices", {"a": 1, 2: 3}),
            ("prices", math.nan),
            ("compaction", {"trigger": 2}),
            ("compaction", 3),
            ("extra_body", [1]),
            ("extra_body", {"a": object()}),
        ],
    )
    def test_wrong_values_are_refused_by_name(self, name, value):
        """A value that makes no sense is a ConfigError, a ValueError too, that names the setting."""
        with pytest.raises(ConfigError, match=name) as caught:
            AgentConfig("m", **{name: value})
        assert isinstance(caught.value, ValueError)

    @pytest.mark.parametrize("name", ["temperature", "top_p", "timeout", "tool_timeout"])
    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_numbers_are_finite(self, name, value):
        """Not-a-number and infinity, which no request can carry, are refused by the setting's name."""
        with pytest.raises(ConfigError, match=f"{name}: .*finite number"):
            AgentConfig("m", **{name: value})

    def test_a_model_must_have_a_name(self):
        """An empty model name is refused."""
        with pytest.raises(ConfigError, match="model"):
            AgentConfig("")

    def test_cannot_change(self):
        """Settings are frozen, with the mappings in them."""
        config = AgentConfig(
            "m", extra_body={"a": {"b": [1]}}, default_headers={"x": "y"}, tool_choice={"type": "auto"}, prices=0
        )
        with pytest.raises(ValidationError):
            config.temperature = 1
        mappings = [
            config.extra_body,
            config.extra_body["a"],
            config.default_headers,
            config.tool_choice,
            config.prices,
        ]
        for mapping in mappings:
            with pytest.raises(TypeError):
                mapping["new"] = 1
        assert config.extra_body["a"]["b"] == (1,)

    def test_do_not_hold_on_to_what_they_were_made_of(self):
        """Changing the dict that a setting was given as does not change the settings."""
        body, prices = {"a": [1]}, {"input": 1.0, "output": 2.0}
        config = AgentConfig("m", extra_body=body, prices=prices)
        body["a"].append(2)
        prices["input"] = 99.0
        assert config.extra_body == {"a": (1,)}
        assert config.prices["input"] == 1.0


class TestCompaction:
    def test_true_stands_for_the_defaults(self):
        """`compaction=True` is the default compaction, False is none."""
        assert AgentConfig("m", compaction=True).compaction == Compaction()
        assert AgentConfig("m", compaction=False).compaction is None

    def test_has_the_documented_defaults(self):
        """Compaction begins at four fifths of the limit and leaves four messages."""
        compaction = Compaction()
        assert (compaction.trigger, compaction.keep_last, compaction.model, compaction.prompt) == (0.8, 4, None, None)

    def test_its_trigger_is_a_number(self):
        """Not-a-number as the trigger is refused."""
        with pytest.raises(ConfigError, match=r"trigger: .*finite number"):
            Compaction(trigger=math.nan)


class TestPrices:
    @pytest.mark.parametrize("free", [0, 0.0])
    def test_zero_is_free(self, free):
        """`prices=0` says that nothing costs anything."""
        assert AgentConfig("m", prices=free).prices == {"input": 0.0, "output": 0.0}

    def test_any_number_is_a_price(self):
        """Integers and numbers of other libraries are taken as they are worth."""
        prices = AgentConfig("m", prices={"input": 1, "output": np.float32(0.5), "cached": Decimal("0.25")}).prices
        assert prices == {"input": 1.0, "output": 0.5, "cached": 0.25}

    def test_a_wrong_one_is_named(self):
        """The error names the price that is wrong and says what a price is."""
        with pytest.raises(ConfigError, match=r"price 'output' must be a number of dollars per million tokens"):
            AgentConfig("m", prices={"input": 1, "output": "2"})


class TestAddress:
    @pytest.mark.parametrize("end", [f"?key={SECRET}", f"#{SECRET}", "?"])
    def test_a_query_is_refused(self, end):
        """A query or fragment, which may carry a key, is refused without repeating it, naming its place."""
        with pytest.raises(ConfigError, match=r"base_url: .*default_query") as caught:
            AgentConfig("m", base_url=f"https://example.org/v1{end}")
        assert SECRET not in str(caught.value)

    def test_loses_the_white_space_around_it(self):
        """An address that was pasted with a line end is meant without."""
        assert AgentConfig("m", base_url=" https://example.org/v1\n").base_url == "https://example.org/v1"

    @pytest.mark.parametrize("address", ["https://example.org/v 1", "https://example.org/v\n1", "https://a\tb.org"])
    def test_with_white_space_inside_is_refused(self, address):
        """White space and control characters inside an address are refused."""
        with pytest.raises(ConfigError, match=r"base_url: .*white space"):
            AgentConfig("m", base_url=address)

    @pytest.mark.parametrize("place", [f"host:{SECRET}", f"[{SECRET}", f"{SECRET}\u2100.org"])
    def test_that_cannot_be_read_is_not_repeated(self, place):
        """An address with a host or port that cannot be read is refused, without the parts of it."""
        with pytest.raises(ConfigError, match=r"base_url: .*host and port") as caught:
            AgentConfig("m", base_url=f"https://{place}/v1")
        assert SECRET not in str(caught.value)


class TestApiKey:
    @pytest.mark.parametrize("around", ["\n", " ", "\r\n", "\t"])
    def test_loses_the_white_space_around_it(self, around):
        """A key that was pasted or read from a file with white space around it is meant without."""
        assert AgentConfig("m", api_key=around + SECRET + around).api_key.get_secret_value() == SECRET
        assert AgentConfig("m", api_key=SecretStr(SECRET + around)).api_key.get_secret_value() == SECRET
        assert clean_key(SECRET + around, "A_VARIABLE") == SECRET

    @pytest.mark.parametrize("key", ["", " ", "\n"])
    def test_an_empty_one_is_refused(self, key):
        """A key with nothing in it is an error that says where it was given."""
        with pytest.raises(ConfigError, match="api_key is empty"):
            AgentConfig("m", api_key=key)
        with pytest.raises(ConfigError, match="A_VARIABLE is empty"):
            clean_key(key, "A_VARIABLE")

    @pytest.mark.parametrize("odd", [" ", "\n", "\t", "\0", "\x7f", "é", "\u200b", "…", "\u2028"])
    def test_odd_characters_are_refused(self, odd):
        """Characters that no key has are an error that says where, and does not repeat the key."""
        key = f"{SECRET}{odd}{SECRET}"
        for place, give in [("api_key", lambda: AgentConfig("m", api_key=key)), ("V", lambda: clean_key(key, "V"))]:
            with pytest.raises(ConfigError, match=f"key in {place} has characters") as caught:
                give()
            assert SECRET not in str(caught.value)


class TestHeaders:
    def test_lose_the_white_space_around_their_values(self):
        """A value that was pasted with a line end is meant without."""
        assert AgentConfig("m", default_headers={"x-a": " b c\r\n"}).default_headers == {"x-a": "b c"}

    @pytest.mark.parametrize("odd", ["\r\n", "\n", "\0", "\x7f", "é", "…", "\ud800"])
    def test_values_that_cannot_be_sent_are_refused(self, odd):
        """A value with line ends, control or non-ASCII characters is an error that names the header alone."""
        with pytest.raises(ConfigError, match=r"default_headers: .*'x-a'") as caught:
            AgentConfig("m", default_headers={"x-a": f"{SECRET}{odd}x"})
        assert SECRET not in str(caught.value)

    @pytest.mark.parametrize("name", ["", "a b", "a\r\nb", "a:", "é", "a\n", f"Authorization: Bearer {SECRET}"])
    def test_names_that_cannot_be_sent_are_refused(self, name):
        """A name that HTTP does not know is refused without repeating it, since a value may stand in it."""
        with pytest.raises(ConfigError, match="default_headers: the name of a header") as caught:
            AgentConfig("m", default_headers={name: SECRET})
        assert SECRET not in str(caught.value)


class TestReplace:
    def test_gives_a_config_with_other_values(self):
        """The new config has the new values and all others, the old one stays."""
        config = AgentConfig("m", seed=1, api_key=SECRET, prices=0, compaction=True)
        other = config.replace(seed=2, temperature=0)
        assert (other.seed, other.temperature, config.seed, config.temperature) == (2, 0.0, 1, None)
        assert (other.api_key, other.prices, other.compaction) == (config.api_key, config.prices, config.compaction)

    def test_without_changes_is_equal(self):
        """Replacing nothing gives an equal config."""
        config = AgentConfig("m", extra_body={"a": [1]}, stop=["x"], tool_choice="f")
        assert config.replace() == config

    def test_the_model_may_be_replaced(self):
        """The model is a setting like any other."""
        assert AgentConfig("m", seed=1).replace(model="n") == AgentConfig("n", seed=1)

    def test_unknown_ones_are_refused(self):
        """A misspelt setting is refused here too."""
        with pytest.raises(ConfigError, match="'temprature'"):
            AgentConfig("m").replace(temprature=0)


class TestSecrets:
    def config(self):
        return AgentConfig(
            "m",
            api_key=SECRET,
            base_url="https://example.org/v1",
            default_headers={"Authorization": f"Bearer {SECRET}"},
            default_query={"key": SECRET},
            extra_body={
                "api_key": SECRET,
                "inner": [{"Auth-Token": SECRET}],
                "keys": [SECRET, {"a": SECRET}],
                "max_tokens": 3,
            },
        )

    def test_are_not_shown(self):
        """Neither key nor headers nor body stand in the repr or the text of a config."""
        assert SECRET not in repr(self.config()) + str(self.config())

    def test_are_not_in_the_snapshot(self):
        """What a session keeps has no key, header, query or address, and no secret of the body."""
        kept = self.config().snapshot(host="example.org")
        assert SECRET not in json.dumps(kept)
        assert not {"api_key", "default_headers", "default_query", "base_url"} & set(kept)
        assert kept["extra_body"]["max_tokens"] == 3

    @pytest.mark.parametrize(
        "settings",
        [
            {"api_key": [SECRET]},
            {"base_url": f"https://user:{SECRET}@example.org/v1"},
            {"base_url": f"https://{SECRET}:@/v1"},
            {"default_headers": {"Authorization": [SECRET]}},
            {"apikey": SECRET},
        ],
    )
    def test_are_not_in_errors(self, settings):
        """An error about a setting does not repeat its value, and has no cause that does."""
        with pytest.raises(ConfigError) as caught:
            AgentConfig("m", **settings)
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__

    def test_a_password_in_the_address_is_refused(self):
        """An address with a password in it is refused, saying where keys belong."""
        with pytest.raises(ConfigError, match="api_key"):
            AgentConfig("m", base_url="https://user:pass@example.org/v1")

    def test_a_key_is_at_hand_for_the_client(self):
        """The key itself can be had on purpose."""
        assert AgentConfig("m", api_key=SECRET).api_key.get_secret_value() == SECRET
        assert AgentConfig("m", api_key=SecretStr(SECRET)).api_key.get_secret_value() == SECRET


class TestSnapshot:
    def test_has_what_shapes_an_answer(self):
        """What a session keeps names model, host and API, the settings that were set, and the version."""
        kept = snapshot(temperature=0, system_prompt="Be brief.", stop=["a"], timeout=5, max_retries=1, prices=0)
        assert {name: kept[name] for name in kept if name != "cyclops_nb"} == {
            "model": "m",
            "host": "api.example.org",
            "api": "chat",
            "temperature": 0.0,
            "system_prompt": "Be brief.",
            "stop": ("a",),
        }
        assert kept["cyclops_nb"]

    def test_has_the_tools(self):
        """Tools stand in it as they were described to the model."""
        tool = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}
        assert snapshot(tool)["tools"] == (tool,)
        assert "tools" not in snapshot()

    def test_cannot_change(self):
        """It is read-only, since forks share it."""
        with pytest.raises(TypeError):
            snapshot(extra_body={"a": 1})["extra_body"]["a"] = 2

    @moderate
    @given(json_objects())
    def test_is_json(self, body):
        """Whatever is in the body, a snapshot can be written."""
        json.dumps(snapshot(extra_body=body), ensure_ascii=False).encode()


class TestKey:
    def test_equal_settings_have_one_key(self):
        """The key depends on the content alone, also after loading and in another order."""
        kept = snapshot(temperature=0.5, extra_body={"a": 1, "b": [1, 2]})
        assert config_key(kept) == config_key(snapshot(temperature=0.5, extra_body={"b": [1, 2], "a": 1}))
        assert config_key(json.loads(json.dumps(kept))) == config_key(kept)

    def test_other_settings_have_another(self):
        """Any difference gives another key."""
        keys = {config_key(snapshot(**settings)) for settings in ({}, {"seed": 1}, {"seed": 2}, {"system_prompt": "1"})}
        assert len(keys) == 4

    def test_secrets_do_not_matter(self):
        """Two keys for one host are the same settings."""
        assert config_key(snapshot(api_key="a")) == config_key(snapshot(api_key="b"))
