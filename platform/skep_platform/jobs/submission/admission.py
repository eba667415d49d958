"""Whether a correct job file may become a job here: its virtual cluster, its size, its images."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Count, Max, Q

from skep_jobfile import Issue, JobFile, Path
from skep_platform.accounts import queries as accounts
from skep_platform.accounts.models import User
from skep_platform.cluster.models import Device, Node, NodeState
from skep_platform.images.models import Image
from skep_platform.jobs.submission import quota_check, virtual_cluster
from skep_platform.jobs.submission.quota_check import VC_PATH
from skep_platform.tenancy.limits import limit
from skep_platform.tenancy.models import Membership, VirtualCluster
from skep_scheduler.inventory import gpu_model

LIMITS_FRESH_S = 10.0
MOST_NAMED = 10  # virtual clusters in a message
NETWORK_PATH: Path = ("extras", "skep", "network")


@dataclass(frozen=True, slots=True)
class NodeShape:
    """So many nodes (`count`) of this size, with so many GPUs of each model."""

    count: int
    cpu_millis: int
    memory_mb: int
    gpus: Mapping[str, int]

    def holds(self, gpus: int, cpu_millis: int, memory_mb: int, model: str) -> int:
        """Return how many tasks of this size fit on all nodes of the shape together."""
        most = self.gpus.get(model) or max(self.gpus.values(), default=0)
        each = [
            has // needs
            for needs, has in (
                (gpus, most),
                (cpu_millis, self.cpu_millis),
                (memory_mb, self.memory_mb),
            )
            if needs
        ]
        return self.count * min(each, default=0)


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that any one node has; None while the cluster has no node."""

    gpus: int
    cpu_millis: int
    memory_mb: int
    models: frozenset[str] = frozenset()  # of the GPUs of all nodes
    shapes: tuple[NodeShape, ...] = ()
    # Versions of the driver on the nodes that have a GPU model; "" where one is not known.
    drivers: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def shapes_with(self, model: str) -> Iterable[NodeShape]:
        """Return the nodes with a GPU model; all of them where the cells call it by another
        name."""
        return [s for s in self.shapes if model in s.gpus] or self.shapes

    def all_gpus(self) -> int:
        return sum(shape.count * sum(shape.gpus.values()) for shape in self.shapes)


def unknown_vc(user: User, job: JobFile) -> Issue:
    """Return the issue, with whom to ask or what to choose from."""
    name = job.defaults.virtual_cluster
    roles = Membership.SUBMITTERS
    own = VirtualCluster.objects.filter(memberships__user=user, memberships__role__in=roles)
    if user.only_vc is not None:
        own = own.filter(pk=user.only_vc)
    mine = list(own.order_by("name").values_list("name", flat=True)[:MOST_NAMED])
    if not mine and not user.is_admin:
        ask = " or ".join(accounts.admins()) or "an admin"
        message = f"You are in no virtual cluster yet: ask {ask} to add you to one."
    elif virtual_cluster.names_one(job):
        message = f"You belong to no virtual cluster named {name}; set defaults.virtualCluster."
    else:
        choice = f" to one of {', '.join(mine)}" if mine else ""
        message = f"The job names no virtual cluster: set defaults.virtualCluster{choice}."
    return Issue("unknown_virtual_cluster", message, VC_PATH, details={"virtual_cluster": name})


def issues(job: JobFile, vc: VirtualCluster) -> list[Issue]:
    """Return what of the job can never run here, so that it is refused instead of waiting for
    ever. Before a refusal, the sizes of nodes are read again if a node has changed since: a larger
    one may have joined."""
    found = _against_limits(job, vc, _limits())
    if found and _nodes_changed():
        found = _against_limits(job, vc, _limits(fresh=True), fresh=True)
    return found


