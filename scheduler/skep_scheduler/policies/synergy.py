"""Synergy (Mohan et al., OSDI 2022), section 4: GPUs as asked for, CPU and memory by sensitivity.

At each round jobs are taken in `order` while GPUs last: `sum of n_j <= N`. Then `tune`:

1. Jobs by (GPUs, CPUs, memory) of their best demand, the largest first. Each goes to the node with
   the fewest free GPUs that has all of it.
2. No such node: with its proportional share, `n x (CPUs, memory) of a node / GPUs of a node`, or
   the best demand where that is less.
3. None again: on the node with the fewest free GPUs that are enough, those that have most CPU, then
   memory, for each GPU above their proportional share give it back until the job fits.

`proportional` gives each job the proportional share. The best demand is the least CPU and memory
with which the job runs at its best rate. A job larger than a node has whole nodes and its share of
them. Law: no job is slower than with its proportional share.

Between rounds jobs that come start with at most their share on what is idle. The reference `opt` of
the paper, an integer program, is enumerated in the tests. Our reading of the paper and its README.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, inf
from typing import ClassVar

from skep_scheduler.policies.base import parameter
from skep_scheduler.policies.packing import FreeGpus, Gpus, Machines, PackedFacts, Packing

EPSILON = 1e-6
Amounts = tuple[float, float]  # CPUs, GB of memory


@dataclass(frozen=True, slots=True)
class Synergy:
    """Each job has the GPUs that it asks for; CPU and memory of nodes go to jobs that get faster by
    them, and none is slower than with a proportional share."""

    name: ClassVar[str] = "synergy"

    order: str = parameter(
        "srtf", "Who comes first: submission, remaining time or GPU time served.",
        choices=("fifo", "srtf", "las"),
    )  # fmt: skip
    allocation: str = parameter(
        "tune", "How CPU and memory are given.", choices=("tune", "proportional")
    )
    round_s: float = parameter(300.0, "Seconds of a round.", minimum=1, maximum=86400)

    def decide(self, jobs: Sequence[PackedFacts], machines: Machines, now: float) -> Packing:
        number = floor(now / self.round_s + EPSILON)
        begins = abs(number * self.round_s - now) < EPSILON
        nodes = _Nodes(machines)
        ranked = sorted(jobs, key=self._key)
        if begins:
            chosen, free = [], machines.gpus
            for job in ranked:
                if job.gpus <= free:
                    chosen.append(job)
                    free -= job.gpus
        else:
            chosen = [job for job in jobs if job.held]
            for job in chosen:
                nodes.take(job, job.held, job.amounts)
        if begins:
            best = {job.id: self._best(job, machines) for job in chosen}
            # Those that run are tried where they run, so that few move.
            chosen.sort(key=lambda job: (-job.gpus, -best[job.id][0], -best[job.id][1]))
            for job in chosen:
                least = _least(best[job.id], nodes.share(job))
                if not nodes.place(job, best[job.id]) and not nodes.place(job, least):
                    nodes.take_back(job, least)
        for job in ranked:
            if job.id not in nodes.places:
                nodes.place(job, _least(self._best(job, machines), nodes.share(job)))
        wake = (number + 1) * self.round_s if jobs else inf
        return Packing(nodes.places, amounts=nodes.amounts, wake_at=wake)

    def _key(self, job: PackedFacts) -> tuple[float, float, str]:
        by = {"fifo": 0.0, "srtf": job.left_s, "las": job.attained_gpu_s}[self.order]
        return (by, job.submitted_at, job.id)

    def _best(self, job: PackedFacts, machines: Machines) -> Amounts:
        share = machines.cpus * job.gpus, machines.memory_gb * job.gpus
        if self.allocation == "proportional" or job.gpus > max(map(len, machines.nodes)):
            return share
        return job.demand.cpus * job.gpus, job.demand.memory_gb * job.gpus


class _Nodes:
    """Nodes with what is free within one decision."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.free = FreeGpus(machines)
        self.left = [[machines.cpus * len(n), machines.memory_gb * len(n)] for n in machines.nodes]
        self.places: dict[str, Gpus] = {}
        self.amounts: dict[str, Amounts] = {}
        self._on: list[list[PackedFacts]] = [[] for _ in machines.nodes]

    def share(self, job: PackedFacts) -> Amounts:
        return self.machines.cpus * job.gpus, self.machines.memory_gb * job.gpus

    def place(self, job: PackedFacts, amounts: Amounts) -> bool:
        if job.gpus > max(map(len, self.machines.nodes)):
            return self._place_on_nodes(job)
        fitting = [
            (job.held == () or self.free.node_of(job.held[0]) != n, len(gpus), n)
            for n, gpus in enumerate(self.free.nodes)
            if len(gpus) >= job.gpus and self._has(n, amounts)
        ]
        if not fitting:
            return False
        self._take_on(job, min(fitting)[2], amounts)
        return True

    def take_back(self, job: PackedFacts, wanted: Amounts) -> None:
        fitting = [(len(g), n) for n, g in enumerate(self.free.nodes) if len(g) >= job.gpus]
        if not fitting or job.gpus > max(map(len, self.machines.nodes)):
            return
        node = min(fitting)[1]
        for which in (0, 1):
            for other in sorted(self._on[node], key=lambda o: -self.amounts[o.id][which] / o.gpus):
                missing = wanted[which] - self.left[node][which]
                above = self.amounts[other.id][which] - self.share(other)[which]
                given = min(missing, above)
                if given > EPSILON:
                    kept = list(self.amounts[other.id])
                    kept[which] -= given
                    self.amounts[other.id] = (kept[0], kept[1])
                    self.left[node][which] += given
        if self._has(node, wanted):
            self._take_on(job, node, wanted)

    def take(self, job: PackedFacts, gpus: Gpus, amounts: Amounts) -> None:
        """Note that the job has GPUs, and its amounts in proportion to those on each node."""
        self.free.take(gpus)
        self.places[job.id], self.amounts[job.id] = gpus, amounts
        for gpu in gpus:
            node = self.free.node_of(gpu)
            for which in (0, 1):
                self.left[node][which] -= amounts[which] / len(gpus)
            if job not in self._on[node]:
                self._on[node].append(job)

    def _take_on(self, job: PackedFacts, node: int, amounts: Amounts) -> None:
        idle = self.free.nodes[node]
        own = job.held if job.held and self.free.has(job.held) else ()
        same = own if own and self.free.node_of(own[0]) == node else ()
        self.take(job, same or tuple(idle[: job.gpus]), amounts)

    def _place_on_nodes(self, job: PackedFacts) -> bool:
        place = job.held if job.held and self.free.has(job.held) else self.free.place(job.gpus)
        per_gpu = self.machines.cpus, self.machines.memory_gb
        counts: dict[int, int] = {}
        for gpu in place:
            counts[self.free.node_of(gpu)] = counts.get(self.free.node_of(gpu), 0) + 1
        if not place or not all(
            self._has(node, (per_gpu[0] * count, per_gpu[1] * count))
            for node, count in counts.items()
        ):
            return False
        self.take(job, place, self.share(job))
        return True

    def _has(self, node: int, amounts: Amounts) -> bool:
        return all(
            has + EPSILON >= some for has, some in zip(self.left[node], amounts, strict=True)
        )


def _least(one: Amounts, other: Amounts) -> Amounts:
    return min(one[0], other[0]), min(one[1], other[1])
