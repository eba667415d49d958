"""Gandiva_fair with trades: Chaudhary et al., EuroSys 2020, section 5. Our reading of the paper;
its code is not public.

Users have tickets and are entitled to GPU time in their proportion on each GPU model (section 4,
`gandiva_fair`), and then trade it. With `v_u` the speed-up of user u on a fast model F over a slow
model S, the mean over its jobs by GPUs: the user with the least speed-up that has time on F lends
it to the user with the largest one that has time on S, and gets rho times as much on S. rho is the
second-largest speed-up among those who want to buy (the second price), but at least the lender's
own. Both end with at least their former throughput. It stops where speed-ups are within 10 %.

Only jobs that name no GPU model trade: a user is entitled to time for them on each model in
proportion to how many GPUs the virtual cluster has of it. The speed of a job on a model is the one
that it declares (`extras.skep.speeds`), else that of the parameter `speeds`, else 1. What a user
has after the trades goes to its jobs by priority and submission, each on its fastest model first;
GPUs to which no user is entitled are taken in the same way.

It differs from the paper in two ways. Nothing measures speeds, so jobs declare them. And a lender
takes no more time on S than its jobs can use, which the paper need not say, as its users have more
jobs than GPUs. With three or more models each pair trades once, the fastest with the slowest first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import inf
from typing import ClassVar

from skep_scheduler.model import Gang
from skep_scheduler.policies.base import (
    WEIGHTS,
    Needs,
    Parts,
    RoundView,
    only_gpus,
    parameter,
    round_parameter,
    weights_of,
)
from skep_scheduler.policies.gandiva_fair import water_fill
from skep_scheduler.policies.gpu_speeds import assumed, speed_on, speeds_parameter

Speeds = tuple[tuple[str, float], ...]  # by the name of a GPU model
Asked = tuple[Speeds, str, float, bool]  # with the leaf type, GPUs, and whether it may run on any
Models = tuple[Mapping[str, float], Mapping[str, float]]  # rates and spread of a job
CLOSE = 1.1  # speed-ups that are not worth a trade
LEAST = 1e-9  # GPUs: less than this is nothing


@dataclass(frozen=True, slots=True)
class Trader:
    """A user with GPUs on the fast and the slow model, its speed-up on the fast one, and how many
    GPUs it can use in all."""

    name: str
    fast: float
    slow: float
    speed_up: float
    most: float = inf

    @property
    def throughput(self) -> float:
        """Return its throughput in units of its rate on the slow model."""
        return self.fast * self.speed_up + self.slow


def trade(users: Sequence[Trader]) -> list[Trader]:
    """Return the users after all trades between a fast and a slow GPU model."""
    fast = {user.name: user.fast for user in users}
    slow = {user.name: user.slow for user in users}
    by_speed = sorted(users, key=lambda user: (user.speed_up, user.name))
    lenders = list(by_speed)
    while lenders:
        lender = lenders[0]
        buyers = [user for user in by_speed if slow[user.name] > LEAST]
        if not buyers or buyers[-1].speed_up <= CLOSE * lender.speed_up:
            break  # the others gain less still
        buyer = buyers[-1]
        second = buyers[-2].speed_up if len(buyers) > 1 else lender.speed_up
        rate = min(max(second, lender.speed_up), buyer.speed_up)
        amount = min(fast[lender.name], slow[buyer.name] / rate)
        if rate != 1:  # who gets more GPUs than it gives has to have a use for them
            more = lender if rate > 1 else buyer
            unused = more.most - fast[more.name] - slow[more.name]
            amount = min(amount, max(unused, 0.0) / abs(rate - 1))
        if amount <= LEAST:
            lenders.pop(0)  # it has nothing to lend, or no use for more
            continue
        fast[lender.name] -= amount
        slow[lender.name] += amount * rate
        fast[buyer.name] += amount
        slow[buyer.name] -= amount * rate
    return [
        Trader(user.name, fast[user.name], slow[user.name], user.speed_up, user.most)
        for user in users
    ]


@dataclass(frozen=True, slots=True)
class _Job:
    """A gang with its GPUs, all of one model; `rates`: its speed on each model on which it may run,
    by leaf type. One that names its model has just that. `spread`: the GPUs that it asks for, over
    these models in proportion to their capacity."""

    gang: Gang
    gpus: float
    rates: Mapping[str, float]
    spread: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class GandivaTrading:
    """Users get GPU time in proportion to their tickets, and trade it: time on a fast GPU model for
    more time on a slow one, where both gain. Jobs take turns in rounds, and yield to those to which
    time is owed."""

    name: ClassVar[str] = "gandiva_trading"
    label: ClassVar[str] = "fair share of GPU time, traded between GPU models"
    needs: ClassVar[Needs] = Needs(assumes=assumed(""))

    tickets: str = parameter(
        "",
        "Tickets of users such as `ann:2;bob:0.5`; all others have 1.",
        pattern=WEIGHTS,
    )
    speeds: str = speeds_parameter()
    round_s: float = round_parameter(600.0)

    def needs_as_chosen(self) -> Needs:
        """Return what it must know with its table of speeds."""
        return Needs(assumes=assumed(self.speeds))

    def shares(self, view: RoundView) -> Mapping[str, float]:
        parts = self.parts(view).by_gang
        return {gang_id: min(sum(own.values()), 1.0) for gang_id, own in parts.items()}

    def parts(self, view: RoundView) -> Parts:
        """Return the parts of each gang by leaf type; of one without GPUs {"": 1}."""
        capacity = only_gpus(view.capacity)
        found: dict[str, dict[str, float]] = {}
        users: defaultdict[str, list[_Job]] = defaultdict(list)
        named, known = tuple(weights_of(self.speeds).items()), dict[Asked, Models]()
        for gang in sorted(view.gangs, key=_order):
            job = _job(view, gang, capacity, gang.speeds or named, known)
            if job is None:
                found[gang.id] = {"": 1.0}
            else:
                users[gang.owner].append(job)
        held = _entitlements(users, capacity, weights_of(self.tickets))
        idle = {
            leaf: gpus - sum(own.get(leaf, 0.0) for own in held.values())
            for leaf, gpus in capacity.items()
        }
        pools: dict[str, dict[str, float]] = {}
        free: dict[str, list[_Job]] = {}
        for user, jobs in users.items():
            pools[user] = _serve_named(jobs, held[user], found)
            free[user] = [job for job in jobs if len(job.rates) > 1]
        _trade_all(pools, free)
        for job in sorted(chain(*free.values()), key=lambda job: _order(job.gang)):
            found[job.gang.id] = _take(job, pools[job.gang.owner], idle)
        return Parts(found)


def _job(
    view: RoundView,
    gang: Gang,
    capacity: Mapping[str, float],
    speeds: Speeds,
    known: dict[Asked, Models],
) -> _Job | None:
    """Return a gang with its models, as they are `known` of those that ask alike; None: it asks for
    no GPUs."""
    most = view.main_gpus(gang)
    if most is None:
        return None
    at, gpus = most
    movable = view.accepts_any(gang) and len(view.gpus(gang)) == 1
    asked = speeds, at, gpus, movable
    if (models := known.get(asked)) is None:
        leaves = [leaf for leaf in sorted(capacity) if movable and capacity[leaf] >= gpus]
        rates = {leaf: speed_on(leaf, dict(speeds)) for leaf in leaves or [at]}
        models = known[asked] = rates, _spread(gpus, rates, capacity)
    return _Job(gang, gpus, *models)


def _order(gang: Gang) -> tuple[float, float, str]:
    return -gang.priority, gang.submitted_at, gang.id


def _spread(
    gpus: float, rates: Mapping[str, float], capacity: Mapping[str, float]
) -> Mapping[str, float]:
    total = sum(capacity.get(leaf, 0.0) for leaf in rates)
    if len(rates) == 1 or total <= 0:
        return dict.fromkeys(list(rates)[:1], gpus)
    return {leaf: gpus * capacity[leaf] / total for leaf in rates}


def _entitlements(
    users: Mapping[str, Sequence[_Job]],
    capacity: Mapping[str, float],
    tickets: Mapping[str, float],
) -> dict[str, dict[str, float]]:
    """Return the GPUs of each model to which each user is entitled."""
    asked: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for user, jobs in users.items():
        for job in jobs:
            for leaf, gpus in job.spread.items():
                asked[leaf][user] = asked[leaf].get(user, 0.0) + gpus
    held: dict[str, dict[str, float]] = {user: {} for user in users}
    for leaf, wanted in asked.items():
        for user, gpus in water_fill(capacity.get(leaf, 0.0), wanted, tickets).items():
            held[user][leaf] = gpus
    return held


def _serve_named(
    jobs: Sequence[_Job],
    held: dict[str, float],
    found: dict[str, dict[str, float]],
) -> dict[str, float]:
    """Write the parts of the jobs that name a model to `found`. Return what the others of the same
    user have on each model together: their part, as far as jobs before them leave it."""
    pool: dict[str, float] = {}
    for job in jobs:
        for leaf, gpus in job.spread.items():
            own = min(held.get(leaf, 0.0), gpus)
            held[leaf] = held.get(leaf, 0.0) - own
            if len(job.rates) == 1:
                found[job.gang.id] = {leaf: own / job.gpus}
            else:
                pool[leaf] = pool.get(leaf, 0.0) + own
    return pool


def _trade_all(pools: Mapping[str, dict[str, float]], free: Mapping[str, Sequence[_Job]]) -> None:
    """Exchange time between each two models, those with the most different speeds first."""
    speeds = _mean_speeds([job for jobs in free.values() for job in jobs])
    slowest_first = sorted(speeds, key=lambda leaf: (speeds[leaf], leaf))
    pairs = sorted(
        combinations(slowest_first, 2),
        key=lambda pair: (-speeds[pair[1]] / speeds[pair[0]], pair),
    )
    for slow, fast in pairs:
        traders = []
        for user, jobs in sorted(free.items()):
            both = [job for job in jobs if slow in job.rates and fast in job.rates]
            if both:
                gpus = sum(job.gpus for job in both)
                ratios = sum(job.gpus * job.rates[fast] / job.rates[slow] for job in both)
                pool = pools[user]
                here = pool.get(fast, 0.0), pool.get(slow, 0.0)
                elsewhere = sum(pool.values()) - sum(here)
                most = sum(job.gpus for job in jobs) - elsewhere
                traders.append(Trader(user, *here, ratios / gpus, most))
        for one in trade(traders):
            pools[one.name] |= {fast: one.fast, slow: one.slow}


def _mean_speeds(jobs: Sequence[_Job]) -> dict[str, float]:
    speeds: defaultdict[str, float] = defaultdict(float)
    gpus: defaultdict[str, float] = defaultdict(float)
    for job in jobs:
        for leaf, rate in job.rates.items():
            speeds[leaf] += job.gpus * rate
            gpus[leaf] += job.gpus
    return {leaf: total / gpus[leaf] for leaf, total in speeds.items()}


def _take(job: _Job, pool: dict[str, float], idle: dict[str, float]) -> dict[str, float]:
    """Return the parts of a job, of what its user has after the trades and of what is idle, and
    take them off both."""
    left = job.gpus
    own: dict[str, float] = {}
    for leaf in sorted(job.rates, key=lambda leaf: (-job.rates[leaf], leaf)):
        gpus = 0.0
        for source in (pool, idle):
            some = min(max(source.get(leaf, 0.0), 0.0), left)
            source[leaf] = source.get(leaf, 0.0) - some
            gpus, left = gpus + some, left - some
        if gpus > LEAST:
            own[leaf] = gpus / job.gpus
    return own
