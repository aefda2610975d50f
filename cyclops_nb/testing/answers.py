"""From what a script says to what is answered: errors, bytes, and assistant messages in the form of either API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from cyclops_nb.testing.chat_answers import chat_answer
from cyclops_nb.testing.http_answers import Answer, json_answer
from cyclops_nb.testing.pieces import Failure, Raw, Reply
from cyclops_nb.testing.responses_answers import responses_answer

__all__ = ["answer_to"]


def answer_to(
    reply: Reply | Failure | Raw, body: Mapping[str, Any], number: int, api: Literal["chat", "responses"] = "chat"
) -> Answer:
    """Give the answer that a reply makes to a request.

    Parameters
    ----------
    reply
        What the script says.
    body : mapping
        The request's JSON.
    number : int
        The number of the reply, from 1; it makes the answer's id.
    api : {"chat", "responses"}
        The form in which an assistant message is answered.

    Returns
    -------
    Answer
        For the connection to send.
    """
    if isinstance(reply, Failure):
        return json_answer(reply.status, reply.body, reply.headers)
    if isinstance(reply, Raw):
        size = reply.split or max(len(reply.body), 1)
        pieces = tuple(reply.body[start : start + size] for start in range(0, len(reply.body), size))
        headers = (("content-type", reply.content_type), *reply.headers)
        return Answer(reply.status, headers, pieces, chunked=reply.split is not None)
    make = responses_answer if api == "responses" else chat_answer
    return make(reply, body, number)
