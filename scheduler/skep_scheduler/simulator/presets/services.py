"""Preset `services`: replicas of a service over a trace of requests, and what its guarantee costs.

A request goes to one of the first n replicas, at random, and waits there for those before it; a
replica answers one request at a time. A replica that starts is warm `cold_s` later, and requests
may wait for it. Each window n is decided anew. Under `swayam` surplus replicas stop when they were
idle for `idle_s`; under the others as soon as they have answered what waits.

- `swayam`: see `policies.swayam`
- `static`: `replicas` all the time; without a number the least one that keeps the guarantee at the
  mean rate of the busiest window
- `reactive`: so many that each is busy for the part `target` of the time, by the last window (what
  autoscalers of web servers do)
- `clairvoyant`: Swayam's number at the rate that will come: what no policy can know
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from random import Random
from typing import Any, ClassVar, Protocol

from skep_scheduler.model import DEFAULTS, PolicyChoice
from skep_scheduler.policies import make_order
from skep_scheduler.policies.base import parameter
from skep_scheduler.policies.swayam import TREND, Swayam, quantiles
from skep_scheduler.simulator.clusters import Hardware
from skep_scheduler.simulator.readers import Trace
from skep_scheduler.simulator.results import JobResult, Outcome
from skep_scheduler.simulator.workload import TraceJob, WorkloadError

MEASURED = 2_000  # service times of the last requests that were answered
SAMPLES = 1_000  # of the series
MOST_WINDOWS = 2_000_000
MOST_REPLICAS = 10_000


@dataclass(frozen=True, slots=True)
class OwnReplicas(Swayam):
    """The number of Swayam; surplus replicas stop by themselves."""

    name: ClassVar[str] = "swayam"


@dataclass(frozen=True, slots=True)
class Static(Swayam):
    """A number of replicas that never changes."""

    name: ClassVar[str] = "static"

    replicas: int = parameter(
        0, "How many; 0: what the busiest window needs.", minimum=0, maximum=MOST_REPLICAS
    )


@dataclass(frozen=True, slots=True)
class Reactive(Swayam):
    """As many replicas as the last window would have needed."""

    name: ClassVar[str] = "reactive"

    target: float = parameter(
        0.6, "Part of the time that a replica is busy.", minimum=0.01, maximum=1
    )


@dataclass(frozen=True, slots=True)
class Clairvoyant(Swayam):
    """The number of Swayam for the rate that will come."""

    name: ClassVar[str] = "clairvoyant"


RULES: tuple[type[Any], ...] = (OwnReplicas, Static, Reactive, Clairvoyant)
POLICIES = tuple(rule.name for rule in RULES)


class ServiceSetup(Protocol):
    """What a run is made of, see `registry.Setup`."""

    @property
    def trace(self) -> Trace: ...
    @property
    def policy(self) -> str: ...
    @property
    def parameters(self) -> tuple[tuple[str, str | int | float], ...]: ...
    @property
    def seed(self) -> int: ...
    @property
    def report(self) -> Callable[[int], None] | None: ...


def run(setup: ServiceSetup, hardware: Hardware) -> Outcome:
    """Answer the requests of a trace. Raises `WorkloadError` and `PolicyError`."""
    if setup.trace.format != "requests":
        raise WorkloadError(
            f"{setup.trace.name}: preset services needs a trace of requests with the columns "
            "arrival_s and service_s"
        )
    rule: Any = make_order(PolicyChoice(setup.policy, setup.parameters), DEFAULTS, RULES)
    requests = sorted(setup.trace.jobs, key=lambda job: job.submit_s)
    most = min(hardware.gpus, MOST_REPLICAS)
    span = requests[-1].submit_s - requests[0].submit_s
    if span / rule.window_s > MOST_WINDOWS:
        raise WorkloadError(
            f"{span:.0f} s of requests in windows of {rule.window_s:g} s: choose a longer window_s",
            "bad_policy_parameter",
        )
    random = Random(setup.seed)  # noqa: S311 (no secret is made of it)
    return _Service(requests, rule, most, random).run(setup.report)


@dataclass(slots=True)
class _Replica:
    """Times in seconds; `begun` None: it is stopped."""

    begun: float | None = None
    warm: float = 0.0
    free: float = 0.0  # it has answered all that it was given
    lived: float = 0.0


@dataclass(slots=True)
class _Service:
    requests: Sequence[TraceJob]
    rule: Any
    most: int
    random: Random
    replicas: list[_Replica] = field(default_factory=list)
    results: list[JobResult] = field(default_factory=list)
    series: list[tuple[float, int, int]] = field(default_factory=list)
    starts: int = 0
    peak: int = 0

    def run(self, report: Callable[[int], None] | None) -> Outcome:
        requests, window = self.requests, self.rule.window_s
        counts = self._counts()
        fixed = self._fixed(counts)
        every = max(len(counts) // SAMPLES, 1)
        answered: list[tuple[float, float]] = []  # heap of (end, service time)
        measured: deque[float] = deque(maxlen=MEASURED)
        first, at, average = requests[0].submit_s, 0, 0.0
        services: list[float] = []
        for number, count in enumerate(counts):
            now = first + number * window
            if number:
                seen = counts[number - 1] / window
                weight = 1.0 if number == 1 else self.rule.smoothing
                average += weight * (seen - average)
            while answered and answered[0][0] <= now:
                measured.append(heapq.heappop(answered)[1])
            if measured and (number < 100 or number % 10 == 0):
                services = quantiles(measured)
            wanted = fixed or self._wanted(number, average, counts, services)
            self._scale(wanted, now)
            waiting = 0
            for job in requests[at : at + count]:
                heapq.heappush(answered, (self._answer(job, wanted), job.duration_s))
            at += count
            if number % every == 0:
                waiting = sum(replica.free > now for replica in self.replicas)
                alive = sum(replica.begun is not None for replica in self.replicas)
                self.series.append((now, waiting, alive))
            if report is not None and number % 1000 == 0:
                report(at)
        end = max((job.ended_at or 0.0 for job in self.results), default=first)
        self._stop(0, end)
        return self._outcome(end - first)

    def _counts(self) -> list[int]:
        """Return how many requests come in each window."""
        first, window = self.requests[0].submit_s, self.rule.window_s
        counts = [0] * (int((self.requests[-1].submit_s - first) / window) + 1)
        for job in self.requests:
            counts[int((job.submit_s - first) / window)] += 1
        return counts

    def _fixed(self, counts: Sequence[int]) -> int:
        if not isinstance(self.rule, Static):
            return 0
        if self.rule.replicas:
            return min(self.rule.replicas, self.most)
        services = quantiles([job.duration_s for job in self.requests])
        return self.rule.needed(max(counts) / self.rule.window_s, services, self.most)

    def _wanted(
        self, number: int, average: float, counts: Sequence[int], services: Sequence[float]
    ) -> int:
        """Return how many replicas get the requests of this window."""
        rule, window = self.rule, self.rule.window_s
        if isinstance(rule, Clairvoyant):
            ahead = 1 + ceil(rule.cold_s / window)
            services = services or quantiles([job.duration_s for job in self.requests[:MEASURED]])
            return int(
                rule.needed(max(counts[number : number + ahead]) / window, services, self.most)
            )
        if not number or not services:
            return max(sum(one.begun is not None for one in self.replicas), 1)
        if isinstance(rule, Reactive):
            busy = counts[number - 1] / window * sum(services) / len(services)
            return min(max(ceil(busy / rule.target), 1), self.most)
        rate = rule.rate(average, counts[max(number - TREND, 0) : number])
        return int(rule.needed(rate, services, self.most))

    def _scale(self, wanted: int, now: float) -> None:
        """Start what is missing of the first `wanted` replicas, and stop surplus ones."""
        while len(self.replicas) < wanted:
            self.replicas.append(_Replica())
        for replica in self.replicas[:wanted]:
            if replica.begun is None:
                self._start(replica, now)
        self._stop(wanted, now)
        self.peak = max(self.peak, sum(one.begun is not None for one in self.replicas))

    def _start(self, replica: _Replica, now: float) -> None:
        # The replicas that a service begins with are warm.
        cold = self.rule.cold_s if self.results else 0.0
        replica.begun, replica.warm = now, now + cold
        replica.free = replica.warm
        self.starts += 1

    def _stop(self, wanted: int, now: float) -> None:
        own = isinstance(self.rule, OwnReplicas | Clairvoyant) and wanted > 0
        for replica in self.replicas[wanted:]:
            until = replica.free + (self.rule.idle_s if own else 0.0)
            if replica.begun is not None and (until <= now or not wanted):
                replica.lived += max(min(until, now), replica.begun) - replica.begun
                replica.begun = None

    def _answer(self, job: TraceJob, wanted: int) -> float:
        """Give a request to one of the first replicas, to a warm one if there is any. Return when
        it is answered."""
        now = job.submit_s
        first = self.replicas[:wanted]
        chosen = self.random.choice([one for one in first if one.warm <= now] or first)
        start = max(now, chosen.free)
        end = chosen.free = start + job.duration_s
        due = now + self.rule.sla_s
        self.results.append(
            JobResult(
                job.id, 1, now, start, end, job.duration_s, job.duration_s, job.vc, met=end <= due
            )
        )
        return end

    def _outcome(self, span: float) -> Outcome:
        alive = sum(replica.lived for replica in self.replicas)
        busy = sum(job.duration_s for job in self.results)
        figures: dict[str, float | int] = {
            "replica_hours": alive / 3600,
            "mean_replicas": alive / span if span else 0.0,
            "peak_replicas": self.peak,
            "replica_starts": self.starts,
        }
        used = busy / alive if alive else 0.0
        outcome = Outcome(
            self.results, self.most, utilisation=used, series=self.series, more=figures
        )
        outcome.check(len(self.requests))
        return outcome
