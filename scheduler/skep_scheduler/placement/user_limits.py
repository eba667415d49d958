"""Whether a gang may start beside what its owner holds already in its virtual cluster.

One that may not steps aside: it has no reservation and closes no line, so that those of other
owners start as if it were not there.
"""

from __future__ import annotations

from collections.abc import Sequence

from skep_scheduler.cells.answer import Refusal
from skep_scheduler.inventory import describe
from skep_scheduler.model import Code, Gang, Member
from skep_scheduler.placement.base import Task
from skep_scheduler.state import ClusterState


def exceeded(
    state: ClusterState, gang: Gang, tasks: Sequence[Task] | None = None
) -> Refusal | None:
    """Return which limit the gang would exceed if it, or these tasks of it, started now; None where
    it would not. The cost does not depend on how much its owner holds."""
    limits = state.user_limits.get(gang.vc)
    if limits is None or not gang.owner:
        return None
    held = state.allocations.held_by(gang.vc, gang.owner)
    own = {"owner": gang.owner}
    if limits.gangs is not None and gang.id not in held.gangs and len(held.gangs) >= limits.gangs:
        details = {**own, "holds": len(held.gangs), "most": limits.gangs}
        return Refusal(Code.USER_JOB_LIMIT, "", details)
    if limits.gpus is None:
        return None
    asks = _gpus(state, gang, tasks)
    if asks and held.gpus + asks > limits.gpus:
        details = {**own, "holds": held.gpus, "most": limits.gpus, "asks": asks}
        return Refusal(Code.USER_GPU_LIMIT, "", details)
    return None


def gpus_of(state: ClusterState, member: Member) -> int:
    """Return the GPUs of one task."""
    if member.cell_type is None:
        return member.gpus
    return (member.cells or 1) * int(describe(state.cells.config, member.cell_type)["gpus"])


def _gpus(state: ClusterState, gang: Gang, tasks: Sequence[Task] | None) -> int:
    if tasks is None:
        return sum(member.count * gpus_of(state, member) for member in gang.members)
    return sum(gpus_of(state, gang.members[position]) for position, _ in tasks)
