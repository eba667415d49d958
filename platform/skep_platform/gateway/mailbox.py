"""What waits between the reader of a socket and its workers."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class Newest(Generic[T]):
    """Holds one letter: a newer one replaces it."""

    def __init__(self) -> None:
        self._letter: list[T] = []
        self._there = asyncio.Event()

    def put(self, letter: T) -> None:
        self._letter = [letter]
        self._there.set()

    async def take(self) -> T:
        await self._there.wait()
        self._there.clear()
        return self._letter.pop()


class Pile(Generic[T]):
    """Gathers items until they are taken together; `put` waits while there are `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._items: list[T] = []
        self._there = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def put(self, items: list[T]) -> None:
        await self._room.wait()
        self._items += items
        if self._items:
            self._there.set()
        if len(self._items) >= self._most:
            self._room.clear()

    async def take(self) -> list[T]:
        await self._there.wait()
        self._there.clear()
        self._room.set()
        taken, self._items = self._items, []
        return taken
