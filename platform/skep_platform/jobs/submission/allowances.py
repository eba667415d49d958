"""What users and virtual clusters may ask for at a time: rows of `tenancy.limits`, enforced.

Counts are read from the table at most once a second for each virtual cluster; what this process
accepts in between is added to them. So a thousand submits cost a few counts, and parallel ones see
each other.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from uuid import UUID

import redis
import structlog
from django.conf import settings
from django.db.models import Max

from skep_agent.registry_policy import RegistryPolicy, RegistryRefused, registry_of
from skep_jobfile import Issue, JobFile, Path
from skep_platform.accounts.models import User
from skep_platform.core.bulk import fetch
from skep_platform.core.errors import TooMany
from skep_platform.core.notifications import valkey
from skep_platform.images import rules
from skep_platform.jobs.lifecycle.messages import duration
from skep_platform.jobs.submission.admission import image_references
from skep_platform.jobs.submission.quota_check import VC_PATH
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.limits import LIMITS, limit, limits_of
from skep_platform.tenancy.models import VcLimit, VirtualCluster

log = structlog.get_logger(__name__)

FRESH_S = 1.0
MOST_REMEMBERED = 1_000  # virtual clusters
MINUTE_S = 60
MOST_PATTERNS_SHOWN = 10
PRIORITY: Path = ("extras", "skep", "priority")
CLASS: Path = ("extras", "hivedScheduler", "jobPriorityClass")
COUNTS = """
SELECT owner_id, state = 'WAITING' AND placed_at IS NULL, count(*), sum(tasks_total)
  FROM jobs_job WHERE vc_id = %(vc)s AND state IN ('WAITING', 'RUNNING', 'STOPPING')
 GROUP BY 1, 2
