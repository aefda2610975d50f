"""What changed between two texts, word by word.

People compare branches because they changed a few words of a question; these words are marked. Texts that have little
in common are not: marks all over say less than the texts.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from markupsafe import Markup

from cyclops_nb.render.escape import fragment, join

__all__ = ["changes"]

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_LONGEST = 800  # words and blanks; the time to compare grows with the square
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
    Markup('<div class="cy-changes">a <del>warm</del><ins>cold</ins> day</div>')
    """
    before, after = _WORDS.findall(old[: 20 * _LONGEST]), _WORDS.findall(new[: 20 * _LONGEST])
    if max(len(before), len(after)) > _LONGEST or before == after:
        return None
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < _LEAST_ALIKE:
        return None
    parts = []
    for kind, i, j, k, m in matcher.get_opcodes():
        if kind == "equal":
            parts.append(fragment("{}", "".join(after[k:m])))
            continue
        gone, come = "".join(before[i:j]), "".join(after[k:m])
        parts.append(
            join([fragment("<del>{}</del>", gone) if gone else "", fragment("<ins>{}</ins>", come) if come else ""])
        )
    return fragment('<div class="cy-changes">{}</div>', join(parts))
