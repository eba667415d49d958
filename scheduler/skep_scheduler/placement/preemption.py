"""Preemption: which gangs must leave for another one, when they may be asked, and whether the
places that are nominated for the preemptor can still be had."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from skep_scheduler.cells.answer import Refusal
from skep_scheduler.model import (
    Cancel,
    Code,
    Downgrade,
    Gang,
    Options,
    Placement,
    Preemption,
    Reason,
    Victim,
)
from skep_scheduler.placement.base import Found
from skep_scheduler.policies.base import Decision
from skep_scheduler.state import ClusterState, owner_of
from skep_scheduler.state.cluster import Nomination

WORTH = 20.0  # a job runs so many times what its restart costs before a policy takes its places


def too_early(
    state: ClusterState, gang: Gang, found: Found, now: float, options: Options
) -> Refusal | None:
    """Victims have a minimum run time, and a preemptor that was cancelled waits longer each time:
    so nothing is preempted in a circle. Who leaves anyway may always be waited for."""
    asked = [gang_id for gang_id in _all(found) if not _leaves(state, gang_id)]
    if not asked:
        return None
    until = cools_until(state, gang.id, options)
    if now < until:
        return Refusal(Code.COOLING_DOWN, "", {"until": until})
    at = max(_preemptible_from(state, gang_id, gang, now, options) for gang_id in asked)
    # One that starts in this very plan does not run yet: it cannot be asked to leave.
    if now < at or not all(gang_id in state.running for gang_id in asked):
        return Refusal(
            Code.VICTIMS_TOO_YOUNG,
            "",
            {"at": at, "victims": list(asked)},
        )
    return None


def undoes(state: ClusterState, found: Found, made: Iterable[Preemption]) -> list[str]:
    """Return the gangs to which this very plan gave a place or a reservation that these places
    would take: the next plan may undo that. `made` are its preemptions."""
    started = [gang for gang in found.downgrades if gang not in state.running]
    planned = {preempting.gang for preempting in made}
    return started + [gang for gang in found.cancels if gang in planned]


def cools_until(state: ClusterState, gang_id: str, options: Options) -> float:
    cancelled = state.cancelled.get(gang_id)
    if cancelled is None:
        return 0.0
    pause = options.cooldown_s * 2 ** min(cancelled.times - 1, 30)
    return cancelled.at + min(pause, options.cooldown_limit_s)


def of(
    state: ClusterState,
    gang: Gang,
    placement: Placement,
    found: Found,
    now: float,
    decision: Decision,
) -> Preemption:
    """Return what is to be stored. `decision` is that of the gang's domain."""
    asked = [gang_id for gang_id in _all(found) if not _leaves(state, gang_id)]
    leaving = tuple(gang_id for gang_id in _all(found) if _leaves(state, gang_id))
    victims = tuple(_victim(state, found, gang_id) for gang_id in asked)
    if decision.standing is not None and not gang.opportunistic:
        victims = tuple(
            replace(victim, standing=decision.standing(state.running[victim.gang].served(now)))
            if victim.vc == gang.vc and victim.priority == gang.priority
            else victim
            for victim in victims
        )
    return Preemption(placement.gang, placement, victims, leaving)


def outranked(by: Gang) -> Reason:
    message = "What it had reserved goes to another job, which has a higher priority."
    return Reason(Cancel.OUTRANKED, message, {"by": by.id})


def downgraded(by: Gang) -> Reason:
    message = "Its cells go to another job; it runs on opportunistically."
    return Reason(Downgrade.PREEMPTED_LAZILY, message, {"by": by.id})


def _all(found: Found) -> list[str]:
    return [*found.victims, *(g for g in found.overcommitters if g not in found.victims)]


def _leaves(state: ClusterState, gang_id: str) -> bool:
    allocation = state.running.get(gang_id)
    return allocation is not None and allocation.leaving


def _preemptible_from(
    state: ClusterState, gang_id: str, by: Gang, now: float, options: Options
) -> float:
    allocation = state.running.get(gang_id)
    if allocation is None:  # it starts in this very tick
        return now + options.min_run_s
    guaranteed = state.is_guaranteed(gang_id)
    least = options.min_run_s if guaranteed else options.opportunistic_min_run_s
    if guaranteed and allocation.gang.priority == by.priority and allocation.gang.vc == by.vc:
        # Only the order of a policy takes its places: it may use most of its time for its work.
        least = max(least, WORTH * allocation.gang.restart_s)
    return allocation.placed_at + least


def _victim(state: ClusterState, found: Found, gang_id: str) -> Victim:
    allocation = state.running[gang_id]
    gang = allocation.gang
    return Victim(
        gang_id,
        gang.name,
        gang.vc,
        gang.owner,
        gang.priority if state.is_guaranteed(gang_id) else -1,
        sum(len(task.gpu_uuids) for task in allocation.tasks),
        tuple(found.victims.get(gang_id, ())),
        tuple(sorted({task.node for task in allocation.tasks})),
        "cells" if gang_id in found.victims else found.overcommitters[gang_id],
    )


def is_cleared(state: ClusterState, nomination: Nomination) -> bool:
    """Whether everybody else is gone from the GPUs, and enough CPU and memory is free."""
    return not waited_for(state, nomination)


def waited_for(state: ClusterState, nomination: Nomination) -> list[str]:
    """The gangs that have to leave yet."""
    gang_id = nomination.gang.id
    users = {
        owner_of(leaf.user)
        for group in state.allocations.groups_of(gang_id)
        for leaf, _ in group.pairs()
        if leaf.user is not None
    }
    for node in {task.node for task in nomination.tasks}:
        resources = state.allocations.resources.nodes[node]
        if not _is_enough(resources.free.cpu_millis, resources.free.memory_mb):
            users |= {user for user in resources.users if _leaves(state, user)}
    return sorted(users - {gang_id})


def broken(state: ClusterState, nomination: Nomination) -> Reason | None:
    """Why a reservation cannot be kept."""
    if not state.is_nominated(nomination.gang.id):
        return _broken("Its cells are in use otherwise, or there no more.")
    for node in sorted({task.node for task in nomination.tasks}):
        if not state.allocations.resources.nodes[node].open:
            return _broken(f"Node {node} is not there to be used.", node=node)
    leaves = [
        leaf
        for group in state.allocations.groups_of(nomination.gang.id)
        for leaf, _ in group.pairs()
    ]
    for leaf in leaves:
        if leaf.bad:
            return _broken(f"A GPU of {leaf.node} went bad.", node=leaf.node)
        if leaf.user is not None and not _leaves(state, owner_of(leaf.user)):
            return _broken("Its cells are in use otherwise.", by=owner_of(leaf.user))
    return _without_resources(state, nomination)


def _without_resources(state: ClusterState, nomination: Nomination) -> Reason | None:
    for node in sorted({task.node for task in nomination.tasks}):
        resources = state.allocations.resources.nodes[node]
        enough = _is_enough(resources.free.cpu_millis, resources.free.memory_mb)
        if not enough and not any(_leaves(state, user) for user in resources.users):
            return _broken(f"Node {node} has too little CPU or memory now.", node=node)
    return None


def _is_enough(cpu_millis: int, memory_mb: int) -> bool:
    return cpu_millis >= 0 and memory_mb >= 0


def _broken(message: str, **details: object) -> Reason:
    return Reason(Cancel.RESERVATION_BROKEN, f"{message} It waits again.", details)
