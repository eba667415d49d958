"""Muri's groups of jobs that take turns on storage and CPU, GPU and network (Zhao et al.,
*Multi-Resource Interleaving for Deep Learning Training*, SIGCOMM 2022).

Up to four jobs of as many GPUs share the same GPUs. In each part of a round every job of the group
has another resource to itself, so that an iteration of all takes as long as the slowest of each
part. Groups are made by a maximum weight matching in rounds: of jobs to pairs, of pairs to fours.
The weight of two is the share of the resources that they use together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import permutations
from math import isclose
from typing import Generic, Protocol, TypeVar

from skep_scheduler.policies.matching import max_weight_matching

RESOURCES = 4  # storage, CPU, GPU and network; the traces have the first two as one stage
MOST = 4  # jobs of a group
# How much longer an iteration takes than its stages, by the jobs of the group.
SLOWDOWN = (1.015, 1.33 / 1.015, 1.5 / 1.015, 1.37 / 1.015)
Stages = tuple[float, float, float]


class Interleaved(Protocol):
    """A job with what one iteration uses of storage and CPU, of the GPU, and of the network, and
    how long it takes alone (seconds)."""

    gpus: int
    alone_s: float

    @property
    def stages_s(self) -> Stages: ...


J = TypeVar("J", bound=Interleaved)


def iteration_s(group: Sequence[Interleaved]) -> float:
    """Return how long one iteration of all jobs of a group takes (seconds)."""
    if len(group) == 1:
        return group[0].alone_s
    return _together(tuple(sorted(job.stages_s for job in group)))


@cache
def _together(stages: tuple[Stages, ...]) -> float:
    best = min(_round_s(order) for order in permutations(stages))
    if len(stages) == 2:
        (a, b) = stages
        turns = max(a[0], b[1] + b[2]) + max(b[0], a[1] + a[2])
        best = min(best, turns)
    return best * SLOWDOWN[len(stages) - 1]


def _round_s(order: Sequence[Stages]) -> float:
    """Return how long a round takes with the jobs in this order: job k begins its storage stage k
    parts after the first, and each part waits for the job before it. Storage and CPU are one stage
    of two parts. Two rounds are looked at, as the first one has no job before it."""
    jobs = len(order)
    ends = [0.0] * (2 * RESOURCES + 1)
    for part in range(2 * RESOURCES):
        network, gpu, storage = ((part + shift) % RESOURCES for shift in (1, 2, 3))
        end = ends[part + 1]
        if network < jobs:
            end = max(end, ends[part] + order[network][2])
        if gpu < jobs:
            end = max(end, ends[part] + order[gpu][1])
        if part > 0 and storage < jobs:
            end = max(end, ends[part - 1] + order[storage][0])
        ends[part + 1] = end
        if part >= RESOURCES:
            took = end - ends[part + 1 - RESOURCES]
            if took > 0 and isclose(took, ends[part] - ends[part - RESOURCES], rel_tol=1e-3):
                return took
    return ends[-1] - ends[RESOURCES]


@cache
def _used(one: tuple[Stages, ...], other: tuple[Stages, ...]) -> float:
    """Return the share of the resources that two groups use together."""
    both = one + other
    used = sum(sum(stages) for stages in both)
    return used / (_together(tuple(sorted(both))) * RESOURCES)


@lru_cache(maxsize=20_000)  # from one event to the next, most sizes have the same jobs
def _mates(kinds: tuple[tuple[Stages, ...], ...]) -> list[int | None]:
    """Return the mate of each group, by what their jobs use."""
    weights = [
        [
            0.0 if u == v or len(one) + len(other) > MOST else _used(one, other)
            for v, other in enumerate(kinds)
        ]
        for u, one in enumerate(kinds)
    ]
    return max_weight_matching(weights)


class Grouping(Generic[J]):
    """Groups of jobs by the number of their GPUs."""

    def __init__(self, jobs: Mapping[int, Sequence[J]], gpus: int) -> None:
        """`gpus`: what the cluster has; jobs are grouped only as long as they need more."""
        self.groups = {size: [[job] for job in given] for size, given in jobs.items()}
        self.gpus = gpus
        self.needed = sum(size * len(given) for size, given in jobs.items())

    def match(self) -> Mapping[int, list[list[J]]]:
        """Match in rounds until all fit, or no group can grow. Returns the groups by size."""
        for _ in range(MOST):
            if self.needed <= self.gpus:
                break
            before = self.needed
            self.groups = {size: self._round(size, of) for size, of in self.groups.items() if of}
            if self.needed == before:
                break
        return self.groups

    def _round(self, size: int, groups: list[list[J]]) -> list[list[J]]:
        mates = _mates(tuple(tuple(job.stages_s for job in group) for group in groups))
        made = []
        for u, mate in enumerate(mates):
            if mate is None or mates[mate] != u:
                made.append(groups[u])
            elif mate < u:
                if self.needed > self.gpus:
                    made.append(groups[mate] + groups[u])
                    self.needed -= size
                else:
                    made += [groups[mate], groups[u]]
        return made


def worth(group: Sequence[Interleaved]) -> bool:
    """Return whether a group is at least as fast as its jobs one after the other."""
    return iteration_s(group) / sum(job.alone_s for job in group) <= 1
