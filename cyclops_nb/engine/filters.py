"""Passes texts through the filters of an agent's middleware, before anything is kept or sent.

Only texts change: a message keeps its id, its place, the ids of its calls; arguments that were a JSON object are one.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from cyclops_nb.config import AgentConfig
from cyclops_nb.engine.mailbox import is_fault
from cyclops_nb.engine.middleware import Middleware, filters_text
from cyclops_nb.media import file_text
from cyclops_nb.messages import FilePart, Message, Part, ReasoningPart, TextPart, ToolCall, ToolMessage
from cyclops_nb.runs import Run
from cyclops_nb.session import Session
from cyclops_nb.values import FrozenDict, Value, clean_text, freeze

__all__ = ["TextFilter"]

_Message = TypeVar("_Message", bound=Message)
_Value = TypeVar("_Value", bound=Value)
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_STRINGS = re.compile(_STRING, re.DOTALL)
_STRINGS_AND_NUMBERS = re.compile(rf"{_STRING}|-?\d[\d.eE+-]*", re.DOTALL)


class TextFilter:
    """All filters of an agent, one after the other; false if there is none.

    Parameters
    ----------
    middleware : sequence of Middleware
        Their `filter_text` is called in this order.
    tool_names : collection of str
        Names that are the user's own; names that a model made up are texts like all others.
    """

    def __init__(self, middleware: Sequence[Middleware], tool_names: Collection[str] = ()) -> None:
        self._filters = [item.filter_text for item in middleware if filters_text(item)]
        self._tool_names = tool_names

    def __bool__(self) -> bool:
        return bool(self._filters)

    def text(self, text: str) -> str:
        """Return `text` as it may be kept; raises what a filter raises."""
        filtered = text
        for filter_text in self._filters:
            filtered = _called(filter_text, filtered)
        return text if filtered == text else clean_text(filtered)

    def text_or(self, text: str, otherwise: str) -> str:
        """Return `text` as it may be kept, or `otherwise` where a filter fails."""
        try:
            return self.text(text)
        except Exception:  # noqa: BLE001 - the failure is told elsewhere, here the text is withheld
            return otherwise

    def message(self, message: _Message) -> _Message:
        """Return `message` as it may be kept: the same object if nothing in it changes."""
        if not self._filters:
            return message
        content = tuple(self._part(part) for part in message.content)
        changes = self._changes_of_data(message)
        if any(new is not old for new, old in zip(content, message.content, strict=True)):
            changes["content"] = content
        if isinstance(message, ToolMessage):
            changes |= self._changed_name(message.name)
        return _changed_copy(message, changes) if changes else message

    def config(self, config: AgentConfig) -> AgentConfig:
        """Return settings with the system prompt that may be sent."""
        prompt = config.system_prompt
        changed = self._changed("system_prompt", prompt) if prompt else {}
        return config.replace(**changed) if changed else config

    def clean(self, session: Session) -> None:
        """Replace what stands in `session`: title, metadata, messages, prompts and errors of runs; all, or nothing."""
        messages = [self.message(message) for message in session.messages]
        runs = [self._run(run) for run in session.runs]
        configs = {key: self._snapshot(snapshot) for key, snapshot in session.configs.items()}
        title = None if session.title is None else self.text(str(session.title))
        metadata = self._thawed(session.metadata)
        session.title = title
        if metadata != session.metadata:
            session.metadata = metadata
        session.messages[:] = messages
        session.runs[:] = runs
        session.configs.update(configs)

    def _run(self, run: Run) -> Run:
        changed = self._changed("message", run.error.message) if run.error is not None else {}
        return run.model_copy(update={"error": run.error.model_copy(update=changed)}) if changed and run.error else run

    def _snapshot(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        prompt = snapshot.get("system_prompt")
        changed = self._changed("system_prompt", prompt) if isinstance(prompt, str) else {}
        return FrozenDict({**snapshot, **changed}) if changed else snapshot

    def _part(self, part: Part) -> Part:
        changes = self._changes_of_data(part)
        if isinstance(part, TextPart | ReasoningPart):
            changes |= self._changed("text", part.text)
        elif isinstance(part, ToolCall):
            arguments = self._arguments(part.arguments)
            changes |= {} if arguments == part.arguments else {"arguments": arguments}
            changes |= self._changed_name(part.name)
        elif isinstance(part, FilePart):
            changes |= self._changed("name", part.name)
            changes |= self._changed_file(part)
        elif part.url and not part.url.startswith("data:"):
            changes |= self._changed("url", part.url)
        if isinstance(part, ReasoningPart) and changes:
            changes["provider_metadata"] = FrozenDict()  # its signature was for the text as it came
        return _changed_copy(part, changes) if changes else part

    def _changed_file(self, part: FilePart) -> dict[str, str]:
        """Filter the text in a text file, which is sent as text."""
        text = file_text(part)
        changed = {} if text is None else self._changed("data", text)
        return {"data": base64.b64encode(changed["data"].encode()).decode()} if changed else {}

    def _arguments(self, text: str) -> str:
        """Filter texts, keys and numbers in a JSON object, one by one, and leave all else of it as the model wrote it.

        Then the whole of it, for a filter may look for more than one value. What is no object is a text.
        """
        if not _is_object(text):
            return self.text(_STRINGS.sub(self._token, text))
        kept = _STRINGS_AND_NUMBERS.sub(self._token, text)
        filtered = self.text(kept)
        if filtered == kept or _is_object(filtered):
            return filtered
        return json.dumps({"filtered": filtered}, ensure_ascii=False)

    def _token(self, match: re.Match[str]) -> str:
        token = match.group()
        try:
            value = json.loads(token) if token.startswith('"') else token
        except ValueError:  # of what is no JSON
            return token
        filtered = self.text(value)
        return token if filtered == value else json.dumps(filtered, ensure_ascii=False)

    def _changes_of_data(self, value: Value) -> dict[str, Any]:
        """Return what changes in the data that stands beside the texts: notes, provider data, unknown fields."""
        names = [name for name in ("metadata", "provider_metadata") if getattr(value, name, None)]
        data = {name: getattr(value, name) for name in names} | (value.__pydantic_extra__ or {})
        filtered = {name: self._data(item) for name, item in data.items()}
        return {name: freeze(filtered[name]) for name, item in data.items() if filtered[name] != item}

    def _data(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return FrozenDict((self.text(key), self._data(item)) for key, item in value.items())
        return tuple(map(self._data, value)) if isinstance(value, list | tuple) else value

    def _thawed(self, value: Any) -> Any:
        """Return the user's own data, filtered, as it was: dicts and lists that can be changed."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key) if isinstance(key, str) else key: self._thawed(item) for key, item in value.items()}
        return [self._thawed(item) for item in value] if isinstance(value, list | tuple) else value

    def _changed_name(self, name: str) -> dict[str, str]:
        return {} if name in self._tool_names else self._changed("name", name)

    def _changed(self, field: str, text: str) -> dict[str, str]:
        filtered = self.text(text)
        return {} if filtered == text else {field: filtered}


def _is_object(text: str) -> bool:
    try:
        # numbers too long for Python are JSON as well
        return isinstance(json.loads(text, parse_int=str, parse_float=str), dict)
    except (ValueError, RecursionError):
        return False


def _called(filter_text: Callable[[str], Any], text: str) -> str:
    try:
        filtered = filter_text(text)
    except BaseException as error:
        # nothing is awaited here, so that no cancel of the run can come out of it
        if isinstance(error, Exception) or not (isinstance(error, asyncio.CancelledError) or is_fault(error)):
            raise
        raise RuntimeError(f"filter_text raised {error!r}") from error
    if not isinstance(filtered, str):
        raise TypeError(f"filter_text must return a str, got {type(filtered).__name__}")
    return filtered


def _changed_copy(value: _Value, changes: dict[str, Any]) -> _Value:
    unknown = value.__pydantic_extra__ or {}
    new = value.model_copy(update={name: item for name, item in changes.items() if name not in unknown})
    if unknown.keys() & changes.keys():  # they are read-only in the copy, too
        object.__setattr__(
            new, "__pydantic_extra__", FrozenDict({name: changes.get(name, item) for name, item in unknown.items()})
        )
    return new
