"""Stores as the stopped runs use them, with awaits of their own and a memory of what they have stored."""

import asyncio

from cyclops_nb import FileSessionStore, InMemorySessionStore

from faults.stepping import InjectedError


class WatchedStore:
    """Passes calls on to a store, with an await before and after; fails when told to."""

    def __init__(self, inner):
        self.inner = inner
        self.calls = 0
        self.fails_at = None
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
        self.calls += 1
        assert not self.active, "two calls of one run overlap"
        self.active += 1
        try:
            await asyncio.sleep(0)
            if self.calls == self.fails_at:
                raise InjectedError("the store fails")
            await method(*args)
            await asyncio.sleep(0)
        finally:
            self.active -= 1


def make_store(kind, folder):
    """Return a watched store of a kind, or None."""
    if kind is None:
        return None
    return WatchedStore(InMemorySessionStore() if kind == "memory" else FileSessionStore(folder))