def image_references(job: JobFile, vc: VirtualCluster) -> dict[str, str]:
    """Return the reference to pull, by uri: that of the image that the virtual cluster knows by
    this name, else the uri itself."""
    references = {uri: uri for uri in (job.image_of(r).uri for r in job.task_roles.values())}
    if vc.preloaded is not None:
        references |= vc.preloaded.images
    elif names := virtual_cluster.catalogue_names(job):
        usable = Q(virtual_clusters=None) | Q(virtual_clusters=vc)
        images = Image.objects.filter(usable, name__in=names).distinct()
        references |= dict(images.values_list("name", "reference"))
    return references


def _against_limits(
    job: JobFile, vc: VirtualCluster, limits: Limits | None, *, fresh: bool = False
) -> list[Issue]:
    models = limits.models if limits else frozenset()
    size = [*_against_nodes(job, limits)] or [*_against_cluster(job, limits)]
    return [
        *quota_check.issues(job, vc, models, fresh=fresh),
        *_against_graces(job, vc),
        *_against_host_network(job, vc),
        *_against_scratch(job, vc),
        *_against_rdma(job, vc),
        *_against_ulimits(job),
        *_against_drivers(job, vc, limits),
        *size,
    ]


def _against_graces(job: JobFile, vc: VirtualCluster) -> Iterator[Issue]:
    """Check the time from the first signal to the last one."""
    skep = job.extras.skep
    asked = (skep.stop_grace or 0) + (skep.checkpoint.grace if skep.checkpoint else 0)
    if asked > vc.max_stop_grace_s:
        message = (
            f"The job asks for {asked} s to save its work and to stop, {vc.name} allows "
            f"{vc.max_stop_grace_s} s. Lower checkpoint.grace or stopGrace."
        )
        path: Path = ("extras", "skep", "checkpoint" if skep.checkpoint else "stopGrace")
        details = {"needs": asked, "allowed": vc.max_stop_grace_s, "virtual_cluster": vc.name}
        yield Issue("exceeds_stop_grace", message, path, details=details)


def _against_host_network(job: JobFile, vc: VirtualCluster) -> Iterator[Issue]:
    """Check the use of the nodes' network: on it a task reaches what the node reaches, and what
    listens on its loopback."""
    if job.extras.skep.network == "host" and not limit(vc, "host_network"):
        message = (
            f"Jobs of {vc.name} may not use the network of the nodes. Leave out `network: host`: "
            "tasks then reach each other in a network of their own. Or ask an admin to set the "
            f"limit host_network of {vc.name}."
        )
        details = {"virtual_cluster": vc.name, "limit": "host_network"}
        yield Issue("host_network_not_allowed", message, NETWORK_PATH, details=details)


def _against_rdma(job: JobFile, vc: VirtualCluster) -> Iterator[Issue]:
    """Check the use of InfiniBand: its devices are shared by all tasks of a node, and memory may be
    locked without a limit."""
    asking = [name for name, role in job.task_roles.items() if role.infiniband]
    if not asking:
        return
    path: Path = ("taskRoles", asking[0], "extraContainerOptions", "infiniband")
    if not limit(vc, "rdma"):
        message = (
            f"Jobs of {vc.name} may not use InfiniBand devices. Leave out `infiniband`, or ask an "
            f"admin to set the limit rdma of {vc.name}."
        )
        details = {"virtual_cluster": vc.name, "limit": "rdma"}
        yield Issue("rdma_not_allowed", message, path, details=details)
    elif not Node.objects.filter(rdma=True).exclude(state=NodeState.REMOVED).exists():
        message = "No node of the cluster has InfiniBand devices. Leave out `infiniband`."
        yield Issue("rdma_not_available", message, path, details={"nodes": 0})


