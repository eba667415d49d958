"""The loop of the presets `sia-64` and `sia-t4`: rounds, restarts, placements and figures.

Time starts at 0. In each round all jobs go on, then those that came by now and have not ended get
new GPUs: by Sia, or by Gavel (`sia_gavel`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Protocol

import numpy as np

from skep_scheduler.policies import sia
from skep_scheduler.policies.goodput import Array, Batches, best
from skep_scheduler.simulator.applications import PROFILED_NODES
from skep_scheduler.simulator.presets.sia_jobs import JobGpus, SiaJob
from skep_scheduler.simulator.results import JobResult, Outcome
from skep_scheduler.simulator.workload import WorkloadError

MOST_GPUS = 64  # of one job
IDLE_ROUNDS = 100_000  # without an end, before a run counts as stuck


@dataclass(frozen=True, slots=True)
class SiaCluster:
    """(nodes, GPUs of a node) by GPU type."""

    types: Mapping[str, tuple[int, int]]

    @property
    def capacity(self) -> dict[str, int]:
        return {name: nodes * gpus for name, (nodes, gpus) in self.types.items()}

    @property
    def gpus(self) -> int:
        return sum(self.capacity.values())


class SiaPolicy(Protocol):
    """Decides who holds what, at the end of each round of `round_s` seconds."""

    round_s: int

    def decide(self, jobs: Sequence[SiaJob], now: int) -> Mapping[str, JobGpus]: ...


def simulate(
    jobs: Sequence[SiaJob],
    cluster: SiaCluster,
    policy: SiaPolicy,
    report: Callable[[int], None] | None = None,
    never: Sequence[SiaJob] = (),
) -> Outcome:
    """Run `jobs` to their end; those that can `never` run are only reported. Raises
    `WorkloadError` where nothing ends any more."""
    coming = sorted(jobs, key=lambda job: job.trace.submit_s)[::-1]
    active: list[SiaJob] = []
    now = rounds = ended = idle = gpu_s = 0
    contention = most = 0
    series: list[tuple[float, int, int]] = []
    step = policy.round_s
    while coming or active:
        if not active:  # nothing happens in the rounds before the next job comes
            empty = max(ceil((coming[-1].trace.submit_s - now) / step) - 1, 0)
            now, rounds = now + empty * step, rounds + empty
        for job in active:
            job.run(step, now)
        now += step
        rounds += 1
        before = len(active)
        active = [job for job in active if job.ended_at is None]
        ended += before - len(active)
        idle = 0 if before != len(active) else idle + 1
        while coming and coming[-1].trace.submit_s <= now:
            active.append(coming.pop())
        if active:
            held = policy.decide(active, now)
            for job in active:
                job.allocate(held.get(job.trace.id), now)
        used = sum(len(job.held.nodes) for job in active if job.held is not None)
        gpu_s += used * step
        contention += len(active)
        most = max(most, len(active))
        if rounds % 10 == 0:
            series.append((float(now), sum(job.held is None for job in active), used))
        if report is not None:
            report(ended)
        if idle > IDLE_ROUNDS:
            raise WorkloadError(f"job {active[0].trace.id} makes no progress", "bad_trace")
    n = max(len(jobs), 1)
    return Outcome(
        [_result(job) for job in (*jobs, *never)],
        cluster.gpus,
        p99_by_index=True,
        series=series,
        more={
            "gpu_hours_per_job": gpu_s / 3600 / n,
            "restarts_per_job": sum(job.restarts for job in jobs) / n,
            "contention_mean": contention / max(rounds, 1),
            "contention_max": most,
            "rounds": rounds,
        },
    )


def _result(job: SiaJob) -> JobResult:
    return JobResult(
        job.trace.id,
        job.trace.gpus,
        job.trace.submit_s,
        job.started_at,
        job.ended_at,
        job.held_s,
        0.0,
        job.trace.vc,
        job.trace.user,
        preemptions=job.restarts,
        gpu_s=job.gpu_s,
    )


def place(
    sizes: Sequence[tuple[str, str, int]], types: Mapping[str, tuple[int, int]]
) -> dict[str, JobGpus]:
    """Give jobs (id, GPU type, GPUs) their nodes as the artifact does: by GPUs, the largest first;
    whole free nodes, and what remains on whatever is free from where the last one ended."""
    placed: dict[str, JobGpus] = {}
    for gpu_type, (count, per_node) in types.items():
        free = [per_node] * count
        at = 0
        mine = sorted((row for row in sizes if row[1] == gpu_type), key=lambda row: -row[2])
        for job, _, gpus in mine:
            nodes: list[int] = []
            whole = gpus // per_node
            for step in range(count):
                node = (at + step) % count
                if whole and free[node] == per_node:
                    nodes += [node] * per_node
                    free[node] = 0
                    whole -= 1
                    last = node
            if nodes:
                at = (last + 1) % count
            rest = gpus - len(nodes)
            for step in range(count):
                node = (at + step) % count
                part = min(free[node], rest)
                if part:
                    nodes += [node] * part
                    free[node] -= part
                    rest -= part
                    last = node
                if not rest:
                    break
            at = (last + 1) % count
            assert not rest, f"{job} has no place"
            placed[job] = JobGpus(gpu_type, tuple(nodes))
    return placed


class SiaRounds:
    """Sia: goodput in each configuration, of what the job learned on each GPU type so far."""

    def __init__(self, policy: sia.Sia, cluster: SiaCluster) -> None:
        self.round_s = policy.round_s
        self._policy, self._cluster = policy, cluster
        self._columns = sia.configurations(cluster.types, PROFILED_NODES)
        self._gpus = np.array([column.gpus for column in self._columns])
        self._nodes = np.array([column.nodes for column in self._columns])
        names = np.array([column.gpu_type for column in self._columns])
        self._of_type = {name: names == name for name in cluster.types}
        self._taken: dict[str, int] = {}

    def decide(self, jobs: Sequence[SiaJob], now: int) -> Mapping[str, JobGpus]:
        candidates = []
        for job in jobs:
            present = self._taken.get(job.trace.id)
            factor = sia.restart_factor(
                now - job.trace.submit_s, job.restarts, job.application.facts.believed_s
            )
            pinned = job.held is not None and job.restart_left > 0
            candidates.append(sia.Candidate(self._goodputs(job), present, factor, pinned))
        taken = sia.decide(self._policy, candidates, self._columns, self._cluster.capacity)
        self._taken = {
            job.trace.id: column
            for job, column in zip(jobs, taken, strict=True)
            if column is not None
        }
        sizes = [
            (job, self._columns[column].gpu_type, self._columns[column].gpus)
            for job, column in self._taken.items()
        ]
        return place(sizes, self._cluster.types)

    def _goodputs(self, job: SiaJob) -> Array:
        app, found = job.application, np.zeros(len(self._columns))
        fitted = [
            (name, job.learned[name])
            for name in self._cluster.types
            if name in job.learned and job.learned[name].speed is not None
        ]
        if not fitted:
            found[self._gpus == 1] = 1.0
            return found
        first = app.times[fitted[0][0]]
        for name, columns in self._of_type.items():
            learned = job.learned.get(name)
            known = name if learned is not None and learned.speed is not None else fitted[0][0]
            learned = job.learned[known]
            assert learned.speed is not None
            assert job.noise is not None
            times = app.times[known]
            most = min(max(2 * job.most_gpus, 1), MOST_GPUS, app.largest // times.least)
            batches = Batches(
                app.initial, job.trace.batch, times.least, app.believed_most(known), job.fixed
            )
            gpus = self._gpus[columns]
            nodes = self._nodes[columns]
            if known != name:
                nodes = -(-gpus // self._cluster.types[known][1])
            goodput, _, _ = best(learned.speed, job.noise, batches, nodes, gpus)
            if known != name:
                goodput = goodput * (app.times[name].alone_rate / first.alone_rate)
            found[columns] = np.where(gpus <= most, goodput, 0.0)
        return found
