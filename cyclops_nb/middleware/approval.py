"""Asks a person before a tool is run.

The question is asked on the thread that waits for the run, which in a notebook is the one that may ask in a cell. Calls
of one step run together, but there they queue up, so questions come one after another, in call order.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any

from cyclops_nb.engine.middleware import Middleware, ToolRun
from cyclops_nb.engine.state import CURRENT_RUN
from cyclops_nb.errors import ConfigError
from cyclops_nb.messages import ToolCall, ToolMessage
from cyclops_nb.render.text import cut, indented_json, left_out, one_line, visible
from cyclops_nb.threads import run_in_thread
from cyclops_nb.tools import Tool, as_tools

__all__ = ["Approval"]

Ask = Callable[[ToolCall], bool | str | Awaitable[bool | str]]
_SHOWN = 2000
"""Characters of the arguments that a question shows."""
_REFUSED = "The user did not allow this call, and it was not run."
_NOBODY = "This call needs the user's approval, but nobody could be asked here, so it was not run."
_NOBODY_WARNING = (
    "tool calls were not run, because nobody could be asked to approve them here: pass a function, Approval(ask=...)"
)
_ASKING = threading.Lock()
"""Held while a question waits for its answer: runs on other threads may have questions, too."""


class Approval(Middleware):
    """Has tool calls approved before they are run. A refusal is an answer for the model, and the run goes on.

    Parameters
    ----------
    ask : callable, optional
        A function, sync or async, that is given the `ToolCall` and returns True to run it, False to refuse it, or a
        text that refuses it and tells the model why. Without it the user is asked in the cell, or in the terminal:
        yes, no, always (for this tool, from now on), or the reason why not.
    tools : collection of str, Tool or function, optional
        The tools that need approval, or their names; all by default.

    Raises
    ------
    ConfigError
        If `ask` cannot be called, or `tools` are no tools. A name that is no tool of the agent is refused by `Agent`:
        misspelt, it would leave the tool that was meant unguarded.

    Examples
    --------
    >>> def ask(call):
    ...     return "Only files below /tmp." if "/etc" in call.arguments else True
    >>> def delete_file(path: str) -> None:
    ...     os.remove(path)
    >>> agent = Agent("gpt-4o-mini", tools=[delete_file], middleware=[Approval(ask, tools=[delete_file])])
    """

    def __init__(
        self, ask: Ask | None = None, *, tools: Collection[str | Tool | Callable[..., Any]] | None = None
    ) -> None:
        if ask is not None and not callable(ask):
            raise ConfigError(f"ask must be a function of a ToolCall, not a {type(ask).__name__}")
        self._ask = ask
        self._tools = None if tools is None else _names(tools)
        self._always: set[str] = set()

    def check_tools(self, names: Collection[str]) -> None:
        """Refuse an agent that has not all the tools that are to be approved."""
        unknown = sorted((self._tools or frozenset()).difference(names))
        if unknown:
            raise ConfigError(
                f"Approval names {unknown[0]!r}, which is no tool of this agent (they are {sorted(names)}): it would "
                "guard nothing"
            )

    async def wrap_tool_call(self, call: ToolCall, call_next: ToolRun) -> ToolMessage:
        """Run the call if it is approved."""
        if (self._tools is not None and call.name not in self._tools) or call.name in self._always:
            return await call_next(call)
        verdict = await self._verdict(call)
        if verdict is True:
            return await call_next(call)
        return ToolMessage(call.id, call.name, verdict or _REFUSED, status="error")

    async def _verdict(self, call: ToolCall) -> bool | str:
        state = CURRENT_RUN.get()
        waiting_thread = None if state is None else state.plan.caller
        if self._ask is None:
            verdict = None if waiting_thread is None else await waiting_thread(partial(self._question, call))
            if verdict is None and state is not None:
                state.warn(_NOBODY_WARNING)
            return _NOBODY if verdict is None else verdict
        if inspect.iscoroutinefunction(self._ask):
            verdict = await self._ask(call)
        else:
            ask = partial(self._ask, call)
            verdict = await (run_in_thread(ask) if waiting_thread is None else waiting_thread(ask))
        return _checked(await verdict if inspect.isawaitable(verdict) else verdict)

    def _question(self, call: ToolCall) -> bool | str | None:
        """Ask in the cell or terminal; called on the thread that waits for the run. None: nobody is there."""
        with _ASKING:
            if call.name in self._always:  # since this question was queued
                return True
            try:
                answer = input(_prompt(call)).strip()
            except (EOFError, OSError, RuntimeError, ValueError):
                return None  # a front end that cannot ask; no terminal, or one that was closed
            word = answer.lower()
            if word in {"a", "always"}:
                self._always.add(call.name)
        if word in {"y", "yes", "a", "always"}:
            return True
        return False if word in {"n", "no", ""} else f"{_REFUSED} They said: {answer}"


def _names(tools: Any) -> frozenset[str]:
    if isinstance(tools, str) or callable(tools) or not isinstance(tools, Collection):
        shown = repr(tools) if isinstance(tools, str) else "…"
        raise ConfigError(f"tools is a collection of tools or their names: write tools=[{shown}]")
    return frozenset(item if isinstance(item, str) else as_tools([item])[0].name for item in tools)


def _checked(verdict: Any) -> bool | str:
    if isinstance(verdict, bool | str):
        return verdict
    if type(verdict).__module__ == "numpy" and isinstance(getattr(verdict, "item", lambda: None)(), bool):
        return bool(verdict)
    raise ConfigError(f"ask must return True, False, or the reason of a refusal, not a {type(verdict).__name__}")


def _prompt(call: ToolCall) -> str:
    """Return the question, with nothing in it that a terminal obeys or that a reader cannot see."""
    head, count, tail = cut(call.arguments, _SHOWN)
    arguments = head if not count else f"{head} {left_out(count)} {tail}"
    shown = visible(arguments if count else indented_json(arguments) or arguments)
    return f"Run the tool {one_line(call.name)} with {shown} ?\n[y]es, [n]o, [a]lways, or why not: "
