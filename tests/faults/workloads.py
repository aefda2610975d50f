"""What the stopped runs do: scripts of answers with tools, middleware and stores that have awaits of their own."""

import asyncio
from dataclasses import dataclass, field

from faults.stepping import called
from pydantic import BaseModel

from cyclops_nb import Compaction, Middleware
from cyclops_nb.testing import error, reasoning, reply, text, tool_call, tool_calls

QUESTION = "Do the work."
NEXT_QUESTION = "Go on."
NEXT_ANSWER = "On we go."
FULL = error(400, "The context window of this model is full.", code="context_length_exceeded")
SUMMARY = "Two things were looked up."
_DELAY = 0.0005
"""Seconds between pieces of an answer, so that each is an await of its own."""


class Log:
    """What tools have begun and ended, by their call's argument."""

    def __init__(self):
        self.begun = []
        self.ended = []

    def tools(self):
        """Return tools of each kind: quick, one with several awaits, one in a thread, one that fails."""

        async def quick(n: int) -> str:
            """Return at once."""
            self.begun.append(n)
            called(f"tool {n} begins")
            called(f"tool {n} ends")
            self.ended.append(n)
            return f"quick {n}"

        async def slow(n: int) -> str:
            """Return after some awaits."""
            self.begun.append(n)
            called(f"tool {n} begins")
            for _ in range(3):
                await asyncio.sleep(0)
            called(f"tool {n} ends")
            self.ended.append(n)
            return f"slow {n}"

        def threaded(n: int) -> str:
            """Return from a thread."""
            self.begun.append(n)
            called(f"tool {n} begins")
            called(f"tool {n} ends")
            self.ended.append(n)
            return f"threaded {n}"

        async def broken(n: int) -> str:
            """Fail."""
            self.begun.append(n)
            called(f"tool {n} begins")
            await asyncio.sleep(0)
            called(f"tool {n} ends")
            self.ended.append(n)
            raise ValueError(f"broken {n}")

        def later(n: int) -> str:
            """Return something to be awaited."""
            return slow(n)

        def here(n: int) -> str:
            """Return from the thread that waits for the run."""
            return threaded(n)

        return [quick, slow, threaded, broken, later, here]


class Around(Middleware):
    """Awaits before and after each call, as one that asks a database would."""

    async def wrap_model_call(self, request, call_next):
        await asyncio.sleep(0)
        called("before the model")
        answer = await call_next(request)
        called("after the model")
        await asyncio.sleep(0)
        return answer

    async def wrap_tool_call(self, call, call_next):
        await asyncio.sleep(0)
        called(f"before {call.id}")
        result = await call_next(call)
        called(f"after {call.id}")
        await asyncio.sleep(0)
        return result


class AskTwice(Middleware):
    """Asks the model a second time, whatever it said."""

    async def wrap_model_call(self, request, call_next):
        await call_next(request)
        return await call_next(request)


class Count(BaseModel):
    """The answer that is asked for."""

    count: int


@dataclass
class Workload:
    """One run: what the model answers, step by step."""

    name: str
    answers: list
    middleware: list = field(default_factory=list)
    response_model: type | None = None
    settings: dict = field(default_factory=dict)
    ends: str = "completed"
    summary: object = None
    """The answer to a request for a summary."""
    full_at: int | None = None
    """The step at which the server says that the context is full, as long as there is no summary."""

    def __call__(self, request):
        """Answer a request of the run, or of the run after it."""
        if request.messages[0]["role"] == "system":
            return self.summary
        if request.messages[-1]["content"] == NEXT_QUESTION:
            return text(NEXT_ANSWER, usage=(7, 3))
        if request.messages[0]["content"].endswith(SUMMARY):
            return self.answers[-1]
        step = sum(message["role"] == "assistant" for message in request.messages)
        return FULL if step == self.full_at and self.summary else self.answers[step]


def _call(name, n, **settings):
    return tool_call(name, {"n": n}, id=f"call_{n}", chunks=2, **settings)


def workloads():
    """Return them all."""
    parallel = [
        reply(
            reasoning("First the tools."),
            text("I look it up. "),
            _call("slow", 1),
            _call("quick", 2),
            _call("threaded", 3),
            usage=(10, 5),
        ),
        tool_calls(_call("quick", 4), _call("slow", 5), usage=(20, 6)),
        reply(reasoning("That is all."), text("It is done."), usage=(30, 7)),
    ]
    failing = [
        tool_calls(_call("quick", 1), _call("broken", 2), _call("slow", 3), usage=(10, 5)),
        text("One of them failed.", usage=(20, 6)),
    ]
    return [
        Workload("text", [reply(reasoning("Let me think."), text("It is done.", delay=_DELAY), usage=(10, 5))]),
        Workload("parallel tools", parallel),
        Workload("middleware", parallel, middleware=[Around(), Around()]),
        Workload("asks twice", [parallel[1], text("It is done.", usage=(30, 7))], middleware=[AskTwice()]),
        Workload(
            "structured output",
            [text('{"count": "many"}', usage=(10, 5)), text('{"count": 3}', usage=(20, 6))],
            response_model=Count,
        ),
        Workload(
            "tools of other kinds",
            [
                tool_calls(_call("later", 1), _call("here", 2), _call("here", 4), usage=(10, 5)),
                text("It is done.", usage=(20, 6)),
            ],
        ),
        Workload(
            "compaction",
            [parallel[0], tool_calls(_call("quick", 4), _call("slow", 5), usage=(850, 6)), parallel[2]],
            settings={"compaction": Compaction(keep_last=1), "input_limit": 1000},
            summary=text(SUMMARY, usage=(40, 4), delay=_DELAY),
        ),
        Workload(
            "context full",
            parallel,
            settings={"compaction": Compaction(keep_last=1)},
            summary=text(SUMMARY, usage=(40, 4)),
            full_at=2,
        ),
        Workload("failing tool", failing),
        Workload("tool that ends the run", failing, settings={"on_tool_error": "raise"}, ends="error"),
        Workload("out of steps", parallel[:2], settings={"max_iterations": 2}, ends="max_iterations"),
    ]
