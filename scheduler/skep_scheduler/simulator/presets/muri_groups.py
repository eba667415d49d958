"""Muri-S and Muri-L in the preset `muri-n8g8`, as Muri's artifact has them.

At each event the jobs are sorted, by remaining GPU time (Muri-S) or by the GPU time that they held
(Muri-L). In that order places are looked for on the empty cluster, each for the next four jobs of
that size; those jobs are grouped (`policies.muri`) as far as they need more GPUs than there are.
With `unpack`, groups that are slower than their jobs one after the other are taken apart. What fits
runs.

Habits: the remaining time of a job that did not run yet is the duration of the trace, and later
that of its iterations alone; the restart overheads of all jobs of a group are charged to each of
them at each event; between events jobs are kept by their size.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose
from typing import Any

from skep_scheduler.policies import muri
from skep_scheduler.simulator.presets.muri import (
    MuriJob,
    _Events,
    _outcome,
    check_sizes,
    check_stages,
)
from skep_scheduler.simulator.results import Outcome
from skep_scheduler.simulator.workload import TraceJob

SAME_S = 1e-4  # a start and an end that are closer are one event
Group = list["GroupedJob"]


class GroupedJob(MuriJob):
    """A job that may be in a group: `group_s` is how long an iteration takes there."""

    def __init__(self, trace: TraceJob, row: int) -> None:
        super().__init__(trace, row)
        self.stages_s = trace.stages_s
        self.remaining_s = trace.duration_s
        self.group_s = self.alone_s
        self.shared_by = 1
        self.gpu_share_s = 0.0
        self.own_overhead_s = self.overhead_s

    @property
    def gpu_s(self) -> float:
        return self.gpu_share_s

    def advance(self, now: float) -> None:
        """Count what it did since the last event."""
        if self.running:
            passed = now - self.last
            self.left -= max(passed - self.overhead_s, 0) / self.group_s
            self.executed += passed
            self.held_s += passed
            self.gpu_share_s += passed * self.gpus / self.shared_by
            self.remaining_s = self.left * self.alone_s
        self.last = now


def run_muri(
    trace_jobs: Sequence[TraceJob],
    nodes: Sequence[int],
    know_durations: bool,
    unpack: bool,
    report: Any = None,
) -> Outcome:
    """Run under Muri-S (`know_durations`) or Muri-L. Raises `WorkloadError`."""
    check_sizes(trace_jobs, sum(nodes), nodes)
    check_stages(trace_jobs, "muri", 1)
    events = _MergedEvents(trace_jobs, GroupedJob)
    active: list[GroupedJob] = []
    while events.pending or active:
        now, done, new = events.next_of_both()
        for job in done:
            job.held_s += now - job.last
            job.gpu_share_s += (now - job.last) * job.gpus / job.shared_by
            job.ended_at, job.running = now, False
            active.remove(job)
        active += new
        for job in active:
            job.advance(now)
            job.order = job.remaining_s * job.gpus if know_durations else job.attained_gpu_s
        active.sort(key=lambda job: job.order)
        chosen = _fitting(_groups(active, nodes, unpack), nodes)
        active.sort(key=lambda job: -job.gpus)
        _start(active, chosen, nodes, now)
        events.estimate((now + job.left * job.group_s, job) for job in active if job.running)
        events.report(report)
    return _outcome(events.jobs, sum(nodes))


class _MergedEvents(_Events[GroupedJob]):
    """Starts and ends that are close are one event, at the time of the start."""

    def next_of_both(self) -> tuple[float, list[GroupedJob], list[GroupedJob]]:
        start_at, end_at = self.start_at(), self.end_at
        if isclose(end_at, start_at, abs_tol=SAME_S) and self.pending:
            end_at = start_at
        now = min(start_at, end_at)
        done = self.ended(self.end_at) if end_at <= now else []
        return now, done, self.pending.pop()[1] if start_at <= now else []


def _groups(active: Sequence[GroupedJob], nodes: Sequence[int], unpack: bool) -> list[Group]:
    """Return the groups by the first of their jobs."""
    by_size: dict[int, list[GroupedJob]] = {}
    for job in active:
        by_size.setdefault(job.gpus, []).append(job)
    cluster, chosen = FreeNodes(nodes), dict.fromkeys(by_size, 0)
    taken: set[GroupedJob] = set()
    for job in active:
        size = job.gpus
        if job in taken or not cluster.take(size):
            continue
        last = min(chosen[size] + muri.MOST, len(by_size[size]))
        taken.update(by_size[size][chosen[size] : last])
        chosen[size] = last
    looked_at = {size: jobs[: chosen[size]] for size, jobs in by_size.items()}
    groups = []
    for made in muri.Grouping(looked_at, sum(nodes)).match().values():
        for group in made:
            apart = unpack and not muri.worth(group)
            groups += [[job] for job in group] if apart else [group]
    groups.sort(key=lambda group: min(job.order for job in group))
    return groups


def _fitting(groups: Sequence[Group], nodes: Sequence[int]) -> dict[GroupedJob, Group]:
    """Return the group of each job that finds a place, the first ones first."""
    cluster = FreeNodes(nodes)
    return {job: group for group in groups if cluster.take(group[0].gpus) for job in group}


def _start(
    active: Sequence[GroupedJob], chosen: dict[GroupedJob, Group], nodes: Sequence[int], now: float
) -> None:
    """Place the groups, the largest first, and stop who is in none of them."""
    cluster = FreeNodes(nodes)
    placed: dict[int, bool] = {}
    for job in active:
        group = chosen.get(job)
        runs = group is not None and placed.setdefault(
            id(group), id(group) in placed or cluster.take(job.gpus)
        )
        job.set_running(runs, now)
        if runs and group is not None:
            job.group_s = muri.iteration_s(group)
            job.shared_by = len(group)
            job.overhead_s = sum(one.own_overhead_s for one in group)


class FreeNodes:
    """Free GPUs by node. A job goes to the first node with enough, a larger one to empty nodes."""

    def __init__(self, nodes: Sequence[int]) -> None:
        self.free, self.size = list(nodes), max(nodes)
        self._full: set[int] = set()

    def take(self, gpus: int) -> bool:
        """Take GPUs for a job; return whether there are some. What did not fit once never will."""
        if gpus in self._full:
            return False
        if gpus <= self.size:
            node = next((n for n, free in enumerate(self.free) if free >= gpus), -1)
            if node >= 0:
                self.free[node] -= gpus
                return True
        else:
            empty = [n for n, free in enumerate(self.free) if free == self.size]
            needed = gpus // self.size
            if len(empty) >= needed:
                for n in empty[:needed]:
                    self.free[n] = 0
                return True
        self._full.add(gpus)
        return False
