"""All reads of nodes and GPUs. Every logged-in user may read nodes; what runs on a GPU is shown in
full only to those who may see that job.

Attempts, leases and jobs are rows of a higher app, which answers about them through `core.ports`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import redis
import structlog
from django.conf import settings
from django.db.models import (
    Count,
    Exists,
    OuterRef,
    QuerySet,
    Subquery,
)
from django.db.models.functions import Coalesce, Now
from pydantic_core import from_json

from skep_platform.cluster import faults
from skep_platform.cluster.models import Device, Node, NodeFault, NodeState
from skep_platform.core import ports
from skep_platform.core.bulk import fetch
from skep_platform.core.errors import NotFound
from skep_platform.core.notifications import valkey
from skep_platform.core.ports import JobSeen
from skep_platform.tenancy import queries as tenancy

log = structlog.get_logger(__name__)

LIVE_KEY = "skep:gpu:live:{}"  # hash of a node: GPU UUID -> {"t", "util", "mem"}, by telemetry


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a GPU now. `job_id` and `job_name` are None when the caller may not know the job,
    `virtual_cluster` when it belongs to another virtual cluster than the caller's."""

    virtual_cluster: str | None
    job_id: UUID | None
    job_name: str | None


@dataclass(frozen=True, slots=True)
class Live:
    """The newest sample of a GPU."""

    utilization: float  # percent
    memory_used_mb: int


def nodes() -> QuerySet[Node]:
    """All nodes but removed ones, by name, without their largest columns; `busy`: whether task
    attempts are there; `faults_24h`: how many tasks failed by the node's fault of late."""
    used = ports.attempts_on.call(OuterRef("pk"))
    return (
        Node.objects.exclude(state=NodeState.REMOVED)
        .annotate(busy=Exists(used), faults_24h=Coalesce(Subquery(_faults_of_node()), 0))
        .order_by("name")
        .defer("topology", "reported_labels", "admin_labels", "created_at", "updated_at")
    )


def as_rows(found: QuerySet[Node]) -> QuerySet[Node, dict[str, Any]]:
    """Return nodes of `nodes()` as dictionaries: a page has hundreds of them, and thousands of
    GPUs, for which model instances would cost most of the time."""
    return found.values(*NODE_COLUMNS)


NODE_COLUMNS = (
    *("id", "name", "state", "cordoned", "cordon_reason", "faults_24h", "draining", "busy"),
    *("address", "cpu_millis", "memory_mb", "runtime", "driver_version", "engine_version"),
    *("network_problem", "components", "agent_version", "labels", "last_heartbeat_at"),
    *("lease_expires_at", "disk_free_mb", "disk_total_mb", "log_bytes_waiting", "checks_needed"),
    *("maintenance_from", "maintenance_until", "warnings"),
)


class Gpu(NamedTuple):
    """A GPU of a node."""

    uuid: str
    model: str
    number: int  # its index on the node
    memory_mb: int
    health: str
    problem: str


def gpus(on: Sequence[UUID]) -> dict[UUID, list[Gpu]]:
    """Return the present GPUs of these nodes by node, in the order of their index. One query."""
    found: dict[UUID, list[Gpu]] = defaultdict(list)
    for node_id, *columns in fetch(GPUS, [list(on)]):
        found[node_id].append(Gpu._make(columns))
    return found


GPUS = """
SELECT node_id, uuid, model, "index", memory_mb, health, problem
  FROM cluster_device WHERE node_id = ANY(%s) AND health <> 'ABSENT' ORDER BY "index", uuid
"""


def matching(rows: QuerySet[Node], state: str, gpu_model: str, search: str) -> QuerySet[Node]:
    """Return the nodes in one of the comma-separated states, with a GPU of the model, named like
    `search`."""
    if state:
        rows = rows.filter(state__in=state.upper().split(","))
    if gpu_model:
        rows = rows.filter(pk__in=Device.objects.filter(model=gpu_model).values("node"))
    if search:
        rows = rows.filter(name__icontains=search)
    return rows


def find(name: str) -> Node:
    """Return a node by name. Raises NotFound."""
    node = nodes().filter(name=name).first()
    if node is None:
        raise NotFound(f"There is no node named {name}.")
    return node


def holders(user: Any, on: Sequence[UUID]) -> dict[str, Holder]:
    """Return who holds the GPUs of these nodes, by GPU UUID, in one query (and one for what the
    user may see)."""
    view = _HolderView(user)
    return {job.of: view.of(job) for job in ports.jobs_on_gpus.call(user, on)}


def live(online: Sequence[UUID]) -> dict[str, Live]:
    """Return the newest sample of every GPU of these nodes, by UUID, in one round trip to Valkey;
    none without Valkey."""
    try:
        pipeline = valkey().pipeline(transaction=False)
        for node_id in online:
            pipeline.hgetall(LIVE_KEY.format(node_id))
        found = pipeline.execute() if online else []
    except redis.RedisError as error:
        log.warning("live_values_missing", error=type(error).__name__)
        return {}
    return {uuid.decode(): _live(text) for gpus in found for uuid, text in gpus.items()}


