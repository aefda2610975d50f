"""An LLM agent library made for Jupyter.

Everything public can be imported from here. Names are loaded at their first use, so that ``import cyclops_nb`` is
quick and pulls in neither openai nor pandas nor a display. Type checkers read ``__init__.pyi``.
"""

from __future__ import annotations

import importlib
from typing import Any

from cyclops_nb._version import __version__ as __version__

_PLACES = {
    "agent": ["Agent"],
    "config": ["AgentConfig", "Compaction"],
    "display.branches": ["Comparison", "compare"],
    "display.explore": ["explore"],
    "display.explorer": ["Explorer"],
    "display.family_tree": ["SessionTree", "tree"],
    "engine.middleware": ["Middleware"],
    "errors": [
        "ConfigError", "ContextOverflowError", "CyclopsError", "InputError", "MaxIterationsError",
        "MissingExtraError", "ModelConnectionError", "ModelError", "ModelTimeoutError", "OutputError",
        "RateLimitError", "SessionBusyError", "SessionConflictError", "SessionFormatError", "SessionNotFoundError",
        "TranscriptError",
    ],
    "events": [
        "AnyEvent", "Compacted", "Event", "ReasoningDelta", "RequestRetried", "RunFinished", "RunStarted",
        "StepFinished", "StepStarted", "TextDelta", "ToolCallDelta", "ToolCallReady", "ToolCallStarted", "ToolResult",
    ],
    "frames": [
        "UsageTable", "messages_frame", "runs_frame", "steps_frame", "tool_calls_frame", "usage_table",
    ],
    "handle": ["RunHandle"],
    "interop.export": ["export_notebook"],
    "interop.strip": ["Stripped", "strip"],
    "interop.working_notebook": ["FoundSessions", "sessions_in_notebook"],
    "messages": [
        "AnyMessage", "AssistantMessage", "FilePart", "ImagePart", "Message", "Part", "ReasoningPart",
        "SummaryMessage", "TextPart", "ToolCall", "ToolMessage", "UserMessage",
    ],
    "middleware.approval": ["Approval"],
    "middleware.redaction": ["Redaction"],
    "models.base": ["ModelRequest"],
    "response": ["AgentResponse", "Answer"],
    "runs": ["Run"],
    "session": ["Session"],
    "stores.base": ["SessionInfo", "SessionStore"],
    "stores.file": ["FileSessionStore"],
    "stores.memory": ["InMemorySessionStore"],
    "stores.notebook": ["NotebookSessionStore"],
    "tools": ["RunContext", "Tool", "tool"],
    "usage": ["Usage"],
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}

__all__ = sorted([*_MODULE_OF, "__version__"])  # noqa: PLE0605 - proven complete by a test


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'cyclops_nb' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"cyclops_nb.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


def load_ipython_extension(ipython: Any) -> None:
    """Add the magics ``%%ask`` and ``%sessions``; what ``%load_ext cyclops_nb`` calls."""
    importlib.import_module("cyclops_nb.display.magics").load_ipython_extension(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """Take the magics away again; what ``%unload_ext cyclops_nb`` calls."""
    importlib.import_module("cyclops_nb.display.magics").unload_ipython_extension(ipython)
