"""What tokens cost, in dollars.

The order is: the user's own prices, then what the server reported, then the price list of ``genai-prices`` for the
host that was really asked. A model name alone says nothing: the same name costs money at one host and nothing at
another. Unknown is None, never 0, and pricing never fails a run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from cyclops_nb.usage import Usage

__all__ = ["context_window", "cost_of", "missing_price", "reported_cost"]

Prices = Mapping[str, float]
_OTHER_NAMES = {"https://api.together.ai": "https://api.together.xyz"}
"""Addresses under which the price list knows a server that has more than one."""


def cost_of(
    usage: Usage | None, *, model: str, base_url: str, prices: Prices | None = None, reported: float | None = None
) -> float | None:
    """Return what `usage` costs.

    Parameters
    ----------
    usage : Usage or None
        What a completion reported.
    model : str
        The model that answered.
    base_url : str
        The server that was asked.
    prices : mapping, optional
        ``{"input": …, "output": …, "cached": …}`` in dollars per million tokens; ``cached`` is by default the price
        of ``input``. Tokens of a kind that has no price make the cost unknown.
    reported : float, optional
        Dollars, if the server said what it charged; what is no amount of money is ignored.

    Returns
    -------
    float or None
        Dollars, or None if unknown.

    Examples
    --------
    >>> cost_of(Usage(1, 1_000_000, 0), model="m", base_url="http://localhost/v1", prices={"input": 2, "output": 8})
    2.0
    """
    if prices is not None:
        if not any(prices.values()):
            return 0.0
        return None if usage is None or missing_price(usage, prices) else _by_prices(usage, prices)
    amount = _amount(reported)
    if amount is not None:
        return amount
    if usage is None:
        return None
    return _by_table(usage, model, base_url)


def missing_price(usage: Usage, prices: Prices) -> str | None:
    """Return the name of a price that `usage` needs and `prices` does not have, or None.

    Examples
    --------
    >>> missing_price(Usage(1, 10, 5), {"input": 2.0})
    'output'
    """
    cached = min(usage.cached_tokens, usage.input_tokens)
    if "input" not in prices and (usage.input_tokens > cached or (cached and "cached" not in prices)):
        return "input"
    return "output" if usage.output_tokens and "output" not in prices else None


def reported_cost(report: Mapping[str, Any]) -> float | None:
    """Return the dollars that a server's usage report says it charged, or None if it does not say.

    With a key of one's own at OpenRouter, ``cost`` is its fee alone, and what the provider charges stands beside it.

    Examples
    --------
    >>> reported_cost({"prompt_tokens": 254, "cost": 0.000837, "is_byok": False})
    0.000837
    """
    cost = _amount(report.get("cost"))
    details = report.get("cost_details")
    if cost is None or report.get("is_byok") is not True or not isinstance(details, Mapping):
        return cost
    return cost + (_amount(details.get("upstream_inference_cost")) or 0.0)


def _amount(value: Any) -> float | None:
    """Return a number of dollars, or None for what is none: text, less than nothing, not a number, infinity."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        amount = float(value)
    except OverflowError:
        return None
    return amount if math.isfinite(amount) and amount >= 0 else None


def _by_prices(usage: Usage, prices: Prices) -> float:
    cached = min(usage.cached_tokens, usage.input_tokens)
    dollars = (usage.input_tokens - cached) * prices.get("input", 0.0)
    dollars += cached * prices.get("cached", prices.get("input", 0.0))
    return float(dollars + usage.output_tokens * prices.get("output", 0.0)) / 1e6


def _is_local(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    return host in {"localhost", "::1", "0.0.0.0"} or host.startswith("127.")  # noqa: S104 - compared, not bound


def _by_table(usage: Usage, model: str, base_url: str) -> float | None:
    found = _calculate(usage, model, base_url)
    return None if found is None else _amount(float(found.total_price))


@lru_cache(maxsize=256)
def context_window(model: str, base_url: str) -> int | None:
    """Return the size of the model's context window in tokens as the price list knows it, or None.

    Examples
    --------
    >>> context_window("gpt-4o-mini", "https://api.openai.com/v1")
    128000
    """
    found = _calculate(Usage(1, 1, 1), model, base_url)
    return None if found is None else found.model.context_window


def _calculate(usage: Usage, model: str, base_url: str) -> Any:
    """Return the price list's calculation, or None; the list is loaded only for hosts that may be in it."""
    if _is_local(base_url):
        return None
    server, slash, path = base_url.partition("/v1")
    base_url = _OTHER_NAMES.get(server, server) + slash + path
    try:
        import genai_prices

        tokens = genai_prices.Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=min(usage.cached_tokens, usage.input_tokens),
            output_reasoning_tokens=min(usage.reasoning_tokens, usage.output_tokens),
        )
        found = genai_prices.calc_price(tokens, model_ref=model, provider_api_url=base_url)
        return found if _ends_in_host(found.provider.api_pattern, base_url) else None
    except Exception:  # noqa: BLE001 - an unknown model, or a changed list: the price is unknown, the run goes on
        return None


def _ends_in_host(pattern: str, base_url: str) -> bool:
    """Say whether a pattern is more than the beginning of another host's name, as of ``api.openai.com.example``."""
    scheme, mark, rest = base_url.partition("://")
    host, slash, path = rest.partition("/")
    address = scheme + mark + host + slash + path.replace(".", "")  # a host's name in the path is no host
    match = re.match(pattern, address)
    if match is None:
        return False
    return match[0].endswith((".", "/")) or not re.match(r"[\w.-]", address[match.end() :])
