"""Preset `gavel` (and `gavel-36`): Gavel's simulator (Narayanan et al., OSDI 2020).

36 V100, 36 P100 and 36 K80, one GPU in each server; float seconds; rounds of 360 s; jobs as in
`gavel_jobs`. What is measured are jobs 4000 to 4999 (`window`), until the last of them ends, or all
of a fixed number of jobs that are there at the start (`static`).

A round: who runs makes whole steps; shares X (combination, GPU type) are computed anew by the rule
where jobs came or ended and 1,920 s passed; priorities are X by the part of the time that the
combination got so far; for each GPU type the combinations of the highest priority run, and those
with none fill what is idle, but under FIFO. Rules that know no rates go through the types in random
order. A round ends with its last job. A job without a share yet can hold GPUs, on which it does not
run until the next computation.
"""

from __future__ import annotations

from bisect import insort_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random

from skep_scheduler.policies.gavel.problem import Combination, Kind, ShareProblem, Shares
from skep_scheduler.simulator.presets.gavel_jobs import TYPES, Jobs, RoundJob
from skep_scheduler.simulator.results import JobResult, Outcome
from skep_scheduler.simulator.speed import TypedProfiles

ROUND_S = 360
RESET_S = 1920
HALF_S = ROUND_S / 2  # what each combination counts as having got at the start
WINDOW = (4000, 5000)
LAMBDA_S = 9000.0
NOTHING = (0.0, 0.0, 0.0)

