"""Whether a gang can fit into the cells of its virtual cluster at all, by the number of devices.

A search for places takes far longer than to count what is free on each node. Before gangs are tried
away, this says whether a search could succeed: where it says no, none would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from skep_scheduler.cells.place import chains_to_try
from skep_scheduler.cells.reasons import devices_needed
from skep_scheduler.cells.request import GangRequest
from skep_scheduler.cells.shape import Shape
from skep_scheduler.cells.state import Domain
from skep_scheduler.cells.tree import Cell
from skep_scheduler.state import ClusterState
from skep_scheduler.state.request_classes import Kind

Sizes = Sequence[tuple[int, int]]  # devices on one node, and how many tasks want so many or more


class DeviceBound:
    """For gangs of a kind that wait in a virtual cluster, as the cells are when it is made, and
    without the gangs that are taken away since. Tasks lie on one node each: `n` tasks of `g`
    devices need `n <=` the sum over the nodes of `free // g`. A gang of several parts, and one
    without GPUs, counts as one that could always fit."""

    def __init__(self, state: ClusterState, kind: Kind) -> None:
        self._state = state
        self._taken: dict[str, Mapping[Cell, int]] = {}  # by gang: what it would leave behind
        self._chains: list[_ChainBound] | None = None
        self._priority = kind.priority
        cells = state.allocations.cells
        if len(kind.parts) != 1 or kind.incremental or kind.opportunistic:
            return
        self._chains = []
        for asked in kind.parts[0].asked:
            if asked.vc not in cells.vcs or asked.pin not in (None, *cells.vcs[asked.vc].pins):
                continue
            for chain, domain in chains_to_try(cells, asked):
                sizes = _sizes(asked, cells.chains[chain].shape)
                if domain is not None and sizes:
                    self._chains.append(_ChainBound(domain, sizes, asked.priority))

    def could_fit(self) -> bool:
        """Return whether the devices would do. False: no search finds places."""
        return self._chains is None or any(chain.could_fit() for chain in self._chains)

    def take_away(self, gang_ids: Iterable[str]) -> None:
        """Count as if these gangs had left."""
        self._change(gang_ids, 1)

    def put_back(self, gang_ids: Iterable[str]) -> None:
        """Count them as running again."""
        self._change(gang_ids, -1)

    def _change(self, gang_ids: Iterable[str], sign: int) -> None:
        for gang_id in gang_ids if self._chains else ():
            if gang_id not in self._taken:
                self._taken[gang_id] = self._left_by(gang_id)
            for node, devices in self._taken[gang_id].items():
                for chain in self._chains or ():
                    if node in chain.free:
                        chain.change(node, sign * devices)

    def _left_by(self, gang_id: str) -> Mapping[Cell, int]:
        """Return the devices that a gang would leave on each node, without those that the kind may
        have by its priority as it is."""
        found: Counter[Cell] = Counter()
        nodes: dict[Cell | None, Cell] = {}  # by the parent of a device
        for group in self._state.allocations.groups_of(gang_id):
            for slot in group.slots:
                for leaf in slot.virtual:
                    if leaf is not None and leaf.priority >= self._priority:
                        if (node := nodes.get(leaf.parent)) is None:
                            node = nodes[leaf.parent] = _node_of(leaf)
                        found[node] += 1
        return found


class _ChainBound:
    """The nodes of a virtual cluster in one chain. free: devices that the kind may have, by node"""

    def __init__(self, domain: Domain, sizes: Sizes, priority: int) -> None:
        self._sizes = sizes
        self.free = {
            node: node.spec.leaves - (node.used_from(priority) if node.used_total else 0)
            for node in domain.node_order.nodes
        }
        self._fit = [sum(free // size for free in self.free.values()) for size, _ in sizes]

    def could_fit(self) -> bool:
        return all(fit >= tasks for fit, (_, tasks) in zip(self._fit, self._sizes, strict=True))

    def change(self, node: Cell, devices: int) -> None:
        before = self.free[node]
        self.free[node] = after = before + devices
        for at, (size, _) in enumerate(self._sizes):
            self._fit[at] += after // size - before // size


def _sizes(asked: GangRequest, shape: Shape) -> Sizes:
    """Return nothing where the chain lacks a cell type that is asked for."""
    if not asked.plain:  # what lies in one cell may be on several nodes
        devices = devices_needed(asked, shape)
        return [(1, devices)] if devices is not None else []
    tasks: Counter[int] = Counter()
    for member in asked.members:
        tasks[member.cells] += member.tasks
    return [(size, sum(tasks[more] for more in tasks if more >= size)) for size in tasks]


def _node_of(leaf: Cell) -> Cell:
    """Return the cell of the packing order that a virtual device is in."""
    cell = leaf
    while cell.changed is None and cell.parent is not None:
        cell = cell.parent
    return cell