"""


def issues(user: User, job: JobFile, vc: VirtualCluster) -> Iterator[Issue]:
    """Yield what this user may not ask for in this virtual cluster."""
    if not tenancy.may_submit(user, vc):
        message = (
            f"You are a viewer of {vc.name} and may not submit: ask a VC admin to change that."
        )
        yield Issue("role_too_small", message, VC_PATH, details={"virtual_cluster": vc.name})
    limits = limits_of(vc)
    yield from _registries(job)
    yield from _images(job, vc, latest=bool(limits["latest_images"]))
    yield from _priority(user, job, vc, limits["max_priority"])
    yield from _size(job, vc, limits["gpus_per_job"])
    yield from _duration(job, vc, limits["job_duration_s"])


def _registries(job: JobFile) -> Iterator[Issue]:
    """Check the registries of images. Names of images that an admin made known pass: the admin
    chose the registry."""
    policy = RegistryPolicy.parsed(settings.SKEP_REGISTRIES)
    used = {role.docker_image for role in job.task_roles.values()}
    for index, item in enumerate(job.prerequisites):
        if item.type == "dockerimage" and item.name in used and "/" in item.uri:
            try:
                policy.check_name(item.uri)
            except RegistryRefused as error:
                path: Path = ("prerequisites", index, "uri")
                details = {"registry": registry_of(item.uri)}
                yield Issue("registry_not_allowed", str(error), path, details=details)


def _images(job: JobFile, vc: VirtualCluster, *, latest: bool) -> Iterator[Issue]:
    """Check the images against the rules of the virtual cluster, those with a name of the catalogue
    by what they stand for."""
    patterns = rules.of(vc)
    if latest and not patterns:
        return
    references = image_references(job, vc)
    for index, item in enumerate(job.prerequisites):
        if item.type != "dockerimage" or item.uri not in references:
            continue
        reference, path = references[item.uri], ("prerequisites", index, "uri")
        details: dict[str, Any] = {"image": reference, "virtual_cluster": vc.name}
        if patterns and not rules.allows(patterns, reference):
            message = (
                f"Jobs of {vc.name} may not use {reference}: no pattern of its images matches. See "
                "its settings, or ask a VC admin to add one."
            )
            details["patterns"] = patterns[:MOST_PATTERNS_SHOWN]
            yield Issue("image_not_allowed", message, path, details=details)
        elif not latest and rules.is_latest(reference):
            message = (
                f"Jobs of {vc.name} may not use an image by the tag latest, which changes: give "
                f"{reference} another tag, or a digest."
            )
            yield Issue("image_latest_not_allowed", message, path, details=details)


def _priority(user: User, job: JobFile, vc: VirtualCluster, most: int) -> Iterator[Issue]:
    if job.priority <= most or tenancy.manages(user, vc):
        return
    path = CLASS if job.extras.skep.priority is None else PRIORITY
    message = (
        f"Priority {job.priority} is above {most}, the highest that members of {vc.name} may give. "
        "Ask a VC admin, or give a lower one."
    )
    details = {"priority": job.priority, "most": most, "virtual_cluster": vc.name}
    yield Issue("priority_too_high", message, path, details=details)


def _size(job: JobFile, vc: VirtualCluster, most: int) -> Iterator[Issue]:
    if job.gpus > most:
        message = (
            f"It asks for {job.gpus} GPUs, but a job of {vc.name} may have {most} in all. Ask for "
            "fewer, or a VC admin for a higher limit."
        )
        details = {"gpus": job.gpus, "most": most, "virtual_cluster": vc.name}
        yield Issue("too_many_gpus_in_job", message, ("taskRoles",), details=details)


def _duration(job: JobFile, vc: VirtualCluster, most: int) -> Iterator[Issue]:
    """Check the durations that a job file gives. One that gives none ends when the limit is
    reached; see `storing.new_row`."""
    skep = job.extras.skep
    for name, seconds in (("maxDuration", skep.max_duration), ("duration", skep.duration)):
        if seconds is not None and seconds > most:
            message = (
                f"{name} is {duration(seconds)}, but a job of {vc.name} may run for "
                f"{duration(most)}. Give less, or ask a VC admin for a higher limit."
            )
            details = {"duration_s": seconds, "most": most, "virtual_cluster": vc.name}
            yield Issue("job_too_long", message, ("extras", "skep", name), details=details)


def longest(vc: VirtualCluster, asked_s: int | None) -> int | None:
    """Return the maximum duration in seconds of a job that asks for one, or for none: no longer
    than its virtual cluster allows. None: there is no limit. One query."""
    most, known = limit(vc, "job_duration_s"), LIMITS["job_duration_s"]
    if most == known.default:
        return asked_s
    return most if asked_s is None else min(asked_s, most)


def use_of(virtual_cluster: UUID) -> dict[str, int]:
    """Return what is used of its limits now, by the name of the limit; of limits per user or job,
    by the one with the most. One query."""
    [row] = fetch(USE, {"vc": virtual_cluster})
    return dict(zip(USED, (int(value) for value in row), strict=True))


USED = (
    *("waiting_jobs", "active_jobs", "tasks", "gpus_per_job"),
    *("jobs_per_user", "running_jobs_per_user", "gpus_per_user"),
)
USE = """
WITH unfinished AS (
    SELECT id, owner_id, state = 'WAITING' AND placed_at IS NULL AS waits, tasks_total, gpus
      FROM jobs_job WHERE vc_id = %(vc)s AND state IN ('WAITING', 'RUNNING', 'STOPPING')
), by_owner AS (
    SELECT count(*) AS jobs, count(*) FILTER (WHERE NOT waits) AS running
      FROM unfinished GROUP BY owner_id
), held AS (
    SELECT sum(jsonb_array_length(a.gpu_uuids)) AS gpus
      FROM jobs_taskattempt a JOIN jobs_job j ON j.id = a.job_id
     WHERE a.released_at IS NULL AND j.vc_id = %(vc)s GROUP BY j.owner_id
)
SELECT count(*) FILTER (WHERE waits), count(*) FILTER (WHERE NOT waits),
       coalesce(sum(tasks_total), 0), coalesce(max(gpus), 0),
       coalesce((SELECT max(jobs) FROM by_owner), 0),
       coalesce((SELECT max(running) FROM by_owner), 0),
       coalesce((SELECT max(gpus) FROM held), 0)
  FROM unfinished
