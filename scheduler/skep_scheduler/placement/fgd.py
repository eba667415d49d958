"""Fragmentation Gradient Descent (FGD): Weng et al., "Beware of Fragmentation", USENIX ATC 2023.

Sections 4 and 5. With typical requests m of popularity p_m, the fragmentation of node v is
`F_v = sum over m of p_m * f_v(m)`, in thousandths of a GPU: f_v(m) is all that is free on v's GPUs,
if m asks for no GPU or cannot run there, else the sum of what is free on GPUs with less than m asks
of one. A request goes to where F rises least: `score = int(100 * s((F_before - F_after) / 1000))`
with the logistic function s; a part of a GPU goes to the GPU with the best score, the first of
equals, whole GPUs to the first idle ones.

Typical requests are counted by (CPU, milli, number, models), the most frequent first, until they
are 95 % of all. As in the artifact memory counts for fitting only, and requests without GPUs count
as typical ones, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import exp

from skep_scheduler.placement.fractions import WHOLE, NodeState, PodRequest

TYPICAL_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Typical:
    """A typical request and its popularity."""

    cpu_millis: int
    milli: int
    number: int
    models: frozenset[str]
    share: float


def typical_of(requests: Iterable[PodRequest]) -> tuple[Typical, ...]:
    """Return the most frequent requests, the first of which are 95 % of all; shares sum to 1."""
    counted = Counter((r.cpu_millis, r.milli, r.number, r.models) for r in requests)
    ranked = sorted(counted.items(), key=lambda item: (-item[1], *(-part for part in item[0][:3])))
    total, seen, kept = sum(counted.values()), 0, []
    for what, count in ranked:
        kept.append((what, count))
        seen += count
        if seen >= TYPICAL_SHARE * total:
            break
    return tuple(Typical(*what, share=count / seen) for what, count in kept)


@dataclass(slots=True)
class Fgd:
    """Scores places by how much they fragment a node. Answers are kept: many nodes are alike."""

    typical: tuple[Typical, ...]
    _known: dict[tuple[int, tuple[int, ...], str], float] = field(default_factory=dict)

    def fragmentation(self, cpu_millis: int, gpus: tuple[int, ...], model: str) -> float:
        """Return F of a node with so much free, in thousandths of a GPU."""
        ordered = tuple(sorted(gpus))
        known = cpu_millis, ordered, model
        found = self._known.get(known)
        if found is None:
            found = self._known[known] = self._sum(*known)
        return found

    def _sum(self, cpu_millis: int, gpus: tuple[int, ...], model: str) -> float:
        free, total = sum(gpus), 0.0
        for some in self.typical:
            part = free
            accepted = not some.models or model in some.models
            if some.number and cpu_millis >= some.cpu_millis and accepted:
                less = [gpu for gpu in gpus if gpu < some.milli]
                if len(gpus) - len(less) >= some.number:
                    part = sum(less)
            total += some.share * part
        return total

    def score(self, node: NodeState, request: PodRequest) -> tuple[int, tuple[int, ...]]:
        """Return the score of a node on which a request fits, and the GPUs that it would get."""
        before = self.fragmentation(node.cpu_millis, node.gpus, node.model)
        cpu_left = node.cpu_millis - request.cpu_millis
        if not request.number or request.milli == WHOLE:
            idle = [gpu for gpu, free in enumerate(node.gpus) if free == WHOLE]
            chosen = tuple(idle[: request.number])
            return self._score(before, node, cpu_left, request, chosen), chosen
        best, best_gpu = -1, 0
        tried: set[int] = set()
        for gpu, free in enumerate(node.gpus):
            if free < request.milli or free in tried:
                continue
            tried.add(free)
            score = self._score(before, node, cpu_left, request, (gpu,))
            if score > best:
                best, best_gpu = score, gpu
        return best, (best_gpu,)

    def _score(
        self,
        before: float,
        node: NodeState,
        cpu_left: int,
        request: PodRequest,
        chosen: tuple[int, ...],
    ) -> int:
        gpus = list(node.gpus)
        for gpu in chosen:
            gpus[gpu] -= request.milli
        after = self.fragmentation(cpu_left, tuple(gpus), node.model)
        return int(100 / (1 + exp(-(before - after) / 1000)))
