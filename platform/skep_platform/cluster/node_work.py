"""Which nodes have something to do beside tasks, as far as this process knows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Lock
from uuid import UUID

FRESH_S = 5.0  # so old may be what a process knows of the nodes with work to do


class NodesWithWork:
    """`ask` returns their ids: one query for all nodes of this process every `FRESH_S`. Safe for
    threads."""

    def __init__(self, ask: Callable[[], Iterable[UUID]]) -> None:
        self._ask = ask
        self._lock = Lock()
        self._until = 0.0
        self._nodes: frozenset[UUID] = frozenset()

    def __call__(self) -> frozenset[UUID]:
        with self._lock:
            if time.monotonic() >= self._until:
                self._nodes = frozenset(self._ask())
                self._until = time.monotonic() + FRESH_S
            return self._nodes

    def forget(self) -> None:
        """Ask anew, when this process is asked next."""
        with self._lock:
            self._until = 0.0
