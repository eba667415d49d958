"""Ends of gangs, played through in a trial."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from skep_scheduler.state import ClusterState

NEVER = float("inf")


class Timeline:
    """A clock that releases gangs when they end.

    Releasing a gang is the dear part, so it is put off: `release_on` releases those on some nodes
    only, which is enough to see whether known places are free; `release_all` the others, before
    places are searched for.
    """

    def __init__(self, state: ClusterState, ends: Iterable[tuple[float, str]]) -> None:
        """`ends` are pairs of time and gang id."""
        self._state = state
        self._ends = [end for end in ends if end[0] < NEVER]
        self._end_of = {gang_id: end for end, gang_id in self._ends}
        self._now = -NEVER
        heapq.heapify(self._ends)

    def copy(self) -> Timeline:
        copy = Timeline(self._state, self._ends)
        copy._now = self._now
        return copy

    def add(self, end: float, gang_id: str) -> None:
        """Note the end of one more gang."""
        if end < NEVER:
            heapq.heappush(self._ends, (end, gang_id))
            self._end_of[gang_id] = end

    def next(self) -> float:
        """Return the next end of a gang that is not released yet; infinity: there is none."""
        return self._ends[0][0] if self._ends else NEVER

    def go_to(self, time: float) -> None:
        """Move the clock. Gangs that end meanwhile are released when it matters."""
        self._now = max(self._now, time)

    def release_on(self, nodes: Iterable[str]) -> None:
        """Release the gangs that have ended by now and hold something on one of the nodes."""
        known = self._state.allocations.resources.nodes
        for node in nodes:
            for gang_id in list(known[node].users) if node in known else ():
                if self._end_of.get(gang_id, NEVER) <= self._now:
                    self._state.allocations.release(gang_id)

    def release_all(self) -> None:
        """Release all gangs that have ended by now."""
        while self._ends and self._ends[0][0] <= self._now:
            self._state.allocations.release(heapq.heappop(self._ends)[1])
