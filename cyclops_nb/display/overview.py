"""The sessions that there are: in the variables of a notebook, and in the stores that it uses."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from cyclops_nb.agent import Agent
from cyclops_nb.display.html import head, notice, page, table
from cyclops_nb.display.register import register
from cyclops_nb.displayable import Displayable
from cyclops_nb.portal import portal
from cyclops_nb.render.escape import fragment, join, label
from cyclops_nb.render.text import one_line
from cyclops_nb.render.words import UNKNOWN, count, error_words, moment, money, number, short_id, tokens
from cyclops_nb.session import Session
from cyclops_nb.stores.base import SessionInfo, first_question, is_session_store, session_info

__all__ = ["Overview", "overview"]

_ROWS = 20
_ITEMS = 50
"""Of a list or a mapping in a variable."""
_NUMBERS = ("messages", "runs", "tokens in", "tokens out", "cost", "session")


@dataclass(frozen=True)
class _Row:
    """A session, and what it is called in the notebook."""

    names: str
    info: SessionInfo
    is_busy: bool = False


@dataclass(frozen=True)
class _Stored:
    """What a store says that it holds."""

    name: str
    rows: Sequence[_Row]
    left_out: int = 0
    problem: str = ""


@dataclass(frozen=True)
class Overview(Displayable):
    """The sessions of a notebook and of its stores, as they were at one moment; made by ``%sessions``."""

    rows: Sequence[_Row]
    stores: Sequence[_Stored]


def overview(variables: Mapping[str, Any]) -> Overview:
    """Return which sessions there are.

    Parameters
    ----------
    variables : mapping
        The variables of a notebook: sessions, lists of them, agents and stores. Names that begin with an underscore
        are left out.

    Returns
    -------
    Overview
        What a store cannot tell stands in it in words.

    Examples
    --------
    >>> overview({"study": Session("study-1", title="First try")})._repr_mimebundle_()["text/plain"].splitlines()[1]
    'study: First try, 0 messages, 0 runs, 0 tokens in, 0 out, cost $0, session study-1'
    """
    named = {name: value for name, value in variables.items() if not name.startswith("_")}
    found: dict[int, tuple[list[str], Session]] = {}
    for name, session in _sessions(named):
        found.setdefault(id(session), ([], session))[0].append(name)
    rows = [_Row(", ".join(names), _told(session), session.busy) for names, session in found.values()]
    names = {row.info.id: row.names for row in rows}
    return Overview(rows, [_stored(name, store, names) for name, store in _stores(named)])


def _sessions(variables: Mapping[str, Any]) -> Iterator[tuple[str, Session]]:
    """Yield sessions with the expressions that they are had by."""
    for name, value in variables.items():
        if isinstance(value, Session):
            yield name, value
        elif type(value) in {list, tuple, dict}:
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for index, item in [pair for pair in items if isinstance(pair[1], Session)][:_ITEMS]:
                yield f"{name}[{_text_of(index)}]", item


def _told(session: Session) -> SessionInfo:
    return session_info(session, len(session.messages), first_question(session.messages))


def _stores(variables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the stores of variables and of agents, each once, with what it is called."""
    found: dict[int, tuple[Any, list[str]]] = {}
    for name, value in variables.items():
        store = value.session_store if isinstance(value, Agent) else value if _is_store(value) else None
        if store is not None:
            found.setdefault(id(store), (store, []))[1].append(f"agent {name}" if isinstance(value, Agent) else name)
    for store, names in found.values():
        yield f"{_text_of(store)} ({', '.join(names)})", store


def _is_store(value: Any) -> bool:
    try:
        return is_session_store(value)
    except Exception:  # noqa: BLE001 - a variable of the user's that answers strangely when it is asked for a method
        return False


def _text_of(value: Any) -> str:
    try:
        return one_line(repr(value), 200)
    except Exception:  # noqa: BLE001 - a class of the user's, whose name says enough
        return type(value).__name__


def _stored(name: str, store: Any, names: Mapping[str, str]) -> _Stored:
    if not callable(getattr(store, "list", None)):
        return _Stored(name, [], problem="this store has no method that lists its sessions")
    try:
        infos = list(portal().run(_listed(store)))
        rows = [_Row(names.get(info.id, ""), info) for info in infos[:_ROWS]]
    except Exception as error:  # noqa: BLE001 - whatever it is, the other stores are to be seen
        return _Stored(name, [], problem=f"cannot be listed: {error_words(type(error).__name__, str(error))}")
    return _Stored(name, rows, left_out=len(infos) - len(rows))


async def _listed(store: Any) -> Any:
    found = store.list()
    return await found if inspect.isawaitable(found) else found


def _overview_page(shown: Overview) -> Markup:
    parts = [head("Sessions in variables"), _table(shown.rows)]
    for stored in shown.stores:
        parts += [head(fragment("Sessions in {}", label(stored.name, 300))), _table_of(stored)]
    return page(*parts, kind="sessions")


def _table(rows: Sequence[_Row]) -> Markup:
    if not rows:
        return fragment('<div class="cy-note">{}</div>', "none")
    cells = [[label(row.names, 80), label(row.info.title, 80), *_numbers(row)] for row in rows]
    return table(("variable", "title", *_NUMBERS), cells, label="sessions in variables")


def _table_of(stored: _Stored) -> Markup:
    if stored.problem:
        return notice(stored.problem)
    if not stored.rows:
        return fragment('<div class="cy-note">{}</div>', "none")
    rows = [
        [
            label(row.info.title, 80),
            label(row.names, 80),
            *_numbers(row),
            moment(row.info.updated_at).removesuffix(" UTC"),
        ]
        for row in stored.rows
    ]
    shown = table(("title", "variable", *_NUMBERS, "stored (UTC)"), rows, label="stored sessions")
    return join([shown, fragment('<div class="cy-note">{}</div>', _more(stored.left_out)) if stored.left_out else ""])


def _numbers(row: _Row) -> list[object]:
    info, usage = row.info, row.info.usage
    used = [UNKNOWN] * 2 if usage is None else [number(usage.input_tokens), number(usage.output_tokens)]
    running = " in a run" if row.is_busy else ""
    return [
        number(info.message_count),
        number(info.run_count),
        *used,
        money(info.cost),
        fragment("<code>{}</code>{}", label(short_id(info.id)), running),
    ]


def _overview_text(shown: Overview) -> str:
    lines = ["Sessions in variables:", *map(_line, shown.rows)]
    if not shown.rows:
        lines.append("none")
    for stored in shown.stores:
        lines += [f"Sessions in {stored.name}:", *map(_line, stored.rows)]
        lines += [f"Warning: {stored.problem}"] if stored.problem else []
        lines += ["none"] if not stored.rows and not stored.problem else []
        lines += [_more(stored.left_out)] if stored.left_out else []
    return "\n".join(lines)


def _line(row: _Row) -> str:
    info = row.info
    named = ": ".join(one_line(text) for text in (row.names, info.title) if text)
    facts = [named, count(info.message_count, "message"), count(info.run_count, "run"), tokens(info.usage)]
    facts += [f"cost {money(info.cost)}", f"session {one_line(info.id)}", "in a run" if row.is_busy else ""]
    return ", ".join(fact for fact in facts if fact)


def _more(left_out: int) -> str:
    return f"… {count(left_out, 'more session')}: await store.list() has all of them"


register(Overview, _overview_page, _overview_text)
