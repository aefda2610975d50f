"""Makes the body of a Responses API request out of messages. Pure.

Nothing is left with the server (``store`` is false), so every request holds the whole conversation, and reasoning goes
back encrypted or not at all. What was said under the other API goes as plain text, calls and results.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cyclops_nb.config import AgentConfig
from cyclops_nb.messages import (
    AssistantMessage,
    ImagePart,
    InputPart,
    ReasoningPart,
    SummaryMessage,
    TextPart,
    ToolCall,
    ToolMessage,
)
from cyclops_nb.models.base import Endpoint, ModelRequest
from cyclops_nb.models.sendable import SUMMARY_HEAD, data_url, joined, legal_name, sent_parts, valid_arguments
from cyclops_nb.models.strictness import is_strict

__all__ = ["responses_notes", "responses_payload"]

_UNKNOWN_SETTINGS = ("seed", "stop")
_LONGEST_ID = 64
_NOT_SENT_BACK = {"status"}
"""Fields of reasoning that describe it and that servers do not take in a question."""


def responses_payload(request: ModelRequest, endpoint: Endpoint) -> dict[str, Any]:
    """Return the body of the request."""
    config = request.config
    body: dict[str, Any] = {
        "model": endpoint.model,
        "input": _input(request, endpoint),
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    settings = {
        "instructions": config.system_prompt or None,
        "temperature": config.temperature,
        "top_p": config.top_p,
        "max_output_tokens": config.max_tokens,
    }
    body.update((name, value) for name, value in settings.items() if value is not None)
    if config.reasoning_effort is not None:
        body["reasoning"] = {"effort": config.reasoning_effort, "summary": "auto"}
    if request.tools:
        body.update(_tools(request))
    if request.response_schema is not None:
        schema = dict(request.response_schema)
        form = {"type": "json_schema", "name": "answer", "schema": schema, "strict": is_strict(schema)}
        body["text"] = {"format": form}
    return _with_extra(body, config.extra_body or {})


def responses_notes(config: AgentConfig) -> list[str]:
    """Return warnings about settings that this API does not have."""
    return [
        f"the Responses API has no {name}: it was left out"
        for name in _UNKNOWN_SETTINGS
        if getattr(config, name) is not None
    ]


def _tools(request: ModelRequest) -> dict[str, Any]:
    config = request.config
    # not strict: unless told so, servers would make each argument a required one
    result: dict[str, Any] = {"tools": [{"type": "function", **tool, "strict": False} for tool in request.tools]}
    if config.tool_choice is not None:
        result["tool_choice"] = _tool_choice(config.tool_choice)
    if config.parallel_tool_calls is not None:
        result["parallel_tool_calls"] = config.parallel_tool_calls
    return result


def _tool_choice(choice: str | Mapping[str, Any]) -> Any:
    if isinstance(choice, str):
        return choice if choice in {"auto", "none", "required"} else {"type": "function", "name": choice}
    function = choice.get("function")  # the form that the other API has
    return {"type": "function", "name": function.get("name")} if isinstance(function, Mapping) else dict(choice)


def _with_extra(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Add fields of the user's own; in objects such as ``text`` and ``reasoning`` they stand beside ours."""
    for name, value in extra.items():
        ours = body.get(name)
        body[name] = {**ours, **value} if isinstance(ours, dict) and isinstance(value, Mapping) else value
    return body


def _input(request: ModelRequest, endpoint: Endpoint) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = []
    ids = _CallIds()
    for message in request.messages:
        if isinstance(message, ToolMessage):
            parts = sent_parts(message.content)
            shown = joined(parts) if all(isinstance(part, TextPart) for part in parts) else _content(parts)
            result.append({"type": "function_call_output", "call_id": ids.of_result(message.call_id), "output": shown})
        elif isinstance(message, AssistantMessage):
            ids.begin_turn()
            own = request.hosts.get(message.run_id or "") == endpoint.host
            result.extend(_assistant_items(message, request.config.reasoning_replay, ids, own=own))
        else:
            head = [TextPart(SUMMARY_HEAD)] if isinstance(message, SummaryMessage) else []
            result.append({"type": "message", "role": "user", "content": _content([*head, *message.content])})
    return result


def _content(parts: Sequence[InputPart]) -> list[dict[str, Any]]:
    return [_part(part) for part in sent_parts(parts)] or [_part(TextPart(""))]


def _part(part: InputPart) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    if isinstance(part, ImagePart):
        return {"type": "input_image", "image_url": data_url(part), "detail": "auto"}
    return {"type": "input_file", "filename": part.name, "file_data": data_url(part)}


def _assistant_items(message: AssistantMessage, replay: str, ids: _CallIds, *, own: bool) -> Iterator[dict[str, Any]]:
    waiting: list[dict[str, Any]] = []
    """Reasoning goes only with what it has led to: servers refuse it by itself."""
    for part in message.content:
        if isinstance(part, ReasoningPart):
            waiting.extend(_reasoning_items(part, replay) if own else ())
            continue
        if isinstance(part, ToolCall):
            item: dict[str, Any] = {
                "type": "function_call",
                "call_id": ids.of_call(part.id),
                "name": legal_name(part.name),
                "arguments": valid_arguments(part.arguments),
            }
        elif part.text:
            content = [{"type": "output_text", "text": part.text}]
            item = {"type": "message", "role": "assistant", "content": content}
            if own and part.provider_metadata.get("phase"):
                item["phase"] = part.provider_metadata["phase"]
        else:
            continue
        yield from waiting
        waiting = []
        yield item


def _reasoning_items(part: ReasoningPart, replay: str) -> Iterator[dict[str, Any]]:
    item = part.provider_metadata.get("item")
    if replay == "never" or not isinstance(item, Mapping) or "led_to" in part.provider_metadata:
        return
    # the server has kept nothing of it, so what does not hold the reasoning itself means nothing to it
    if item.get("encrypted_content") or (replay == "always" and item.get("content")):
        sent = {name: value for name, value in item.items() if value is not None and name not in _NOT_SENT_BACK}
        yield {"summary": [], **sent}


class _CallIds:
    """Ids for calls and their results that stand for one call alone: those in a session repeat from turn to turn."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._of_turn: dict[str, str] = {}

    def begin_turn(self) -> None:
        """Forget the calls of the turn before."""
        self._of_turn = {}

    def of_call(self, call_id: str) -> str:
        """Return the id to send for a call."""
        sent, count = call_id, 1
        while sent in self._taken or len(sent) > _LONGEST_ID:
            count += 1
            sent = f"call_{hashlib.sha256(f'{call_id} {count}'.encode()).hexdigest()[:24]}"
        self._taken.add(sent)
        self._of_turn[call_id] = sent
        return sent

    def of_result(self, call_id: str) -> str:
        """Return the id to send for the result of a call."""
        return self._of_turn.get(call_id, call_id)
