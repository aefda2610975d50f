"""Prices: the user's own, then the server's, then the list by host; unknown is None."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_objects, json_values, usages

from cyclops_nb.pricing import context_window, cost_of, missing_price, reported_cost
from cyclops_nb.usage import Usage

OPENAI = "https://api.openai.com/v1"
MILLION = Usage(1, 1_000_000, 1_000_000)


def cost(usage=MILLION, model="gpt-4o-mini", base_url=OPENAI, **known):
    return cost_of(usage, model=model, base_url=base_url, **known)


class TestOwnPrices:
    def test_are_dollars_per_million_tokens(self):
        """Input and output each have their price for a million tokens."""
        assert cost(prices={"input": 2, "output": 8}) == 10.0
        assert cost(Usage(1, 1000, 10), prices={"input": 2, "output": 8}) == pytest.approx(0.00208)

    def test_win_over_everything(self):
        """The user's prices count even where the server reported a cost and the list has a price."""
        assert cost(prices={"input": 2, "output": 8}, reported=99.0) == 10.0

    def test_cached_tokens_have_their_own_price(self):
        """Cached tokens are a part of the input and are paid once, at their own price."""
        usage = Usage(1, 1_000_000, 0, 400_000)
        assert cost(usage, prices={"input": 2, "output": 8, "cached": 1}) == pytest.approx(1.6)
        assert cost(usage, prices={"input": 2, "output": 8, "cached": 0}) == pytest.approx(1.2)

    def test_cached_tokens_cost_as_input_by_default(self):
        """Without a price of their own, cached tokens cost what input costs."""
        assert cost(Usage(1, 1_000_000, 0, 400_000), prices={"input": 2, "output": 8}) == 2.0

    def test_reasoning_is_paid_as_output(self):
        """Reasoning tokens are a part of the output and are not paid twice."""
        assert cost(Usage(1, 0, 1_000_000, 0, 900_000), prices={"input": 2, "output": 8}) == 8.0

    @pytest.mark.parametrize(
        ("usage", "prices", "missing"),
        [
            (Usage(1, 10, 5), {"input": 2}, "output"),
            (Usage(1, 10, 0), {"input": 2}, None),
            (Usage(1, 10, 5), {"output": 8}, "input"),
            (Usage(1, 0, 5), {"output": 8}, None),
            (Usage(1, 10, 0, 4), {"cached": 1}, "input"),
            (Usage(1, 10, 0, 10), {"cached": 1}, None),
            (Usage(1, 10, 0, 10), {"output": 1}, "input"),
            (Usage(1, 10, 5, 4), {"input": 2, "output": 8}, None),
        ],
    )
    def test_that_are_missing_make_the_cost_unknown(self, usage, prices, missing):
        """Tokens of a kind that the prices leave out do not count as free."""
        assert missing_price(usage, prices) == missing
        assert (cost(usage, prices=prices) is None) == (missing is not None)

    def test_of_zero_need_no_usage(self):
        """What is free costs nothing even where no usage was reported."""
        assert cost(None, prices={"input": 0.0, "output": 0.0}) == 0.0

    def test_need_usage(self):
        """Without usage a price says nothing."""
        assert cost(None, prices={"input": 2, "output": 8}) is None

    @given(usages, st.floats(0, 100), st.floats(0, 100), st.floats(0, 1))
    def test_never_give_less_than_nothing(self, usage, price_in, price_out, share):
        """Whatever a server reports, the cost is a number that is not negative, and a cache makes it no dearer."""
        prices = {"input": price_in, "output": price_out, "cached": price_in * share}
        full = cost(Usage(1, usage.input_tokens, usage.output_tokens), prices=prices)
        assert 0 <= cost(usage, prices=prices) <= full * (1 + 1e-9)


class TestReportedCost:
    def test_wins_over_the_list(self):
        """What the server says it charged counts, whatever the list says."""
        assert cost(reported=0.000837) == 0.000837

    def test_may_be_zero(self):
        """A reported zero is a cost and not a missing one."""
        assert cost(reported=0) == 0.0
        assert isinstance(cost(reported=0), float)

    def test_needs_no_usage(self):
        """A cost can be reported without tokens."""
        assert cost(None, reported=0.5) == 0.5

    @pytest.mark.parametrize("odd", [-0.01, -1, math.nan, math.inf, -math.inf, True, "0.5", None, [], 10**400])
    def test_that_is_no_amount_is_ignored(self, odd):
        """What is no amount of money says nothing: the list counts, or nothing is known."""
        assert cost(reported=odd) == cost()
        assert cost(model="my-local", reported=odd) is None
        assert reported_cost({"cost": odd}) is None

    def test_with_ones_own_key_has_two_parts(self):
        """With a key of one's own the router's cost is its fee, and what the provider charges is added."""
        report = {"cost": 0.05, "is_byok": True, "cost_details": {"upstream_inference_cost": 1.0}}
        assert reported_cost(report) == pytest.approx(1.05)
        assert reported_cost({**report, "is_byok": False}) == 0.05
        assert reported_cost({**report, "cost_details": {"upstream_inference_cost": None}}) == 0.05
        assert reported_cost({**report, "cost_details": None}) == 0.05

    @given(
        json_objects()
        | st.fixed_dictionaries({"cost": json_values(), "is_byok": st.just(value=True), "cost_details": json_values()})
    )
    def test_of_any_report_is_an_amount_or_nothing(self, report):
        """Whatever a report has in it, there is a finite number of dollars, not negative, or none."""
        amount = reported_cost(report)
        assert amount is None or (math.isfinite(amount) and amount >= 0)


