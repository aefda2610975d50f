"""Stores as the stopped runs use them, with awaits of their own."""

import asyncio

from faults.stepping import called

from cyclops_nb import FileSessionStore, InMemorySessionStore


class WatchedStore:
    """Passes calls on to a store, with an await before and after."""

    def __init__(self, inner, awaits=1):
        self.inner = inner
        self.awaits = awaits
        self.active = 0

    async def load(self, session_id):
        return await self.inner.load(session_id)

    async def save(self, session):
        await self._call(self.inner.save, session)

    async def add_messages(self, session, messages):
        await self._call(self.inner.add_messages, session, messages)

    async def delete(self, session_id):
        await self.inner.delete(session_id)

    async def _call(self, method, *args):
        assert not self.active, "two calls of one run overlap"
        self.active += 1
        try:
            for _ in range(self.awaits):
                await asyncio.sleep(0)
            called(f"before {method.__name__}")
            await method(*args)
            called(f"after {method.__name__}")
            await asyncio.sleep(0)
        finally:
            self.active -= 1


def make_store(kind, folder):
    """Return a watched store of a kind, or None."""
    if kind is None:
        return None
    if kind == "slow":  # so slow that the next step is over before the save is
        return WatchedStore(InMemorySessionStore(), awaits=1000)
    return WatchedStore(InMemorySessionStore() if kind == "memory" else FileSessionStore(folder))
