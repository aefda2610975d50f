"""What tokens cost, in dollars.

The order is: the user's own prices, then what the server reported, then the price list of ``genai-prices`` for the
host that was really asked. A model name alone says nothing: the same name costs money at one host and nothing at
another. Unknown is None, never 0, and pricing never fails a run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from cyclops_nb.usage import Usage

__all__ = ["context_window", "cost_of"]

Prices = Mapping[str, float]


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
        of ``input``.
    reported : float, optional
        Dollars, if the server said what it charged.

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
        return None if usage is None else _by_prices(usage, prices)
    if reported is not None:
        return float(reported)
    if usage is None:
        return None
    return _by_table(usage, model, base_url)


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
    return None if found is None else float(found.total_price)


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
    try:
        import genai_prices

        tokens = genai_prices.Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=min(usage.cached_tokens, usage.input_tokens),
        )
        found = genai_prices.calc_price(tokens, model_ref=model, provider_api_url=base_url)
        return found if _ends_in_host(found.provider.api_pattern, base_url) else None
    except Exception:  # noqa: BLE001 - an unknown model, or a changed list: the price is unknown, the run goes on
        return None


def _ends_in_host(pattern: str, base_url: str) -> bool:
    """Say whether a pattern is more than the beginning of another host's name, as of ``api.openai.com.example``."""
    match = re.match(pattern, base_url)
    if match is None:
        return False
    return match[0].endswith((".", "/")) or not re.match(r"[\w.-]", base_url[match.end() :])
