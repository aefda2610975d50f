"""Chat Completions: the older API of OpenAI, which nearly every server speaks."""

from __future__ import annotations

from typing import Any

from cyclops_nb.models.base import Completion, ModelRequest
from cyclops_nb.models.payload import chat_payload
from cyclops_nb.models.reading import StreamReader
from cyclops_nb.models.served import ServedModel
from cyclops_nb.models.wire import ChatReader

__all__ = ["ChatModel"]


class ChatModel(ServedModel):
    """A model behind ``/chat/completions``."""

    path = "/chat/completions"

    def payload(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a request."""
        return chat_payload(request, self.endpoint)

    def reader(self, completion: Completion, request: ModelRequest) -> StreamReader:
        """Return what reads the answer into `completion`."""
        return ChatReader(completion, request.run_id, request.step)
