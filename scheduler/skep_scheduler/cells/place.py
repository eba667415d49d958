"""`place`: where a gang can go, as one atomic answer. Nothing is changed by it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from skep_scheduler.cells import packing, topology
from skep_scheduler.cells.answer import (
    CellAnswer,
    CellPlacement,
    CellPreemption,
    CellTaskPlacement,
    CellVictim,
)
from skep_scheduler.cells.check import check
from skep_scheduler.cells.ledger import downgrade
from skep_scheduler.cells.mapping import CannotMap, Mapper
from skep_scheduler.cells.node_order import NodeOrder
from skep_scheduler.cells.packing import PackingContext, Selection
from skep_scheduler.cells.reasons import Attempt, refuse
from skep_scheduler.cells.request import GangRequest
from skep_scheduler.cells.state import CellState, Domain
from skep_scheduler.cells.tree import Cell, Group, Physical, Virtual

MAX_TRIES = 32  # virtual placements per chain, where bad hardware refuses some


@dataclass(slots=True)
class MappedSelection:
    """The physical leaves of every task, and what has to be done to other gangs for them."""

    selection: list[tuple[int, list[Physical]]]
    cell_types: list[str]
    downgrades: tuple[str, ...] = ()


def place(state: CellState, gang: GangRequest, avoid: Collection[str] = ()) -> CellAnswer:
    """Tries the chains one after the other; a gang lives in one. `avoid` are nodes not to use."""
    refusal = check(state, gang)
    if refusal is not None:
        return refusal
    attempts: list[Attempt] = []
    for chain, domain in chains_to_try(state, gang):
        attempt = Attempt(chain, domain)
        attempts.append(attempt)
        if domain is None:
            found = _opportunistic(state, gang, chain, avoid, attempt)
        else:
            found = _guaranteed(state, gang, domain, avoid, attempt)
        if found is not None:
            return _answer(state, gang, chain, found)
    return refuse(state, gang, attempts)


def chains_to_try(state: CellState, gang: GangRequest) -> Iterator[tuple[str, Domain | None]]:
    """Return the chains to try, with the virtual cells to look among (None: physical ones)."""
    if gang.pin is not None:
        domain = state.vcs[gang.vc].pins[gang.pin]
        yield domain.chain, domain
        return
    for chain, pool in state.chains.items():
        if gang.leaf_type is not None and pool.shape.leaf_type != gang.leaf_type:
            continue
        if gang.opportunistic:
            yield chain, None
        elif chain in state.vcs[gang.vc].chains:
            yield chain, state.vcs[gang.vc].chains[chain]


def _context(
    state: CellState, chain: str, node_order: NodeOrder, avoid: Collection[str]
) -> PackingContext:
    return PackingContext(node_order, avoid, any_bad=state.chains[chain].bad > 0)


def _pack(
    state: CellState, gang: GangRequest, chain: str, context: PackingContext
) -> Selection | None:
    if gang.plain:
        return packing.pack(context, gang)
    return topology.pack(context, gang, state.chains[chain].shape)


def _opportunistic(
    state: CellState, gang: GangRequest, chain: str, avoid: Collection[str], attempt: Attempt
) -> MappedSelection | None:
    context = _context(state, chain, state.node_orders[chain], avoid)
    selection = _pack(state, gang, chain, context)
    attempt.met_bad = context.met_bad
    if selection is None:
        return None
    physical = [(member, _physical(leaves)) for member, leaves in selection]
    return MappedSelection(physical, [""] * len(physical))


def _physical(leaves: Sequence[Cell]) -> list[Physical]:
    return [leaf for leaf in leaves if isinstance(leaf, Physical)]


def _virtual(leaves: Sequence[Cell]) -> list[Virtual]:
    return [leaf for leaf in leaves if isinstance(leaf, Virtual)]


def _guaranteed(
    state: CellState, gang: GangRequest, domain: Domain, avoid: Collection[str], attempt: Attempt
) -> MappedSelection | None:
    """Packs among virtual cells and maps them; where no healthy cell is to be had for some of
    them, it packs again without those."""
    context = _context(state, domain.chain, domain.node_order, avoid)
    for _ in range(MAX_TRIES):
        selection = _pack(state, gang, domain.chain, context)
        attempt.met_bad = attempt.met_bad or context.met_bad
        if selection is None:
            return None
        virtual = [(member, _virtual(leaves)) for member, leaves in selection]
        try:
            return _map(state, gang, domain, virtual, avoid)
        except CannotMap as failure:
            attempt.unmapped = True
            before = len(context.blocked)
            context.blocked |= _to_block(domain, failure, virtual)
            if len(context.blocked) == before:
                return None
    return None


def _map(
    state: CellState,
    gang: GangRequest,
    domain: Domain,
    virtual: list[tuple[int, list[Virtual]]],
    avoid: Collection[str],
) -> MappedSelection:
    leaves = [leaf for _, some in virtual for leaf in some]
    with state.journal.trial():
        lazy = _lazy_victims(leaves)
        for group in lazy:
            downgrade(state, group, f"preempted lazily by {gang.name}")
        bindings = Mapper(state.chains[domain.chain], avoid).map(leaves)
    selection = [(member, [bindings[leaf] for leaf in some]) for member, some in virtual]
    types = [some[0].root.spec.type for _, some in virtual]
    return MappedSelection(selection, types, tuple(group.name for group in lazy))


def _lazy_victims(leaves: Sequence[Virtual]) -> list[Group]:
    found: dict[Group, None] = {}
    for leaf in leaves:
        physical = leaf.physical
        if physical is None or physical.holder is not None or physical.user is None:
            continue
        if physical.user.gang.lazy and not physical.user.opportunistic:
            found[physical.user] = None
    return list(found)


def _to_block(
    domain: Domain, failure: CannotMap, virtual: list[tuple[int, list[Virtual]]]
) -> set[Cell]:
    """The nodes (or smaller cells) of a placement that have no physical counterpart, and those of
    preassigned cells that would do no better."""
    blocked = {_node(leaf) for leaf in failure.vertex.leaves()}
    root = failure.vertex.cell
    if root.up is None:
        chosen = {leaf.root for _, leaves in virtual for leaf in leaves}
        for other in domain.by_level.get(root.level, []):
            if other.physical is None and other not in chosen:
                blocked |= set(domain.node_order.nodes_below(other))
    return blocked


def _node(leaf: Cell) -> Cell:
    cell = leaf
    while cell.changed is None and cell.parent is not None:
        cell = cell.parent
    return cell


def _answer(
    state: CellState, gang: GangRequest, chain: str, found: MappedSelection
) -> CellPlacement | CellPreemption:
    users: dict[Group, list[Physical]] = {}
    holders: dict[Group, None] = {}
    for _, leaves in found.selection:
        for leaf in leaves:
            if leaf.user is not None:
                users.setdefault(leaf.user, []).append(leaf)
            if leaf.holder is not None:
                holders[leaf.holder] = None
    placements = tuple(
        CellTaskPlacement(
            member, leaves[0].node or "", tuple(leaf.index for leaf in leaves), cell_type
        )
        for (member, leaves), cell_type in zip(found.selection, found.cell_types, strict=True)
    )
    cancels = tuple(group.name for group in holders)
    placement = CellPlacement(gang.name, chain, placements, found.downgrades, cancels)
    if not users:
        return placement
    return CellPreemption(placement, tuple(_victim(*pair) for pair in users.items()))


def _victim(group: Group, leaves: list[Physical]) -> CellVictim:
    loses = tuple(
        CellTaskPlacement(slot.member, slot.node, tuple(slot.indices), slot.cell_type)
        for slot in group.slots
    )
    overlap = tuple((leaf.node or "", leaf.index) for leaf in leaves)
    return CellVictim(group.name, group.gang.vc, group.priority, loses, overlap)