def failed_jobs(user: Any, of: Sequence[NodeFault]) -> dict[UUID, Holder]:
    """Return whose task it was that failed, by attempt id, in one query (and one for what the user
    may see)."""
    view = _HolderView(user)
    attempts = [fault.attempt_id for fault in of]
    return {job.of: view.of(job) for job in ports.jobs_of_attempts.call(user, attempts)}


DISK_LOW_MB = 2048
DISK_LOW_SHARE = 0.05


def disk_low(free_mb: int | None, total_mb: int | None) -> bool:
    """Return whether the disk that holds a node's containers is nearly full: less than 5 percent
    is free, or less than 2 GiB (on a small disk, less than a tenth)."""
    if free_mb is None or not total_mb:
        return False
    return free_mb < total_mb * DISK_LOW_SHARE or free_mb < min(DISK_LOW_MB, total_mb // 10)


def low_disks() -> list[tuple[str, int, int]]:
    """Return (name, free MiB, total MiB) of nodes with a nearly full disk, the fullest first."""
    known = Node.objects.filter(state=NodeState.ONLINE, disk_total_mb__gt=0)
    rows = known.exclude(disk_free_mb=None).order_by("disk_free_mb")
    found = rows.values_list("name", "disk_free_mb", "disk_total_mb")
    return [(name, free or 0, total or 0) for name, free, total in found if disk_low(free, total)]


def holding_logs() -> list[tuple[str, int]]:
    """Return (name, bytes) of nodes that hold back output that the log store has not taken, the
    most first. What waits for a moment in any case is not counted."""
    rows = Node.objects.filter(state=NodeState.ONLINE, log_bytes_waiting__gte=HELD_BACK_BYTES)
    return list(rows.order_by("-log_bytes_waiting").values_list("name", "log_bytes_waiting"))


def awaited() -> list[tuple[str, datetime]]:
    """Return (name, until when) of nodes without a connection that are waited for beyond a lease,
    since they were notified of a planned absence of the server."""
    beyond = Now() + timedelta(seconds=settings.SKEP_LEASE_S + settings.SKEP_LEASE_MARGIN_S)
    rows = Node.objects.filter(state=NodeState.UNREACHABLE, lease_expires_at__gt=beyond)
    found = rows.order_by("name").values_list("name", "lease_expires_at")
    return [(name, until) for name, until in found if until is not None]


HELD_BACK_BYTES = 1024 * 1024


def count_nodes() -> dict[str, int]:
    """Return {state: number of nodes}, without removed nodes."""
    rows = Node.objects.exclude(state=NodeState.REMOVED).values_list("state").order_by()
    return dict(rows.annotate(n=Count("pk")))


PROGRAMS = {"agent": "agent_version", "engine": "engine_version", "driver": "driver_version"}


def count_versions() -> dict[str, dict[str, int]]:
    """Return {program: {version: number of nodes}}, without removed nodes and those that report no
    version of it."""
    rows = Node.objects.exclude(state=NodeState.REMOVED).values_list(*PROGRAMS.values()).order_by()
    counts: dict[str, dict[str, int]] = {program: {} for program in PROGRAMS}
    for *versions, nodes in rows.annotate(n=Count("pk")):
        for program, version in zip(PROGRAMS, versions, strict=True):
            if version:
                counts[program][version] = counts[program].get(version, 0) + nodes
    return counts


def gpus_by_model() -> dict[str, int]:
    """Return the number of GPUs that nodes have, by model, bad ones included."""
    rows = Device.objects.exclude(health=Device.Health.ABSENT).values_list("model").order_by()
    return dict(rows.annotate(n=Count("pk")))


def count_gpus() -> dict[str, dict[str, int]]:
    """Return {model: {"total", "used", "bad"}}; a bad GPU may also be in use."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: {"total": 0, "used": 0, "bad": 0})
    present = Device.objects.exclude(health=Device.Health.ABSENT)
    for model, health, n in _by_model_and_health(present):
        counts[model]["total"] += n
        counts[model]["bad"] += n if health == Device.Health.BAD else 0
    in_use = Device.objects.filter(pk__in=ports.leased_gpus.call()).values_list("model").order_by()
    for model, n in in_use.annotate(n=Count("pk")):
        counts[model]["used"] += n
    return dict(sorted(counts.items()))


def _faults_of_node() -> QuerySet[NodeFault, Any]:
    """Return the number of recent faults, for the node of an outer query."""
    of_node = faults.recent().filter(node=OuterRef("pk")).order_by().values("node")
    return of_node.annotate(n=Count("pk")).values("n")


def _by_model_and_health(devices: QuerySet[Device]) -> Iterable[tuple[str, str, int]]:
    return devices.values_list("model", "health").order_by().annotate(n=Count("pk"))


class _HolderView:
    """Shows the holder of a GPU as one reader may see it."""

    def __init__(self, user: Any) -> None:
        self._own = tenancy.own_names(user)

    def of(self, job: JobSeen) -> Holder:
        """Return who holds a GPU; its job is named where the reader may see it."""
        vc = job.virtual_cluster
        if job.seen:
            return Holder(vc, job.job_id, job.job_name)
        return Holder(vc if self._own is None or vc in self._own else None, None, None)


def _live(text: bytes) -> Live:
    raw = from_json(text)
    return Live(utilization=raw["util"], memory_used_mb=raw["mem"])
