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
        self._known: tuple[float, frozenset[UUID]] = (0.0, frozenset())  # until when, and which

    def __call__(self) -> frozenset[UUID]:
        with self._lock:
            if (nodes := self.fresh()) is None:
                nodes = frozenset(self._ask())
                self._known = time.monotonic() + FRESH_S, nodes
            return nodes

    def fresh(self) -> frozenset[UUID] | None:
        """Return the same where it is known, and else None: never waits, so that an event loop may
        ask."""
        until, nodes = self._known
        return nodes if time.monotonic() < until else None

    def forget(self) -> None:
        """Ask anew, when this process is asked next."""
        with self._lock:
            self._known = 0.0, frozenset()
