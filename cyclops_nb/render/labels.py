"""Names by which people tell sessions apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cyclops_nb.render.text import one_line
from cyclops_nb.render.words import short_id
from cyclops_nb.session import Session

__all__ = ["session_labels", "unique_labels"]


def session_labels(sessions: Sequence[Session]) -> list[str]:
    """Return a name for each session: its title, with the id behind those that sessions share, as forks do.

    Examples
    --------
    >>> session_labels([Session("a", title="Capitals"), Session("b", title="Capitals"), Session("c")])
    ['Capitals (a)', 'Capitals (b)', 'c']
    """
    titles = Counter({session.id: session.title for session in sessions}.values())
    return unique_labels(
        [
            f"{one_line(session.title)} ({short_id(session.id)})"
            if session.title and titles[session.title] > 1
            else one_line(session.title or short_id(session.id))
            for session in sessions
        ]
    )


def unique_labels(names: Sequence[str]) -> list[str]:
    """Return names with a number behind those that come again.

    Examples
    --------
    >>> unique_labels(["a", "b", "a"])
    ['a', 'b', 'a #2']
    """
    seen: Counter[str] = Counter()
    result = []
    for name in names:
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return result
