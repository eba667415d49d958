"""Whether a correct job file may become a job here: its virtual cluster, its size, its images."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Count, Max, Q

from skep_jobfile import JobFile, Path
from skep_platform.accounts.models import User
from skep_platform.cluster.models import Device, Node, NodeState
from skep_platform.images.models import Image
from skep_platform.jobs.intake import owning
from skep_platform.jobs.intake.owning import VC_PATH, Objection
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import VirtualCluster

LIMITS_FRESH_S = 10.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that any one node has; None while the cluster has no node."""

    gpus: int
    cpu_millis: int
    memory_mb: int
    models: frozenset[str] = frozenset()  # of the GPUs of all nodes


def find_vc(user: User, job: JobFile) -> VirtualCluster | None:
    """None also when it exists and the user is not a member of it."""
    return tenancy.visible_to(user).filter(name=job.defaults.virtual_cluster).first()


def unknown_vc(job: JobFile) -> Objection:
    name = job.defaults.virtual_cluster
    message = f"You belong to no virtual cluster named {name}; set defaults.virtualCluster."
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
    return [
        *owning.objections(job, vc, models, fresh=fresh),
        *_against_graces(job, vc),
        *_against_nodes(job, limits),
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
    kinds = devices.values("node", "model").annotate(n=Count("pk"))
    gpus = list(kinds.values_list("model", "n"))
    largest = max((n for _, n in gpus), default=0)
    return Limits(largest, most["cpus"], most["memory"], frozenset(model for model, _ in gpus))
