"""What a VC owns of the cells that a gang could use, who uses it, and what of it is bad."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from skep_scheduler import usage
from skep_scheduler.cells.state import Domain
from skep_scheduler.queue.settings import Settings
from skep_scheduler.world import World, owner_of
from skep_scheduler.world.request import Kind

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


class Numbers:
    """Of one moment; counted once for all gangs that ask for the same."""

    def __init__(self, world: World, now: float, settings: Settings) -> None:
        self._world, self._now, self._settings = world, now, settings
        self._owned: dict[tuple[str, str | None, int, tuple[str, ...]], Owned] = {}
        self._users: defaultdict[tuple[str, str], Counter[str]] | None = None
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
        """Those that some part of the gang could use."""
        types = {asked.leaf_type for part in kind.parts for asked in part.asked}
        shapes = self._world.cells.config.shapes
        return tuple(
            sorted(c for c, shape in shapes.items() if None in types or shape.leaf_type in types)
        )

    def used_by(self, kind: Kind) -> tuple[list[dict[str, Any]], int]:
        """The gangs of its VC that use the most, until when, and how many others there are."""
        key = (kind.vc, self.chains(kind))
        if key not in self._used_by:
            self._used_by[key] = self._rank(*key)
        return self._used_by[key]

    def _rank(self, vc: str, chains: tuple[str, ...]) -> tuple[list[dict[str, Any]], int]:
        gpus: Counter[str] = Counter()
        for chain in chains:
            gpus += self._all_users()[vc, chain]
        ranked = sorted(gpus, key=lambda gang_id: (-gpus[gang_id], gang_id))
        named = [self._user(gang_id, gpus[gang_id]) for gang_id in ranked[:NAMED]]
        return named, len(ranked) - len(named)

    def end_of(self, gang_id: str) -> float | None:
        """When a gang that runs is expected to end; None: unknown, or it should have by now."""
        holding = self._world.running.get(gang_id)
        if holding is None:
            return None
        if holding.leaving:
            return self._now + self._settings.leave_s
        duration = holding.gang.duration_s
        end = None if duration is None else holding.placed_at + duration
        return end if end is not None and end > self._now else None

    def _user(self, gang_id: str, gpus: int) -> dict[str, Any]:
        return {
            "gang": gang_id,
            "gpus": gpus,
            "until": self.end_of(gang_id),
        }

    def _all_users(self) -> defaultdict[tuple[str, str], Counter[str]]:
        """GPUs by gang, of all that use their VC's cells in a chain, reserved ones too."""
        if self._users is None:
            self._users = defaultdict(Counter)
            for group in self._world.cells.groups.values():
                if not group.opportunistic:
                    gpus = sum(len(seat.indices) for seat in group.seats)
                    self._users[group.gang.vc, group.chain][owner_of(group)] += gpus
        return self._users

    def _of_vc(self, kind: Kind, chains: tuple[str, ...]) -> Owned:
        vc = self._world.cells.vcs.get(kind.vc)
        domains: list[Domain] = []
        if vc is not None and kind.pin is not None:
            domains = [vc.pins[kind.pin]] if kind.pin in vc.pins else []
        elif vc is not None:
            domains = [vc.chains[chain] for chain in chains if chain in vc.chains]
        roots = [root for domain in domains for root in domain.roots]
        nodes = [n for domain in domains for n in domain.view.nodes if n.spec.is_node]
        priority = kind.priority
        away = usage.unavailable_of(self._world, kind.vc, domains)
        return Owned(
            sum(root.spec.leaves for root in roots),
            len(nodes),
            sum(root.used_from(priority) for root in roots),
            sum(node.used_from(priority) > 0 for node in nodes),
            away,
            self._model(chains),
        )

    def _cluster(self, chains: tuple[str, ...]) -> Owned:
        pools = [self._world.cells.chains[chain] for chain in chains]
        tops = [top for pool in pools for top in pool.tops]
        views = [self._world.cells.views[chain] for chain in chains]
        nodes = [node for view in views for node in view.nodes]
        away = usage.unavailable_in(self._world, pools)
        return Owned(
            sum(node.spec.leaves for node in nodes),
            len(nodes),
            sum(top.used_total for top in tops),
            sum(node.used_total > 0 for node in nodes),
            away,
            self._model(chains),
        )

    def _model(self, chains: tuple[str, ...]) -> str:
        types = {self._world.cells.config.shapes[chain].leaf_type for chain in chains}
        return types.pop() if len(types) == 1 else "GPUs"
