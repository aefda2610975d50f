"""How the store contract says what is wrong, and the sessions that it stores.

Whoever reads a failure is writing a store and has never seen this code. So each says the rule, what was found, and what
to do; tracebacks into here would say nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import functools
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, TypeAlias, TypeVar, cast

from cyclops_nb.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    SummaryMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from cyclops_nb.runs import Run, RunError
from cyclops_nb.session import Parent, Session
from cyclops_nb.stores.base import SessionStore
from cyclops_nb.usage import Usage

__all__ = [
    "ODD_TEXT",
    "BrokenRuleError",
    "Contract",
    "OpenStore",
    "Watched",
    "during",
    "everything",
    "expect",
    "in_threads",
    "refused",
    "rule",
    "run",
    "same",
    "say",
    "talk",
]

OpenStore: TypeAlias = Callable[[], SessionStore]
_T = TypeVar("_T")
_C = TypeVar("_C", bound="Contract")

ODD_TEXT = (
    "a\u2028b\u2029c\u0085d\r\ne\rf\x0b\x1b\x7f\ufeffg 😀 👩‍👩‍👧 é ｇ 'h' \"i\" \\j \\u0041 %s ? :k $1 {l} </script>"
)
_SHOWN = 300
"""Characters of a value that are shown."""


_GRACE = 5.0
"""Seconds in which what was given up may end, to tell where it waited."""
_FIXTURE = "The fixture `open_store` returns a function without arguments, which returns a store."
_FIXTURE_ADVICE = (
    "Write `return lambda: MyStore(place)`, or, for a store that keeps sessions in the process, `store = MyStore()` "
    "and `return lambda: store`; `yield` it instead if something must be closed after that. Neither is `async`."
)
_METHODS = ("load", "save", "add_messages", "delete")
_running: set[asyncio.Task[Any]] = set()
"""What `run` waits for, in whichever thread."""


class BrokenRuleError(AssertionError):
    """A rule is broken; the text says what was found."""


class _FixtureError(Exception):
    """The fixture does not open a store; the text says what it does."""


class Contract:
    """What the parts of the contract have in common."""

    limit: float = 60.0
    """Seconds that a test may take before it fails, so that a store which waits for ever does not stop all tests."""


def rule(advice: str) -> Callable[[Callable[[_C, OpenStore], Any]], Callable[[_C, OpenStore], None]]:
    """Make a test of the contract of a function, or of a coroutine function, that has the rule as its docstring.

    However the test fails, the failure says the rule, what was found, and the advice.
    """

    def mark(test: Callable[[_C, OpenStore], Any]) -> Callable[[_C, OpenStore], None]:
        @functools.wraps(test)
        def checked(self: _C, open_store: OpenStore) -> None:
            __tracebackhide__ = True
            broken, do, cause = test.__doc__, advice, None
            try:
                _check_fixture(open_store)
                _within(self.limit, functools.partial(_call, test, self, open_store))
            except BrokenRuleError as error:
                found, cause = str(error), error.__cause__
            except _FixtureError as error:
                broken, found, do = _FIXTURE, str(error), _FIXTURE_ADVICE
            except Exception as error:  # noqa: BLE001 - a store may raise anything
                found, cause = f"{type(error).__name__}: {error}", error
            else:
                return
            raise AssertionError(f"{broken}\nFound: {found}\nWhat to do: {do}") from cause

        return checked

    return mark


def _check_fixture(open_store: Any) -> None:
    if not callable(open_store):
        raise _FixtureError(f"it returns {_short(open_store)}, which is no function")
    with contextlib.suppress(ValueError):  # some builtins do not tell what they take
        signature = inspect.signature(open_store)
        try:
            signature.bind()
        except TypeError as error:
            raise _FixtureError(f"it returns {_short(open_store)}, which wants arguments ({error})") from None


def _call(test: Callable[[_C, OpenStore], Any], contract: _C, open_store: OpenStore) -> None:
    def opened() -> SessionStore:
        store: Any = open_store()
        if not any(hasattr(store, name) for name in _METHODS):
            if inspect.iscoroutine(store):
                store.close()  # or Python would complain, too, that nobody awaited it
            raise _FixtureError(f"the function returns {_short(store)}, which is no store")
        return cast("SessionStore", store)

    ended = test(contract, opened)
    if inspect.iscoroutine(ended):
        run(ended)


def _within(limit: float, test: Callable[[], None]) -> None:
    """Call a test in a thread, so that it can be given up; there it may also run where an event loop runs."""
    ended = _start(test)
    wait([ended], limit)
    if not ended.done():
        _give_up([ended])
        cause = ended.exception() if ended.done() else None
        raise BrokenRuleError(f"it has not ended after {limit:g} s, so some call waits for ever") from cause
    ended.result()


def _start(function: Callable[[], None]) -> Future[None]:
    """Call a function in a thread that does not keep the process alive when it hangs."""
    ended: Future[None] = Future()

    def work() -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - whoever waits raises it
            ended.set_exception(error)
        else:
            ended.set_result(None)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    return ended


def _give_up(pending: Sequence[Future[None]]) -> None:
    """Cancel what `run` waits for, so that it raises where it waits, and takes back what it has begun."""
    for task in tuple(_running):
        with contextlib.suppress(RuntimeError):  # its loop is closed by now
            task.get_loop().call_soon_threadsafe(task.cancel)
    wait(pending, _GRACE)


def run(waiting: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine on an event loop of its own and return its result; no loop may run in this thread."""

    async def known() -> _T:
        task = cast("asyncio.Task[_T]", asyncio.current_task())
        _running.add(task)
        try:
            return await waiting
        finally:
            _running.discard(task)

    return asyncio.run(known())


