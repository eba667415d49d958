"""All cells of a cluster, and the two primitives that everything is made of: a leaf is accounted to
a VC's virtual leaf (or to none, for opportunistic use), and is released again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from skep_scheduler.cells.journal import Journal
from skep_scheduler.cells.node_order import NodeOrder, by_level, nodes_below, nodes_of
from skep_scheduler.cells.ordering import BY_RANK, Ordering
from skep_scheduler.cells.pool import Pool
from skep_scheduler.cells.shape import FREE, LEAF, OPPORTUNISTIC, Config, Shape, VcSpec
from skep_scheduler.cells.tree import (
    NODE_FAULT,
    Address,
    Cell,
    Group,
    Physical,
    Virtual,
    build_physical,
    build_virtual,
    leaves_of,
    number,
)

Pair = tuple[Virtual, Physical]  # bound to each other


@dataclass(slots=True)
class Domain:
    """The virtual cells among which a gang is placed: a VC's in one chain, or one pinned cell."""

    vc: str
    chain: str
    roots: list[Virtual]
    node_order: NodeOrder
    by_level: dict[int, list[Virtual]] = field(default_factory=dict)


@dataclass(slots=True)
class VcCells:
    name: str
    chains: dict[str, Domain] = field(default_factory=dict)
    pins: dict[str, Domain] = field(default_factory=dict)


class CellState:
    """Every node is bad until `health.set_node` says that it is healthy.

    chains: the pools by chain, in the order in which chains are tried (descending names)
    leaves: every device by node and address; nodes: every device by node
    groups: all that holds cells, by name; downgraded: the names of those that are it
    groups_of: the same groups by virtual cluster
    revisions: by virtual cluster, a new number whenever one of its groups comes, goes, is
        downgraded, or loses or gets a device; the old one when that is undone
    unaccounted: names of those with a device that the cells do not have, and perhaps of others
    """

    def __init__(self, config: Config, ordering: Ordering = BY_RANK) -> None:
        self.config = config
        self.ordering = ordering
        self.journal = Journal()
        self.chains: dict[str, Pool] = {}
        self.node_orders: dict[str, NodeOrder] = {}
        self.vcs: dict[str, VcCells] = {}
        self.leaves: dict[tuple[str, Address], Physical] = {}
        self.nodes: dict[str, list[Physical]] = {}
        self.groups: dict[str, Group] = {}
        self.groups_of: defaultdict[str, dict[str, Group]] = defaultdict(dict)
        self.revisions: Counter[str] = Counter()
        self._revision = 0  # the last number that was given
        self.downgraded: set[str] = set()
        self.unaccounted: set[str] = set()
        self.arrivals = 0
        for chain in sorted(config.shapes, reverse=True):
            self._build_chain(config.shapes[chain])
        pinned = self._find_pins()
        for vc in config.vcs.values():
            self.vcs[vc.name] = self._build_vc(vc, pinned)
        self._start_bad()

    def enter(self, cell: Physical) -> None:
        """Lists the devices of a cell."""
        for leaf in leaves_of(cell):
            self.leaves[leaf.node or "", leaf.index] = leaf
            self.nodes.setdefault(leaf.node or "", []).append(leaf)

    def _build_chain(self, shape: Shape) -> None:
        specs = (spec for chain, spec in self.config.tops if chain == shape.chain)
        tops = [build_physical(shape, spec) for spec in specs]
        order = self.ordering
        self.chains[shape.chain] = Pool(shape, tops, self.journal, order.free_list)
        self.node_orders[shape.chain] = order.node_order(tops, nodes_of(tops), across=False)
        for top in tops:
            self.enter(top)

    def _start_bad(self) -> None:
        for pool in self.chains.values():
            self.ordering.arrange(pool)
            for top in pool.tops:
                _mark_bad(top)
            pool.bad_left = list(pool.left)
            pool.bad = sum(top.bad for top in pool.tops)

    def _find_pins(self) -> dict[str, Physical]:
        found: dict[str, Physical] = {}
        stack: list[Physical] = [top for pool in self.chains.values() for top in pool.tops]
        while stack:
            cell = stack.pop()
            if cell.pin is not None:
                found[cell.pin] = cell
            stack.extend(cell.parts)
        return found

    def _domain(self, vc: str, chain: str, roots: list[Virtual]) -> Domain:
        number(by_level(roots))
        node_order = self.ordering.node_order(roots, nodes_of(roots), across=True)
        domain = Domain(vc, chain, roots, node_order)
        for root in roots:
            domain.by_level.setdefault(root.level, []).append(root)
        return domain

    def _build_vc(self, vc: VcSpec, pinned: dict[str, Physical]) -> VcCells:
        cells, number = VcCells(vc.name), 0
        roots: dict[str, list[Virtual]] = {}
        for share in vc.shares:
            shape = self.config.shapes[share.chain]
            mine = roots.setdefault(share.chain, [])
            for _ in range(share.number):
                mine.append(build_virtual(shape, share.level, vc.name, number))
                number += 1
            self.chains[share.chain].claim(vc.name, share.level, share.number)
        for chain, chain_roots in roots.items():
            cells.chains[chain] = self._domain(vc.name, chain, chain_roots)
        for pin in vc.pins:
            target = pinned[pin]
            root = build_virtual(target.shape, target.level, vc.name, number, pin)
            number += 1
            cells.pins[pin] = self._domain(vc.name, target.shape.chain, [root])
            self._pin(root, target)
        return cells

    def _pin(self, root: Virtual, target: Physical) -> None:
        self.chains[target.shape.chain].take(target)
        root.physical, target.virtual = target, root

    def add_group(self, group: Group) -> None:
        """List a group."""
        self._list(group)
        self.journal.note(self._unlist, group)
        self.note_changed(group)

    def remove_group(self, group: Group) -> None:
        """Remove a group from the lists."""
        self._unlist(group)
        self.journal.note(self._list, group)
        self.note_changed(group)

    def note_changed(self, group: Group) -> None:
        """Record that a listed group uses other devices of its virtual cluster than before."""
        vc = group.gang.vc
        self.journal.note(self.revisions.__setitem__, vc, self.revisions[vc])
        self._revision += 1
        self.revisions[vc] = self._revision

    def _list(self, group: Group) -> None:
        self.groups[group.name] = group
        self.groups_of[group.gang.vc][group.name] = group

    def _unlist(self, group: Group) -> None:
        del self.groups[group.name]
        del self.groups_of[group.gang.vc][group.name]

    def account(self, leaf: Physical, virtual: Virtual | None, priority: int) -> None:
        """Accounts a leaf to the VC of `virtual`, and binds what is not bound yet on the way up;
        without `virtual` at the opportunistic priority."""
        if virtual is None:
            self.use([leaf], OPPORTUNISTIC)
            return
        self.use([leaf], priority)
        self.use([virtual], priority)
        self.bind(virtual, leaf)

    def release(self, leaves: Sequence[Physical]) -> None:
        """Undoes `account` for leaves of one priority: unbinds whatever is used no more, and frees
        preassigned cells."""
        if not leaves:
            return
        accounted = [virtual for leaf in leaves if (virtual := leaf.accounted) is not None]
        self._stop_use(leaves)
        if not accounted:
            return
        self._stop_use(accounted)
        for root, freed in self._unbind(accounted):
            pool = self.chains[root.shape.chain]
            pool.claim(root.vc, root.level, +1)
            pool.give(freed)

    def bind(self, virtual: Virtual, physical: Physical) -> None:
        """Binds a virtual leaf and what is not bound yet on the way up. If it comes to the
        preassigned cell, that one is taken from the pool. `use` counts the leaves."""
        here: Virtual | None = virtual
        there: Physical | None = physical
        pairs = []
        while here is not None and here.physical is None:
            assert there is not None
            pairs.append((here, there))
            here, there = here.up, there.up
        if not pairs:
            return
        _set_bound(pairs)
        self.journal.note(_set_unbound, pairs)
        if here is None:
            root, taken = pairs[-1]
            pool = self.chains[root.shape.chain]
            pool.claim(root.vc, root.level, -1)
            pool.take(taken)

    def _unbind(self, leaves: Sequence[Virtual]) -> list[Pair]:
        """Unbind what is not used any more of these leaves and what contains them. Return the
        preassigned cells among that, in the order of the last leaf of each."""
        pairs: list[Pair] = []
        freed: list[Pair] = []
        for leaf in reversed(leaves):
            here: Virtual | None = leaf
            while here is not None and not here.used_total and not (here.pin and here.up is None):
                physical = here.physical
                if physical is None:
                    break  # by another leaf
                pairs.append((here, physical))
                here.physical = physical.virtual = None
                if here.up is None:
                    freed.append((here, physical))
                here = here.up
        if pairs:
            _set_unbound(pairs)
            self.journal.note(_set_bound, pairs)
        return freed[::-1]

    def use(self, leaves: Sequence[Cell], priority: int) -> None:
        """Count leaves, all physical or all virtual ones, as used."""
        _count(leaves, priority, 1)
        self.journal.note(_count, leaves, priority, -1)

    def _stop_use(self, leaves: Sequence[Cell]) -> None:
        priority = leaves[0].priority
        _count(leaves, priority, -1)
        self.journal.note(_count, leaves, priority, 1)


