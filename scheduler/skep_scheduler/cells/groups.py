"""Gangs that hold cells: those that run, and those that wait for cells they have reserved."""

from __future__ import annotations

from dataclasses import dataclass, field

from skep_scheduler.cells.request import Gang
from skep_scheduler.cells.shape import OPPORTUNISTIC
from skep_scheduler.cells.tree import Physical, Virtual


@dataclass(slots=True)
class Seat:
    """One task's place. A leaf is None where the cluster has it no more, or someone else uses it:
    the task runs on unaccounted. `virtual` has None for leaves that its VC does not account."""

    member: int  # index into the gang's members
    node: str
    indices: tuple[int | str, ...]
    leaves: list[Physical | None]
    virtual: list[Virtual | None]
    cell_type: str  # of the preassigned cell; "" when opportunistic

    def pairs(self) -> list[tuple[Physical, Virtual | None]]:
        pairs = zip(self.leaves, self.virtual, strict=True)
        return [(leaf, virtual) for leaf, virtual in pairs if leaf is not None]


@dataclass(slots=True, eq=False)
class Group:
    """`downgraded_by` says why a guaranteed gang is opportunistic now. A preempting group holds
    its leaves (`holder`), while victims may still run on them."""

    gang: Gang
    chain: str
    order: int  # counts the groups in the order they came
    seats: list[Seat] = field(default_factory=list)
    preempting: bool = False
    downgraded_by: str | None = None

    @property
    def name(self) -> str:
        return self.gang.name

    @property
    def priority(self) -> int:
        """As it counts now: a downgraded group is opportunistic."""
        return OPPORTUNISTIC if self.downgraded_by is not None else self.gang.priority

    @property
    def opportunistic(self) -> bool:
        return self.priority < 0

    def pairs(self) -> list[tuple[Physical, Virtual | None]]:
        return [pair for seat in self.seats for pair in seat.pairs()]

    @property
    def state(self) -> str:
        """Allocated, BeingPreempted or Preempting."""
        if self.preempting:
            return "Preempting"
        lost = any(leaf.holder is not None for leaf, _ in self.pairs() if leaf.user is self)
        return "BeingPreempted" if lost else "Allocated"
