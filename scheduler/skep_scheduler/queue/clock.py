"""Lets gangs end in a trial."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from skep_scheduler.world import World

NEVER = float("inf")


class Clock:
    """`ends` are moments, and the ids of the gangs that end then."""

    def __init__(self, world: World, ends: Iterable[tuple[float, str]]) -> None:
        self._world = world
        self._ends = [end for end in ends if end[0] < NEVER]
        heapq.heapify(self._ends)

    def copy(self) -> Clock:
        return Clock(self._world, self._ends)

    def add(self, end: float, gang_id: str) -> None:
        if end < NEVER:
            heapq.heappush(self._ends, (end, gang_id))

    def next(self) -> float:
        return self._ends[0][0] if self._ends else NEVER

    def go_to(self, time: float) -> None:
        while self._ends and self._ends[0][0] <= time:
            self._world.holds.release(heapq.heappop(self._ends)[1])
