"""What every session store does, whatever it keeps its sessions in."""

import asyncio
import copy
import itertools
import threading
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import broken_transcripts, moderate, sessions

from cyclops_nb.errors import CyclopsError, InputError, SessionConflictError, SessionNotFoundError
from cyclops_nb.messages import AssistantMessage, ImagePart, TextPart, ToolCall, ToolMessage, UserMessage
from cyclops_nb.runs import Run
from cyclops_nb.session import Parent, Session, claim
from cyclops_nb.stores import FileSessionStore, InMemorySessionStore, SessionInfo, SessionStore
from cyclops_nb.stores.ids import MAX_ID_LENGTH
from cyclops_nb.usage import Usage

ODD_TEXT = "a\u2028b\u2029c\u0085d\x0be\x1cf\x1dg\x1eh\r\ni\rj\x00k\ufeffl😀"
BAD_IDS = [
    "",
    ".",
    "..",
    "../x",
    "/etc/x",
    "a/b",
    "a\\b",
    "C:foo",
    "a.b",
    "a b",
    "a\x00",
    "a\n",
    "\n",
    "ä",
    "１２",
    "a" * (MAX_ID_LENGTH + 1),
    "CON",
    "con",
    "nul",
    "Com1",
    "lpt9",
    None,
    5,
    b"a",
]
GOOD_IDS = ["a", "A", "0", "-", "_", "a" * MAX_ID_LENGTH, "3f9c-_X", "console", "com10", "con-1"]

few = settings(moderate, max_examples=20)  # each is tried on every store

pytestmark = pytest.mark.filterwarnings("error")


def make_file_store(folder):
    return FileSessionStore(folder / "sessions")


def make_memory_store(folder):
    return InMemorySessionStore()


MAKERS = [make_memory_store, make_file_store]


@pytest.fixture(params=MAKERS, ids=lambda make: make.__name__.removeprefix("make_"))
def store(request, tmp_path):
    return request.param(tmp_path)


@pytest.fixture(scope="class")
def fresh_stores(tmp_path_factory):
    """A function that makes a new, empty store of each kind: for properties, which try many sessions."""
    return lambda: [make(tmp_path_factory.mktemp("store")) for make in MAKERS]


def talk(session_id="study-1", turns=1):
    session = Session(session_id)
    for number in range(turns):
        say(session, f"question {number}", f"answer {number}")
    return session


def say(session, question, answer):
    """Do what a run does to a session, and return its messages."""
    run = Run(session_id=session.id, model="m", usage=Usage(1, 10, 5), cost=0.5, stop_reason="completed")
    new = [UserMessage(question, run_id=run.id), AssistantMessage(answer, run_id=run.id)]
    session.messages.extend(new)
    session.runs.append(run)
    return new


class TestProtocol:
    def test_is_a_store(self, store):
        """Each store of the library is a SessionStore."""
        assert isinstance(store, SessionStore)

    def test_own_class_is_a_store(self):
        """Any class with the four methods is a SessionStore, and one that lacks a method is none."""

        class Four:
            async def load(self, session_id): ...
            async def save(self, session): ...
            async def add_messages(self, session, messages): ...
            async def delete(self, session_id): ...

        assert isinstance(Four(), SessionStore)
        assert not isinstance(object(), SessionStore)


class TestIds:
    @pytest.mark.parametrize("session_id", BAD_IDS, ids=repr)
    def test_refused_everywhere(self, store, session_id):
        """An id that no file name can be made of is a ValueError in all methods."""
        session = Session("a")
        session.id = session_id
        for call in (
            lambda: store.load(session_id),
            lambda: store.save(session),
            lambda: store.add_messages(session, []),
            lambda: store.delete(session_id),
        ):
            with pytest.raises(ValueError, match="cannot keep a session under the id") as caught:
                asyncio.run(call())
            assert isinstance(caught.value, CyclopsError)
        assert asyncio.run(store.list()) == []

    @pytest.mark.parametrize("session_id", GOOD_IDS, ids=lambda text: text[:8])
    def test_accepted(self, store, session_id):
        """ASCII letters, digits, underscores and hyphens make an id."""
        asyncio.run(store.save(Session(session_id)))
        assert asyncio.run(store.load(session_id)).id == session_id

    def test_case_clash(self, store):
        """An id that differs from a stored one by case alone is refused, and the stored session is unharmed."""
        session = talk("Study")
        asyncio.run(store.save(session))
        with pytest.raises(InputError, match="differs by case"):
            asyncio.run(store.save(Session("sTudy")))
        assert asyncio.run(store.load("Study")) == session
        assert asyncio.run(store.load("sTudy")) is None

    def test_long_id_in_the_error(self, store):
        """The error about an absurdly long id is still short."""
        with pytest.raises(InputError) as caught:
            asyncio.run(store.load("x" * 10**6))
        assert len(str(caught.value)) < 400


