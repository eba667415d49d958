"""The present cluster as it would be: nodes that come or go, another quota, another policy.

All of it is a change of a snapshot (`snapshot.Snapshot`), which then runs on as any other one. What
runs on a node that goes waits from that moment on, with the work that it has done.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from skep_scheduler import usage
from skep_scheduler.model import Claim, Inventory, Node, PolicyChoice, VirtualCluster
from skep_scheduler.simulator.snapshot import Snapshot
from skep_scheduler.simulator.workload import WorkloadError
from skep_scheduler.state import ClusterState


@dataclass(frozen=True, slots=True)
class GpuChange:
    """More or fewer GPUs of a model: the quota of a virtual cluster, or, where `vc` is "", whole
    nodes of the cluster."""

    vc: str
    model: str
    gpus: int


def check(state: ClusterState, changes: Sequence[GpuChange]) -> None:
    """Raise `WorkloadError` for a change that cannot be made: `unknown_virtual_cluster`,
    `unknown_gpu_model`, `not_whole_nodes`, `gpus_not_there`, `gpus_not_owned`, and
    `quota_exceeds_cluster` where quotas and cells together are more than the GPUs that there would
    be."""
    inventory = state.inventory
    after = _with_quotas(_with_nodes(inventory, changes, Counter()), changes)
    has, will = _gpus(inventory.nodes), _gpus(after.nodes)
    owned = Counter({(vc, model): use.owned for (vc, model), use in usage.measure(state).items()})
    before = owned.copy()
    for change in changes:
        if change.vc:
            owned[change.vc, change.model] += change.gpus
    for model in sorted({change.model for change in changes}):
        together = _sum(owned, model)
        if together - will[model] <= max(_sum(before, model) - has[model], 0):
            continue
        raised = [c.vc for c in changes if c.vc and c.model == model and c.gpus > 0]
        if raised:
            most = max(owned[raised[0], model] - (together - will[model]), 0)
            message = (
                f"The cluster would have {will[model]} {model}: beside the others, {raised[0]} "
                f"can own at most {most}, not {owned[raised[0], model]}. Add nodes, or take GPUs "
                "from another virtual cluster."
            )
        else:
            message = (
                f"Virtual clusters own {together} {model}, and the cluster would have "
                f"{will[model]}. Take at least {together - will[model]} from their quotas, too."
            )
        raise WorkloadError(
            message, "quota_exceeds_cluster", gpu_model=model, asked=together, cluster=will[model]
        )


def changed(snapshot: Snapshot, changes: Sequence[GpuChange]) -> Snapshot:
    """Return the snapshot with other nodes and quotas. Nodes on which least runs go first. Raises
    `WorkloadError` as `check` does, but for quotas that are more than the cluster."""
    held: Counter[str] = Counter()
    for allocation in snapshot.running:
        for task in allocation.tasks:
            held[task.node] += max(len(task.gpu_uuids), 1)
    inventory = _with_quotas(_with_nodes(snapshot.inventory, changes, held), changes)
    names = {node.name for node in inventory.nodes}
    stay = [one for one in snapshot.running if names.issuperset(task.node for task in one.tasks)]
    back = [
        replace(allocation.served(snapshot.now).as_asked(), waits_since=snapshot.now)
        for allocation in snapshot.running
        if not names.issuperset(task.node for task in allocation.tasks)
    ]
    return replace(
        snapshot, inventory=inventory, running=tuple(stay), waiting=(*snapshot.waiting, *back)
    )


def with_policy(snapshot: Snapshot, vc: str, choice: PolicyChoice) -> Snapshot:
    """Return the snapshot in which a virtual cluster, or all of them where `vc` is "", has this
    policy."""
    vcs = tuple(
        replace(known, policy=choice) if vc in ("", known.name) else known
        for known in snapshot.inventory.virtual_clusters
    )
    return replace(snapshot, inventory=replace(snapshot.inventory, virtual_clusters=vcs))


def _sum(owned: Counter[tuple[str, str]], model: str) -> int:
    return sum(gpus for (_, of), gpus in owned.items() if of == model)


def _gpus(nodes: Sequence[Node]) -> Counter[str]:
    return Counter(device.model for node in nodes for device in node.devices)


def _with_nodes(
    inventory: Inventory, changes: Sequence[GpuChange], held: Counter[str]
) -> Inventory:
    """Return it with more or fewer nodes. `held`: the GPUs in use, by node."""
    wanted: Counter[str] = Counter()
    for change in changes:
        if not change.vc:
            wanted[change.model] += change.gpus
    nodes, pinned = list(inventory.nodes), {pin.node for pin in inventory.pins}
    for model, gpus in sorted(wanted.items()):
        alike = [node for node in nodes if {device.model for device in node.devices} == {model}]
        if not alike:
            known = sorted(_gpus(nodes))
            message = (
                f"No node has GPUs of the model {model}, so that its nodes have no size. Models "
                f"are: {', '.join(known) or 'none'}."
            )
            raise WorkloadError(message, "unknown_gpu_model", gpu_model=model, known=known)
        sizes = Counter(len(node.devices) for node in alike)
        size = max(sizes, key=lambda number: (sizes[number], number))
        if gpus % size:
            message = (
                f"Nodes with {model} have {size} GPUs, and come and go as a whole: choose a "
                f"multiple of {size}, not {gpus}."
            )
            raise WorkloadError(
                message, "not_whole_nodes", gpu_model=model, gpus=gpus, gpus_of_node=size
            )
        alike = [node for node in alike if len(node.devices) == size and node.schedulable]
        if gpus < 0:
            if len(alike) * size < -gpus:
                there = len(alike) * size
                message = (
                    f"{there} {model} can be taken away: {len(alike)} nodes of {size} GPUs that "
                    f"are in service, not {-gpus}."
                )
                raise WorkloadError(
                    message, "gpus_not_there", gpu_model=model, gpus=there, asked=-gpus
                )
            alike.sort(key=lambda node: (node.name in pinned, held[node.name], node.name))
            gone = {node.name for node in alike[: -gpus // size]}
            nodes = [node for node in nodes if node.name not in gone]
        elif gpus:
            pattern = next((node for node in alike if not node.maintenance), None)
            pattern = pattern or next(
                node
                for node in inventory.nodes
                if len(node.devices) == size and {d.model for d in node.devices} == {model}
            )
            names = {node.name for node in nodes}
            nodes += _copies(pattern, gpus // size, names)
    return replace(inventory, nodes=tuple(nodes))


def _copies(pattern: Node, number: int, names: set[str]) -> Iterator[Node]:
    """Yield healthy nodes like this one, under names of their own."""
    count = 0
    while number:
        count += 1
        name = f"{pattern.name}-new-{count}"
        if name in names:
            continue
        number -= 1
        uuids = {device.uuid: f"{name}-{device.index}" for device in pattern.devices}
        yield replace(
            pattern,
            name=name,
            devices=tuple(
                replace(device, uuid=uuids[device.uuid], healthy=True) for device in pattern.devices
            ),
            topology={
                uuids[one]: {uuids[other]: level for other, level in links.items()}
                for one, links in pattern.topology.items()
            },
            schedulable=True,
            cordoned=False,
            maintenance=None,
        )


def _with_quotas(inventory: Inventory, changes: Sequence[GpuChange]) -> Inventory:
    wanted: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for change in changes:
        if change.vc:
            wanted[change.vc][change.model] += change.gpus
    known = {vc.name for vc in inventory.virtual_clusters}
    if unknown := sorted(wanted.keys() - known):
        message = f"There is no virtual cluster {unknown[0]}: changes name those that there are."
        raise WorkloadError(message, "unknown_virtual_cluster", virtual_cluster=unknown[0])
    vcs = tuple(
        _with_quota(vc, wanted[vc.name]) if vc.name in wanted else vc
        for vc in inventory.virtual_clusters
    )
    return replace(inventory, virtual_clusters=vcs)


def _with_quota(vc: VirtualCluster, wanted: Counter[str]) -> VirtualCluster:
    """Change what it owns by number; its cells stay."""
    cells = [claim for claim in vc.claims if claim.chain]
    quotas = Counter({claim.cell_type: claim.number for claim in vc.claims if not claim.chain})
    for model, gpus in wanted.items():
        if quotas[model] + gpus < 0:
            message = (
                f"The quota of {vc.name} is {quotas[model]} GPUs of the model {model}, besides "
                f"its cells: take at most so many from it, not {-gpus}."
            )
            raise WorkloadError(
                message,
                "gpus_not_owned",
                virtual_cluster=vc.name,
                gpu_model=model,
                owned=quotas[model],
                asked=-gpus,
            )
        quotas[model] += gpus
    counts = [Claim("", model, number) for model, number in quotas.items() if number]
    return replace(vc, claims=(*counts, *cells))
