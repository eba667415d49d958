"""The part of the queue that a forecast or an explanation plans for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from skep_scheduler.memory import IDLE, domain_of
from skep_scheduler.model import Gang
from skep_scheduler.policies.base import Decision
from skep_scheduler.policies.ordered import rising
from skep_scheduler.state import ClusterState


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of the queue to plan for. Either the first `most` of the `waiting` guaranteed gangs of
    a virtual cluster, with at least so many `reservations`; or the gang `also` as if it waited, and
    what comes before it."""

    vc: str
    waiting: tuple[Gang, ...] = ()
    most: int = 0
    reservations: int = 0
    also: Gang | None = None

    def gangs(self, state: ClusterState, decision_of: Callable[[str], Decision]) -> Iterator[Gang]:
        """Yield the gangs to consider, first come first; `decision_of` gives the order of a domain.
        The order of those that are left may change by the starts of those before."""
        if self.also is not None:
            yield from _up_to(self.also, state, decision_of)
        else:
            yield from islice(rising(self.waiting, decision_of(self.vc).rank), self.most)


def _up_to(
    also: Gang, state: ClusterState, decision_of: Callable[[str], Decision]
) -> Iterator[Gang]:
    """Yield the gangs that come before this one, and itself, by domain, since the ranks of two
    policies do not compare. The virtual cluster whose first gang was submitted first comes first,
    and the idle domain last. What other virtual clusters get matters only to opportunistic gangs,
    which come after all guaranteed ones."""
    domains: dict[str, list[Gang]] = {domain_of(also): [also]}
    for gang in state.queued():
        name = domain_of(gang)
        if gang.id != also.id and (also.opportunistic or name == also.vc):
            domains.setdefault(name, []).append(gang)
    ranks = {name: decision_of(name).rank for name in domains}
    first = {name: min(some, key=ranks[name]) for name, some in domains.items()}
    for name in sorted(domains, key=lambda n: (n == IDLE, first[n].submitted_at, n)):
        for gang in rising(domains[name], ranks[name]):
            yield gang
            if gang is also:
                return
