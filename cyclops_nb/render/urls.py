"""Which addresses may be clicked."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

__all__ = ["is_safe_url"]

_NOT_IN_URL = re.compile('[\x00-\x20\x7f-\xa0\\\\"<>`\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]')
_HOST = re.compile(r"(?:[\w-]+\.)*[\w-]+\.?|[0-9a-f:.]*:[0-9a-f:.]*", re.IGNORECASE)
"""What browsers take for a host: what they do not, front ends take for a file beside the notebook."""


def is_safe_url(url: str) -> bool:
    """Tell whether a click on a link to `url` does no more than open a page or a mail form.

    Parameters
    ----------
    url : str
        Any text.

    Returns
    -------
    bool
        True for an absolute ``http`` or ``https`` address and for ``mailto``.

    Examples
    --------
    >>> is_safe_url("https://example.org/a?b=c"), is_safe_url("javascript:alert(1)"), is_safe_url("/lab")
    (True, False, False)
    """
    if _NOT_IN_URL.search(url):
        return False
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            return parts.scheme == "mailto"
        return bool(_HOST.fullmatch(parts.hostname or "")) and parts.port != -1  # a port that is none raises
    except ValueError:
        return False
