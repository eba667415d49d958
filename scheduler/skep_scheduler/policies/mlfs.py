"""MLFS (Wang et al., CoNEXT 2020): an order by what a job learns and what it lacks, and early stop.

MLF-H, section 3.2, for a job that is not model-parallel (one task, S_k = S_J, no children). In
iteration I of job J with losses l and urgency L_J:

- `P_ML = L_J (1 / I) (dl(I - 1) / sum of dl)`: early iterations lower the loss most; without losses
  the last factor is 1 / I
- `P_C = g_d / (d - t) + g_r / r + g_w w`: d deadline, r remaining time, w time waited, in hours
- `P = alpha P_ML + (1 - alpha) P_C`, the largest first, looked at each round of 60 s

The paper gives no units. With `normalise=yes` P_ML and P_C are divided by their maxima over all
jobs; `no` is the literal text. A deadline that has passed counts nothing. Jobs run at the size that
they ask for, and those of lower priority yield. Where several servers fit, the paper takes the one
nearest to an ideal load; the simulator counts GPUs and has no servers here.

MLF-C, section 3.4: while the cluster is overloaded (jobs wait, or its load is above 90 %), jobs
that allow it stop earlier: `stop_option` goes from fixed iterations to the best predicted accuracy,
and then to the required one. `predicted_final` goes by the fitted loss (`optimus.fit_loss`).
Our reading of the paper: there is no public code for the traces.

Live (`ranking`) P is as of the start of each round, with 1 / I for what the losses would say, as
live jobs report none; MLF-C has no effect. Work is the probable duration of a job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from math import floor, inf
from typing import Any, ClassVar

from skep_scheduler.model import Gang
from skep_scheduler.policies.base import Knows, Needs, Ranking, RoundView, parameter
from skep_scheduler.policies.elastic import ElasticFacts, Sizes
from skep_scheduler.policies.optimus import fit_loss

ITERATIONS = 100  # of a job, where its trace has none: its work in parts


@dataclass(frozen=True, slots=True)
class Mlfs:
    """Jobs that began lately, are due soon, end soon or waited long come first; running ones
    yield."""

    name: ClassVar[str] = "mlfs"
    label: ClassVar[str] = "what jobs learn, their deadlines, remaining time and wait"
    needs: ClassVar[Needs] = Needs(
        frozenset({Knows.DURATION}),
        "A job of unknown duration is taken for as long again as it has run, for an hour at least. "
        "No job reports its loss: what it learns is taken to fall with the part that it has run.",
    )

    alpha: float = parameter(0.3, "Weight of what it learns.", minimum=0, maximum=1)
    deadline_weight: float = parameter(0.3, "Weight of its deadline.", minimum=0, maximum=1000)
    left_weight: float = parameter(0.3, "Weight of its remaining time.", minimum=0, maximum=1000)
    wait_weight: float = parameter(0.35, "Weight of its wait.", minimum=0, maximum=1000)
    normalise: str = parameter(
        "yes", "Whether both parts are divided by their maxima.", choices=("yes", "no")
    )
    round_s: float = parameter(60.0, "Seconds between two decisions.", minimum=1, maximum=86400)

    def decide(self, jobs: Sequence[ElasticFacts], gpus: int, now: float) -> Sizes:
        given, free = dict[str, int](), gpus
        ranked = sorted(zip(self.priorities(jobs, now), jobs, strict=True), key=lambda one: -one[0])
        for _, job in ranked:
            size = min(job.gpus, job.largest)
            if size <= free and job.rate(size) > 0:
                given[job.id] = size
                free -= size
        waits = len(given) < len(jobs)
        rounds = floor(now / self.round_s + 1e-9) + 1
        return Sizes(given, wake_at=rounds * self.round_s if waits else inf)

    def priorities(self, jobs: Sequence[ElasticFacts], now: float) -> list[float]:
        """Return P of each job."""
        learned = [learning(job.total - job.left, job.total) for job in jobs]
        lacking = [self._lacking(job, now) for job in jobs]
        if self.normalise == "yes":
            most_learned = max(learned, default=0.0) or 1.0
            most_lacking = max(lacking, default=0.0) or 1.0
            learned = [value / most_learned for value in learned]
            lacking = [value / most_lacking for value in lacking]
        return [
            self.alpha * ml + (1 - self.alpha) * c for ml, c in zip(learned, lacking, strict=True)
        ]

    def ranking(self, view: RoundView) -> Ranking:
        """Return the order of the gangs of a view, the largest P first, those without GPUs at the
        end."""
        jobs = [facts_of(view, gang) for gang in view.gangs if view.main_gpus(gang) is not None]
        jobs.sort(key=lambda job: (job.submitted_at, job.id))
        values = self.priorities(jobs, view.start)
        ranked = sorted(zip(values, jobs, strict=True), key=lambda one: -one[0])
        known = {job.id: (value, job) for value, job in ranked}
        return Ranking(list(known), _Numbers(self, view.start, known))

    def mostly(self, job: ElasticFacts, now: float) -> str:
        """Return what weighs most in P_C of a job: `due`, `left` or `wait`."""
        parts = dict(zip(("due", "left", "wait"), self._lacks(job, now), strict=True))
        return max(parts, key=lambda part: parts[part])

    def _lacking(self, job: ElasticFacts, now: float) -> float:
        due, left, wait = self._lacks(job, now)
        return due + left + wait

    def _lacks(self, job: ElasticFacts, now: float) -> tuple[float, float, float]:
        size = min(job.gpus, job.largest)
        due_h = (job.deadline_at - now) / 3600
        left_h = max(job.left_s(size), 1.0) / 3600
        ran_s = job.attained_gpu_s / size
        waited_h = max(now - job.submitted_at - ran_s, 0.0) / 3600
        due = self.deadline_weight / due_h if due_h > 0 else 0.0
        return due, self.left_weight / left_h, self.wait_weight * waited_h


class _Numbers(Mapping[str, Mapping[str, Any]]):
    """What the policy says of each gang, worked out when it is read: most of them are not."""

    def __init__(
        self, policy: Mlfs, start: float, known: Mapping[str, tuple[float, ElasticFacts]]
    ) -> None:
        self._policy, self._start, self._known = policy, start, known

    def __getitem__(self, gang_id: str) -> Mapping[str, Any]:
        value, job = self._known[gang_id]
        return {"value": round(value, 3), "mostly": self._policy.mostly(job, self._start)}

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def facts_of(view: RoundView, gang: Gang) -> ElasticFacts:
    """Return a live gang with GPUs as the policy sees a job of a trace: its work in seconds, at the
    size that it asks for."""
    most = view.main_gpus(gang)
    gpus = round(most[1]) if most is not None else 1
    ran = view.ran_s(gang)
    left = view.left_s(gang, ran)
    return ElasticFacts(
        gang.id,
        gang.submitted_at,
        gpus,
        _as_asked,
        gpus,
        left,
        max(gang.expected_s or 0.0, ran + left),
        inf if gang.deadline_at is None else gang.deadline_at,
        gang.restart_s,
        held=gpus if gang.id in view.placed_at else 0,
        attained_gpu_s=ran * gpus,
    )


def _as_asked(size: int) -> float:
    return 1.0


def learning(
    done: float, total: float, losses: Sequence[float] = (), urgency: float = 1.0
) -> float:
    """Return P_ML of a job that made `done` of `total` work; `losses` of its iterations so far."""
    if len(losses) < 2:
        iteration = floor(ITERATIONS * done / total) + 1
        return urgency / iteration / iteration
    falls = [max(before - after, 0.0) for before, after in pairwise(losses)]
    fallen = sum(falls)
    return urgency / len(losses) * (falls[-1] / fallen if fallen else 0.0)


class StopOption(IntEnum):
    """When a job ends."""

    ITERATIONS = 1  # after its iterations
    BEST = 2  # when no better accuracy is predicted
    REQUIRED = 3  # when it has the accuracy that it asks for


def stop_option(present: StopOption, allowed: StopOption, *, overloaded: bool) -> StopOption:
    """Return the option of a job now: one further under overload, at most the allowed one."""
    if not overloaded:
        return present
    return StopOption(min(max(allowed, present), present + 1))


def is_overloaded(waiting: int, load: float, threshold: float = 0.9) -> bool:
    """Return whether jobs wait, or the mean load of the cluster is above the threshold."""
    return waiting > 0 or load > threshold


def predicted_final(losses: Sequence[float], iterations: int) -> float | None:
    """Return the loss that is predicted after all iterations; None: too few are known."""
    curve = fit_loss(losses)
    return None if curve is None else curve(iterations)
