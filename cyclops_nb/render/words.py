"""Numbers, times and names in words, the same in HTML and in plain text.

What is not known is said to be unknown: a zero or a "nan" in its place would be read as a measurement. A sum that is
too low because a completion was stopped before its report begins with "≥".
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from cyclops_nb.messages import Message, SummaryMessage, ToolMessage
from cyclops_nb.render.text import one_line
from cyclops_nb.usage import Usage

__all__ = [
    "MINUS",
    "UNKNOWN",
    "count",
    "difference",
    "error_words",
    "index_range",
    "moment",
    "money",
    "number",
    "seconds",
    "short_id",
    "speaker",
    "spent",
    "tokens",
]

UNKNOWN = "unknown"

MINUS = "\N{MINUS SIGN}"
_TO = "\N{EN DASH}"
_RANDOM_ID = re.compile(r"[0-9a-f]{32}")
_SMALLEST = 1e-6  # dollars; below it more digits say nothing
_CENT = 0.01
_CENTISECOND = 0.01
_MINUTE = 60
_HOUR = 3600


def money(value: float | None, *, complete: bool = True) -> str:
    """Return dollars in words, with two significant digits below a cent.

    Parameters
    ----------
    value : float or None
        Dollars; None if unknown.
    complete : bool
        False if more was spent than is known.

    Returns
    -------
    str
        Plain text.

    Examples
    --------
    >>> money(0.000123), money(2), money(0), money(None)
    ('$0.00012', '$2.00', '$0', 'unknown')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    sign = MINUS if value < 0 else ""
    return ("" if complete else "≥") + sign + _dollars(abs(value))


def _dollars(value: float) -> str:
    if not value:
        return "$0"
    if value < _SMALLEST:
        return "<$0.000001"
    if value < _CENT:
        return f"${value:.{1 - math.floor(math.log10(value))}f}"
    return f"${value:.4f}" if value < 1 else f"${value:,.2f}"


