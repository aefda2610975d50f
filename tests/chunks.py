"""Chunks of streams, as tests write them, and what is read of them."""

import json

import pytest
from hypothesis import strategies as st

from cyclops_nb.errors import ModelError
from cyclops_nb.models.base import Completion
from cyclops_nb.models.wire import ChatReader

DONE = "[DONE]"


def delta(finish=None, **fields):
    """Return a chunk with one delta."""
    return {"model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(finish=None, *, args=None, name=None, **entry):
    """Return a chunk with one piece of one tool call."""
    function = {key: value for key, value in (("name", name), ("arguments", args)) if value is not None}
    return delta(finish, tool_calls=[{**entry, "function": function}])


def usage(**report):
    """Return a chunk that reports usage alone."""
    return {"choices": [], "usage": report}


def stream(*chunks):
    """Return the bytes of a stream of these chunks; text stands as it is."""
    return b"".join(
        b"data: " + (chunk if isinstance(chunk, str) else json.dumps(chunk)).encode() + b"\n\n" for chunk in chunks
    )


def read(data, pieces=None):
    """Read a stream to its end and return the completion, and the events."""
    completion = Completion()
    reader = ChatReader(completion, "r", 1)
    events = []
    for piece in [data] if pieces is None else pieces:
        events += reader.feed(piece)
    events += reader.close()
    return completion, events


def answer(*chunks):
    """Return the completion that a stream of these chunks gives."""
    return read(stream(*chunks))[0]


def calls(*chunks):
    """Return id, name and arguments of the calls that a stream of these chunks gives."""
    return [(item.id, item.name, item.arguments) for item in answer(*chunks, DONE).message().tool_calls]


def failure(*chunks):
    """Return the error with which reading a stream of these chunks fails."""
    with pytest.raises(ModelError) as caught:
        answer(*chunks)
    return caught.value


@st.composite
def cut(draw, data):
    """Cut bytes into pieces, some of them empty."""
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
