"""The contract of stores: the library's own stores and the documentation's example keep it, and broken ones do not."""

import asyncio
import contextlib
import copy
import gc
import json
import re
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import pytest

from cyclops_nb import (
    FileSessionStore,
    InMemorySessionStore,
    NotebookSessionStore,
    Session,
    SessionNotFoundError,
)
from cyclops_nb.testing import store_rules
from cyclops_nb.testing.store_contract import StoreContract

PAGE = Path(__file__).parents[1] / "docs" / "stores.md"
CODE = "\n\n".join(re.findall(r"```python\n(import .*?)```", PAGE.read_text("utf-8"), re.DOTALL))
"""The documentation's example, and its test."""


def on_page(name):
    """Return a class that the documentation shows."""
    names = {"__name__": "page"}
    exec(compile(CODE, str(PAGE), "exec"), names)  # noqa: S102 - it is ours
    return names[name]


class TestInMemorySessionStore(StoreContract):
    @pytest.fixture
    def open_store(self):
        store = InMemorySessionStore()
        return lambda: store


class TestFileSessionStore(StoreContract):
    @pytest.fixture
    def open_store(self, tmp_path):
        return lambda: FileSessionStore(tmp_path)


class TestNotebookSessionStore(StoreContract):
    @pytest.fixture
    def open_store(self, tmp_path):
        return lambda: NotebookSessionStore(tmp_path)


class TestTheExample(on_page("TestSQLiteSessionStore")):
    @pytest.fixture(autouse=True)
    def is_freed(self):
        """Let go of the stores that nobody has closed, and so of their threads."""
        yield
        gc.collect()


class Rows:
    """A store that keeps the contract, in as few words as can be, for others to break."""

    def __init__(self, place):
        self.place = place

    async def load(self, session_id):
        return self.read(self.place[session_id]) if session_id in self.place else None

    async def save(self, session):
        self.place[session.id] = self.rows(session, session.messages)

    async def add_messages(self, session, messages):
        if session.id not in self.place:
            raise SessionNotFoundError(session.id)
        first, *new = self.rows(session, messages)
        self.place[session.id] = [first, *self.place[session.id][1:], *new]

    async def delete(self, session_id):
        self.place.pop(session_id, None)

    def rows(self, session, messages):
        return [session.model_dump_json(exclude={"messages"}), *(message.model_dump_json() for message in messages)]

    def read(self, rows):
        first, *messages = map(json.loads, rows)
        return Session.model_validate({**first, "messages": messages})


class TestRows(StoreContract):
    @pytest.fixture
    def open_store(self):
        place = {}
        return lambda: Rows(place)


BROKEN = {}
"""Broken stores, each with the names of the tests that must fail."""


def breaks(*tests):
    """Put a class among the broken stores."""

    def mark(store):
        BROKEN[store] = tests
        return store

    return mark


@breaks("test_it_is_a_session_store")
class LoadsWithoutAsync(Rows):
    def load(self, session_id):
        return super().load(session_id)


@breaks("test_it_is_a_session_store")
class LacksDelete(Rows):
    delete = None


@breaks("test_an_unknown_id_loads_as_none")
class LoadsNewSessions(Rows):
    async def load(self, session_id):
        return await super().load(session_id) or Session(session_id)


@breaks("test_an_unknown_id_loads_as_none")
class RaisesForUnknown(Rows):
    async def load(self, session_id):
        return self.read(self.place[session_id])


@breaks("test_everything_comes_back")
class HasColumns(Rows):
    def read(self, rows):
        session = super().read(rows)
        return Session(session.id, **{name: getattr(session, name) for name in Session.model_fields if name != "id"})


