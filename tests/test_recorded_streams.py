"""Whole streams as servers send them, read in every form in which they may arrive.

The streams in ``data/sse`` were written by hand. Where the variable ``CYCLOPS_NB_CASES`` names a folder, all streams
in its ``sse`` folder are read too: ``expected.json`` says what a careful reader makes of each.
"""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from scenarios import agent_for

from cyclops_nb.errors import ModelError
from cyclops_nb.models.base import Completion
from cyclops_nb.models.wire import ChatReader
from cyclops_nb.session import Session
from cyclops_nb.testing import raw, text
from cyclops_nb.usage import Usage

OWN = Path(__file__).parent / "data" / "sse"
FOLDERS = [OWN, *(Path(folder) / "sse" for folder in [os.environ.get("CYCLOPS_NB_CASES")] if folder)]


class Case(NamedTuple):
    name: str
    data: bytes
    expected: dict[str, Any]


CASES = [
    Case(name, (folder / name).read_bytes(), expected)
    for folder in FOLDERS
    for name, expected in json.loads((folder / "expected.json").read_text("utf-8")).items()
]
VARIANTS = {
    "as it is": lambda data: [data],
    "bytes": lambda data: [bytes([byte]) for byte in data],
    "crlf": lambda data: [data.replace(b"\n", b"\r\n")],
    "crlf in bytes": lambda data: [bytes([byte]) for byte in data.replace(b"\n", b"\r\n")],
    "cr": lambda data: [data.replace(b"\n", b"\r")],
    "bom": lambda data: [b"\xef\xbb\xbf" + data],
    "no space": lambda data: [data.replace(b"data: ", b"data:").replace(b"event: ", b"event:")],
    "two frames a write": lambda data: _pairs(data),
}


def _pairs(data):
    frames = data.split(b"\n\n")
    return [b"\n\n".join(frames[i : i + 2]) + b"\n\n" for i in range(0, len(frames), 2)]


class Reading(NamedTuple):
    completion: Completion
    error: ModelError | None
    done: bool


def read(pieces):
    """Read a stream as far as it goes."""
    completion = Completion()
    reader = ChatReader(completion)
    error = None
    try:
        for piece in pieces:
            list(reader.feed(piece))
        list(reader.close())
    except ModelError as caught:
        error = caught
    return Reading(completion, error, reader.done)


def expected_usage(report):
    """Return the usage that a report stands for."""
    if report is None:
        return None
    prompt, completion = (report.get(f"{side}_tokens_details") or {} for side in ("prompt", "completion"))
    return Usage(
        1,
        report["prompt_tokens"],
        report["completion_tokens"],
        prompt.get("cached_tokens") or report.get("prompt_cache_hit_tokens") or 0,
        completion.get("reasoning_tokens") or 0,
    )


each_case = pytest.mark.parametrize("case", CASES, ids=[case.name.removesuffix(".sse") for case in CASES])
each_form = pytest.mark.parametrize("form", VARIANTS, ids=[form.replace(" ", "_") for form in VARIANTS])


class TestEachStream:
    @each_form
    @each_case
    def test_gives_the_expected_answer(self, case, form):
        """A stream gives its text, reasoning, calls and usage, whatever form it arrives in."""
        completion, error, _ = read(VARIANTS[form](case.data))
        message, expected = completion.message(), case.expected
        if not error:  # of an answer that failed the text so far is shown, and is no part of the contract
            assert message.text == expected["text"]
        made = [(call.name, call.arguments) for call in message.tool_calls]
        assert made == [(call["name"], call["arguments"]) for call in expected["tool_calls"]]
        assert completion.usage == expected_usage(expected["usage_last"])
        assert bool(error) == bool(expected["errors"])
        assert completion.finished is not bool(error)

    @each_case
    def test_gives_the_expected_reasoning(self, case):
        """The reasoning of a stream is read whole."""
        reasoning = read([case.data]).completion.message().reasoning
        expected = case.expected
        assert reasoning == expected.get("reasoning_text", reasoning)
        assert len(reasoning) == expected.get("reasoning_chars", len(reasoning))
        assert reasoning.startswith(expected.get("reasoning_head", ""))

    @each_case
    def test_gives_the_calls_their_ids(self, case):
        """Calls have the ids they came with, and ids of their own where they came without."""
        made = [call.id for call in read([case.data]).completion.message().tool_calls]
        assert len(set(made)) == len(made)
        for call_id, call in zip(made, case.expected["tool_calls"], strict=True):
            assert call_id
            assert call["id"] in (call_id, "<generated>")

    @each_case
    def test_tells_how_it_ended(self, case):
        """The finish reason, the model, and what the server said of an error are those of the stream."""
        completion, error, done = read([case.data])
        for word in case.expected["errors"]:
            assert word.removeprefix("stream ") in str(error)
        if not error:
            assert done is case.expected["done"]
        if "finish_reasons" in case.expected:
            assert completion.finish_reason == (case.expected["finish_reasons"] or [None])[-1]
        if "models" in case.expected:
            assert completion.model == (case.expected["models"] or [None])[-1]

    @each_case
    def test_can_be_stored(self, case):
        """Nothing that was not in the stream is in the text, and what was read can be written."""
        message = read([case.data]).completion.message()
        message.model_dump_json()
        if "\ufffd".encode() not in case.data:
            assert "\ufffd" not in message.text + message.reasoning

    @each_case
    def test_costs_what_the_server_says(self, case):
        """A cost in the usage is kept, and none is made up."""
        report = case.expected["usage_last"] or {}
        assert read([case.data]).completion.reported_cost == report.get("cost")


class TestTheNextTurn:
    """What is made of a stream does not poison its session, whichever server and API goes on with it."""

    @pytest.mark.parametrize(("api", "replay"), [("chat", "auto"), ("responses", "auto"), ("responses", "always")])
    @each_case
    def test_is_taken(self, serve, case, api, replay):
        """After a stream, or its failure, the strict server takes the requests of the same session."""
        answers = iter([raw(case.data)])
        server = serve(lambda _: next(answers, text("ok")))
        session = Session()
        agent = agent_for(server)
        failure = agent.run_with_response("x", session=session).error
        assert bool(failure) == bool(case.expected["errors"])
        agent = agent.replace(api=api, reasoning_replay=replay)
        if failure is not None:
            assert agent.run(session=session) == "ok"
        assert agent.run("y", session=session) == "ok"
        assert {request.status for request in server.completions} == {200}
