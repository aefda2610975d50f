"""The contract of stores: the library's own stores and the documentation's example keep it, and broken ones do not."""

import re
from pathlib import Path

import pytest

from cyclops_nb import FileSessionStore, InMemorySessionStore, Session
from cyclops_nb.testing.store_contract import StoreContract

PAGE = Path(__file__).parents[1] / "docs" / "stores.md"


def example():
    """Return the store that the documentation has as its example."""
    code = re.search(r"```python\n(import asyncio.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[1]
    names = {}
    exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 - it is ours
    return names["SQLiteSessionStore"]


class TestInMemorySessionStore(StoreContract):
    @pytest.fixture
    def open_store(self):
        store = InMemorySessionStore()
        return lambda: store


class TestFileSessionStore(StoreContract):
    @pytest.fixture
    def open_store(self, tmp_path):
        return lambda: FileSessionStore(tmp_path)


class TestTheExample(StoreContract):
    @pytest.fixture
    def open_store(self, tmp_path):
        store = example()
        return lambda: store(tmp_path / "sessions.db")


class Broken(InMemorySessionStore):
    """A store that works, for others to break."""


class LoadsNew(Broken):
    async def load(self, session_id):
        return await super().load(session_id) or Session(session_id)


class KeepsObjects(Broken):
    def __init__(self):
        super().__init__()
        self.kept = {}

    async def save(self, session):
        await super().save(session)
        self.kept[session.id] = session

    async def load(self, session_id):
        return self.kept.get(session_id) or await super().load(session_id)


class CachesLoads(Broken):
    def __init__(self):
        super().__init__()
        self.loaded = {}

    async def load(self, session_id):
        if session_id not in self.loaded:
            self.loaded[session_id] = await super().load(session_id)
        return self.loaded[session_id]


class Prepends(Broken):
    async def add_messages(self, session, messages):
        await super().add_messages(session, messages[::-1])


class IgnoresEmpty(Broken):
    async def add_messages(self, session, messages):
        if messages:
            await super().add_messages(session, messages)


class SavesUnknown(Broken):
    async def add_messages(self, session, messages):
        if await self.load(session.id) is None:
            await self.save(session)
        else:
            await super().add_messages(session, messages)


class NeverDeletes(Broken):
    async def delete(self, session_id):
        pass


class DeleteNeedsOne(Broken):
    async def delete(self, session_id):
        if await self.load(session_id) is None:
            raise KeyError(session_id)
        await super().delete(session_id)


class Strips(Broken):
    async def load(self, session_id):
        session = await super().load(session_id)
        if session is not None and session.title:
            session.title = session.title.replace("\r\n", "\n")
        return session


class AddsBySession(Broken):
    async def add_messages(self, session, messages):
        await self.save(session)


class Cuts(Broken):
    async def load(self, session_id):
        session = await super().load(session_id)
        if session is not None:
            del session.messages[1000:]
        return session


class SyncLoad(Broken):
    def load(self, session_id):
        return super().load(session_id)


@pytest.mark.parametrize(
    ("store", "test"),
    [
        (LoadsNew, "test_an_unknown_id_loads_as_none"),
        (CachesLoads, "test_each_load_gives_a_session_of_its_own"),
        (KeepsObjects, "test_later_changes_do_not_reach_the_store"),
        (Prepends, "test_messages_are_added_at_the_end"),
        (IgnoresEmpty, "test_without_messages_the_runs_are_stored"),
        (SavesUnknown, "test_nothing_is_added_to_what_was_never_saved"),
        (NeverDeletes, "test_delete_removes_all_of_a_session"),
        (DeleteNeedsOne, "test_delete_of_an_unknown_id_does_nothing"),
        (Strips, "test_odd_text_comes_back"),
        (AddsBySession, "test_messages_are_added_where_the_store_stands"),
        (Cuts, "test_long_sessions_keep_their_order"),
        (SyncLoad, "test_it_is_a_session_store"),
    ],
)
def test_a_broken_store_is_told_what_is_wrong(store, test):
    """The test of the broken rule fails, and says the rule, what was found and what to do."""
    broken = store()
    with pytest.raises(AssertionError, match=r"(?s)\..*Found: .*What to do: "):
        getattr(StoreContract(), test)(lambda: broken)
