"""Which fields of a request a server says it does not know, in the words of many servers. Pure.

Only what a server says of a field itself counts. Where it dislikes a value the field is a known one, and a server that
lists what it knows does not refuse what stands in the list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["refused_names", "refuses_reasoning"]

_QUOTE = "[\"'`\u2018\u2019\u201c\u201d]"
_NAME = r"(?P<name>[a-z_]\w*(?:\.\w+|\[\w*\])*)"
_QUOTED = f"{_QUOTE}{_NAME}{_QUOTE}"
_FIELD = r"(?:parameter|param|field|argument|property|properties|option|setting|keyword|key|input|name)s?"
_NOT = r"not (?:currently |yet )?(?:supported|permitted|allowed|accepted|recogni[sz]ed|implemented|available|known)"
_REFUSED = rf"(?:un(?:supported|known|recogni[sz]ed|expected|permitted)|extra(?:neous)?|disallowed|{_NOT})"
_NO_VALUE = r"(?![^.;\n]*\b(?:values?|above|below|between|greater|less|than|to be)\b)"
_OF_TYPE = rf"(?: of type {_QUOTE}?[\w.-]+{_QUOTE}?)?"
_CANNOT = r"(?:does not|doesn't|do not|don't|cannot|can't) (?:\w+ )?(?:support|accept|allow|take|recogni[sz]e|use)"
_MARKS = r"[^\w.]+"
_PATTERNS = [
    # Unknown parameter: 'seed'; json: unknown field "seed"; got an unexpected keyword argument 'seed'
    rf"{_REFUSED} (?:\w+ )?{_FIELD}(?: (?:supplied|found|given|provided|in \w+))*\s*[:=]?\s*[\[(]?{_QUOTE}?{_NAME}",
    # 'seed' is not supported with this model; 'text.format' of type 'json_schema' is not supported
    rf"{_QUOTED}{_OF_TYPE}(?: {_FIELD})?(?: (?:is|are|was|were))?(?: currently)? {_REFUSED}{_NO_VALUE}",
    # `temperature` is deprecated for this model
    rf"{_QUOTED} (?:is|was) (?:deprecated|removed) (?:for|in|from)\b",
    # This model does not support the 'seed' parameter; does not support temperature
    rf"{_CANNOT}(?: the)?(?: {_FIELD})? (?:{_QUOTED}|{_NAME.replace('name', 'bare')}\b{_NO_VALUE})",
    # temperature is not supported
    rf"(?<![\w.]){_NAME} (?:is|are) (?:currently )?{_NOT}{_NO_VALUE}",
    # Parameter not supported: seed; Argument not supported on this model: seed
    rf"{_FIELD} (?:is |are )?{_REFUSED}(?: \w+){{0,5}}\s*:\s*{_QUOTE}?{_NAME}",
    # temperature: Extra inputs are not permitted
    rf"(?<![\w.]){_NAME}: extra (?:inputs|fields) (?:are )?not permitted",
    # what pydantic says, as data or as text
    rf"extra_forbidden{_MARKS}loc{_MARKS}body{_MARKS}{_NAME}",
    rf"loc{_MARKS}body{_MARKS}{_NAME}{_MARKS}msg{_MARKS}extra (?:inputs|fields) (?:are )?not permitted",
]
_SAYINGS = [re.compile(pattern, re.IGNORECASE) for pattern in _PATTERNS]
_ABOUT_FIELD = re.compile(rf"{_REFUSED}|{_CANNOT}", re.IGNORECASE)
_ABOUT_VALUE = re.compile(
    r"\bvalues?\b|must be|should be|between|\brange\b|minimum|maximum|\bthan\b|at (?:most|least)", re.IGNORECASE
)
_ONLY_DEFAULT = re.compile(r"only the default\b.{0,40}\bvalue is supported", re.IGNORECASE)
"""What OpenAI says of a setting that a model does not have."""

_ABOUT_REASONING = re.compile(
    r"reasoning (?:input )?items? (?:can only|cannot|can't|is not|are not)|remove (?:the )?reasoning items"
    r"|encrypted content\b.{0,80}?\b(?:could not|cannot|is not)",
    re.IGNORECASE | re.DOTALL,
)


def refuses_reasoning(body: Any) -> bool:
    """Say whether a refusal is about reasoning that was sent back: of another model, or made for another key.

    Parameters
    ----------
    body : object
        The ``error`` object of the refusal, or whatever else the server has sent.

    Examples
    --------
    >>> refuses_reasoning({"message": "The item is not valid.", "code": "invalid_encrypted_content"})
    True
    """
    code = body.get("code") if isinstance(body, Mapping) else None
    return code == "invalid_encrypted_content" or _ABOUT_REASONING.search(str(body)) is not None


def refused_names(body: Any) -> set[str]:
    """Return the names of the fields that a refusal says are unknown or unsupported, without indexes.

    Parameters
    ----------
    body : object
        The ``error`` object of the refusal, or whatever else the server has sent.

    Examples
    --------
    >>> refused_names({"message": "Unknown parameter: 'seed'.", "param": "seed"})
    {'seed'}
    >>> refused_names({"message": "Invalid 'temperature': must be <= 2.", "param": "temperature"})
    set()
    """
    said = body if isinstance(body, Mapping) else {}
    text = f"{said.get('message') or ''} {body}"
    matches = (match.groupdict() for saying in _SAYINGS for match in saying.finditer(text))
    names = {match["name"] or match.get("bare") or "" for match in matches} - {""}
    param = said.get("param")
    if isinstance(param, str) and _ABOUT_FIELD.search(text):
        is_about_value = _ABOUT_VALUE.search(text) and not _ONLY_DEFAULT.search(text)
        if not is_about_value:
            names.add(param)
    return {re.sub(r"\[\w*\]", "", name) for name in names}
