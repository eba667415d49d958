"""Plain gangs: each task into one node, tasks that need less first, fullest nodes first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from skep_scheduler.cells.affinity import available, closest
from skep_scheduler.cells.backing import backing_cell
from skep_scheduler.cells.node_order import NodeOrder
from skep_scheduler.cells.request import GangRequest
from skep_scheduler.cells.shape import LEAF, OPPORTUNISTIC
from skep_scheduler.cells.tree import Cell

Selection = list[tuple[int, list[Cell]]]  # member index and leaves, task by task


@dataclass
class PackingContext:
    """Where to look, and what to leave alone."""

    node_order: NodeOrder
    avoid: Collection[str] = ()
    any_bad: bool = False
    blocked: set[Cell] = field(default_factory=set)  # nodes that turned out to map to nothing
    met_bad: bool = False  # whether bad or avoided nodes were passed over

    def nodes(self) -> Sequence[Cell]:
        return self.node_order.ordered(self.avoid, self.any_bad)

    def nodes_with(self, nodes: Sequence[Cell], least: int, priority: int) -> Iterable[Cell]:
        """Return them without those that are too full, where that is quickly seen. They are those
        of `nodes()`."""
        return nodes if priority != OPPORTUNISTIC else self.node_order.with_idle(least)

    def capacity(self, node: Cell, priority: int) -> int:
        """Devices that a gang of `priority` may have, or -1 if nothing of the node is usable."""
        if node in self.blocked:
            return -1
        if self.avoid or self.any_bad:
            under = backing_cell(node)
            if under is not None and (under.node in self.avoid or under.bad):
                self.met_bad = True
                if under.node in self.avoid or under.bad == under.spec.leaves:
                    return -1
                return len(available(self.node_order, node, LEAF, priority))
        if priority == OPPORTUNISTIC:
            return node.spec.leaves - node.used_total
        return node.spec.leaves - node.used_from(priority)


def passes(priority: int) -> tuple[int, ...]:
    """Return the priorities to pack at: first without any preemption, then with it."""
    return (OPPORTUNISTIC,) if priority < 0 else (OPPORTUNISTIC, priority)


def pack(context: PackingContext, gang: GangRequest) -> Selection | None:
    tasks = [(m.cells, i) for i, m in enumerate(gang.members) for _ in range(m.tasks)]
    tasks.sort()
    sizes = [size for size, _ in tasks]
    nodes = context.nodes()
    for priority in passes(gang.priority):
        chosen = _sweep(context, nodes, sizes, priority)
        if chosen is None and sizes[0] != sizes[-1]:
            chosen = _largest_first(context, nodes, sizes, priority)
        if chosen is not None:
            return _choose(context, tasks, chosen, priority)
    return None


def _sweep(
    context: PackingContext, nodes: Sequence[Cell], sizes: list[int], priority: int
) -> list[Cell] | None:
    """Fills one node after the other."""
    chosen: list[Cell] = []
    task, wanted = 0, sizes[0]
    for node in context.nodes_with(nodes, wanted, priority):
        capacity = context.capacity(node, priority)
        while capacity >= wanted:
            chosen.append(node)
            capacity -= wanted
            task += 1
            if task == len(sizes):
                return chosen
            wanted = sizes[task]
    return None


def _largest_first(
    context: PackingContext, nodes: Sequence[Cell], sizes: list[int], priority: int
) -> list[Cell] | None:
    """For unequal tasks, where filling one node after the other may miss a way."""
    capacities = [context.capacity(node, priority) for node in nodes]
    chosen: list[Cell] = []
    for size in reversed(sizes):
        fits = [(capacity, i) for i, capacity in enumerate(capacities) if capacity >= size]
        if not fits:
            return None
        _, best = min(fits)
        capacities[best] -= size
        chosen.append(nodes[best])
    return chosen[::-1]


def _choose(
    context: PackingContext, tasks: list[tuple[int, int]], chosen: list[Cell], priority: int
) -> Selection:
    left: dict[Cell, list[Cell]] = {}
    selection: Selection = []
    for (size, member), node in zip(tasks, chosen, strict=True):
        if node not in left:
            left[node] = available(context.node_order, node, LEAF, priority)
        picked = closest(left[node], size)
        gone = set(picked)
        left[node] = [cell for cell in left[node] if cell not in gone]
        selection.append((member, picked))
    return selection
