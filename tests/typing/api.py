"""Read by the type checker only: what users' editors say of the public names."""

from __future__ import annotations

import dataclasses
import enum
from typing import Literal, NamedTuple, assert_type

from pydantic import BaseModel
from typing_extensions import TypedDict

from cyclops_nb import (
    Agent,
    AgentConfig,
    AgentResponse,
    AssistantMessage,
    InMemorySessionStore,
    Message,
    RunHandle,
    Session,
    SessionInfo,
    TextPart,
    Tool,
    ToolCall,
    Usage,
    UserMessage,
    tool,
)


class Weather(BaseModel):
    """A type to ask for."""

    celsius: float


@dataclasses.dataclass
class Place:
    """A dataclass to ask for."""

    name: str


class Options(TypedDict):
    """A typed dict to ask for."""

    depth: int


class Point(NamedTuple):
    """A named tuple to ask for."""

    x: int


class Colour(enum.Enum):
    """An enum to ask for."""

    RED = "red"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(name="plus", thread="caller")
def plus(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def reading(agent: Agent, session: Session) -> None:
    """Check the types of what runs give."""
    assert_type(agent.run("Hello"), str)
    assert_type(agent.run("Hello", response_model=Weather), Weather)
    assert_type(await agent.arun("Hello", session=session), str)
    assert_type(await agent.arun("Hello", response_model=Weather), Weather)
    assert_type(agent.run_with_response("Hello"), AgentResponse)
    assert_type(await agent.arun_with_response("Hello"), AgentResponse)
    assert_type(agent.ask("Hello"), AgentResponse)
    assert_type(agent.start("Hello"), RunHandle)
    assert_type(await agent.start("Hello"), AgentResponse)
    assert_type(agent.start("Hello").result(), AgentResponse)
    for piece in agent.stream("Hello"):
        assert_type(piece, str)
    async for piece in agent.astream("Hello"):
        assert_type(piece, str)


async def answering(agent: Agent, session: Session) -> None:
    """Check that an answer has the type that was asked for."""
    assert_type(agent.run("Hello", response_model=list[Weather]), list[Weather])
    assert_type(agent.run("Hello", response_model=dict[str, int]), dict[str, int])
    assert_type(agent.run("Hello", response_model=tuple[int, str]), tuple[int, str])
    assert_type(agent.run("Hello", response_model=Place), Place)
    assert_type(agent.run("Hello", response_model=Options), Options)
    assert_type(agent.run("Hello", response_model=Point), Point)
    assert_type(agent.run("Hello", response_model=Colour), Colour)
    assert_type(agent.run("Hello", response_model=int, session=session), int)
    assert_type(await agent.arun("Hello", response_model=list[Weather]), list[Weather])
    assert_type(await agent.arun("Hello", response_model=Options), Options)
    assert_type(await agent.arun("Hello", response_model=Colour, durability="sync"), Colour)
    agent.run_with_response("Hello", response_model=Weather)
    agent.stream("Hello", response_model=list[Weather])
    agent.start("Hello", response_model=Weather | None)
    agent.run("Hello", response_model=int | None)
    await agent.arun("Hello", response_model=Literal["yes", "no"])


def making(session: Session) -> None:
    """Check the types of constructors and values."""
    Agent(AgentConfig("gpt-4o-mini"), tools=[add, plus, len])
    Agent("gpt-4o-mini", [add], temperature=0)
    assert_type(add, Tool)
    assert_type(plus, Tool)
    assert_type(UserMessage("Hello").text, str)
    assert_type(AssistantMessage([TextPart("Hi"), ToolCall("1", "add")]).tool_calls, tuple[ToolCall, ...])
    assert_type(session.usage, Usage | None)
    assert_type(session.fork(at=2, title="Again"), Session)
    messages: list[Message] = [UserMessage("Hello")]
    session.messages.extend(messages)


async def listing() -> None:
    """Check that what a store lists is a list of what it tells."""
    assert_type(await InMemorySessionStore().list(), list[SessionInfo])
