"""What a gang asks for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class MemberRequest:
    """`tasks` equal tasks, each in need of `cells` cells of `cell_type` (None: devices)."""

    tasks: int
    cells: int
    cell_type: str | None = None


@dataclass(frozen=True, slots=True)
class TopologyGroup:
    """Members, and smaller subgroups, that shall lie within one cell of type `within` together."""

    members: tuple[MemberRequest, ...] = ()
    within: str | None = None
    subgroups: tuple[TopologyGroup, ...] = ()


@dataclass(frozen=True)
class GangRequest:
    """All of it is placed, or nothing. Priorities are -1 (opportunistic), or 0 to 1000.

    `lazy`: may be made opportunistic instead of being killed. Tasks of plain gangs are packed
    smallest first, as HiveD does; `largest_first` is the newer way, which topology demands and
    cell types imply.
    """

    name: str
    vc: str
    priority: int
    topology_group: TopologyGroup
    leaf_type: str | None = None
    pin: str | None = None
    lazy: bool = False
    largest_first: bool = False

    @cached_property
    def members(self) -> tuple[MemberRequest, ...]:
        """Return the members of all subgroups, level by level. Answers name them by index."""
        return tuple(
            member for topology_group in self.topology_groups() for member in topology_group.members
        )

    def topology_groups(self) -> Iterator[TopologyGroup]:
        queue = [self.topology_group]
        while queue:
            yield from queue
            queue = [child for topology_group in queue for child in topology_group.subgroups]

    @property
    def opportunistic(self) -> bool:
        return self.priority < 0

    @cached_property
    def plain(self) -> bool:
        """Whether it asks for devices only, wherever they are."""
        demands = self.topology_group.subgroups or self.topology_group.within or self.largest_first
        return not demands and all(member.cell_type is None for member in self.members)


def gang(
    name: str, vc: str, priority: int, *members: tuple[int, int], **options: object
) -> GangRequest:
    """Return a plain gang of (tasks, devices per task)."""
    topology_group = TopologyGroup(tuple(MemberRequest(tasks, cells) for tasks, cells in members))
    return GangRequest(name, vc, priority, topology_group, **options)  # type: ignore[arg-type]
