"""Keeps personal data and secrets out of what is sent and stored.

The ready patterns are few and careful: text that merely looks a little like an address or a key is what models and
their readers work with all day. All of them take time in proportion to the text, whatever a model writes.
"""

from __future__ import annotations

import ipaddress
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from cyclops_nb.engine.middleware import Middleware
from cyclops_nb.errors import ConfigError

__all__ = ["Redaction"]

Regex = str | re.Pattern[str]
_UNNAMED = "redacted"


class _Rule(NamedTuple):
    """What is replaced, by what."""

    name: str
    pattern: re.Pattern[str]
    check: Callable[[str], bool] | None = None
    """Says whether a match is meant."""
    group: int = 0
    """The group that is replaced; matches that may overlap stand within a lookahead."""

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        for match in self.pattern.finditer(text):
            start, stop = match.span(self.group)
            if start < stop and (self.check is None or self.check(match.group(self.group))):
                yield start, stop


class Redaction(Middleware):
    r"""Replaces personal data and secrets before they are sent to the model or enter the transcript.

    Parameters
    ----------
    *kinds : {"email", "phone", "credit_card", "api_key", "ip"}
        Ready patterns. What they find becomes ``[email]`` and so on.
    patterns : mapping or iterable of str or re.Pattern, optional
        Regular expressions of yours: as a mapping of names, what ``"name"`` finds becomes ``[name]``; without names it
        becomes ``[redacted]``.
    secrets : iterable of str, optional
        Texts that become ``[redacted]`` wherever they stand.

    Raises
    ------
    ConfigError
        If there is nothing to redact, no such kind, or something is no regular expression.

    Examples
    --------
    >>> redaction = Redaction("email", patterns={"case": r"CASE-\d+"})
    >>> redaction.filter_text("Ask alice@example.org about CASE-17.")
    'Ask [email] about [case].'
    >>> agent = Agent("gpt-4o-mini", middleware=[redaction])
    """

    def __init__(
        self,
        *kinds: str,
        patterns: Mapping[str, Regex] | Iterable[Regex] = (),
        secrets: Iterable[str] = (),
    ) -> None:
        # what is most exact comes first: an address that is replaced within a secret would leave the rest of it
        self._rules = [*_secret_rules(secrets), *_own_rules(patterns), *map(_ready_rule, kinds)]
        if not self._rules:
            raise ConfigError('there is nothing to redact: write Redaction("email"), or give patterns= or secrets=')
        self._marks = re.compile("|".join(sorted({re.escape(f"[{rule.name}]") for rule in self._rules})))

    def filter_text(self, text: str) -> str:
        """Return `text` with marks in place of what is redacted; marks that stand in it stay."""
        for rule in self._rules:
            text = self._replaced(rule, text)
        return text

    def _replaced(self, rule: _Rule, text: str) -> str:
        pieces: list[str] = []
        end = 0
        marks: list[tuple[int, int]] | None = None
        for start, stop in rule.spans(text):
            if marks is None:
                marks = [match.span() for match in self._marks.finditer(text)]
            before = bisect_right(marks, (start, len(text))) - 1
            if before >= 0 and stop <= marks[before][1]:
                continue
            if start >= end:
                pieces += text[end:start], f"[{rule.name}]"
            end = max(end, stop)
        return "".join([*pieces, text[end:]]) if end else text


