"""What a server refuses by name is left out and not asked for again.

Servers know some fields of a request and not others, and say so with a status. What shapes no answer is left out
silently, a setting of the user's with a warning. Only a field that the server does not know counts: where it dislikes
a value, the user has to hear of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cyclops_nb.models.refused_names import refused_names, refuses_reasoning

if TYPE_CHECKING:
    import openai

__all__ = ["Refusals"]

_OPTIONS: dict[str, str | None] = {
    "stream_options": None,
    "include": None,
    "store": None,
    "reasoning.summary": None,
    "seed": "seed",
    "temperature": "temperature",
    "top_p": "top_p",
    "parallel_tool_calls": "parallel_tool_calls",
    "reasoning_effort": "reasoning_effort",
    "reasoning": "reasoning_effort",
    "response_format": "response_model",
    "text.format": "response_model",
}
"""The fields that are left out when they are refused, with the user's name for them; None for those that are ours."""
_OTHER_NAME = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}


class Refusals:
    """What the server of an agent has refused so far."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._is_reasoning_refused = False

    def learn(self, error: openai.APIStatusError, body: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
        """Take note of what was refused, and say whether the request is worth another try.

        Parameters
        ----------
        error : openai.APIStatusError
            The refusal.
        body : mapping
            What was sent.
        given : mapping
            Fields that the user has put into the request by name; they are never left out.
        """
        if error.status_code not in {400, 422}:
            return False
        names = refused_names(error.body or error.message)
        if error.param and _OPTIONS.get(error.param.partition("[")[0], "") is None:
            names.add(error.param.partition("[")[0])  # its value is ours too: whatever is wrong, it can go
        found = {
            option
            for option in (*_OPTIONS, *_OTHER_NAME)
            if _has(body, option) and not _has(given, option) and any(_means(name, option) for name in names)
        }
        if "reasoning.summary" in found:
            found.discard("reasoning")
        found -= {name for name in found if _OTHER_NAME.get(name) in self._names}
        self._names |= found
        if not found and _has_reasoning(body) and refuses_reasoning(error.body or error.message):
            self._is_reasoning_refused = True
            return True
        return bool(found)

    def applied_to(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request without what the server has refused."""
        result = dict(body)
        for option in self._names:
            if option in _OTHER_NAME:
                if option in result:
                    result.setdefault(_OTHER_NAME[option], result.pop(option))
            elif _has(result, option):
                _remove(result, option)
        if self._is_reasoning_refused and _has_reasoning(result):
            result["input"] = [item for item in result["input"] if not _is_reasoning(item)]
        return result

    def notes(self, body: Mapping[str, Any], host: str) -> list[str]:
        """Return warnings about the user's settings that are left out of a request."""
        left_out = [option for option in _OPTIONS if option in self._names and _has(body, option)]
        names = [_named(option) for option in left_out if _OPTIONS[option]]
        if self._is_reasoning_refused and _has_reasoning(body):
            names.append("the reasoning of earlier answers")
        return [f"{host} does not take {name}: it was left out" for name in names]


def _named(option: str) -> str:
    setting = _OPTIONS[option]
    return option if setting == option else f"{option} ({setting})"


def _has_reasoning(body: Mapping[str, Any]) -> bool:
    """Say whether a request holds items of reasoning, as those of the Responses API do."""
    items = body.get("input")
    return isinstance(items, list) and any(map(_is_reasoning, items))


def _is_reasoning(item: Any) -> bool:
    return isinstance(item, Mapping) and item.get("type") == "reasoning"


def _means(name: str, option: str) -> bool:
    """Say whether a refused name is that of a field, or of something inside it."""
    return name == option or name.startswith(f"{option}.") or (option == "text.format" and name == "text")


def _has(body: Mapping[str, Any], option: str) -> bool:
    outer, _, inner = option.partition(".")
    return outer in body and (not inner or (isinstance(body[outer], Mapping) and inner in body[outer]))


def _remove(body: dict[str, Any], option: str) -> None:
    outer, _, inner = option.partition(".")
    rest = {name: value for name, value in body[outer].items() if name != inner} if inner else {}
    if rest:
        body[outer] = rest
    else:
        del body[outer]
