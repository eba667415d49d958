"""What a gang asks of the cells: members that share an affinity group are one gang there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from skep_scheduler.cells import request as cells
from skep_scheduler.cells.shape import MAX_PRIORITY
from skep_scheduler.cells.tree import Group
from skep_scheduler.model import Gang, Member

LeafTypes = Callable[[str], Sequence[str]]  # of a GPU model


@dataclass(frozen=True)
class SubGang(cells.GangRequest):
    """What cells know as a gang: a part of a gang, or one task of an incremental one."""

    owner: str = ""  # the gang's id


def owner_of(group: Group) -> str:
    """The id of the gang that a group of the cells is a part of."""
    assert isinstance(group.gang, SubGang)
    return group.gang.owner


@dataclass(frozen=True, slots=True)
class Part:
    """Members that lie in one chain. `positions` are those of the cells' members in the gang,
    `asked` the same request for each leaf type that would do."""

    label: str
    positions: tuple[int, ...]
    asked: tuple[cells.GangRequest, ...]


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Request:
    """What gangs ask of the cells: what the cells answer to one, they answer to all with it."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Kind:
    """What gangs with equal demands have in common: one answer is for all of them."""

    vc: str
    priority: int
    members: tuple[Member, ...]
    within: str | None
    pin: str | None
    incremental: bool
    request: Request
    bare: tuple[int, ...]  # positions of the members without GPUs

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.request.parts

    @property
    def opportunistic(self) -> bool:
        return self.priority < 0


class Kinds:
    """Interns kinds, as long as anybody has them; to be thrown away when GPU models come to mean
    other cells."""

    def __init__(self, leaf_types: LeafTypes) -> None:
        self._leaf_types = leaf_types
        self._known: WeakValueDictionary[object, Kind] = WeakValueDictionary()
        self._requests: WeakValueDictionary[object, Request] = WeakValueDictionary()

    def of(self, gang: Gang) -> Kind:
        members = tuple(map(_demand, gang.members))
        key = (gang.vc, gang.priority, members, gang.within, gang.pin, gang.incremental)
        kind = self._known.get(key)
        if kind is None:
            kind = self._known[key] = self._make(gang)
        return kind

    def _make(self, gang: Gang) -> Kind:
        return Kind(
            gang.vc,
            gang.priority,
            gang.members,
            gang.within,
            gang.pin,
            gang.incremental,
            self._request(gang),
            tuple(i for i, member in enumerate(gang.members) if is_bare(member)),
        )

    def _request(self, gang: Gang) -> Request:
        demands = tuple(_cells_demand(member) for member in gang.members)
        key = (_vc(gang), gang.priority, demands, gang.within, gang.pin, gang.incremental)
        request = self._requests.get(key)
        if request is None:
            parts = parts_of(gang).items()
            request = Request(tuple(self._part(gang, label, some) for label, some in parts))
            self._requests[key] = request
        return request

    def _part(self, gang: Gang, label: str, positions: Sequence[int]) -> Part:
        if gang.incremental:
            one = replace(gang.members[positions[0]], count=1)
            topology_group, order = _topology_group([one], gang.within), list(positions)
        else:
            members = [gang.members[i] for i in positions]
            topology_group = _topology_group(members, gang.within)
            order = [i for i in positions if gang.members[i].within is None]
            order += [i for i in positions if gang.members[i].within is not None]
        model = next((m for i in positions if (m := gang.members[i].gpu_model)), None)
        types = [None] if model is None else list(self._leaf_types(model)) or [model]
        asked = tuple(
            cells.GangRequest(
                gang.name or "a gang", _vc(gang), gang.priority, topology_group, leaf, gang.pin
            )
            for leaf in types
        )
        return Part(label, tuple(order), asked)


def _vc(gang: Gang) -> str:
    """Return whose cells it asks for; "" for those of all: what one opportunistic gang is answered
    holds for those of every virtual cluster."""
    return "" if gang.opportunistic else gang.vc


def is_bare(member: Member) -> bool:
    return member.cell_type is None and member.gpus == 0


def parts_of(gang: Gang) -> dict[str, list[int]]:
    """The positions of the members with GPUs, by the name of their part: one for all; one for each
    affinity group if there are several, or several GPU models; for an incremental gang one for each
    role, each of whose tasks stands alone."""
    with_gpus = [i for i, member in enumerate(gang.members) if not is_bare(member)]
    if gang.incremental:
        return {f"#{gang.members[i].role}": [i] for i in with_gpus}
    parts: dict[str, list[int]] = {}
    for affinity, positions in _by_affinity(gang, with_gpus).items():
        for model, some in _by_model(gang, positions).items():
            parts[f"/{affinity}/{model}"] = some
    return parts if len(parts) != 1 else {"": next(iter(parts.values()))}


def name_of(gang: Gang, label: str, index: int) -> str:
    """Return the name that cells use for a part, or for an incremental gang the task of that
    index."""
    return f"{gang.id}{label}.{index}" if gang.incremental else f"{gang.id}{label}"


def sub_gang_of(gang: Gang, name: str) -> SubGang:
    """Return the request as it is accounted where it runs. One that must not be preempted is held
    at the highest priority: none is higher."""
    priority = gang.priority
    if priority >= 0 and not gang.preemptible:
        priority = MAX_PRIORITY
    lazy = gang.lazy and gang.preemptible
    return SubGang(
        name, gang.vc, priority, cells.TopologyGroup(), None, gang.pin, lazy, owner=gang.id
    )


def _demand(member: Member) -> tuple[object, ...]:
    """Return all of a member but its name."""
    return (member.cpu_millis, member.memory_mb, *_cells_demand(member))


def _cells_demand(member: Member) -> tuple[object, ...]:
    m = member
    return m.count, m.gpus, m.gpu_model, m.cell_type, m.cells, m.within, m.affinity_group


def _by_affinity(gang: Gang, positions: Sequence[int]) -> Mapping[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for i in positions:
        groups.setdefault(gang.members[i].affinity_group, []).append(i)
    return groups


def _by_model(gang: Gang, positions: Sequence[int]) -> Mapping[str, list[int]]:
    """One chain has one model. Members that name none go with the first that is named."""
    models = {gang.members[i].gpu_model for i in positions} - {None}
    if len(models) <= 1:
        return {"": list(positions)}
    groups: dict[str, list[int]] = {}
    first = next(m for i in positions if (m := gang.members[i].gpu_model))
    for i in positions:
        groups.setdefault(gang.members[i].gpu_model or first, []).append(i)
    return groups


def _topology_group(members: Sequence[Member], within: str | None) -> cells.TopologyGroup:
    free = tuple(_member(m) for m in members if m.within is None)
    tied = tuple(
        cells.TopologyGroup((_member(m),), m.within) for m in members if m.within is not None
    )
    return cells.TopologyGroup(free, within, tied)


def _member(member: Member) -> cells.MemberRequest:
    if member.cell_type is None:
        return cells.MemberRequest(member.count, member.gpus)
    return cells.MemberRequest(member.count, member.cells or 1, member.cell_type)
