"""The world as a scheduler knows it: cells, room for CPU and memory, and gangs, kept by facts.

    world = World()
    world.set_inventory(inventory)    # -> Changed
    world.set_node(node)              # health, size, schedulable: O(node); new GPUs: set_inventory
    world.set_waiting(gang)           # it waits for a place
    world.set_running(holding)        # it holds places; `holding.unplaced` are tasks that wait
    world.set_reserved(gang, placement)   # it waits for its victims; None: it does no more
    world.forget(gang_id)             # it is gone, whatever it was
    world.note_cancelled(gang_id, now)    # its reservation was cancelled: it cools down
    world.digest(); world.validate()
    world.cells                       # `cells.state.State`, to look at; owner_of(group): gang id

Facts are idempotent and may come in any order. A gang that is told to run waits no more, and one
that is told to wait runs no more; a reserved gang may be told to wait too.
"""

from __future__ import annotations

from skep_scheduler.world.request import owner_of
from skep_scheduler.world.world import Changed, World

__all__ = ["Changed", "World", "owner_of"]
