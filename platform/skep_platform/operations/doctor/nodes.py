"""The doctor on nodes: the versions of their agents and drivers, their GPUs, and their disks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from skep_platform import __version__
from skep_platform.cluster import checks, floors, queries
from skep_platform.cluster.models import Device, Node, NodeState
from skep_platform.operations.doctor.findings import Finding, error, names, note, ok, warning


def _nodes() -> list[Node]:
    return list(Node.objects.exclude(state=NodeState.REMOVED).order_by("name"))


def check_agents() -> Iterator[Finding]:
    """Whether agents are connected, in a version that this server supports: its own minor version,
    and the one before."""
    nodes = _nodes()
    online = [node for node in nodes if node.state == NodeState.ONLINE]
    yield ok(f"{len(online)} of {len(nodes)} nodes are online.")
    if not nodes:
        action = "Add one: Cluster, Add a node; or `skep-agent join`."
        yield note("no_nodes", "There is no node: nothing can run.", action)
    away = [node.name for node in nodes if node.state in (NodeState.UNREACHABLE, NodeState.LOST)]
    if away:
        action = (
            "On the node: journalctl -u skep-agent. If it is gone: skep nodes declare-lost NODE."
        )
        yield warning("nodes_away", f"{len(away)} nodes are away: {names(away)}.", action)
    yield from _unchecked(nodes)
    yield from _warned(online)
    own = minor(__version__)
    by_age: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        if node.agent_version and own is not None:
            by_age[_judged(own, minor(node.agent_version))].append(
                f"{node.name} ({node.agent_version})"
            )
    if found := by_age["newer"]:
        message = f"{len(found)} agents are newer than the server: {names(found)}."
        yield error("agent_newer", message, f"Upgrade the server first; it is {__version__}.")
    if found := by_age["too old"]:
        message = f"{len(found)} agents are more than one minor version old: {names(found)}."
        yield error("agent_too_old", message, f"Upgrade them to {__version__}.")
    if found := by_age["older"]:
        message = f"{len(found)} agents are of the version before: {names(found)}."
        yield note(
            "agent_older", message, f"Upgrade them to {__version__} before the next release."
        )


def _unchecked(nodes: list[Node]) -> Iterator[Finding]:
    """Return nodes that are kept out of use by a check that they do not pass."""
    failed = [node for node in nodes if node.checks_needed and node.cordon_reason]
    failed = [node for node in failed if not node.cordon_reason.startswith(checks.WAITS)]
    if failed:
        named = names(f"{node.name} ({node.cordon_reason.rstrip('.')})" for node in failed)
        message = f"{len(failed)} nodes are not used, as they do not pass their checks: {named}."
        action = "skep nodes check NODE --show has the numbers. They are tried again by themselves."
        yield warning("node_check_failed", message, action)


def _warned(nodes: list[Node]) -> Iterator[Finding]:
    """Return what agents say that should be seen to: one finding for each kind of it."""
    found: dict[str, list[str]] = defaultdict(list)
    first: dict[str, dict[str, str]] = {}
    for node in nodes:
        for one in node.warnings:
            found[one["code"]].append(node.name)
            first.setdefault(one["code"], one)
    for code in sorted(found):
        message = f"{names(found[code])}: {first[code]['message']}"
        yield warning(f"node_{code}", message, first[code]["action"])


def minor(version: str) -> tuple[int, int] | None:
    """Return major and minor number of a version; None for what is none."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None


def _judged(own: tuple[int, int], other: tuple[int, int] | None) -> str:
    if other is None or other == own:
        return ""
    if other > own:
        return "newer"
    return "older" if other == (own[0], own[1] - 1) else "too old"


def check_drivers() -> Iterator[Finding]:
    """Whether drivers and runtimes are safe, complete, and the same where GPUs are the same."""
    nodes = {node.pk: node for node in _nodes() if node.state == NodeState.ONLINE}
    versions: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    without: list[str] = []
    present = Device.objects.filter(node__in=nodes).exclude(health=Device.Health.ABSENT)
    for model, node_id in present.values_list("model", "node").distinct().order_by("node__name"):
        node = nodes[node_id]
        if node.driver_version:
            versions[model][node.driver_version].append(node.name)
        elif node.runtime != "simulated":
            without.append(node.name)
    drivers = sorted({version for of in versions.values() for version in of})
    yield ok(f"Drivers: {names(drivers) or 'none reported'}.")
    below = [
        (node.name, one)
        for node in nodes.values()
        for one in floors.below(
            {**node.components, "driver": node.driver_version}  # as `network.below_floors`
        )
    ]
    if below:
        named = names(f"{name} ({one.component} {one.version}, {one.cve})" for name, one in below)
        message = f"A task may break out of its container, by known holes: {named}."
        yield error("component_unsafe", message, "Upgrade them, and restart the agents.")
    for model, by_version in versions.items():
        if len(by_version) > 1:
            odd = names(f"{v} on {len(on)}" for v, on in sorted(by_version.items()))
            message = f"Nodes with {model} have different drivers ({odd} nodes)."
            action = "Use one version: gangs over several nodes may fail in NCCL otherwise."
            yield warning("drivers_differ", message, action, gpu_model=model)
    if without:
        message = f"Nodes with GPUs report no driver: {names(without)}."
        yield warning("driver_unknown", message, "Run `nvidia-smi` there; reinstall the driver.")
    closed = [node.name for node in nodes.values() if node.network_problem]
    if closed:
        why = next(node.network_problem for node in nodes.values() if node.network_problem)
        message = f"Containers cannot be isolated on {names(closed)}: {why}"
        yield error("network_not_isolated", message, "See the page Network of the documentation.")


def check_gpus() -> Iterator[Finding]:
    counts = queries.count_gpus()
    total = sum(of["total"] for of in counts.values())
    yield ok(f"{total} GPUs, all of them healthy.")
    bad = Device.objects.filter(health=Device.Health.BAD).select_related("node")
    found = [
        f"{gpu.node.name} GPU {gpu.index} ({gpu.problem})" for gpu in bad.order_by("node__name")
    ]
    if found:
        action = "Drain the node, reset the GPU or restart the machine, then restart its agent."
        yield warning("gpu_bad", f"{len(found)} of {total} GPUs are bad: {names(found)}.", action)


def check_disks() -> Iterator[Finding]:
    """Of nodes; the disk of the log store is part of `stores`."""
    known = Node.objects.filter(state=NodeState.ONLINE, disk_total_mb__gt=0).count()
    yield ok(f"The disks of {known} nodes have space.")
    if low := queries.low_disks():
        named = names(f"{name} ({free:,} of {total:,} MiB free)" for name, free, total in low)
        action = "Remove unused images there (`docker image prune -a`), or cordon the node."
        yield warning("node_disk_low", f"Nearly full: {named}.", action)
