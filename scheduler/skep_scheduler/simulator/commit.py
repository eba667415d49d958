"""Carries a plan out on the cluster state itself, as the platform does on its database rows."""

from __future__ import annotations

from dataclasses import replace

from skep_scheduler.model import Allocation, Gang, Placement, Plan
from skep_scheduler.state import ClusterState
from skep_scheduler.state.cluster import held


def commit(state: ClusterState, plan: Plan, now: float) -> list[str]:
    """Make the changes of `plan` to `state` at `now` (seconds since the epoch).

    Returns the ids of the victims of new preemptions and of resizes: they are marked as leaving,
    and it is for the caller to end or requeue them when their grace period is over.
    """
    for gang_id in plan.cancels:
        state.set_nominated(state.nominated[gang_id].gang, None)
        state.note_cancelled(gang_id, now)
    for gang_id in plan.downgrades:
        state.set_running(replace(state.running[gang_id], downgraded=True))
    for gang_id in plan.restored:
        state.set_running(replace(state.running[gang_id], downgraded=False))
    victims = []
    for preemption in plan.preemptions:
        state.set_nominated(state.waiting[preemption.gang], preemption.placement)
        for victim in preemption.victims:
            state.set_running(replace(state.running[victim.gang], leaving=True))
            victims.append(victim.gang)
    for resize in plan.resizes:
        if resize.gang not in victims:
            state.set_running(replace(state.running[resize.gang], leaving=True))
            victims.append(resize.gang)
    for placement in plan.placements:
        state.set_running(allocation_of(state, placement, now))
    return victims


def allocation_of(state: ClusterState, placement: Placement, now: float) -> Allocation:
    """Return the allocation that `placement` makes of a gang: with the tasks that an incremental
    gang already has, and those of its tasks that go on waiting."""
    known = state.running.get(placement.gang)
    gang = known.gang if known is not None else _waiting(state, placement.gang)
    if known is None and gang.elastic is not None:
        gang = gang.resized(sum(task.role == gang.elastic_role for task in placement.tasks))
    tasks = (*(known.tasks if known is not None else ()), *held(gang, placement))
    placed = {(task.role, task.index) for task in tasks}
    wanted = ((member.role, i) for member in gang.members for i in range(member.count))
    unplaced = tuple(task for task in wanted if task not in placed)
    placed_at = known.placed_at if known is not None else now
    return Allocation(gang, tasks, placed_at, complete=not unplaced, unplaced=unplaced)


def _waiting(state: ClusterState, gang_id: str) -> Gang:
    waiting = state.waiting.get(gang_id)
    return waiting if waiting is not None else state.nominated[gang_id].gang
