"""What a store has stored outlives its process: a share of the kills of ``python tests/kills.py``."""

import asyncio

import pytest
from kills import STORES, kill_many, look

from cyclops_nb import InMemorySessionStore, Session


@pytest.mark.parametrize("name", STORES)
@pytest.mark.filterwarnings("ignore:.*torn line:UserWarning", "ignore:.*fork:DeprecationWarning")
def test_a_killed_process_loses_nothing_that_was_stored(name):
    """What loads is valid, holds all that a finished call had stored, and can be gone on with."""
    assert kill_many(name, 4, seed=1) == []


def test_what_is_lost_is_found():
    """The search itself finds sessions that are gone, and messages that are."""
    store = InMemorySessionStore()
    asyncio.run(store.save(Session("s")))
    told = [{"id": "t", "messages": [], "runs": 0}, {"id": "s", "messages": ["m"], "runs": 0}]
    assert asyncio.run(look(store, told)) == ["t is gone", "s holds 0 messages, 1 were stored"]
