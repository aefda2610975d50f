"""What both APIs need to send a transcript: names, arguments and data in a form that every server takes. Pure."""

from __future__ import annotations

import json
import re

from cyclops_nb.messages import FilePart, ImagePart

__all__ = ["SUMMARY_HEAD", "data_url", "legal_name", "valid_arguments"]

SUMMARY_HEAD = "Summary of the conversation so far:\n\n"
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64


def legal_name(name: str) -> str:
    """Return a tool name that servers take: models make names up, and a refused one would be refused for ever.

    Examples
    --------
    >>> legal_name("functions.get weather")
    'functions_get_weather'
    """
    return _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME] or "unnamed"


def valid_arguments(arguments: str) -> str:
    """Return arguments that a server takes: what the model wrote if it is a JSON object, or that text inside one.

    Examples
    --------
    >>> valid_arguments('{"a": 1}'), valid_arguments("[1]")
    ('{"a": 1}', '{"invalid_json": "[1]"}')
    """
    try:
        valid = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        valid = False
    return arguments if valid else json.dumps({"invalid_json": arguments}, ensure_ascii=False)


def data_url(part: ImagePart | FilePart) -> str:
    """Return the address of an image or file: its own, or one that holds its data."""
    url = part.url if isinstance(part, ImagePart) else None
    return url or f"data:{part.media_type};base64,{part.data}"
