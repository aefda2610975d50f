"""The tests that a store of one's own must pass: all that a run and its user rely on.

They need pytest, for the fixture, and nothing else; this module imports not even that.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import inspect
import random

from cyclops_nb.errors import SessionNotFoundError
from cyclops_nb.messages import AssistantMessage, ImagePart, Message, ToolCall, ToolMessage, UserMessage
from cyclops_nb.session import Parent, Session
from cyclops_nb.stores.base import SessionStore
from cyclops_nb.testing.store_calls import CallsContract
from cyclops_nb.testing.store_rules import (
    ODD_TEXT,
    OpenStore,
    Watched,
    during,
    everything,
    expect,
    refused,
    rule,
    same,
    say,
    talk,
)
from cyclops_nb.testing.store_runs import RunsContract
from cyclops_nb.usage import Usage

__all__ = ["StoreContract"]


class StoreContract(CallsContract, RunsContract):
    """Tests of a store; subclass it in a test file and say in a fixture how the store is opened.

    The fixture ``open_store`` returns a function without arguments. Called for the first time it opens a store on an
    empty place; called again it opens another store object on the same place, as the next process would. (A store that
    keeps sessions in the process returns the same object again.)

    Each test runs in a thread of its own, and fails if it takes longer than ``limit`` seconds: 60, unless a subclass
    says otherwise.

    Examples
    --------
    >>> import pytest
    >>> class TestFileSessionStore(StoreContract):
    ...     @pytest.fixture
    ...     def open_store(self, tmp_path):
    ...         return lambda: FileSessionStore(tmp_path)
    """

    @rule("Write `async def load`, `save`, `add_messages` and `delete`; there is nothing to inherit.")
    async def test_it_is_a_session_store(self, open_store: OpenStore) -> None:
        """A store has the four methods, and they are coroutine functions."""
        store = open_store()
        expect(isinstance(store, SessionStore), f"{type(store).__name__} lacks one of the four methods")
        for name in ("load", "save", "add_messages", "delete"):
            expect(inspect.iscoroutinefunction(getattr(store, name)), f"`{name}` is no `async def`")

    @rule("Return None where nothing stands under the id, and raise nothing: `await store.load(id) or Session(id)`.")
    async def test_an_unknown_id_loads_as_none(self, open_store: OpenStore) -> None:
        """`load` of an id that was never saved returns None."""
        store = open_store()
        for _ in range(2):
            found = await store.load("unknown")
            expect(found is None, f"load returned {found!r}")

    @rule(
        "Store `session.model_dump_json()` whole (leave out fields only with `exclude=`), and restore it with "
        "`Session.model_validate` or `Session.model_validate_json`; columns of your own lose what you do not know of."
    )
    async def test_everything_comes_back(self, open_store: OpenStore) -> None:
        """A loaded session is equal to the saved one in all fields, those of a later version included."""
        store, session = open_store(), everything()
        await store.save(copy.copy(session))
        same(await store.load(session.id), session)
        last = session.messages[-3:]
        await store.add_messages(session, last)
        session.messages.extend(last)
        same(await store.load(session.id), session, "after add_messages")

    @rule("Store the session itself, also where there is no message that it could hang on.")
    async def test_an_empty_session_comes_back(self, open_store: OpenStore) -> None:
        """A session without messages and runs can be saved, and added to."""
        store, session = open_store(), Session("study-1")
        await store.save(session)
        same(await store.load("study-1"), session)
        await store.add_messages(session, [])
        same(await store.load("study-1"), session, "after add_messages with no messages")

    @rule("Build a new Session from stored data at each `load`; keep and return no Session object.")
    async def test_each_load_gives_a_session_of_its_own(self, open_store: OpenStore) -> None:
        """What happens to a loaded session reaches neither the store nor another loaded one."""
        store, session = open_store(), talk("study-1")
        session.metadata["notes"] = ["a"]
        await store.save(session)
        first, second = await store.load("study-1"), await store.load("study-1")
        same(first, session)
        if first is not None:
            expect(not first.busy, "a loaded session says that it is in a run")
            first.messages.clear()
            first.runs.clear()
            first.metadata["notes"].append("b")
        same(second, session, "after a session that was loaded before was changed")
        same(await store.load("study-1"), session, "after a loaded session was changed")

    @rule("Remove all that is stored under the id and store the new session, in one transaction.")
    async def test_save_replaces_what_stood_there(self, open_store: OpenStore) -> None:
        """`save` puts the session in place of the stored one: nothing of that is left."""
        store, session = open_store(), talk("study-1", turns=3)
        session.title = "Long"
        session.metadata["a"] = 1
        session.configs["c1"] = {"model": "m"}
        await store.save(session)
        await store.add_messages(session, say(session, "and?", "so"))
        session.truncate(2)
        del session.runs[1:]
        session.title = None
        session.metadata.clear()
        session.configs.clear()
        await store.save(session)
        same(await store.load("study-1"), session)
        await store.add_messages(session, say(session, "q", "a"))
        same(await store.load("study-1"), session, "after add_messages")

    @rule("Store data (JSON, or `copy.copy(session)`), never the Session object or one of its lists.")
    async def test_later_changes_do_not_reach_the_store(self, open_store: OpenStore) -> None:
        """What happens to a session after it was stored does not reach the store."""
        store, session = open_store(), talk("study-1")
        session.metadata["notes"] = ["a"]
        await store.save(session)
        new = say(session, "q", "a")
        await store.add_messages(session, new)
        before = copy.copy(session)
        new.clear()
        say(session, "more", "more")
        session.title = "Other"
        session.metadata["notes"].append("b")
        session.configs["c1"] = {"model": "m"}
        same(await store.load("study-1"), before)

    @rule("Take what you store (`copy.copy(session)`, or JSON) before the first `await` and before any thread starts.")
    async def test_save_stores_the_session_as_it_was_at_the_call(self, open_store: OpenStore) -> None:
        """What changes while `save` is under way is not stored: a slow store never sees later messages."""
        store, session = open_store(), talk("study-1", turns=3)
        session.metadata = Watched({"a": 1})
        before = copy.copy(session)
        await during(store.save(session), session, session.messages.clear)
        same(await store.load("study-1"), before)

    @rule("Take `list(messages)` and `copy.copy(session)`, or JSON, before the first `await` and before any thread.")
    async def test_add_messages_stores_what_it_was_given_at_the_call(self, open_store: OpenStore) -> None:
        """What changes while `add_messages` is under way is not stored."""
        store, session = open_store(), talk("study-1", turns=3)
        await store.save(session)
        new = say(session, "q", "a")
        session.metadata = Watched({"a": 1})
        before = copy.copy(session)
        await during(store.add_messages(session, new), session, lambda: new.append(UserMessage("too late")))
        same(await store.load("study-1"), before)

    @rule("Append the messages, in their order, to those that are stored.")
    async def test_messages_are_added_at_the_end(self, open_store: OpenStore) -> None:
        """`add_messages` puts new messages after the stored ones; any sequence of messages will do."""
        store, session = open_store(), talk("study-1")
        await store.save(session)
        for number in range(4):
            new = [*say(session, f"q{number}", f"a{number}"), *say(session, f"r{number}", f"b{number}")]
            await store.add_messages(session, new if number % 2 else tuple(new))
        same(await store.load("study-1"), session)

    @rule("Count what is stored; `session.messages` says nothing of where the new messages go.")
    async def test_messages_are_added_where_the_store_stands(self, open_store: OpenStore) -> None:
        """`add_messages` adds what it is given to what is stored, whatever the session's own list holds by now."""
        store, session = open_store(), talk("study-1", turns=2)
        await store.save(session)
        expected = copy.copy(session)
        for kept in (0, 3):
            new = [UserMessage(f"after {kept}")]
            del session.messages[kept:]
            await store.add_messages(session, new)
            expected.messages.extend(new)
            same(await store.load("study-1"), expected, f"with {kept} messages in session.messages")
            session.messages[:] = [*expected.messages, *expected.messages]

    @rule("Store all of the session but its messages at each `add_messages`: `session.model_dump_json(exclude=...)`.")
    async def test_add_messages_stores_all_else_of_the_session(self, open_store: OpenStore) -> None:
        """`add_messages` stores runs, usage, settings, title, metadata, parent and unknown fields as they are."""
        store = open_store()
        session = Session("study-1", later_version={"x": 1}, metadata={"a": 1})
        say(session, "q", "a")
        await store.save(session)
        session.title = "Later"
        session.metadata["b"] = [2]
        session.parent = Parent(session_id="origin", message_count=1)
        session.configs["c1"] = {"model": "m"}
        await store.add_messages(session, say(session, "and?", "so"))
        loaded = await store.load("study-1")
        same(loaded, session)
        expect(loaded is not None and loaded.usage == Usage(2, 20, 10), "the stored usage is not that of both runs")
        session.title = None
        session.metadata.clear()
        session.parent = None
        session.configs["c1"] = {"model": "other"}
        await store.add_messages(session, [])
        same(await store.load("study-1"), session, "after title, metadata and parent were taken away")

    @rule("Store the session's runs also when `messages` is empty; a run may have stood there before, in progress.")
    async def test_without_messages_the_runs_are_stored(self, open_store: OpenStore) -> None:
        """`add_messages(session, [])` stores the record of a run that has ended, in place of the one in progress."""
        store, session = open_store(), talk("study-1")
        ended = session.runs.pop()
        session.runs.append(ended.model_copy(update={"stop_reason": None, "usage": Usage(), "cost": 0.0}))
        await store.save(session)
        session.runs[-1] = ended
        await store.add_messages(session, [])
        same(await store.load("study-1"), session)

    @rule("Raise SessionNotFoundError where nothing stands under the id, and write nothing.")
    async def test_nothing_is_added_to_what_was_never_saved(self, open_store: OpenStore) -> None:
        """`add_messages` to an id that was never saved, or was deleted, raises SessionNotFoundError."""
        store, session = open_store(), talk("study-1")
        for when in ("never saved", "deleted"):
            for messages in (session.messages, []):
                adding = store.add_messages(session, messages)
                await refused(adding, SessionNotFoundError, f"add_messages to what was {when}")
                expect(await store.load("study-1") is None, "after SessionNotFoundError something is stored")
            await store.save(session)
            await store.delete("study-1")

    @rule("Delete the messages as well as the session, in one transaction.")
    async def test_delete_removes_all_of_a_session(self, open_store: OpenStore) -> None:
        """After `delete`, `load` returns None, and nothing comes back when the id is saved again."""
        store = open_store()
        for session in (talk("study-1", turns=3), talk("study-1")):
            await store.save(session)
            await store.add_messages(session, say(session, "q", "a"))
            same(await store.load("study-1"), session)
            await store.delete("study-1")
            expect(await store.load("study-1") is None, "the session is still there after delete")

    @rule("Do nothing where nothing stands under the id.")
    async def test_delete_of_an_unknown_id_does_nothing(self, open_store: OpenStore) -> None:
        """`delete` of what is not there raises nothing and removes nothing else."""
        store, session = open_store(), talk("study-1")
        await store.save(session)
        for session_id in ("study-2", "study-2", "study", "study-11"):
            await store.delete(session_id)
        same(await store.load("study-1"), session)

    @rule("Keep ids as text of 128 letters, where upper and lower case differ, and compare them with `=`, not `LIKE`.")
    async def test_ids_are_kept_apart(self, open_store: OpenStore) -> None:
        """Ids of 1 to 128 ASCII letters, digits, `_` and `-` can be taken; those that are alike are different."""
        store = open_store()
        ids = ["a", "0", "00", "-", "_", "a-b", "a_b", "axb", "a-", "ab", "1e3", "1000", "null", "x" * 127, "x" * 128]
        many = [talk(session_id) for session_id in [*ids, Session().id]]
        for session in many:
            await store.save(session)
        for session in many:
            await store.add_messages(session, say(session, "q", f"this is {session.id}"))
        await store.delete("a_b")
        for session in many:
            if session.id == "a_b":
                expect(await store.load("a_b") is None, "'a_b' is still there after delete")
            else:
                same(await store.load(session.id), session, f"under the id {session.id[:10]!r}")

    @rule("Take such an id and keep it as it is, or raise a ValueError before anything is read or written.")
    async def test_odd_ids_do_no_harm(self, open_store: OpenStore) -> None:
        """An id of any other kind, or one that differs by case alone, is kept exactly or is a ValueError."""
        store, session = open_store(), talk("study-1")
        await store.save(session)
        odd = ["Study-1", "../study-1", "./study-1", "study-1/", "a/b", "x' OR '1'='1", "%", "study-1 ", "ä", "x\x00y"]
        for session_id in odd:
            other = talk(session_id)
            try:
                await store.save(other)
                await store.add_messages(other, say(other, "q", "a"))
            except ValueError:
                with contextlib.suppress(ValueError):
                    expect(await store.load(session_id) is None, f"{session_id!r} was refused, and loads all the same")
            else:
                same(await store.load(session_id), other, f"under the id {session_id!r}")
            with contextlib.suppress(ValueError):
                await store.delete(session_id)
            same(await store.load("study-1"), session, f"after {session_id!r} was saved and deleted")

    @rule("Store text as UTF-8 and change nothing in it: no stripping, no other line ends, no normal form, no markup.")
    async def test_odd_text_comes_back(self, open_store: OpenStore) -> None:
        """Any character stays what it is, in messages, names, titles and metadata."""
        store = open_store()
        session = Session("study-1", title=ODD_TEXT, metadata={ODD_TEXT: [ODD_TEXT], "\ud83d\ude00": 1})
        session.messages.append(UserMessage(ODD_TEXT))
        await store.save(session)
        new: list[Message] = [
            AssistantMessage([ToolCall("1", ODD_TEXT, ODD_TEXT)]),
            ToolMessage("1", ODD_TEXT, ODD_TEXT),
        ]
        session.messages.extend(new)
        await store.add_messages(session, new)
        expected = Session.model_validate_json(session.model_dump_json())  # the halves of a pair in metadata are joined
        same(await store.load("study-1"), expected)

    @rule("Store JSON text, which holds NUL as an escape; a database's own JSON type may refuse it: use text then.")
    async def test_nul_comes_back(self, open_store: OpenStore) -> None:
        """The character NUL, which tools and files bring in, stays what it is."""
        store, session = open_store(), Session("study-1", title="a\x00b", metadata={"\x00": "\x00"})
        await store.save(session)
        await store.add_messages(session, say(session, "\x00", "a\x00"))
        same(await store.load("study-1"), session)

    @rule("Use a column without a limit (MySQL: LONGTEXT), or a place for large objects.")
    async def test_large_messages_come_back(self, open_store: OpenStore) -> None:
        """A message of a megabyte comes back whole, as text and as an image."""
        store, session = open_store(), talk("study-1")
        data = random.Random(0).randbytes(1_000_000)  # noqa: S311 - an image that no store can make smaller
        session.messages.append(UserMessage("😀" * 250_000))
        await store.save(session)
        new = [UserMessage(ImagePart(data, media_type="image/png"))]
        session.messages.extend(new)
        await store.add_messages(session, new)
        loaded = await store.load("study-1")
        same(loaded, session)
        part = loaded and loaded.messages[-1].content[0]
        kept = isinstance(part, ImagePart) and base64.b64decode(part.data or "") == data
        expect(kept, "the image's data are others")

    @rule("Order by a number, not by a text or a time, and mind how many values one statement may have.")
    async def test_long_sessions_keep_their_order(self, open_store: OpenStore) -> None:
        """Thousands of messages, saved at once or added one by one, come back in their order."""
        store, session = open_store(), Session("study-1")
        session.messages.extend(UserMessage(f"{number}") for number in range(3000))
        await store.save(session)
        for number in range(30):
            new = [UserMessage(f"added {number}, {place}") for place in range(1 + number % 3)]
            session.messages.extend(new)
            await store.add_messages(session, new)
        same(await store.load("study-1"), session)

    @rule(
        "Find messages by the session they are in and their place; no id in a message is a key: forks share messages."
    )
    async def test_ids_in_messages_may_repeat(self, open_store: OpenStore) -> None:
        """The same message may stand in several sessions, and twice in one; deleting a session harms no other."""
        store, session = open_store(), talk("study-1", turns=2)
        fork, other = session.fork(), session.fork(at=2)
        for each in (session, fork, other):
            await store.save(each)
        await store.add_messages(fork, session.messages[:2])
        fork.messages.extend(session.messages[:2])
        await store.delete(other.id)
        same(await store.load("study-1"), session)
        same(await store.load(fork.id), fork, "in the fork")