def expect(holds: object, found: str) -> None:
    """Raise `BrokenRuleError` unless something holds."""
    if not holds:
        raise BrokenRuleError(found)


async def refused(call: Awaitable[None], kind: type[Exception], what: str) -> None:
    """Raise `BrokenRuleError` unless a call raises an error of a kind."""
    try:
        await call
    except kind:
        return
    raise BrokenRuleError(f"{what} raised nothing")


def in_threads(functions: Sequence[Callable[[], None]]) -> None:
    """Call functions at the same time, each in a thread of its own, and raise what the first to fail has raised."""
    begun = threading.Barrier(len(functions))

    def work(function: Callable[[], None]) -> None:
        begun.wait()
        function()

    pending = [_start(functools.partial(work, function)) for function in functions]
    for ended in wait(pending, return_when=FIRST_EXCEPTION).done:
        if ended.exception() is not None:
            _give_up(pending)  # the others may wait for what the one that failed does not give back
            ended.result()


def same(found: Session | None, expected: Session, when: str = "") -> None:
    """Raise `BrokenRuleError` unless a loaded session is equal to what should be stored, and say where it differs."""
    if found != expected or type(found) is not type(expected):
        raise BrokenRuleError(f"{when}{when and ', '}{_difference(found, expected)}")


def _difference(found: Any, expected: Session) -> str:
    if not isinstance(found, Session):
        return f"load returned {_short(found)} instead of a Session"
    for index, (one, other) in enumerate(zip(found.messages, expected.messages, strict=False)):
        if one != other:
            return f"message {index} is {_short(one)}, it should be {_short(other)}"
    if len(found.messages) != len(expected.messages):
        return f"the stored session has {len(found.messages)} messages, it should have {len(expected.messages)}"
    unknown = {name: value for name, value in (expected.model_extra or {}).items() if name not in found.__dict__}
    for name in [*Session.model_fields, *unknown, *(found.model_extra or {})]:
        value, wanted = getattr(found, name, None), getattr(expected, name, None)
        if value != wanted:
            return f"its {name!r} is {_short(value)}, it should be {_short(wanted)}"
    return f"the stored session is {_short(found)}, it should be {_short(expected)}"


