"""Whom a gang preempts, and when it may."""

from __future__ import annotations

from skep_scheduler.answer import Placement, Preemption, Reason, Victim
from skep_scheduler.cells.answer import Refusal
from skep_scheduler.facts import Gang
from skep_scheduler.queue.codes import Cancel, Code, Downgrade
from skep_scheduler.queue.find import Found
from skep_scheduler.queue.settings import Settings
from skep_scheduler.world import World


def too_early(
    world: World, gang: Gang, found: Found, now: float, settings: Settings
) -> Refusal | None:
    """Victims have a minimum run time, and a preemptor that was cancelled waits longer each time:
    so nothing is preempted in a circle. Who leaves anyway may always be waited for."""
    asked = [gang_id for gang_id in _all(found) if not _leaves(world, gang_id)]
    if not asked:
        return None
    until = cools_until(world, gang.id, settings)
    if now < until:
        return Refusal(Code.COOLING_DOWN, "", {"until": until})
    at = max(_preemptible_from(world, gang_id, now, settings) for gang_id in asked)
    if now < at:
        return Refusal(
            Code.VICTIMS_TOO_YOUNG,
            "",
            {"at": at, "victims": list(asked)},
        )
    return None


def cools_until(world: World, gang_id: str, settings: Settings) -> float:
    cancelled = world.cancelled.get(gang_id)
    if cancelled is None:
        return 0.0
    pause = settings.cooldown_s * 2 ** min(cancelled.times - 1, 30)
    return cancelled.at + min(pause, settings.cooldown_limit_s)


def of(world: World, placement: Placement, found: Found) -> Preemption:
    asked = [gang_id for gang_id in _all(found) if not _leaves(world, gang_id)]
    leaving = tuple(gang_id for gang_id in _all(found) if _leaves(world, gang_id))
    victims = tuple(_victim(world, found, gang_id) for gang_id in asked)
    return Preemption(placement.gang, placement, victims, leaving)


def outranked(by: Gang) -> Reason:
    message = "What it had reserved goes to another job, which has a higher priority."
    return Reason(Cancel.OUTRANKED, message, {"by": by.id})


def downgraded(by: Gang) -> Reason:
    message = "Its cells go to another job; it runs on opportunistically."
    return Reason(Downgrade.PREEMPTED_LAZILY, message, {"by": by.id})


def _all(found: Found) -> list[str]:
    return [*found.victims, *(g for g in found.borrowers if g not in found.victims)]


def _leaves(world: World, gang_id: str) -> bool:
    holding = world.running.get(gang_id)
    return holding is not None and holding.leaving


def _preemptible_from(world: World, gang_id: str, now: float, settings: Settings) -> float:
    holding = world.running.get(gang_id)
    if holding is None:  # it starts in this very tick
        return now + settings.min_run_s
    guaranteed = world.is_guaranteed(gang_id)
    least = settings.min_run_s if guaranteed else settings.opportunistic_min_run_s
    return holding.placed_at + least


def _victim(world: World, found: Found, gang_id: str) -> Victim:
    holding = world.running[gang_id]
    gang = holding.gang
    return Victim(
        gang_id,
        gang.name,
        gang.vc,
        gang.owner,
        gang.priority if world.is_guaranteed(gang_id) else -1,
        sum(len(task.gpu_uuids) for task in holding.tasks),
        tuple(found.victims.get(gang_id, ())),
        tuple(sorted({task.node for task in holding.tasks})),
        "cells" if gang_id in found.victims else found.borrowers[gang_id],
    )
