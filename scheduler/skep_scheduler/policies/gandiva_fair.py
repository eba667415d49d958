"""Gandiva_fair: Chaudhary et al., EuroSys 2020. Our reading of the paper; its code is not public.

Section 4: users have tickets (weights) and get GPU time in their proportion, by gang-aware stride
scheduling.

Live, the time of each user is kept fair by turns (`policies.rounds`): of the GPUs of each model a
user is entitled to `E = water-filling of N by tickets`, no more than its jobs ask for. Its jobs in
the order of submission get their whole size, the one that crosses E gets the share
`(E - those before it) / n` of the time, and the others run on what is idle. Strides differ from
that in that they remember all earlier rounds; ours follows from when jobs were placed and wait, so
that a restart of the scheduler loses nothing. A large gang is not starved by small ones: what it
is owed grows until it is chosen first, and small ones fill in behind it (gang-aware).

`Stride` gives each job, and not each user, its part of the GPUs of a model by tickets.
`stride` is the rule of the paper itself. The trades of section 5 are `gandiva_trading`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from skep_scheduler.model import Gang
from skep_scheduler.policies.base import (
    WEIGHTS,
    Needs,
    RoundView,
    parameter,
    round_parameter,
    weights_of,
)


@dataclass(frozen=True, slots=True)
class GandivaFair:
    """Users get GPU time in proportion to their tickets. Jobs take turns in rounds, and yield to
    those to which time is owed."""

    name: ClassVar[str] = "gandiva_fair"
    label: ClassVar[str] = "fair share of GPU time"
    needs: ClassVar[Needs] = Needs()

    tickets: str = parameter(
        "",
        "Tickets of users such as `ann:2;bob:0.5`; all others have 1.",
        pattern=WEIGHTS,
    )
    round_s: float = round_parameter(600.0)

    def shares(self, view: RoundView) -> Mapping[str, float]:
        tickets = weights_of(self.tickets)
        found: dict[str, float] = {}
        by_leaf: defaultdict[str, defaultdict[str, list[tuple[Gang, float]]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for gang in view.gangs:
            most = view.main_gpus(gang)
            if most is None:
                found[gang.id] = 1.0
                continue
            leaf, gpus = most
            by_leaf[leaf][gang.owner].append((gang, gpus))
        for leaf, users in by_leaf.items():
            asked = {user: sum(n for _, n in some) for user, some in users.items()}
            entitled = water_fill(view.capacity.get(leaf, 0.0), asked, tickets)
            for user, some in users.items():
                found |= _in_turn(some, entitled[user])
        return found


def _in_turn(gangs: Sequence[tuple[Gang, float]], entitled: float) -> dict[str, float]:
    shares: dict[str, float] = {}
    for gang, gpus in sorted(gangs, key=lambda one: (-one[0].priority, *_submission(one[0]))):
        shares[gang.id] = min(max(entitled, 0.0) / gpus, 1.0)
        entitled -= gpus
    return shares


def _submission(gang: Gang) -> tuple[float, str]:
    return gang.submitted_at, gang.id


def water_fill(
    total: float, asked: Mapping[str, float], tickets: Mapping[str, float]
) -> dict[str, float]:
    """Return the entitlements of users in proportion to their tickets, none above what it asks
    for; what one does not need goes to the others."""
    found: dict[str, float] = {}
    left, users = (
        total,
        sorted(asked, key=lambda user: (asked[user] / tickets.get(user, 1.0), user)),
    )
    weight = sum(tickets.get(user, 1.0) for user in users)
    for user in users:
        mine = tickets.get(user, 1.0)
        found[user] = min(asked[user], left * mine / weight)
        left -= found[user]
        weight -= mine
    return found


@dataclass(frozen=True, slots=True)
class Stride:
    """Jobs get GPU time in proportion to the tickets of their owners, each job for itself. They
    take turns in rounds, and yield to those to which time is owed."""

    name: ClassVar[str] = "stride"
    label: ClassVar[str] = "turns by tickets"
    needs: ClassVar[Needs] = Needs()

    tickets: str = parameter(
        "",
        "Tickets of the jobs of users such as `ann:2;bob:0.5`; all others have 1.",
        pattern=WEIGHTS,
    )
    round_s: float = round_parameter(600.0)

    def shares(self, view: RoundView) -> Mapping[str, float]:
        tickets = weights_of(self.tickets)
        found: dict[str, float] = {}
        by_leaf: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for gang in view.gangs:
            most = view.main_gpus(gang)
            if most is None:
                found[gang.id] = 1.0
                continue
            leaf, gpus = most
            by_leaf[leaf][gang.id] = gpus
        own = {gang.id: tickets.get(gang.owner, 1.0) for gang in view.gangs}
        for leaf, asked in by_leaf.items():
            entitled = water_fill(view.capacity.get(leaf, 0.0), asked, own)
            found |= {gang_id: entitled[gang_id] / gpus for gang_id, gpus in asked.items()}
        return found


@dataclass(slots=True)
class StrideUser:
    """A user of `stride`: jobs by size in the order of submission, tickets, and the pass so far."""

    name: str
    jobs: list[int]
    tickets: float = 1.0
    passed: float = 0.0


def stride(users: Sequence[StrideUser], gpus: int, quantum: float) -> list[tuple[str, int]]:
    """Choose the jobs of one quantum, as (user, position of the job): the job of the user with the
    least pass that fits goes next, and raises the pass of its user by `size * quantum / tickets`.
    A job that does not fit is passed over, and its user keeps its pass."""
    left = gpus
    chosen: list[tuple[str, int]] = []
    queues = {user.name: list(enumerate(user.jobs)) for user in users}
    while True:
        able = [
            (user.passed, user.name, position, size, user)
            for user in users
            for position, size in queues[user.name][:1]
        ]
        if not able:
            return chosen
        _, name, position, size, user = min(able, key=lambda one: one[:3])
        queues[name].pop(0)
        if size <= left:
            left -= size
            user.passed += size * quantum / user.tickets
            chosen.append((name, position))
