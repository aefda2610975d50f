"""What the server answers, with no word of sockets: keys, addresses, models, checks, and then the script."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from cyclops_nb.testing.answers import answer_to
from cyclops_nb.testing.http_answers import Answer, json_answer
from cyclops_nb.testing.pieces import Failure
from cyclops_nb.testing.recorded import RecordedRequest
from cyclops_nb.testing.script import Script
from cyclops_nb.testing.strict import chat_refusal, json_refusal
from cyclops_nb.testing.strict_responses import responses_refusal
from cyclops_nb.testing.wording import refusal

__all__ = ["CHAT_PATH", "RESPONSES_PATH", "Service"]

CHAT_PATH = "/v1/chat/completions"
RESPONSES_PATH = "/v1/responses"
_MODELS_PATH = "/v1/models"
_METHODS = {CHAT_PATH: "POST", RESPONSES_PATH: "POST", _MODELS_PATH: "GET"}
_SHOWN = 4


@dataclass(frozen=True)
class Service:
    """The script and the rules under which a request gets to it."""

    script: Script
    strict: bool = True
    models: Collection[str] | None = None
    require_key: str | None = None
    refuse_parameters: Collection[str] = ()
    context_window: int | None = None

    def answer(self, request: RecordedRequest) -> Answer:
        """Give the answer to a request; only one that is not refused uses up a reply of the script."""
        refused = self._key_refusal(request) or _route_refusal(request)
        if refused is not None:
            return answer_to(refused, {}, 0)
        if request.method == "GET":
            return self._list_models(request.path.removeprefix(_MODELS_PATH).removeprefix("/"))
        refused = self._body_refusal(request)
        if refused is not None:
            return answer_to(refused, {}, 0)
        reply, number = self.script.next(request)
        api: Literal["chat", "responses"] = "responses" if request.path == RESPONSES_PATH else "chat"
        return answer_to(reply, request.body, number, api)

    def _key_refusal(self, request: RecordedRequest) -> Failure | None:
        given = request.headers.get("authorization")
        if self.require_key is None or given == f"Bearer {self.require_key}":
            return None
        if given is None:
            message = (
                "You didn't provide an API key. You need to provide your API key in an Authorization header "
                "using Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."
            )
            return refusal(message, status=401)
        key = given.removeprefix("Bearer ")
        # a key is not to be read in a traceback, so only its ends are shown, as OpenAI does
        hidden = len(key) - 2 * _SHOWN
        masked = f"{key[:_SHOWN]}{'*' * hidden}{key[-_SHOWN:]}" if hidden > 0 else "*" * len(key)
        return refusal(f"Incorrect API key provided: {masked}.", code="invalid_api_key", status=401)

    def _body_refusal(self, request: RecordedRequest) -> Failure | None:
        body = request.body
        refused = json_refusal(request) if self.strict else None
        if refused is None:
            refused = self._parameter_refusal(body)
        if refused is None and self.strict:
            refused = chat_refusal(body) if request.path == CHAT_PATH else responses_refusal(body)
        if refused is None and self.models is not None and body.get("model") not in self.models:
            refused = _unknown_model(body.get("model"))
        return refused

    def _parameter_refusal(self, body: dict[str, Any]) -> Failure | None:
        for name in self.refuse_parameters:
            if _has(body, name):
                return refusal(f"Unknown parameter: '{name}'.", name, "unknown_parameter")
        return None

    def _list_models(self, wanted: str) -> Answer:
        models = [self._model(name) for name in (("scripted",) if self.models is None else self.models)]
        if not wanted:
            return json_answer(200, {"object": "list", "data": models})
        for model in models:
            if model["id"] == wanted:
                return json_answer(200, model)
        return answer_to(_unknown_model(wanted), {}, 0)

    def _model(self, name: str) -> dict[str, Any]:
        model: dict[str, Any] = {
            "id": name,
            "object": "model",
            "created": 1_760_000_000,
            "owned_by": "cyclops_nb",
        }
        if self.context_window is not None:
            model["meta"] = {"n_ctx": self.context_window}
        return model


def _has(body: dict[str, Any], name: str) -> bool:
    """Say whether a request has a parameter; a name with dots stands for one inside another."""
    place: Any = body
    for key in name.split("."):
        if not isinstance(place, dict) or key not in place:
            return False
        place = place[key]
    return True


def _route_refusal(request: RecordedRequest) -> Failure | None:
    path = _MODELS_PATH if request.path.startswith(f"{_MODELS_PATH}/") else request.path
    if path not in _METHODS:
        return refusal(f"Invalid URL ({request.method} {request.path})", status=404)
    if _METHODS[path] != request.method:
        message = (
            f"Not allowed to {request.method} on {request.path}. (HINT: Perhaps you meant to make your HTTP "
            "request using a different method?)"
        )
        return refusal(message, code="method_not_supported", status=405)
    return None


def _unknown_model(name: object) -> Failure:
    message = f"The model `{name}` does not exist or you do not have access to it."
    return refusal(message, code="model_not_found", status=404)
