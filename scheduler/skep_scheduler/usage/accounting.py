"""What virtual clusters own and use of the GPUs, and what of it cannot be used now and why.

The one place that counts: reasons, pages, samples and the REST API read these numbers, so that no
two of them disagree (finding U5). Everything is counted in GPUs.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from skep_scheduler.cells.health import lost
from skep_scheduler.cells.pool import Pool
from skep_scheduler.cells.shape import LEAF, OPPORTUNISTIC
from skep_scheduler.cells.state import Domain
from skep_scheduler.cells.tree import DEVICE_FAULT, Physical, Virtual
from skep_scheduler.state import ClusterState

BAD, CORDONED, OFFLINE = "bad", "cordoned", "offline"
CAUSES = (BAD, CORDONED, OFFLINE)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Owned GPUs that cannot be given now. `gpus` and the `nodes` that they lie on by cause;
    `idle`: how many of the GPUs no guaranteed job still runs on."""

    gpus: Counter[str]
    nodes: Counter[str]
    idle: int


@dataclass(slots=True)
class Use:
    """GPUs of one model that a virtual cluster owns or borrows.

    owned: as cells, pinned or not; used: of those, at a guaranteed priority
    lent: used by opportunistic jobs of others, who give them back when asked
    borrowed: used by its own opportunistic and downgraded jobs
    bad, cordoned, offline: owned ones that it cannot be given now, by cause
    free: a guaranteed job could have them now; those that are lent count
    waiting: asked for by its jobs that wait
    """

    owned: int = 0
    used: int = 0
    borrowed: int = 0
    lent: int = 0
    bad: int = 0
    cordoned: int = 0
    offline: int = 0
    free: int = 0
    waiting: int = 0


Uses = dict[tuple[str, str], Use]  # by the names of virtual cluster and GPU model


def measure(state: ClusterState) -> Uses:
    """Return what each virtual cluster owns and uses at this moment. Only reads the state."""
    models = _models(state)
    uses: Uses = defaultdict(Use)
    _count_owned(state, models, uses)
    _count_borrowed(state, models, uses)
    _count_waiting(state, models, uses)
    return dict(uses)


def borrowed(state: ClusterState) -> Counter[tuple[str, str]]:
    """Count the GPUs that opportunistic and downgraded gangs run on, by the names of virtual
    cluster and chain. A gang may run in several chains. A GPU that is nominated for a preemptor
    counts as used by the preemptor only, so that each GPU is counted once."""
    found: Counter[tuple[str, str]] = Counter()
    for group in state.cells.groups.values():
        if group.opportunistic and not group.preempting:
            for leaf, _ in group.pairs():
                if leaf.holder is None:
                    found[group.gang.vc, leaf.shape.chain] += 1
    return found


def unavailable_of(state: ClusterState, vc: str, domains: Iterable[Domain]) -> Unavailable:
    """Return what a virtual cluster owns in these domains and cannot be given now."""
    found = _Counter(state)
    for domain in domains:
        for cell in _places_without_health(state, vc, domain):
            if isinstance(cell, Physical):
                found.add_faulty(cell)
            else:
                found.add_missing(cell)
    return found.result()


def unavailable_in(state: ClusterState, pools: Iterable[Pool]) -> Unavailable:
    """Return what no virtual cluster can be given now in these chains."""
    found = _Counter(state)
    for pool in pools:
        for top in pool.tops:
            found.add_faulty(top)
    return found.result()


class _Counter:
    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._gpus: Counter[str] = Counter()
        self._nodes: dict[str, str] = {}
        self._idle = self._missing_nodes = 0

    def add_faulty(self, cell: Physical) -> None:
        for leaf in _faulty_leaves(cell):
            cause = _cause(self._state, leaf)
            self._gpus[cause] += 1
            self._idle += leaf.accounted is None
            # A closed node is that first of all, whatever else is wrong with a GPU of it.
            if cause != BAD or leaf.node not in self._nodes:
                self._nodes[leaf.node or ""] = cause

    def add_missing(self, cell: Virtual) -> None:
        """A cell for which the cluster has no place."""
        self._gpus[OFFLINE] += cell.spec.leaves
        self._idle += cell.spec.leaves
        if not cell.spec.below_node:
            self._missing_nodes += cell.spec.leaves // cell.shape.at(cell.shape.node_level).leaves

    def result(self) -> Unavailable:
        nodes = Counter(self._nodes.values())
        nodes[OFFLINE] += self._missing_nodes
        return Unavailable(self._gpus, nodes, self._idle)