def _against_ulimits(job: JobFile) -> Iterator[Issue]:
    """Check the ulimits as the agent does."""
    asked = job.extras.skep.ulimits
    for name in ("memlock", "stack") if asked else ():
        value = getattr(asked, name)
        for role_name, role in job.task_roles.items():
            most = role.resource_per_instance.memory_mb * 2**20
            free = value is None or (value == "unlimited" and (name == "stack" or role.infiniband))
            if not free and (value == "unlimited" or value > most):
                message = (
                    f"{name} is {value}, and {role_name} has {most} bytes of memory: ask for no "
                    "more than that."
                )
                details = {"needs": value, "allowed": most}
                yield Issue(
                    "ulimit_too_large",
                    message,
                    ("extras", "skep", "ulimits", name),
                    details=details,
                )


def _against_drivers(job: JobFile, vc: VirtualCluster, limits: Limits | None) -> Iterator[Issue]:
    """Check that some node with the GPUs of a role has the driver that its image of the catalogue
    needs. A node whose driver is not known may have it."""
    least = vc.preloaded.drivers if vc.preloaded is not None else {}
    if not least or limits is None:
        return
    for name, role in job.task_roles.items():
        uri = job.image_of(role).uri
        if uri not in least or not role.resource_per_instance.gpu:
            continue
        model = gpu_model(job.sku_of(name))
        asked = [model] if model in limits.drivers else list(limits.drivers)
        found = {driver for one in asked for driver in limits.drivers[one]}
        if found and all(driver and _older(driver, least[uri]) for driver in found):
            newest = max(found, key=_numbers)
            message = (
                f"The image {uri} needs NVIDIA driver {least[uri]} or newer, the newest on a node "
                f"with {model or 'GPUs'} is {newest}. Take an older image, or ask an admin to "
                "update the driver."
            )
            details = {"image": uri, "needs": least[uri], "newest": newest}
            path: Path = ("taskRoles", name, "dockerImage")
            yield Issue("driver_too_old", message, path, details=details)


def _older(version: str, least: str) -> bool:
    return _numbers(version) < _numbers(least)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]{1,6}", version))


def _against_scratch(job: JobFile, vc: VirtualCluster) -> Iterator[Issue]:
    asked = job.extras.skep.scratch or 0
    if asked and asked > (allowed := limit(vc, "scratch_mb")):
        message = (
            f"The job asks for {asked} MiB of scratch, {vc.name} allows {allowed} MiB. Ask for "
            f"less, or ask an admin to raise the limit scratch_mb of {vc.name}."
        )
        details = {"needs": asked, "allowed": allowed, "virtual_cluster": vc.name}
        path: Path = ("extras", "skep", "scratch")
        yield Issue("exceeds_scratch", message, path, details=details)


def _against_nodes(job: JobFile, limits: Limits | None) -> Iterator[Issue]:
    if limits is None:
        return
    for name, role in job.task_roles.items():
        needs = role.resource_per_instance
        path: Path = ("taskRoles", name, "resourcePerInstance")
        for key, word, asked, most in (
            ("gpu", "GPUs of one model", needs.gpu, limits.gpus),
            ("cpu", "CPU cores", needs.cpu, limits.cpu_millis / 1000),
            ("memoryMB", "MiB of memory", needs.memory_mb, limits.memory_mb),
        ):
            if asked > most:
                message = (
                    f"A task of {name} needs {asked:,} {word}, the largest node has {most:,}. "
                    "Ask for less per task, and for more tasks."
                )
                details = {"role": name, "resource": key, "needs": asked, "largest_node": most}
                yield Issue("exceeds_node", message, (*path, key), details=details)


