"""Whether a correct job file may become a job here: its virtual cluster, its size, its images."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, Max, Q

from skep_jobfile import JobFile, Path
from skep_platform.accounts import queries as accounts
from skep_platform.accounts.models import User
from skep_platform.cluster.models import Device, Node, NodeState
from skep_platform.images.models import Image
from skep_platform.jobs.intake import owning
from skep_platform.jobs.intake.owning import VC_PATH, Objection
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.limits import limit
from skep_platform.tenancy.models import VirtualCluster
from skep_scheduler.inventory import gpu_model

LIMITS_FRESH_S = 10.0
NETWORK_PATH: Path = ("extras", "skep", "network")


@dataclass(frozen=True, slots=True)
class NodeShape:
    """So many nodes (`count`) of this size, with so many GPUs of each model."""

    count: int
    cpu_millis: int
    memory_mb: int
    gpus: Mapping[str, int]

    def holds(self, gpus: int, cpu_millis: int, memory_mb: int, model: str) -> int:
        """Return how many tasks of this size all nodes of the shape have room for together."""
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

    def shapes_with(self, model: str) -> Iterable[NodeShape]:
        """The nodes with a GPU model; all of them where the cells call it by another name."""
        return [s for s in self.shapes if model in s.gpus] or self.shapes

    def all_gpus(self) -> int:
        return sum(shape.count * sum(shape.gpus.values()) for shape in self.shapes)


def find_vc(user: User, job: JobFile) -> VirtualCluster | None:
    """None also when it exists and the user is not a member of it. Who is in exactly one need not
    name it."""
    if not _names_vc(job) and len(mine := _memberships(user)) == 1:
        return mine[0]
    return tenancy.visible_to(user).filter(name=job.defaults.virtual_cluster).first()


def _names_vc(job: JobFile) -> bool:
    return "virtual_cluster" in job.defaults.model_fields_set


def _memberships(user: User) -> list[VirtualCluster]:
    mine = VirtualCluster.objects.filter(memberships__user=user)
    return list(mine.order_by("name")[:MOST_NAMED])


MOST_NAMED = 10


def unknown_vc(user: User, job: JobFile) -> Objection:
    """Told with whom to ask, or with what to choose from."""
    name = job.defaults.virtual_cluster
    mine = [vc.name for vc in _memberships(user)]
    if not mine and not user.is_admin:
        ask = " or ".join(accounts.admins()) or "an admin"
        message = f"You are in no virtual cluster yet: ask {ask} to add you to one."
    elif _names_vc(job):
        message = f"You belong to no virtual cluster named {name}; set defaults.virtualCluster."
    else:
        choice = f" to one of {', '.join(mine)}" if mine else ""
        message = f"The job names no virtual cluster: set defaults.virtualCluster{choice}."
    return Objection("unknown_virtual_cluster", message, VC_PATH, {"virtual_cluster": name})


def objections(job: JobFile, vc: VirtualCluster) -> list[Objection]:
    """What can never run, told at once instead of waiting for ever."""
    found = _against_limits(job, vc, _limits())
    if found:  # what was remembered may be older than a new, larger node
        found = _against_limits(job, vc, _limits(fresh=True), fresh=True)
    return found


def image_references(job: JobFile, vc: VirtualCluster) -> dict[str, str]:
    """By uri: the reference of the image that is known by this name to the virtual cluster, else
    the uri itself."""
    uris = {job.image_of(role).uri for role in job.task_roles.values()}
    names = [uri for uri in uris if not set(uri) & set("/:@.+")]
    references = {uri: uri for uri in uris}
    if names:
        usable = Q(virtual_clusters=None) | Q(virtual_clusters=vc)
        images = Image.objects.filter(usable, name__in=names).distinct()
        references |= dict(images.values_list("name", "reference"))
    return references


def _against_limits(
    job: JobFile, vc: VirtualCluster, limits: Limits | None, *, fresh: bool = False
) -> list[Objection]:
    models = limits.models if limits else frozenset()
    size = [*_against_nodes(job, limits)] or [*_against_cluster(job, limits)]
    return [
        *owning.objections(job, vc, models, fresh=fresh),
        *_against_graces(job, vc),
        *_against_host_network(job, vc),
        *_against_scratch(job, vc),
        *_against_rdma(job, vc),
        *_against_ulimits(job),
        *size,
    ]


def _against_graces(job: JobFile, vc: VirtualCluster) -> Iterator[Objection]:
    """From the first signal to the last one."""
    skep = job.extras.skep
    asked = (skep.stop_grace or 0) + (skep.checkpoint.grace if skep.checkpoint else 0)
    if asked > vc.max_stop_grace_s:
        message = (
            f"The job asks for {asked} s to save its work and to stop, {vc.name} allows "
            f"{vc.max_stop_grace_s} s. Lower checkpoint.grace or stopGrace."
        )
        path: Path = ("extras", "skep", "checkpoint" if skep.checkpoint else "stopGrace")
        details = {"needs": asked, "allowed": vc.max_stop_grace_s, "virtual_cluster": vc.name}
        yield Objection("exceeds_stop_grace", message, path, details)


def _against_host_network(job: JobFile, vc: VirtualCluster) -> Iterator[Objection]:
    """On it a task reaches what the node reaches, and what listens on its loopback."""
    if job.extras.skep.network == "host" and not limit(vc, "host_network"):
        message = (
            f"Jobs of {vc.name} may not use the network of the nodes. Leave out `network: host`: "
            "tasks then reach each other in a network of their own. Or ask an admin to set the "
            f"limit host_network of {vc.name}."
        )
        details = {"virtual_cluster": vc.name, "limit": "host_network"}
        yield Objection("host_network_not_allowed", message, NETWORK_PATH, details)


def _against_rdma(job: JobFile, vc: VirtualCluster) -> Iterator[Objection]:
    """Its devices are shared by all tasks of a node, and memory may be locked without a limit."""
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
        yield Objection("rdma_not_allowed", message, path, details)
    elif not Node.objects.filter(rdma=True).exclude(state=NodeState.REMOVED).exists():
        message = "No node of the cluster has InfiniBand devices. Leave out `infiniband`."
        yield Objection("rdma_not_available", message, path, {"nodes": 0})


def _against_ulimits(job: JobFile) -> Iterator[Objection]:
    """As the agent checks them."""
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
                yield Objection(
                    "ulimit_too_large", message, ("extras", "skep", "ulimits", name), details
                )


def _against_scratch(job: JobFile, vc: VirtualCluster) -> Iterator[Objection]:
    asked = job.extras.skep.scratch or 0
    if asked and asked > (allowed := limit(vc, "scratch_mb")):
        message = (
            f"The job asks for {asked} MiB of scratch, {vc.name} allows {allowed} MiB. Ask for "
            f"less, or ask an admin to raise the limit scratch_mb of {vc.name}."
        )
        details = {"needs": asked, "allowed": allowed, "virtual_cluster": vc.name}
        path: Path = ("extras", "skep", "scratch")
        yield Objection("exceeds_scratch", message, path, details)


def _against_nodes(job: JobFile, limits: Limits | None) -> Iterator[Objection]:
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
                yield Objection("exceeds_node", message, (*path, key), details)


def _against_cluster(job: JobFile, limits: Limits | None) -> Iterator[Objection]:
    """What no node holds as a whole, and what all nodes together do not hold at once. A guaranteed
    job that asks for GPUs may have what its virtual cluster owns, also of nodes that are not there
    yet; the tasks of an incremental job may run one after the other."""
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
            yield Objection("exceeds_node", message, path, details)
        elif role.instances > fits and not job.incremental and (job.opportunistic or not needs.gpu):
            message = (
                f"Role {name} needs {role.instances} tasks at once, each of {each}; all nodes of "
                f"the cluster together have room for {fits} of them. "
                "Ask for fewer tasks, or for less per task."
            )
            details = {"role": name, "needs": role.instances, "fits": fits}
            yield Objection("exceeds_cluster", message, ("taskRoles", name, "instances"), details)
    total = limits.all_gpus()
    if job.opportunistic and not job.incremental and job.gpus > total:
        message = (
            f"The job needs {job.gpus} GPUs at once, the whole cluster has {total}. "
            "Ask for fewer GPUs or fewer tasks."
        )
        details = {"resource": "gpu", "needs": job.gpus, "cluster": total}
        yield Objection("exceeds_cluster", message, VC_PATH, details)


_remembered: tuple[float, Limits | None] = (-LIMITS_FRESH_S, None)


def _limits(*, fresh: bool = False) -> Limits | None:
    """Remembered for some seconds: nodes come and go slowly, jobs do not."""
    global _remembered
    if fresh or time.monotonic() - _remembered[0] > LIMITS_FRESH_S:
        _remembered = (time.monotonic(), _read_limits())
    return _remembered[1]


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
    sizes = Node.objects.filter(known).values_list("pk", "cpu_millis", "memory_mb")
    counts: Counter[tuple[Any, ...]] = Counter(
        (cpu, memory, tuple(sorted(gpus[node].items()))) for node, cpu, memory in sizes
    )
    return Limits(
        max((n for mine in gpus.values() for n in mine.values()), default=0),
        most["cpus"],
        most["memory"],
        frozenset(model for mine in gpus.values() for model in mine),
        tuple(NodeShape(n, cpu, memory, dict(mine)) for (cpu, memory, mine), n in counts.items()),
    )
