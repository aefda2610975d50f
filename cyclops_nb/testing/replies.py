"""How a script is written: functions that make the assistant messages of a scripted server.

Each gives a whole reply, so that the common script is a plain list of calls; `reply` puts several into one
message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Unpack

from cyclops_nb.errors import ConfigError
from cyclops_nb.testing.gates import Gate
from cyclops_nb.testing.pieces import (
    Call,
    Cut,
    Delay,
    End,
    Piece,
    Reply,
    Settings,
    StreamError,
    Text,
    dump,
    joined,
)

__all__ = [
    "cut",
    "delay",
    "end",
    "error_in_stream",
    "reasoning",
    "reply",
    "text",
    "tool_call",
    "tool_calls",
]


def text(
    content: str,
    *,
    chunks: int | Sequence[str] | None = None,
    delay: float = 0.0,
    **settings: Unpack[Settings],
) -> Reply:
    """Answer with text.

    Parameters
    ----------
    content : str
        The text.
    chunks : int or sequence of str, optional
        In how many chunks, or in which ones, the text is streamed; word by word if not given.
    delay : float
        Seconds between two chunks.
    usage : (int, int) or mapping or "counted" or None
        Prompt and completion tokens; or the usage object as it is to be sent; or, if not given, one that
        counts the words of the request's messages and of the answer; or None for a server that reports no
        usage.
    model : str, optional
        The model that the answer names; that of the request if not given.
    finish_reason : str, optional
        ``"stop"`` if not given, or ``"tool_calls"`` where there are calls.
    cached, reasoning_tokens : int, optional
        Tokens that the usage report names in its details.
    cost : float, optional
        Dollars that the usage report names, as OpenRouter's does.

    Returns
    -------
    Reply
        For a script, or as a part of a `reply`.

    Raises
    ------
    ConfigError
        If ``chunks`` are not the text.

    Examples
    --------
    >>> from cyclops_nb.testing import text
    >>> text("Hello world").pieces[0].chunks
    ('Hello', ' world')
    """
    return Reply((Text(_split(content, chunks), delay=delay),), **settings)


def reasoning(
    content: str,
    *,
    field: str = "reasoning_content",
    chunks: int | Sequence[str] | None = None,
    delay: float = 0.0,
    **settings: Unpack[Settings],
) -> Reply:
    """Answer with reasoning, mostly as a part of a `reply`.

    Parameters
    ----------
    content : str
        The reasoning.
    field : str
        The key that carries it: ``"reasoning_content"`` (DeepSeek, vLLM, llama.cpp) or ``"reasoning"``
        (OpenRouter, Groq, Ollama).
    chunks, delay
        As in `text`.
    **settings
        As in `text`.

    Returns
    -------
    Reply
        For a script, or as a part of a `reply`.

    Examples
    --------
    >>> from cyclops_nb.testing import reasoning, reply, text
    >>> answer = reply(reasoning("They greet."), text("Hello"))
    """
    return Reply((Text(_split(content, chunks), field=field, delay=delay),), **settings)


def tool_call(
    name: str,
    arguments: Mapping[str, Any] | str = "{}",
    *,
    id: str | None = None,
    chunks: int | Sequence[str] | None = None,
    delay: float = 0.0,
    **settings: Unpack[Settings],
) -> Reply:
    """Answer with a tool call.

    Parameters
    ----------
    name : str
        The tool's name.
    arguments : mapping or str
        The arguments; a string is sent as it is, valid JSON or not.
    id : str, optional
        The call's id; ``call_1``, ``call_2``, ... by its place in the message if not given.
    chunks, delay
        How the arguments are streamed, as in `text`.
    **settings
        As in `text`.

    Returns
    -------
    Reply
        For a script, or as a part of `tool_calls` or `reply`.

    Examples
    --------
    >>> from cyclops_nb.testing import tool_call
    >>> tool_call("get_weather", {"city": "Paris"}).pieces[0].arguments
    '{"city":"Paris"}'
    """
    if not isinstance(arguments, str):
        arguments = dump(dict(arguments)).decode()
    call = Call(id, name, arguments, _split(arguments, chunks), delay)
    return Reply((call,), **settings)


def tool_calls(*calls: Reply, **settings: Unpack[Settings]) -> Reply:
    """Answer with several tool calls in one message.

    Parameters
    ----------
    *calls : Reply
        What `tool_call` gives.
    **settings
        As in `text`.

    Returns
    -------
    Reply
        For a script, or as a part of a `reply`.

    Examples
    --------
    >>> from cyclops_nb.testing import tool_call, tool_calls
    >>> answer = tool_calls(tool_call("get_time"), tool_call("get_weather", {"city": "Paris"}))
    """
    return reply(*calls, **settings)


def reply(*parts: Reply | Piece, **settings: Unpack[Settings]) -> Reply:
    """Put parts together into one assistant message.

    Parameters
    ----------
    *parts
        Replies (`text`, `reasoning`, `tool_call`, ...) and pieces (`gate`, `delay`, `error_in_stream`, `cut`,
        `end`) in the order in which they are sent.
    **settings
        As in `text`. What is not given here is taken from the last part that says it.

    Returns
    -------
    Reply
        For a script, or as a part of another reply.

    Raises
    ------
    ConfigError
        If a part cannot stand in a reply, or something follows `cut`, `end` or `error_in_stream`.

    Examples
    --------
    >>> from cyclops_nb.testing import reasoning, reply, text, tool_call
    >>> answer = reply(reasoning("I look."), text("One moment."), tool_call("get_time"), usage=(10, 5))
    """
    pieces: list[Piece] = []
    merged = Settings()
    for part in parts:
        if isinstance(part, Reply):
            pieces += part.pieces
            merged |= _settings(part)
        elif isinstance(part, Text | Call | Delay | Gate | StreamError | Cut | End):
            pieces.append(part)
        else:
            raise ConfigError(
                f"{part!r} cannot be a part of a reply; parts are text(), reasoning(), tool_call(), gate(), "
                "delay(), error_in_stream(), cut() and end()"
            )
    return Reply(tuple(pieces), **(merged | settings))


def delay(seconds: float) -> Delay:
    """Make a pause to put inside a `reply`.

    Parameters
    ----------
    seconds : float
        How long the server waits; what stands before the pause has been sent.

    Returns
    -------
    Delay
        A part of a `reply`.

    Examples
    --------
    >>> from cyclops_nb.testing import delay, reply, text
    >>> answer = reply(delay(0.1), text("Good morning"))
    """
    return Delay(seconds)


def cut() -> Cut:
    """Close the connection at this point of a `reply`; as its first part, without any answer.

    Returns
    -------
    Cut
        The last part of a `reply`.

    Examples
    --------
    >>> from cyclops_nb.testing import cut, reply, text
    >>> answer = reply(text("Hello wor"), cut())
    """
    return Cut()


def end() -> End:
    """End a `reply` in good HTTP order, but with neither finish_reason nor ``[DONE]``.

    Returns
    -------
    End
        The last part of a `reply`.

    Examples
    --------
    >>> from cyclops_nb.testing import end, reply, text
    >>> answer = reply(text("Hello wor"), end())
    """
    return End()


def error_in_stream(
    message: str,
    *,
    code: str | int | None = None,
    type: str = "server_error",
) -> StreamError:
    """Send an error frame within the stream and end it there; where there is no stream, answer HTTP 500.

    Parameters
    ----------
    message : str
        What the server says.
    code : str or int, optional
        The provider's error code.
    type : str
        The provider's kind of error.

    Returns
    -------
    StreamError
        The last part of a `reply`.

    Examples
    --------
    >>> from cyclops_nb.testing import error_in_stream, reply, text
    >>> answer = reply(text("half"), error_in_stream("The upstream is overloaded", code=503))
    """
    return StreamError({"message": message, "type": type, "param": None, "code": code})


def _settings(part: Reply) -> Settings:
    """Give the settings that a part says itself."""
    said = Settings()
    if part.usage != "counted":
        said["usage"] = part.usage
    for name in ("model", "finish_reason", "cached", "reasoning_tokens", "cost"):
        if (value := getattr(part, name)) is not None:
            said[name] = value
    return said


def _split(content: str, chunks: int | Sequence[str] | None) -> tuple[str, ...]:
    if chunks is None:
        return tuple(re.findall(r"\s*\S+|\s+", content))
    if isinstance(chunks, int):
        if not 1 <= chunks <= max(len(content), 1):
            raise ConfigError(f"a text of {len(content)} characters cannot be sent in {chunks} chunks")
        edges = [len(content) * i // chunks for i in range(chunks + 1)]
        return tuple(content[start:stop] for start, stop in pairwise(edges))
    if joined(chunks) != joined([content]):
        raise ConfigError(f"the chunks {list(chunks)!r} do not make up the text {content!r}")
    return tuple(chunks)
