"""The waiting gangs of each domain in lanes, kept in order as facts arrive.

A lane has gangs that are alike for a plan: one kind, one declared duration, starving or not, and
one owner where a virtual cluster limits what each of its users may hold, or as its policy says.
What one of them is refused, all behind it in the lane are refused, so a plan looks at the heads of
the lanes and not at every gang: its cost follows the number of lanes and of starts.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from skep_scheduler.model import Gang
from skep_scheduler.state.request_classes import Kind

Order = Callable[[Gang], tuple[Any, ...]]  # unique per gang; within a lane it never changes
LaneKey = tuple[Kind, float | None, bool, str]


@dataclass(slots=True, eq=False)
class Lane:
    """Gangs of one kind and declared duration, first come first, beside their `orders`. `owner` ""
    stands for all owners."""

    kind: Kind
    duration_s: float | None
    starving: bool
    owner: str
    orders: list[tuple[Any, ...]] = field(default_factory=list)
    gangs: list[Gang] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.gangs)

    def add(self, order: tuple[Any, ...], gang: Gang) -> None:
        position = bisect_left(self.orders, order)
        self.orders.insert(position, order)
        self.gangs.insert(position, gang)

    def remove(self, order: tuple[Any, ...]) -> None:
        position = bisect_left(self.orders, order)
        del self.orders[position], self.gangs[position]


@dataclass(slots=True)
class DomainQueue:
    """The waiting gangs of one domain.

    starves_at: the moment from which on a gang starves (seconds since the epoch)
    owner_of: gangs with different values are in lanes of their own: owners whose limits they count
        against, or what `Decision.lane_of` says; "" where there is neither
    backoff: gangs that are not placed before a moment, by id; they are in no lane
    """

    order: Order
    kind_of: Callable[[Gang], Kind]
    starves_at: Callable[[Gang], float]
    owner_of: Callable[[Gang], str]
    lanes: dict[LaneKey, Lane] = field(default_factory=dict)
    backoff: dict[str, Gang] = field(default_factory=dict)
    _where: dict[str, tuple[Gang, Lane | None, tuple[Any, ...]]] = field(default_factory=dict)
    _due: list[tuple[float, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._where)

    def fill(self, gangs: Iterable[Gang], now: float) -> None:
        """Add many gangs at once to an empty queue."""
        for order, gang in sorted(((self.order(gang), gang) for gang in gangs), key=_by_order):
            lane = self._lane_of(gang, now)
            self._where[gang.id] = gang, lane, order
            if lane is not None:
                lane.orders.append(order)
                lane.gangs.append(gang)

    def put(self, gang: Gang, now: float) -> None:
        """Add a gang, or replace what is known of it."""
        self.remove(gang.id)
        lane, order = self._lane_of(gang, now), self.order(gang)
        self._where[gang.id] = gang, lane, order
        if lane is not None:
            lane.add(order, gang)

    def remove(self, gang_id: str) -> None:
        known = self._where.pop(gang_id, None)
        if known is None:
            return
        _, lane, order = known
        self.backoff.pop(gang_id, None)
        if lane is not None:
            lane.remove(order)
            if not lane.gangs:
                del self.lanes[lane.kind, lane.duration_s, lane.starving, lane.owner]

    def all(self) -> list[Gang]:
        """Return all gangs of the domain, in no order."""
        return [gang for gang, _, _ in self._where.values()]

    def find(self, gang_id: str) -> tuple[Lane, int] | None:
        """Return the lane of a gang and its position there; None: it is in no lane."""
        _, lane, order = self._where.get(gang_id, (None, None, ()))
        return (lane, bisect_left(lane.orders, order)) if lane is not None else None

    def positions(self, gang_ids: Iterable[str]) -> dict[Lane, list[int]]:
        """Return the positions of some gangs by lane; those that are in no lane are left out."""
        found: dict[Lane, list[int]] = {}
        for gang_id in gang_ids:
            place = self.find(gang_id)
            if place is not None:
                found.setdefault(place[0], []).append(place[1])
        return found

    def advance(self, now: float) -> bool:
        """Move the gangs whose backoff is over or that starve by now to their lanes. Returns
        whether there were any."""
        due: dict[str, Gang] = {}
        while self._due and self._due[0][0] <= now:
            _, gang_id = heapq.heappop(self._due)
            known = self._where.get(gang_id)
            if known is not None:
                due[gang_id] = known[0]
        for gang in due.values():
            self.put(gang, now)
        return bool(due)

    def next_at(self) -> float:
        """Return when `advance` has something to do next; infinity: never."""
        return self._due[0][0] if self._due else float("inf")

    def _lane_of(self, gang: Gang, now: float) -> Lane | None:
        if gang.not_before > now:
            self.backoff[gang.id] = gang
            heapq.heappush(self._due, (gang.not_before, gang.id))
            return None
        starves_at = self.starves_at(gang)
        starving = starves_at <= now
        if not starving and starves_at < float("inf"):
            heapq.heappush(self._due, (starves_at, gang.id))
        # Durations only matter for reservations, which opportunistic gangs neither get nor delay.
        duration_s = None if gang.opportunistic else gang.duration_s
        key = self.kind_of(gang), duration_s, starving, self.owner_of(gang)
        lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = Lane(*key)
        return lane


def _by_order(entry: tuple[tuple[Any, ...], Gang]) -> tuple[Any, ...]:
    return entry[0]