class TestLoad:
    def test_unknown(self, store):
        """Loading what was never saved gives None."""
        assert asyncio.run(store.load("study-1")) is None

    def test_each_time_a_new_object(self, store):
        """Two loads give two equal sessions that share nothing that can change."""
        session = talk()
        session.metadata["notes"] = ["a"]
        asyncio.run(store.save(session))
        first, second = asyncio.run(store.load("study-1")), asyncio.run(store.load("study-1"))
        assert first == second == session
        first.messages.clear()
        first.runs.clear()
        first.metadata["notes"].append("b")
        assert second == session
        assert asyncio.run(store.load("study-1")) == session

    def test_not_busy(self, store):
        """A session that was saved while in a run is in no run when it is loaded."""
        session = talk()
        claim(session, "run-1")
        asyncio.run(store.save(session))
        assert not asyncio.run(store.load("study-1")).busy

    def test_tool_objects_stay_behind(self, store):
        """The object that a tool returned lives in memory only: a loaded result has none."""
        session = Session("study-1")
        session.messages.append(ToolMessage("call_1", "f", "text"))
        session.messages[0]._value.value = object()
        asyncio.run(store.save(session))
        assert asyncio.run(store.load("study-1")).messages[0].value is None


class TestSave:
    def test_replaces(self, store):
        """A save replaces all that was stored under the id."""
        session = talk(turns=3)
        asyncio.run(store.save(session))
        session.truncate(2)
        session.title = "Shorter"
        asyncio.run(store.save(session))
        assert asyncio.run(store.load("study-1")) == session

    def test_stores_a_copy(self, store):
        """What happens to the session after the save does not reach the store."""
        session = talk()
        session.metadata["notes"] = ["a"]
        before = copy.copy(session)
        asyncio.run(store.save(session))
        say(session, "more", "more")
        session.title = "Other"
        session.metadata["notes"].append("b")
        session.configs["c1"] = {"model": "m"}
        assert asyncio.run(store.load("study-1")) == before

    def test_change_while_it_is_saved(self, store):
        """What is stored is the session as it was when save was called, not when the store got to it."""
        session = talk(turns=200)
        before = copy.copy(session)

        async def main():
            saving = asyncio.ensure_future(store.save(session))
            await asyncio.sleep(0)
            session.messages.clear()
            session.metadata["late"] = True
            await saving

        asyncio.run(main())
        assert asyncio.run(store.load("study-1")) == before

    def test_empty(self, store):
        """A session without messages can be saved."""
        session = Session("study-1")
        asyncio.run(store.save(session))
        assert asyncio.run(store.load("study-1")) == session

    def test_fork(self, store):
        """A fork is stored beside its origin, with its parent and the runs it inherited."""
        session = talk(turns=2)
        fork = session.fork(at=2)
        asyncio.run(store.save(session))
        asyncio.run(store.save(fork))
        loaded = asyncio.run(store.load(fork.id))
        assert loaded == fork
        assert (loaded.parent, loaded.own_usage) == (Parent(session_id="study-1", message_count=2), Usage())

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("metadata", {"a": {1, 2}}),
            ("metadata", {"lock": threading.Lock()}),
            ("metadata", {"deep": [[object]]}),
            ("messages", [{"role": "user", "content": "hello"}]),
            ("messages", ["hello"]),
            ("runs", [None]),
            ("runs", None),
            ("messages", [None]),
            ("messages", None),
            ("configs", {"c1": None}),
            ("configs", None),
            ("metadata", None),
            ("metadata", ["a"]),
            ("created_at", None),
            ("created_at", datetime(2026, 1, 1)),
            ("parent", "origin"),
            ("version", 2),
        ],
    )
    def test_what_cannot_come_back_is_refused(self, store, field, value):
        """What could not be loaded again is refused by an error that names the session, and nothing is changed."""
        session = talk()
        asyncio.run(store.save(session))
        before = copy.copy(session)
        setattr(session, field, value)
        with pytest.raises(InputError, match=r"'study-1' cannot be stored: .+"):
            asyncio.run(store.save(session))
        assert asyncio.run(store.load("study-1")) == before

    @pytest.mark.parametrize("depth", [150, 199, 220])
    def test_deep_metadata(self, store, depth):
        """Metadata that is nested deeper than fast JSON readers go comes back."""
        session = Session("study-1")
        inner = session.metadata
        for _ in range(depth):
            inner["k"] = inner = {}
        asyncio.run(store.save(session))
        assert asyncio.run(store.load("study-1")) == session

    def test_too_deep_metadata(self, store):
        """Metadata that is nested too deep for JSON is refused."""
        session = Session("study-1")
        inner = session.metadata
        for _ in range(5000):
            inner["k"] = inner = {}
        with pytest.raises(InputError):
            asyncio.run(store.save(session))


