"""Server-sent events from bytes, as the HTML standard defines them, and a little more patient.

Lines end at CR, LF or CRLF only: a U+2028 inside JSON is text, and a multi-byte character cut by the network is whole
again before anything is decoded, because lines are cut as bytes.

See https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Frame", "SSEDecoder"]

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")


class Frame(NamedTuple):
    """One event of a stream."""

    event: str
    data: bytes


class SSEDecoder:
    r"""Cuts a stream of bytes into frames, however the network cut it.

    Examples
    --------
    >>> decoder = SSEDecoder()
    >>> decoder.feed(b"data: a\n") + decoder.feed(b"\ndata: b\n\n")
    [Frame(event='', data=b'a'), Frame(event='', data=b'b')]
    """

    def __init__(self) -> None:
        self._rest = b""
        self._at_start = True
        self._event = ""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[Frame]:
        """Take more bytes and return the frames that are complete now."""
        buffer = self._rest + data if self._rest else data
        if self._at_start:
            if len(buffer) < len(_BOM) and _BOM.startswith(buffer):
                self._rest = buffer
                return []
            self._at_start = False
            buffer = buffer.removeprefix(_BOM)
        # a CR at the very end may be the first half of CRLF: its line waits for the next byte
        held = b"\r" if buffer.endswith(b"\r") else b""
        if b"\r" in buffer:
            *lines, rest = _LINE_END.split(buffer[: len(buffer) - len(held)])
        else:
            *lines, rest = buffer.split(b"\n")
        self._rest = rest + held
        frames: list[Frame] = []
        for line in lines:
            self._line(line, frames)
        return frames

    def close(self) -> list[Frame]:
        """Return the frame that the end of the stream completes, if any."""
        frames: list[Frame] = []
        rest = self._rest.removesuffix(b"\r")
        self._rest = b""
        if rest:
            self._line(rest, frames)
        self._line(b"", frames)
        return frames

    def _line(self, line: bytes, frames: list[Frame]) -> None:
        if not line:
            if self._data:
                frames.append(Frame(self._event, b"\n".join(self._data)))
                self._data = []
            self._event = ""
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        # a blank before the field name breaks the standard, yet servers send it
        field = field.lstrip(b" \t")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._event = value.decode("utf-8", "replace")
