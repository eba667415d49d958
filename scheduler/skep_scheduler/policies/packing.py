"""The contract of policies that put several jobs on one GPU, or say how much CPU and memory each
has: which GPUs each job holds from now on, and when to ask again.

A packing policy is a frozen dataclass as an order policy is: its fields are its parameters, made
with `base.parameter`. It is pure: what it remembers of a job is in `memo`, which it may lose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar, Protocol

Gpus = tuple[int, ...]  # numbers of GPUs


@dataclass(frozen=True, slots=True)
class HostDemand:
    """What one GPU of a job can use of a node, and how fast the job is with less.

    cpus: CPUs that prepare data as fast as the GPU takes it
    memory_gb: memory that holds all of the data set
    uncached: rate with none of it in memory, as a part of the best one
    """

    cpus: float
    memory_gb: float
    uncached: float

    def rate(self, cpus: float, memory_gb: float) -> float:
        """Return the rate with so much for each GPU, as a part of the best one."""
        kept = min(memory_gb / self.memory_gb, 1.0) if self.memory_gb else 1.0
        fetched = inf if kept >= 1 else self.uncached / (1 - kept)
        return min(1.0, cpus / self.cpus if self.cpus else 1.0, fetched)


@dataclass(slots=True)
class PackedFacts:
    """What a packing policy reads of a job.

    gpus: what it asks for; left_s: what it still has to run with GPUs of its own
    expected_s: how long it probably runs in all, judged by earlier jobs; None: nothing is known
    use, memory: what it needs of each of its GPUs, and of its memory, as parts of 1
    persistent: the part of the memory that stays between two iterations
    attained_gpu_s: GPU-seconds held so far; held: its GPUs now, none while it waits
    speed: its measured speed now, as a part of the one that it has alone
    amounts: its CPUs and GB of memory now; memo: what the policy remembers of it
    """

    id: str
    submitted_at: float
    gpus: int
    left_s: float
    use: float
    memory: float
    persistent: float
    demand: HostDemand
    expected_s: float | None = None
    attained_gpu_s: float = 0.0
    held: Gpus = ()
    speed: float = 0.0
    amounts: tuple[float, float] = (0.0, 0.0)
    memo: Any = None


@dataclass(frozen=True, slots=True)
class Machines:
    """The GPUs of each node, and the CPUs and GB of memory that a node has for each of them."""

    nodes: tuple[Gpus, ...]
    cpus: float
    memory_gb: float

    @property
    def gpus(self) -> int:
        return sum(map(len, self.nodes))


@dataclass(frozen=True, slots=True)
class Packing:
    """The GPUs of each job by its id; a job that is not named has none.

    shares: the part of the time in which it may run there, where it takes turns; else 1
    amounts: its CPUs and GB of memory; none: what falls to its GPUs
    wake_at: decide again then, even if nothing happens
    """

    places: Mapping[str, Gpus] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    amounts: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    wake_at: float = inf


class PackingPolicy(Protocol):
    """Decides which GPUs all jobs hold."""

    name: ClassVar[str]

    def decide(self, jobs: Sequence[PackedFacts], machines: Machines, now: float) -> Packing:
        """Return the places from now on. `jobs` are in the order of their submission."""
        ...


class FreeGpus:
    """GPUs that no job has yet within a decision."""

    def __init__(self, machines: Machines, held: Sequence[Gpus] = ()) -> None:
        taken = {gpu for gpus in held for gpu in gpus}
        self.nodes = [[gpu for gpu in node if gpu not in taken] for node in machines.nodes]
        self._node = {gpu: n for n, node in enumerate(machines.nodes) for gpu in node}
        self._size = [len(node) for node in machines.nodes]

    @property
    def count(self) -> int:
        return sum(map(len, self.nodes))

    def place(self, gpus: int) -> Gpus:
        """Return GPUs on the node with the fewest free ones that are enough; of more than one node
        whole free nodes, and one for the rest. Without such a place: none. They are not taken."""
        fitting = [node for node in self.nodes if len(node) >= gpus]
        if fitting:
            return tuple(min(fitting, key=len)[:gpus])
        found: list[int] = []
        for node, size in zip(self.nodes, self._size, strict=True):
            if len(node) == size and size and len(found) + size <= gpus:
                found += node
        rest = gpus - len(found)
        if not found or rest >= max(self._size):
            return ()
        taken = set(found)
        fitting = [node for node in self.nodes if len(node) >= rest and not taken & set(node)]
        if rest and not fitting:
            return ()
        return tuple(sorted(found + (min(fitting, key=len)[:rest] if rest else [])))

    def has(self, gpus: Gpus) -> bool:
        return all(gpu in self.nodes[self._node[gpu]] for gpu in gpus)

    def take(self, gpus: Gpus) -> None:
        for gpu in gpus:
            self.nodes[self._node[gpu]].remove(gpu)

    def give_back(self, gpus: Gpus) -> None:
        for gpu in gpus:
            node = self.nodes[self._node[gpu]]
            node.append(gpu)
            node.sort()

    def node_of(self, gpu: int) -> int:
        return self._node[gpu]
