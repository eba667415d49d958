"""What the rules of administrators look for: each kind returns what meets it now.

The state of a condition is kept by `rules`; here is only what is read, with a constant number of
queries for each rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import redis
from django.core.cache import cache
from django.db.models import Case, Count, F, Q, QuerySet, When
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from skep_platform.cluster.models import Device, Node, NodeState
from skep_platform.core.bulk import fetch
from skep_platform.jobs.models import Job
from skep_platform.jobs.states import JobState
from skep_platform.operations import doctor, readings
from skep_platform.operations.doctor import network
from skep_platform.operations.doctor.findings import ERROR, WARNING
from skep_platform.operations.models import AlertRule, RuleAction, RuleKind
from skep_platform.telemetry import idle


@dataclass(frozen=True, slots=True)
class Met:
    """Something that meets a rule. `subject` is stable while it does; `url` is a path of a page."""

    subject: str
    name: str
    message: str
    url: str
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kind:
    """`waits`: what is found must be met for the rule's minutes before it fires; else `find` takes
    the minutes into account itself."""

    about: str
    unit: str
    default: float
    least: float
    most: float
    actions: tuple[RuleAction, ...]
    find: Callable[[AlertRule], Iterable[Met]]
    waits: bool = True


def find(rule: AlertRule) -> dict[str, Met]:
    """Return what meets a rule now, by subject: all of it, as what is not there is over. That are
    no more than the cluster has nodes, or jobs that hold GPUs."""
    return {met.subject: met for met in KINDS[RuleKind(rule.kind)].find(rule)}


IDLE = """
SELECT j.id, j.name, v.name, j.gpus
  FROM jobs_job j JOIN tenancy_virtualcluster v ON v.id = j.vc_id
  JOIN jobs_taskattempt a ON a.job_id = j.id AND a.index = j.attempt AND a.released_at IS NULL
 CROSS JOIN LATERAL jsonb_array_elements_text(a.gpu_uuids) AS gpu(uuid)
  LEFT JOIN LATERAL (
       SELECT coalesce(sum(u.seconds), 0) AS seconds,
              bool_and(u.utilization_sum < %(percent)s * u.samples) AS idle
         FROM telemetry_gpurollup u
        WHERE u.attempt_id = a.id AND u.device_id = gpu.uuid AND u.samples > 0
          AND u.at > now() - (%(minutes)s + 1) * interval '1 minute') u ON true
 WHERE j.state = 'RUNNING' AND j.gpus > 0 AND NOT j.idle_exempt AND j.exit_reason IS NULL
   AND j.stop_requested_at IS NULL AND j.preempting_at IS NULL
   AND coalesce(j.begun_at, j.placed_at) < now() - %(minutes)s * interval '1 minute'
 GROUP BY j.id, j.name, v.name, j.gpus
HAVING bool_and(u.seconds >= %(seen)s * 60 * %(minutes)s AND coalesce(u.idle, false))
 ORDER BY j.gpus DESC, j.id