class TestAddMessages:
    def test_adds(self, store):
        """New messages come after the stored ones, and the usage of their run is stored."""
        session = talk()
        asyncio.run(store.save(session))
        new = say(session, "and?", "so")
        asyncio.run(store.add_messages(session, new))
        loaded = asyncio.run(store.load("study-1"))
        assert loaded == session
        assert (loaded.usage, loaded.cost) == (Usage(2, 20, 10), 1.0)

    def test_never_saved(self, store):
        """Adding to a session that was never saved is an error that says what to do."""
        session = talk()
        with pytest.raises(SessionNotFoundError, match="save it first"):
            asyncio.run(store.add_messages(session, session.messages))
        assert asyncio.run(store.load("study-1")) is None

    def test_after_delete(self, store):
        """Adding to a session that was deleted is the same error."""
        session = talk()
        asyncio.run(store.save(session))
        asyncio.run(store.delete("study-1"))
        with pytest.raises(SessionNotFoundError):
            asyncio.run(store.add_messages(session, session.messages))

    def test_starts_where_the_store_stands(self, store):
        """The session's own list of messages says nothing about where the new ones go."""
        session = talk(turns=2)
        stored = list(session.messages)
        asyncio.run(store.save(session))
        new = [UserMessage("new")]
        session.messages.clear()
        asyncio.run(store.add_messages(session, new))
        assert asyncio.run(store.load("study-1")).messages == stored + new
        session.messages.extend(stored * 3)
        asyncio.run(store.add_messages(session, new))
        assert asyncio.run(store.load("study-1")).messages == stored + new + new

    def test_run_record_alone(self, store):
        """With no new messages, the record of the run is still stored, in place of the one it had in progress."""
        session = talk(turns=2)
        running = session.runs[0].model_copy(update={"stop_reason": None, "usage": Usage()})
        ended = session.runs[0]
        session.runs[0] = running
        asyncio.run(store.save(session))
        session.runs[0] = ended
        asyncio.run(store.add_messages(session, []))
        assert asyncio.run(store.load("study-1")) == session

    def test_everything_else_that_changed(self, store):
        """Title, metadata, parent, settings and unknown fields are stored as they are when messages are added."""
        session = talk()
        session.metadata["a"] = 1
        asyncio.run(store.save(session))
        session.title = "Later"
        session.metadata["b"] = [2]
        session.parent = Parent(session_id="origin", message_count=1)
        session.configs["c1"] = {"model": "m"}
        session.__pydantic_extra__["future"] = {"x": 1}
        asyncio.run(store.add_messages(session, []))
        assert asyncio.run(store.load("study-1")) == session
        session.title = None
        session.metadata.clear()
        session.parent = None
        session.configs["c1"] = {"model": "other"}
        del session.__pydantic_extra__["future"]
        asyncio.run(store.add_messages(session, []))
        assert asyncio.run(store.load("study-1")) == session

    def test_many_steps(self, store):
        """A run of many steps, whose record changes with each, is stored whole, with one record of it."""
        session = talk()
        asyncio.run(store.save(session))
        run = Run(session_id="study-1", model="m")
        session.runs.append(run)
        for step in range(1, 20):
            new = [
                AssistantMessage(ToolCall("call_1", "f")),
                ToolMessage("call_1", "f", ODD_TEXT),
            ]
            session.messages.extend(new)
            session.runs[-1] = run.model_copy(update={"steps": step, "usage": Usage(step, 10 * step)})
            asyncio.run(store.add_messages(session, new))
        loaded = asyncio.run(store.load("study-1"))
        assert loaded == session
        assert len(loaded.runs) == 2

    def test_save_in_between(self, store):
        """After a save, additions go on from what was saved."""
        session = talk(turns=3)
        asyncio.run(store.save(session))
        asyncio.run(store.add_messages(session, say(session, "q", "a")))
        session.truncate(2)
        asyncio.run(store.save(session))
        asyncio.run(store.add_messages(session, say(session, "q", "a")))
        assert asyncio.run(store.load("study-1")) == session

    def test_another_conversation(self, store):
        """Messages of a new session that only has the same id are not added to the stored conversation."""
        session = talk()
        asyncio.run(store.save(session))
        with pytest.raises(SessionConflictError, match="another conversation"):
            asyncio.run(store.add_messages(Session("study-1"), [UserMessage("mixed")]))
        assert asyncio.run(store.load("study-1")) == session

    def test_what_is_no_message(self, store):
        """What is no message is refused, nothing is added, and the next addition works."""
        session = talk()
        asyncio.run(store.save(session))
        with pytest.raises(InputError, match="'study-1' cannot be stored"):
            asyncio.run(store.add_messages(session, [{"role": "user", "content": "x"}]))
        assert asyncio.run(store.load("study-1")) == session
        asyncio.run(store.add_messages(session, say(session, "q", "a")))
        assert asyncio.run(store.load("study-1")) == session

    def test_stores_a_copy(self, store):
        """What happens to the list of messages after the call does not reach the store."""
        session = talk()
        asyncio.run(store.save(session))
        new = say(session, "q", "a")
        expected = copy.copy(session)

        async def main():
            adding = asyncio.ensure_future(store.add_messages(session, new))
            await asyncio.sleep(0)
            new.clear()
            session.metadata["late"] = True
            session.runs.clear()
            await adding

        asyncio.run(main())
        assert asyncio.run(store.load("study-1")) == expected


