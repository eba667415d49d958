"""The cluster as a scheduler knows it: cells, CPU and memory, and gangs, derived from facts.

    state = ClusterState()
    state.set_inventory(inventory)    # -> Changed
    state.set_node(node)              # health, size, schedulable: O(node); new GPUs: set_inventory
    state.set_waiting(gang)           # it waits for a place
    state.set_running(allocation)     # it holds places; `allocation.unplaced` are tasks that wait
    state.set_nominated(gang, placement)   # it waits for its victims; None: it does no more
    state.forget(gang_id)             # it is gone, whatever it was
    state.note_cancelled(gang_id, now)    # its reservation was cancelled: it cools down
    state.digest(); state.validate()
    state.cells                       # `cells.state.State`, to look at; owner_of(group): gang id

Facts are idempotent and may come in any order. A gang that is set running waits no more, and one
that is set waiting runs no more; a nominated gang may be set waiting, too.
"""

from __future__ import annotations

from skep_scheduler.state.cluster import Changed, ClusterState
from skep_scheduler.state.request_classes import owner_of

__all__ = ["Changed", "ClusterState", "owner_of"]