class TestPriceList:
    def test_knows_models_at_their_host(self):
        """A model of OpenAI has a price at OpenAI, under its dated name too, and it is the same."""
        assert cost() > 0
        assert cost(model="gpt-4o-mini-2024-07-18") == cost()

    def test_knows_routers_by_their_own_names(self):
        """A router's models go by its own names for them."""
        assert cost(model="openai/gpt-4o-mini", base_url="https://openrouter.ai/api/v1") > 0

    def test_has_a_price_for_cached_tokens(self):
        """Cached input costs less, where the list says so."""
        assert 0 < cost(Usage(1, 1_000_000, 0, 1_000_000)) < cost(Usage(1, 1_000_000, 0))

    def test_has_a_price_for_reasoning(self):
        """Reasoning costs its own rate where the list has one, and what other output costs where it has none."""
        known = {"model": "perplexity/sonar-deep-research", "base_url": "https://openrouter.ai/api/v1"}
        assert 0 < cost(Usage(1, 0, 1000, 0, 1000), **known) < cost(Usage(1, 0, 1000), **known)
        assert cost(Usage(1, 0, 1000, 0, 1000)) == cost(Usage(1, 0, 1000))

    def test_takes_no_price_for_cached_tokens_as_that_of_input(self):
        """Cached tokens cost what others cost, where the list has no price of their own."""
        known = {"model": "meta-llama/Llama-3.3-70B-Instruct-Turbo", "base_url": "https://api.together.xyz/v1"}
        assert cost(Usage(1, 1000, 0, 500), **known) == cost(Usage(1, 1000, 0), **known) > 0

    def test_knows_a_server_under_its_other_address(self):
        """A service that has two addresses has one price."""
        known = {"model": "meta-llama/Llama-3.3-70B-Instruct-Turbo"}
        addresses = ["https://api.together.ai/v1", "https://api.together.xyz/v1"]
        first, second = (cost(base_url=address, **known) for address in addresses)
        assert first == second > 0

    @pytest.mark.parametrize(
        ("model", "base_url"),
        [
            ("claude-sonnet-4-5", "https://api.anthropic.com/v1/"),
            ("gpt-oss-120b", "https://api.cerebras.ai/v1"),
            ("deepseek-chat", "https://api.deepseek.com"),
            ("gemini-2.5-flash", "https://generativelanguage.googleapis.com/v1beta/openai/"),
            ("openai/gpt-oss-120b", "https://api.groq.com/openai/v1"),
            ("mistral-small-latest", "https://api.mistral.ai/v1"),
            ("kimi-k2-0905-preview", "https://api.moonshot.ai/v1"),
            ("anthropic/claude-4.6-sonnet-20260217", "https://openrouter.ai/api/v1"),
            ("grok-4-0709", "https://api.x.ai/v1"),
            ("glm-4.6", "https://api.z.ai/api/paas/v4"),
        ],
    )
    def test_knows_the_services_that_have_short_forms(self, model, base_url):
        """Services that a short form stands for have prices for models of theirs."""
        assert cost(model=model, base_url=base_url) > 0

    def test_nothing_used_costs_nothing(self):
        """No tokens at a known price are no dollars, which is known."""
        assert cost(Usage()) == 0.0

    def test_a_strange_report_does_no_harm(self):
        """More cached than input tokens, or more reasoning than output, is priced all the same."""
        assert cost(Usage(1, 10, 0, 500)) is not None
        assert cost(Usage(1, 10, 5, 0, 500)) is not None

    def test_no_usage_is_unknown(self):
        """Without usage the cost is unknown and not zero."""
        assert cost(None) is None

    def test_an_unknown_model_is_unknown(self):
        """A model that is not in the list has no price: None, and never 0 or less."""
        assert cost(model="my-local") is None

    @pytest.mark.parametrize(
        "base_url",
        [
            "http://localhost:8000/v1",
            "http://127.0.0.1:11434/v1",
            "http://[::1]:1234/v1",
            "http://0.0.0.0:80/v1",
            "http://192.168.1.3/v1",
            "https://llm.example.org/v1",
            "https://api.openai.com.example.org/v1",
            "https://example.org/https://api.openai.com/v1",
            "https://example.org/x.googleapis.com/v1",
            "",
            "no address",
        ],
    )
    def test_a_name_alone_says_nothing(self, base_url):
        """A known model name at a host that the list does not know has no price and no size."""
        for model in ("gpt-4o-mini", "gemini-2.5-flash", "deepseek-r1:8b"):
            assert cost(model=model, base_url=base_url) is None
            assert context_window(model, base_url) is None


class TestContextWindow:
    def test_is_known_where_the_list_knows_it(self):
        """The size of a model's context window is in tokens."""
        assert context_window("gpt-4o-mini", OPENAI) == 128_000

    def test_is_none_where_it_is_not(self):
        """A model that is not in the list has no known size."""
        assert context_window("my-local", OPENAI) is None
