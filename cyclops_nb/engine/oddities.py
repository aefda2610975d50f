"""What may be wrong with an answer that came: what a run warns of. Pure.

A warning that is often wrong is soon not read. So each rule here asks for something that ordinary servers do not do,
and is silent where there may be another reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cyclops_nb import pricing
from cyclops_nb.config import AgentConfig
from cyclops_nb.messages import AssistantMessage, Message, ReasoningPart, SummaryMessage, UserMessage
from cyclops_nb.models.base import Completion, Endpoint
from cyclops_nb.models.presets import is_service
from cyclops_nb.parts import TextPart, ToolCall
from cyclops_nb.runs import Run
from cyclops_nb.usage import Usage

__all__ = ["Asked", "input_limit", "is_same_model", "oddities"]

_CUT = "the prompt seems to have been cut by the server"
_RAISE = "; raise the context window of the server, or compact the session"
FEWER_THAN_BEFORE = f"{_CUT}: fewer tokens were counted than for a shorter one before{_RAISE}"
AT_THE_WINDOW = f"{_CUT}: it is exactly as long as a context window{_RAISE}"
FEWER_THAN_WORDS = f"{_CUT}: fewer tokens were counted than it has words{_RAISE}"

_SMALLEST_WINDOW = 512
"""Servers have none that is smaller, so that nothing below it can have been cut."""
_WINDOWS = tuple(1024 * 2**power for power in range(1, 8))
"""What programs that run models on one's own computer are set to, if nobody sets them to something else."""
_SHIFT = 4
"""Ollama cuts a prompt to half its window and a few tokens."""
_MOST_CHARACTERS_PER_TOKEN = 6
"""Code has about 3, English 4 to 5."""
_MANY_WORDS = 1000
_TOKENS_PER_WORD = 0.8
"""Tokens do not reach over the space between words, so that 1 would do for nearly all tokenizers."""


@dataclass(frozen=True)
class Asked:
    """What an answer was asked of and with."""

    endpoint: Endpoint
    config: AgentConfig
    run: Run
    runs: Sequence[Run]
    """All runs of the session, in order."""
    messages: Sequence[Message]
    """The transcript when the model was asked."""
    is_as_it_stands: bool
    """Whether the request was that transcript, which it is not in a compaction and behind some middleware."""


def oddities(completion: Completion, cost: float | None, asked: Asked) -> list[str]:
    """Return what is to be warned of about an answer that came to its end, each as a sentence.

    Parameters
    ----------
    completion : Completion
        What was read.
    cost : float or None
        Dollars.
    asked : Asked
        What it was asked of and with.
    """
    found: list[str] = []
    usage = completion.usage
    if usage is None:
        found.append("the server reported no usage")
    else:
        if cost is None:
            found.append(_unknown_price(usage, asked.config))
        cut = _cut_prompt(usage, completion.model, asked) if asked.is_as_it_stands else None
        found += [] if cut is None else [cut]
    if completion.finish_reason == "length":
        found.append("an answer was cut off by its length limit")
    name = asked.endpoint.model
    if completion.model and not is_same_model(name, completion.model):
        found.append(f"asked for model {name!r}, but {completion.model!r} answered")
    return found


def input_limit(config: AgentConfig, endpoint: Endpoint) -> int | None:
    """Return the model's context window in tokens as far as it is known without asking the server."""
    known = config.input_limit or endpoint.context_window
    return known or pricing.context_window(endpoint.model, endpoint.base_url)


def _unknown_price(usage: Usage, config: AgentConfig) -> str:
    missing = None if config.prices is None else pricing.missing_price(usage, config.prices)
    if missing is not None:
        return f"the price is unknown: prices= has none for {missing!r}"
    return "the price is unknown: pass prices= to count costs"


def _cut_prompt(usage: Usage, model: str | None, asked: Asked) -> str | None:
    """Return what tells that the server has left out a part of the prompt, or None."""
    # some servers count cached tokens beside the input and not in it
    most = usage.input_tokens + usage.cached_tokens
    if not usage.input_tokens:
        return None
    if any(most < earlier for earlier in _earlier_prompts(model, asked)):
        return FEWER_THAN_BEFORE
    texts = [asked.config.system_prompt or "", *_texts(asked.messages)]
    if _is_at_window(usage.input_tokens, sum(map(len, texts)), asked):
        return AT_THE_WINDOW
    if sum(map(len, texts)) > _MANY_WORDS + most:  # a word and a space have two characters at least
        words = sum(len(text.split()) for text in texts)
        if words > _MANY_WORDS and most < words * _TOKENS_PER_WORD:
            return FEWER_THAN_WORDS
    return None