def _short(value: object) -> str:
    text = value.model_dump_json() if isinstance(value, Session | Run | Message) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]}…{text[-_SHOWN // 2 :]}"


class Watched(dict[str, Any]):
    """Metadata that other threads cannot read before the change has happened that must not reach them.

    A store that reads the session in a thread wins or loses a race against the caller who changes it. Here it loses.
    """

    patience = 1.0
    """Seconds until they give in: a store that blocks the event loop meanwhile would wait for ever."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.changed = threading.Event()
        self._home = threading.get_ident()

    def _wait(self) -> None:
        if threading.get_ident() != self._home:
            self.changed.wait(self.patience)

    def items(self) -> Any:
        """Return the items, which is how they are written as JSON."""
        self._wait()
        return super().items()

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        self._wait()
        return copy.deepcopy(dict(super().items()), memo)

    def __reduce__(self) -> tuple[Any, ...]:
        self._wait()
        return (dict, (dict(super().items()),))


async def during(call: Awaitable[None], session: Session, change: Callable[[], object]) -> None:
    """Change `session`, of which the metadata are `Watched`, once a call has given up control for the first time."""
    calling = asyncio.ensure_future(call)
    await asyncio.sleep(0)
    change()
    session.title = "changed too late"
    session.metadata["late"] = True
    session.runs.clear()
    if isinstance(session.metadata, Watched):
        session.metadata.changed.set()
    await calling


def talk(session_id: str | None = None, turns: int = 1) -> Session:
    """Return a session with some questions and answers."""
    session = Session(session_id)
    for number in range(turns):
        say(session, f"question {number}", f"answer {number}")
    return session


def say(session: Session, question: str, answer: str) -> list[Message]:
    """Do to a session what a run does, and return the new messages."""
    done = Run(session_id=session.id, model="m", usage=Usage(1, 10, 5), cost=0.5, stop_reason="completed")
    new: list[Message] = [UserMessage(question, run_id=done.id), AssistantMessage(answer, run_id=done.id)]
    session.messages.extend(new)
    session.runs.append(done)
    return new


def _messages() -> list[Message]:
    """Return a message of each kind, with parts of each kind."""
    return [
        UserMessage(
            [TextPart("How warm is it?"), ImagePart(b"\x89PNG\x00\xff", media_type="image/png")], metadata={"stars": 5}
        ),
        UserMessage(
            [FilePart("a.pdf", b"%PDF-1.7", media_type="application/pdf"), ImagePart(url="https://a.test/b.png")]
        ),
        AssistantMessage(
            [
                ReasoningPart("Hm.", provider_metadata={"signature": "EqQB", "encrypted": [1, None, {"a": True}]}),
                TextPart("I look."),
                ToolCall("call_1", "get_weather", '{"city": "Paris"}'),
                ToolCall("call_2", "get_weather", "{no JSON"),
            ],
            model="m-2026-01-01",
            finish_reason="tool_calls",
            duration=1.25,
            usage=Usage(1, 120, 30, 100, 20),
            cost=0.1 + 0.2,
            later_version=[1, {"x": None}],
        ),
        ToolMessage("call_2", "get_weather", "no JSON", "error", duration=0.5),
        ToolMessage("call_1", "get_weather", [TextPart("11 °C"), ImagePart(b"x", media_type="image/jpeg")]),
        AssistantMessage("", provider_metadata={"id": "resp_1"}),
        SummaryMessage("They spoke of the weather.", 4),
    ]


def everything() -> Session:
    """Return a session that has something in each field, with fields of a later version."""
    zone = timezone(timedelta(hours=5, minutes=30))
    runs = [
        Run(
            session_id="origin", model="m", started_at=datetime(2026, 1, 2, 3, 4, 5, 678901, UTC), usage=None, cost=None
        ),
        Run(  # type: ignore[call-arg]  # unknown fields are kept
            session_id="study-1",
            model="m",
            config="c1",
            duration=2.5,
            steps=2,
            usage=Usage(2, 10, 5),
            usage_complete=False,
            input_limit=8192,
            stop_reason="error",
            error=RunError(type="ModelError", message="the server is down"),
            warnings=("ended by length",),
            later_version="kept",
        ),
    ]
    session = Session(
        "study-1",
        title="Weather — déjà vu",
        metadata={
            "notes": ["a", {"b": [1, 2.5, True, None]}],
            "big": 2**53 + 1,
            "": "",
            "nested": {"deep": {"er": []}},
        },
        created_at=datetime(2026, 3, 4, 5, 6, 7, 890123, zone),
        parent=Parent(session_id="origin", message_count=2),
        configs={"c1": {"model": "m", "temperature": 0.1, "stop": ["\n"]}},
        later_version={"x": [1]},
    )
    session.messages.extend(_messages())
    session.runs.extend(runs)
    return session
