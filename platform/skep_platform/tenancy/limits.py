"""What a virtual cluster and its users may use at most: defaults here, exceptions in rows.

To add a limit, add its name to `LIMITS`; it needs no migration.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from django.db import transaction

from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.core import notifications
from skep_platform.core.compiled import Among, Compiled
from skep_platform.core.errors import Forbidden, NotFound, SkepError
from skep_platform.core.events import record
from skep_platform.tenancy.models import VcLimit, VirtualCluster
from skep_scheduler.model import UserLimits


class Effect(StrEnum):
    """What happens to a job that would exceed a limit."""

    SUBMIT = "submit"  # it is refused when it is submitted
    WAIT = "wait"  # it waits in the queue, and jobs of others start before it
    RUN = "run"  # it is checked, warned or ended while it runs


class SetBy(StrEnum):
    """Who may set a limit."""

    ADMIN = "admin"  # admins of the platform: it protects what all virtual clusters share
    VC_ADMIN = "vc_admin"  # VC admins, too
    VC_ADMIN_TO_DEFAULT = "vc_admin_to_default"  # VC admins up to its default, admins above


@dataclass(frozen=True)
class Limit:
    """`unit` is what the number counts; "switch" is 0 (off) or 1 (on)."""

    default: int
    minimum: int
    maximum: int
    unit: str
    description: str
    set_by: SetBy = SetBy.ADMIN
    effect: Effect = Effect.SUBMIT

    @property
    def is_open(self) -> bool:
        """Return whether the default stands for no limit at all."""
        return self.default == self.maximum and self.unit != SWITCH


SWITCH = "switch"
MOST = 1_000_000
TEN_YEARS_S = 3650 * 24 * 3600

# The defaults are far above what honest use needs. They stop runaway scripts and hostile users.
LIMITS: dict[str, Limit] = {
    "submits_per_minute": Limit(
        120,
        1,
        100_000,
        "jobs",
        "Jobs that one user may submit to it in a minute.",
        SetBy.VC_ADMIN_TO_DEFAULT,
    ),
    "gpus_per_user": Limit(
        MOST,
        1,
        MOST,
        "GPUs",
        "GPUs that the jobs of one user may hold in it at a time.",
        SetBy.VC_ADMIN,
        Effect.WAIT,
    ),
    "running_jobs_per_user": Limit(
        MOST,
        1,
        MOST,
        "jobs",
        "Jobs that one user may run in it at a time.",
        SetBy.VC_ADMIN,
        Effect.WAIT,
    ),
    "gpus_per_job": Limit(
        MOST, 1, MOST, "GPUs", "GPUs that one job may ask for, all tasks together.", SetBy.VC_ADMIN
    ),
    "job_duration_s": Limit(
        TEN_YEARS_S,
        60,
        TEN_YEARS_S,
        "seconds",
        "How long an attempt of a job may run; a job that asks for less ends sooner.",
        SetBy.VC_ADMIN,
    ),
    "active_jobs": Limit(
        10_000, 0, 1_000_000, "jobs", "Jobs that run, or are being started or stopped, at a time."
    ),
    "waiting_jobs": Limit(10_000, 0, 1_000_000, "jobs", "Jobs that wait in its queue at a time."),
    "jobs_per_user": Limit(
        5_000,
        0,
        1_000_000,
        "jobs",
        "Unfinished jobs that one user may have in it at a time.",
        SetBy.VC_ADMIN_TO_DEFAULT,
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
    "idle_minutes": Limit(
        0,
        0,
        1_440,
        "minutes",
        "After so many minutes with all of its GPUs idle a job is warned; 0: never.",
        SetBy.VC_ADMIN,
        Effect.RUN,
    ),
    "idle_percent": Limit(
        5,
        1,
        100,
        "%",
        "A GPU is idle below this utilisation.",
        SetBy.VC_ADMIN,
        Effect.RUN,
    ),
    "idle_stop_minutes": Limit(
        0,
        0,
        1_440,
        "minutes",
        "So many minutes after the warning an idle job is stopped; 0: it is only warned.",
        SetBy.VC_ADMIN,
        Effect.RUN,
    ),
    "idle_grace_minutes": Limit(
        30,
        0,
        1_440,
        "minutes",
        "For so many minutes after its start no job counts as idle.",
        SetBy.VC_ADMIN,
        Effect.RUN,
    ),
    "max_priority": Limit(
        100,
        0,
        1_000,
        "priority",
        "Highest priority that a member may give; VC admins may exceed it.",
        SetBy.VC_ADMIN,
    ),
    "app_idle_minutes": Limit(
        0,
        0,
        100_000,
        "minutes",
        "After so long without use, the job of a notebook is stopped; 0: never.",
    ),
    "host_network": Limit(0, 0, 1, SWITCH, "Whether its jobs may use the network of the node."),
    "rdma": Limit(0, 0, 1, SWITCH, "Whether its jobs may use the node's InfiniBand devices."),
    "latest_images": Limit(
        1,
        0,
        1,
        SWITCH,
        "Whether its jobs may use images by the tag latest, or without a tag.",
        SetBy.VC_ADMIN,
    ),
    "save_image_mb": Limit(
        0,
        0,
        100 * 1024,
        "MiB",
        "What a task may have changed in its container to be saved as an image; 0: none is saved.",
        SetBy.VC_ADMIN,
        Effect.RUN,
    ),
    "scratch_mb": Limit(
        100 * 1024, 0, 2**30, "MiB", "Scratch that a job may ask for, for each of its tasks."
    ),
    "follower_depth": Limit(
        100, 0, 100_000, "jobs", "Jobs in a row that submitted each other by their API tokens."
    ),
    "followers": Limit(
        1_000,
        0,
        1_000_000,
        "jobs",
        "Jobs that a job and its followers may submit by their API tokens in all.",
    ),
    "service_accounts": Limit(50, 0, 10_000, "accounts", "Service accounts that it may have."),
    "container_disk_mb": Limit(
        200 * 1024, 100, 100 * 1024**2, "MiB", "What a container may write into its root."
    ),
}


def limit(vc: VirtualCluster, name: str) -> int:
    """Return the value of one limit, in its unit. One query, none where it was preloaded.

    Raises KeyError for a name that `LIMITS` does not have."""
    if vc.preloaded is not None:
        return overrides(vc).get(name, LIMITS[name].default)
    row = VcLimit.objects.filter(vc_id=vc.pk, name=name).values_list("value", flat=True).first()
    return LIMITS[name].default if row is None else row


def limits_of(vc: VirtualCluster) -> dict[str, int]:
    """Return all limits of a virtual cluster by name. One query."""
    own = overrides(vc)
    return {name: own.get(name, known.default) for name, known in LIMITS.items()}


def limits_of_many(vc_ids: Collection[UUID], *names: str) -> dict[UUID, dict[str, int]]:
    """Return some limits of several virtual clusters: by their id, then by name. One query."""
    found = {pk: {name: LIMITS[name].default for name in names} for pk in vc_ids}
    for pk, name, value in _OF_MANY.rows(vcs=list(vc_ids), names=list(names)):
        found[pk][name] = value
    return found


_OF_MANY = Compiled(
    lambda: VcLimit.objects.filter(Among("vc", "vcs"), Among("name", "names")),
    *("vc_id", "name", "value"),
)


def user_limits() -> dict[str, UserLimits]:
    """Return what each user may hold in the virtual clusters that limit it, by their name. One
    query, for the scheduler: `GUARDED_BY_SCHEDULER` are the limits."""
    found: dict[str, dict[str, int]] = {}
    rows = VcLimit.objects.filter(name__in=GUARDED_BY_SCHEDULER)
    for vc, name, value in rows.values_list("vc__name", "name", "value"):
        found.setdefault(vc, {})[name] = value
    return {
        vc: UserLimits(some.get("gpus_per_user"), some.get("running_jobs_per_user"))
        for vc, some in found.items()
    }


# A trigger reports changes of these to the scheduler.
GUARDED_BY_SCHEDULER = ("gpus_per_user", "running_jobs_per_user")


def overrides(vc: VirtualCluster) -> dict[str, int]:
    """Return only what admins set, by name. One query, none where it was preloaded."""
    rows: Mapping[str, int]
    if vc.preloaded is not None:
        rows = vc.preloaded.limits
    else:
        rows = dict(VcLimit.objects.filter(vc_id=vc.pk).values_list("name", "value"))
    return {name: value for name, value in rows.items() if name in LIMITS}


def check_may_set(vc: VirtualCluster, name: str, value: int | None, *, is_admin: bool) -> None:
    """Check what a VC admin may set; None: return to the default. Raises NotFound for an unknown
    name, and Forbidden `limit_set_by_admins` and `limit_above_default`, unless it `is_admin`."""
    known = _known(name)
    if is_admin or known.set_by == SetBy.VC_ADMIN:
        return
    if known.set_by == SetBy.ADMIN:
        message = f"Only admins of the platform set {name}: it protects what all teams share."
        raise Forbidden(message, code="limit_set_by_admins", limit=name)
    if value is not None and value > known.default:
        message = (
            f"VC admins of {vc.name} may set {name} up to its default of {known.default}. Ask an "
            "admin of the platform for more."
        )
        raise Forbidden(message, code="limit_above_default", limit=name, most=known.default)


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
    _record(user, vc, name, before, value)


@transaction.atomic
def reset_limit(user: User | None, vc: VirtualCluster, name: str) -> None:
    """Return one limit to its default. Raises NotFound for an unknown name."""
    known = _known(name)
    before = limit(vc, name)
    VcLimit.objects.filter(vc=vc, name=name).delete()
    _record(user, vc, name, before, known.default)


def _known(name: str) -> Limit:
    if name not in LIMITS:
        raise NotFound(f"There is no limit of this name. Limits are: {', '.join(LIMITS)}.")
    return LIMITS[name]


def _record(user: User | None, vc: VirtualCluster, name: str, before: int, after: int) -> None:
    if before == after:
        return
    message = f"The limit {name} of {vc.name} is now {after} (was {before})."
    actor = user.get_username() if user else ""
    data = {"limit": name, "before": before, "after": after}
    record("vc", vc.pk, "limit.changed", message, actor=actor, **data)
    was, now = {"value": before}, {"value": after}
    audit.record("vc.limit.update", "limit", name, name, before=was, after=now, vc=vc)
    notifications.notify_topic("cluster")
    if name in GUARDED_BY_SCHEDULER:
        notifications.notify_scheduler()
