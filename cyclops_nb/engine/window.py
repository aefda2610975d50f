"""How much of a model's context window a transcript fills, and where it may be cut. Pure.

Counts are what the server reported for the last answer, and an estimate for what came after it: no tokenizer is right
for all models, and a server's own count is right for its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from cyclops_nb.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    SummaryMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)
from cyclops_nb.values import clean_json

__all__ = [
    "cut_point",
    "estimated_tokens",
    "limit_told_in",
    "scale_of_estimates",
    "tokens_beside",
    "tokens_of_request",
]

_BYTES_PER_TOKEN = 4
"""Of English; other languages have more bytes to a letter, and more tokens to it."""
_TOKENS_OF_A_MESSAGE = 4
"""Role and marks."""
_TOKENS_OF_A_PICTURE = 1000
_BYTES_OF_A_PAGE = 50_000
"""Of a file that is no text, such as a PDF; servers turn each page into a picture."""
_TOLD_LIMIT = re.compile(
    r"""
    (?:maximum|limit|allowed|context\ (?:length|size|window))\b [^\d.]{0,40}? (?<![\w.-])(\d[\d,]*)(?![\w-])
    | (?<![\w.-])(\d[\d,]*)(?:\ tokens)?\ maximum
    """,
    re.IGNORECASE | re.VERBOSE,
)
_LARGEST_SCALE = 4.0
_LEAST_CREDIBLE = 0.4
"""A server that reports less than this part of the estimate does not count, or has cut the prompt."""
_LEAST_SHARE = 4
"""The part of what could be summarised that must be, for the kept part to begin with a user message."""


def estimated_tokens(messages: Sequence[Message]) -> int:
    """Return about how many tokens some messages are.

    Examples
    --------
    >>> estimated_tokens([UserMessage("What is the capital of Japan?")])
    11
    """
    return sum(_TOKENS_OF_A_MESSAGE + sum(map(_tokens_of, message.content)) for message in messages)


def _tokens_of(part: Part) -> int:
    if isinstance(part, TextPart):
        return _tokens_of_text(part.text)
    if isinstance(part, ReasoningPart):
        return 0  # most of it is not sent again
    if isinstance(part, ImagePart):
        return _TOKENS_OF_A_PICTURE
    if isinstance(part, FilePart):
        size = len(part.data) * 3 // 4
        if part.media_type.startswith("text/"):
            return size // _BYTES_PER_TOKEN
        return _TOKENS_OF_A_PICTURE * (1 + size // _BYTES_OF_A_PAGE)
    return _tokens_of_text(part.name + part.arguments)


def _tokens_of_text(text: str) -> int:
    return len(text.encode()) // _BYTES_PER_TOKEN


def tokens_beside(system_prompt: str | None, tools: Sequence[Mapping[str, Any]]) -> int:
    """Return about how many tokens a request has beside its messages."""
    return _tokens_of_text(system_prompt or "") + sum(_tokens_of_text(json.dumps(clean_json(tool))) for tool in tools)


def tokens_of_request(messages: Sequence[Message], beside: int) -> int:
    """Return about how many tokens a request with these messages has.

    That is what the server counted for the last answer, and an estimate of what has been added since; without such a
    count all is estimated.
    """
    known = _last_report(messages)
    if known is None:
        return int((beside + estimated_tokens(messages)) * scale_of_estimates(messages, beside))
    index, reported = known
    before, after = messages[: index + 1], messages[index + 1 :]
    if reported < _LEAST_CREDIBLE * estimated_tokens(before):
        return beside + estimated_tokens(messages)
    return reported + estimated_tokens(after)


def scale_of_estimates(messages: Sequence[Message], beside: int) -> float:
    """Return how many tokens the server counts for each estimated one: one at least, and not many."""
    known = _last_report(messages)
    if known is None:
        return 1.0
    index, reported = known
    return min(max(1.0, reported / (estimated_tokens(messages[: index + 1]) + beside)), _LARGEST_SCALE)


def _last_report(messages: Sequence[Message]) -> tuple[int, int] | None:
    """Return the place of the last answer whose usage tells the length of what stands before it, and that length."""
    summaries = [message.created_at for message in messages if isinstance(message, SummaryMessage)]
    latest = max(summaries, default=None)
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if not isinstance(message, AssistantMessage) or message.usage is None:
            continue
        if latest is not None and message.created_at <= latest:
            return None  # it answered a longer transcript than stands here now
        usage = message.usage
        return index, usage.input_tokens + usage.output_tokens - usage.reasoning_tokens
    return None


def cut_point(messages: Sequence[Message], keep_last: int, *, room: int | None = None) -> int:
    """Return how many messages, from the first, a summary is to stand for; 0 if there is nothing to summarise.

    No call is parted from its result, and what waits for an answer is kept. The kept part begins with a user message
    where that leaves enough to summarise.

    Parameters
    ----------
    messages : sequence of messages
        A valid transcript.
    keep_last : int
        How many messages to keep, at least about.
    room : int, optional
        Estimated tokens that the kept part may have; for it fewer messages are kept.

    Examples
    --------
    >>> talk = [UserMessage("a"), AssistantMessage("b"), UserMessage("c"), AssistantMessage("d")]
    >>> cut_point(talk, 1)
    2
    """
    first = 1 if messages and isinstance(messages[0], SummaryMessage) else 0  # alone it cannot get shorter
    last = _start_of_what_is_open(messages)
    places = [place for place in range(first + 1, last + 1) if not isinstance(_at(messages, place), ToolMessage)]
    best = _place_for_count(messages, [place for place in places if place <= len(messages) - keep_last], first)
    if room is not None and estimated_tokens(messages[best:]) > room:
        later = [place for place in places if place > best]
        fitting = (place for place in later if estimated_tokens(messages[place:]) <= room)
        best = next(fitting, later[-1] if later else best)
    return best


def _place_for_count(messages: Sequence[Message], places: Sequence[int], first: int) -> int:
    """Return the last of some places, or the beginning of a turn before it."""
    if not places or places[-1] == len(messages):
        return places[-1] if places else 0
    last = places[-1]
    start = next((place for place in reversed(places) if isinstance(messages[place], UserMessage)), None)
    if start is None:
        return last
    is_worth_it = _LEAST_SHARE * estimated_tokens(messages[first:start]) >= estimated_tokens(messages[first:last])
    return start if is_worth_it else last


def _start_of_what_is_open(messages: Sequence[Message]) -> int:
    """Return the place of the question, or of the calls and results, that the model is to answer next."""
    place = len(messages)
    while place and isinstance(messages[place - 1], UserMessage):
        place -= 1
    if place == len(messages) and messages and isinstance(messages[-1], ToolMessage):
        while place and isinstance(messages[place - 1], ToolMessage):
            place -= 1
        place -= 1
    return max(place, 0)


def _at(messages: Sequence[Message], place: int) -> Message | None:
    return messages[place] if place < len(messages) else None


def limit_told_in(text: str) -> int | None:
    """Return the input limit that a server names when it says that the context is full, or None.

    Examples
    --------
    >>> limit_told_in("This model's maximum context length is 8192 tokens, you requested 9,000 tokens.")
    8192
    """
    match = _TOLD_LIMIT.search(text)
    return None if match is None else int(next(filter(None, match.groups())).replace(",", ""))
