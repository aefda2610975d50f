"""One row a tool call, with the result that answers it in its own turn.

Ids of calls repeat over a conversation in real data, so a join by id would give a call the results of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyclops_nb.frames.columns import Columns, attachments, make_frame
from cyclops_nb.frames.sources import find_messages, find_sessions
from cyclops_nb.messages import ToolMessage
from cyclops_nb.transcript import calls_with_results

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["tool_calls_frame"]

_COLUMNS: Columns = {
    "session_id": "string",
    "index": "Int64",
    "message_id": "string",
    "run_id": "string",
    "call": "Int64",
    "call_id": "string",
    "created_at": "time",
    "tool_name": "string",
    "arguments": "string",
    "result_index": "Int64",
    "status": ("ok", "error", "cancelled"),
    "result": "string",
    "duration": "Float64",
    "images": "Int64",
    "files": "Int64",
    "media_types": "string",
    "bytes": "Int64",
    "inherited": "boolean",
}


def tool_calls_frame(*sources: Any, inherited: bool = False) -> pd.DataFrame:
    """Return a DataFrame with one row for each tool call, and its result.

    Parameters
    ----------
    *sources : Session, AgentResponse, store, or list of these
        Where the calls stand; of a response, all calls of its session; of a store, all sessions that it lists.
    inherited : bool
        Show calls that sessions share by forking in each of them. By default a call is shown once, like a message in
        `messages_frame`.

    Returns
    -------
    pandas.DataFrame
        In the order of the sources, with the columns

        ============  ===================  ====================================================================
        session_id    string               the session that the row stands in
        index         Int64                place in ``session.messages`` of the answer that calls
        message_id    string               of that answer
        run_id        string               the run that made it
        call          Int64                which of the answer's calls, from 0
        call_id       string               may come again in other answers
        created_at    datetime64[us, UTC]  when the answer was there
        tool_name     string
        arguments     string               as the model wrote them, meant to be JSON
        result_index  Int64                place in ``session.messages`` of the result; ``<NA>`` if there is none
        status        category             of the result: ``ok``, ``error`` or ``cancelled``
        result        string               all its text parts put together
        duration      Float64              seconds that the tool took
        images        Int64                how many pictures are in the result
        files         Int64                how many files are in it
        media_types   string               their kinds, joined by ``", "``
        bytes         Int64                size of these pictures and files
        inherited     boolean              whether it came from the session that this one was forked from
        ============  ===================  ====================================================================

        What there is not, such as the result of an open call, is ``<NA>``. Results that answer no call have no row.

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
    >>> session.messages.append(AssistantMessage(ToolCall("call_1", "get_weather", '{"city": "Paris"}')))
    >>> session.messages.append(ToolMessage("call_1", "get_weather", "11 °C"))
    >>> tool_calls_frame(session)[["tool_name", "status", "result"]].values.tolist()
    [['get_weather', 'ok', '11 °C']]
    """
    rows = []
    for part in find_messages(find_sessions(sources), everywhere=inherited):
        found = calls_with_results(part.items)
        for index in part.shown:
            message = part.items[index]
            for number, (call, result) in enumerate(found.get(index, ())):
                row = {
                    "session_id": part.session.id,
                    "index": index,
                    "message_id": message.id,
                    "run_id": message.run_id,
                    "call": number,
                    "call_id": call.id,
                    "created_at": message.created_at,
                    "tool_name": call.name,
                    "arguments": call.arguments,
                    "inherited": part.inherited[index],
                }
                rows.append(row | (_result(*result) if result else {}))
    return make_frame(rows, _COLUMNS)


def _result(index: int, message: ToolMessage) -> dict[str, Any]:
    return {
        "result_index": index,
        "status": message.status,
        "result": message.text,
        "duration": message.duration,
        **attachments(message.content),
    }