def _secret_rules(secrets: Any) -> list[_Rule]:
    if isinstance(secrets, str) or not isinstance(secrets, Iterable):
        raise ConfigError(f"secrets is a list of texts, not a {type(secrets).__name__}: write secrets=[...]")
    forms: set[str] = set()
    for secret in map(_checked_secret, secrets):
        # results of tools are often JSON, in which line ends, quotes and more are written in another way
        forms |= {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    longest_first = "|".join(re.escape(form) for form in sorted(forms, key=lambda form: (-len(form), form)))
    return [_Rule(_UNNAMED, re.compile(f"(?=({longest_first}))"), group=1)] if forms else []


def _checked_secret(secret: Any) -> str:
    if not isinstance(secret, str):
        raise ConfigError(f"a secret must be a text, not a {type(secret).__name__}")
    if not secret:
        raise ConfigError("a secret is empty: was the variable that holds it not set?")
    return secret


def _own_rules(patterns: Any) -> list[_Rule]:
    if isinstance(patterns, str | re.Pattern) or not isinstance(patterns, Iterable):
        raise ConfigError('patterns is a mapping or a list: write patterns={"name": regex}')
    named = patterns.items() if isinstance(patterns, Mapping) else ((_UNNAMED, item) for item in patterns)
    return [_Rule(_checked_name(name), _compiled(name, item)) for name, item in named]


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise ConfigError(f"the name of a pattern must be a text that is not empty, not {name!r}")
    return name


def _compiled(name: str, pattern: Any) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
        compiled.search("")  # those of bytes compile, too
    except (re.error, TypeError) as error:
        which = f"{pattern!r:.80}" if name == _UNNAMED else repr(name)
        raise ConfigError(f"the pattern {which} is no regular expression for texts: {error}") from None
    return compiled


def _ready_rule(kind: Any) -> _Rule:
    rule = _READY.get(kind) if isinstance(kind, str) else None
    if rule is None:
        names = ", ".join(map(repr, _READY))
        raise ConfigError(f"there is no ready pattern {kind!r:.80}: they are {names}; give your own as patterns=")
    return rule


def _is_card(text: str) -> bool:
    """Say whether this has the length and beginning of a card's number, and its check digit is right (Luhn)."""
    number = re.sub("[^0-9]", "", text)
    if not _ISSUED.fullmatch(number):
        return False
    doubled = (str(2 * int(digit)) if place % 2 else digit for place, digit in enumerate(reversed(number)))
    return sum(map(int, "".join(doubled))) % 10 == 0


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


_ISSUED = re.compile(
    "(?:4[0-9]{12}(?:[0-9]{3}){0,2}|5[0-9]{15}|2[2-7][0-9]{14}|3[47][0-9]{13}|3[0689][0-9]{12}|35[0-9]{14}|6[0-9]{15,18})"
)

_EMAIL = re.compile(
    r"""
    (?<![\w.%+-]) [\w.%+-]++ @
    (?![0-9]x\.)                    # an image for dense screens: logo@2x.png
    (?:[\w-]+\.)+ [^\W\d_][\w-]+    # the last part begins with a letter: react@18.2.0 is a version
    """,
    re.VERBOSE,
)
_PHONE = re.compile(
    r"""
    (?<![\w+]) \+[1-9](?:[ .()/\xa0-]{0,2}[0-9]){7,14} (?![0-9])
    | (?<![\w.+-]) (?:1[ .-])? (?:\([0-9]{3}\)[ ]? | [0-9]{3}[.-]) [0-9]{3}[.-][0-9]{4} (?!\w|[.-][0-9])
    """,
    re.VERBOSE,
)
_CARD = re.compile(
    r"""
    (?<!\w)(?<![0-9]\.)
    (?=(
        (?: [0-9]{13,19}
          | [0-9]{4}([ \xa0-])[0-9]{4}\2[0-9]{4}\2[0-9]{4}(?:\2[0-9]{3})?
          | [0-9]{4}([ \xa0-])[0-9]{6}\3[0-9]{4,5} )
        (?!\w|\.[0-9])
    ))
    """,
    re.VERBOSE,
)
_KEY = re.compile(
    r"""
    (?<![\w-])
    (?: sk-(?=[\w-]*[0-9])[\w-]{20,}                            # OpenAI, Anthropic, OpenRouter, DeepSeek
      | gh[opsur]_[A-Za-z0-9]{36,} | github_pat_\w{22,} | glpat-[\w-]{20,}
      | (?:AKIA|ASIA)[A-Z0-9]{16}(?!\w) | AIza[\w-]{35}         # AWS, Google
      | (?:hf|gsk|npm)_[A-Za-z0-9]{30,} | (?:xai|pplx|nvapi)-[\w-]{30,}
      | [rs]k_(?:live|test)_[A-Za-z0-9]{16,} | xox[abeoprs]-[A-Za-z0-9-]{10,} | pypi-[\w-]{50,}
      | eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*                      # JSON web tokens
      | -----BEGIN[ ](?:[A-Z]+[ ])*PRIVATE[ ]KEY-----[\s\S]*?(?:-----END[ ](?:[A-Z]+[ ])*PRIVATE[ ]KEY-----|\Z)
    )
    """,
    re.VERBOSE,
)
_IP = re.compile(
    r"""
    (?<![\w.:])(?<!\w/)(?<![=<>~!]=)                            # v1.2.3.4, Chrome/120.0.0.0 and ==1.2.3.4 are versions
    (?: (?:[0-9]{1,3}\.){3}[0-9]{1,3} (?!\w|\.[0-9]|-[A-Za-z])
      | [0-9A-Fa-f]{4}(?:::?[0-9A-Fa-f]{1,4}){1,7}(?:::)? (?!\w|::?\w) )
    """,
    re.VERBOSE,
)
_READY = {
    "email": _Rule("email", _EMAIL),
    "phone": _Rule("phone", _PHONE),
    "credit_card": _Rule("credit_card", _CARD, _is_card, group=1),
    "api_key": _Rule("api_key", _KEY),
    "ip": _Rule("ip", _IP, _is_address),
}
