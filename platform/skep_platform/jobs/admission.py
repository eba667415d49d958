"""Whether a correct job file may become a job here: its virtual cluster, its size, its images."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Max, Q

from skep_platform.accounts.models import User
from skep_platform.cluster.models import Device, Node, NodeState
from skep_platform.core.errors import NotFound, SkepError
from skep_platform.images.models import Image
from skep_platform.jobs.protocol import JobFile
from skep_platform.jobs.protocol.problems import Path
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import Quota, VirtualCluster

VC_PATH: Path = ("defaults", "virtualCluster")
LIMITS_FRESH_S = 10.0


@dataclass(frozen=True, slots=True)
class Objection:
    """Why the job is refused, the field that is to blame, and the numbers."""

    code: str
    message: str
    path: Path
    details: dict[str, Any] = field(default_factory=dict)

    def error(self) -> SkepError:
        kind = NotFound if self.code == "unknown_virtual_cluster" else SkepError
        return kind(self.message, code=self.code, **self.details)


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that any one node has; None while the cluster has no node."""

    gpus: int
    cpu_millis: int
    memory_mb: int


def find_vc(user: User, job: JobFile) -> VirtualCluster | None:
    """None also when it exists and the user is not a member of it."""
    return tenancy.visible_to(user).filter(name=job.defaults.virtual_cluster).first()


def unknown_vc(job: JobFile) -> Objection:
    name = job.defaults.virtual_cluster
    message = f"You belong to no virtual cluster named {name}; set defaults.virtualCluster."
    return Objection("unknown_virtual_cluster", message, VC_PATH, {"virtual_cluster": name})


def objections(job: JobFile, vc: VirtualCluster) -> list[Objection]:
    """What can never run, told at once instead of waiting for ever."""
    found = list(_against_nodes(job, _limits()))
    if found:  # what was remembered may be older than a new, larger node
        found = list(_against_nodes(job, _limits(fresh=True)))
    return [*_against_quota(job, vc), *found]


def image_references(job: JobFile, vc: VirtualCluster) -> dict[str, str]:
    """By uri: the reference of the image that is known by this name to the virtual cluster, else
    the uri itself."""
    uris = {job.uri_of(role) for role in job.task_roles.values()}
    names = [uri for uri in uris if not set(uri) & set("/:@.+")]
    references = {uri: uri for uri in uris}
    if names:
        usable = Q(virtual_clusters=None) | Q(virtual_clusters=vc)
        images = Image.objects.filter(usable, name__in=names).distinct()
        references |= dict(images.values_list("name", "reference"))
    return references


def _against_quota(job: JobFile, vc: VirtualCluster) -> Iterator[Objection]:
    """A gang gets GPUs of one model; an opportunistic one needs no quota."""
    if not job.gpus or job.priority_class.priority < 0:
        return
    quotas = Quota.objects.filter(vc=vc, gpus__gt=0).values_list("gpu_model", "gpus")
    owns: Mapping[str, int] = dict(quotas)
    if job.gpus > max(owns.values(), default=0):
        has = ", ".join(f"{n} x {model}" for model, n in sorted(owns.items())) or "none"
        message = (
            f"The job needs {job.gpus} GPUs of one model, {vc.name} owns {has}. Ask for fewer, "
            "or submit it with jobPriorityClass oppo, which needs no quota."
        )
        details = {"needs": job.gpus, "owns": owns, "virtual_cluster": vc.name}
        yield Objection("exceeds_quota", message, VC_PATH, details)


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
                    f"A task of {name} needs {asked:g} {word}, the largest node has {most:g}. "
                    "Ask for less per task, and for more tasks."
                )
                details = {"role": name, "resource": key, "needs": asked, "largest_node": most}
                yield Objection("exceeds_node", message, (*path, key), details)


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
    gpus = devices.values("node", "model").annotate(n=Count("pk")).aggregate(most=Max("n"))["most"]
    return Limits(gpus or 0, most["cpus"], most["memory"])
