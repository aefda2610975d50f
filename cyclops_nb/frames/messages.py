"""One row a message.

What only some roles have is missing in the rows of the others, so that one frame can be filtered and grouped by role.
Pictures and files are counted and measured, never put into a cell: a frame is for reading and for writing to a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyclops_nb.frames.columns import Columns, attachments, make_frame, tokens
from cyclops_nb.frames.ratings import Annotations
from cyclops_nb.frames.sources import find_messages, find_sessions
from cyclops_nb.messages import AssistantMessage, Message, ToolMessage

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["messages_frame"]

_COLUMNS: Columns = {
    "session_id": "string",
    "index": "Int64",
    "message_id": "string",
    "run_id": "string",
    "role": ("user", "assistant", "tool", "summary"),
    "created_at": "time",
    "text": "string",
    "reasoning": "string",
    "tool_calls": "Int64",
    "call_id": "string",
    "tool_name": "string",
    "status": ("ok", "error", "cancelled"),
    "model": "string",
    "finish_reason": "string",
    "input_tokens": "Int64",
    "output_tokens": "Int64",
    "cached_tokens": "Int64",
    "reasoning_tokens": "Int64",
    "cost": "Float64",
    "duration": "Float64",
    "images": "Int64",
    "files": "Int64",
    "media_types": "string",
    "bytes": "Int64",
    "rating": "Float64",
    "note": "string",
    "tags": "string",
    "inherited": "boolean",
}


def messages_frame(*sources: Any, inherited: bool = False) -> pd.DataFrame:
    """Return a DataFrame with one row for each message.

    Parameters
    ----------
    *sources : Session, AgentResponse, store, or list of these
        Where the messages stand; of a response, all messages of its session; of a store, all sessions that it lists.
    inherited : bool
        Show messages that sessions share by forking in each of them. By default a message is shown once: in the
        session that it was said in, or, where that is not among the sources, in the first that has it.

    Returns
    -------
    pandas.DataFrame
        In the order of the sources, with the columns

        ================  ===================  ================================================================
        session_id        string               the session that the row stands in
        index             Int64                place in ``session.messages``
        message_id        string
        run_id            string               the run that put it there
        role              category             ``user``, ``assistant``, ``tool`` or ``summary``
        created_at        datetime64[us, UTC]
        text              string               all text parts put together
        reasoning         string               of answers; ``<NA>`` if there is none
        tool_calls        Int64                how many calls an answer has
        call_id           string               of tool results: the call that is answered
        tool_name         string               of tool results
        status            category             of tool results: ``ok``, ``error`` or ``cancelled``
        model             string               of answers
        finish_reason     string               of answers
        input_tokens      Int64                of answers; the cached ones included
        output_tokens     Int64                of answers; the reasoning included
        cached_tokens     Int64                of answers
        reasoning_tokens  Int64                of answers
        cost              Float64              of answers: dollars
        duration          Float64              of answers and tool results: seconds
        images            Int64                how many pictures are in it
        files             Int64                how many files are in it
        media_types       string               their kinds, joined by ``", "``
        bytes             Int64                size of these pictures and files
        rating            Float64              from ``session.annotate``, as the next two
        note              string
        tags              string               joined by ``", "``
        inherited         boolean              whether it came from the session that this one was forked from
        ================  ===================  ================================================================

        What a message does not have is ``<NA>``. The data of pictures and files is never in the frame.

    Raises
    ------
    InputError
        If a source is none of these.

    Warns
    -----
    UserWarning
        If a session in a store cannot be read; it is left out.

    Examples
    --------
    >>> session = Session("study-1")
    >>> session.messages.extend([UserMessage("Hello"), AssistantMessage("Hi!")])
    >>> messages_frame(session)[["index", "text"]].values.tolist()
    [[0, 'Hello'], [1, 'Hi!']]
    """
    parts = find_messages(find_sessions(sources), everywhere=inherited)
    annotations = Annotations(parts, everywhere=inherited)
    rows = [
        _row(part.session.id, place, part.items[place], annotations, inherited=part.inherited[place])
        for part in parts
        for place in part.shown
    ]
    return make_frame(rows, _COLUMNS)


def _row(session_id: str, index: int, message: Message, annotations: Annotations, *, inherited: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "session_id": session_id,
        "index": index,
        "message_id": message.id,
        "run_id": message.run_id,
        "role": message.role,
        "created_at": message.created_at,
        "text": message.text,
        "inherited": inherited,
        **attachments(message.content),
    }
    rating, note, tags = annotations.of(message)
    if rating is not None or note or tags:
        row |= {"rating": rating, "note": note, "tags": ", ".join(tags) or None}
    if isinstance(message, AssistantMessage):
        row |= {
            "reasoning": message.reasoning or None,
            "tool_calls": len(message.tool_calls),
            "model": message.model,
            "finish_reason": message.finish_reason,
            "cost": message.cost,
            "duration": message.duration,
            **tokens(message.usage),
        }
    elif isinstance(message, ToolMessage):
        row |= {
            "call_id": message.call_id,
            "tool_name": message.name,
            "status": message.status,
            "duration": message.duration,
        }
    return row
