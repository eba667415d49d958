"""Covers secrets in logs without holding up anything else of the agent.

The stream is a tenant's, and so are the secrets: whatever they are, masking is work on one thread,
in pieces of bounded size, taken in turn from all logs. A log that is slow to mask waits, and its
container's own log on disk with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakValueDictionary

from skep_agent.core.mask import Automaton, Mask

# Some 20 ms of work at the worst; the interpreter changes threads every 5 ms.
PIECE_BYTES = 64 * 1024
# Less than this is masked at once: to change threads costs more.
INLINE_BYTES = 2048
_NOTHING = Automaton(())

T = TypeVar("T")


class Masking:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="masking")
        # The tasks of a gang have the same secrets.
        self._automata: WeakValueDictionary[frozenset[str], Automaton] = WeakValueDictionary()

    async def automaton(self, secrets: Collection[str]) -> Automaton:
        """Return what finds these secrets, shared with all who look for the same ones."""
        if not secrets:
            return _NOTHING
        key = frozenset(secrets)
        found = self._automata.get(key)
        if found is None:
            made = await self._run(Automaton, key)
            found = self._automata.setdefault(key, made)
        return found

    async def feed(self, mask: Mask, data: bytes) -> bytes:
        """Return what is certain by now, as `Mask.feed` does."""
        if mask.idle or len(data) <= INLINE_BYTES:
            return mask.feed(data)
        pieces = []
        for at in range(0, len(data), PIECE_BYTES):
            pieces.append(await self._run(mask.feed, data[at : at + PIECE_BYTES]))
        return b"".join(pieces)

    def close(self) -> None:
        """What is under way ends with its piece."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
