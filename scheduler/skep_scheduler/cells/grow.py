"""Hardware that comes and goes while gangs run: cells are added and removed along one path of
their tree, where that changes nothing but for who runs on them. All else is `reconfigure`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from skep_scheduler.cells.ledger import detach_device, reattach_device
from skep_scheduler.cells.node_order import NodeOrder, nodes_of
from skep_scheduler.cells.pool import Pool
from skep_scheduler.cells.reconfigure import Change, reconfigure
from skep_scheduler.cells.shape import LEAF, CellSpec, Config, Shape
from skep_scheduler.cells.state import CellState
from skep_scheduler.cells.tree import (
    DEVICE_FAULT,
    NODE_FAULT,
    Address,
    Physical,
    build_physical,
    device_of,
    leaves_of,
)


class NeedsRebuild(Exception):
    """VCs own other cells than before, or what they have or are owed would be torn."""


@dataclass(frozen=True, slots=True)
class Place:
    """A cell of a chain that is as `spec` says, at or above the level of nodes."""

    shape: Shape
    level: int
    spec: CellSpec


@dataclass(slots=True)
class Difference:
    """`added` are cells with what contains them, which is there already (None above a top)."""

    removed: list[Place] = field(default_factory=list)
    added: list[tuple[Place, Place | None]] = field(default_factory=list)


def apply(state: CellState, config: Config) -> tuple[CellState, Change]:
    """The state under a new configuration, and what that does to gangs.

    It is `state` itself, changed, where all that differs are cells that came or went and that
    no VC owns for good; else one that is built anew. New nodes are bad until they are seen.
    """
    downgraded = set(state.downgraded)
    try:
        changes = difference(state.config, config)
        gone = [find(state, place) for place in changes.removed]
        new = [(place, find(state, above) if above else None) for place, above in changes.added]
        cancelled = remove(state, gone)
    except NeedsRebuild:
        return reconfigure(state, config)
    faults = {_key(leaf): leaf.faults for cell in gone for leaf in leaves_of(cell)}
    add(state, config, new, faults)
    state.config = config
    return state, Change(
        {n: state.groups[n].downgraded_by or "" for n in sorted(state.downgraded - downgraded)},
        (),
        tuple(sorted(n for n in state.unaccounted if _lacks_any(state, n))),
        cancelled,
    )


def difference(before: Config, after: Config) -> Difference:
    """Return what came and what went. It compares plain data, and stops at whatever is equal."""
    if before.vcs != after.vcs:
        raise NeedsRebuild("VCs own other cells")
    changes = Difference()
    old, new = _by_chain(before), _by_chain(after)
    for chain in dict.fromkeys([*old, *new]):
        shape = (after if chain in new else before).shapes[chain]
        if chain in old and before.shapes[chain] != shape:
            raise NeedsRebuild(f"{chain} has other levels")
        _compare(changes, shape, shape.top, None, old.get(chain, ()), new.get(chain, ()))
    return changes


def _by_chain(config: Config) -> dict[str, list[CellSpec]]:
    chains: dict[str, list[CellSpec]] = {}
    for chain, top in config.tops:
        chains.setdefault(chain, []).append(top)
    return chains


def _compare(
    changes: Difference,
    shape: Shape,
    level: int,
    above: Place | None,
    before: Sequence[CellSpec],
    after: Sequence[CellSpec],
) -> None:
    old, new = _by_address(before), _by_address(after)
    for address, cell in old.items():
        other = new.get(address)
        if other == cell:
            continue
        if other is not None and other.pin != cell.pin:
            raise NeedsRebuild(f"{address} is pinned otherwise")
        if other is not None and level > shape.node_level:
            place = Place(shape, level, cell)
            _compare(changes, shape, level - 1, place, cell.children, other.children)
            continue
        changes.removed.append(Place(shape, level, cell))
        if other is not None:
            changes.added.append((Place(shape, level, other), above))
    changes.added += [
        (Place(shape, level, cell), above) for address, cell in new.items() if address not in old
    ]


def _by_address(cells: Sequence[CellSpec]) -> dict[str, CellSpec]:
    found = {cell.address: cell for cell in cells}
    if len(found) < len(cells):
        raise NeedsRebuild("several cells have one address")
    return found


def find(state: CellState, place: Place) -> Physical:
    """Return the cell itself, reached from its first leaf."""
    spec, level, node = place.spec, place.level, ""
    while level > LEAF and spec.children:
        node = spec.name if place.shape.at(level).is_node else node
        spec, level = spec.children[0], level - 1
    cell = state.leaves.get((node, device_of(spec)))
    while cell is not None and cell.level < place.level:
        cell = cell.up
    if cell is None or cell.address != place.spec.address:
        raise NeedsRebuild(f"{place.spec.address} is not to be found")
    return cell


def remove(state: CellState, cells: Sequence[Physical]) -> tuple[str, ...]:
    """Takes cells away, or raises `NeedsRebuild` with nothing changed. Gangs that run on them go
    on unaccounted; returns the names of preemptors that waited for them, and are cancelled."""
    pools = [state.chains[cell.shape.chain] for cell in cells]
    cancelled: dict[str, None] = {}
    with state.journal.transaction():
        for cell, pool in zip(cells, pools, strict=True):
            cancelled.update((name, None) for name in _clear(state, pool, cell))
        if not all(pool.is_safe() for pool in pools):
            raise NeedsRebuild("it is owed to a VC")
    for cell, pool in zip(cells, pools, strict=True):
        _detach(state, pool, cell)
    return tuple(cancelled)


def add(
    state: CellState,
    config: Config,
    places: Sequence[tuple[Place, Physical | None]],
    faults: Mapping[tuple[str, Address], int] | None = None,
) -> None:
    """Add cells, free as they are, each below one that lacks it or as a top cell of its chain, in
    the order of `config`. Gangs that run on them unaccounted are accounted. `faults` are what is
    known of devices."""
    known = faults or {}
    added = []
    for place, above in places:
        cell = build_physical(place.shape, place.spec, place.level)
        for leaf in leaves_of(cell):
            _set_faults(leaf, _faults(state, leaf, known))
        _pool(state, place.shape).attach(cell, above)
        state.enter(cell)
        added.append(cell)
    chains = _by_chain(config)
    for chain in sorted({cell.shape.chain for cell in added}):
        state.chains[chain].arrange(chains[chain])
    for cell in added:
        _enter(state, cell)
    for chain in sorted({cell.shape.chain for cell in added}):
        for node_order in _node_orders(state, chain):
            node_order.renew()
    for cell in added:
        for leaf in leaves_of(cell):
            reattach_device(state, leaf)


def _lacks_any(state: CellState, name: str) -> bool:
    group = state.groups.get(name)
    return group is not None and any(leaf is None for slot in group.slots for leaf in slot.leaves)


def _key(leaf: Physical) -> tuple[str, Address]:
    return leaf.node or "", leaf.index


def _clear(state: CellState, pool: Pool, cell: Physical) -> Iterator[str]:
    """Remove all gangs from it, then take it out of the free lists."""
    for leaf in leaves_of(cell):
        if leaf.holder is not None:
            yield leaf.holder.name
        detach_device(state, leaf)
    for part in _whole_parts(cell):
        if not pool.is_free(part):
            raise NeedsRebuild(f"{part.address} is a part of what a VC has")
        pool.take(part)


def _whole_parts(cell: Physical) -> Iterator[Physical]:
    """Return the largest whole cells that it consists of."""
    if cell.whole:
        yield cell
        return
    for part in cell.parts:
        yield from _whole_parts(part)


def _detach(state: CellState, pool: Pool, cell: Physical) -> None:
    node_order = state.node_orders[cell.shape.chain]
    for node in nodes_of([cell]):
        node_order.drop(node)
    pool.forget(cell)
    for leaf in leaves_of(cell):
        del state.leaves[_key(leaf)]
        rest = [other for other in state.nodes[leaf.node or ""] if other is not leaf]
        if rest:
            state.nodes[leaf.node or ""] = rest
        else:
            del state.nodes[leaf.node or ""]
    if cell.parent is None:
        node_order.roots.remove(cell)
    if not pool.tops:
        del state.chains[cell.shape.chain], state.node_orders[cell.shape.chain]


def _enter(state: CellState, cell: Physical) -> None:
    node_order = state.node_orders[cell.shape.chain]
    for node in nodes_of([cell]):
        node_order.enter(node)
    if cell.parent is None:
        node_order.roots.append(cell)
    state.chains[cell.shape.chain].enter(cell)


def _node_orders(state: CellState, chain: str) -> Iterator[NodeOrder]:
    """Return the packing orders of a chain's nodes, and of the nodes that VCs own of it."""
    yield state.node_orders[chain]
    for vc in state.vcs.values():
        for domain in (*vc.chains.values(), *vc.pins.values()):
            if domain.chain == chain:
                yield domain.node_order


def _pool(state: CellState, shape: Shape) -> Pool:
    """The chain's pool: an empty one for a chain that is new."""
    if shape.chain not in state.chains:
        state.chains[shape.chain] = Pool(shape, [], state.journal, state.ordering.free_list)
        state.node_orders[shape.chain] = state.ordering.node_order([], [], across=False)
        state.chains = dict(sorted(state.chains.items(), reverse=True))
    return state.chains[shape.chain]


def _faults(state: CellState, leaf: Physical, known: Mapping[tuple[str, Address], int]) -> int:
    """A device was there under another address perhaps, its node may have others."""
    others = [other.faults for other in state.nodes.get(leaf.node or "", ())]
    others += [faults for (node, _), faults in known.items() if node == leaf.node]
    node_fault = 0 if others and not others[0] & NODE_FAULT else NODE_FAULT
    return node_fault | known.get(_key(leaf), 0) & DEVICE_FAULT


def _set_faults(leaf: Physical, faults: int) -> None:
    """Of a leaf that no pool knows yet."""
    leaf.faults = faults
    cell: Physical | None = leaf if faults else None
    while cell is not None:
        cell.bad += 1
        cell = cell.up
