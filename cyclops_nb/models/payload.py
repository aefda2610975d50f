"""Makes the body of a Chat Completions request out of messages. Pure.

What a provider sent and only it understands (reasoning signatures, fields of calls) goes back to that provider
untouched and to no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
from cyclops_nb.models.presets import OPENAI_URL, host_of, wants_reasoning
from cyclops_nb.models.sendable import SUMMARY_HEAD, data_url, joined, legal_name, sent_parts, valid_arguments
from cyclops_nb.models.strictness import is_strict

__all__ = ["chat_payload"]

_PLAIN_FIELDS = ("reasoning_content", "reasoning")
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
        schema: dict[str, Any] = {"name": "answer", "schema": dict(request.response_schema)}
        if is_strict(request.response_schema):
            schema["strict"] = True
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
    empty_field = _empty_field(request, endpoint)
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
            said = _assistant_message(message, request.config.reasoning_replay, endpoint, own=own)
            if said is not None:
                if empty_field and not said.keys() & {*_PLAIN_FIELDS, "reasoning_details"}:
                    said[empty_field] = ""
                result.append(said)
        elif isinstance(message, SummaryMessage):
            result.append({"role": "user", "content": _content([TextPart(SUMMARY_HEAD), *message.content])})
        else:
            result.append({"role": "user", "content": _content(message.content)})
    if pictures:
        result.append({"role": "user", "content": pictures})
    return result


def _content(parts: Sequence[InputPart]) -> str | list[dict[str, Any]]:
    parts = sent_parts(parts)
    if all(isinstance(part, TextPart) for part in parts):
        return joined(parts)
    return [_part(part) for part in parts]


def _part(part: InputPart) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, ImagePart):
        return {"type": "image_url", "image_url": {"url": data_url(part)}}
    return {"type": "file", "file": {"filename": part.name, "file_data": data_url(part)}}


def _tool_message(message: ToolMessage) -> dict[str, Any]:
    parts = sent_parts(message.content)
    text = joined(parts)
    if not text and any(not isinstance(part, TextPart) for part in parts):
        text = "(see the next message)"
    return {"role": "tool", "tool_call_id": message.call_id, "content": text}


def _pictures(message: ToolMessage) -> list[dict[str, Any]]:
    """Return what a tool result shows: results may only hold text, so it follows them as the user's."""
    parts = [part for part in sent_parts(message.content) if not isinstance(part, TextPart)]
    if not parts:
        return []
    head = {"type": "text", "text": f"Returned by tool {message.name} (call {message.call_id}):"}
    return [head, *map(_part, parts)]


def _assistant_message(
    message: AssistantMessage, replay: str, endpoint: Endpoint, *, own: bool
) -> dict[str, Any] | None:
    calls = [_call(part, own=own) for part in message.content if isinstance(part, ToolCall)]
    text = message.text
    if not text and not calls:
        return None  # an answer without a word: servers refuse it as a message
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
    return result


def _empty_field(request: ModelRequest, endpoint: Endpoint) -> str | None:
    """Return the field for reasoning that messages without any must have, empty: some servers miss it otherwise."""
    parts = (part for message in request.messages for part in message.content if isinstance(part, ReasoningPart))
    fields = [part.provider_metadata.get("field", "reasoning_content") for part in parts if not _is_item(part)]
    replay = request.config.reasoning_replay
    if replay == "auto" and wants_reasoning(endpoint.host):
        return "reasoning_content"
    return fields[-1] if replay == "always" and fields and fields[-1] in _PLAIN_FIELDS else None


def _is_item(part: ReasoningPart) -> bool:
    """Say whether reasoning came through the Responses API, which alone can take it back."""
    return "item" in part.provider_metadata


def _is_replayed(part: ReasoningPart, replay: str, endpoint: Endpoint, *, own: bool) -> bool:
    if _is_item(part):
        return False
    if replay != "auto":
        return replay == "always"
    details = part.provider_metadata.get("reasoning_details") or ()
    signed = any(
        isinstance(item, Mapping) and (item.get("type") == "reasoning.encrypted" or item.get("signature"))
        for item in details
    )
    return own and (signed or wants_reasoning(endpoint.host))


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
    function: dict[str, Any] = {"name": legal_name(call.name), "arguments": valid_arguments(call.arguments)}
    result: dict[str, Any] = {"id": call.id, "type": "function", "function": function}
    if own:
        function.update(call.provider_metadata.get("function") or {})
        result.update((name, value) for name, value in call.provider_metadata.items() if name != "function")
    return result
