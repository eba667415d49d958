"""Presets `elasticflow-*`: the simulator of ElasticFlow's artifact (Gu et al.,
ASPLOS 2023, figure 8). All times are whole seconds; a slot is 60 s.

What it does otherwise than the native kernel: events within a slot of the last one are merged
(`Starts.merge`), and the overhead of a change of placement is a formula (`overhead_s`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, log2
from typing import Any

from skep_scheduler.policies.base import OrderPolicy
from skep_scheduler.policies.tiresias import LIMITS
from skep_scheduler.simulator.presets.las import LasQueues
from skep_scheduler.simulator.presets.muri import check_sizes
from skep_scheduler.simulator.results import JobResult, Outcome
from skep_scheduler.simulator.speed import Profiles
from skep_scheduler.simulator.workload import TraceJob

SLOT_S = 60
NEVER = 1 << 60
RESTART_EVERY = 60  # decisions


class SlotJob:
    """A job in time; it has the facts of `policies.base.JobFacts`."""

    def __init__(self, trace: TraceJob, row: int) -> None:
        self.trace, self.row = trace, row
        self.id, self.gpus, self.priority = trace.id, trace.gpus, 0
        self.submitted_at = self.last = int(trace.submit_s)
        self.duration = int(trace.duration_s)
        self.deadline_at = None if trace.deadline_s is None else int(trace.deadline_s)
        self.done = self.executed = self.overhead = 0
        self.queue = 0
        self.running = False
        self.started_at: int | None = None
        self.ended_at: int | None = None
        self.end = 0  # planned
        self.held = self.preemptions = 0
        self.gpu_s = 0
        self.refused = False
        self.met_planned: bool | None = None  # where a preset does not go by `ended_at`

    def result(self) -> JobResult:
        met = None
        if self.deadline_at is not None:
            met = self.ended_at is not None and self.ended_at <= self.deadline_at
            met = met if self.met_planned is None else self.met_planned
        # The loop looks at an end up to a slot late; what it counted beyond was not held.
        late = 0 if self.ended_at is None else min(max(self.last - self.ended_at, 0), self.held)
        return JobResult(
            self.id,
            self.trace.gpus,
            self.submitted_at,
            self.started_at,
            self.ended_at,
            self.held - late,
            self.duration,
            self.trace.vc,
            self.trace.user,
            self.preemptions,
            gpu_s=self.gpu_s - late * self.size,
            met=met,
            refused="its deadline cannot be met" if self.refused else "",
        )

    size = property(lambda self: self.gpus)
    predicted_s = property(lambda self: None)
    expected_s = property(lambda self: float(self.duration))
    left_s = property(lambda self: float(self.duration - self.done))
    attained_gpu_s = property(lambda self: float(self.executed * self.gpus))


def overhead_s(gpus: int, total: int, *, restart: bool, known: bool = False) -> int:
    """Return what a change of placement costs a job on `gpus` of `total` GPUs."""
    large = total >= 256
    seconds = 7 if large else 2
    if known:
        return seconds
    if restart:
        seconds += 27 + (20 if large else 0)
    return int(seconds + 2 * (log2(gpus) + 1))


def max_gpus(model: str, batch: int, *, t4: bool) -> int:
    """Return up to how many GPUs a job of `model` is faster with more of them."""
    if t4:
        known = {("deepspeech2", 320): 32, ("yolov3", 64): 4}
        by_model = {"bert": 16, "cifar10": 16, "ncf": 1, "yolov3": 4}
        return known.get((model, batch), by_model.get(model, 64))
    known = {
        ("gpt2", 128): 16,
        ("gpt2", 256): 32,
        ("bert", 64): 8,
        ("inception3", 64): 16,
        ("inception3", 128): 32,
        ("resnet50", 64): 32,
        ("vgg16", 64): 32,
    }
    if model == "deepspeech2":
        return batch
    if model == "bert":
        return known.get((model, batch), 16)
    return known.get((model, batch), min(batch, 64))


def is_t4(profiles: Profiles) -> bool:
    """Whether these are the profiles of T4 GPUs, by a model that only those have."""
    return any(model == "yolov3" for model, _ in profiles.table)


class Starts:
    """Arrivals by second."""

    def __init__(self, jobs: Iterable[SlotJob]) -> None:
        by_second: dict[int, list[SlotJob]] = {}
        for job in jobs:
            by_second.setdefault(job.submitted_at, []).append(job)
        self.events = [(at, group) for at, group in sorted(by_second.items())]
        self.events.reverse()  # the next one is the last

    def at(self) -> int:
        return self.events[-1][0] if self.events else NEVER

    def merge(self, now: int) -> None:
        """Move the next arrivals to a slot from now if they are nearer and others come behind
        them, and join those within the slot."""
        events = self.events
        while len(events) > 1 and events[-1][0] <= now + SLOT_S:
            _, jobs = events.pop()
            events.append((now + SLOT_S, jobs))
            if events[-2][0] > now + SLOT_S:
                break
            _, first = events.pop()
            _, second = events.pop()
            events.append((now + SLOT_S, first + second))


def run_tiresias(
    jobs: Sequence[TraceJob], gpus: int, limits: Sequence[int] = LIMITS, report: Any = None
) -> Outcome:
    """Run under Tiresias on a pool of GPUs; sizes are as asked for."""
    check_sizes(jobs, gpus)
    every = [SlotJob(job, row) for row, job in enumerate(jobs)]
    starts = Starts(every)
    queues: LasQueues[SlotJob] = LasQueues(limits)
    active: list[SlotJob] = []
    end_at, ends, jump, passes = NEVER, list[SlotJob](), NEVER, -1
    while starts.events or active:
        now, done, new = min(starts.at(), end_at), list[SlotJob](), list[SlotJob]()
        if now > jump:
            now = jump
        else:
            done = ends if end_at <= now else []
            new = starts.events.pop()[1] if starts.at() <= now else []
        passes += 1
        restart = passes > 0 and passes % RESTART_EVERY == 0
        for job in done:
            _hold(job, now)
            job.ended_at, job.running = job.end, False
            queues.remove(job)
        if done:
            active = [job for job in active if job.ended_at is None]
        for job in new:
            queues.add(job)
            active.append(job)
        for job in active:
            if not job.running:
                continue
            ran = max(now - job.last - job.overhead, 0)
            _hold(job, now)
            job.done += ran
            job.executed += ran
            job.overhead = 0
            queues.demote(job, job.executed * job.gpus)
        free = gpus
        for job in queues.in_order():
            fits = free >= job.gpus
            if fits:
                free -= job.gpus
                if not job.running:
                    job.overhead = overhead_s(job.gpus, gpus, restart=restart)
                    job.last = now
                    job.started_at = now if job.started_at is None else job.started_at
            job.preemptions += job.running and not fits
            job.running = fits
        queues.settle()
        active.sort(key=lambda job: -job.gpus)
        end_at, ends, jump = NEVER, [], NEVER
        for job in active:
            if not job.running:
                continue
            left = job.duration - job.done
            if restart:
                job.overhead = overhead_s(job.gpus, gpus, restart=True)
                left += job.overhead
            job.end = now + left
            at = max(now + SLOT_S, job.end)
            if at < end_at:
                end_at, ends = at, [job]
            elif at == end_at:
                ends.append(job)
            if job.queue < len(limits):
                crosses = ceil((limits[job.queue] - job.executed) / job.gpus) + now
                jump = min(jump, max(crosses, now + SLOT_S))
        starts.merge(now)
        if report is not None:
            report(sum(job.ended_at is not None for job in done))
    return outcome_of(every, gpus)


def _hold(job: SlotJob, now: int) -> None:
    passed = now - job.last
    job.held += passed
    job.gpu_s += passed * job.gpus
    job.last = now


class Elastic(SlotJob):
    """A job whose number of GPUs changes. `left` is in steps; `held_gpus`: 0 while it waits."""

    def __init__(self, trace: TraceJob, row: int, rates: dict[int, float], most: int) -> None:
        super().__init__(trace, row)
        self.left = float(trace.iterations)
        self.rates = rates
        self.levels = [size for size in sorted(rates) if size <= most]
        # EDF knows nothing of saturation: as many as can run at all.
        self.base = min(max(rates), 64, trace.batch)
        self.held_gpus = 0

    size = property(lambda self: self.held_gpus)

    def progress(self, now: int, *, until_end: bool = True) -> None:
        """Make its steps since the last event; it may reach its end before `now`."""
        passed = now - self.last
        if self.held_gpus and passed > 0:
            rate = self.rates[self.held_gpus]
            real = passed - max(0, now - self.end) if until_end else passed
            useful = max(real - self.overhead, 0)
            before = self.left
            self.left -= useful * rate
            if self.left <= 0 and self.ended_at is None:
                self.ended_at = self.last + self.overhead + ceil(before / rate)
            self.held += passed
            self.gpu_s += passed * self.held_gpus
        self.overhead = 0
        self.last = now

    def resize(self, gpus: int, now: int) -> None:
        if gpus and self.started_at is None:
            self.started_at = now
        self.preemptions += self.held_gpus > 0 and gpus == 0
        self.held_gpus = gpus


def elastic_jobs(jobs: Sequence[TraceJob], profiles: Profiles) -> list[Elastic]:
    t4 = is_t4(profiles)
    made = []
    for row, job in enumerate(jobs):
        rates = dict(profiles.sizes(job.model, job.batch))
        made.append(Elastic(job, row, rates, max_gpus(job.model, job.batch, t4=t4)))
    return made


def run_edf(
    jobs: Sequence[TraceJob],
    gpus: int,
    policy: OrderPolicy,
    profiles: Profiles,
    report: Any = None,
) -> Outcome:
    """Run under elastic EDF: each job by its deadline as fast as it can with what is free.

    The artifact plans the sizes of all jobs until their ends at each event. Nothing that comes free
    can change a size before the next event, at which all is planned anew: so the sizes of now are
    enough, and give the same ends."""
    every = elastic_jobs(jobs, profiles)
    starts = Starts(every)
    active: list[Elastic] = []
    now, ending = starts.at(), list[Elastic]()
    new: list[Any] = starts.events.pop()[1]
    ended = 0

    def key(job: Elastic) -> Any:
        return policy.key(job, 0.0)  # a deadline does not change

    while True:
        for job in active:
            job.progress(now)
        for job in ending:
            if job.ended_at is None:
                job.ended_at = job.end
        ended += len(active)
        active = [job for job in active if job.ended_at is None]
        ended -= len(active)
        if new:
            for job in new:
                job.last = now
            active = active + new
            order = sorted(active, key=key)
        else:
            active.sort(key=key)
            order = active
        free = gpus
        for job in order:
            size = _size(job, free) if free else 0
            free -= size
            if size:
                job.end = ceil(now + job.left / job.rates[size])
            job.resize(size, now)
        if report is not None:
            report(ended)
        step = _next(starts, active, now)
        if step is None:
            return outcome_of(every, gpus)
        now, new, ending = step


def _next(
    starts: Starts, active: Sequence[Elastic], now: int
) -> tuple[int, list[Any], list[Elastic]] | None:
    """Return the next event: merged with those behind it within a slot, starts and ends alike."""
    ends: dict[int, list[Elastic]] = {}
    for job in active:
        if job.held_gpus:
            ends.setdefault(job.end, []).append(job)
    times = sorted({*ends, *(at for at, _ in starts.events[-3:])}, reverse=True)
    limit, found_at = now + SLOT_S, -1
    new: list[Any] = []
    ending: list[Elastic] = []

    def take(at: int) -> None:
        ending.extend(ends.get(at, ()))
        if starts.at() == at:
            new.extend(starts.events.pop()[1])
            if starts.events and starts.events[-1][0] not in times:
                times.append(starts.events[-1][0])
                times.sort(reverse=True)

    if not times:
        return None
    found_at = times.pop()
    take(found_at)
    while found_at <= limit and times:
        found_at = limit
        if times[-1] > limit:
            break
        take(times.pop())
    return found_at, new, ending


def _size(job: Elastic, free: int) -> int:
    if free >= job.base:
        return job.base
    return max((size for size in job.rates if size <= free), default=0)


def outcome_of(jobs: Sequence[SlotJob], gpus: int) -> Outcome:
    outcome = Outcome([job.result() for job in jobs], gpus)
    outcome.check(len(jobs))
    return outcome


Report = Callable[[int], None]