class TestDelete:
    def test_removes(self, store):
        """A deleted session is gone from load and list."""
        asyncio.run(store.save(talk()))
        asyncio.run(store.delete("study-1"))
        assert asyncio.run(store.load("study-1")) is None
        assert asyncio.run(store.list()) == []

    def test_unknown(self, store):
        """Deleting what is not there does nothing."""
        asyncio.run(store.save(talk()))
        asyncio.run(store.delete("study-2"))
        asyncio.run(store.delete("study-2"))
        assert len(asyncio.run(store.list())) == 1

    def test_save_again(self, store):
        """A session can be saved again after it was deleted, and so can another under its id."""
        session = talk()
        for again in (session, session, talk()):
            asyncio.run(store.save(again))
            asyncio.run(store.delete("study-1"))
        asyncio.run(store.save(session))
        assert asyncio.run(store.load("study-1")) == session


class TestList:
    def test_empty(self, store):
        """An empty store lists nothing."""
        assert asyncio.run(store.list()) == []

    def test_facts(self, store):
        """The list tells id, title, counts, usage, cost and parent, after a save and after additions."""
        session = talk(turns=2)
        asyncio.run(store.save(session))
        asyncio.run(store.add_messages(session, say(session, "q", "a")))
        session.parent = Parent(session_id="origin", message_count=1)
        asyncio.run(store.add_messages(session, []))
        (info,) = asyncio.run(store.list())
        assert isinstance(info, SessionInfo)
        facts = info.model_dump(exclude={"updated_at", "path"})
        assert facts == {
            "id": "study-1",
            "title": "question 0",
            "message_count": 6,
            "run_count": 3,
            "usage": Usage(3, 30, 15).model_dump(),
            "cost": 1.5,
            "parent": {"session_id": "origin", "message_count": 1},
            "backup": False,
        }
        assert info.updated_at.tzinfo is not None

    def test_unknown_usage(self, store):
        """Usage and cost are None in the list as they are in the session."""
        session = talk()
        session.runs.append(Run(session_id="study-1", model="m", usage=None, cost=None))
        asyncio.run(store.save(session))
        (info,) = asyncio.run(store.list())
        assert (info.usage, info.cost) == (None, None)

    def test_latest_first(self, store):
        """The session that was stored last stands first."""
        for session_id in ("a", "b", "c"):
            asyncio.run(store.save(talk(session_id)))
        asyncio.run(store.add_messages(asyncio.run(store.load("b")), [UserMessage("x")]))
        assert [info.id for info in asyncio.run(store.list())] == ["b", "c", "a"]

    @pytest.mark.parametrize(
        ("title", "questions", "expected"),
        [
            ("Mine", ["question"], "Mine"),
            (None, ["two\n lines"], "two lines"),
            (None, ["x" * 200], "x" * 79 + "…"),
            (None, ["  ", "second"], "second"),
            (None, [], ""),
            ("", ["question"], "question"),
            (None, ["\u2028" + "a\x85b"], "a b"),
        ],
    )
    def test_title(self, store, title, questions, expected):
        """The title is the session's, or else the first question on one line, cut."""
        session = Session("study-1", title=title)
        session.messages.append(AssistantMessage("Hello!"))
        session.messages.append(UserMessage(ImagePart(b"x", media_type="image/png")))
        session.messages.extend(UserMessage(question) for question in questions)
        asyncio.run(store.save(session))
        (info,) = asyncio.run(store.list())
        assert info.title == expected

    def test_question_that_was_added(self, store):
        """The first question may stand in an addition."""
        session = Session("study-1")
        asyncio.run(store.save(session))
        asyncio.run(store.add_messages(session, [UserMessage([TextPart("a"), TextPart("b")])]))
        (info,) = asyncio.run(store.list())
        assert info.title == "ab"

    def test_nothing_else_beside_it(self, store):
        """Listing backups of a store that has none shows the sessions."""
        asyncio.run(store.save(talk()))
        assert asyncio.run(store.list(backups=True)) == asyncio.run(store.list())


