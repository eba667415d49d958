"""The scheduler as its callers see it: `plan` answers what to do now, `explain` what a tick would
answer to one more gang."""

from __future__ import annotations

from skep_scheduler.memory import Memory
from skep_scheduler.model import DEFAULTS, Gang, Options, Placement, Plan, Preemption, Reason
from skep_scheduler.policies import PolicyOf
from skep_scheduler.scope import Scope
from skep_scheduler.state import ClusterState
from skep_scheduler.tick import Tick


def plan(
    state: ClusterState,
    now: float,
    options: Options = DEFAULTS,
    policies: PolicyOf | None = None,
    memory: Memory | None = None,
) -> Plan:
    """Return what to do at `now` (seconds since the epoch), and why the others wait. The starts
    that it reserves are stored in the state: later plans keep them. `policies` gives the policy of
    each virtual cluster; without it, the ones that the state has.

    With the `memory` of earlier plans for this state, only domains whose outcome can have changed
    are planned again, and only their gangs get a reason."""
    if memory is not None:
        memory.follow(state, options)
    with state.trial():
        tick = Tick(state, now, options, policies=policies, memory=memory)
        answer, reserved = tick.run(), tick.reserved_starts()
    state.set_reservations(reserved)
    return answer


def explain(
    state: ClusterState, gang: Gang, now: float, options: Options = DEFAULTS
) -> Placement | Preemption | Reason:
    """What a tick would answer if `gang` waited too."""
    with state.trial():
        answer = Tick(state, now, options, Scope(gang.vc, also=gang)).run()
    for placement in answer.placements:
        if placement.gang == gang.id:
            return placement
    for preempting in answer.preemptions:
        if preempting.gang == gang.id:
            return preempting
    return answer.reasons[gang.id]
