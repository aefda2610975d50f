"""Events of the Responses API, as tests write them, and what is read of them."""

import json

import pytest

from cyclops_nb.errors import ModelError
from cyclops_nb.models.base import Completion
from cyclops_nb.models.responses_wire import ResponsesReader

DONE = "[DONE]"


def event(type_, **facts):
    """Return one event."""
    return {"type": f"response.{type_}", **facts}


def added(type_, id="i", index=0, **facts):
    """Return the event that announces an item."""
    return event("output_item.added", output_index=index, item={"type": type_, "id": id, **facts})


def done(type_, id="i", index=0, **facts):
    """Return the event that gives a whole item."""
    return event("output_item.done", output_index=index, item={"type": type_, "id": id, **facts})


def message(text, id="i", **facts):
    """Return a message item with a text."""
    return {"type": "message", "id": id, "content": [{"type": "output_text", "text": text}], **facts}


def thought(text, id="rs", **facts):
    """Return a reasoning item with a summary."""
    return {"type": "reasoning", "id": id, "summary": [{"type": "summary_text", "text": text}], **facts}


def function(arguments="{}", id="fc", name="f", call_id="c", **facts):
    """Return a call."""
    return {"type": "function_call", "id": id, "call_id": call_id, "name": name, "arguments": arguments, **facts}


def delta(text, id="i", index=0, of="output_text", **facts):
    """Return a piece of an item."""
    return event(f"{of}.delta", item_id=id, output_index=index, delta=text, **facts)


def completed(*output, status="completed", **facts):
    """Return the event that ends a response."""
    return event(status, response={"status": status, "model": "m", "output": list(output), **facts})


def stream(*events):
    """Return the bytes of a stream of these events; text stands as it is."""
    frames = []
    for item in events:
        data = item if isinstance(item, str) else json.dumps(item)
        name = f"event: {item['type']}\n" if isinstance(item, dict) and "type" in item else ""
        frames.append(f"{name}data: {data}\n\n".encode())
    return b"".join(frames)


def read(data, pieces=None):
    """Read a stream to its end and return the completion, and the events."""
    completion = Completion()
    reader = ResponsesReader(completion, "r", 1)
    told = []
    for piece in [data] if pieces is None else pieces:
        told += reader.feed(piece)
    told += reader.close()
    return completion, told


def answer(*events):
    """Return the completion that a stream of these events gives."""
    return read(stream(*events))[0]


def parts(*events):
    """Return the parts of the message that a stream of these events gives, each as its kind and text."""
    content = answer(*events).message().content
    return [(part.type, part.arguments if part.type == "tool_call" else part.text) for part in content]


def calls(*events):
    """Return id, name and arguments of the calls that a stream of these events gives."""
    return [(item.id, item.name, item.arguments) for item in answer(*events, completed()).message().tool_calls]


def failure(*events):
    """Return the error with which reading a stream of these events fails."""
    with pytest.raises(ModelError) as caught:
        answer(*events)
    return caught.value
