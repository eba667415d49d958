"""The event-driven kernel: order policies on pools of GPUs, without a tick.

Time is a whole number of microseconds. The events of one instant are applied in the order ends,
arrivals, wake-ups; then one decision is made. A running job stores when it was last looked at and
what it had left then; it is touched only when it starts, leaves or crosses a threshold.

The jobs of a domain wait in one heap for each number of GPUs, by the key of the policy: what was
refused once for a size is refused for all jobs of that size, because within a decision the pool
only fills up. Policies that displace have the running jobs in heaps, the last of the order first.
A job takes the places of those that come later, and each of them that fits beside it afterwards
keeps its place, so that none leaves without need.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skep_scheduler.policies.base import BackfillMode, Keep, Key, OrderPolicy
from skep_scheduler.policies.recurrence import Families, Recurrence
from skep_scheduler.simulator.invariants import NodeUse, require
from skep_scheduler.simulator.pools import GpuPool, Place
from skep_scheduler.simulator.ranked_pools import ImageCaches
from skep_scheduler.simulator.results import JobResult, Outcome
from skep_scheduler.simulator.workload import TraceJob

US = 1_000_000
END, ARRIVE, CROSS = range(3)


class SimulatedJob:
    """One job in time. It has the facts that order policies read (`policies.base.JobFacts`), as of
    the moment at which it was last touched."""

    __slots__ = (
        "deadline_at",
        "expected_s",
        "first_us",
        "gpus",
        "held_us",
        "id",
        "image",
        "left_us",
        "migrations",
        "nodes",
        "number",
        "place",
        "predicted_s",
        "preemptions",
        "priority",
        "ranked",
        "rate",
        "served",
        "since_us",
        "start_left_us",
        "start_us",
        "submit_us",
        "submitted_at",
        "trace",
        "version",
    )  # fmt: skip

    def __init__(self, trace: TraceJob, number: int, submit_us: int) -> None:
        self.trace, self.number = trace, number
        self.id, self.priority, self.gpus = trace.id, trace.priority, trace.gpus
        self.submitted_at, self.expected_s = trace.submit_s, trace.duration_s
        self.predicted_s: float | None = None
        self.image = trace.model or trace.group or trace.user or trace.vc
        self.deadline_at = trace.deadline_s
        self.submit_us = submit_us
        self.left_us = -int(-trace.duration_s * US // 1)
        self.held_us = self.served = 0  # served: GPU-microseconds
        self.place: Place | None = None
        self.since_us = self.start_us = self.start_left_us = 0
        self.first_us: int | None = None
        self.rate = 1.0
        self.version = self.preemptions = self.migrations = self.ranked = 0
        self.nodes: set[int] = set()  # where it ran last, if migrations cost something

    @property
    def left_s(self) -> float:
        return self.left_us / US

    @property
    def attained_gpu_s(self) -> float:
        return self.served / US

    def touch(self, now: int) -> None:
        """Bring what it has left and what it was served up to now."""
        ran = now - self.since_us
        if self.place is None or ran <= 0:
            return
        self.since_us = now
        self.held_us += ran
        self.served += ran * self.gpus
        # From the start, so that it is rounded once, however often the job is looked at.
        run = now - self.start_us
        self.left_us = self.start_left_us - (run if self.rate == 1.0 else int(run * self.rate))

    def start(self, place: Place, now: int, rate: float) -> None:
        self.place, self.rate = place, rate
        self.since_us = self.start_us = now
        self.start_left_us = self.left_us

    def end_us(self) -> int:
        """Return when it ends if it goes on: a duration is rounded up."""
        if self.rate == 1.0:
            return self.start_us + self.start_left_us
        return self.start_us - int(-self.start_left_us / self.rate // 1)


@dataclass(slots=True)
class SharedPool:
    """Jobs that share a pool under one policy: a virtual cluster, or all."""

    pool: GpuPool
    policy: OrderPolicy
    waiting: dict[int, list[tuple[Key, float, int, SimulatedJob]]] = field(default_factory=dict)
    # By number of GPUs and rate.
    running: dict[tuple[int, float], list[tuple[Any, ...]]] = field(default_factory=dict)
    never: list[SimulatedJob] = field(default_factory=list)
    # By number of GPUs: the cause for which jobs of this size wait since `accounted_us`.
    causes: dict[int, str] = field(default_factory=dict)
    # By number of GPUs: the first job of this size, which found no place, and still finds none as
    # long as nothing is given back: what is left of running jobs only falls.
    refused: dict[int, int] = field(default_factory=dict)
    accounted_us: int = 0
    waited: dict[str, int] = field(default_factory=dict)
    use: NodeUse = field(init=False)

    def __post_init__(self) -> None:
        self.use = NodeUse(self.pool)

    def account(self, now: int) -> None:
        passed = now - self.accounted_us
        if passed > 0:
            for gpus, cause in self.causes.items():
                jobs = len(self.waiting[gpus])
                if jobs:
                    self.waited[cause] = self.waited.get(cause, 0) + passed * jobs
        self.accounted_us = now


class Kernel:
    """Runs the jobs of a trace under order policies.

    `run` raises `RunInvariantError` where a node would have more GPUs in use than it has, where the
    pool counts others than its jobs hold, and where a job is lost.
    """

    def __init__(
        self,
        jobs: Sequence[TraceJob],
        domains: Mapping[str, tuple[GpuPool, OrderPolicy]],
        *,
        restart_s: float = 0.0,
        migration_s: float = 0.0,
        locality: Sequence[float] = (),
        speeds: Sequence[float] = (),
        families: Callable[[TraceJob], Families] | None = None,
        images: ImageCaches | None = None,
    ) -> None:
        """`domains` by the virtual cluster of a job; "" is for all others. `restart_s` is paid,
        with the GPUs held, by a job that starts again, and `migration_s` besides where it does so
        on other nodes. `locality`: the speed of a job on 1, 2, ... nodes, the last one for more;
        `speeds`: that of each node, the slowest of a job's counts; empty: 1. With `families`
        jobs that end teach how long others of their families will run; `images`: what the
        nodes have, of which a job pulls what they lack before it runs."""
        self.domains = {name: SharedPool(*made) for name, made in domains.items()}
        self.restart_us, self.migration_us = int(restart_s * US), int(migration_s * US)
        self.speeds = tuple(speeds)
        self._families, self._recurrence, self._images = families, Recurrence(), images
        self.locality = tuple(locality)
        self.jobs = [
            SimulatedJob(job, number, round(job.submit_s * US)) for number, job in enumerate(jobs)
        ]
        self._events = [(job.submit_us, ARRIVE, job.number, 0) for job in self.jobs]
        heapq.heapify(self._events)
        self._of = [self.domains[job.vc if job.vc in self.domains else ""] for job in jobs]
        self.now = 0
        self.series: list[tuple[float, int, int]] = []
        self._ended: dict[int, int] = {}
        self._refused: set[int] = set()  # by number
        self._sampled = 0

    def run(self, report: Any = None) -> Outcome:
        """Run all jobs to their ends. `report` is called with the number of jobs that ended."""
        events, jobs = self._events, self.jobs
        self.now = events[0][0] if events else 0
        for domain in self.domains.values():
            domain.accounted_us = self.now
        while events:
            now = self.now = events[0][0]
            if self._images is not None:
                self._images.now = now
            touched: dict[int, SharedPool] = {}
            while events and events[0][0] == now:
                _, kind, number, version = heapq.heappop(events)
                job, domain = jobs[number], self._of[number]
                if kind == ARRIVE:
                    domain.account(now)
                    if _is_refused(domain.policy, job):
                        self._refused.add(job.number)
                        continue
                    if self._families is not None:
                        job.predicted_s = self._recurrence.predict(self._families(job.trace))
                    self._wait(domain, job)
                    touched[id(domain)] = domain
                    continue
                if version != job.version:
                    continue
                domain.refused.clear()
                if kind == END:
                    domain.account(now)
                    self._end(domain, job)
                    if report is not None and len(self._ended) % 1000 == 0:
                        report(len(self._ended))
                else:
                    job.touch(now)
                    self._running(domain, job)
                touched[id(domain)] = domain
            for domain in touched.values():
                domain.account(now)
                self._decide(domain)
            if touched:
                self._sample()
        return self._outcome()

    def _wait(self, domain: SharedPool, job: SimulatedJob) -> None:
        if job.gpus > domain.pool.total:
            domain.never.append(job)
            return
        heap = domain.waiting.setdefault(job.gpus, [])
        key = domain.policy.key(job, self.now / US)
        heapq.heappush(heap, (key, job.submitted_at, job.number, job))

    def _end(self, domain: SharedPool, job: SimulatedJob) -> None:
        job.touch(self.now)
        assert job.place is not None
        if job.left_us > 1:
            require(False, f"{job.id} ends with {job.left_us} us left.", self.now / US)
        domain.pool.give_back(job.place)
        domain.use.give_back(job.place)
        job.place = None
        job.version += 1
        self._ended[job.number] = self.now
        if self._families is not None:
            of = self._families(job.trace)
            self._recurrence.learn(of, job.trace.duration_s, job.predicted_s)

    def _start(self, domain: SharedPool, job: SimulatedJob, place: Place) -> None:
        rate = self.locality[min(len(place), len(self.locality)) - 1] if self.locality else 1.0
        if self.speeds:
            rate *= min(self.speeds[node] for node, _ in place)
        paid = 0 if self._images is None else self._images.pull(place, job.image, self.now)
        if job.first_us is None:
            job.first_us = self.now
        else:
            paid += self.restart_us
            if self.migration_us and {node for node, _ in place} != job.nodes:
                paid += self.migration_us
                job.migrations += 1
            domain.refused.clear()
        if paid:
            job.left_us += paid if rate == 1.0 else int(paid * rate)
            domain.refused.clear()
        if self.migration_us:
            job.nodes = {node for node, _ in place}
        domain.use.take(job.id, job.gpus, place, self.now)
        job.start(place, self.now, rate)
        job.version += 1
        heapq.heappush(self._events, (job.end_us(), END, job.number, job.version))
        if domain.policy.keep is Keep.DISPLACE:
            self._running(domain, job)

    def _running(self, domain: SharedPool, job: SimulatedJob) -> None:
        """Put a running job where its key is now, and wake when the policy says it changes."""
        policy, now = domain.policy, self.now / US
        limit = getattr(policy, "next_limit", None)
        key = policy.key(job, now)
        if limit is not None:
            at = limit(job.attained_gpu_s)
            if at is not None and job.gpus:
                # One heap for all: a key changes only when it crosses a limit.
                crosses = self.now - int(-(at * US - job.served) // job.gpus)
                heapq.heappush(self._events, (crosses, CROSS, job.number, job.version))
            surrogate, size = tuple(-part for part in key), (0, 1.0)
        else:
            # What is left falls equally fast for all of one size and rate: the end stands for it.
            surrogate = (-key[0], -job.end_us(), *(-part for part in key[1:]))
            size = job.gpus, job.rate
        job.ranked += 1  # an earlier entry of it is stale
        entry = (surrogate, -job.submitted_at, -job.number, job.ranked, job)
        heapq.heappush(domain.running.setdefault(size, []), entry)

    def _decide(self, domain: SharedPool) -> None:
        mode = domain.policy.backfill_mode
        displace = domain.policy.keep is Keep.DISPLACE
        heads = [(*heap[0][:3], gpus) for gpus, heap in domain.waiting.items() if heap]
        heapq.heapify(heads)
        domain.causes.clear()
        pool = domain.pool
        blocked = False
        while heads:
            gpus = heapq.heappop(heads)[3]
            heap = domain.waiting[gpus]
            job = heap[0][3]
            place = None
            if not blocked and domain.refused.get(gpus) != job.number:
                place = pool.take(gpus, job.image)
                if place is None and displace:
                    place = self._displace(domain, job)
                if place is None:
                    domain.refused[gpus] = job.number
            if place is None:
                short = pool.free < gpus
                domain.causes[gpus] = (
                    "policy"
                    if blocked and not short
                    else "fair_share"
                    if short
                    else "fragmentation"
                )
                blocked = mode is not BackfillMode.SKIP
                continue
            heapq.heappop(heap)
            self._start(domain, job, place)
            if heap:
                heapq.heappush(heads, (*heap[0][:3], gpus))
        domain.use.agree(self.now)

    def _displace(self, domain: SharedPool, job: SimulatedJob) -> Place | None:
        """Take the places of running jobs that come later in the order, the last ones first."""
        policy, pool, now = domain.policy, domain.pool, self.now / US
        mine = policy.key(job, now)
        released: list[tuple[tuple[int, float], tuple[Any, ...]]] = []
        # Who started now paid for it and is later in the order by that: it keeps its place, as two
        # jobs would take it from each other without end.
        kept: list[tuple[tuple[int, float], tuple[Any, ...]]] = []
        costs = self.restart_us or self.migration_us or self._images is not None
        place = None
        while place is None:
            worst, size = None, (0, 1.0)
            for kind, heap in domain.running.items():
                while heap and (_is_stale(heap[0]) or (costs and heap[0][4].start_us == self.now)):
                    entry = heapq.heappop(heap)
                    if not _is_stale(entry):
                        kept.append((kind, entry))
                if heap:
                    other = heap[0][4]
                    other.touch(self.now)
                    rank = policy.key(other, now), other.submitted_at, other.number
                    if worst is None or rank > worst:
                        worst, size = rank, kind
            if worst is None or not mine < worst[0]:
                break
            entry = heapq.heappop(domain.running[size])
            released.append((size, entry))
            pool.give_back(entry[4].place)
            place = pool.take(job.gpus, job.image)
        for size, entry in kept:
            heapq.heappush(domain.running[size], entry)
        # The best of the order is asked first whether it can stay.
        leaving = []
        for size, entry in reversed(released):
            other = entry[4]
            if pool.take_again(other.place):
                heapq.heappush(domain.running[size], entry)
            else:
                assert place is not None
                leaving.append(other)
        if leaving:
            domain.refused.clear()
        for other in leaving:
            domain.use.give_back(other.place)
            other.place = None
            other.version += 1
            other.preemptions += 1
            self._wait(domain, other)
        return place

    def _sample(self) -> None:
        """Keep about 1,000 points of the series."""
        self._sampled += 1
        if self._sampled % max(len(self.jobs) // 500, 1):
            return
        waiting = sum(len(heap) for d in self.domains.values() for heap in d.waiting.values())
        used = sum(d.pool.total - d.pool.free for d in self.domains.values())
        self.series.append((self.now / US, waiting, used))

    def _outcome(self) -> Outcome:
        results = []
        for job in self.jobs:
            end = self._ended.get(job.number)
            deadline = job.deadline_at
            ended_at = None if end is None else job.submitted_at + (end - job.submit_us) / US
            results.append(
                JobResult(
                    job.id,
                    job.gpus,
                    job.submitted_at,
                    None if job.first_us is None else job.first_us / US,
                    ended_at,
                    job.held_us / US,
                    job.trace.duration_s,
                    job.trace.vc,
                    job.trace.user,
                    job.preemptions,
                    job.migrations,
                    met=None if deadline is None else ended_at is not None and ended_at <= deadline,
                    refused="deadline" if job.number in self._refused else "",
                )
            )
        waited: dict[str, float] = {}
        for domain in self.domains.values():
            for cause, us in domain.waited.items():
                waited[cause] = waited.get(cause, 0.0) + us / US
        gpus = sum(domain.pool.total for domain in self.domains.values())
        more = self._recurrence.figures() if self._families is not None else {}
        more |= self._images.figures() if self._images is not None else {}
        outcome = Outcome(results, gpus, queueing_s=waited, series=self.series, more=more)
        outcome.check(len(self.jobs))
        for domain in self.domains.values():
            require(domain.pool.free == domain.pool.total, "Jobs that ended hold GPUs.")
            require(not any(domain.waiting.values()), "A job waits beside idle GPUs.")
        return outcome


def _is_refused(policy: OrderPolicy, job: SimulatedJob) -> bool:
    """Return whether a policy that admits by deadline refuses a job: it would be late on idle
    GPUs."""
    if getattr(policy, "admission", "") != "refuse" or job.deadline_at is None:
        return False
    return job.submitted_at + job.trace.duration_s > job.deadline_at


def _is_stale(entry: tuple[Any, ...]) -> bool:
    job = entry[4]
    return job.place is None or entry[3] != job.ranked
