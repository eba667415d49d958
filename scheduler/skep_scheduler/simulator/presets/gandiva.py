"""Gandiva (Xiao et al., OSDI 2018) as ElasticFlow's artifact has it: time slices on sets of nodes.

Its mechanism: jobs of g GPUs have node sets of their own, each with `ceil(g / GPUs per node)` nodes
and places for `capacity` jobs. A job goes to the least loaded set, or to a new set of free nodes;
when there are none, sets are oversubscribed, and their jobs take turns of 60 s. Before each event
nodes are moved between the sizes, in proportion to what their jobs ask for.

The habits of the artifact that decide its numbers: the load of a set counts the jobs that were ever
put there; an expansion that fails deals the jobs anew; pending jobs are walked while they are
removed, so that the one behind each that starts is passed over. Agents cannot suspend a job yet:
this policy is simulated only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor

from skep_scheduler.simulator.presets.elasticflow import (
    RESTART_EVERY,
    SLOT_S,
    SlotJob,
    Starts,
    outcome_of,
    overhead_s,
)
from skep_scheduler.simulator.results import Outcome
from skep_scheduler.simulator.workload import TraceJob, WorkloadError

SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 72, 88, 128, 256)


class NodeSet:
    """Nodes for jobs of one size. `load`: the jobs that were ever put there."""

    __slots__ = ("capacity", "jobs", "load", "nodes")

    def __init__(self, nodes: int, capacity: int) -> None:
        self.nodes, self.capacity, self.load = nodes, capacity, 0
        self.jobs: list[SlotJob] = []

    def add(self, job: SlotJob) -> None:
        self.jobs.append(job)
        self.load += 1


class Gandiva:
    """The node sets by size, each list with the least loaded first."""

    def __init__(self, nodes: int, gpus_per_node: int) -> None:
        self.free, self.per_node, self.gpus = nodes, gpus_per_node, nodes * gpus_per_node
        self.sets: dict[int, list[NodeSet]] = {size: [] for size in SIZES}

    def adjust(self) -> None:
        """Move nodes to the sizes whose jobs ask for more than their sets have."""
        wanted = {size: size * sum(len(s.jobs) for s in sets) for size, sets in self.sets.items()}
        occupied = {
            size: self.per_node * sum(s.nodes for s in sets) for size, sets in self.sets.items()
        }
        total = sum(wanted.values())
        for size in SIZES:
            if not wanted[size]:
                continue
            share = min(floor(wanted[size] / total * self.gpus), wanted[size])
            more = share - occupied[size]
            if more > 0:
                self._expand(size, ceil(more / size))
            elif more < 0:
                self._shrink(size, ceil(-more / size))

    def _expand(self, size: int, number: int) -> None:
        sets, nodes = self.sets[size], ceil(size / self.per_node)
        deal_anew = False
        for _ in range(number):
            enough = nodes <= self.free
            if enough:
                sets.append(self._new_set(size))
            deal_anew = not enough or nodes > 1
        if deal_anew:
            jobs = [job for node_set in sets for job in node_set.jobs]
            for node_set in sets:
                if node_set.jobs:
                    node_set.jobs, node_set.load = [], 0
            self._deal(sets, jobs)

    def _shrink(self, size: int, number: int) -> None:
        sets = self.sets[size]
        number = min(number, len(sets) - 1)
        if number < 1:
            return
        given, self.sets[size] = sets[:number], sets[number:]
        self.free += sum(node_set.nodes for node_set in given)
        self._deal(self.sets[size], [job for node_set in given for job in node_set.jobs])

    def _deal(self, sets: list[NodeSet], jobs: Sequence[SlotJob]) -> None:
        for job in jobs:
            sets[0].add(job)
            _sort(sets)

    def _new_set(self, size: int) -> NodeSet:
        nodes = ceil(size / self.per_node)
        self.free -= nodes
        return NodeSet(nodes, int(nodes * self.per_node / size))

    def place(self, job: SlotJob) -> bool:
        """Put a job on a set; False: there is neither a set of its size nor a free node."""
        sets = self.sets[job.gpus]
        fits = bool(sets) and sets[0].load + 1 < sets[0].capacity
        if sets:
            sets.append(sets.pop(0))  # the set that was asked stands behind those of equal load
        if fits:
            sets[-1].add(job)
        elif ceil(job.gpus / self.per_node) <= self.free:
            sets.append(self._new_set(job.gpus))
            sets[-1].add(job)
        elif sets:
            sets.append(sets.pop(0))  # the one behind it is oversubscribed
            sets[-1].add(job)
        else:
            return False
        _sort(sets)
        return True

    def execute(self, now: int, passed: int) -> tuple[list[SlotJob], bool]:
        """Let time pass for the jobs whose turn it is. Return those that ended, and whether a set
        gave its nodes back."""
        ended: list[SlotJob] = []
        released = False
        for size, sets in self.sets.items():
            for node_set in sets:
                turn = node_set.jobs[: node_set.capacity]
                done = [job for job in turn if _runs(job, now, passed)]
                if now % SLOT_S == 0 and len(node_set.jobs) > node_set.capacity:
                    node_set.jobs = node_set.jobs[len(turn) :] + turn
                    for job in turn:
                        job.preemptions += 1
                if done:
                    node_set.jobs = [job for job in node_set.jobs if job.ended_at is None]
                    ended += done
                if not node_set.jobs:
                    self.free += node_set.nodes
                    released = True
            self.sets[size] = [node_set for node_set in sets if node_set.jobs]
        return ended, released


def _sort(sets: list[NodeSet]) -> None:
    sets.sort(key=lambda node_set: node_set.load)


def _runs(job: SlotJob, now: int, passed: int) -> bool:
    """Return whether the job ended in its turn."""
    job.done += max(passed - job.overhead, 0)
    job.overhead = 0
    job.held += passed
    job.gpu_s += passed * job.gpus
    job.started_at = now - passed if job.started_at is None else job.started_at
    if job.done < job.duration:
        return False
    excess = job.done - job.duration
    job.ended_at = now - excess
    job.held -= excess
    job.gpu_s -= excess * job.gpus
    return True


def run(
    jobs: Sequence[TraceJob],
    nodes: int,
    gpus_per_node: int,
    report: Callable[[int], None] | None = None,
) -> Outcome:
    """Run all jobs; the sizes are those that they ask for. Raises `WorkloadError`."""
    for one in jobs:
        if one.gpus not in SIZES or one.gpus > nodes * gpus_per_node:
            raise WorkloadError(
                f"job {one.id} asks for {one.gpus} GPUs; gandiva of this preset has node sets for "
                f"{', '.join(str(size) for size in SIZES if size <= nodes * gpus_per_node)}"
            )
    every = [SlotJob(job, row) for row, job in enumerate(jobs)]
    starts = Starts(every)
    cluster = Gandiva(nodes, gpus_per_node)
    pending: list[SlotJob] = []
    once_pending: list[SlotJob] = []
    running: dict[int, SlotJob] = {}
    now, passed, passes, ended = starts.at(), 0, 0, 0
    while starts.events or pending or running:
        cluster.adjust()
        done, released = cluster.execute(now, passed)
        for job in done:
            del running[job.row]
        ended += len(done)
        for job in once_pending:
            job.overhead = 0
        if starts.at() == now:
            for job in starts.events.pop()[1]:
                if cluster.place(job):
                    running[job.row] = job
                else:
                    pending.append(job)
                    once_pending.append(job)
        if released:
            position = 0
            while position < len(pending):
                if cluster.place(pending[position]):
                    job = pending.pop(position)
                    running[job.row] = job
                position += 1
        if report is not None:
            report(ended)
        if not starts.events:
            now, passed = now + SLOT_S, SLOT_S
            continue
        restart = passes > 0 and passes % RESTART_EVERY == 0
        passes += 1
        for job in running.values():
            job.overhead = overhead_s(job.gpus, cluster.gpus, restart=restart)
        starts.merge(now)
        now, passed = starts.at(), starts.at() - now
    return outcome_of(every, cluster.gpus)
