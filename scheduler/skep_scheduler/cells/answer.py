"""What `place` answers: a placement, or whom to preempt first, or why not, with the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class CellTaskPlacement:
    """Where one task goes. `cell_type` is the type of the preassigned cell that it uses, "" for
    an opportunistic task: with it the placement can be accounted again after a restart."""

    member: int
    node: str
    devices: tuple[int | str, ...]
    cell_type: str = ""


@dataclass(frozen=True, slots=True)
class CellPlacement:
    """`downgrades`: gangs that become opportunistic by it and run on; `cancels`: preemptors of
    lower priority that lose what is reserved for them."""

    gang: str
    chain: str
    tasks: tuple[CellTaskPlacement, ...]
    downgrades: tuple[str, ...] = ()
    cancels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CellVictim:
    """A gang that must go, and all that it runs on. `overlap` are the devices that are wanted."""

    gang: str
    vc: str
    priority: int
    loses: tuple[CellTaskPlacement, ...]
    overlap: tuple[tuple[str, int | str], ...]

    @property
    def devices(self) -> int:
        return sum(len(placed.devices) for placed in self.loses)


@dataclass(frozen=True, slots=True)
class CellPreemption:
    """The placement is to be had when all victims are gone."""

    placement: CellPlacement
    victims: tuple[CellVictim, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """`invalid`: waiting will not help, the request itself is wrong."""

    code: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)
    invalid: bool = False


CellAnswer = CellPlacement | CellPreemption | Refusal