def _set_bound(pairs: Sequence[Pair]) -> None:
    for virtual, physical in pairs:
        virtual.physical, physical.virtual = physical, virtual
        if not (virtual.spec.is_node or virtual.spec.below_node):
            _note_changed(virtual)


def _set_unbound(pairs: Sequence[Pair]) -> None:
    for virtual, physical in pairs:
        virtual.physical = physical.virtual = None
        if not (virtual.spec.is_node or virtual.spec.below_node):
            _note_changed(virtual)


def _count(leaves: Sequence[Cell], priority: int, change: int) -> None:
    """These leaves are used at `priority` (or are not any more): count that on the whole way to the
    top, in each cell once for all of its leaves."""
    above: dict[Cell, int] = {}
    for leaf in leaves:
        leaf.priority = priority if change > 0 else FREE
        leaf.used_total += change
        if leaf.changed is not None:
            leaf.changed.add(leaf)
        parent = leaf.parent
        if parent is not None:
            above[parent] = above.get(parent, 0) + change
    while above:
        higher: dict[Cell, int] = {}
        for cell, more in above.items():
            cell.used_total += more
            used = cell.used
            if used is None:
                used = cell.used = {}
            now = used.get(priority, 0) + more
            if now:
                used[priority] = now
            else:
                del used[priority]
            if cell.changed is not None:
                cell.changed.add(cell)
            parent = cell.parent
            if parent is not None:
                higher[parent] = higher.get(parent, 0) + more
        above = higher


def _mark_bad(top: Physical) -> None:
    if top.spec.level == LEAF:
        top.faults, top.bad = NODE_FAULT, 1
        return
    for part in top.parts:
        _mark_bad(part)
    top.bad = sum(part.bad for part in top.parts)


def _note_changed(cell: Virtual) -> None:
    """The nodes in a larger cell have other positions when it is bound or not any more."""
    for node in nodes_below(cell):
        if node.changed is not None:
            node.changed.add(node)
