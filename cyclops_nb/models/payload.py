"""Makes the body of a Chat Completions request out of messages. Pure.

What a provider sent and only it understands (reasoning signatures, fields of calls) goes back to that provider
untouched and to no other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cyclops_nb.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    InputPart,
    ReasoningPart,
    SummaryMessage,
    TextPart,
    ToolCall,
    ToolMessage,
)
from cyclops_nb.models.base import Endpoint, ModelRequest
from cyclops_nb.models.presets import OPENAI_URL, host_of

__all__ = ["chat_payload"]

_SUMMARY_HEAD = "Summary of the conversation so far:\n\n"
_REPLAY_HOSTS = {"api.deepseek.com", "api.moonshot.ai", "api.moonshot.cn"}
"""Servers that refuse a conversation with tool calls when the reasoning before them is left out."""
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64
_NOT_SENT_BACK = {"annotations", "channel"}
"""Fields that describe an answer and that servers do not take in a question."""


def chat_payload(request: ModelRequest, endpoint: Endpoint) -> dict[str, Any]:
    """Return the body of the request."""
    config = request.config
    body: dict[str, Any] = {
        "model": endpoint.model,
        "messages": _messages(request, endpoint),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    for name in ("temperature", "top_p", "seed", "reasoning_effort"):
        value = getattr(config, name)
        if value is not None:
            body[name] = value
    if config.stop is not None:
        body["stop"] = list(config.stop) if isinstance(config.stop, tuple) else config.stop
    if config.max_tokens is not None:
        # OpenAI's reasoning models know the newer name only, other servers the older one only
        own = endpoint.host == host_of(OPENAI_URL)
        body["max_completion_tokens" if own else "max_tokens"] = config.max_tokens
    if request.tools:
        body["tools"] = [{"type": "function", "function": dict(tool)} for tool in request.tools]
        if config.tool_choice is not None:
            body["tool_choice"] = _tool_choice(config.tool_choice)
        if config.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = config.parallel_tool_calls
    if request.response_schema is not None:
        schema = {"name": "answer", "schema": dict(request.response_schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return {**body, **(config.extra_body or {})}


def _tool_choice(choice: str | Mapping[str, Any]) -> Any:
    if isinstance(choice, str) and choice not in {"auto", "none", "required"}:
        return {"type": "function", "function": {"name": choice}}
    return choice if isinstance(choice, str) else dict(choice)


def _messages(request: ModelRequest, endpoint: Endpoint) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = []
    if request.config.system_prompt:
        result.append({"role": "system", "content": request.config.system_prompt})
    pictures: list[dict[str, Any]] = []
    for message in request.messages:
        if isinstance(message, ToolMessage):
            result.append(_tool_message(message))
            pictures.extend(_pictures(message))
            continue
        if pictures:
            result.append({"role": "user", "content": pictures})
            pictures = []
        if isinstance(message, AssistantMessage):
            own = request.hosts.get(message.run_id or "") == endpoint.host
            result.extend(_assistant_message(message, request.config.reasoning_replay, endpoint, own=own))
        elif isinstance(message, SummaryMessage):
            result.append({"role": "user", "content": _content([TextPart(_SUMMARY_HEAD), *message.content])})
        else:
            result.append({"role": "user", "content": _content(message.content)})
    if pictures:
        result.append({"role": "user", "content": pictures})
    return result


def _content(parts: Sequence[InputPart]) -> str | list[dict[str, Any]]:
    if all(isinstance(part, TextPart) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, TextPart))
    return [_part(part) for part in parts]


def _part(part: InputPart) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, ImagePart):
        url = part.url or f"data:{part.media_type};base64,{part.data}"
        return {"type": "image_url", "image_url": {"url": url}}
    data = f"data:{part.media_type};base64,{part.data}"
    return {"type": "file", "file": {"filename": part.name, "file_data": data}}


def _tool_message(message: ToolMessage) -> dict[str, Any]:
    text = message.text
    others = [part for part in message.content if not isinstance(part, TextPart)]
    if not text and others:
        text = "(see the next message)"
    return {"role": "tool", "tool_call_id": message.call_id, "content": text}


def _pictures(message: ToolMessage) -> list[dict[str, Any]]:
    """Return what a tool result shows: results may only hold text, so it follows them as the user's."""
    parts = [part for part in message.content if isinstance(part, ImagePart | FilePart)]
    if not parts:
        return []
    head = {"type": "text", "text": f"Returned by tool {message.name} (call {message.call_id}):"}
    return [head, *map(_part, parts)]


def _assistant_message(
    message: AssistantMessage, replay: str, endpoint: Endpoint, *, own: bool
) -> Iterable[dict[str, Any]]:
    calls = [_call(part, own=own) for part in message.content if isinstance(part, ToolCall)]
    text = message.text
    if not text and not calls:
        return  # an answer without a word: servers refuse it as a message
    result: dict[str, Any] = {"role": "assistant", "content": text or None}
    if own:
        kept = message.provider_metadata.items()
        result.update((name, value) for name, value in kept if name not in _NOT_SENT_BACK)
    if calls:
        result["tool_calls"] = calls
    parts = [part for part in message.content if isinstance(part, ReasoningPart)]
    for part in parts:
        if _is_replayed(part, replay, endpoint, own=own):
            _add_reasoning(result, part)
    yield result


def _is_replayed(part: ReasoningPart, replay: str, endpoint: Endpoint, *, own: bool) -> bool:
    if replay != "auto":
        return replay == "always"
    details = part.provider_metadata.get("reasoning_details") or ()
    signed = any(
        isinstance(item, Mapping) and (item.get("type") == "reasoning.encrypted" or item.get("signature"))
        for item in details
    )
    return own and (signed or endpoint.host in _REPLAY_HOSTS)


def _add_reasoning(result: dict[str, Any], part: ReasoningPart) -> None:
    """Put reasoning into the field that it came in."""
    name = part.provider_metadata.get("field", "reasoning_content")
    if name == "reasoning_details":
        details = result.setdefault("reasoning_details", [])
        details.extend(part.provider_metadata.get("reasoning_details") or ())
    elif name == "thinking":
        thinking = {"type": "thinking", "thinking": [{"type": "text", "text": part.text}]}
        content = result["content"]
        texts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
        result["content"] = [thinking, *texts]
    else:
        result[name] = result.get(name, "") + part.text


def _call(call: ToolCall, *, own: bool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": _legal_name(call.name), "arguments": _valid_arguments(call.arguments)}
    result: dict[str, Any] = {"id": call.id, "type": "function", "function": function}
    if own:
        function.update(call.provider_metadata.get("function") or {})
        result.update((name, value) for name, value in call.provider_metadata.items() if name != "function")
    return result


def _legal_name(name: str) -> str:
    """Return a tool name that servers take: models make names up, and a refused one would be refused for ever."""
    return _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME] or "unnamed"


def _valid_arguments(arguments: str) -> str:
    """Return arguments that a server takes: what the model wrote if it is a JSON object, or that text inside one."""
    try:
        valid = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        valid = False
    return arguments if valid else json.dumps({"invalid_json": arguments}, ensure_ascii=False)
