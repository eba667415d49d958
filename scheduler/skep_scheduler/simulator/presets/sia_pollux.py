"""Pollux in the presets `sia-64` and `sia-t4`: it does not know that GPUs are of several types.

It sees nodes of equal size, 16 of 4 GPUs in `sia-64`, and one model of the speed of a job, whatever
it ran on. A job on GPUs of two types keeps those of the type that it has most of; the others idle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from skep_scheduler.policies import pollux
from skep_scheduler.policies.goodput import Batches, best
from skep_scheduler.policies.sia import restart_factor
from skep_scheduler.simulator.presets.sia_jobs import JobGpus, SiaJob
from skep_scheduler.simulator.presets.sia_rounds import SiaCluster

FASTEST = ("dgx-ext", "dgx", "azure", "quad", "rtx", "aws")


class PolluxRounds:
    """Sizes by `policies.pollux`, on equal nodes; a job of the same size keeps its nodes."""

    def __init__(self, policy: pollux.Pollux, cluster: SiaCluster) -> None:
        self.round_s = policy.round_s
        self._policy, self._cluster = policy, cluster
        self._per_node = per_node = min(gpus for _, gpus in cluster.types.values())
        # (GPU type, its node) of each of the equal nodes
        self._nodes = [
            (name, node)
            for name, (nodes, gpus) in cluster.types.items()
            for node in range(nodes)
            for _ in range(gpus // per_node)
        ]
        self._most = min(cluster.capacity.values())
        small = [size for size in (1, 2, 4, 8) if size < per_node]
        self._sizes = [*small, *range(per_node, self._most + 1, per_node)]
        self._limits = next(iter(cluster.types))
        self._placed: dict[str, list[int]] = {}

    def decide(self, jobs: Sequence[SiaJob], now: int) -> Mapping[str, JobGpus]:
        gpus = len(self._nodes) * self._per_node
        fair = -(-gpus // len(jobs))
        known = [self._speedups(job, fair, now) for job in jobs]
        taken = pollux.decide(self._policy, known, self._sizes, gpus)
        wanted = {
            job.trace.id: self._sizes[size]
            for job, size in zip(jobs, taken, strict=True)
            if size is not None
        }
        self._placed = self._place(wanted, self._placed) or self._place(wanted, {}) or {}
        return {job: self._of_one_type(nodes) for job, nodes in self._placed.items()}

    def _speedups(self, job: SiaJob, fair: int, now: int) -> pollux.Speedups:
        app = job.application
        times = app.times[self._limits]
        most = min(max(2 * job.most_gpus, 1), self._most, app.largest // times.least)
        held = self._placed.get(job.trace.id)
        present = None if held is None else self._sizes.index(len(held))
        factor = restart_factor(now - job.trace.submit_s, job.restarts, self._policy.restart_s)
        learned = job.learned.get("")
        if learned is None or learned.speed is None or job.noise is None:
            found = [size / fair for size in self._sizes]
        else:
            sizes = np.array([*self._sizes, fair])
            batches = Batches(app.initial, app.largest, times.least, times.most)
            nodes = -(-sizes // self._per_node)
            goodput, _, _ = best(learned.speed, job.noise, batches, nodes, sizes)
            found = [float(value) / max(float(goodput[-1]), 1e-8) for value in goodput[:-1]]
        allowed = [
            value if size <= most else 0.0 for value, size in zip(found, self._sizes, strict=True)
        ]
        return pollux.Speedups(allowed, present, factor)

    def _place(
        self, wanted: Mapping[str, int], before: Mapping[str, list[int]]
    ) -> dict[str, list[int]] | None:
        """Return the nodes of each job, one for each GPU; None where that of `before` leaves no
        whole nodes for a large one."""
        free = [self._per_node] * len(self._nodes)
        placed = {}
        for job, size in wanted.items():
            if len(before.get(job, ())) == size:
                placed[job] = before[job]
                for node in before[job]:
                    free[node] -= 1
        for job, size in sorted(wanted.items(), key=lambda row: -row[1]):
            if job in placed:
                continue
            if size >= self._per_node:
                whole = [node for node, left in enumerate(free) if left == self._per_node]
                nodes = whole[: size // self._per_node]
            else:
                fits = [(left, node) for node, left in enumerate(free) if left >= size]
                nodes = [min(fits)[1]] if fits else []
            if len(nodes) < max(size // self._per_node, 1):
                return None
            placed[job] = [node for node in nodes for _ in range(min(size, self._per_node))]
            for node in placed[job]:
                free[node] -= 1
        return placed

    def _of_one_type(self, nodes: Sequence[int]) -> JobGpus:
        names = [self._nodes[node][0] for node in nodes]
        kept = max(dict.fromkeys(names), key=lambda name: (names.count(name), -FASTEST.index(name)))
        mine = [self._nodes[node][1] for node in nodes if self._nodes[node][0] == kept]
        return JobGpus(kept, tuple(mine))
