"""Preset `muri-n8g8`: the simulator of Muri's artifact (Zhao et al., SIGCOMM 2022, figures 9, 10).

8 nodes of 8 GPUs; float seconds. What it does otherwise than the native kernel:

- A job's work is its iterations. The restart overhead (by model and GPUs) is charged to every
  running job at every event, so that intervals shorter than it give no progress.
- The end of a running job is estimated anew at each event, without overhead. Estimates that are
  close (1e-9 relative) are one event, and who is in it is done.
- SRTF and SRSF empty the cluster at each event and fill it in the order of the policy.
- Tiresias counts GPUs, and has its list discipline (`las.LasQueues`).
- AntMan: see `_AntMan`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor, isclose
from typing import Any, Generic, TypeVar

from skep_scheduler.policies.base import OrderPolicy
from skep_scheduler.policies.tiresias import LIMITS
from skep_scheduler.simulator.presets.las import LasQueues
from skep_scheduler.simulator.results import JobResult, Outcome
from skep_scheduler.simulator.workload import TraceJob, WorkloadError

NEVER = float("inf")
NODES, GPUS_PER_NODE = 8, 8
# Restart overhead in seconds of a model on 1, 2, 4, 8, 16 and 32 GPUs.
OVERHEAD_S = {
    "vgg16": (7, 7, 8, 9, 9, 10),
    "vgg19": (7, 7, 8, 9, 10, 10),
    "resnet18": (4, 5, 5, 7, 7, 7),
    "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8),
    "a2c": (38, 39, 39, 46, 46, 46),
    "dqn": (5, 5, 6, 6, 8, 8),
}
OTHER_OVERHEAD_S = 10


class MuriJob:
    """A job in time; it has the facts of `policies.base.JobFacts`."""

    def __init__(self, trace: TraceJob, row: int) -> None:
        self.trace, self.row = trace, row
        self.id, self.gpus, self.priority = trace.id, trace.gpus, -trace.priority
        self.opportunistic = trace.priority == 1
        self.submitted_at = self.last = trace.submit_s
        self.left = trace.iterations
        self.iteration_s = self.alone_s = trace.iteration_s
        self.overhead_s = overhead_s(trace.model, trace.gpus)
        self.deadline_at = trace.deadline_s
        self.running = False
        self.executed = 0.0
        self.queue = 0
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.held_s = 0.0
        self.preemptions = 0
        self.order: Any = None
        self.places: list[Gpu] = []
        self.node = -1

    predicted_s = None

    @property
    def expected_s(self) -> float:
        return self.trace.iterations * self.iteration_s

    @property
    def left_s(self) -> float:
        return self.left * self.iteration_s

    @property
    def attained_gpu_s(self) -> float:
        return self.executed * self.gpus

    @property
    def gpu_s(self) -> float | None:
        """What it held of GPUs, where others were on them; None: all of them to itself."""
        return 0.0 if self.opportunistic and self.places else None

    def progress(self, now: float) -> None:
        passed = now - self.last
        self.left -= max(passed - self.overhead_s, 0) / self.iteration_s
        self.held_s += passed
        self.last = now

    def set_running(self, running: bool, now: float) -> None:
        if running and not self.running:
            self.last = now
            self.started_at = now if self.started_at is None else self.started_at
        self.preemptions += self.running and not running
        self.running = running


J = TypeVar("J", bound=MuriJob)


def overhead_s(model: str, gpus: int) -> int:
    """Return what a restart of `model` costs on so many GPUs (seconds)."""
    row = OVERHEAD_S.get(model)
    if row is None:
        return OTHER_OVERHEAD_S
    return row[min(max(gpus, 1).bit_length() - 1, len(row) - 1)]


def run_ordered(
    jobs: Sequence[TraceJob], nodes: Sequence[int], policy: OrderPolicy, report: Any = None
) -> Outcome:
    """Run under SRTF or SRSF. Raises `WorkloadError`."""
    check_sizes(jobs, sum(nodes), nodes)
    events, active = _Events(jobs, MuriJob), list[MuriJob]()
    running: list[MuriJob] = []
    while events.pending or active:
        now, new = events.next()
        done = events.ended(now)
        for job in running:
            job.progress(now)
            job.order = policy.key(job, now)
        for job in done:
            job.ended_at, job.running = now, False
            active.remove(job)
        for job in new:
            job.order = policy.key(job, now)
            active.append(job)
        active.sort(key=lambda job: job.order)
        placed = _pack(active, nodes)
        for job in running:
            if job.ended_at is None and job not in placed:
                job.set_running(False, now)
        for job in active:
            if job in placed:
                job.set_running(True, now)
        running = [job for job in active if job.running]
        events.estimate((now + job.left_s, job) for job in running)
        events.report(report)
    return _outcome(events.jobs, sum(nodes))


def run_tiresias(
    jobs: Sequence[TraceJob],
    nodes: Sequence[int],
    limits: Sequence[int] = LIMITS,
    report: Any = None,
) -> Outcome:
    """Run under Tiresias-L on a pool of GPUs. Raises `WorkloadError`."""
    gpus = sum(nodes)
    check_sizes(jobs, gpus)
    queues: LasQueues[MuriJob] = LasQueues(limits)
    starts = _groups(jobs, MuriJob)
    every = [job for _, group in starts for job in group]
    starts.reverse()
    running: list[MuriJob] = []
    active, ended = 0, 0
    end_at, ends, jump = NEVER, list[MuriJob](), NEVER
    while starts or active:
        start_at = starts[-1][0] if starts else NEVER
        now = min(start_at, end_at)
        done: list[MuriJob] = []
        new: list[MuriJob] = []
        if now > jump:
            now = jump
        else:
            done = ends if end_at <= start_at else []
            new = starts.pop()[1] if start_at <= end_at else []
        for job in done:
            job.progress(now)
            job.ended_at, job.running = now, False
            queues.remove(job)
        for job in new:
            queues.add(job)
        active += len(new) - len(done)
        ended += len(done)
        running = [job for job in running if job.running]
        running.sort(key=lambda job: (job.submitted_at, job.row))
        for job in running:
            job.executed += now - job.last
            job.progress(now)
            queues.demote(job, _service(job, limits, now))
        free = gpus
        chosen = []
        for job in queues.in_order():
            fits = free >= job.gpus
            job.set_running(fits, now)
            if fits:
                free -= job.gpus
                chosen.append(job)
        queues.settle()
        running = chosen
        end_at, ends, jump = NEVER, [], NEVER
        for job in running:
            at = now + job.left_s
            if at < end_at:
                end_at, ends = at, [job]
            elif at == end_at:
                ends.append(job)
            if job.queue < len(limits):
                limit = limits[job.queue]
                jump = min(jump, ceil(limit / job.gpus) - job.executed + now)
        if report is not None:
            report(ended)
    return _outcome(every, gpus)


def _service(job: MuriJob, limits: Sequence[int], now: float) -> float:
    """Return the GPU seconds by which a job is demoted. Where what is missing to its limit is less
    than the clock can show, the limit is reached: else the clock would stand still."""
    service = job.executed * job.gpus
    if job.queue < len(limits):
        limit = limits[job.queue]
        if service < limit and ceil(limit / job.gpus) - job.executed + now <= now:
            return limit
    return service


class Gpu:
    """One GPU. `load` is the sum of what its jobs add, in the artifact's order of operations: the
    residues of the float additions decide ties."""

    __slots__ = ("guest", "guests", "index", "load", "owner")

    def __init__(self, index: int) -> None:
        self.index = index
        self.load = 0.0
        self.owner: MuriJob | None = None
        self.guests: list[MuriJob] = []


def run_antman(
    jobs: Sequence[TraceJob], nodes: Sequence[int], policy: OrderPolicy, report: Any = None
) -> Outcome:
    """Run under AntMan (Xiao et al., OSDI 2020) as Muri's artifact has it: guaranteed jobs get GPUs
    where no other guaranteed job is, and may hold some while they wait for the rest; opportunistic
    ones run beside others where the load is low, as fast as those leave them. Raises
    `WorkloadError`."""
    check_sizes(jobs, sum(nodes), nodes)
    check_stages(jobs, policy.name, 2)
    cluster = _AntMan(nodes)
    events = _Events(jobs, MuriJob)
    running: list[MuriJob] = []
    pending: list[MuriJob] = []
    while events.pending or running or pending:
        now, new = events.next()
        for job in running:
            job.progress(now)
        for job in events.ended(now):
            job.ended_at, job.running = now, False
            cluster.leave(job)
        running = [job for job in running if job.running]
        pending += new
        pending.sort(key=lambda job: (policy.key(job, now), job.submitted_at, job.row))
        for job in pending:
            if cluster.take(job):
                job.set_running(True, now)
                running.append(job)
        pending = [job for job in pending if not job.running]
        for job in running:
            if job.opportunistic:
                job.iteration_s = cluster.iteration_s(job)
        running.sort(key=lambda job: (policy.key(job, now), job.submitted_at, job.row))
        events.estimate((now + job.left * job.iteration_s, job) for job in running)
        events.report(report)
    return _outcome(events.jobs, sum(nodes))


class _AntMan:
    """GPUs with their load, and who is on them."""

    def __init__(self, nodes: Sequence[int]) -> None:
        numbers = iter(range(sum(nodes)))
        self.nodes = [[Gpu(next(numbers)) for _ in range(gpus)] for gpus in nodes]
        self.gpus = [gpu for node in self.nodes for gpu in node]

    def take(self, job: MuriJob) -> bool:
        """Return whether the job has all of its GPUs now."""
        if job.opportunistic:
            return self._join(job)
        if job.gpus <= len(self.nodes[0]):
            self._take_on_one_node(job)
        else:
            self._take_nodes(job)
        if len(job.places) < job.gpus:
            return False
        for gpu in job.places:
            gpu.load += 0.01
        return True

    def leave(self, job: MuriJob) -> None:
        for gpu in job.places:
            if job.opportunistic:
                gpu.load -= 0.9
                gpu.guests.remove(job)
            else:
                gpu.load -= 0.1
                gpu.owner = None

    def iteration_s(self, job: MuriJob) -> float:
        """Return how long an iteration of an opportunistic job takes beside the others."""
        slowest = job.alone_s
        for gpu in job.places:
            owner = gpu.owner
            if owner is not None and owner.running:
                slowest = max(slowest, _turns(job, owner) * owner.alone_s)
            if any(guest is not job for guest in gpu.guests):
                slowest = max(slowest, 2 * job.alone_s)
        return slowest

    def _join(self, job: MuriJob) -> bool:
        idle = sorted((gpu for gpu in self.gpus if gpu.load < 0.8), key=lambda gpu: gpu.load)
        if len(idle) < job.gpus:
            return False
        job.places = idle[: job.gpus]
        for gpu in job.places:
            gpu.load += 0.9
            gpu.guests.append(job)
        return True

    def _take_on_one_node(self, job: MuriJob) -> None:
        free = [[gpu for gpu in node if gpu.owner is None] for node in self.nodes]
        if job.node < 0:
            enough = [n for n, gpus in enumerate(free) if len(gpus) >= job.gpus]
            job.node = enough[0] if enough else max(range(len(free)), key=lambda n: len(free[n]))
            if not free[job.node]:
                job.node = -1
                return
        self._hold(job, free[job.node][: job.gpus - len(job.places)])

    def _take_nodes(self, job: MuriJob) -> None:
        for node in self.nodes:
            if len(job.places) < job.gpus and all(gpu.owner is None for gpu in node):
                self._hold(job, node)

    def _hold(self, job: MuriJob, gpus: Sequence[Gpu]) -> None:
        for gpu in gpus:
            gpu.owner = job
            gpu.load += 0.1 - 0.01
            job.places.append(gpu)


def _turns(job: MuriJob, other: MuriJob) -> int:
    """Return how many iterations of `other` one of `job` takes in the gaps that they leave of
    storage and CPU, GPU and network."""
    a0, a1, a2 = job.trace.stages_s
    b0, b1, b2 = other.trace.stages_s
    turns = floor(a0 / (b1 + b2))
    rest = a0 % (b1 + b2)
    if rest > 0:
        turns += 1
        a1 -= min(a1, b2, b1 + b2 - rest)
    turns += floor(a1 / (b0 + b2))
    rest = a1 % (b0 + b2)
    if rest > 0:
        turns += 1
        if rest < b0:
            a2 -= min(a2, b0 + b1 - rest)
    turns += floor(a2 / (b0 + b1))
    if a2 % (b0 + b1) > b0:
        turns += 1
    return turns


class _Events(Generic[J]):
    """Starts and estimated ends. Start and end coincide only if their times are equal."""

    def __init__(self, jobs: Sequence[TraceJob], make: type[J]) -> None:
        self.pending = _groups(jobs, make)
        self.jobs = [job for _, group in self.pending for job in group]
        self.pending.reverse()
        self.end_at, self._ends = NEVER, list[J]()
        self._count = 0

    def start_at(self) -> float:
        return self.pending[-1][0] if self.pending else NEVER

    def next(self) -> tuple[float, list[J]]:
        start_at = self.start_at()
        now = min(start_at, self.end_at)
        return now, self.pending.pop()[1] if start_at <= self.end_at else []

    def ended(self, now: float) -> list[J]:
        done = self._ends if self.end_at <= now else []
        self._count += len(done)
        return done

    def estimate(self, ends: Any) -> None:
        groups: list[tuple[float, list[J]]] = []
        for at, job in ends:
            for known, members in groups:
                if isclose(at, known, rel_tol=1e-9):
                    members.append(job)
                    break
            else:
                groups.append((at, [job]))
        self.end_at, self._ends = min(groups, key=lambda group: group[0], default=(NEVER, []))

    def report(self, report: Callable[[int], None] | None) -> None:
        if report is not None:
            report(self._count)


def check_sizes(jobs: Sequence[TraceJob], gpus: int, nodes: Sequence[int] = ()) -> None:
    """Refuse jobs that could never start: without an end of them the simulation would have none.
    With `nodes`, a job larger than the largest of them takes whole nodes of that size.

    Raises `WorkloadError`.
    """
    size = max(nodes, default=gpus)
    whole = sum(node == size for node in nodes)
    for job in jobs:
        if job.gpus > gpus:
            raise WorkloadError(f"job {job.id} needs {job.gpus} GPUs; the cluster has {gpus}")
        if nodes and job.gpus > size and job.gpus % size:
            raise WorkloadError(
                f"job {job.id} needs {job.gpus} GPUs: more than the {size} of a node, and no whole "
                "nodes. Round its GPUs up, or choose --preset native"
            )
        if job.gpus > size and job.gpus // size > whole:
            raise WorkloadError(
                f"job {job.id} needs {job.gpus // size} whole nodes of {size} GPUs; the cluster "
                f"has {whole}"
            )


def check_stages(jobs: Sequence[TraceJob], policy: str, least: int) -> None:
    """Refuse jobs whose iteration uses fewer than `least` of storage and CPU, GPU, and network.

    Raises `WorkloadError`.
    """
    for job in jobs:
        if sum(stage > 0 for stage in job.stages_s) < least:
            raise WorkloadError(
                f"job {job.id}: at least {least} of resource_time_0, resource_time_1 and "
                f"resource_time_2 must be above 0: {policy} shares GPUs by them"
            )


def _groups(jobs: Sequence[TraceJob], make: type[J]) -> list[tuple[float, list[J]]]:
    """Return the starts by time: one that is close to an earlier one joins it."""
    groups: list[tuple[float, list[J]]] = []
    made = [make(job, row) for row, job in enumerate(jobs)]
    for job in sorted(made, key=lambda job: job.submitted_at):
        if groups and isclose(groups[-1][0], job.submitted_at, rel_tol=1e-9):
            groups[-1][1].append(job)
        else:
            groups.append((job.submitted_at, [job]))
    return groups


def _pack(active: Sequence[MuriJob], nodes: Sequence[int]) -> set[MuriJob]:
    """Fill an empty cluster in order: on the first node with enough free GPUs; a job larger than a
    node on empty nodes."""
    free, size = list(nodes), max(nodes)
    left = sum(free)
    placed = set()
    for job in active:
        if not left:
            break
        if job.gpus > left:
            continue
        if job.gpus <= size:
            node = next((n for n, gpus in enumerate(free) if gpus >= job.gpus), -1)
            if node < 0:
                continue
            free[node] -= job.gpus
        else:
            empty = [n for n, gpus in enumerate(free) if gpus == size]
            needed = job.gpus // size
            if len(empty) < needed:
                continue
            for n in empty[:needed]:
                free[n] = 0
        left -= job.gpus
        placed.add(job)
    return placed


def _outcome(jobs: Sequence[MuriJob], gpus: int) -> Outcome:
    results = [
        JobResult(
            job.id,
            job.gpus,
            job.submitted_at,
            job.started_at,
            job.ended_at,
            job.held_s,
            job.trace.iterations * job.alone_s,
            job.trace.vc,
            job.trace.user,
            job.preemptions,
            gpu_s=job.gpu_s,
        )
        for job in jobs
    ]
    outcome = Outcome(results, gpus, absolute_makespan=True, p99_by_index=True)
    outcome.check(len(jobs))
    return outcome
