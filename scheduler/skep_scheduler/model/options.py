"""All limits of the queue. Durations are in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """
    ageing_s, ageing_limit: each `ageing_s` of waiting ranks a gang one priority higher, up to
        `ageing_limit` (less than what lies between two priority classes)
    starvation_s: a gang that waits longer, although its VC owns enough, goes first in its VC, and
        no gang behind it starts on what it could use
    min_run_s: so long a guaranteed gang runs before it is preempted
    opportunistic_min_run_s: the same for an opportunistic one
    resize_hold_s: so long an elastic gang runs at one size before a policy of sizes changes it
    cooldown_s, cooldown_limit_s: after a cancelled preemption a gang does not preempt for that
        time, which doubles with each further one
    leave_s: how long a gang takes that was asked to leave, or whose time is over, for forecasts
    reservations: blocked gangs per VC whose earliest start is reserved
    reservation_tries: so many ends of running gangs are played through for it
    rechecks: per tick, gangs for which all reservations are played through anew
    placement_tries: how often a gang is placed anew because a node lacked CPU or memory
    full_reasons: gangs per VC, from the first, that get all the numbers
    """

    ageing_s: float = 600.0
    ageing_limit: int = 9
    starvation_s: float = 7200.0
    min_run_s: float = 60.0
    opportunistic_min_run_s: float = 10.0
    resize_hold_s: float = 600.0
    cooldown_s: float = 30.0
    cooldown_limit_s: float = 1800.0
    leave_s: float = 30.0
    reservations: int = 3
    reservation_tries: int = 100
    rechecks: int = 30
    placement_tries: int = 6
    full_reasons: int = 200


DEFAULTS = Options()