def _against_cluster(job: JobFile, limits: Limits | None) -> Iterator[Issue]:
    """Yield what no node holds as a whole, and what all nodes together do not hold at once. A
    guaranteed job that asks for GPUs may have what its virtual cluster owns, also of nodes that are
    not there yet; the tasks of an incremental job may run one after the other."""
    if limits is None:
        return
    for name, role in job.task_roles.items():
        needs = role.resource_per_instance
        size = (needs.gpu, round(needs.cpu * 1000), needs.memory_mb)
        sku = gpu_model(job.sku_of(name))
        fits = sum(shape.holds(*size, sku) for shape in limits.shapes_with(sku))
        each = f"{needs.gpu} GPUs, {needs.cpu:g} CPU cores and {needs.memory_mb} MiB of memory"
        path: Path = ("taskRoles", name, "resourcePerInstance")
        if not fits:
            message = (
                f"A task of {name} needs {each} on one node, and no node has all of that. "
                "Ask for less per task, and for more tasks."
            )
            details: dict[str, Any] = {"role": name, "resource": "all", "needs": list(size)}
            yield Issue("exceeds_node", message, path, details=details)
        elif role.instances > fits and not job.incremental and (job.opportunistic or not needs.gpu):
            message = (
                f"Role {name} needs {role.instances} tasks at once, each of {each}; all nodes of "
                f"the cluster together hold {fits} of them. "
                "Ask for fewer tasks, or for less per task."
            )
            details = {"role": name, "needs": role.instances, "fits": fits}
            yield Issue(
                "exceeds_cluster", message, ("taskRoles", name, "instances"), details=details
            )
    total = limits.all_gpus()
    if job.opportunistic and not job.incremental and job.gpus > total:
        message = (
            f"The job needs {job.gpus} GPUs at once, the whole cluster has {total}. "
            "Ask for fewer GPUs or fewer tasks."
        )
        details = {"resource": "gpu", "needs": job.gpus, "cluster": total}
        yield Issue("exceeds_cluster", message, VC_PATH, details=details)


_remembered: tuple[float, Limits | None] = (-LIMITS_FRESH_S, None)


_remembered_nodes: tuple[Any, ...] = ()


def _limits(*, fresh: bool = False) -> Limits | None:
    """Return the sizes of the nodes, remembered for some seconds: nodes come and go slowly, jobs do
    not."""
    global _remembered, _remembered_nodes
    if fresh or time.monotonic() - _remembered[0] > LIMITS_FRESH_S:
        # The nodes first: what changes in between is then read again.
        _remembered_nodes = _newest_change()
        _remembered = (time.monotonic(), _read_limits())
    return _remembered[1]


def _nodes_changed() -> bool:
    """Return whether a node joined, left or changed since the sizes were read. One small query."""
    return _newest_change() != _remembered_nodes


def _newest_change() -> tuple[Any, ...]:
    found = Node.objects.aggregate(newest=Max("updated_at"), nodes=Count("pk"))
    return tuple(found.values())


def _read_limits() -> Limits | None:
    known = Q(state__in=[NodeState.ONLINE, NodeState.UNREACHABLE, NodeState.LOST])
    most = Node.objects.filter(known).aggregate(cpus=Max("cpu_millis"), memory=Max("memory_mb"))
    if most["cpus"] is None:
        return None
    devices = Device.objects.exclude(health=Device.Health.ABSENT)
    devices = devices.exclude(node__state__in=[NodeState.JOINED, NodeState.REMOVED])
    gpus: dict[UUID, dict[str, int]] = defaultdict(dict)
    for node, model, number in devices.values_list("node", "model").annotate(n=Count("pk")):
        gpus[node][model] = number
    drivers: dict[str, set[str]] = defaultdict(set)
    sizes = Node.objects.filter(known).values_list("pk", "cpu_millis", "memory_mb")
    for node, driver in Node.objects.filter(known).values_list("pk", "driver_version"):
        for model in gpus.get(node, ()):
            drivers[model].add(driver)
    counts: Counter[tuple[Any, ...]] = Counter(
        (cpu, memory, tuple(sorted(gpus[node].items()))) for node, cpu, memory in sizes
    )
    return Limits(
        max((n for mine in gpus.values() for n in mine.values()), default=0),
        most["cpus"],
        most["memory"],
        frozenset(model for mine in gpus.values() for model in mine),
        tuple(NodeShape(n, cpu, memory, dict(mine)) for (cpu, memory, mine), n in counts.items()),
        {model: frozenset(versions) for model, versions in drivers.items()},
    )
