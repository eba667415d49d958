"""Plans as text to compare, and states that got the same facts in another order."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from skep_scheduler.engine import plan
from skep_scheduler.model import DEFAULTS, Options, Plan
from skep_scheduler.state import ClusterState


def rebuilt(state: ClusterState, seed: int) -> ClusterState:
    """Return a state that got the same facts in some other order."""
    other = ClusterState()
    nodes = list(state.nodes.values())
    random.Random(seed).shuffle(nodes)
    inventory = replace(state.inventory, nodes=tuple(nodes))
    facts: list[Any] = [lambda: other.set_inventory(inventory)]
    facts += [lambda g=g: other.set_waiting(g) for g in state.waiting.values()]
    facts += [lambda h=h: other.set_running(h) for h in state.running.values()]
    facts += [
        lambda r=r: other.set_nominated(r.gang, r.placement) for r in state.nominated.values()
    ]
    random.Random(seed).shuffle(facts)
    for fact in facts:
        fact()
    other.set_cooldowns(state.cancelled)
    other.set_reservations(state.reservations)
    return other


def plan_of(state: ClusterState, now: float, options: Options = DEFAULTS) -> list[str]:
    """Return everything that a plan says, line by line. The state stays as it is."""
    reserved = dict(state.reservations)
    made = plan(state, now, options)
    state.set_reservations(reserved)
    return lines_of(made)


def lines_of(made: Plan) -> list[str]:
    """Return everything that a plan says, line by line."""
    by_gang = (made.downgrades, made.cancels, made.reasons)
    lists = (made.placements, made.preemptions, made.restored, *(some.items() for some in by_gang))
    return [repr(entry) for entries in lists for entry in entries] + [repr(made.next_at)]
