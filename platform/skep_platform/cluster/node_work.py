"""Which nodes have something to do beside tasks, as far as this process knows."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from threading import Lock
from typing import Generic, TypeVar
from uuid import UUID

FRESH_S = 5.0  # so old may be what a process knows of the nodes with work to do

Nodes = TypeVar("Nodes", bound=Collection[UUID])


class NodesWithWork(Generic[Nodes]):
    """`ask` returns their ids, as a set or with what is known of each: one query for all nodes of
    this process every `FRESH_S`. Safe for threads."""

    def __init__(self, ask: Callable[[], Nodes]) -> None:
        self._ask = ask
        self._lock = Lock()
        self._known: tuple[float, Nodes] | None = None  # until when, and which

    def __call__(self) -> Nodes:
        with self._lock:
            if (nodes := self.fresh()) is None:
                nodes = self._ask()
                self._known = time.monotonic() + FRESH_S, nodes
            return nodes

    def fresh(self) -> Nodes | None:
        """Return the same where it is known, and else None: never waits, so that an event loop may
        ask."""
        known = self._known
        return known[1] if known and time.monotonic() < known[0] else None

    def forget(self) -> None:
        """Ask anew, when this process is asked next."""
        with self._lock:
            self._known = None
