"""What people think of messages: a rating, a note, tags.

An annotation stands in the metadata of its message, under a key of its own. So it goes wherever the message goes: to
stores, to forks, and away with what is truncated. The message keeps its id, for it says the same as before.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from types import EllipsisType
from typing import Any, NamedTuple

from cyclops_nb.errors import InputError
from cyclops_nb.messages import Message
from cyclops_nb.values import FrozenDict, clean_text, freeze

__all__ = ["ANNOTATION", "Annotation", "annotated", "annotation_of", "notes"]

ANNOTATION = "annotation"
"""The key in the metadata of a message."""
_NOT_NOTED = {"edited_from", ANNOTATION}


class Annotation(NamedTuple):
    """What someone thinks of a message."""

    rating: float | None = None
    note: str | None = None
    tags: tuple[str, ...] = ()

    @property
    def words(self) -> dict[str, str]:
        """What of it is there, by its name."""
        told = {
            "rating": "" if self.rating is None else str(self.rating),
            "note": self.note or "",
            "tags": ", ".join(self.tags),
        }
        return {name: text for name, text in told.items() if text}


def annotation_of(message: Message) -> Annotation:
    """Return the annotation of a message; what is none of a stored one, whatever it is, is passed over.

    Examples
    --------
    >>> from cyclops_nb.messages import UserMessage
    >>> annotation_of(annotated(UserMessage("Hi"), rating=4, tags="short"))
    Annotation(rating=4, note=None, tags=('short',))
    """
    found = message.metadata.get(ANNOTATION)
    if not isinstance(found, Mapping):
        return Annotation()
    rating, note, tags = found.get("rating"), found.get("note"), found.get("tags")
    return Annotation(
        rating if not isinstance(rating, bool) and isinstance(rating, int | float) and _is_finite(rating) else None,
        note if isinstance(note, str) and note else None,
        tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list | tuple) else (),
    )


def notes(message: Message) -> dict[str, Any]:
    """Return what users have noted about a message, the annotation first, then the rest of its metadata."""
    rest = {name: value for name, value in message.metadata.items() if name not in _NOT_NOTED}
    return annotation_of(message).words | rest


def annotated(
    message: Message,
    *,
    rating: Any = ...,
    note: Any = ...,
    tags: Any = ...,
) -> Message:
    """Return `message` with another annotation: what is not given stays, None takes it away.

    Raises
    ------
    InputError
        If one of them is of another type.
    """
    old = annotation_of(message)
    new = {
        "rating": old.rating if isinstance(rating, EllipsisType) else _checked_rating(rating),
        "note": old.note if isinstance(note, EllipsisType) else _checked_note(note),
        "tags": old.tags if isinstance(tags, EllipsisType) else _checked_tags(tags),
    }
    rest = {name: value for name, value in message.metadata.items() if name != ANNOTATION}
    if kept := {name: value for name, value in new.items() if value is not None and value != ()}:
        rest[ANNOTATION] = kept
    return message.model_copy(update={"metadata": freeze(rest) if rest else FrozenDict()})


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int that no float can hold
        return False


def _checked_rating(rating: Any) -> float | None:
    if rating is None:
        return None
    if isinstance(rating, numbers.Real):  # those of numpy are numbers too, and True is 1
        plain = int(rating) if isinstance(rating, numbers.Integral) else float(rating)
        if _is_finite(plain):
            return plain
    raise InputError(f"a rating must be a finite number, got {rating!r}; None takes it away")


def _checked_note(note: Any) -> str | None:
    if note is None:
        return None
    if not isinstance(note, str):
        raise InputError(f"a note must be text, got a {type(note).__name__}; None takes it away")
    return clean_text(note) if note.strip() else None


def _checked_tags(tags: Any) -> tuple[str, ...]:
    if tags is None:
        return ()
    given = [tags] if isinstance(tags, str) else list(tags) if isinstance(tags, Iterable) else [tags]
    for tag in given:
        if not isinstance(tag, str) or not tag.strip() or "," in tag:
            raise InputError(
                f"a tag must be a text without a comma, got {tag!r}: give one, or a list of them, as tags; "
                "None takes them away"
            )
    return tuple(dict.fromkeys(clean_text(" ".join(tag.split())) for tag in given))
