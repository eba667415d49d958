"""A new configuration for a cluster in use: nothing moves and nothing is killed.

Everything is built anew from the configuration and from where the gangs run. What a VC cannot
account for any more becomes opportunistic; devices that are no longer configured are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

from skep_scheduler.cells.answer import CellTaskPlacement
from skep_scheduler.cells.health import set_device, set_node
from skep_scheduler.cells.ledger import adopt
from skep_scheduler.cells.shape import Config
from skep_scheduler.cells.state import CellState
from skep_scheduler.cells.tree import DEVICE_FAULT, NODE_FAULT, Group


@dataclass(frozen=True, slots=True)
class Change:
    """What a new configuration does to gangs, by name.

    downgraded: guaranteed before, opportunistic now, with the reason
    restored: the other way round
    unaccounted: with at least one device that is not configured any more
    cancelled: preemptors that lose their nominations, and wait again
    """

    downgraded: dict[str, str]
    restored: tuple[str, ...]
    unaccounted: tuple[str, ...]
    cancelled: tuple[str, ...]


def reconfigure(old: CellState, config: Config) -> tuple[CellState, Change]:
    """The state under `config`; `old` is not changed. Gangs that were guaranteed come first, then
    the higher priority, then who came first. Nodes that are new are bad until they are seen."""
    new = CellState(config, old.ordering)
    _copy_health(old, new)
    groups = [group for group in old.groups.values() if not group.preempting]
    for group in sorted(groups, key=_precedence):
        adopt(new, group.gang, group.chain, placements_of(group))
    for name, group in new.groups.items():
        group.order = old.groups[name].order
    new.arrivals = old.arrivals
    return new, _compare(old, new)


def placements_of(group: Group) -> tuple[CellTaskPlacement, ...]:
    return tuple(
        CellTaskPlacement(slot.member, slot.node, tuple(slot.indices), slot.cell_type)
        for slot in group.slots
    )


def _precedence(group: Group) -> tuple[bool, int, int]:
    return group.downgraded_by is not None, -group.gang.priority, group.order


def _copy_health(old: CellState, new: CellState) -> None:
    for node in new.nodes:
        known = old.nodes.get(node, ())
        if known and not any(leaf.faults & NODE_FAULT for leaf in known):
            set_node(new, node, healthy=True)
    for (node, device), leaf in old.leaves.items():
        if leaf.faults & DEVICE_FAULT:
            set_device(new, node, device, healthy=False)


def _compare(old: CellState, new: CellState) -> Change:
    downgraded = {
        name: group.downgraded_by
        for name, group in new.groups.items()
        if group.downgraded_by is not None and old.groups[name].downgraded_by is None
    }
    restored = [
        name
        for name, group in new.groups.items()
        if group.downgraded_by is None and old.groups[name].downgraded_by is not None
    ]
    unaccounted = [
        name
        for name, group in new.groups.items()
        if any(leaf is None for slot in group.slots for leaf in slot.leaves)
    ]
    cancelled = [name for name, group in old.groups.items() if group.preempting]
    return Change(downgraded, tuple(restored), tuple(unaccounted), tuple(cancelled))
