"""What users may put around each model call and each tool call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from cyclops_nb.errors import ConfigError
from cyclops_nb.messages import AssistantMessage, ToolCall, ToolMessage
from cyclops_nb.models.base import ModelRequest

__all__ = [
    "Middleware",
    "ModelCall",
    "ToolRun",
    "around_model",
    "around_tool",
    "changes_answers",
    "checked_middleware",
    "filters_text",
]

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

    def check_tools(self, names: Collection[str]) -> None:
        """Raise `ConfigError` if this does not fit an agent with such tools; called when the agent is made."""

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
    return getattr(item.filter_text, "__func__", None) is not Middleware.filter_text


def checked_middleware(middleware: Any, tool_names: Collection[str]) -> tuple[Middleware, ...]:
    """Return the middleware of an agent, or raise `ConfigError`.

    Found only in a run, a question would have been kept unfiltered by then.

    Parameters
    ----------
    middleware : sequence of Middleware
        As it was given.
    tool_names : collection of str
        The tools that the agent has.
    """
    if isinstance(middleware, Middleware) or not isinstance(middleware, Iterable) or isinstance(middleware, str):
        raise ConfigError(f"middleware is a list of Middleware: write middleware=[...], not a {_kind(middleware)}")
    items = tuple(middleware)
    for item in items:
        if not isinstance(item, Middleware):
            hint = f": write {item.__name__}(...)" if isinstance(item, type) else ", a class derived from Middleware"
            raise ConfigError(f"each middleware must be an object, not {_kind(item)}{hint}")
        item.check_tools(tool_names)
    return items


def _kind(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
