"""Makes decisions of an order policy, and the rule that no gang starves under any of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from skep_scheduler.model import Gang, Options
from skep_scheduler.policies.base import (
    Decision,
    ExplainedPolicy,
    LearnsServices,
    OrderPolicy,
    Rank,
    Thresholds,
    View,
)

LEAST_WAIT_S = 1e-3  # so that a moment that floats do not distinguish from now is not met again


@dataclass(frozen=True, slots=True)
class Ordered:
    """Ranks gangs by (starving first, key of the policy, submission, id)."""

    policy: OrderPolicy

    def decide(self, view: View) -> Decision:
        policy = self.policy
        if isinstance(policy, LearnsServices) and view.domain is not None:
            policy = policy.by_services(view.domain.services())
        key, now, options = policy.key, view.now, view.options
        starvation_s = options.starvation_s

        def rank(gang: Gang) -> Rank:
            # By submission and not by its return to the queue: a gang that was drained, preempted
            # or retried keeps its place before those of its priority that came after it.
            starving = starves_at(gang, starvation_s) <= now
            return not starving, key(gang, now), gang.submitted_at, gang.id

        def order(gang: Gang) -> Rank:
            return key(gang, 0.0), gang.submitted_at, gang.id

        outranks = outranking(now, options)
        return Decision(
            rank,
            order,
            policy.backfill_mode,
            outranks,
            policy.keep,
            policy.label,
            wake_at=_next_crossing(policy, view) if isinstance(policy, Thresholds) else None,
            standing=policy.standing if isinstance(policy, ExplainedPolicy) else None,
        )


def _next_crossing(policy: Thresholds, view: View) -> float | None:
    """Return when the key of a running gang changes next, by the service that it attains."""
    soonest = None
    for allocation in view.domain.running() if view.domain is not None else ():
        attained = allocation.attained_gpu_s(view.now)
        limit, gpus = policy.next_limit(attained), allocation.gpus
        if limit is not None and gpus:
            at = view.now + max((limit - attained) / gpus, LEAST_WAIT_S)
            soonest = at if soonest is None else min(soonest, at)
    return soonest


def outranking(now: float, options: Options) -> Callable[[Gang, Gang], bool]:
    """Return whether a gang may delay a start that is reserved for another one. A gang that waits
    longer, or came first, delays none by that alone."""

    def outranks(gang: Gang, other: Gang) -> bool:
        starves = is_starving(gang, now, options), is_starving(other, now, options)
        return (starves[0], gang.priority) > (starves[1], other.priority)

    return outranks


def ordered(gangs: Iterable[Gang], decision: Decision) -> list[Gang]:
    """Return the gangs of one domain, first come first."""
    return sorted(gangs, key=decision.rank)


def rising(gangs: Sequence[Gang], rank: Callable[[Gang], Rank]) -> Iterator[Gang]:
    """Yield gangs, first come first, whose ranks may rise by what is done with those before."""
    heap = [(rank(gang), n) for n, gang in enumerate(gangs)]
    heapq.heapify(heap)
    while heap:
        before, n = heapq.heappop(heap)
        now = rank(gangs[n])
        if now != before:
            heapq.heappush(heap, (now, n))
        else:
            yield gangs[n]


def waits_since(gang: Gang) -> float:
    """Return when the gang could have started for the first time since it was queued (seconds since
    the epoch). Starvation counts from here: a gang that ran until a moment ago does not starve."""
    since = gang.submitted_at if gang.waits_since is None else gang.waits_since
    return max(since, gang.not_before)


def is_starving(gang: Gang, now: float, options: Options) -> bool:
    """Return whether a guaranteed gang has waited for `options.starvation_s`."""
    return starves_at(gang, options.starvation_s) <= now


def starves_at(gang: Gang, starvation_s: float) -> float:
    """Return from when on the gang starves if it goes on waiting; infinity: never."""
    return float("inf") if gang.opportunistic else waits_since(gang) + starvation_s
