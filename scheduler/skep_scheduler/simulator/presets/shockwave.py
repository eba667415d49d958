"""Preset `shockwave`: the simulator of Shockwave (Zheng et al., NSDI 2023), a fork of Gavel's.

GPUs of one model, float seconds, rounds of 120 s. A round: who runs makes whole steps; the round
ends with the last of them, and the time charged to a job counts from the end of the round before.
Jobs that came or ended make shares anew, at most once in 1,000 s; the priority of a job is its
share by the part of the time that it got since then. Those of the highest priority run, and others
fill what is idle. Jobs train with batch sizes that change (`batch_sizes`): when one that ran wants
another, it gets it at the end of the next round in which it runs; the number of epochs that it has
made, and has to make, stays.

Habits of the artifact: a job that did not run in the round before makes no steps in the first 20 s
(`overhead_s`), unless it ran for less than 115 s; one that ran for 1.5 times what it takes alone is
taken as complete; one whose new batch left it with no steps holds its GPUs for five rounds more.
The artifact ends when no job is active; here it goes on with the next arrival.

Finish-time fairness: completion time by `alone * max(1, J / N)`, rounded to 5 digits, with `alone`
the sum of the job's epochs beforehand; J is the number of jobs of the trace (`rho_…`), or the mean
number of active jobs in the rounds of the job's life (`rho_life_…`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, fsum
from typing import Protocol

from skep_scheduler.policies import one_model
from skep_scheduler.policies.allox import match_equal
from skep_scheduler.simulator.presets import batch_sizes
from skep_scheduler.simulator.results import JobResult, Outcome
from skep_scheduler.simulator.speed import TypedProfiles
from skep_scheduler.simulator.workload import TraceJob, WorkloadError

ROUND_S = 120
RESET_S = 1000
OVERHEAD_S = 20.0
FAILURES = 5
UNFAIR = 1.05
GPU = "v100"


class EpochJob:
    """One job. `batch` is its present batch size and `wanted` that of the next time it runs."""

    def __init__(self, number: int, trace: TraceJob, profiles: TypedProfiles) -> None:
        self.number, self.trace, self.gpus = number, trace, trace.gpus
        self.model = trace.model.split(" ")[0]
        self.arrival, self.total, self.made = trace.submit_s, int(trace.iterations), 0
        self.batch = self.wanted = trace.batch
        self._rates = profiles.alone.get(GPU, {})
        if self.model not in batch_sizes.DATASETS or trace.batch < 1:
            known = ", ".join(batch_sizes.DATASETS)
            raise WorkloadError(f"job {trace.id}: {trace.model!r} is none of {known}, with a batch")
        if trace.mode not in batch_sizes.MODES:
            known = ", ".join(batch_sizes.MODES)
            raise WorkloadError(f"job {trace.id}: the mode {trace.mode!r} is none of {known}")
        self.rate = self._rate(self.batch)
        epochs = ceil(self.total / batch_sizes.steps_per_epoch(self.model, self.batch))
        batches = batch_sizes.path(self.model, self.batch, self.gpus, trace.mode, epochs)
        dataset = batch_sizes.DATASETS[self.model]
        times = {batch: dataset / batch / self._rate(batch) for batch in set(batches)}
        self.batches = batches
        self.epochs_s = [times[batch] for batch in batches]
        self.alone = sum(self.epochs_s)
        self.time, self.deficit, self.held = ROUND_S / 2, 0.0, 0.0
        self.failures = self.preemptions = 0
        self.first_round = self.last_round = 0
        self.started: float | None = None
        self.ended: float | None = None

    @property
    def left(self) -> int:
        return self.total - self.made

    @property
    def epoch(self) -> int:
        return ceil(self.made / batch_sizes.steps_per_epoch(self.model, self.batch))

    def look(self) -> None:
        """Decide on the batch size of the next time that it runs."""
        self.wanted = batch_sizes.wanted(
            self.model, self.trace.batch, self.batch, self.gpus, self.trace.mode, self.epoch
        )

    def change_batch(self) -> None:
        """Take the wanted batch size; the epochs of its work and of its progress stay."""
        rate = self._rates.get((f"{self.model} (batch size {self.wanted})", self.gpus))
        if self.wanted == self.batch or rate is None:
            self.wanted = self.batch
            return
        before = batch_sizes.steps_per_epoch(self.model, self.batch)
        after = batch_sizes.steps_per_epoch(self.model, self.wanted)
        epochs = ceil(self.total / before)
        total = ceil(self.total * (1 / (self.wanted / self.batch)))
        self.total = total if ceil(total / after) == epochs else after * epochs
        self.made = ceil(self.made / before) * after
        self.batch, self.rate = self.wanted, rate

    def _rate(self, batch: int) -> float:
        name = f"{self.model} (batch size {batch})"
        rate = self._rates.get((name, self.gpus), 0.0)
        if not rate > 0:
            raise WorkloadError(
                f"job {self.trace.id}: the throughputs have no {name} on {self.gpus} {GPU}",
                "bad_profile",
            )
        return rate

    def result(self) -> JobResult:
        return JobResult(
            self.trace.id, self.gpus, self.arrival, self.started, self.ended, self.held, self.alone,
            self.trace.vc, self.trace.user, self.preemptions,
        )  # fmt: skip


class Planner(Protocol):
    """Chooses who runs in each round by itself, instead of by shares."""

    def choose(self, jobs: Sequence[EpochJob], now: float) -> list[EpochJob]: ...

    def came(self, job: EpochJob, now: float) -> None: ...

    def ran(self, ran: Sequence[EpochJob], ended: Sequence[EpochJob]) -> None: ...


Shares = Callable[[Sequence[EpochJob], float], Mapping[int, float]]


@dataclass(slots=True)
class RoundOptions:
    """`strict` (isolated_plus): no job runs behind one that does not fit. `idle_fill`: jobs without
    a share run on what is idle, which they do but under `fifo`."""

    shares: Shares | None = None
    planner: Planner | None = None
    strict: bool = False
    idle_fill: bool = True
    overhead_s: float = OVERHEAD_S


@dataclass(slots=True)
class ShockwaveRounds:
    """The state of the loop between two rounds."""

    gpus: int
    options: RoundOptions
    active: dict[int, EpochJob] = field(default_factory=dict)
    share: Mapping[int, float] = field(default_factory=dict)
    changed: bool = True
    reset: float = 0.0
    worker_time: float = 0.0

    def arrange(self, now: float) -> None:
        """Make shares anew, if jobs changed and the last time is long ago."""
        if not self.changed or (now - self.reset < RESET_S and self.reset != 0):
            return
        elapsed = now - self.reset
        self.worker_time = 0.0
        for job in self.active.values():
            job.deficit += self.share.get(job.number, 0.0) * elapsed - (job.time - ROUND_S / 2)
            job.time = ROUND_S / 2
            self.worker_time += job.time
        self.reset, self.changed = now, False
        assert self.options.shares is not None
        self.share = self.options.shares(list(self.active.values()), now)

    def choose(self) -> list[EpochJob]:
        """Return who holds GPUs in this round: by priority, deficit and share."""
        entries = []
        for job in self.active.values():
            share = self.share.get(job.number, 0.0)
            part = job.time / self.worker_time if self.worker_time else 0.0
            priority = 0.0 if share == 0 else share / part if part > 0 else share * 1e9
            entries.append((priority, job.deficit, share, job))
        entries.sort(key=lambda entry: entry[:3], reverse=True)
        free, chosen = self.gpus, []
        for priority, _, _, job in entries:
            if free == 0:
                break
            if priority <= 0 and not self.options.idle_fill:
                continue
            if job.gpus > free:
                if self.options.strict:
                    break
                continue
            free -= job.gpus
            chosen.append(job)
        return chosen


def run(
    traced: Sequence[TraceJob],
    gpus: int,
    profiles: TypedProfiles,
    options: RoundOptions,
    report: Callable[[int], None] | None = None,
) -> Outcome:
    """Run the jobs of a trace. Raises `WorkloadError`."""
    ordered = sorted(traced, key=lambda job: job.submit_s)
    jobs = [EpochJob(number, job, profiles) for number, job in enumerate(ordered)]
    coming = [job for job in reversed(jobs) if job.gpus <= gpus]
    rounds = ShockwaveRounds(gpus, options)
    running: list[tuple[float, EpochJob, int]] = []
    ran: set[int] = set()
    ran_before: set[int] = set()
    counts: list[int] = []  # active jobs of each round
    now = round_start = busy = 0.0
    round_end: float | None = None
    while True:
        if running:
            round_start, round_end = round_end or round_start, max(end for end, *_ in running)
            now = round_end
        elif coming:
            now = max(now, coming[-1].arrival)
        else:
            now, rounds.changed = rounds.reset + RESET_S, True
        ended: list[EpochJob] = []
        for end, job, steps in sorted(running, key=lambda item: (-item[0], item[1].number)):
            time = end - round_start
            if len(counts) > 1 and job.number not in ran_before and time > ROUND_S - 5:
                steps = int(steps * ((time - options.overhead_s) / time))
                time -= options.overhead_s
            job.held += time
            over = job.held > int(int(job.alone) * 1.5)
            if steps <= 0 and time <= 0:
                job.failures += 1
                rounds.changed = True
                done = job.failures >= FAILURES
            else:
                job.failures = 0
                job.made += steps
                done = job.left <= 0 or over
                job.time += time
                rounds.worker_time += time
                busy += time * job.gpus
            job.change_batch()
            if done:
                job.ended, job.last_round = end, len(counts)
                ended.append(job)
                del rounds.active[job.number]
                rounds.changed = True
            else:
                job.look()
        if options.planner is not None and counts:
            options.planner.ran([job for _, job, _ in running], ended)
        while coming and coming[-1].arrival <= now:
            job = coming.pop()
            job.first_round = len(counts)
            rounds.active[job.number] = job
            rounds.changed = True
            if options.planner is not None:
                options.planner.came(job, now)
        running = []
        if not rounds.active:
            ran = set()
            if not coming:
                break
            continue
        if options.planner is not None:
            chosen = options.planner.choose(list(rounds.active.values()), now)
        else:
            rounds.arrange(now)
            chosen = [job for job in rounds.choose() if job.number in rounds.share]
        ran_before, ran = ran, {job.number for job in chosen}
        counts.append(len(rounds.active))
        for number in ran_before - ran:
            if number in rounds.active:
                rounds.active[number].preemptions += 1
        for job in chosen:
            job.started = now if job.started is None else job.started
            steps = min(int(job.rate * ROUND_S), job.left)
            running.append((max(now, now + steps / job.rate), job, steps))
        if report is not None:
            report(sum(job.ended is not None for job in jobs))
    results = [job.result() for job in jobs]
    for result in results:
        if result.gpus > gpus:
            result.refused = f"it asks for {result.gpus} GPUs of {gpus}"
    outcome = Outcome(results, gpus, absolute_makespan=True)
    outcome.utilisation = busy / (now * gpus) if now else 0.0
    outcome.more = _fairness(jobs, gpus, counts)
    outcome.check(len(jobs))
    return outcome


def _fairness(jobs: Sequence[EpochJob], gpus: int, counts: Sequence[int]) -> dict[str, float]:
    ended = [(job, job.ended - job.arrival) for job in jobs if job.ended is not None]
    crowd = max(1.0, len(ended) / gpus)
    fixed = [round(jct / (job.alone * crowd), 5) for job, jct in ended]
    life = []
    for job, jct in ended:
        lived = counts[job.first_round : job.last_round]
        crowd = max(1.0, sum(lived) / len(lived) / gpus)
        life.append(round(jct / (job.alone * crowd), 5))
    figures = {}
    for name, values in (("", fixed), ("life_", life)):
        figures[f"rho_{name}mean"] = fsum(values) / len(values) if values else 0.0
        figures[f"rho_{name}max"] = max(values, default=0.0)
        unfair = sum(value > UNFAIR for value in values)
        figures[f"unfair_{name}share"] = unfair / len(values) if values else 0.0
    return figures


class FinishTimeShares:
    """Gavel's finish-time fairness: what a job has made counts as if it had been made with an equal
    part of the cluster, at the speed of then."""

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus
        self._spent: dict[int, float] = {}
        self._before: dict[int, tuple[int, float]] = {}

    def __call__(self, jobs: Sequence[EpochJob], now: float) -> dict[int, float]:
        sizes = [job.gpus for job in jobs]
        parts = one_model.isolated(sizes, self._gpus)
        for job in jobs:
            if job.number in self._before:
                left, rate = self._before[job.number]
                spent = self._spent.get(job.number, 0.0)
                self._spent[job.number] = spent + (left - job.left) / rate
        alone = [
            self._spent.get(job.number, 0.0) + job.left / (job.rate * part)
            for job, part in zip(jobs, parts, strict=True)
        ]
        self._before = {
            job.number: (job.left, job.rate * part) for job, part in zip(jobs, parts, strict=True)
        }
        shares = one_model.finish_time_fair(
            [now - job.arrival for job in jobs],
            [job.left / job.rate for job in jobs],
            [max(own, 1e-9) for own in alone],
            sizes,
            self._gpus,
        )
        return {job.number: share for job, share in zip(jobs, shares, strict=True)}


class FifoShares:
    """In order of arrival. Habit: where a job has ended, the first that waits may take its place
    while only the places of jobs *before* that one were counted, so that more may be given away
    than there is; those that hold shares then take turns."""

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus
        self._held: dict[int, int] = {}

    def __call__(self, jobs: Sequence[EpochJob], now: float) -> dict[int, float]:
        sizes = {job.number: job.gpus for job in jobs}
        waiting = [number for number in sorted(sizes) if number not in self._held]
        free = self._gpus
        for number in sorted(self._held):
            if number in sizes:
                free -= sizes[number]
                continue
            if waiting and sizes[waiting[0]] <= free:
                first = waiting.pop(0)
                self._held[first] = sizes[first]
                free -= sizes[first]
            del self._held[number]
        while waiting and free > 0 and sizes[waiting[0]] <= free:
            first = waiting.pop(0)
            self._held[first] = sizes[first]
            free -= sizes[first]
        return {number: float(number in self._held) for number in sizes}


class AlloXShares:
    """AlloX as this artifact has it: of the jobs without a GPU the oldest fifth, or as many as GPUs
    are free, are matched to them; one of n GPUs gets a share of 1 / n, and is matched anew."""

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus
        self._before: dict[int, float] = {}

    def __call__(self, jobs: Sequence[EpochJob], now: float) -> dict[int, float]:
        shares = {job.number: self._before.get(job.number, 0.0) for job in jobs}
        free = self._gpus - sum(share == 1.0 for share in shares.values())
        waiting = sorted(
            (job for job in jobs if shares[job.number] != 1.0), key=lambda job: job.arrival
        )
        waiting = waiting[: max(int(0.2 * len(waiting)), free)]
        times = [job.left / job.rate for job in waiting]
        for row in match_equal(times, [now - job.arrival for job in waiting], free):
            shares[waiting[row].number] = 1.0 / waiting[row].gpus
        self._before = shares
        return shares


def shares_of(policy: str, gpus: int) -> Shares:
    """Return what makes the shares of a policy. Raises `KeyError` for an unknown one."""

    def sizes(jobs: Sequence[EpochJob]) -> list[int]:
        return [job.gpus for job in jobs]

    def seconds(jobs: Sequence[EpochJob]) -> list[float]:
        return [job.left / job.rate for job in jobs]

    rules: Mapping[str, Callable[[Sequence[EpochJob]], list[float]]] = {
        "isolated": lambda jobs: one_model.isolated(sizes(jobs), gpus),
        "isolated_plus": lambda jobs: one_model.equal_time(len(jobs), gpus),
        "gandiva_fair": lambda jobs: one_model.equal_time(len(jobs), gpus),
        "max_min": lambda jobs: one_model.max_min(sizes(jobs), gpus),
        "min_makespan": lambda jobs: one_model.least_makespan(seconds(jobs), sizes(jobs), gpus),
        "max_sum": lambda jobs: one_model.max_sum([job.rate for job in jobs], sizes(jobs), gpus),
    }
    if policy == "ftf":
        return FinishTimeShares(gpus)
    if policy == "fifo":
        return FifoShares(gpus)
    if policy == "allox":
        return AlloXShares(gpus)
    rule = rules[policy]
    return lambda jobs, now: {
        job.number: share for job, share in zip(jobs, rule(jobs), strict=True)
    }


# The names of the artifact, and of SCHEDULING.md and Gavel's papers, for the same rules.
ALIASES = {
    "fifo": "fifo",
    "allox": "allox",
    "isolated": "isolated",
    "isolated_plus": "isolated_plus",
    "gandiva_fair": "gandiva_fair",
    "max_min": "max_min",
    "max_min_agnostic": "max_min",
    "max_min_fairness": "max_min",
    "max_min_fairness_perf": "max_min",
    "las": "max_min",
    "ftf": "ftf",
    "ftf_agnostic": "ftf",
    "finish_time_fairness": "ftf",
    "finish_time_fairness_perf": "ftf",
    "themis": "ftf",
    "min_makespan": "min_makespan",
    "min_total_duration": "min_makespan",
    "min_total_duration_perf": "min_makespan",
    "max_sum": "max_sum",
    "max_sum_throughput": "max_sum",
    "max_sum_throughput_perf": "max_sum",
}