def _earlier_prompts(model: str | None, asked: Asked) -> Iterator[int]:
    """Yield how long the present prompt must be at least: as long as those which it begins with.

    They had the same settings, tools and model, and nothing of them was taken out of the transcript since. Reasoning
    that was in them may be left out later, so it does not count.
    """
    if not _is_from_its_start(asked):
        return
    summaries = [message.created_at for message in asked.messages if isinstance(message, SummaryMessage)]
    alike = {run.id for run in asked.runs if run.config == asked.run.config}
    alike -= _structured(asked.messages)
    reasoning = 0
    for message in asked.messages:
        if not isinstance(message, AssistantMessage):
            continue
        if message.usage is not None and (message.run_id == asked.run.id or message.run_id in alike):
            is_comparable = message.model == model and not any(message.created_at <= time for time in summaries)
            tokens = message.usage.input_tokens - reasoning
            if is_comparable and message.usage.input_tokens >= _SMALLEST_WINDOW:
                yield tokens
        reasoning += _reasoning_tokens(message)


def _is_from_its_start(asked: Asked) -> bool:
    """Say whether a transcript begins as the session did, or with a summary: users may cut off its beginning."""
    first = asked.messages[0] if asked.messages else None
    if isinstance(first, SummaryMessage):
        return True
    run_id = next((run.id for run in asked.runs if run.kind == "run"), None)
    return isinstance(first, UserMessage) and first.run_id in {None, run_id}


def _structured(messages: Sequence[Message]) -> set[str | None]:
    """Return the runs with an answer that looks like JSON: a schema may have been in their prompts."""
    answers = (message for message in messages if isinstance(message, AssistantMessage))
    return {message.run_id for message in answers if message.text.lstrip()[:1] in {"{", "["}}


def _reasoning_tokens(message: AssistantMessage) -> int:
    reported = 0 if message.usage is None else message.usage.reasoning_tokens
    text = sum(len(part.text) for part in message.content if isinstance(part, ReasoningPart))
    return max(reported, text // 2)


def _is_at_window(tokens: int, characters: int, asked: Asked) -> bool:
    limit = asked.run.input_limit
    if limit is not None and limit >= _SMALLEST_WINDOW and limit - 1 <= tokens <= limit:
        return True
    if is_service(asked.endpoint.base_url):
        return False
    is_long = characters > _MOST_CHARACTERS_PER_TOKEN * tokens
    return any(tokens == window or (is_long and window < tokens <= window + _SHIFT) for window in _WINDOWS)


def _texts(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the texts that a request is made of."""
    for message in messages:
        for part in message.content:
            if isinstance(part, TextPart):
                yield part.text
            elif isinstance(part, ToolCall):
                yield part.arguments


_DATE = re.compile(r"[-@](\d{8}|\d{4}-\d\d-\d\d)$")
_MORE = re.compile(r"($|[-@]\d{4}|:|-(ud-)?i?q\d|-(b?f16|f32|fp8|fp16|mxfp4)$)")


def is_same_model(asked: str, answered: str) -> bool:
    """Say whether two names mean one model: servers add a path, a date, a tag or a file's ending to the name.

    Examples
    --------
    >>> is_same_model("gpt-4o-mini", "gpt-4o-mini-2024-07-18"), is_same_model("gpt-4o", "gpt-4o-mini")
    (True, False)
    """
    one, other = (_plain(name) for name in (asked, answered))
    if other.startswith(one) and _MORE.match(other[len(one) :]):
        return True
    base, _, tag = one.partition(":")
    if tag and ":" not in other:  # a router's choice after a colon is no part of the name
        return is_same_model(base, other)
    undated = _DATE.sub("", one), _DATE.sub("", other)
    return any(
        sorted(first.split("-")) == sorted(second.split("-"))
        for first, second in ((one, undated[1]), (undated[0], other))
    )


def _plain(name: str) -> str:
    return re.split(r"[/\\]", name.lower())[-1].removesuffix(".gguf").removesuffix("-gguf").removesuffix("-latest")
