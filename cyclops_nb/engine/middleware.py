"""What users may put around each model call and each tool call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from cyclops_nb.messages import AssistantMessage, ToolCall, ToolMessage
from cyclops_nb.models.base import ModelRequest

__all__ = ["Middleware", "ModelCall", "ToolRun", "around_model", "around_tool", "changes_answers", "filters_text"]

ModelCall = Callable[[ModelRequest], Awaitable[AssistantMessage]]
ToolRun = Callable[[ToolCall], Awaitable[ToolMessage]]
_In = TypeVar("_In")
_Out = TypeVar("_Out")


class Middleware:
    """Base of middleware: override what you need.

    The first middleware of an agent is the outermost. A wrapper may call ``call_next`` once, several times (a retry),
    or never (an answer of its own), and may change what goes in and comes out. What it raises ends the run.

    Examples
    --------
    >>> class Polite(Middleware):
    ...     async def wrap_model_call(self, request, call_next):
    ...         return await call_next(request)
    """

    async def wrap_model_call(self, request: ModelRequest, call_next: ModelCall) -> AssistantMessage:
        """Return the model's answer to `request`."""
        return await call_next(request)

    async def wrap_tool_call(self, call: ToolCall, call_next: ToolRun) -> ToolMessage:
        """Return the result of `call`."""
        return await call_next(call)

    def filter_text(self, text: str) -> str:
        """Return `text` as it may be kept and sent.

        Each text of each message passes through it before it enters the transcript, and those that stand there already
        when a run begins: so what it returned may come again. It may be called on any thread. If it raises, the text
        is withheld and the run fails.
        """
        return text


def around_model(middleware: Sequence[Middleware], innermost: ModelCall) -> ModelCall:
    """Return the model call with all middleware around it."""
    return _chain([item.wrap_model_call for item in middleware], innermost)


def around_tool(middleware: Sequence[Middleware], innermost: ToolRun) -> ToolRun:
    """Return the tool call with all middleware around it."""
    return _chain([item.wrap_tool_call for item in middleware], innermost)


def _chain(wraps: Sequence[Callable[..., Any]], innermost: Callable[[_In], _Out]) -> Callable[[_In], _Out]:
    call = innermost
    for wrap in reversed(wraps):
        call = partial(_call_with, wrap, call)
    return call


def _call_with(wrap: Callable[..., Any], call_next: Callable[[_In], _Out], value: _In) -> Any:
    return wrap(value, call_next)


def changes_answers(middleware: Sequence[Middleware]) -> bool:
    """Say whether some middleware wraps model calls or filters, so that deltas may turn out not to be the answer."""
    return any(
        type(item).wrap_model_call is not Middleware.wrap_model_call or filters_text(item) for item in middleware
    )


def filters_text(item: Middleware) -> bool:
    """Say whether middleware overrides `Middleware.filter_text`; most does not, and costs nothing then."""
    return getattr(type(item), "filter_text", Middleware.filter_text) is not Middleware.filter_text