"""


def take(user: User, vc: VirtualCluster, tasks: int) -> None:
    """Count a job that is about to be stored. Raises TooMany `too_many_submits`,
    `too_many_waiting_jobs`, `too_many_active_jobs`, `too_many_jobs_of_user` and `too_many_tasks`,
    with the numbers."""
    limits = limits_of(vc)
    _take_submit(user, vc, limits["submits_per_minute"])
    with _lock_of(vc.pk):
        load = _load(vc, FRESH_S)
        if _exceeded(load, user, tasks, limits):
            load = _load(vc, 0.0)
        if exceeded := _exceeded(load, user, tasks, limits):
            name, now, retry_after_s = exceeded
            raise _too_many(vc, name, now, limits[name], retry_after_s)
        load.waiting += 1
        load.of_user[user.pk] += 1
        load.tasks += tasks


@contextmanager
def checking(user: User) -> Iterator[None]:
    """Count a check or a conversion while it runs. Raises TooMany `too_many_checks`."""
    with _lock:
        _checks[user.pk] += 1
        running = _checks[user.pk]
    try:
        if running > 1 and running > (most := _concurrent_checks(user)):
            message = f"You run {most} checks or conversions already; wait for one of them."
            details = {"limit": "concurrent_checks", "now": running - 1, "most": most}
            raise TooMany(message, code="too_many_checks", retry_after_s=1, **details)
        yield
    finally:
        with _lock:
            _checks[user.pk] -= 1
            if not _checks[user.pk]:
                del _checks[user.pk]


@dataclass
class _Load:
    """What the unfinished jobs of one virtual cluster amount to."""

    read_at: float
    waiting: int = 0
    active: int = 0
    tasks: int = 0
    of_user: Counter[int] = field(default_factory=Counter)  # jobs, by owner


_lock = threading.Lock()
_loads: dict[UUID, _Load] = {}
_checks: Counter[int] = Counter()


@lru_cache(maxsize=MOST_REMEMBERED)
def _made_lock(_: UUID) -> threading.Lock:
    return threading.Lock()


def _lock_of(vc: UUID) -> threading.Lock:
    """Return the lock under which jobs of this virtual cluster are counted: submits to another one
    do not wait for its query."""
    with _lock:
        return _made_lock(vc)


def _load(vc: VirtualCluster, fresh_s: float) -> _Load:
    known = _loads.get(vc.pk)
    if known is not None and time.monotonic() - known.read_at < fresh_s:
        return known
    found = _Load(time.monotonic())
    for owner, waits, jobs, tasks in fetch(COUNTS, {"vc": vc.pk}):
        if waits:
            found.waiting += jobs
        else:
            found.active += jobs
        found.tasks += int(tasks)
        found.of_user[owner] += jobs
    with _lock:
        if len(_loads) >= MOST_REMEMBERED:
            _loads.clear()
        _loads[vc.pk] = found
    return found


def _exceeded(
    load: _Load, user: User, tasks: int, limits: Mapping[str, int]
) -> tuple[str, int, int] | None:
    """Return the first limit that one more job would exceed, the count now, and when to try
    again."""
    for name, now, more, retry_after_s in (
        ("waiting_jobs", load.waiting, 1, 10),
        ("active_jobs", load.active, 1, 60),
        ("jobs_per_user", load.of_user[user.pk], 1, 10),
        ("tasks", load.tasks, tasks, 60),
    ):
        if now + more > limits[name]:
            return name, now, retry_after_s
    return None


CODES = {
    "waiting_jobs": "too_many_waiting_jobs",
    "active_jobs": "too_many_active_jobs",
    "jobs_per_user": "too_many_jobs_of_user",
    "tasks": "too_many_tasks_in_vc",
}


def _too_many(vc: VirtualCluster, name: str, now: int, most: int, retry_after_s: int) -> TooMany:
    what = {
        "waiting_jobs": f"{now} jobs wait in {vc.name}",
        "active_jobs": f"{now} jobs of {vc.name} run or start",
        "jobs_per_user": f"You have {now} unfinished jobs in {vc.name}",
        "tasks": f"The unfinished jobs of {vc.name} have {now} tasks",
    }[name]
    message = f"{what}; with this job it would be more than {most}. Wait until some end."
    details = {"limit": name, "now": now, "most": most, "virtual_cluster": vc.name}
    return TooMany(message, code=CODES[name], retry_after_s=retry_after_s, **details)


def _take_submit(user: User, vc: VirtualCluster, most: int) -> None:
    """Count in Valkey, for all processes. While Valkey is down, every user may submit."""
    key = f"skep:submits:{vc.pk}:{user.pk}"
    try:
        broker = valkey()
        count, left_s = int(broker.incr(key)), MINUTE_S
        if count > most:
            left_s = int(broker.ttl(key))
        # The first one begins the minute. Where that was lost, the count would last for ever.
        if count == 1 or left_s < 0:
            broker.expire(key, MINUTE_S, nx=True)
    except redis.RedisError as error:
        log.warning("submit_limit_down", error=type(error).__name__)
        return
    if count > most:
        left_s = max(left_s, 1)
        message = f"You may submit {most} jobs a minute to {vc.name}; try again in {left_s} s."
        details = {"limit": "submits_per_minute", "now": count - 1, "most": most}
        details |= {"virtual_cluster": vc.name}
        raise TooMany(message, code="too_many_submits", retry_after_s=left_s, **details)


def _concurrent_checks(user: User) -> int:
    """Return the largest limit of the user's virtual clusters."""
    rows = VcLimit.objects.filter(name="concurrent_checks", vc__memberships__user=user)
    return rows.aggregate(most=Max("value"))["most"] or LIMITS["concurrent_checks"].default
