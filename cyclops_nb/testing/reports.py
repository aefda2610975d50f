"""The usage that an answer reports: what the script says, or a count of words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cyclops_nb.testing.pieces import Call, Reply, Text

__all__ = ["CHAT_NAMES", "RESPONSES_NAMES", "Names", "usage_report"]


class Names(NamedTuple):
    """What an API calls the tokens of a prompt and of an answer."""

    prompt: str
    answer: str
    asked: tuple[str, ...]
    """Where in a request the texts stand that are counted."""


CHAT_NAMES = Names("prompt_tokens", "completion_tokens", ("messages",))
RESPONSES_NAMES = Names("input_tokens", "output_tokens", ("instructions", "input"))
_TEXT_KEYS = ("content", "tool_calls", "function", "text", "arguments", "output")


def usage_report(reply: Reply, body: Mapping[str, Any], names: Names) -> dict[str, Any] | None:
    """Return the usage that the answer to a request reports, or None if it reports none."""
    match reply.usage:
        case None:
            return None
        case Mapping() as given:
            usage = dict(given)
        case "counted":
            usage = _tokens(sum(_words(body.get(key)) for key in names.asked), _answer_words(reply), names)
        case (prompt, answer):
            usage = _tokens(prompt, answer, names)
    if reply.cached is not None:
        usage[f"{names.prompt}_details"] = {"cached_tokens": reply.cached}
    if reply.reasoning_tokens is not None:
        usage[f"{names.answer}_details"] = {"reasoning_tokens": reply.reasoning_tokens}
    if reply.cost is not None:
        usage["cost"] = reply.cost
    return usage


def _tokens(prompt: int, answer: int, names: Names) -> dict[str, Any]:
    return {names.prompt: prompt, names.answer: answer, "total_tokens": prompt + answer}


def _answer_words(reply: Reply) -> int:
    words = [piece.words for piece in reply.pieces if isinstance(piece, Text)]
    words += [len(piece.arguments.split()) for piece in reply.pieces if isinstance(piece, Call)]
    return sum(words)


def _words(value: object) -> int:
    """Count the words of all texts in a request's messages; pictures and files have none."""
    if isinstance(value, str):
        return len(value.split())
    if isinstance(value, list):
        return sum(map(_words, value))
    if not isinstance(value, dict):
        return 0
    return sum(_words(value[key]) for key in _TEXT_KEYS if key in value)
