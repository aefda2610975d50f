"""What completions consumed, in tokens.

The rule for sums is the one users can trust: a number is either all there or it is ``None``. A sum over something
that reported nothing is therefore ``None``, never a silent part (see `total`).
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from cyclops_nb.displayable import Displayable
from cyclops_nb.values import Value, positional

__all__ = ["Usage", "total"]


class Usage(Displayable, Value):
    """Tokens that one or more completions consumed.

    Parameters
    ----------
    requests : int
        Completions that reported their usage.
    input_tokens : int
        Tokens of the prompts, the cached ones included.
    output_tokens : int
        Tokens of the answers, the reasoning included.
    cached_tokens : int
        The part of `input_tokens` that the server had in its cache.
    reasoning_tokens : int
        The part of `output_tokens` that was reasoning.

    Examples
    --------
    >>> Usage(1, 10, 5) + Usage(1, 20, 7)
    Usage(requests=2, input_tokens=30, output_tokens=12, cached_tokens=0, reasoning_tokens=0)
    """

    requests: int = Field(default=0, ge=0)
    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    cached_tokens: int = Field(default=0, ge=0)
    reasoning_tokens: int = Field(default=0, ge=0)

    @positional
    def __init__(
        self,
        requests: int = 0,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cached_tokens: int = 0,
        reasoning_tokens: int = 0,
        **unknown: object,
    ) -> None:
        super().__init__(
            requests=requests,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cached_tokens=cached_tokens,
            reasoning_tokens=reasoning_tokens,
            **unknown,
        )

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        if not isinstance(other, Usage):
            return NotImplemented
        return Usage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


def total(usages: Iterable[Usage | None]) -> Usage | None:
    """Return the sum of `usages`, or None once any of them is None.

    Parameters
    ----------
    usages : iterable of Usage or None
        What each completion, or each run, reported.

    Returns
    -------
    Usage or None
        ``Usage()`` for nothing at all.

    Examples
    --------
    >>> total([]) == Usage()
    True
    >>> total([Usage(1, 10, 5), None]) is None
    True
    """
    requests = input_tokens = output_tokens = cached_tokens = reasoning_tokens = 0
    for usage in usages:  # one object for each run would take most of the time of a store's addition
        if usage is None:
            return None
        requests += usage.requests
        input_tokens += usage.input_tokens
        output_tokens += usage.output_tokens
        cached_tokens += usage.cached_tokens
        reasoning_tokens += usage.reasoning_tokens
    return Usage(requests, input_tokens, output_tokens, cached_tokens, reasoning_tokens)
