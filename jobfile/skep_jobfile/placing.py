"""How many SKUs of which type each task asks of HiveD, in which virtual cluster and group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from skep_jobfile.demands import PLACES
from skep_jobfile.facts import ClusterFacts, Sku
from skep_jobfile.models import JobFile
from skep_jobfile.problems import Issue, Path
from skep_jobfile.raw import did_you_mean

FLAGS = ("gang_release_enable", "lazy_preemption_enable", "ignore_k8s_suggested_nodes")
RESOURCES = ("gpu", "cpu", "memory_mb")
SAID = {"gpu": "GPUs", "cpu": "CPUs", "memory_mb": "memory"}


@dataclass(frozen=True, slots=True)
class Placing:
    """The scheduling spec of each role, and what is wrong with it in this cluster."""

    specs: dict[str, dict[str, Any]]
    issues: list[Issue]


def place(job: JobFile, user: str, facts: ClusterFacts) -> Placing:
    issues = [*_unknown_vc(job, facts), *_unknown_skus(job, facts)]
    if issues:
        return Placing({}, issues)
    numbers = {name: _skus(job, name, facts) for name in job.task_roles}
    issues = [*_without_resources(job, facts), *_over_quota(job, numbers, facts)]
    specs = {name: _spec(job, name, numbers, user) for name in job.task_roles}
    return Placing(specs, issues)


def fractions(job: JobFile) -> list[Issue]:
    """Parts of a CPU: a server of Skep takes them, OpenPAI's does not."""
    return [
        Issue(
            "invalid_value",
            "OpenPAI takes whole CPUs only; a server of Skep takes fractions.",
            ("taskRoles", name, "resourcePerInstance", "cpu"),
        )
        for name, role in job.task_roles.items()
        if not isinstance(role.resource_per_instance.cpu, int)
    ]


def _spec(job: JobFile, name: str, numbers: dict[str, int], user: str) -> dict[str, Any]:
    hived, demand = job.extras.hived_scheduler, job.demand_of(name)
    flags = {type(hived).model_fields[f].alias or f: getattr(hived, f) for f in FLAGS}
    return {
        "virtualCluster": job.defaults.virtual_cluster,
        "priority": hived.job_priority_class.priority,
        "pinnedCellId": demand.pinned_cell_id,
        "leafCellType": demand.sku_type,
        "leafCellNumber": numbers[name],
        **{key: value for key, value in flags.items() if value is not None},
        "affinityGroup": _group(job, name, numbers, user),
    }


def _group(job: JobFile, name: str, numbers: dict[str, int], user: str) -> dict[str, Any] | None:
    """The role's own group; where no role has one, a gang is one group."""
    demands = job.extras.hived_scheduler.task_roles
    named = any(demand.affinity_group_name is not None for demand in demands.values())
    group = job.demand_of(name).affinity_group_name
    if group is not None:
        members = [role for role, d in demands.items() if d.affinity_group_name == group]
    elif named or not job.extras.gang_allocation:
        return None
    else:
        group, members = "default", list(job.task_roles)
    return {
        "name": f"{user}~{job.name}/{group}",
        "members": [
            {"podNumber": job.task_roles[role].instances, "leafCellNumber": numbers[role]}
            for role in members
        ],
    }


def _skus(job: JobFile, name: str, facts: ClusterFacts) -> int:
    """So many units that each resource has enough."""
    asked, units = job.task_roles[name].resource_per_instance, _units(job, name, facts)
    needs = [(getattr(asked, resource), units[resource]) for resource in RESOURCES]
    return max(-(-amount // unit) if unit else 0 for amount, unit in needs)


def _units(job: JobFile, name: str, facts: ClusterFacts) -> dict[str, int]:
    """Resource -> what one SKU has of it, at the least, among the types that the role may take and
    that have it: a type without GPUs is none for a job that wants some."""
    types = _types(job, name, facts)
    return {
        resource: min((n for sku in types if (n := getattr(sku, resource))), default=0)
        for resource in RESOURCES
    }


def _types(job: JobFile, name: str, facts: ClusterFacts) -> list[Sku]:
    wanted = job.demand_of(name).sku_type
    if wanted is not None:
        known = facts.sku(wanted)
        return [known] if known else []
    vc, opportunistic = job.defaults.virtual_cluster, job.opportunistic
    return list(facts.types_of(vc, opportunistic=opportunistic).values())


def _without_resources(job: JobFile, facts: ClusterFacts) -> Iterator[Issue]:
    for name, role in job.task_roles.items():
        units = _units(job, name, facts)
        for resource in RESOURCES:
            if getattr(role.resource_per_instance, resource) and not units[resource]:
                message = f"No SKU that this role may take has {SAID[resource]}."
                key = "memoryMB" if resource == "memory_mb" else resource
                path: Path = ("taskRoles", name, "resourcePerInstance", key)
                yield Issue("no_such_resource", message, path)


def _over_quota(job: JobFile, numbers: dict[str, int], facts: ClusterFacts) -> Iterator[Issue]:
    vc = job.defaults.virtual_cluster
    quota = facts.quota_of(vc)
    if quota is None or job.opportunistic or not job.extras.gang_allocation:
        return
    asked = sum(role.instances * numbers[name] for name, role in job.task_roles.items())
    if asked > sum(quota.values()):
        message = f"{asked} SKUs; the virtual cluster {vc[:100]} has {sum(quota.values())}."
        yield Issue("over_quota", message, ("taskRoles",))


def _unknown_vc(job: JobFile, facts: ClusterFacts) -> Iterator[Issue]:
    vc, known = job.defaults.virtual_cluster, facts.virtual_clusters
    if known is not None and vc not in known:
        message = f"There is no virtual cluster {vc[:100]}.{did_you_mean(vc, known)}"
        yield Issue("unknown_virtual_cluster", message, ("defaults", "virtualCluster"))


def _unknown_skus(job: JobFile, facts: ClusterFacts) -> Iterator[Issue]:
    vc = job.defaults.virtual_cluster
    allowed = facts.types_of(vc, opportunistic=job.opportunistic)
    for name, demand in job.extras.hived_scheduler.task_roles.items():
        wanted, path = demand.sku_type, (*PLACES, name, "skuType")
        if wanted is None or facts.sku_types is None:
            continue
        if wanted not in facts.sku_types:
            hint = did_you_mean(wanted, facts.sku_types)
            message = f"There is no SKU type {wanted[:100]}.{hint}"
            yield Issue("unknown_sku_type", message, path)
        elif wanted not in allowed:
            names = ", ".join(allowed)[:200] or "none"
            message = f"The virtual cluster {vc[:100]} has no {wanted[:100]}; it has {names}."
            yield Issue("sku_not_in_virtual_cluster", message, path)
