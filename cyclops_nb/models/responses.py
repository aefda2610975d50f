"""The Responses API: the newer one of OpenAI, with which reasoning models keep what they thought between tool calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cyclops_nb.models.base import Completion, ModelRequest
from cyclops_nb.models.reading import StreamReader
from cyclops_nb.models.responses_payload import responses_notes, responses_payload
from cyclops_nb.models.responses_wire import ResponsesReader
from cyclops_nb.models.served import ServedModel

__all__ = ["ResponsesModel"]


class ResponsesModel(ServedModel):
    """A model behind ``/responses``."""

    path = "/responses"

    def payload(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a request."""
        return responses_payload(request, self.endpoint)

    def reader(self, completion: Completion, request: ModelRequest) -> StreamReader:
        """Return what reads the answer into `completion`."""
        return ResponsesReader(completion, request.run_id, request.step)

    def notes(self, request: ModelRequest) -> Sequence[str]:
        """Return warnings about settings that this API does not have."""
        return responses_notes(request.config)
