"""Puts a hostile text into every field that can reach a page, and makes all that the library shows of it.

A text is written anew for each field, with a number of its own, by which one knows afterwards where it came from and
whether it was shown at all.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import NamedTuple

from hostile_html import HTML
from hostile_markdown import MARKDOWN

from cyclops_nb import NotebookSessionStore, compare, export_notebook, usage_table
from cyclops_nb.display.live_state import LiveState
from cyclops_nb.display.register import mimebundle
from cyclops_nb.display.tool_output import ToolOutput
from cyclops_nb.events import (
    Compacted,
    ReasoningDelta,
    RequestRetried,
    RunStarted,
    StepFinished,
    StepStarted,
    TextDelta,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolResult,
)
from cyclops_nb.interop.working_notebook import FoundSessions, MissingPiece
from cyclops_nb.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    ReasoningPart,
    SummaryMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from cyclops_nb.response import AgentResponse, Answer
from cyclops_nb.runs import Run, RunError
from cyclops_nb.session import Parent, Session
from cyclops_nb.stores.base import SessionInfo, SessionInfos, session_info
from cyclops_nb.usage import Usage

PAYLOADS = [(kind, text) for kind, texts in (HTML | MARKDOWN).items() for text in texts]
FIRST = dict(reversed(PAYLOADS))
_EVERY = 3
_FIRST = 1_000_000  # numbers so long that they stand in no other text
_ROOM = 1_000


class Pair(NamedTuple):
    """A payload in a field."""

    place: str
    field: str
    kind: str
    text: str


class Output(NamedTuple):
    """Something that a front end shows, and the numbers of what was put into it."""

    place: str
    media_type: str
    source: str
    numbers: tuple[int, ...]

    @property
    def shown(self):
        """The numbers that are in it: what was cut away or is never shown is no pair."""
        return [number for number in self.numbers if str(number) in self.source]


def numbered(text, number):
    """Return a payload with its number."""
    return text.replace("RUN", "struck(NUM)").replace("WEB", "http://struck.test/NUM").replace("NUM", str(number))


class Writer:
    """Writes a payload into one field after the other."""

    def __init__(self, index):
        self._kind, self._text = PAYLOADS[index]
        self._numbers = iter(range(_FIRST + index * _ROOM, _FIRST + (index + 1) * _ROOM))
        self.pairs = {}
        self.place = ""
        self.numbers = []

    def __call__(self, field):
        """Return the payload for a field."""
        number = next(self._numbers)
        self.pairs[number] = Pair(self.place, field, self._kind, self._text)
        self.numbers.append(number)
        return numbered(self._text, number)

    def outputs(self, place, make):
        """Return what a place shows, by media type."""
        self.place, self.numbers = place, []
        return [Output(place, kind, source, tuple(self.numbers)) for kind, source in make(self)]


def session(write):
    """Return a session in which everything that somebody else can write is hostile."""
    run = Run(
        session_id="study-1",
        model=write("run model"),
        config="c1",
        usage=Usage(1, 10, 5),
        cost=0.01,
        stop_reason="error",
        error=RunError(type=write("error type"), message=write("error message")),
        warnings=(write("warning"),),
    )
    config = {
        "model": write("settings model"),
        "host": write("settings host"),
        "system_prompt": write("system prompt"),
        "tools": [{"name": write("settings tool name"), "description": write("settings tool description")}],
        "stop": [write("setting value")],
        write("setting name"): 1,
    }
    return Session(
        id=write("session id"),
        title=write("title"),
        metadata={write("metadata name"): write("metadata value")},
        parent=Parent(session_id=write("parent id"), message_count=1),
        configs={"c1": config},
        runs=[run],
        messages=messages(write, run.id),
    )


def messages(write, run_id=None):
    """Return a message of each kind, with each kind of part."""
    first, second = write("call id"), "c2"
    note = {"annotation": {"rating": 1, "note": write("annotation note"), "tags": [write("annotation tag")]}}
    given = {"run_id": run_id}
    return [
        UserMessage(
            [
                TextPart(write("user text")),
                ImagePart(url=write("image address")),
                ImagePart(write("image data"), media_type="image/png"),
                ImagePart("AAAA", media_type=write("image media type")),
                FilePart(write("file name"), b"x", write("file media type")),
            ],
            metadata={**note, write("message metadata name"): write("message metadata value")},
            **given,
        ),
        AssistantMessage(
            [
                ReasoningPart(write("reasoning")),
                TextPart(write("assistant text")),
                ToolCall(first, write("tool name"), json.dumps({write("argument name"): write("argument value")})),
                ToolCall(second, "f", write("arguments")),
            ],
            model=write("message model"),
            finish_reason=write("finish reason"),
            **given,
        ),
        ToolMessage(first, write("result tool name"), [TextPart(write("result"))], **given),
        ToolMessage(second, "f", json.dumps({write("result name"): [write("result value")]}), status="error", **given),
        ToolMessage(write("lone call id"), write("lone tool name"), write("lone result"), status="error", **given),
        SummaryMessage(write("summary"), replaced=2, **given),
        UserMessage(write("question"), **given),
        AssistantMessage(write("answer"), **given),
    ]


def _html(*values):
    return [("text/html", mimebundle(value)["text/html"]) for value in values]


def _plain(*values):
    return [("text/plain", mimebundle(value)["text/plain"]) for value in values]


def _sessions(write):
    return _html(session(write))


def _texts(write):
    return _plain(session(write))


def _messages(write):
    return _html(*messages(write))


def _responses(write):
    whole = session(write)
    response = AgentResponse(
        run=whole.runs[0],
        content=write("content"),
        messages=tuple(whole.messages),
        error=ValueError(write("exception")),
        partial=write("partial answer"),
        session=whole,
        runs=(whole.runs[0],),
    )
    return _html(response, Answer(write("answer alone"), response))


def _runs(write):
    whole = session(write)
    return _html(whole.runs[0], usage_table(whole), usage_table(whole, by="session"), usage_table(whole, by="branch"))


def _lists(write):
    whole = session(write)
    info = session_info(whole, 8, write("listed question"))
    named = info.model_copy(update={"path": Path(write("path"))})
    found = FoundSessions([whole])
    found.missing = (MissingPiece(0, "s", write("missing piece")),)
    untitled = SessionInfo(id=write("listed id"), updated_at=info.updated_at)
    return _html(named, SessionInfos([info, untitled]), found)


def _comparisons(write):
    one, other = session(write), session(write)
    changed = [*one.messages[:-2], UserMessage(write("other question")), AssistantMessage(write("other answer"))]
    fork = one.model_copy(update={"messages": changed, "id": "fork", "title": write("fork title")})
    labels = [write("label"), write("other label")]
    return _html(compare(one, other, labels=labels), compare(one, fork))


def _odd(write):
    class Thing:
        def __init__(self, repr_, error=None):
            self._repr, self._error = repr_, error

        def __repr__(self):
            return self._repr

    class Broken(Session):
        def __getattribute__(self, name):
            if name == "title":
                raise ValueError(shown)
            return super().__getattribute__(name)

    shown = write("error in a repr")
    return _html(Thing(write("repr")), Broken(write("id of what cannot be drawn")))


def tool_output(write):
    """Return what a tool has printed and displayed."""
    output = ToolOutput()
    output.write(write("printed"))
    output.display({"text/html": f"<table><tr><td>1{write('displayed HTML')}</td></tr></table>"})
    output.display({"text/markdown": write("displayed Markdown")})
    output.display({"text/plain": write("displayed text")})
    output.display({"image/svg+xml": write("displayed SVG"), "text/latex": write("displayed LaTeX")})
    output.display({"image/png": write("displayed PNG")})
    output.display({"application/javascript": write("displayed JavaScript")})
    return output


def live_events(write):
    """Yield what happens in a run, in an order in which everything is seen once while it is written."""
    call = ToolCall(write("call id"), write("tool name"), write("arguments"))
    answer = AssistantMessage(
        [ReasoningPart(write("reasoning")), TextPart(write("text")), call], model=write("message model")
    )
    yield RunStarted(session_id="s", model=write("run model"))
    yield Compacted(message=SummaryMessage(write("summary")))
    yield RequestRetried(attempt=1, reason=write("reason of a retry"))
    yield StepStarted(step=1)
    yield ReasoningDelta(step=1, text=write("reasoning that comes"))
    yield TextDelta(step=1, text=write("text that comes"))
    yield ToolCallStarted(step=1, call_id=call.id, name=call.name)
    yield ToolCallDelta(step=1, call_id=call.id, arguments=call.arguments)
    yield ToolCallReady(step=1, call=call)
    result = ToolMessage(call.id, call.name, write("result"), status="error")
    yield ToolResult(step=1, message=result, duration=1.0)
    yield StepFinished(step=1, message=answer, usage=Usage(1, 1, 1), cost=None)


def _live(write):
    """Return the blocks after each event, each once, as the front end gets them."""
    calls = {}
    state = LiveState(calls)
    state.add_input([UserMessage(write("live question"))])
    seen = {}
    for event in live_events(write):
        state.add(event)
        if isinstance(event, ToolCallReady):
            calls[1, event.call.id] = tool_output(write)
        shown = [state.head(1.0, write("complaint")), *(block.html for block in state.blocks())]
        seen.update(dict.fromkeys(map(str, shown)))
    return [("text/html", "".join(seen))]


def _tool_outputs(write):
    return [("text/html", str(tool_output(write).html))]


def _cells(write):
    """Return the Markdown cells of a stored and of an exported notebook, as a front end gets them."""
    whole = session(write)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(NotebookSessionStore(folder).save(whole.model_copy(update={"id": "study-1"})))
        stored = next(Path(folder).glob("*.ipynb"))
        fork = session(write).model_copy(update={"parent": Parent(session_id=whole.id, message_count=2)})
        exported = export_notebook([whole, fork], Path(folder) / "exported" / "all.ipynb")
        sources = {}
        for path in (stored, exported):
            for cell in json.loads(path.read_text("utf-8"))["cells"]:
                assert cell["cell_type"] == "markdown"
                sources["".join(cell["source"])] = None
    return [("text/markdown", source) for source in sources]


PLACES = {
    "session": _sessions,
    "messages": _messages,
    "response": _responses,
    "runs and usage": _runs,
    "lists": _lists,
    "comparison": _comparisons,
    "odd objects": _odd,
    "live view": _live,
    "tool output": _tool_outputs,
    "plain text": _texts,
    "stored notebook": _cells,
}


def outputs_of(index):
    """Return all outputs with a payload in every field, and the pairs by their number."""
    write = Writer(index)
    outputs = [output for place, make in PLACES.items() for output in write.outputs(place, make)]
    return outputs, write.pairs


def some_outputs_of(index):
    """Return outputs with a payload: of the first of its kind all, of the others every third, of each another one."""
    outputs, pairs = outputs_of(index)
    kind, text = PAYLOADS[index]
    return (outputs if FIRST[kind] == text else outputs[index % _EVERY :: _EVERY]), pairs
