"""What a gang asks for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Member:
    """`tasks` equal tasks, each in need of `cells` cells of `cell_type` (None: devices)."""

    tasks: int
    cells: int
    cell_type: str | None = None


@dataclass(frozen=True, slots=True)
class Party:
    """Members, and smaller parties, that shall lie within one cell of type `within` together."""

    members: tuple[Member, ...] = ()
    within: str | None = None
    parties: tuple[Party, ...] = ()


@dataclass(frozen=True)
class Gang:
    """All of it is placed, or nothing. Priorities are -1 (opportunistic), or 0 to 1000.

    `lazy`: may be made opportunistic instead of being killed. Tasks of plain gangs are packed
    smallest first, as HiveD does; `largest_first` is the newer way, which topology demands and
    cell types imply.
    """

    name: str
    vc: str
    priority: int
    party: Party
    leaf_type: str | None = None
    pin: str | None = None
    lazy: bool = False
    largest_first: bool = False

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """Of all parties, level by level; their indices name the members in answers."""
        return tuple(member for party in self.parties() for member in party.members)

    def parties(self) -> Iterator[Party]:
        queue = [self.party]
        while queue:
            yield from queue
            queue = [child for party in queue for child in party.parties]

    @property
    def opportunistic(self) -> bool:
        return self.priority < 0

    @cached_property
    def plain(self) -> bool:
        """Whether it asks for devices only, wherever they are."""
        demands = self.party.parties or self.party.within or self.largest_first
        return not demands and all(member.cell_type is None for member in self.members)


def gang(name: str, vc: str, priority: int, *members: tuple[int, int], **options: object) -> Gang:
    """A plain gang of (tasks, devices per task)."""
    party = Party(tuple(Member(tasks, cells) for tasks, cells in members))
    return Gang(name, vc, priority, party, **options)  # type: ignore[arg-type]