def seconds(value: float | None) -> str:
    """Return a duration in words.

    Parameters
    ----------
    value : float or None
        Seconds; None if unknown.

    Returns
    -------
    str
        Plain text.

    Examples
    --------
    >>> seconds(0.001), seconds(0.25), seconds(1.234), seconds(75), seconds(7300)
    ('<0.01 s', '0.25 s', '1.2 s', '1 min 15 s', '2 h 1 min')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value < _CENTISECOND:
        return "<0.01 s" if value else "0 s"
    if value < 1:
        return f"{value:.2f} s"
    if value < _MINUTE - 0.05:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    return f"{whole // _HOUR:,} h {whole % _HOUR // _MINUTE} min"


def number(value: float | None, *, complete: bool = True) -> str:
    """Return a whole number in words.

    Parameters
    ----------
    value : int or None
        The number, in a float or not; None if unknown.
    complete : bool
        False if it is a lower bound.

    Returns
    -------
    str
        Plain text.

    Examples
    --------
    >>> number(12345), number(7, complete=False), number(None)
    ('12,345', '≥7', 'unknown')
    """
    return UNKNOWN if value is None else f"{'' if complete else '≥'}{value:,.0f}"


def count(value: int, noun: str) -> str:
    """Return how many there are of something.

    Parameters
    ----------
    value : int
        How many.
    noun : str
        Of what, in the singular.

    Returns
    -------
    str
        Plain text.

    Examples
    --------
    >>> count(1, "message"), count(2000, "run"), count(3, "branch")
    ('1 message', '2,000 runs', '3 branches')
    """
    return f"{value:,} {noun}{'' if value == 1 else 'es' if noun.endswith('ch') else 's'}"


def tokens(usage: Usage | None, *, complete: bool = True) -> str:
    """Return consumed tokens in words.

    Parameters
    ----------
    usage : Usage or None
        What was reported; None if it is unknown.
    complete : bool
        False if more was used than was reported.

    Returns
    -------
    str
        Plain text.

    Examples
    --------
    >>> tokens(Usage(1, 1200, 34, 1000))
    '1,200 tokens in (1,000 cached), 34 out'
    """
    if usage is None:
        return f"tokens {UNKNOWN}"
    least = "" if complete else "≥"
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    reasoning = f" ({usage.reasoning_tokens:,} reasoning)" if usage.reasoning_tokens else ""
    return f"{least}{usage.input_tokens:,} tokens in{cached}, {least}{usage.output_tokens:,} out{reasoning}"


def spent(usage: Usage | None, cost: float | None, *, complete: bool) -> tuple[Usage | None, float | None]:
    """Return tokens and dollars as they are known: not at all where no completion has reported any.

    Parameters
    ----------
    usage : Usage or None
        What was reported; None if it is unknown.
    cost : float or None
        Dollars; None if unknown.
    complete : bool
        False if more was used than was reported. A lower bound of zero says nothing.

    Returns
    -------
    tuple
        Usage and cost, each None if unknown.

    Examples
    --------
    >>> spent(Usage(), 0.0, complete=False), spent(Usage(), 0.0, complete=True)[1]
    ((None, None), 0.0)
    """
    is_nothing = usage is not None and not (usage.requests or usage.total_tokens or cost)
    return (None, None) if is_nothing and not complete else (usage, cost)


def error_words(kind: str, message: str) -> str:
    """Return the class of an exception and what it says, if it says anything.

    Parameters
    ----------
    kind : str
        The name of the class.
    message : str
        The text of the exception.

    Returns
    -------
    str
        Plain text in a line.

    Examples
    --------
    >>> error_words("ValueError", "no such city"), error_words("TimeoutError", "")
    ('ValueError: no such city', 'TimeoutError')
    """
    return ": ".join(part for part in (one_line(kind), one_line(message, 500)) if part.strip())


def difference(value: float, first: float, *, of: str = "") -> str:
    """Return by how much a number differs from the first of its row, or nothing if that is too little to be read.

    Parameters
    ----------
    value, first : float
        The number, and the one it is compared to.
    of : {"", "money", "seconds"}
        What the numbers are.

    Returns
    -------
    str
        Plain text that begins with a sign.

    Examples
    --------
    >>> difference(12, 10), difference(2.5, 1, of="seconds"), difference(1, 1), difference(0.012, 0.009, of="seconds")
    ('+2', '+1.5 s', '', '')
    """
    change = value - first
    if not change or not math.isfinite(change):
        return ""
    words = {"money": money, "seconds": seconds}.get(of)
    if words and words(value) == words(first):
        return ""
    shown = words(abs(change)) if words else f"{abs(change):,.0f}"
    return "" if shown.startswith("<") else ("+" if change > 0 else MINUS) + shown  # "−<0.01 s" is no number to read


def moment(when: datetime) -> str:
    """Return a moment in UTC, to the second.

    Parameters
    ----------
    when : datetime
        Any moment with a time zone.

    Returns
    -------
    str
        Plain text.

    Examples
    --------
    >>> moment(datetime(2026, 12, 1, 17, 5, tzinfo=UTC))
    '2026-12-01 17:05:00 UTC'
    """
    try:
        return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:  # the first and the last day that there are
        return when.isoformat(" ", "seconds")


def short_id(value: str) -> str:
    """Return the beginning of a random id, and any other id in a line.

    Parameters
    ----------
    value : str
        An id.

    Returns
    -------
    str
        Plain text.

    Examples
    --------
    >>> short_id("0123456789abcdef0123456789abcdef"), short_id("study-1")
    ('01234567', 'study-1')
    """
    return value[:8] if _RANDOM_ID.fullmatch(value) else one_line(value, 40)


def index_range(first: int, last: int) -> str:
    """Return a range of message indices, both ends included.

    Parameters
    ----------
    first, last : int
        Indices into the messages of a session.

    Returns
    -------
    str
        Plain text.

    Examples
    --------
    >>> index_range(2, 2)
    '[2]'
    """
    return f"[{first}]" if first == last else f"[{first}]{_TO}[{last}]"


def speaker(message: Message) -> str:
    """Return who speaks in a message.

    Parameters
    ----------
    message : message
        Any message.

    Returns
    -------
    str
        Plain text.

    Examples
    --------
    >>> speaker(ToolMessage("call_1", "get_weather", "11 °C")), speaker(SummaryMessage("They met.", 2))
    ('tool get_weather', 'summary of 2 messages')
    """
    if isinstance(message, ToolMessage):
        return f"tool {one_line(message.name)}"
    return f"summary of {count(message.replaced, 'message')}" if isinstance(message, SummaryMessage) else message.role