class TestConcurrency:
    def test_calls_keep_their_order(self, store):
        """Calls for one session that overlap are done in the order in which they were made."""
        session = Session("study-1")

        async def main():
            calls = [store.save(session)]
            for number in range(30):
                if number == 15:
                    session.truncate(-3)
                    calls.append(store.save(copy.copy(session)))
                new = [UserMessage(f"{number}")]
                session.messages.extend(new)
                calls.append(store.add_messages(session, new))
            await asyncio.gather(*calls)

        asyncio.run(main())
        assert asyncio.run(store.load("study-1")).messages == session.messages

    def test_many_threads_and_loops(self, store):
        """Threads with loops of their own can add to one session through one store; no message is lost or mixed."""
        session = Session("study-1")
        asyncio.run(store.save(session))
        failed = []

        def work(name):
            async def main():
                for number in range(8):
                    await store.add_messages(session, [UserMessage(f"{name} {number}")])

            try:
                asyncio.run(main())
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert failed == []
        texts = [message.text for message in asyncio.run(store.load("study-1")).messages]
        for name in "abcd":
            assert [text for text in texts if text[0] == name] == [f"{name} {number}" for number in range(8)]

    def test_many_sessions_at_once(self, store):
        """Different sessions can be saved and loaded at the same time."""
        many = [talk(f"s{number}") for number in range(20)]

        async def main():
            await asyncio.gather(*(store.save(session) for session in many))
            return await asyncio.gather(*(store.load(session.id) for session in many))

        assert asyncio.run(main()) == many


class TestAnySession:
    @given(session=sessions(broken_transcripts))
    @few
    def test_survives(self, fresh_stores, session):
        """Any session comes back equal, also with an invalid transcript and with fields of a later version."""

        async def main(store):
            await store.save(session)
            return await store.load(session.id), await store.list()

        for store in fresh_stores():
            loaded, (info,) = asyncio.run(main(store))
            assert loaded == session
            assert loaded.model_dump_json() == session.model_dump_json()
            assert (info.message_count, info.run_count) == (len(session.messages), len(session.runs))
            assert (info.usage, info.cost) == (session.usage, session.cost)

    @given(session=sessions(broken_transcripts), later=sessions(), cuts=st.lists(st.integers(0, 9), max_size=4))
    @few
    def test_survives_in_pieces(self, fresh_stores, session, later, cuts):
        """Any session that is stored bit by bit, with anything of it changing in between, comes back equal."""
        whole = [*session.messages, *later.messages]
        places = [*sorted(min(cut, len(whole)) for cut in cuts), len(whole)]

        async def main(store, session):
            session.messages[:] = whole[: places[0]]
            await store.save(session)
            for number, (start, end) in enumerate(itertools.pairwise(places)):
                session.messages.extend(whole[start:end])
                session.title = (later.title, None, ODD_TEXT)[number % 3]
                session.metadata = later.metadata
                session.configs.update(later.configs)
                if session.runs:
                    place = number % len(session.runs)
                    session.runs[place] = session.runs[place].model_copy(update={"steps": number})
                session.runs.extend(later.runs[number : number + 1])
                await store.add_messages(session, whole[start:end])
            return await store.load(session.id), session

        for store in fresh_stores():
            loaded, expected = asyncio.run(main(store, copy.copy(session)))
            assert loaded == expected
            assert loaded.messages == whole

    @given(text=st.text(st.characters(codec="utf-8"), min_size=1) | st.just(ODD_TEXT))
    @few
    def test_any_text(self, fresh_stores, text):
        """Any character stays what it is, in texts, titles, metadata and names, saved or added."""

        async def main(store):
            session = Session("study-1", title=text, metadata={text: [text]})
            session.messages.append(UserMessage(text))
            await store.save(session)
            session.messages.append(ToolMessage(text, text, text, provider_metadata={text: text}))
            await store.add_messages(session, session.messages[-1:])
            return await store.load("study-1"), session

        for store in fresh_stores():
            loaded, session = asyncio.run(main(store))
            assert loaded == session
