"""What changed between two texts, word by word.

People compare branches because they changed a few words of a question; these words are marked. Texts that have little
in common are not: marks all over say less than the texts.
"""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher

from markupsafe import Markup

from cyclops_nb.render.escape import EMPTY, fragment, join

__all__ = ["changes"]

_WORDS = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")
_LONGEST = 600  # words and marks, each with the blanks behind it
_CHARACTERS = 12_000
_PAIRS = 3_000  # of equal ones in both texts: the time to compare grows with their number
_LEAST_ALIKE = 0.5


def changes(old: str, new: str) -> Markup | None:
    """Return `new` with its differences from `old` marked.

    Parameters
    ----------
    old, new : str
        Two texts.

    Returns
    -------
    Markup or None
        Text with ``<del>`` and ``<ins>`` elements; None if the texts are long, equal, or have little in common.

    Examples
    --------
    >>> changes("a warm day", "a cold day")
    Markup('<div class="cy-changes">a <del>warm </del><ins>cold </ins>day</div>')
    """
    before, after = _WORDS.findall(old[:_CHARACTERS]), _WORDS.findall(new[:_CHARACTERS])
    # blanks behind a word are shown, not compared: a word that became the last one has not changed
    was, now = [word.strip() for word in before], [word.strip() for word in after]
    if was == now or max(len(was), len(now)) > _LONGEST:
        return None
    counts = Counter(now)
    if sum(times * counts[word] for word, times in Counter(was).items()) > _PAIRS:
        return None
    matcher = SequenceMatcher(None, was, now, autojunk=False)
    if matcher.ratio() < _LEAST_ALIKE:
        return None
    parts = []
    for kind, i, j, k, m in matcher.get_opcodes():
        if kind == "equal":
            parts.append(fragment("{}", "".join(after[k:m])))
            continue
        gone, come = "".join(before[i:j]), "".join(after[k:m])
        parts.append(fragment("<del>{}</del>", gone) if gone else EMPTY)
        parts.append(fragment("<ins>{}</ins>", come) if come else EMPTY)
    return fragment('<div class="cy-changes">{}</div>', join(parts))
