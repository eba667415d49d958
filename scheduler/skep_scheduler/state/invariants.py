"""What must hold of a state: of its cells, of its resources, and between them and the facts."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping
from typing import Protocol

from skep_scheduler.cells import invariants as cells
from skep_scheduler.model import Allocation, Gang, InvariantError
from skep_scheduler.state.allocations import Allocations, Users, placements_of
from skep_scheduler.state.node_resources import NOTHING, NodeResources, Resources


class Nominated(Protocol):
    @property
    def gang(self) -> Gang: ...


def validate(
    waiting: Container[str],
    nominated: Mapping[str, Nominated],
    running: Mapping[str, Allocation],
    allocations: Allocations,
) -> None:
    """Check a state, whose gangs are given by id.

    Raises `InvariantError` with one sentence per violation.
    """
    found = [
        *cells.violations(allocations.cells),
        *_gangs(waiting, nominated, running, allocations),
        *_groups(running, allocations),
        *_resources(allocations),
        *_accounts(nominated, running, allocations),
    ]
    if found:
        raise InvariantError(found)


def violations_around(
    gang_ids: Collection[str],
    places: Collection[tuple[str, str]],
    waiting: Container[str],
    nominated: Container[str],
    running: Mapping[str, Allocation],
    allocations: Allocations,
) -> Iterator[str]:
    """Check what a change of these gangs could break, without a walk over the state: their groups,
    the devices `places` (node, UUID) with all cells that contain them, and the nodes."""
    for gang_id in gang_ids:
        if gang_id in running:
            if gang_id in waiting or gang_id in nominated:
                yield f"{gang_id} runs and waits at the same time."
        elif gang_id in allocations.groups and gang_id not in nominated:
            yield f"{gang_id} holds places, but no fact says so."
    groups = [group for gang_id in gang_ids for group in allocations.groups_of(gang_id)]
    leaves = [leaf for place in places if (leaf := allocations.cells.leaves.get(place))]
    yield from cells.violations_around(allocations.cells, groups, leaves)
    changed = {gang_id: running[gang_id] for gang_id in gang_ids if gang_id in running}
    yield from _groups_of(changed, allocations)
    for name in {node for node, _ in places}:
        resources = allocations.resources.nodes.get(name)
        if resources is not None:
            yield from _node(name, resources)


def _gangs(
    waiting: Container[str],
    nominated: Mapping[str, object],
    running: Mapping[str, Allocation],
    allocations: Allocations,
) -> Iterator[str]:
    for gang_id in running:
        if gang_id in waiting or gang_id in nominated:
            yield f"{gang_id} runs and waits at the same time."
    known = running.keys() | nominated.keys()
    for gang_id in allocations.tasks.keys() | allocations.groups.keys():
        if gang_id not in known:
            yield f"{gang_id} holds places, but no fact says so."


def _groups(running: Mapping[str, Allocation], allocations: Allocations) -> Iterator[str]:
    yield from _groups_of(running, allocations)
    owners = {name for names in allocations.groups.values() for name in names}
    for name in allocations.cells.groups.keys() - owners:
        yield f"{name} holds cells, but belongs to no gang."
    for vc, groups in allocations.cells.groups_of.items():
        if allocations.users(vc).gpus != Users(groups.values()).gpus:
            yield f"{vc} counts other users of its cells than it has."


def _groups_of(running: Mapping[str, Allocation], allocations: Allocations) -> Iterator[str]:
    for gang_id, allocation in running.items():
        names = allocations.groups.get(gang_id, ())
        if set(names) != set(placements_of(allocation.gang, allocation.tasks)):
            yield f"{gang_id} runs with the groups {names}, which are not those of its tasks."
        for name in names:
            group = allocations.cells.groups.get(name)
            if group is None or group.preempting:
                yield f"{name} runs, but the cells do not know it to."
            elif allocations.is_downgraded(gang_id) and not group.opportunistic:
                yield f"{name} is guaranteed, while other parts of {gang_id} are not."


def _accounts(
    nominated: Mapping[str, Nominated],
    running: Mapping[str, Allocation],
    allocations: Allocations,
) -> Iterator[str]:
    expected: dict[tuple[str, str], dict[str, int]] = {}
    for gang_id, tasks in allocations.tasks.items():
        if gang_id in running or gang_id in nominated:
            gang = (running.get(gang_id) or nominated[gang_id]).gang
            gpus = sum(len(task.gpu_uuids) for task in tasks)
            expected.setdefault((gang.vc, gang.owner), {})[gang_id] = gpus
    if allocations.accounts != expected:
        yield f"Owners are charged for {allocations.accounts}, but they hold {expected}."
    for (vc, owner), gangs in expected.items():
        if allocations.held_by(vc, owner).gpus != sum(gangs.values()):
            yield f"{owner} is charged for other GPUs in {vc} than those of each gang together."


def _resources(allocations: Allocations) -> Iterator[str]:
    expected: dict[str, Resources] = {}
    for tasks in allocations.tasks.values():
        for task in tasks:
            amount = Resources(task.cpu_millis, task.memory_mb, len(task.gpu_uuids))
            expected[task.node] = expected.get(task.node, NOTHING).plus(amount)
    for name, resources in allocations.resources.nodes.items():
        if resources.used != expected.pop(name, NOTHING):
            yield f"{name} counts {resources.used} as used, which its tasks do not."
        yield from _node(name, resources)
    for name in expected:
        yield f"{name} is in use, but has no resources."


def _node(name: str, resources: NodeResources) -> Iterator[str]:
    total = NOTHING
    for amount in resources.users.values():
        total = total.plus(amount)
    if total != resources.used:
        yield f"{name} counts {resources.used} as used, its users have {total}."