@breaks("test_everything_comes_back")
class RoundsTimes(Rows):
    def read(self, rows):
        session = super().read(rows)
        session.created_at = session.created_at.replace(microsecond=session.created_at.microsecond // 1000 * 1000)
        return session


@breaks("test_an_empty_session_comes_back")
class NeedsMessages(Rows):
    async def load(self, session_id):
        session = await super().load(session_id)
        return session if session and session.messages else None


@breaks("test_each_load_gives_a_session_of_its_own")
class CachesLoads(Rows):
    loaded = None

    async def load(self, session_id):
        self.loaded = self.loaded or await super().load(session_id)
        return self.loaded


@breaks("test_save_replaces_what_stood_there")
class SavesOverOldRows(Rows):
    async def save(self, session):
        new = self.rows(session, session.messages)
        self.place[session.id] = [*new, *self.place.get(session.id, [])[len(new) :]]


@breaks("test_later_changes_do_not_reach_the_store", "test_what_cannot_be_stored_changes_nothing")
class KeepsObjects(Rows):
    def rows(self, session, messages):
        return [session, *messages]

    def read(self, rows):
        session = copy.copy(rows[0])
        session.messages = rows[1:]
        return session


@breaks("test_save_stores_the_session_as_it_was_at_the_call")
class SavesLate(Rows):
    async def save(self, session):
        await asyncio.sleep(0)
        await super().save(session)


@breaks("test_save_stores_the_session_as_it_was_at_the_call")
class ReadsInThread(Rows):
    async def save(self, session):
        self.place[session.id] = await asyncio.to_thread(lambda: self.rows(session, session.messages))


@breaks("test_add_messages_stores_what_it_was_given_at_the_call")
class AddsLate(Rows):
    async def add_messages(self, session, messages):
        await asyncio.sleep(0)
        await super().add_messages(session, messages)


@breaks("test_add_messages_stores_what_it_was_given_at_the_call")
class AddsInThread(Rows):
    async def add_messages(self, session, messages):
        rows = await asyncio.to_thread(lambda: self.rows(session, messages))
        self.place[session.id] = [rows[0], *self.place[session.id][1:], *rows[1:]]


@breaks("test_messages_are_added_at_the_end", "test_runs_are_stored")
class AddsBackwards(Rows):
    async def add_messages(self, session, messages):
        await super().add_messages(session, messages[::-1])


@breaks("test_messages_are_added_at_the_end")
class WantsLists(Rows):
    async def add_messages(self, session, messages):
        await super().add_messages(session, messages + [])  # noqa: RUF005 - which tuples refuse


@breaks("test_messages_are_added_where_the_store_stands")
class CountsInTheSession(Rows):
    async def add_messages(self, session, messages):
        await super().add_messages(session, [])
        start = 1 + len(session.messages) - len(messages)
        self.place[session.id][start:] = self.rows(session, messages)[1:]


@breaks("test_add_messages_stores_all_else_of_the_session", "test_runs_are_stored")
class AddsMessagesAlone(Rows):
    async def add_messages(self, session, messages):
        first = self.place[session.id][0]
        await super().add_messages(session, messages)
        self.place[session.id][0] = first


@breaks("test_without_messages_the_runs_are_stored", "test_runs_that_stop_are_stored")
class IgnoresRunsAlone(Rows):
    async def add_messages(self, session, messages):
        if messages:
            await super().add_messages(session, messages)


@breaks("test_nothing_is_added_to_what_was_never_saved")
class AddsToNothing(Rows):
    async def add_messages(self, session, messages):
        self.place.setdefault(session.id, self.rows(session, []))
        await super().add_messages(session, messages)


@breaks("test_nothing_is_added_to_what_was_never_saved")
class RaisesKeyError(Rows):
    async def add_messages(self, session, messages):
        self.place[session.id] += self.rows(session, messages)[1:]


@breaks("test_delete_removes_all_of_a_session")
class KeepsRowsOfTheDeleted(Rows):
    def __init__(self, place):
        super().__init__(place)
        self.left = {}

    async def delete(self, session_id):
        self.left[session_id] = self.place.pop(session_id, [])[1:]

    async def save(self, session):
        await super().save(session)
        self.place[session.id] += self.left.get(session.id, [])


@breaks("test_delete_of_an_unknown_id_does_nothing")
class DeletesWhatIsThere(Rows):
    async def delete(self, session_id):
        del self.place[session_id]


@breaks("test_delete_of_an_unknown_id_does_nothing")
class DeletesByPrefix(Rows):
    async def delete(self, session_id):
        for known in [known for known in self.place if known.startswith(session_id)]:
            del self.place[known]


@breaks("test_ids_are_kept_apart")
class FindsLike(Rows):
    async def delete(self, session_id):
        for known in [known for known in self.place if re.fullmatch(session_id.replace("_", "."), known)]:
            del self.place[known]


@breaks("test_ids_are_kept_apart")
class TakesNumbers(Rows):
    async def save(self, session):
        if session.id.isdigit():
            self.place.pop(str(int(session.id)), None)
        await super().save(session)


@breaks("test_odd_ids_do_no_harm")
class FoldsCase(Rows):
    async def save(self, session):
        self.place[session.id.lower()] = self.rows(session, session.messages)


@breaks("test_odd_ids_do_no_harm")
class StripsIds(Rows):
    async def delete(self, session_id):
        await super().delete(session_id.strip())


@breaks("test_odd_text_comes_back")
class MendsLineEnds(Rows):
    def read(self, rows):
        return super().read([row.replace(r"\r\n", r"\n") for row in rows])


@breaks("test_odd_text_comes_back")
class SplitsLines(Rows):
    def read(self, rows):
        return super().read("\n".join(rows).splitlines())


@breaks("test_nul_comes_back")
class EndsAtNul(Rows):
    def rows(self, session, messages):
        return [row.replace(r"\u0000", "") for row in super().rows(session, messages)]


@breaks("test_large_messages_come_back")
class HasNarrowColumns(Rows):
    def rows(self, session, messages):
        return [row[:65535] for row in super().rows(session, messages)]


@breaks("test_long_sessions_keep_their_order")
class OrdersAsText(Rows):
    def read(self, rows):
        places = sorted(range(1, len(rows)), key=str)
        return super().read([rows[0], *(rows[place] for place in places)])


@breaks("test_ids_in_messages_may_repeat")
class HasMessageIdsAsKeys(Rows):
    def read(self, rows):
        return super().read(list({json.loads(row)["id"]: row for row in rows}.values()))


@breaks("test_what_cannot_be_stored_changes_nothing")
class SwallowsErrors(Rows):
    async def save(self, session):
        with contextlib.suppress(ValueError):
            await super().save(session)


@breaks("test_what_cannot_be_stored_changes_nothing")
class WritesAsItGoes(Rows):
    async def add_messages(self, session, messages):
        self.place.setdefault(session.id, []).extend(message.model_dump_json() for message in messages)
        self.place[session.id][0] = self.rows(session, [])[0]


@breaks("test_what_cannot_be_stored_changes_nothing")
class RemovesAndEncodes(Rows):
    async def save(self, session):
        taken = copy.copy(session)
        self.place.pop(taken.id, None)
        await super().save(taken)


@breaks("test_what_cannot_be_stored_changes_nothing")
class AddsRowsAsTheyAreEncoded(Rows):
    async def add_messages(self, session, messages):
        taken = copy.copy(session)
        await super().add_messages(taken, [])
        for message in messages:
            await super().add_messages(taken, [message])


@breaks("test_a_cancelled_call_is_done_or_not_done")
class SavesInTwoSteps(Rows):
    async def save(self, session):
        rows = self.rows(session, session.messages)
        self.place[session.id] = rows[:1]
        await asyncio.sleep(0)
        self.place[session.id] = rows


@breaks("test_a_cancelled_call_is_done_or_not_done")
class AddsOneByOne(Rows):
    async def add_messages(self, session, messages):
        taken = [copy.copy(session), *messages]
        for message in taken[1:]:
            await super().add_messages(taken[0], [message])
            await asyncio.sleep(0)
        await super().add_messages(taken[0], [])


@breaks("test_a_cancelled_call_does_not_come_late")
class AddsWhenItCan(Rows):
    async def add_messages(self, session, messages):
        adding = super().add_messages(copy.copy(session), list(messages))

        def work():
            time.sleep(0.01)
            asyncio.run(adding)

        await asyncio.to_thread(work)


@breaks("test_a_cancelled_call_is_not_overtaken")
class HasAThreadForEachSave(Rows):
    async def save(self, session):
        saving = super().save(copy.copy(session))
        await asyncio.to_thread(asyncio.run, saving)


@breaks("test_a_cancelled_call_is_not_overtaken")
class SendsLargeOnesSlowly(Rows):
    async def save(self, session):
        rows = self.rows(session, session.messages)

        def work():
            time.sleep(0.1 if sum(map(len, rows)) > 100_000 else 0)
            self.place[session.id] = rows

        await asyncio.to_thread(work)


@breaks("test_a_call_returns_when_it_has_stored")
class LeavesSavesToAThread(Rows):
    async def save(self, session):
        saving = super().save(copy.copy(session))
        threading.Thread(target=asyncio.run, args=(saving,)).start()


@breaks("test_a_call_returns_when_it_has_stored")
class LeavesAdditionsToAThread(Rows):
    async def add_messages(self, session, messages):
        if session.id not in self.place:
            raise SessionNotFoundError(session.id)
        adding = super().add_messages(copy.copy(session), list(messages))
        threading.Thread(target=asyncio.run, args=(adding,)).start()


@breaks("test_a_call_returns_when_it_has_stored")
class LeavesLinesToAThread(Rows):
    """Writes once somebody has looked, so that no luck of timing hides it."""

    looked = threading.Event()

    async def load(self, session_id):
        found = await super().load(session_id)
        self.looked.set()
        return found

    async def save(self, session):
        rows = self.rows(session, session.messages)
        if session.id not in self.place:
            self.place[session.id] = rows
            return

        def work():
            self.looked.wait(10)
            self.place[session.id] = rows

        self.looked.clear()
        threading.Thread(target=work, daemon=True).start()


class WritesByHalves(Rows):
    """Lets others have a look, and waits until they have had it."""

    half = None
    seen = threading.Event()

    async def load(self, session_id):
        if self.half is not None and self.place.get(session_id) is self.half:
            self.seen.set()
        return await super().load(session_id)

    async def write(self, session_id, half, rows):
        def work():
            self.seen.clear()
            WritesByHalves.half = self.place[session_id] = half
            self.seen.wait(10)
            self.place[session_id] = rows

        await asyncio.to_thread(work)


@breaks("test_nobody_sees_half_a_call")
class CommitsEachStatement(WritesByHalves):
    async def save(self, session):
        rows = self.rows(session, session.messages)
        await (self.write(session.id, rows[:1], rows) if session.id in self.place else super().save(session))


@breaks("test_nobody_sees_half_a_call")
class WritesOverTheOldFile(WritesByHalves):
    async def add_messages(self, session, messages):
        first, *new = self.rows(session, messages)
        await self.write(session.id, [first[:10]], [first, *self.place[session.id][1:], *new])


@breaks("test_the_event_loop_goes_on")
class StopsTheLoop(Rows):
    async def save(self, session):
        time.sleep(0.2)
        await super().save(session)


@breaks("test_the_event_loop_goes_on")
class StopsTheLoopForItsThread(Rows):
    async def add_messages(self, session, messages):
        adding = super().add_messages(copy.copy(session), list(messages))
        thread = threading.Thread(target=lambda: (time.sleep(0.2), asyncio.run(adding)))
        thread.start()
        thread.join()


@breaks("test_one_store_serves_many_event_loops")
class HasALock(Rows):
    lock = None

    async def save(self, session):
        self.lock = self.lock or asyncio.Lock()
        async with self.lock:
            await asyncio.to_thread(time.sleep, 0.01)
            await super().save(session)

    async def add_messages(self, session, messages):
        async with self.lock:
            await asyncio.to_thread(time.sleep, 0.01)
            await super().add_messages(session, messages)


@breaks("test_one_store_serves_many_event_loops")
class BelongsToOneLoop(Rows):
    loop = None

    async def save(self, session):
        self.loop = self.loop or asyncio.get_running_loop()
        if self.loop is not asyncio.get_running_loop():
            raise RuntimeError("attached to a different loop")
        await super().save(session)


@breaks("test_many_sessions_can_be_stored_at_once")
class RemembersTheLast(Rows):
    async def save(self, session):
        self.last = session.id, self.rows(session, session.messages)
        await asyncio.sleep(0)
        self.place[self.last[0]] = self.last[1]


@breaks("test_another_store_object_finds_everything", "test_a_step_is_stored_before_the_next_one")
class WritesBehind(Rows):
    def __init__(self, place):
        super().__init__(place)
        self.later = None

    async def save(self, session):
        self.flush()
        self.later = session.id, self.rows(session, session.messages)

    async def add_messages(self, session, messages):
        self.flush()
        if session.id not in self.place:
            raise SessionNotFoundError(session.id)
        first, *new = self.rows(session, messages)
        self.later = session.id, [first, *self.place[session.id][1:], *new]

    def flush(self):
        if self.later is not None:
            self.place[self.later[0]] = self.later[1]


@pytest.mark.parametrize(
    ("store", "test"),
    [(store, test) for store, tests in BROKEN.items() for test in tests],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_broken_store_is_told_what_is_wrong(store, test):
    """The test of the broken rule fails, and says the rule, what was found and what to do."""
    place = {}
    rule = re.escape(getattr(StoreContract, test).__doc__)
    with pytest.raises(AssertionError, match=rf"(?s)^{rule}\nFound: .+\nWhat to do: .+"):
        getattr(StoreContract(), test)(lambda: store(place))


def test_each_test_of_the_contract_can_fail():
    """There is a broken store for each test."""
    tests = {name for name in dir(StoreContract) if name.startswith("test_")}
    assert {test for tests in BROKEN.values() for test in tests} == tests


class Waits(Rows):
    """Forgets to give its lock back."""

    lock = None

    async def save(self, session):
        self.lock = self.lock or asyncio.Lock()
        await self.lock.acquire()
        await super().save(session)


class Blocks(Rows):
    """As `Waits`, and nothing can cancel it."""

    lock = None

    async def save(self, session):
        self.lock = self.lock or threading.Lock()
        self.lock.acquire()
        await super().save(session)


class Impatient(StoreContract):
    limit = 0.5


def test_a_store_that_waits_for_ever_fails():
    """A test ends after its limit, and says where the store waits."""
    found = r"Found: it has not ended after 0\.5 s, so some call waits for ever\nWhat to do: Remove all that is stored"
    with pytest.raises(AssertionError, match=found) as caught:
        Impatient().test_save_replaces_what_stood_there(lambda: Waits({}))
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    assert "self.lock.acquire()" in "".join(traceback.format_exception(caught.value.__cause__))


def test_a_store_that_blocks_its_thread_for_ever_fails(monkeypatch):
    """A test ends after its limit also where the store cannot be cancelled."""
    monkeypatch.setattr(store_rules, "_GRACE", 0.1)
    store = Blocks({})
    with pytest.raises(AssertionError, match=r"it has not ended after 0\.5 s"):
        Impatient().test_save_replaces_what_stood_there(lambda: store)
    store.lock.release()


def test_what_other_threads_wait_for_is_no_hindrance():
    """If one of several threads fails, so does the test, though the others would wait for ever."""
    limit = time.monotonic() + StoreContract.limit / 2
    with pytest.raises(AssertionError, match=r"Found: RuntimeError: .*Lock.* is bound to a different event loop"):
        StoreContract().test_one_store_serves_many_event_loops(lambda: HasALock({}))
    assert time.monotonic() < limit


async def opened():
    return InMemorySessionStore()


@pytest.mark.parametrize(
    ("fixture", "found"),
    [
        (InMemorySessionStore(), "it returns <InMemorySessionStore of 0 sessions>, which is no function"),
        (None, "it returns None, which is no function"),
        (FileSessionStore, "it returns <class .*FileSessionStore'>, which wants arguments .*'directory'"),
        (lambda: None, "the function returns None, which is no store"),
        (lambda: opened, "the function returns <function opened .*>, which is no store"),
        (opened, "the function returns <coroutine object opened .*>, which is no store"),
    ],
    ids=["a store", "nothing", "a class with arguments", "a function of nothing", "a function of a function", "async"],
)
def test_a_fixture_that_opens_no_store_is_told_what_to_return(fixture, found):
    """Whatever else `open_store` returns, each test says so, and shows what it should be."""
    for test in (
        "test_it_is_a_session_store",
        "test_everything_comes_back",
        "test_a_cancelled_call_does_not_come_late",
    ):
        with pytest.raises(
            AssertionError, match=rf"^The fixture `open_store` returns a function.*\nFound: {found}"
        ) as error:
            getattr(StoreContract(), test)(fixture)
        assert "Write `return lambda: MyStore(place)`" in str(error.value)


def test_a_store_that_cannot_be_opened_shows_its_error():
    """What opening a store raises stands in the failure: it may not be the fixture's fault."""

    def refuse():
        raise ConnectionError("no such host")

    with pytest.raises(AssertionError, match=r"^A loaded session is equal .*\nFound: ConnectionError: no such host"):
        StoreContract().test_everything_comes_back(refuse)


def test_an_error_of_the_store_is_shown():
    """What a store raises stands in the failure, and is its cause."""
    with pytest.raises(AssertionError, match=r"Found: KeyError: 'study-1'") as caught:
        StoreContract().test_nothing_is_added_to_what_was_never_saved(lambda: RaisesKeyError({}))
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_failure_says_where_sessions_differ():
    """A failure names the message or the field, and shows both, cut."""
    with pytest.raises(AssertionError, match=r"its 'created_at' is .*890000.*, it should be .*890123"):
        StoreContract().test_everything_comes_back(lambda: RoundsTimes({}))
    with pytest.raises(AssertionError, match=r'message 2 is .*"b0".*, it should be .*"q0"'):
        StoreContract().test_messages_are_added_at_the_end(lambda: AddsBackwards({}))
    with pytest.raises(AssertionError) as caught:
        StoreContract().test_large_messages_come_back(lambda: HasNarrowColumns({}))
    assert len(str(caught.value)) < 2000


def test_it_runs_where_an_event_loop_runs():
    """The tests can be called in a notebook, where a loop runs already."""

    async def cell():
        StoreContract().test_everything_comes_back(lambda: InMemorySessionStore())

    asyncio.run(cell())


def test_what_the_page_shows_is_a_whole_test_file(tmp_path):
    """The example and its test, copied into a file, pass under pytest without any set-up; and fail in plain words."""
    (tmp_path / "test_mine.py").write_text(CODE, "utf-8")
    (tmp_path / "test_broken.py").write_text(CODE.replace("if row else None", ""), "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "-k", "unknown_id_loads"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert re.search(r"^1 failed, 1 passed", done.stdout, re.MULTILINE), done.stdout
    assert "AssertionError: `load` of an id that was never saved returns None." in done.stdout
    assert "What to do: Return None where nothing stands under the id" in done.stdout
