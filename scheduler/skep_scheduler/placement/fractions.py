"""Places for requests of parts of a GPU, and how well known rules like each of them.

A node has CPU (millicores), memory (MiB) and, of each GPU, thousandths ("milli") that are free. A
request asks for CPU, memory and for `number` GPUs with `milli` of each; more than one GPU is asked
for whole. All scores are whole numbers; the largest wins, and the caller breaks ties by the order
of its nodes. `fgd` has the score of Fragmentation Gradient Descent; those here are what its paper
(Weng et al., ATC 2023, section 6) compares it with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

WHOLE = 1000
MOST_CPU = 128_000  # of the largest node: scores are fractions of it
MOST_GPU = 8 * WHOLE


@dataclass(frozen=True, slots=True)
class PodRequest:
    """It is what one pod asks for. `models`: those that it accepts; empty: any."""

    cpu_millis: int
    memory_mb: int
    milli: int
    number: int
    models: frozenset[str] = frozenset()

    @property
    def gpu_milli(self) -> int:
        return self.milli * self.number

    @property
    def kind(self) -> int:
        """Return what it counts as on a node: 0 a part of a GPU, else its number of GPUs."""
        return 0 if self.number == 1 and self.milli < WHOLE else self.number


@dataclass(frozen=True, slots=True)
class NodeState:
    """What is free on a node. `kinds`: the kinds of requests for GPUs that it has."""

    cpu_millis: int
    memory_mb: int
    gpus: tuple[int, ...]
    model: str
    kinds: frozenset[int] = frozenset()

    def with_request(self, request: PodRequest, chosen: tuple[int, ...]) -> NodeState:
        """Return the state with a request on the chosen GPUs."""
        gpus = list(self.gpus)
        for gpu in chosen:
            gpus[gpu] -= request.milli
        return NodeState(
            self.cpu_millis - request.cpu_millis,
            self.memory_mb - request.memory_mb,
            tuple(gpus),
            self.model,
            self.kinds | {request.kind} if request.number else self.kinds,
        )


Score = Callable[[NodeState, PodRequest], tuple[int, tuple[int, ...]]]  # score, chosen GPUs


def fits(node: NodeState, request: PodRequest) -> bool:
    if request.cpu_millis > node.cpu_millis or request.memory_mb > node.memory_mb:
        return False
    if not request.number:
        return True
    if request.models and node.model not in request.models:
        return False
    return sum(free >= request.milli for free in node.gpus) >= request.number


def tightest(node: NodeState, request: PodRequest) -> tuple[int, ...]:
    """Return the GPUs with the least that is free and enough, the first of equals."""
    if not request.number:
        return ()
    enough = [(free, gpu) for gpu, free in enumerate(node.gpus) if free >= request.milli]
    return tuple(gpu for _, gpu in sorted(enough)[: request.number])


def best_fit(node: NodeState, request: PodRequest) -> tuple[int, tuple[int, ...]]:
    """Prefer the least CPU and GPU left. The paper scales the scores of all nodes to 0 to 100
    afterwards, which keeps the best one the best."""
    cpu = (node.cpu_millis - request.cpu_millis) / MOST_CPU
    gpu = (sum(node.gpus) - request.gpu_milli) / MOST_GPU
    return int(100 * (1 - 0.5 * cpu - 0.5 * gpu)), tightest(node, request)


def dot_product(node: NodeState, request: PodRequest) -> tuple[int, tuple[int, ...]]:
    """Prefer the least product of what is free and what is asked for."""
    cpu = node.cpu_millis * request.cpu_millis / MOST_CPU**2
    gpu = sum(node.gpus) * request.gpu_milli / MOST_GPU**2
    return int(100 * (1 - (cpu + gpu) / 2)), tightest(node, request)


def gpu_packing(node: NodeState, request: PodRequest) -> tuple[int, tuple[int, ...]]:
    """Prefer GPUs that are shared already, then idle GPUs of used nodes, then idle nodes."""
    chosen = tightest(node, request)
    if not request.number:
        return 0, chosen
    if all(free == WHOLE for free in node.gpus):
        return max(33 - len(node.gpus), len(node.gpus)), chosen
    idle = sum(node.gpus[gpu] == WHOLE for gpu in chosen)
    if idle:
        return max(50 - idle, 33), chosen
    free = sum(node.gpus[gpu] * 100 // WHOLE for gpu in chosen)
    return max(100 - free // 10, 50), chosen


def gpu_clustering(node: NodeState, request: PodRequest) -> tuple[int, tuple[int, ...]]:
    """Prefer nodes that have requests of this kind, and of no other."""
    chosen = tightest(node, request)
    if not request.number:
        return 0, chosen
    used = 25 * (MOST_GPU - sum(node.gpus)) // MOST_GPU
    if not node.kinds:
        return used + 25, chosen
    if request.kind not in node.kinds:
        return used, chosen
    return used + (75 if len(node.kinds) == 1 else 50), chosen
