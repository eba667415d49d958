"""Themis (Mahajan et al., NSDI 2020): finish-time fairness by an auction of free GPUs.

Section 4. `rho_j = shared_j / ideal_j`: when job j ends as things are, by when it would end with
1/J of the cluster. When terms end and GPUs are free, they are offered to the `1 - f` fraction of
jobs with the largest rho. Each bids `V_j(k) = 1 / rho_j(held + k)` for every number k of GPUs.

- The winners' `k_j` maximise `prod_j V_j(k_j)` with `sum_j k_j <= free` (proportional fairness).
- Hidden payment: winner i keeps the part `c_i` of `k_i`, rounded down to whole gangs, with `c_i`
  the product of the others' values beside it, by that which they would have without it. So bids
  that overstate do not pay.
- What is left goes to the jobs that can use it, bidders or not, a gang at a time, largest rho
  first.

There is no public code: this is our reading of the paper, in whole gangs. Its bound, that a winner
keeps at least 1/e of what it won, holds before that is rounded down to gangs, where all gangs are
of one size and the value is in proportion to the gangs of a job that holds one at least.
`one_model.finish_time_fair` is the min-max rho that others run in its name. Default: f = 0.8.

Live (`Themis`) all terms end at the start of a round. The GPUs of each model are auctioned then, to
at most `MOST_BIDDERS` jobs: each bids for none or all of the GPUs that it asks for, with which it
ends a term earlier than without. `ideal_j` is the probable duration of job j by the part 1/J of the
GPUs of its model, of which it can use no more than it asks for. Those that win come first, and then
all by rho without the GPUs, the largest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, gcd, log
from typing import ClassVar

from skep_scheduler.model import Gang
from skep_scheduler.policies.base import (
    Knows,
    Needs,
    Ranking,
    RoundView,
    parameter,
    round_parameter,
)

FAIRNESS = 0.8
MOST_BIDDERS = 32  # live: what an auction costs grows with their square


@dataclass(frozen=True, slots=True)
class Bidder:
    """A job: its rho with 0, 1, 2, … gangs more, and the GPUs of a gang. Its rho never rises with
    more gangs; the last entry is the most that it can use."""

    rhos: tuple[float, ...]
    gang: int = 1

    @property
    def rho(self) -> float:
        return self.rhos[0]

    def most(self, free: int) -> int:
        return min(len(self.rhos) - 1, free // self.gang)


def bidders(jobs: Sequence[Bidder], fairness: float = FAIRNESS) -> list[int]:
    """Return the positions of those to whom free GPUs are offered, largest rho first."""
    order = sorted(range(len(jobs)), key=lambda j: -jobs[j].rho)
    return order[: max(1, ceil((1 - fairness) * len(jobs) - 1e-9))] if jobs else []


def auction(jobs: Sequence[Bidder], free: int, fairness: float = FAIRNESS) -> list[int]:
    """Return how many gangs each job gets of the free GPUs."""
    bidding = bidders(jobs, fairness)
    granted = [0] * len(jobs)
    for j, gangs in zip(bidding, kept([jobs[j] for j in bidding], free), strict=True):
        granted[j] = gangs
    left = free - sum(jobs[j].gang * k for j, k in enumerate(granted))
    while True:
        able = [
            j for j, job in enumerate(jobs) if granted[j] + 1 < len(job.rhos) and job.gang <= left
        ]
        if not able:
            return granted
        worst = max(able, key=lambda j: (jobs[j].rhos[granted[j]], -j))
        granted[worst] += 1
        left -= jobs[worst].gang


def kept(bids: Sequence[Bidder], free: int) -> list[int]:
    """Return the gangs that each bidder wins and keeps after its hidden payment."""
    won = proportional(bids, free)
    parts = kept_parts(bids, won, free)
    return [int(gangs * part + 1e-9) for gangs, part in zip(won, parts, strict=True)]


def kept_parts(bids: Sequence[Bidder], won: Sequence[int], free: int) -> list[float]:
    """Return the part of what it won that each bidder keeps: the product of the others' values
    beside it, by that without it; 1 where it won nothing."""
    parts = []
    for i, gangs in enumerate(won):
        if not gangs:
            parts.append(1.0)
            continue
        others = [*bids[:i], *bids[i + 1 :]]
        without = _log_value(others, proportional(others, free))
        beside = _log_value(others, [*won[:i], *won[i + 1 :]])
        parts.append(exp(min(beside - without, 0.0)))
    return parts


def _log_value(bids: Sequence[Bidder], won: Sequence[int]) -> float:
    """Return the logarithm of the product of the values `1 / rho`."""
    return sum(-log(bid.rhos[k]) for bid, k in zip(bids, won, strict=True))


def proportional(bids: Sequence[Bidder], free: int) -> list[int]:
    """Return the gangs of each bidder with the largest product of values: exact, by dynamic
    programming over GPUs, O(bidders * free^2)."""
    best = [0.0] * (free + 1)  # the least sum of log(rho) of the first bidders on so many GPUs
    chosen: list[list[int]] = []
    for bid in bids:
        logs = [log(rho) for rho in bid.rhos]
        row = []
        following = []
        for gpus in range(free + 1):
            gangs = min(
                range(bid.most(gpus) + 1), key=lambda k: (best[gpus - k * bid.gang] + logs[k], k)
            )
            row.append(gangs)
            following.append(best[gpus - gangs * bid.gang] + logs[gangs])
        best = following
        chosen.append(row)
    answer = [0] * len(bids)
    for i in range(len(bids) - 1, -1, -1):
        answer[i] = chosen[i][free]
        free -= answer[i] * bids[i].gang
    return answer


@dataclass(frozen=True, slots=True)
class Themis:
    """Jobs that end latest, compared with an equal part of the GPUs, bid for the GPUs at the start
    of each term; then the others, latest first. Running jobs yield when their term ends."""

    name: ClassVar[str] = "themis"
    label: ClassVar[str] = "fair finish times by auction"
    needs: ClassVar[Needs] = Needs(
        frozenset({Knows.DURATION}),
        "A job of unknown duration is taken for as long again as it has run, for an hour at least.",
    )

    fairness: float = parameter(
        FAIRNESS,
        "The part of the jobs that does not bid, those with the least delay.",
        minimum=0.0,
        maximum=0.99,
    )
    round_s: float = round_parameter(1200.0)

    def ranking(self, view: RoundView) -> Ranking:
        """Return the order of the gangs of a view: winners first, then by rho."""
        pools: dict[str, list[tuple[Gang, int]]] = {}
        for gang in view.gangs:
            if (most := view.main_gpus(gang)) is not None:
                pools.setdefault(most[0], []).append((gang, round(most[1])))
        found: list[tuple[bool, float, float, str]] = []
        numbers: dict[str, dict[str, float | bool]] = {}
        for leaf, jobs in sorted(pools.items()):
            free = int(view.capacity.get(leaf, 0.0))
            jobs = sorted(jobs, key=lambda job: (job[0].submitted_at, job[0].id))
            bids = [self._bid(view, gang, gpus, free / len(jobs)) for gang, gpus in jobs]
            bidding = bidders(bids, self.fairness)[:MOST_BIDDERS]
            won = winners([bids[n] for n in bidding], free)
            winning = {n for n, gangs in zip(bidding, won, strict=True) if gangs}
            for n, ((gang, _), bid) in enumerate(zip(jobs, bids, strict=True)):
                found.append((n not in winning, -bid.rho, gang.submitted_at, gang.id))
                numbers[gang.id] = {"rho": round(bid.rho, 2), "bids": n in bidding}
        return Ranking([gang_id for *_, gang_id in sorted(found)], numbers)

    def _bid(self, view: RoundView, gang: Gang, gpus: int, part: float) -> Bidder:
        """Return the bid of a gang whose equal part of the GPUs is `part`."""
        left, ran = view.left_s(gang), view.ran_s(gang)
        ideal = max(gang.expected_s or 0.0, ran + left) * max(gpus / part, 1.0) if part else 1.0
        soonest = max(view.start - gang.submitted_at, 0.0) + left
        return Bidder(((soonest + self.round_s) / ideal, soonest / ideal), gpus)


def winners(bids: Sequence[Bidder], free: int) -> list[int]:
    """Return `kept`, for bidders of which each asks for one gang: all of them where all fit."""
    if sum(bid.gang for bid in bids) <= free:
        return [1] * len(bids)
    unit = gcd(*(bid.gang for bid in bids))
    return kept([Bidder(bid.rhos, bid.gang // unit) for bid in bids], free // unit)
