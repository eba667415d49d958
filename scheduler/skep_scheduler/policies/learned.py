"""Learned policies, experimental: what they have in common, and the guard around them.

A rule gives sizes by choices that a network makes one after the other (`SizeRule.sizes`). With the
choice of the least key instead, it is the policy that the network learned from at first, and that
the guard falls back to for one decision:

- where scores are not finite;
- where a job is unlike all in training: it needs more than one GPU at least, or has no rate;
- where there are more than 1,000 jobs.

A job that waited longer than `starvation_s` gets GPUs before the network is asked; that counts as a
fallback, too. The simulator reports how many there were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from skep_scheduler.policies.elastic import ElasticFacts, Sizes

if TYPE_CHECKING:
    from skep_scheduler.policies.network import Network

MOST_JOBS = 1000
# Returns the row of the choice that is taken, of the features of all choices. The least of the keys
# is what the policy takes that the network learned from.
Choose = Callable[[Any, Sequence[float]], int]


class FallBack(Exception):
    """The network cannot decide; the message says why."""


def by_key(rows: Any, keys: Sequence[float]) -> int:
    """Take the choice with the least key, the first of equals: what the fallback does."""
    return min(range(len(keys)), key=keys.__getitem__)


class SizeRule(Protocol):
    """A learned policy without its weights; its fields are its parameters."""

    name: ClassVar[str]
    features: ClassVar[tuple[str, ...]]
    slot_s: float
    starvation_s: float

    def is_due(self, now: float) -> bool:
        """Return whether sizes are decided now, and do not only stay."""
        ...

    def next_at(self, now: float, *, waits: bool) -> float:
        """Return when to decide next, even if nothing happens."""
        ...

    def sizes(
        self, jobs: Sequence[ElasticFacts], gpus: int, now: float, choose: Choose
    ) -> dict[str, int]:
        """Return the GPUs of each job by its id."""
        ...


class Guarded:
    """A rule with the network that chooses, and its guard."""

    experimental: ClassVar[bool] = True

    def __init__(self, rule: SizeRule, network: Network) -> None:
        self._rule, self._network = rule, network
        self.name = rule.name

    def decide(self, jobs: Sequence[ElasticFacts], gpus: int, now: float) -> Sizes:
        rule = self._rule
        if not rule.is_due(now):
            held = {job.id: job.held for job in jobs}
            return Sizes(held, wake_at=rule.next_at(now, waits=True))
        reason = unlike(jobs)
        try:
            if reason:
                raise FallBack(reason)
            sizes = rule.sizes(jobs, gpus, now, self._network.best)
        except (FallBack, FloatingPointError) as found:
            reason = str(found)
            sizes = rule.sizes(jobs, gpus, now, by_key)
        if not reason and starving(jobs, now, rule.starvation_s):
            reason = "a job starved"
        waits = len(sizes) < len(jobs)
        return Sizes(sizes, wake_at=rule.next_at(now, waits=waits), fell_back=reason)


def unlike(jobs: Sequence[ElasticFacts]) -> str:
    """Return why these jobs are unlike those in training, "" if they are not."""
    if len(jobs) > MOST_JOBS:
        return f"there are more than {MOST_JOBS} jobs"
    for job in jobs:
        if job.least != 1 or job.largest < 1 or not 0 < job.rate(1) < inf:
            return f"{job.id} needs more than one GPU, or has no rate"
    return ""


def starving(jobs: Sequence[ElasticFacts], now: float, limit_s: float) -> list[ElasticFacts]:
    """Return the jobs that waited longer than the limit, the longest first."""
    late = [job for job in jobs if not job.held and now - waits_since(job) > limit_s]
    return sorted(late, key=lambda job: (waits_since(job), job.id))


def waits_since(job: ElasticFacts) -> float:
    return max(job.submitted_at, job.rescaled_at)
