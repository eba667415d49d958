"""Pools that rank the places of a job in other ways than `NodePool`: drawn, scattered, or by what
Apollo estimates. Each keeps its nodes in bit masks, so that a choice costs no walk over the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from skep_scheduler.placement.apollo import completion_s
from skep_scheduler.simulator.pools import NodePool, Place

US = 1_000_000
OFFERS = 8  # nodes with an image, and as many without it, whose estimates are compared
PLACES = ("consolidated", "crandom", "random", "apollo")


class ImageCaches:
    """The images of nodes. A node pulls one after the other, and keeps what it has pulled.

    now: the moment, in microseconds
    """

    def __init__(self, nodes: int, pull_s: float) -> None:
        self.now = 0
        self.pull_us = int(pull_s * US)
        self.having: dict[str, int] = {}  # by image, a mask of nodes
        self._pulls_until = [0] * nodes
        self._pulled_at: dict[tuple[int, str], int] = {}
        self._pulls = 0
        self._waited_us = 0

    def pull(self, place: Place, image: str, now: int) -> int:
        """Have all nodes of a place pull an image. Return when the last one has it, from now."""
        last = 0
        for node, _ in place:
            init, wait = self.estimate(node, image)
            if init:
                self._pulls += 1
                self._pulls_until[node] = self._pulled_at[node, image] = now + init + wait
                self.having[image] = self.having.get(image, 0) | 1 << node
            last = max(last, init + wait)
        self._waited_us += last
        return last

    def estimate(self, node: int, image: str) -> tuple[int, int]:
        """Return what a start on a node costs and how long it waits there (I and W of Apollo), in
        microseconds."""
        if not self.pull_us:
            return 0, 0
        at = self._pulled_at.get((node, image))
        if at is not None:
            return 0, max(at - self.now, 0)
        return self.pull_us, max(self._pulls_until[node] - self.now, 0)

    def figures(self) -> dict[str, float | int]:
        return {"image_pulls": self._pulls, "image_wait_s": self._waited_us / US}


class DrawnPool(NodePool):
    """One node if the job fits there, any of those on which it does, by a seed."""

    def __init__(self, nodes: Sequence[int], random: Random) -> None:
        super().__init__(nodes)
        self._random = random

    def _next_whole(self, mask: int, image: str) -> int:
        return nth(mask, self._random.randrange(mask.bit_count()))

    def _find(self, gpus: int, image: str) -> int:
        mask = 0
        for free in range(gpus, self.largest + 1):
            mask |= self._masks[free]
        return self._next_whole(mask, image) if mask else -1


class ScatteredPool(DrawnPool):
    """Any idle GPUs on any nodes, by a seed."""

    def take(self, gpus: int, image: str = "") -> Place | None:
        if gpus > self.free:
            return None
        taken: dict[int, int] = {}
        for _ in range(gpus):
            drawn = self._random.randrange(self.free)
            for free in range(1, self.largest + 1):
                mask = self._masks[free]
                of_level = free * mask.bit_count()
                if drawn < of_level:
                    node = nth(mask, drawn // free)
                    break
                drawn -= of_level
            self._change(node, -1)
            taken[node] = taken.get(node, 0) + 1
        return tuple(sorted(taken.items()))


class ApolloPool(NodePool):
    """The node with the least estimated completion; of equal ones that with the fewest free GPUs
    that are enough, then the first. Compared are some nodes that have the image and some that do
    not, the fullest ones first."""

    def __init__(self, nodes: Sequence[int], images: ImageCaches) -> None:
        super().__init__(nodes)
        self._images = images

    def _next_whole(self, mask: int, image: str) -> int:
        return self._best([mask], image)

    def _find(self, gpus: int, image: str) -> int:
        return self._best(self._masks[gpus:], image)

    def _best(self, levels: Sequence[int], image: str) -> int:
        having = self._images.having.get(image, 0)
        best, least = -1, float("inf")
        for known in (having, ~having):
            offers = 0
            for level in levels:
                mask = level & known
                while mask and offers < OFFERS:
                    node = (mask & -mask).bit_length() - 1
                    mask ^= 1 << node
                    offers += 1
                    init, wait = self._images.estimate(node, image)
                    estimated = completion_s(init, wait, 0.0)
                    if estimated < least:
                        best, least = node, estimated
        return best


def nth(mask: int, n: int) -> int:
    """Return the position of the n-th bit that is set, from 0."""
    low, size = 0, mask.bit_length()
    while size > 1:
        half = size // 2
        below = ((mask >> low) & ((1 << half) - 1)).bit_count()
        if n < below:
            size = half
        else:
            n, low, size = n - below, low + half, size - half
    return low
