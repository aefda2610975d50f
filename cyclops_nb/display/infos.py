"""What a store tells about sessions: one as a small table, a list of them as a table with a row for each."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from cyclops_nb.display.html import Cell, facts, head, notice, page, table
from cyclops_nb.interop.working_notebook import FoundSessions
from cyclops_nb.render.escape import fragment, join, label
from cyclops_nb.render.text import one_line
from cyclops_nb.render.words import UNKNOWN, count, moment, money, number, short_id, tokens
from cyclops_nb.stores.base import SessionInfo, first_question, session_info

__all__ = ["found_page", "found_text", "info_page", "info_text", "infos_page", "infos_text"]

_ROWS = 200
_PIECES = 20
_COLUMNS = ("session", "messages", "runs", "tokens in", "tokens out", "cost", "stored (UTC)", "forked from")
_NUMBERS = range(1, 6)


def info_page(info: SessionInfo) -> Markup:
    """Return what a store tells about a session as HTML."""
    rows: list[tuple[object, object]] = [
        ("session", fragment("<code>{}</code>", label(info.id))),
        ("messages", number(info.message_count)),
        ("runs", number(info.run_count)),
        ("usage", tokens(info.usage)),
        ("cost", money(info.cost)),
        ("stored", moment(info.updated_at)),
    ]
    if info.parent is not None:
        rows.append(("forked from", fragment("<code>{}</code>{}", label(info.parent.session_id), _after(info))))
    if info.path is not None:
        rows.append(("file", label(str(info.path), 300)))
    kept = "an older conversation, kept when another one took its id" if info.backup else ""
    return page(head(label(info.title or info.id), kept), table((), rows, label="session"), kind="info")


def info_text(info: SessionInfo) -> str:
    """Return what a store tells about a session in words."""
    named = f"{one_line(info.title)} (session {one_line(info.id)})" if info.title else f"Session {one_line(info.id)}"
    amount = f"{count(info.message_count, 'message')}, {count(info.run_count, 'run')}, {tokens(info.usage)}"
    lines = [named, f"{amount}, cost {money(info.cost)}, stored {moment(info.updated_at)}"]
    if info.parent is not None:
        lines.append(f"forked from {one_line(info.parent.session_id)}{_after(info)}")
    if info.path is not None:
        lines.append(f"file {one_line(str(info.path), 300)}")
    if info.backup:
        lines.append("an older conversation, kept when another one took its id")
    return "\n    ".join(lines)


def infos_page(infos: Sequence[SessionInfo]) -> Markup:
    """Return a list of sessions as HTML."""
    return page(*_table(infos), kind="infos")


def _table(infos: Sequence[SessionInfo]) -> list[Markup | str]:
    shown = list(infos[:_ROWS])
    rest = len(infos) - len(shown)
    rows = [_row(info) for info in shown]
    return [
        head(count(len(infos), "session")),
        table(_COLUMNS, rows, numbers=_NUMBERS, label="sessions") if rows else "",
        fragment('<div class="cy-note">{}</div>', _more(rest)) if rest else "",
    ]


def _row(info: SessionInfo) -> list[Cell]:
    name = fragment("<code>{}</code>", label(info.id, 60))
    usage = info.usage
    origin = "" if info.parent is None else fragment("<code>{}</code>", label(short_id(info.parent.session_id)))
    return [
        join([label(info.title, 80), fragment("<div>{}</div>", name)]) if info.title else name,
        number(info.message_count),
        number(info.run_count),
        UNKNOWN if usage is None else number(usage.input_tokens),
        UNKNOWN if usage is None else number(usage.output_tokens),
        money(info.cost),
        moment(info.updated_at).removesuffix(" UTC"),
        facts([origin, "backup" if info.backup else ""]),
    ]


def infos_text(infos: Sequence[SessionInfo]) -> str:
    """Return a list of sessions in words."""
    lines = [f"{count(len(infos), 'session')}{':' if infos else ''}", *(info_text(info) for info in infos[:_ROWS])]
    rest = len(infos) - _ROWS
    return "\n".join([*lines, *([_more(rest)] if rest > 0 else [])])


def _more(rest: int) -> str:
    return f"… {count(rest, 'more session')} not shown"


def _after(info: SessionInfo) -> str:
    if info.parent is None or not info.parent.message_count:
        return " before the first message"
    return f" after message [{info.parent.message_count - 1}]"


def found_page(found: FoundSessions) -> Markup:
    """Return sessions that were found in a notebook as HTML: a table, and what is missing."""
    pieces = found.missing[:_PIECES]
    more = [f"… {count(len(found.missing) - len(pieces), 'more piece')} missing"] if found.missing[_PIECES:] else []
    notices = [notice(one_line(text, 500)) for text in (*map(str, pieces), *more)]
    return page(*_table(_told(found)), *notices, kind="infos")


def found_text(found: FoundSessions) -> str:
    """Return sessions that were found in a notebook in words."""
    return "\n".join([infos_text(_told(found)), *(f"Missing: {one_line(str(piece), 500)}" for piece in found.missing)])


def _told(found: FoundSessions) -> list[SessionInfo]:
    return [
        session_info(session, len(session.messages), first_question(session.messages)).model_copy(
            update={"updated_at": session.created_at}
        )
        for session in found
    ]
