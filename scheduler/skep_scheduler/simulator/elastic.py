"""The event kernel of elastic policies: jobs whose number of GPUs changes while they run.

The events are those of `event_loop`, and at each the policy decides once (`policies.elastic`).
Where a size changes the job holds its GPUs for `rescale_s` without progress; the first start costs
nothing. GPUs are counted, without nodes. A rate that stays is never rounded twice: an end is
computed once for each size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, inf, log2
from typing import Any

from skep_scheduler.policies.elastic import ElasticFacts, ElasticPolicy, Sizes
from skep_scheduler.simulator.event_loop import NEVER, US, result_of, run_events
from skep_scheduler.simulator.invariants import require
from skep_scheduler.simulator.results import JobResult, Outcome
from skep_scheduler.simulator.workload import TraceJob, WorkloadError

Speedup = Callable[[int], float]


class ElasticJobRun:
    """A job in time. `facts` is what the policy sees, up to date at each decision."""

    def __init__(self, trace: TraceJob, facts: ElasticFacts) -> None:
        self.trace, self.facts = trace, facts
        self.submit_us = round(trace.submit_s * US)
        self.start_us = self.busy_from_us = self.submit_us
        self.start_left, self.rate = facts.left, 0.0
        self.end_us = NEVER
        self.first_us: int | None = None
        self.ended_us: int | None = None
        self.held_us = self.gpu_us = self.preemptions = self.rescales = 0
        self.touched_us = self.submit_us
        self.refused = ""

    def touch(self, now: int) -> None:
        """Bring its facts up to now."""
        facts, passed = self.facts, now - self.touched_us
        self.touched_us = now
        if facts.held and passed > 0:
            self.held_us += passed
            self.gpu_us += passed * facts.held
            facts.attained_gpu_s = self.gpu_us / US
            made = max(now - self.busy_from_us, 0) / US * self.rate
            facts.left = max(self.start_left - made, 0.0)

    def resize(self, gpus: int, now: int) -> None:
        facts = self.facts
        if gpus == facts.held:
            return
        cost = 0 if self.first_us is None or not gpus else int(facts.rescale_s * US)
        if gpus and self.first_us is None:
            self.first_us = now
        elif gpus:
            self.rescales += 1
        self.preemptions += facts.held > 0 and gpus == 0
        facts.held, facts.rescaled_at = gpus, now / US
        self.rate = facts.rate(gpus) if gpus else 0.0
        self.start_left, self.busy_from_us = facts.left, now + cost
        self.end_us = NEVER
        if self.rate > 0:
            self.end_us = self.busy_from_us + ceil(facts.left / self.rate * US - 1e-6)

    @property
    def has_gpus(self) -> bool:
        return self.facts.held > 0

    def result(self) -> JobResult:
        return result_of(self, self.trace.duration_s, refused=self.refused)


def run_elastic(
    jobs: Sequence[ElasticJobRun],
    policy: ElasticPolicy,
    gpus: int,
    report: Any = None,
) -> Outcome:
    """Run jobs to their ends, on `gpus` GPUs. Raises `WorkloadError` without a library that the
    policy needs, and `RunInvariantError` where more GPUs are given than there are, or a job is
    lost."""
    elastic = ElasticRun(policy, gpus)
    series = run_events(elastic, jobs, report)
    more: dict[str, Any] = {"rescales": sum(job.rescales for job in jobs)}
    if getattr(policy, "experimental", False):
        more |= {"experimental": True, "fallbacks": elastic.fallbacks}
    outcome = Outcome([job.result() for job in jobs], gpus, series=series, more=more)
    outcome.check(len(jobs))
    return outcome


class ElasticRun:
    """Carries out what an elastic policy decides on `gpus` GPUs."""

    def __init__(self, policy: ElasticPolicy, gpus: int) -> None:
        self.policy, self.gpus, self.fallbacks = policy, gpus, 0

    def arrive(self, job: ElasticJobRun) -> None:
        """Nothing is to be done for it before the decision."""

    def end(self, job: ElasticJobRun, now: int) -> None:
        job.ended_us, job.facts.held = now, 0

    def used(self, active: Sequence[ElasticJobRun]) -> int:
        return sum(job.facts.held for job in active)

    def decide(self, active: list[ElasticJobRun], now: int) -> tuple[list[ElasticJobRun], float]:
        sizes = self._sizes(active, now)
        self.fallbacks += bool(sizes.fell_back)
        given = 0
        for job in active:
            size = sizes.gpus.get(job.facts.id, 0)
            given += size
            job.refused = sizes.refuse.get(job.facts.id, "")
            job.facts.admitted = True
            job.resize(0 if job.refused else size, now)
        require(given <= self.gpus, f"{given} of {self.gpus} GPUs are given.", now / US)
        return [job for job in active if not job.refused], sizes.wake_at

    def _sizes(self, active: Sequence[ElasticJobRun], now: int) -> Sizes:
        try:
            return self.policy.decide([job.facts for job in active], self.gpus, now / US)
        except ModuleNotFoundError as error:
            raise WorkloadError(
                f"{self.policy.name} solves a program and needs {error.name}: "
                "pip install 'skep[policies]'",
                "missing_library",
            ) from error


def read_speedup(text: str) -> Speedup:
    """Return the speed-up on so many GPUs over one: `linear`, or `amdahl:F` with the part F of the
    work that no GPU shares. Raises `WorkloadError`."""
    name, _, value = text.partition(":")
    if name == "linear" and not value:
        return float
    if name == "amdahl":
        try:
            serial = float(value)
        except ValueError:
            serial = -1.0
        if 0 <= serial <= 1:
            return lambda gpus: 1 / (serial + (1 - serial) / gpus)
    raise WorkloadError(
        f"--speedup {text!r} is neither linear, amdahl:F with F from 0 to 1, nor profile",
        "bad_option",
    )


def by_speedup(
    trace_jobs: Sequence[TraceJob], speedup: Speedup, gpus: int, restart_s: float
) -> list[ElasticJobRun]:
    """Return jobs whose work is seconds at the size that they ask for. Raises `WorkloadError`."""
    made = []
    for job in trace_jobs:
        if not job.duration_s > 0 or job.gpus < 1:
            raise WorkloadError(
                f"job {job.id} has no duration or no GPU; its work needs --speedup profile"
            )
        base = speedup(job.gpus)

        def rate(size: int, base: float = base) -> float:
            return speedup(size) / base

        made.append(_made(job, rate, (1, gpus), job.duration_s, restart_s))
    return made


def by_profile(
    trace_jobs: Sequence[TraceJob],
    sizes_of: Callable[[TraceJob], Any],
    gpus: int,
    restart_s: float,
) -> list[ElasticJobRun]:
    """Return jobs whose work is steps, with the rates of a profile. Between two sizes that were
    measured it is linear in the logarithm of the size."""
    made = []
    for job in trace_jobs:
        known = {size: rate for size, rate in sizes_of(job).items() if rate > 0}
        if not job.iterations > 0 or not known:
            raise WorkloadError(f"job {job.id} has no steps, or no rate in the profile")
        sizes = min(known), min(gpus, max(known))
        made.append(_made(job, _interpolating(known), sizes, job.iterations, restart_s))
    return made


def _interpolating(known: dict[int, float]) -> Callable[[int], float]:
    sizes = sorted(known)
    memo: dict[int, float] = dict(known)

    def rate(size: int) -> float:
        found = memo.get(size)
        if found is None:
            if size < sizes[0] or size > sizes[-1]:
                found = 0.0
            else:
                low = max(one for one in sizes if one < size)
                high = min(one for one in sizes if one > size)
                part = (log2(size) - log2(low)) / (log2(high) - log2(low))
                found = known[low] + part * (known[high] - known[low])
            memo[size] = found
        return found

    return rate


def _made(
    job: TraceJob,
    rate: Callable[[int], float],
    sizes: tuple[int, int],
    work: float,
    restart_s: float,
) -> ElasticJobRun:
    least, largest = sizes
    deadline = inf if job.deadline_s is None else job.deadline_s
    facts = ElasticFacts(
        job.id, job.submit_s, job.gpus, rate, largest, work, work, deadline, restart_s, least=least
    )
    return ElasticJobRun(job, facts)
