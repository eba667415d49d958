"""Free room: what is left of every open node, indexed by how much is left.

A `Room` is built from a snapshot, changed while one tick plans, and thrown away. Nodes are known
by rank, their position in name order. A pool keeps the nodes of one GPU model by what they have
left, so that a search looks at kinds of nodes (few) and not at nodes (thousands).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from skep_scheduler.gang import Demand
from skep_scheduler.resources import NOTHING, Resources
from skep_scheduler.state import Node, Running, Snapshot
from skep_scheduler.topology import closest


class Pool:
    """Nodes with room, by free GPUs and then by all they have left; ranks ascend."""

    def __init__(self) -> None:
        self.buckets: dict[int, dict[Resources, list[int]]] = {}

    def add(self, left: Resources, rank: int) -> None:
        kinds = self.buckets.setdefault(left.gpus, {})
        insort(kinds.setdefault(left, []), rank)

    def remove(self, left: Resources, rank: int) -> None:
        kinds = self.buckets[left.gpus]
        ranks = kinds[left]
        del ranks[bisect_left(ranks, rank)]
        if not ranks:
            del kinds[left]
            if not kinds:
                del self.buckets[left.gpus]

    def kinds(self, least: int, most: int | None = None) -> Iterator[tuple[Resources, list[int]]]:
        """What nodes have left, and their ranks, where `least` to `most` GPUs are free."""
        for gpus, kinds in self.buckets.items():
            if gpus >= least and (most is None or gpus <= most):
                yield from kinds.items()

    def tightest(self, need: Resources, most: int | None = None) -> int | None:
        """The node that `need` fits on and leaves the least, or None."""
        for gpus in sorted(self.buckets):
            if gpus >= need.gpus and (most is None or gpus <= most):
                kinds = self.buckets[gpus]
                fits = [left for left in kinds if left.covers(need)]
                if fits:
                    return kinds[min(fits)][0]
        return None


class Left(NamedTuple):
    """What is left of a node. CPU and memory are negative on a node that shrank under load."""

    gpus: dict[str, int]
    cpu_millis: int
    memory_mb: int

    def of(self, model: str | None) -> Resources:
        """As tasks on `model` see it; to tasks without GPUs, GPUs of any model are idle ones."""
        gpus = sum(self.gpus.values()) if model is None else self.gpus.get(model, 0)
        return Resources(gpus, self.cpu_millis, self.memory_mb)

    def minus(self, demand: Demand, tasks: int) -> Left:
        gpus = self.gpus
        if demand.model is not None:
            gpus = {**gpus, demand.model: gpus.get(demand.model, 0) - demand.need.gpus * tasks}
        return Left(
            gpus,
            self.cpu_millis - demand.need.cpu_millis * tasks,
            self.memory_mb - demand.need.memory_mb * tasks,
        )


class NodeRoom:
    """A node, its free GPUs by UUID, and how much is left. A search changes only `left`: GPUs get
    their names when a packing becomes a placement."""

    __slots__ = ("free", "left", "node")

    def __init__(self, node: Node, taken: set[str], used: Resources) -> None:
        self.node = node
        self.free = {
            model: sorted([uuid for uuid in uuids if uuid not in taken])
            for model, uuids in sorted(node.gpus.items())
        }
        self.left = Left(
            {model: len(uuids) for model, uuids in self.free.items()},
            node.cpu_millis - used.cpu_millis,
            node.memory_mb - used.memory_mb,
        )


class Room:
    """The open nodes of a snapshot. `pools[model]` has the nodes with a free GPU of that model;
    `pools[None]` has all of them, for tasks without GPUs."""

    def __init__(self, snapshot: Snapshot) -> None:
        taken = {uuid for task in snapshot.running for uuid in task.gpu_uuids}
        used = _used_by_node(snapshot.running)
        self.nodes = [
            NodeRoom(node, taken, used.get(node.id, NOTHING))
            for node in sorted(snapshot.nodes, key=lambda node: (node.name, node.id))
            if node.schedulable
        ]
        self.pools: dict[str | None, Pool] = {None: Pool()}
        for rank in range(len(self.nodes)):
            self._list(rank)

    def pool(self, model: str | None) -> Pool:
        return self.pools.get(model) or Pool()

    def copies(self, rank: int, demand: Demand, at_most: int) -> int:
        """How many tasks of `demand` the node has room for, at most `at_most`."""
        return self.nodes[rank].left.of(demand.model).copies(demand.need, at_most)

    def take(self, rank: int, demand: Demand, tasks: int) -> None:
        """Count `tasks` tasks of `demand` as placed on the node; a negative number undoes it."""
        self._unlist(rank)
        self.nodes[rank].left = self.nodes[rank].left.minus(demand, tasks)
        self._list(rank)

    def choose(self, rank: int, demand: Demand) -> tuple[str, ...]:
        """The GPUs, closest together, for one task that `take` has counted."""
        if demand.model is None:
            return ()
        node = self.nodes[rank]
        free = node.free[demand.model]
        chosen = closest(free, demand.need.gpus, node.node.topology)
        node.free[demand.model] = [uuid for uuid in free if uuid not in chosen]
        return chosen

    def _list(self, rank: int) -> None:
        for model, left in self._places(rank):
            self.pools.setdefault(model, Pool()).add(left, rank)

    def _unlist(self, rank: int) -> None:
        for model, left in self._places(rank):
            self.pools[model].remove(left, rank)

    def _places(self, rank: int) -> Iterator[tuple[str | None, Resources]]:
        left = self.nodes[rank].left
        yield None, left.of(None)
        for model, gpus in left.gpus.items():
            if gpus:
                yield model, left.of(model)


def _used_by_node(running: Iterable[Running]) -> dict[str, Resources]:
    used: dict[str, Resources] = {}
    for task in running:
        held = Resources(len(task.gpu_uuids), task.cpu_millis, task.memory_mb)
        before = used.get(task.node_id)
        used[task.node_id] = held if before is None else before.plus(held)
    return used
