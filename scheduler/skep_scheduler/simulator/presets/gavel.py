"""Preset `gavel` (and `gavel-36`): Gavel's simulator (Narayanan et al., OSDI 2020).

36 V100, 36 P100 and 36 K80, one GPU in each server; float seconds; rounds of 360 s. The jobs are
made of a seed and of the throughput file, as the artifact makes them: Poisson arrivals with a mean
gap of `lambda_s`, durations of 10^1.5 to 10^4 minutes on a V100, 26 job types. What is measured are
jobs 4000 to 4999, until the last of them ends.

A round: who runs makes whole steps; shares X (job, GPU type) are computed anew where jobs came or
ended and 1,920 s passed; priorities are X by the part of the time that the job got so far; for each
GPU type the jobs of the highest priority run, and those with none fill what is idle.

AlloX (Le et al., EuroSys 2020) as Gavel has it: jobs that hold no worker are matched to free
workers by the least sum of completion times, see `policies.allox`; who is first on a worker gets
it, and keeps it to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from random import Random

from skep_scheduler.policies.allox import match
from skep_scheduler.simulator.results import JobResult, Outcome
from skep_scheduler.simulator.speed import TypedProfiles
from skep_scheduler.simulator.workload import WorkloadError

ROUND_S = 360
RESET_S = 1920
WINDOW = (4000, 5000)
LAMBDA_S = 9000.0
THROUGHPUTS = "simulation_throughputs.json"
TYPES = ("v100", "p100", "k80")
BATCHES = (
    ("ResNet-18", (16, 32, 64, 128, 256)),
    ("ResNet-50", (16, 32, 64, 128)),
    ("Transformer", (16, 32, 64, 128, 256)),
    ("LM", (5, 10, 20, 40, 80)),
    ("Recommendation", (512, 1024, 2048, 4096, 8192)),
)
TEMPLATES = (
    *(f"{model} (batch size {batch})" for model, batches in BATCHES for batch in batches),
    "A3C",
    "CycleGAN",
)


@dataclass(slots=True)
class RoundJob:
    """One job; `rates` are its steps per second by GPU type."""

    number: int
    arrival: float
    steps: float
    duration: float
    rates: dict[str, float]
    made: float = 0.0
    held: float = 0.0
    started: float | None = None
    ended: float | None = None


class Jobs:
    """The endless sequence of jobs of a seed."""

    def __init__(self, seed: int, lambda_s: float, profiles: TypedProfiles) -> None:
        self._kinds, self._gaps = Random(seed + 2), Random(seed + 3)  # noqa: S311 (no secret)
        self._lambda_s, self._profiles = lambda_s, profiles
        self._arrival, self._count = 0.0, 0
        for template in TEMPLATES:
            for gpu_type in TYPES:
                if (template, 1) not in profiles.alone.get(gpu_type, {}):
                    raise WorkloadError(
                        f"the throughputs have no {template} on {gpu_type}", "bad_profile"
                    )

    def next(self) -> RoundJob:
        random = self._kinds
        random.uniform(0, 1)  # the number of GPUs, for sweeps with several
        long = random.random() >= 0.8
        power = random.uniform(3, 4) if long else random.uniform(1.5, 3)
        duration = 60 * 10**power
        template = random.choice(TEMPLATES)
        if self._count:
            self._arrival += -log(1.0 - self._gaps.random()) * self._lambda_s
        rates = {t: self._profiles.alone[t][template, 1] for t in TYPES}
        job = RoundJob(self._count, self._arrival, duration * rates["v100"], duration, rates)
        self._count += 1
        return job


def run_allox(
    profiles: TypedProfiles,
    workers: dict[str, int],
    seed: int,
    lambda_s: float,
    report: Callable[[int], None] | None = None,
) -> Outcome:
    """Run AlloX until the jobs of the window have ended. Raises `WorkloadError`."""
    coming = Jobs(seed, lambda_s, profiles)
    upcoming = coming.next()
    jobs: dict[int, RoundJob] = {}
    finished: list[RoundJob] = []
    shares: dict[int, str] = {}  # the type of which it has a whole worker
    time: dict[int, dict[str, float]] = {}
    spent = dict.fromkeys(TYPES, 0.0)
    received: dict[int, dict[str, float]] = {}
    deficit: dict[int, dict[str, float]] = {}
    running: list[tuple[float, RoundJob, str, float]] = []
    now = previous = reset = busy = 0.0
    changed, measured = False, 0
    known: set[int] = set()
    while measured < WINDOW[1] - WINDOW[0]:
        now = max((end for end, *_ in running), default=upcoming.arrival)
        # Where nothing ran, the time before the next arrival counts as a part of its round.
        start_of_accounting, previous = previous, now if running else previous
        for end, job, gpu_type, steps in running:
            charge = end - start_of_accounting
            job.made += steps
            job.held += charge
            busy += charge
            time[job.number][gpu_type] += charge
            received[job.number][gpu_type] += charge
            spent[gpu_type] += charge
            if job.made >= job.steps:
                job.ended = end
                finished.append(job)
                measured += WINDOW[0] <= job.number < WINDOW[1]
                for table in (jobs, time, received, deficit):
                    del table[job.number]
                shares.pop(job.number, None)
                changed = True
        while upcoming.arrival <= now:
            job = jobs[upcoming.number] = upcoming
            time[job.number] = dict.fromkeys(TYPES, ROUND_S / 2)
            received[job.number] = dict.fromkeys(TYPES, 0.0)
            deficit[job.number] = dict.fromkeys(TYPES, 0.0)
            changed, upcoming = True, coming.next()
        if changed and (now - reset >= RESET_S or reset == 0):
            for number in jobs:
                for gpu_type in TYPES:
                    share = 1.0 if shares.get(number) == gpu_type else 0.0
                    owed = share * (now - reset) - received[number][gpu_type]
                    deficit[number][gpu_type] += owed
                    received[number][gpu_type] = 0.0
                time[number] = dict.fromkeys(TYPES, ROUND_S / 2)
            spent = {t: sum(row[t] for row in time.values()) for t in TYPES}
            shares = _allox(jobs, shares, workers, now)
            reset, changed, known = now, False, set(jobs)
        running = []
        taken: set[int] = set()
        for gpu_type in TYPES:
            left = workers[gpu_type]
            ranked = _ranked(jobs, gpu_type, shares, time, spent[gpu_type], deficit)
            for job in ranked:
                if not left:
                    break
                if job.number in taken or job.rates[gpu_type] <= 0:
                    continue
                left -= 1
                taken.add(job.number)
                if job.number in known:
                    rate = job.rates[gpu_type]
                    steps = min(int(rate * ROUND_S), job.steps - job.made)
                    job.started = now if job.started is None else job.started
                    running.append((now + steps / rate, job, gpu_type, steps))
        if report is not None:
            report(measured)
    results = [
        JobResult(
            f"job-{job.number}", 1, job.arrival, job.started, job.ended, job.held, job.duration
        )
        for job in sorted(finished, key=lambda job: job.number)
        if WINDOW[0] <= job.number < WINDOW[1]
    ]
    gpus = sum(workers.values())
    return Outcome(results, gpus, utilisation=busy / (now * gpus))


def _ranked(
    jobs: dict[int, RoundJob],
    gpu_type: str,
    shares: dict[int, str],
    time: dict[int, dict[str, float]],
    spent: float,
    deficit: dict[int, dict[str, float]],
) -> list[RoundJob]:
    """Return the jobs by (priority, deficit, share) on a GPU type, the largest first."""

    def key(job: RoundJob) -> tuple[float, float, float]:
        share = 1.0 if shares.get(job.number) == gpu_type else 0.0
        part = time[job.number][gpu_type] / spent if spent else 0.0
        priority = share * 1e9 if part <= 0 else share / part
        return -priority, -deficit[job.number][gpu_type], -share

    return sorted(jobs.values(), key=key)


def _allox(
    jobs: dict[int, RoundJob], shares: dict[int, str], workers: dict[str, int], now: float
) -> dict[int, str]:
    held = {number: shares[number] for number in jobs if number in shares}
    free = {t: number - sum(h == t for h in held.values()) for t, number in workers.items()}
    waiting = [job for job in jobs.values() if job.number not in held]
    waiting.sort(key=lambda job: job.arrival)
    chosen = match(
        [
            {t: (job.steps - job.made) / max(job.rates[t], 1e-10) for t in workers}
            for job in waiting
        ],
        [now - job.arrival for job in waiting],
        free,
    )
    return held | {waiting[row].number: gpu_type for row, gpu_type in chosen.items()}
