"""Async generators within async generators, of which the event loop should know the outermost alone.

A loop that ends closes all async generators that it knows, all at once. One that another is just closing answers with
an error, which asyncio prints. So a generator that is read by another one is begun without the loop's hooks: its owner
closes it, always.

See https://docs.python.org/3/library/sys.html#sys.set_asyncgen_hooks.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable
from types import TracebackType
from typing import Generic, TypeVar

__all__ = ["Owned"]

_T = TypeVar("_T")


class Owned(Generic[_T]):
    """Reads an async generator for another one; as a context manager it closes it at the end.

    Parameters
    ----------
    generator : async generator
        Not begun yet.
    """

    __slots__ = ("_generator", "_is_begun")

    def __init__(self, generator: AsyncGenerator[_T, None]) -> None:
        self._generator = generator
        self._is_begun = False

    def __aiter__(self) -> Owned[_T]:
        return self

    def __anext__(self) -> Awaitable[_T]:
        if self._is_begun:
            return self._generator.__anext__()
        self._is_begun = True
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(None, None)
        try:
            return self._generator.__anext__()  # asks for the hooks now, not when it is awaited
        finally:
            sys.set_asyncgen_hooks(*hooks)

    async def __aenter__(self) -> Owned[_T]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._generator.aclose()
