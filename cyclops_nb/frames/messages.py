"""One row a message.

What only some roles have is missing in the rows of the others, so that one frame can be filtered and grouped by role.
Pictures and files are counted and measured, never put into a cell: a frame is for reading and for writing to a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cyclops_nb.frames.columns import Columns, make_frame, tokens
from cyclops_nb.frames.sources import Holders, find_sessions
from cyclops_nb.messages import AssistantMessage, FilePart, ImagePart, Message, ToolMessage
from cyclops_nb.session import Session

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["messages_frame"]

_MESSAGE_COLUMNS: Columns = {
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
    "bytes": "Int64",
    "inherited": "boolean",
}


def messages_frame(*sources: Any, inherited: bool = False) -> pd.DataFrame:
    """Return a DataFrame with one row for each message.

    Parameters
    ----------
    *sources : Session, AgentResponse, or list of these
        Where the messages stand; of a response, all messages of its session.
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
        bytes             Int64                size of these pictures and files
        inherited         boolean              whether it came from the session that this one was forked from
        ================  ===================  ================================================================

        What a message does not have is ``<NA>``. The data of pictures and files is never in the frame.

    Raises
    ------
    InputError
        If a source is none of these.

    Examples
    --------
    >>> session = Session("study-1")
    >>> session.messages.extend([UserMessage("Hello"), AssistantMessage("Hi!")])
    >>> messages_frame(session)[["index", "text"]].values.tolist()
    [[0, 'Hello'], [1, 'Hi!']]
    """
    contents = [(session, tuple(session.messages), _inherited_runs(session)) for session in find_sessions(sources)]
    holders = Holders(inherited)
    for session, messages, runs in contents:
        flags = (_is_inherited(session, index, message, runs) for index, message in enumerate(messages))
        holders.note(session, zip((message.id for message in messages), flags, strict=True))
    rows = [
        _message_row(session, index, message, inherited=_is_inherited(session, index, message, runs))
        for session, messages, runs in contents
        for index, message in enumerate(messages)
        if holders.shows(session, message.id)
    ]
    return make_frame(rows, _MESSAGE_COLUMNS)


def _message_row(session: Session, index: int, message: Message, *, inherited: bool) -> dict[str, Any]:
    row = {
        "session_id": session.id,
        "index": index,
        "message_id": message.id,
        "run_id": message.run_id,
        "role": message.role,
        "created_at": message.created_at,
        "text": message.text,
        "images": sum(isinstance(part, ImagePart) for part in message.content),
        "files": sum(isinstance(part, FilePart) for part in message.content),
        "bytes": sum(_decoded_size(part) for part in message.content if isinstance(part, ImagePart | FilePart)),
        "inherited": inherited,
    }
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


def _inherited_runs(session: Session) -> dict[str, bool]:
    return {run.id: run.session_id != session.id for run in tuple(session.runs)}


def _is_inherited(session: Session, index: int, message: Message, runs: Mapping[str, bool]) -> bool:
    """Say whether a message is the origin's: by its run, which holds after a compaction too, else by its place."""
    known = None if message.run_id is None else runs.get(message.run_id)
    if known is not None:
        return known
    return session.parent is not None and index < session.parent.message_count


def _decoded_size(part: ImagePart | FilePart) -> int:
    """Return how many bytes a part's base64 stands for, without decoding it."""
    data = part.data or ""
    if data.startswith("data:"):
        data = data.partition(",")[2]
    return (len(data) - sum(map(data.count, "=\n\r\t "))) * 3 // 4