Rule = Callable[[ShareProblem], Shares]


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a run is made of.

    static: so many jobs, all there at the start; 0: Poisson arrivals
    shuffle: the order of the GPU types is drawn for each round
    idle_fill: combinations without priority may use idle GPUs
    pairs: two jobs may share their GPUs
    prices: of a GPU of each type for an hour, for the cost
    """

    seed: int
    lambda_s: float = LAMBDA_S
    window: tuple[int, int] = WINDOW
    static: int = 0
    multi_gpu: bool = False
    slos: bool = False
    shuffle: bool = False
    idle_fill: bool = True
    pairs: bool = False
    prices: tuple[float, ...] | None = None


class _Combination:
    """One job or two, with what they got on each type.

    known: the rule has seen it; alive: none of its jobs has ended; ran: it got time since the last
    computation; place: its place among equals
    """

    __slots__ = (
        "alive",
        "deficit",
        "gpus",
        "jobs",
        "known",
        "numbers",
        "place",
        "ran",
        "rates",
        "runs_on",
        "share",
        "time",
    )

    def __init__(self, jobs: tuple[RoundJob, ...], rates: Sequence[tuple[float, ...]]) -> None:
        self.jobs, self.rates, self.gpus = jobs, rates, jobs[0].gpus
        self.numbers = tuple(job.number for job in jobs)
        self.runs_on = tuple(min(own) > 0 for own in rates)
        self.share: tuple[float, ...] = NOTHING
        self.deficit = [0.0] * len(TYPES)
        self.known, self.alive, self.place = False, True, 0
        self.forget()

    def forget(self) -> None:
        """Begin to count its time anew."""
        self.time, self.ran = [HALF_S] * len(TYPES), [False] * len(TYPES)

    def key(self, at: int, spent: float) -> tuple[float, float, float, int]:
        """Return what ranks it on a type, the least first."""
        share, part = self.share[at], self.time[at] / spent if spent else 0.0
        priority = share / part if part > 0 else share * 1e9
        return -priority, -self.deficit[at], -share, self.place


class SweepRounds:
    """One run of a rule."""

    def __init__(
        self, rule: Rule, profiles: TypedProfiles, workers: Mapping[str, int], sweep: Sweep
    ) -> None:
        self._rule, self._sweep = rule, sweep
        self._gpus = tuple(workers[t] for t in TYPES)
        self._coming = Jobs(
            sweep.seed,
            0.0 if sweep.static else sweep.lambda_s,
            profiles,
            multi_gpu=sweep.multi_gpu,
            slos=sweep.slos,
        )
        self._shuffler = Random(sweep.seed + 5)  # noqa: S311 (no secret)
        self._beside = _beside(profiles) if sweep.pairs else {}
        self._jobs: dict[int, RoundJob] = {}
        self._combinations: dict[Combination, _Combination] = {}
        self._of: dict[int, list[_Combination]] = {}  # by job
        self._on: dict[int, int] = {}  # the type of each job that ran in the round before
        self._spent = [0.0] * len(TYPES)
        # By type: with a share, ranked, that did not run since; those that did; without a share.
        self._fresh: list[list[_Combination]] = [[] for _ in TYPES]
        self._ran: list[list[_Combination]] = [[] for _ in TYPES]
        self._idle: list[list[_Combination]] = [[] for _ in TYPES]
        self._busy = self._cost = 0.0
        self._finished: list[RoundJob] = []
        self._changed = False

    def run(self, report: Callable[[int], None] | None = None) -> Outcome:
        """Run until the jobs that are measured have ended."""
        sweep = self._sweep
        first, last = (0, sweep.static) if sweep.static else sweep.window
        upcoming: RoundJob | None = self._coming.next()
        running: list[tuple[float, _Combination, int, tuple[float, ...]]] = []
        now = previous = reset = 0.0
        measured = 0
        while measured < last - first:
            if running:
                now = max(end for end, *_ in running)
            elif upcoming is not None:
                now = upcoming.arrival
            elif self._changed:
                reset = 0.0
            else:
                break  # those that are left cannot run
            # Where nothing ran, the time before the next arrival counts as a part of its round.
            start_of_accounting, previous = previous, now if running else previous
            before = len(self._finished)
            for end, combination, at, steps in running:
                self._charge(combination, at, steps, end, end - start_of_accounting)
            measured += sum(first <= job.number < last for job in self._finished[before:])
            while upcoming is not None and upcoming.arrival <= now:
                self._add(upcoming)
                more = not sweep.static or upcoming.number + 1 < sweep.static
                upcoming = self._coming.next() if more else None
            if self._changed and (now - reset >= RESET_S or reset == 0):
                self._reset(now, now - reset)
                reset = now
            running = self._round(now)
            if report is not None:
                report(measured)
        return self._outcome(now, first, last)

    def _add(self, job: RoundJob) -> None:
        self._jobs[job.number] = job
        rates = tuple((rate,) for rate in job.rates)
        added = self._combinations[job.number,] = _Combination((job,), rates)
        self._of[job.number] = [added]
        for at, idle in enumerate(self._idle):
            if added.runs_on[at]:
                insort_right(idle, added, key=lambda one: -one.deficit[at])
        self._changed = True

    def _charge(
        self, ran: _Combination, at: int, steps: tuple[float, ...], end: float, charge: float
    ) -> None:
        for job, made in zip(ran.jobs, steps, strict=True):
            job.made += made
            job.held += charge
        self._busy += charge * ran.gpus
        if self._sweep.prices is not None:
            self._cost += self._sweep.prices[at] * charge / 3600 * ran.gpus * len(ran.jobs)
        ran.time[at] += charge
        if ran.share[at] > 0 and not ran.ran[at]:
            ran.ran[at] = True
            self._ran[at].append(ran)
        self._spent[at] += charge
        for job in ran.jobs:
            if job.made >= job.steps:
                job.ended = end
                self._finished.append(job)
                del self._jobs[job.number]
                for combination in self._of.pop(job.number):
                    if combination.alive:
                        combination.alive = False
                        del self._combinations[combination.numbers]
                self._changed = True

    def _reset(self, now: float, elapsed: float) -> None:
        """Settle what each combination was owed, and ask the rule."""
        problem = ShareProblem(
            TYPES, self._gpus, [job.view(now) for job in self._jobs.values()], self._beside
        )
        for combination in self._combinations.values():
            for at, share in enumerate(combination.share):
                owed = share * elapsed - (combination.time[at] - HALF_S)
                combination.deficit[at] += owed
            combination.forget()
        shares = self._rule(problem)
        kept = {key: c for key, c in self._combinations.items() if len(key) == 1 or key in shares}
        for key in shares.keys() - kept.keys():
            jobs = tuple(self._jobs[number] for number in key)
            kept[key] = _Combination(jobs, self._beside[jobs[0].kind, jobs[1].kind])
        self._combinations = kept
        self._of = {number: [] for number in self._jobs}
        for place, (key, combination) in enumerate(kept.items()):
            combination.known, combination.share = True, shares.get(key, NOTHING)
            combination.place = place
            for number in key:
                self._of[number].append(combination)
        self._spent = [sum(c.time[at] for c in kept.values()) for at in range(len(TYPES))]
        self._changed = False
        for at, spent in enumerate(self._spent):
            able = [c for c in kept.values() if c.runs_on[at]]
            self._fresh[at] = [c for c in able if c.share[at] > 0]
            self._fresh[at].sort(key=lambda c: c.key(at, spent))
            self._idle[at] = [c for c in able if not c.share[at] > 0]
            self._idle[at].sort(key=lambda c: -c.deficit[at])
            self._ran[at] = []

    def _round(self, now: float) -> list[tuple[float, _Combination, int, tuple[float, ...]]]:
        order = list(range(len(TYPES)))
        if self._sweep.shuffle:
            self._shuffler.shuffle(order)
        running = []
        taken: set[int] = set()
        on: dict[int, int] = {}
        for at in order:
            left = self._gpus[at]
            for combination in self._ranked(at, taken):
                if combination.gpus > left:
                    continue
                left -= combination.gpus
                taken.update(combination.numbers)
                if combination.known:
                    steps, end = [], now
                    for job, rate in zip(combination.jobs, combination.rates[at], strict=True):
                        made = min(int(rate * ROUND_S), job.steps - job.made)
                        job.started = now if job.started is None else job.started
                        on[job.number] = at
                        steps.append(made)
                        end = max(end, now + made / rate)
                    running.append((end, combination, at, tuple(steps)))
                if not left or len(taken) == len(self._jobs):
                    break
        for number, before in self._on.items():
            if number in self._jobs and number not in on:
                self._jobs[number].preemptions += 1
            elif on.get(number, before) != before:
                self._jobs[number].migrations += 1
        self._on = on
        return running

    def _ranked(self, at: int, taken: set[int]) -> Iterator[_Combination]:
        """Yield the combinations by (priority, deficit, share) on a type, the largest first, but
        those with a job that is taken. Those that did not run since the last computation keep
        their order among themselves."""
        spent = self._spent[at]
        ran = [(c.key(at, spent), c) for c in self._ran[at] if c.alive]
        ran.sort(key=lambda entry: entry[0], reverse=True)
        for combination in self._fresh[at]:
            if combination.ran[at] or not combination.alive:
                continue
            if not taken.isdisjoint(combination.numbers):
                continue
            if ran:
                key = combination.key(at, spent)
                while ran and ran[-1][0] < key:
                    _, before = ran.pop()
                    if taken.isdisjoint(before.numbers):
                        yield before
                if not taken.isdisjoint(combination.numbers):
                    continue
            yield combination
        idle = (c for c in self._idle[at] if c.alive) if self._sweep.idle_fill else ()
        for combination in chain((c for _, c in reversed(ran)), idle):
            if taken.isdisjoint(combination.numbers):
                yield combination

    def _outcome(self, now: float, first: int, last: int) -> Outcome:
        ended = sorted(self._finished + list(self._jobs.values()), key=lambda job: job.number)
        results = [
            JobResult(
                f"job-{job.number}",
                job.gpus,
                job.arrival,
                job.started,
                job.ended,
                job.held,
                job.duration,
                preemptions=job.preemptions,
                migrations=job.migrations,
                met=None
                if not job.slo
                else job.ended is not None and job.ended <= job.arrival + job.slo * job.duration,
            )
            for job in ended
            if first <= job.number < last
        ]
        gpus = sum(self._gpus)
        more = {"cost": self._cost} if self._sweep.prices is not None else {}
        return Outcome(results, gpus, utilisation=self._busy / (now * gpus), more=more)


Beside = dict[tuple[Kind, Kind], Sequence[tuple[float, float]]]


def _beside(profiles: TypedProfiles) -> Beside:
    first, *others = (profiles.beside.get(t, {}) for t in TYPES)
    return {
        pair: (first[pair], *(table[pair] for table in others))
        for pair in first
        if pair[0][1] == pair[1][1] and all(pair in table for table in others)
    }
