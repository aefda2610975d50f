"""What a store tells about a session, as a small table."""

from __future__ import annotations

from markupsafe import Markup

from cyclops_nb.display.html import head, page, table
from cyclops_nb.render.escape import fragment, label
from cyclops_nb.render.text import one_line
from cyclops_nb.render.words import count, moment, money, number, tokens
from cyclops_nb.stores.base import SessionInfo

__all__ = ["info_page", "info_text"]


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


def _after(info: SessionInfo) -> str:
    if info.parent is None or not info.parent.message_count:
        return " before the first message"
    return f" after message [{info.parent.message_count - 1}]"
