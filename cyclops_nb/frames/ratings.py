"""What people think of messages, for the rows of frames.

A message that forks share may be annotated in each of them. Where it is shown once, its row has the annotation of the
session that shows it, or, where that has none, of the first that has one: what was noted in a fork is not passed over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from cyclops_nb.annotations import ANNOTATION, Annotation, annotation_of
from cyclops_nb.frames.sources import Part, find_messages
from cyclops_nb.messages import Message
from cyclops_nb.session import Session

__all__ = ["Annotations", "mean"]

_NONE = Annotation()


class Annotations:
    """The annotations of messages, and the ratings of runs.

    Parameters
    ----------
    parts : sequence of Part
        The messages of all sessions.
    everywhere : bool
        Whether each session shows its own, and not each message is shown once.
    """

    def __init__(self, parts: Sequence[Part[Message]], *, everywhere: bool) -> None:
        self._first: dict[str, Annotation] = {}
        self._of_runs: dict[tuple[str | None, str | None], list[float]] = defaultdict(list)
        self._everywhere = everywhere
        annotated = [message for part in parts for message in part.items if ANNOTATION in message.metadata]
        if not everywhere:
            for message in annotated:
                self._first.setdefault(message.id, annotation_of(message))
        if annotated:
            self._note_ratings(parts)

    @classmethod
    def of_sessions(cls, sessions: Sequence[Session], *, everywhere: bool) -> Annotations:
        """Return those of all messages of sessions; where there are none, as mostly, this costs next to nothing."""
        if any(ANNOTATION in message.metadata for session in sessions for message in tuple(session.messages)):
            return cls(find_messages(sessions, everywhere=everywhere), everywhere=everywhere)
        return cls([], everywhere=everywhere)

    def _note_ratings(self, parts: Sequence[Part[Message]]) -> None:
        for part in parts:
            for place in part.shown:
                message = part.items[place]
                rating = self.of(message).rating
                if rating is not None:
                    self._of_runs[self._key(part.session.id, message.run_id)].append(float(rating))

    def _key(self, session_id: str, run_id: str | None) -> tuple[str | None, str | None]:
        return session_id if self._everywhere else None, run_id

    def of(self, message: Message) -> Annotation:
        """Return the annotation that the row of a message has."""
        own = annotation_of(message) if ANNOTATION in message.metadata else _NONE
        return self._first.get(message.id, _NONE) if own == _NONE else own

    def ratings(self, session_id: str, run_id: str) -> list[float]:
        """Return the ratings of the messages of a run that a session shows."""
        return self._of_runs.get(self._key(session_id, run_id), [])


def mean(ratings: Sequence[float]) -> float | None:
    """Return the mean of ratings, or None if there are none."""
    return sum(ratings) / len(ratings) if ratings else None
