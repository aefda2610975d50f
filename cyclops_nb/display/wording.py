"""What changed between two texts, word by word.

People compare branches because they changed a few words of a question, or asked it twice; these words are marked. Texts
that have little in common are not: marks all over say less than the texts. A mark is said in words as well, which a
style sheet hides from the eye alone: screen readers pass over ``<ins>`` and ``<del>`` in silence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

from markupsafe import Markup

from cyclops_nb.render.escape import EMPTY, fragment, join
from cyclops_nb.render.words import count

__all__ = ["changes"]

_WORDS = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")
_LONGEST = 600  # words and marks that are compared, each with the blanks behind it
_CHARACTERS = 60_000
_PAIRS = 3_000  # of equal ones in both texts: the time to compare grows with their number
_LEAST_ALIKE = 0.5
_CONTEXT = 12  # words that are shown before and after a change
_GONE = '<del><span class="cy-said">[removed: </span>{}<span class="cy-said">]</span></del>{}'
_COME = '<ins><span class="cy-said">[added: </span>{}<span class="cy-said">]</span></ins>{}'


def changes(old: str, new: str, *, least_alike: float = _LEAST_ALIKE) -> Markup | None:
    """Return `new` with its differences from `old` marked, and what is the same at length left out.

    Parameters
    ----------
    old, new : str
        Two texts.
    least_alike : float
        How much they must have in common to be marked, from 0 to 1.

    Returns
    -------
    Markup or None
        Text with ``<del>`` and ``<ins>`` elements; None if the texts are equal, differ at length, or have little in
        common.

    Examples
    --------
    >>> print(changes("a warm day", "a cold day").striptags())
    a [removed: warm] [added: cold] day
    """
    before, after = _WORDS.findall(old[:_CHARACTERS]), _WORDS.findall(new[:_CHARACTERS])
    # blanks behind a word are shown, not compared: a word that became the last one has not changed
    was, now = [word.strip() for word in before], [word.strip() for word in after]
    if was == now or max(len(old), len(new)) > _CHARACTERS:
        return None
    head = _alike(was, now)
    tail = _alike(was[head:][::-1], now[head:][::-1])
    pairs = _opcodes(was[head : len(was) - tail], now[head : len(now) - tail])
    same = head + tail + sum(j - i for kind, i, j, _, _ in pairs or () if kind == "equal")
    if pairs is None or 2 * same < least_alike * (len(was) + len(now)):
        return None
    parts = [_unchanged(after[:head], is_first=True, is_last=False)]
    for kind, i, j, k, m in pairs:
        if kind == "equal":
            parts.append(_unchanged(after[head + k : head + m], is_first=False, is_last=False))
            continue
        gone, come = "".join(before[head + i : head + j]), "".join(after[head + k : head + m])
        parts += [_marked(_GONE, gone, apart=bool(come)), _marked(_COME, come)]
    parts.append(_unchanged(after[len(after) - tail :], is_first=False, is_last=True))
    return fragment('<div class="cy-changes">{}</div>', join(parts))


def _marked(template: str, words: str, *, apart: bool = False) -> Markup:
    """Return words as removed or added, the blanks behind them outside of the mark; a blank in any case if `apart`."""
    inner = words.rstrip() or words
    return fragment(template, inner, words[len(inner) :] or (" " if apart else "")) if words else EMPTY


def _alike(was: Sequence[str], now: Sequence[str]) -> int:
    """Return how many words two texts have in common from their beginning."""
    return next(
        (place for place, pair in enumerate(zip(was, now, strict=False)) if pair[0] != pair[1]), min(len(was), len(now))
    )


def _opcodes(was: Sequence[str], now: Sequence[str]) -> list[tuple[str, int, int, int, int]] | None:
    """Return how one text becomes the other, or None where it would take long to find out."""
    counts = Counter(now)
    if max(len(was), len(now)) > _LONGEST:
        return None
    if sum(times * counts[word] for word, times in Counter(was).items()) > _PAIRS:
        return None
    return list(SequenceMatcher(None, was, now, autojunk=False).get_opcodes())


def _unchanged(words: Sequence[str], *, is_first: bool, is_last: bool) -> Markup:
    """Return words that are the same in both texts, without those that are far from any change."""
    before, after = 0 if is_first else _CONTEXT, 0 if is_last else _CONTEXT
    left_out = len(words) - before - after
    if left_out <= _CONTEXT:
        return fragment("{}", "".join(words))
    note = fragment(
        '<span class="cy-meta">[… {} the same …]</span> ',
        count(sum(map(_is_word, words[before : len(words) - after])), "word"),
    )
    return fragment("{} {}{}", "".join(words[:before]), note, "".join(words[len(words) - after :]))


def _is_word(text: str) -> bool:
    return text[:1].isalnum()
