"""What a VC owns of the cells that a gang could use, who uses it, and what of it is bad."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from skep_scheduler import usage
from skep_scheduler.cells.shape import LEAF
from skep_scheduler.cells.state import Domain
from skep_scheduler.model import Options
from skep_scheduler.state import ClusterState
from skep_scheduler.state.request_classes import Kind, Request

NAMED = 5  # gangs that a reason names


@dataclass(frozen=True, slots=True)
class Owned:
    """GPUs, and whole nodes where the gang needs such. `used`: at the gang's priority or above."""

    gpus: int
    nodes: int
    used: int
    used_nodes: int
    unavailable: usage.Unavailable
    model: str


@dataclass(frozen=True, slots=True)
class _Share:
    """What a VC owns, and what is used of it by priority. A node counts at the highest one."""

    gpus: int
    nodes: int
    used: Counter[int]
    used_nodes: Counter[int]
    unavailable: usage.Unavailable
    model: str


class Numbers:
    """Of one moment; counted once for all gangs that ask for the same."""

    def __init__(self, state: ClusterState, now: float, options: Options) -> None:
        self._state, self._now, self._options = state, now, options
        self._owned: dict[tuple[str, str | None, int, tuple[str, ...]], Owned] = {}
        self._shares: dict[tuple[str, str | None, tuple[str, ...]], _Share] = {}
        self._chains: dict[Request, tuple[str, ...]] = {}
        self._used_by: dict[tuple[str, tuple[str, ...]], tuple[list[dict[str, Any]], int]] = {}

    def owned(self, kind: Kind) -> Owned:
        """An opportunistic gang may use what anybody owns."""
        chains = self.chains(kind)
        key = ("" if kind.opportunistic else kind.vc, kind.pin, kind.priority, chains)
        if key not in self._owned:
            opportunistic = kind.opportunistic
            self._owned[key] = self._cluster(chains) if opportunistic else self._of_vc(kind, chains)
        return self._owned[key]

    def chains(self, kind: Kind) -> tuple[str, ...]:
        """Return the chains that some part of the gang could use."""
        if kind.request not in self._chains:
            types = {asked.leaf_type for part in kind.parts for asked in part.asked}
            shapes = self._state.cells.config.shapes.items()
            chains = (c for c, shape in shapes if None in types or shape.leaf_type in types)
            self._chains[kind.request] = tuple(sorted(chains))
        return self._chains[kind.request]

    def used_by(self, kind: Kind) -> tuple[list[dict[str, Any]], int]:
        """The gangs of its VC that use the most, until when, and how many others there are."""
        key = (kind.vc, self.chains(kind))
        if key not in self._used_by:
            self._used_by[key] = self._rank(*key)
        return self._used_by[key]

    def _rank(self, vc: str, chains: tuple[str, ...]) -> tuple[list[dict[str, Any]], int]:
        ranked = self._state.allocations.users(vc).ranked(chains)
        named = [self._user(gang_id, gpus) for gang_id, gpus in ranked[:NAMED]]
        return named, len(ranked) - len(named)

    def end_of(self, gang_id: str) -> float | None:
        """When a gang that runs is expected to end; None: unknown, or it should have by now."""
        allocation = self._state.running.get(gang_id)
        if allocation is None:
            return None
        if allocation.leaving:
            return self._now + self._options.leave_s
        duration = allocation.gang.duration_s
        end = None if duration is None else allocation.placed_at + duration
        return end if end is not None and end > self._now else None

    def _user(self, gang_id: str, gpus: int) -> dict[str, Any]:
        return {
            "gang": gang_id,
            "gpus": gpus,
            "until": self.end_of(gang_id),
        }

    def _of_vc(self, kind: Kind, chains: tuple[str, ...]) -> Owned:
        key = kind.vc, kind.pin, chains
        if key not in self._shares:
            self._shares[key] = self._share(kind, chains)
        share, priority = self._shares[key], kind.priority
        return Owned(
            share.gpus,
            share.nodes,
            sum(gpus for used_at, gpus in share.used.items() if used_at >= priority),
            sum(nodes for used_at, nodes in share.used_nodes.items() if used_at >= priority),
            share.unavailable,
            share.model,
        )

    def _share(self, kind: Kind, chains: tuple[str, ...]) -> _Share:
        vc = self._state.cells.vcs.get(kind.vc)
        domains: list[Domain] = []
        if vc is not None and kind.pin is not None:
            domains = [vc.pins[kind.pin]] if kind.pin in vc.pins else []
        elif vc is not None:
            domains = [vc.chains[chain] for chain in chains if chain in vc.chains]
        roots = [root for domain in domains for root in domain.roots]
        nodes = [n for domain in domains for n in domain.node_order.nodes if n.spec.is_node]
        used: Counter[int] = Counter()
        for root in roots:
            if root.spec.level == LEAF:
                used[root.priority] += 1
            elif root.used:
                for priority, gpus in root.used.items():
                    used[priority] += gpus
        away = usage.unavailable_of(self._state, kind.vc, domains)
        return _Share(
            sum(root.spec.leaves for root in roots),
            len(nodes),
            used,
            Counter(node.top_priority for node in nodes if node.used_total),
            away,
            self._model(chains),
        )

    def _cluster(self, chains: tuple[str, ...]) -> Owned:
        pools = [self._state.cells.chains[chain] for chain in chains]
        tops = [top for pool in pools for top in pool.tops]
        node_orders = [self._state.cells.node_orders[chain] for chain in chains]
        nodes = [node for node_order in node_orders for node in node_order.nodes]
        away = usage.unavailable_in(self._state, pools)
        return Owned(
            sum([node.spec.leaves for node in nodes]),
            len(nodes),
            sum([top.used_total for top in tops]),
            len([node for node in nodes if node.used_total]),
            away,
            self._model(chains),
        )

    def _model(self, chains: tuple[str, ...]) -> str:
        types = {self._state.cells.config.shapes[chain].leaf_type for chain in chains}
        return types.pop() if len(types) == 1 else "GPUs"
