"""Nodes counted by what they have: the numbers behind a reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

from skep_scheduler.resources import Resources
from skep_scheduler.room import Room
from skep_scheduler.state import Node, Snapshot


class Stock:
    """How many nodes have each amount. Nodes without any GPU of the model do not count."""

    def __init__(self, nodes: Mapping[Resources, int]) -> None:
        self.nodes = nodes

    @cached_property
    def gpus(self) -> int:
        return sum(amount.gpus * n for amount, n in self.nodes.items())

    @cached_property
    def count(self) -> int:
        return sum(self.nodes.values())

    @cached_property
    def pieces(self) -> list[tuple[int, int]]:
        """(GPUs on a node, number of such nodes), most GPUs first."""
        by_gpus: Counter[int] = Counter()
        for amount, n in self.nodes.items():
            by_gpus[amount.gpus] += n
        return sorted(by_gpus.items(), reverse=True)

    def room_for(self, need: Resources, at_most: int) -> int:
        """Tasks that find room, at most `at_most`."""
        return min(at_most, sum(a.copies(need, at_most) * n for a, n in self.nodes.items()))

    def largest(self, need: Resources) -> Resources:
        """The most GPUs of a node; the most CPU of those with enough GPUs (of all, if none has);
        and so on with memory."""
        gpus = max((a.gpus for a in self.nodes), default=0)
        enough_gpus = [a for a in self.nodes if a.gpus >= need.gpus] or list(self.nodes)
        cpu = max((a.cpu_millis for a in enough_gpus), default=0)
        enough_cpu = [a for a in enough_gpus if a.cpu_millis >= need.cpu_millis] or enough_gpus
        return Resources(gpus, cpu, max((a.memory_mb for a in enough_cpu), default=0))


EMPTY = Stock({})


class Stocks:
    """Of the whole cluster, by GPU model; None: all nodes, for tasks without GPUs.

    `full`: every node as if nothing ran; `open`: of these the nodes that take new tasks; `free`:
    what is left of those now.
    """

    def __init__(self, snapshot: Snapshot, room: Room) -> None:
        self.full = _count(snapshot.nodes)
        self.open = _count(node for node in snapshot.nodes if node.schedulable)
        self.free: dict[str | None, Stock] = {
            model: Stock({left: len(ranks) for left, ranks in pool.kinds(0)})
            for model, pool in room.pools.items()
        }

    @cached_property
    def gpus_by_model(self) -> dict[str, int]:
        return {model: self.full[model].gpus for model in sorted(filter(None, self.full))}


def _count(nodes: Iterable[Node]) -> dict[str | None, Stock]:
    counts: dict[str | None, Counter[Resources]] = {}
    for node in nodes:
        sizes = {model: len(uuids) for model, uuids in node.gpus.items() if uuids}
        for model, gpus in [(None, sum(sizes.values())), *sizes.items()]:
            amount = Resources(gpus, node.cpu_millis, node.memory_mb)
            counts.setdefault(model, Counter())[amount] += 1
    return {model: Stock(counter) for model, counter in counts.items()}
