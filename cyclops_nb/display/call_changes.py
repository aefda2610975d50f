"""How the tool calls of two messages differ: what was called, with what, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from markupsafe import Markup

from cyclops_nb.display.content_keys import content_keys
from cyclops_nb.display.parts import arguments_line, preview
from cyclops_nb.display.units import Result, Unit
from cyclops_nb.display.wording import changes
from cyclops_nb.messages import AssistantMessage, ToolCall
from cyclops_nb.render.escape import fragment, join, label
from cyclops_nb.render.text import one_line

__all__ = ["call_changes"]

_MOST = 20
_Pair = tuple[ToolCall, Result | None]


def call_changes(other: Unit, unit: Unit) -> Markup | None:
    """Return how the tool calls of `unit` differ from those of `other`.

    Parameters
    ----------
    other, unit : Unit
        Two messages with the results of their calls; calls are compared in their order.

    Returns
    -------
    Markup or None
        A list that says each difference in words; None if there is none.
    """
    lines = []
    for was, now in zip_longest(other.calls, unit.calls):
        line = _difference(was, now)
        if line is not None:
            lines.append(fragment("<li>{}</li>", line))
        if len(lines) == _MOST:
            lines.append(fragment("<li>{}</li>", "…"))
            break
    return fragment("<ul>{}</ul>", join(lines)) if lines else None


def _difference(was: _Pair | None, now: _Pair | None) -> Markup | None:
    if was is None or now is None:
        pair = was or now
        assert pair is not None  # noqa: S101 - zip_longest gives one of them at least
        return fragment("{}: <code>{}</code>", "only here" if was is None else "not here", label(_line(pair[0])))
    if _said(was[0]) != _said(now[0]):
        old, new = _line(was[0]), _line(now[0])
        marked = changes(old, new)
        if marked is not None and was[0].name == now[0].name:
            return fragment("call: {}", marked)
        return fragment("call: <code>{}</code> instead of <code>{}</code>", label(new), label(old))
    return next(_of_results(now[0], was[1], now[1]), None)


def _of_results(call: ToolCall, was: Result | None, now: Result | None) -> Iterator[Markup]:
    name = label(call.name)
    if was is None or now is None:
        if was is not now:
            yield fragment("<code>{}</code> has {} here", name, "no result" if now is None else "a result")
        return
    old, new = was.message, now.message
    if old.content == new.content and old.status == new.status:
        return
    ended = f" ({one_line(new.status)} instead of {one_line(old.status)})" if new.status != old.status else ""
    marked = changes(old.text, new.text)
    if marked is not None:
        yield fragment("result of <code>{}</code>{}: {}", name, ended, marked)
    else:
        said = fragment("{} instead of {}", label(preview(new)), label(preview(old)))
        yield fragment("result of <code>{}</code>{}: {}", name, ended, said)


def _said(call: ToolCall) -> object:
    return content_keys([AssistantMessage(call)])


def _line(call: ToolCall) -> str:
    return f"{one_line(call.name)}({arguments_line(call.arguments)})"
