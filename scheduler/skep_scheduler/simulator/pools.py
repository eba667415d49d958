"""The GPUs of a simulated domain, and where a job goes on them.

`CountPool` counts GPUs; `NodePool` has the free GPUs of each node, puts a job on one node if it
fits there, and a larger one on whole nodes and one node for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Place = tuple[tuple[int, int], ...]  # (node, GPUs)


class GpuPool(Protocol):
    """The GPUs of a domain. `take` answers None where the job finds no place now. `sizes` are the
    GPUs of each node."""

    free: int
    total: int

    @property
    def sizes(self) -> Sequence[int]: ...

    def take(self, gpus: int, image: str = "") -> Place | None: ...
    def take_again(self, place: Place) -> bool: ...
    def give_back(self, place: Place) -> None: ...


class CountPool:
    """GPUs without nodes."""

    def __init__(self, gpus: int) -> None:
        self.sizes = (gpus,)
        self.free = self.total = gpus

    def take(self, gpus: int, image: str = "") -> Place | None:
        if gpus > self.free:
            return None
        self.free -= gpus
        return ((0, gpus),)

    def take_again(self, place: Place) -> bool:
        return self.take(place[0][1]) is not None

    def give_back(self, place: Place) -> None:
        self.free += place[0][1]


class NodePool:
    """Nodes with free GPUs, kept as one bit mask of nodes for each number of free GPUs."""

    def __init__(self, nodes: Sequence[int], *, best_fit: bool = True) -> None:
        """`nodes` are the GPUs of each node. `best_fit`: the node with the fewest free GPUs that
        are enough, else the first one; ties go to the first."""
        self.largest = max(nodes, default=0)
        self.best_fit = best_fit
        self.sizes = tuple(nodes)
        self._free = list(nodes)
        self._masks = [0] * (self.largest + 1)
        for node, gpus in enumerate(nodes):
            self._masks[gpus] |= 1 << node
        self.free = self.total = sum(nodes)

    def take(self, gpus: int, image: str = "") -> Place | None:
        """`image` is what the job runs, for places that go by it."""
        if gpus > self.free:
            return None
        largest = self.largest
        if gpus <= largest:
            node = self._find(gpus, image)
            if node < 0:
                return None
            self._change(node, -gpus)
            return ((node, gpus),)
        whole, rest = divmod(gpus, largest)
        mask, place = self._masks[largest], []
        if mask.bit_count() < whole:
            return None
        for _ in range(whole):
            node = self._next_whole(mask, image)
            mask ^= 1 << node
            place.append((node, largest))
        for node, some in place:
            self._change(node, -some)
        if rest:
            node = self._find(rest, image)
            if node < 0:
                self.give_back(tuple(place))
                return None
            self._change(node, -rest)
            place.append((node, rest))
        return tuple(place)

    def take_again(self, place: Place) -> bool:
        if any(self._free[node] < gpus for node, gpus in place):
            return False
        for node, gpus in place:
            self._change(node, -gpus)
        return True

    def give_back(self, place: Place) -> None:
        for node, gpus in place:
            self._change(node, gpus)

    def _next_whole(self, mask: int, image: str) -> int:
        return (mask & -mask).bit_length() - 1

    def _find(self, gpus: int, image: str) -> int:
        first = -1
        for free in range(gpus, self.largest + 1):
            mask = self._masks[free]
            if mask:
                node = (mask & -mask).bit_length() - 1
                if self.best_fit:
                    return node
                first = node if first < 0 else min(first, node)
        return first

    def _change(self, node: int, gpus: int) -> None:
        before = self._free[node]
        bit = 1 << node
        self._masks[before] ^= bit
        self._masks[before + gpus] |= bit
        self._free[node] = before + gpus
        self.free += gpus
