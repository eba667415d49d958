"""All cells of a cluster, and the two primitives that everything is made of: a leaf is accounted to
a VC's virtual leaf (or to nobody, for opportunistic use), and is released again."""

from __future__ import annotations

from dataclasses import dataclass, field

from skep_scheduler.cells.groups import Group
from skep_scheduler.cells.journal import Journal
from skep_scheduler.cells.pool import Pool
from skep_scheduler.cells.shape import FREE, LEAF, OPPORTUNISTIC, Config, Shape, VcSpec
from skep_scheduler.cells.startup import settle
from skep_scheduler.cells.tree import (
    NODE_FAULT,
    Address,
    Cell,
    Physical,
    Virtual,
    build_physical,
    build_virtual,
    leaves_of,
)
from skep_scheduler.cells.view import View, nodes_of


@dataclass(slots=True)
class Domain:
    """The virtual cells among which a gang is placed: a VC's in one chain, or one pinned cell."""

    vc: str
    chain: str
    roots: list[Virtual]
    view: View
    by_level: dict[int, list[Virtual]] = field(default_factory=dict)


@dataclass(slots=True)
class VcCells:
    name: str
    chains: dict[str, Domain] = field(default_factory=dict)
    pins: dict[str, Domain] = field(default_factory=dict)


class State:
    """Every node is bad until `health.set_node` says that it is healthy.

    chains: the pools by chain, in the order in which chains are tried (descending names)
    leaves: every device by node and address; nodes: every device by node
    groups: all that holds cells, by name; downgraded: the names of those that are it
    unaccounted: names of those with a device that the cells do not have, and perhaps of others
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.journal = Journal()
        self.chains: dict[str, Pool] = {}
        self.views: dict[str, View] = {}
        self.vcs: dict[str, VcCells] = {}
        self.leaves: dict[tuple[str, Address], Physical] = {}
        self.nodes: dict[str, list[Physical]] = {}
        self.groups: dict[str, Group] = {}
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
        self.chains[shape.chain] = Pool(shape, tops, self.journal)
        self.views[shape.chain] = View(tops, nodes_of(tops), across=False)
        for top in tops:
            self.enter(top)

    def _start_bad(self) -> None:
        for pool in self.chains.values():
            settle(pool)
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
            cells.chains[chain] = _domain(vc.name, chain, chain_roots)
        for pin in vc.pins:
            target = pinned[pin]
            root = build_virtual(target.shape, target.level, vc.name, number, pin)
            number += 1
            cells.pins[pin] = _domain(vc.name, target.shape.chain, [root])
            self._pin(root, target)
        return cells

    def _pin(self, root: Virtual, target: Physical) -> None:
        self.chains[target.shape.chain].take(target)
        root.physical, target.virtual = target, root

    def account(self, leaf: Physical, virtual: Virtual | None, priority: int) -> None:
        """Accounts a leaf to the VC of `virtual`, and binds what is not bound yet on the way up;
        without `virtual` at the opportunistic priority."""
        if virtual is None:
            self._use(leaf, OPPORTUNISTIC)
            return
        self._use(leaf, priority)
        self._use(virtual, priority)
        if self._bind(virtual, leaf):
            root = virtual.root
            assert root.physical is not None
            pool = self.chains[root.shape.chain]
            pool.claim(root.vc, root.level, -1)
            pool.take(root.physical)

    def release(self, leaf: Physical) -> None:
        """Undoes `account`: unbinds whatever is used no more, and frees a preassigned cell."""
        virtual = leaf.accounted
        self._unuse(leaf)
        if virtual is None:
            return
        self._unuse(virtual)
        freed = self._unbind(virtual)
        if freed is not None:
            root = virtual.root
            pool = self.chains[root.shape.chain]
            pool.claim(root.vc, root.level, +1)
            pool.give(freed)

    def _bind(self, virtual: Virtual, physical: Physical) -> bool:
        """Whether the root was bound by it."""
        here: Virtual | None = virtual
        there: Physical | None = physical
        while here is not None and here.physical is None:
            assert there is not None
            self.journal.set(here, "physical", there)
            self.journal.set(there, "virtual", here)
            here, there = here.up, there.up
        return here is None

    def _unbind(self, virtual: Virtual) -> Physical | None:
        """The physical cell of the root, if that one was unbound too."""
        here: Virtual | None = virtual
        freed = None
        while here is not None and not here.used_total and not (here.pin and here.up is None):
            freed = here.physical
            assert freed is not None
            self.journal.set(here, "physical", None)
            self.journal.set(freed, "virtual", None)
            here = here.up
        return freed if here is None else None

    def _use(self, leaf: Cell, priority: int) -> None:
        _count(leaf, priority, 1)
        self.journal.note(_count, leaf, priority, -1)

    def _unuse(self, leaf: Cell) -> None:
        priority = leaf.priority
        _count(leaf, priority, -1)
        self.journal.note(_count, leaf, priority, 1)


def _count(leaf: Cell, priority: int, change: int) -> None:
    """One leaf more (or fewer) is used at `priority`, on the whole path to the top."""
    leaf.priority = priority if change > 0 else FREE
    leaf.used_total += change
    if leaf.view is not None:
        leaf.view.dirty.add(leaf)
    cell = leaf.parent
    while cell is not None:
        cell.used_total += change
        used = cell.used
        if used is None:
            used = cell.used = {}
        number = used.get(priority, 0) + change
        if number:
            used[priority] = number
        else:
            del used[priority]
        if cell.view is not None:
            cell.view.dirty.add(cell)
        cell = cell.parent


def _mark_bad(top: Physical) -> None:
    if top.spec.level == LEAF:
        top.faults, top.bad = NODE_FAULT, 1
        return
    for part in top.parts:
        _mark_bad(part)
    top.bad = sum(part.bad for part in top.parts)


def _domain(vc: str, chain: str, roots: list[Virtual]) -> Domain:
    domain = Domain(vc, chain, roots, View(roots, nodes_of(roots), across=True))
    for root in roots:
        domain.by_level.setdefault(root.level, []).append(root)
    return domain
