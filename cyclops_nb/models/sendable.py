"""What both APIs need to send a transcript: names, arguments and data in a form that every server takes. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from cyclops_nb.media import file_text
from cyclops_nb.messages import FilePart, ImagePart, InputPart, TextPart

__all__ = ["SUMMARY_HEAD", "data_url", "joined", "legal_name", "sent_parts", "valid_arguments"]

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
    """Return the address of an image or file: its own, or one that holds its data, in one line as servers want it."""
    url = part.url if isinstance(part, ImagePart) else None
    if url and not url.startswith("data:"):
        return url
    return "".join((url or f"data:{part.media_type};base64,{part.data}").split())


def sent_parts(parts: Iterable[InputPart]) -> list[InputPart]:
    r"""Return parts with text files as the text in them, under their names: few servers take other files than PDFs.

    Examples
    --------
    >>> sent_parts([FilePart("a.csv", b"a,b", "text/csv")])[0].text
    '\n\nFile a.csv:\n\na,b\n\n'
    """
    return [_as_text(part) if isinstance(part, FilePart) else part for part in parts]


def joined(parts: Iterable[InputPart]) -> str:
    r"""Return the texts among parts as one text, each beginning on a line of its own.

    Examples
    --------
    >>> joined([TextPart("The numbers:"), TextPart("1 2")])
    'The numbers:\n1 2'
    """
    text = ""
    for part in parts:
        if isinstance(part, TextPart) and part.text:
            apart = not text or text[-1].isspace() or part.text[0].isspace()
            text += part.text if apart else f"\n{part.text}"
    return text


def _as_text(part: FilePart) -> InputPart:
    text = file_text(part)
    name = " ".join(part.name.split())
    return part if text is None else TextPart(f"\n\nFile {name}:\n\n{text}\n\n")