def _places_without_health(
    state: ClusterState, vc: str, domain: Domain
) -> Iterator[Physical | Virtual]:
    """Return the places of its cells that hold a faulty device. A cell that has no place yet is
    given the healthiest one, so only as many count as healthy places lack; a virtual cell is
    yielded where the cluster has no place for it at all."""
    cells = state.allocations.cells
    for level, roots in domain.by_level.items():
        unbound = [root for root in roots if root.physical is None]
        yield from (r.physical for r in roots if r.physical is not None and r.physical.bad)
        lacking = min(lost(cells, vc, domain.chain, level), len(unbound)) if unbound else 0
        if not lacking:
            continue
        pool = cells.chains[domain.chain]
        places = heapq.nsmallest(lacking, _faulty_free(pool, level), key=lambda cell: cell.bad)
        yield from places
        yield from unbound[: lacking - len(places)]


def _faulty_free(pool: Pool, level: int) -> Iterator[Physical]:
    """Return the free cells of a level, or parts of larger free cells, that hold a faulty
    device."""
    stack = [cell for free in pool.free[level:] for cell in free.cells if cell.bad]
    while stack:
        cell = stack.pop()
        if cell.level == level:
            yield cell
        else:
            stack.extend(part for part in cell.parts if part.bad)


def _faulty_leaves(cell: Physical) -> Iterator[Physical]:
    """Look only where there are some: the cost follows the faults and not the cluster."""
    stack = [cell] if cell.bad else []
    while stack:
        part = stack.pop()
        if part.level == LEAF:
            yield part
        else:
            stack.extend(child for child in part.parts if child.bad)


def _cause(state: ClusterState, leaf: Physical) -> str:
    if leaf.faults & DEVICE_FAULT:
        return BAD
    node = state.nodes.get(leaf.node or "")
    return CORDONED if node is not None and node.cordoned else OFFLINE


def _models(state: ClusterState) -> dict[str, str]:
    """Return the GPU model of each leaf type."""
    known = {device.model for node in state.nodes.values() for device in node.devices}
    return {leaf: model for model in sorted(known) for leaf in state.leaf_types(model)}


def _count_owned(state: ClusterState, models: dict[str, str], uses: Uses) -> None:
    cells = state.allocations.cells
    idle = {chain: _idle(pool) for chain, pool in cells.chains.items()}
    for name, vc in cells.vcs.items():
        for domain in (*vc.chains.values(), *vc.pins.values()):
            leaf = cells.chains[domain.chain].shape.leaf_type
            use = uses[name, models.get(leaf, leaf)]
            unbound = 0
            for root in domain.roots:
                use.owned += root.spec.leaves
                use.used += root.used_total
                if root.physical is None:
                    unbound += root.spec.leaves
                else:
                    use.lent += root.physical.used_at(OPPORTUNISTIC)
            away = unavailable_of(state, name, [domain])
            use.bad += away.gpus[BAD]
            use.cordoned += away.gpus[CORDONED]
            use.offline += away.gpus[OFFLINE]
            # Of the cells without a place those are lent for which no idle GPU is left.
            use.lent += max(unbound - away.idle - idle[domain.chain], 0)
            owned = sum(root.spec.leaves for root in domain.roots)
            used = sum(root.used_total for root in domain.roots)
            use.free += max(owned - used - away.idle, 0)


def _idle(pool: Pool) -> int:
    """Return healthy idle GPUs in cells that no virtual cluster has bound."""
    free = (cell for cells in pool.free for cell in cells.cells)
    return sum(max(cell.spec.leaves - cell.used_total - cell.bad, 0) for cell in free)


def _count_borrowed(state: ClusterState, models: dict[str, str], uses: Uses) -> None:
    cells = state.allocations.cells
    for (vc, chain), gpus in borrowed(state).items():
        leaf = cells.chains[chain].shape.leaf_type
        uses[vc, models.get(leaf, leaf)].borrowed += gpus


def _count_waiting(state: ClusterState, models: dict[str, str], uses: Uses) -> None:
    """A gang that takes any model counts for the first that its virtual cluster owns."""
    first: dict[str, str] = {}
    for (vc, model), use in uses.items():
        if use.owned:
            first.setdefault(vc, model)
    for gang in state.waiting.values():
        for member in gang.members:
            asked = member.gpu_model or first.get(gang.vc)
            if asked and member.gpus:
                uses[gang.vc, models.get(asked, asked)].waiting += member.count * member.gpus