"""


def _idle_gpus(rule: AlertRule) -> Iterable[Met]:
    """Return running jobs none of whose GPUs was used, on positive evidence."""
    minutes = max(rule.for_minutes, 1)
    values = {"percent": rule.threshold, "minutes": minutes, "seen": idle.SEEN}
    for pk, name, vc, gpus in fetch(IDLE, values):
        message = (
            f"The {gpus} GPUs of job {name} ({vc}) stayed below {rule.threshold:g} % for "
            f"{minutes} minutes."
        )
        yield Met(str(pk), name, message, f"/jobs/{pk}", {"virtual_cluster": vc, "gpus": gpus})


def _maintained() -> QuerySet[Node]:
    """Return the nodes whose planned maintenance is on: what they lack then wakes no one."""
    return Node.objects.filter(maintenance_from__lte=Now(), maintenance_until__gt=Now())


def _bad_nodes(rule: AlertRule) -> Iterable[Met]:
    bad = Device.objects.filter(health=Device.Health.BAD, node__state=NodeState.ONLINE)
    bad = bad.exclude(node__in=_maintained())
    counts = bad.values("node__name").annotate(n=Count("pk")).filter(n__gte=int(rule.threshold))
    for name, n in counts.order_by("node__name").values_list("node__name", "n"):
        message = f"{n} GPUs of node {name} are bad."
        yield Met(name, name, message, "/cluster", {"gpus": n})


def _nodes_away(rule: AlertRule) -> Iterable[Met]:
    since = timezone.now() - timedelta(minutes=rule.threshold)
    away = Node.objects.filter(state__in=(NodeState.UNREACHABLE, NodeState.LOST))
    away = away.exclude(pk__in=_maintained())
    for node in (
        away.filter(last_heartbeat_at__lt=since)
        .order_by("name")
        .only("name", "state", "last_heartbeat_at")
    ):
        message = (
            f"Node {node.name} is {node.state} since {node.last_heartbeat_at:%d %b %H:%M} UTC."
        )
        yield Met(node.name, node.name, message, "/cluster", {"state": node.state})


def _stuck_jobs(rule: AlertRule) -> Iterable[Met]:
    """Return jobs that hold GPUs and do not begin, or do not end although they should."""
    starting = Q(state=JobState.RUNNING, begun_at=None)
    rows = Job.objects.filter(starting | Q(state=JobState.STOPPING)).annotate(
        since=Case(
            When(starting, then="placed_at"), default=Coalesce("stop_requested_at", "updated_at")
        )
    )
    stuck = rows.filter(since__lt=Now() - timedelta(minutes=rule.threshold)).order_by("since", "pk")
    columns = ("pk", "name", "vc__name", "state", "gpus", "since")
    for pk, name, vc, state, gpus, at in stuck.values_list(*columns):
        what = "has not begun" if state == JobState.RUNNING else "does not end"
        message = f"Job {name} ({vc}) holds {gpus} GPUs and {what} since {at:%d %b %H:%M} UTC."
        yield Met(str(pk), name, message, f"/jobs/{pk}", {"virtual_cluster": vc, "state": state})


LOG_STORE = "log store"


def _full_disks(rule: AlertRule) -> Iterable[Met]:
    """Return the disks of the log store and of nodes that are too full."""
    store = readings.store()
    if store.total_bytes and store.free_bytes is not None:
        used = 100 * (1 - store.free_bytes / store.total_bytes)
        if used >= rule.threshold:
            message = f"The disk of the log store is {used:.0f} % full."
            yield Met(LOG_STORE, LOG_STORE, message, "/health", {"used_percent": round(used, 1)})
    known = Node.objects.filter(state=NodeState.ONLINE, disk_total_mb__gt=0)
    known = known.exclude(pk__in=_maintained())
    full = known.alias(used=100.0 - 100.0 * F("disk_free_mb") / F("disk_total_mb")).filter(
        used__gte=rule.threshold
    )
    for name, free, total in full.order_by("disk_free_mb").values_list(
        "name", "disk_free_mb", "disk_total_mb"
    ):
        used = 100 * (1 - (free or 0) / (total or 1))
        message = f"The disk of node {name} is {used:.0f} % full ({free:,} MiB free)."
        yield Met(name, name, message, "/cluster", {"used_percent": round(used, 1)})


CERTIFICATES_KEY = "operations-certificates-read"
CERTIFICATES_S = 3600  # they are read again after so long
LAST_CERTIFICATES_KEY = "operations-certificates-last-read"
LAST_CERTIFICATES_S = 7 * 86_400  # in which one that cannot be read stays as it was


def _certificates(rule: AlertRule) -> Iterable[Met]:
    """Return those that do not hold, or not for long. A worker may have no way to an address, as
    with the NetworkPolicies of the chart: that is no fault of its certificate. One that cannot be
    read for a while is the one that was read last, so that its alert does not end."""
    for one in _kept(CERTIFICATES_KEY, CERTIFICATES_S, _read_certificates):
        expires = datetime.fromtimestamp(one["expires_at"], UTC) if one["expires_at"] else None
        address, about = one["address"], f"The certificate of {one['address']} ({one['name']})"
        if one["problem"]:
            yield Met(address, address, f"{about} does not hold: {one['problem']}", "/health")
        elif expires and expires - timezone.now() < timedelta(days=rule.threshold):
            yield Met(address, address, f"{about} expires on {expires:%d %b %Y}.", "/health")


def _read_certificates() -> list[Any]:
    last: list[dict[str, Any]] = []
    with suppress(redis.RedisError):
        last = cache.get(LAST_CERTIFICATES_KEY) or []
    now = timezone.now().timestamp()
    known = {one["address"]: one for one in last if now - one["read_at"] < LAST_CERTIFICATES_S}
    found = [
        known.get(one.address) if one.unread else _plain(one) | {"read_at": now}
        for one in network.certificates()
    ]
    read = [one for one in found if one is not None]
    with suppress(redis.RedisError):
        cache.set(LAST_CERTIFICATES_KEY, read, LAST_CERTIFICATES_S)
    return read


def _plain(one: network.Certificate) -> dict[str, Any]:
    at = one.expires_at.timestamp() if one.expires_at else None
    return asdict(one) | {"expires_at": at, "address": one.address}


# Those of which every process finds the same, and that no other kind of rule looks for. What a
# process has for settings and reaches by the network is not among them: a worker may have neither
# the variables nor the ways of the web server.
WATCHED = frozenset(
    {
        *("processes", "clocks", "database", "migrations", "tables", "redis", "queues", "stores"),
        "backup",
    }
)
DOCTOR_KEY = "operations-doctor"
DOCTOR_S = 600  # the doctor looks again after so long
WARNINGS_TOO = 2  # the threshold


def _doctor(rule: AlertRule) -> Iterable[Met]:
    """Return the checks of the doctor that found an error, or from the threshold 2 on a warning."""

    def look() -> list[Any]:
        return [
            [one.check, found.severity, f"{found.message} {found.action}"]
            for one in doctor.run(WATCHED)
            for found in one.findings
            if found.severity in (ERROR, WARNING)
        ]

    wanted = (ERROR,) if rule.threshold < WARNINGS_TOO else (ERROR, WARNING)
    texts: dict[str, list[str]] = {}
    for check, severity, text in _kept(DOCTOR_KEY, DOCTOR_S, look):
        if severity in wanted:
            texts.setdefault(check, []).append(text)
    for check, found in texts.items():
        yield Met(check, check, " ".join(found), "/health")


def _kept(key: str, seconds: int, make: Callable[[], list[Any]]) -> list[Any]:
    """Return what is kept under the key, or make it and keep it. Made anew while Redis is away or
    takes no writes: that is when the doctor has something to report."""
    known = None
    with suppress(redis.RedisError):
        known = cache.get(key)
    if known is None:
        known = make()
        with suppress(redis.RedisError):
            cache.set(key, known, seconds)
    return list(known)


NOTIFY, CORDON, STOP = RuleAction.NOTIFY, RuleAction.CORDON, RuleAction.STOP
KINDS: dict[RuleKind, Kind] = {
    RuleKind.IDLE_GPUS: Kind(
        "A running job uses none of its GPUs for the minutes of the rule.",
        "percent of utilisation",
        *(5, 0.1, 100),
        (NOTIFY, STOP),
        _idle_gpus,
        waits=False,
    ),
    RuleKind.BAD_NODE: Kind(
        "So many GPUs of a node are bad.", "GPUs", *(1, 1, 64), (NOTIFY, CORDON), _bad_nodes
    ),
    RuleKind.NODE_AWAY: Kind(
        "A node is unreachable or lost for so long.",
        "minutes",
        *(10, 0, 100_000),
        (NOTIFY, CORDON),
        _nodes_away,
    ),
    RuleKind.STUCK_JOB: Kind(
        "A job holds GPUs and has not begun, or was stopped and does not end, for so long.",
        "minutes",
        *(60, 1, 100_000),
        (NOTIFY,),
        _stuck_jobs,
    ),
    RuleKind.FULL_DISK: Kind(
        "The disk of a node, or of the log store, is so full.",
        "percent used",
        *(90, 1, 100),
        (NOTIFY, CORDON),
        _full_disks,
    ),
    RuleKind.CERTIFICATE: Kind(
        "A certificate expires within so many days, or does not hold.",
        "days",
        *(21, 1, 365),
        (NOTIFY,),
        _certificates,
    ),
    RuleKind.DOCTOR: Kind(
        "A check of the doctor finds an error, or a warning.",
        "(1: errors; 2: warnings, too)",
        *(WARNINGS_TOO, 1, WARNINGS_TOO),
        (NOTIFY,),
        _doctor,
    ),
}
