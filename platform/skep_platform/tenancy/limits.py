"""What a virtual cluster and its users may use at most: defaults here, exceptions in rows.

To add a limit, add its name to `LIMITS`; it needs no migration.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from skep_platform.accounts.models import User
from skep_platform.core import doorbells
from skep_platform.core.errors import NotFound, SkepError
from skep_platform.core.events import record
from skep_platform.tenancy.models import VcLimit, VirtualCluster


@dataclass(frozen=True)
class Limit:
    """`unit` is what the number counts; "switch" is 0 (off) or 1 (on)."""

    default: int
    minimum: int
    maximum: int
    unit: str
    description: str


SWITCH = "switch"

# The defaults are far above what honest use needs. They stop runaway scripts and hostile users.
LIMITS: dict[str, Limit] = {
    "submits_per_minute": Limit(
        120, 1, 100_000, "jobs", "Jobs that one user may submit to it in a minute."
    ),
    "active_jobs": Limit(
        10_000, 0, 1_000_000, "jobs", "Jobs that run, or are being started or stopped, at a time."
    ),
    "waiting_jobs": Limit(10_000, 0, 1_000_000, "jobs", "Jobs that wait in its queue at a time."),
    "jobs_per_user": Limit(
        5_000, 0, 1_000_000, "jobs", "Unfinished jobs that one user may have in it at a time."
    ),
    "tasks": Limit(
        100_000, 1, 10_000_000, "tasks", "Tasks in all its waiting and active jobs together."
    ),
    "concurrent_checks": Limit(
        8, 1, 1_000, "requests", "Checks and conversions of job files that one user runs at a time."
    ),
    "log_bytes_per_job": Limit(
        100 * 1024**3, 1024**2, 2**50, "bytes", "Bytes of log that are stored for one job."
    ),
    "max_priority": Limit(
        100,
        0,
        1_000,
        "priority",
        "Highest priority that a member may give; managers may exceed it.",
    ),
    "host_network": Limit(0, 0, 1, SWITCH, "Whether its jobs may use the network of the node."),
    "rdma": Limit(0, 0, 1, SWITCH, "Whether its jobs may use the node's InfiniBand devices."),
    "scratch_mb": Limit(
        100 * 1024, 0, 2**30, "MiB", "Scratch that a job may ask for, for each of its tasks."
    ),
    "container_disk_mb": Limit(
        200 * 1024, 100, 100 * 1024**2, "MiB", "What a container may write into its root."
    ),
}


def limit(vc: VirtualCluster, name: str) -> int:
    """Return the value of one limit, in its unit. One query.

    Raises KeyError for a name that `LIMITS` does not have."""
    row = VcLimit.objects.filter(vc_id=vc.pk, name=name).values_list("value", flat=True).first()
    return LIMITS[name].default if row is None else row


def limits_of(vc: VirtualCluster) -> dict[str, int]:
    """Return all limits of a virtual cluster by name. One query."""
    own = overrides(vc)
    return {name: own.get(name, known.default) for name, known in LIMITS.items()}


def limits_of_many(vc_ids: Collection[UUID], *names: str) -> dict[UUID, dict[str, int]]:
    """Return some limits of several virtual clusters: by their id, then by name. One query."""
    found = {pk: {name: LIMITS[name].default for name in names} for pk in vc_ids}
    rows = VcLimit.objects.filter(vc__in=vc_ids, name__in=names)
    for pk, name, value in rows.values_list("vc_id", "name", "value"):
        found[pk][name] = value
    return found


def overrides(vc: VirtualCluster) -> dict[str, int]:
    """Return only what admins set, by name. One query."""
    rows = dict(VcLimit.objects.filter(vc_id=vc.pk).values_list("name", "value"))
    return {name: value for name, value in rows.items() if name in LIMITS}


@transaction.atomic
def set_limit(user: User | None, vc: VirtualCluster, name: str, value: int) -> None:
    """Set one limit. What is already running or waiting stays; the limit holds for what comes.

    Raises NotFound for an unknown name and SkepError `limit_out_of_range`."""
    known = _known(name)
    if not known.minimum <= value <= known.maximum:
        raise SkepError(
            f"{name} is a number from {known.minimum} to {known.maximum} ({known.unit}).",
            code="limit_out_of_range",
            limit=name,
            value=value,
            minimum=known.minimum,
            maximum=known.maximum,
            unit=known.unit,
        )
    before = limit(vc, name)
    VcLimit.objects.update_or_create(vc=vc, name=name, defaults={"value": value})
    _tell(user, vc, name, before, value)


@transaction.atomic
def reset_limit(user: User | None, vc: VirtualCluster, name: str) -> None:
    """Return one limit to its default. Raises NotFound for an unknown name."""
    known = _known(name)
    before = limit(vc, name)
    VcLimit.objects.filter(vc=vc, name=name).delete()
    _tell(user, vc, name, before, known.default)


def _known(name: str) -> Limit:
    if name not in LIMITS:
        raise NotFound(f"There is no limit of this name. Limits are: {', '.join(LIMITS)}.")
    return LIMITS[name]


def _tell(user: User | None, vc: VirtualCluster, name: str, before: int, after: int) -> None:
    if before == after:
        return
    message = f"The limit {name} of {vc.name} is now {after} (was {before})."
    actor = user.get_username() if user else ""
    data = {"limit": name, "before": before, "after": after}
    record("vc", vc.pk, "limit.changed", message, actor=actor, **data)
    doorbells.ring_topic("cluster")
