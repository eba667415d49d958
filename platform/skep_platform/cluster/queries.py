"""All reads of nodes and GPUs. Every logged-in user may read nodes; what runs on a GPU is told in
full only to those who may see that job.

Rows of higher apps (attempts, leases, jobs) are reached by the names of their reverse relations.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import redis
import structlog
from django.conf import settings
from django.db.models import (
    BooleanField,
    Count,
    Exists,
    ExpressionWrapper,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
)
from django.db.models.functions import Coalesce, Now

from skep_platform.cluster import faults
from skep_platform.cluster.models import Device, Node, NodeFault, NodeState
from skep_platform.core.doorbells import valkey
from skep_platform.core.errors import NotFound
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy import visibility

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
    used = Node.objects.filter(
        pk=OuterRef("pk"), attempts__isnull=False, attempts__released_at__isnull=True
    )
    return (
        Node.objects.exclude(state=NodeState.REMOVED)
        .annotate(busy=Exists(used), faults_24h=Coalesce(Subquery(_faults_of_node()), 0))
        .order_by("name")
        .defer("topology", "reported_labels", "admin_labels", "created_at", "updated_at")
    )


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of a node: a row of thousands on a page, for which a model would cost too much."""

    uuid: str
    model: str
    index: int
    memory_mb: int
    health: str
    problem: str


GPU_COLUMNS = tuple(field.name for field in fields(Gpu))


def gpus(on: Sequence[Node]) -> dict[UUID, list[Gpu]]:
    """The present GPUs of these nodes by node, in the order of their index. One query."""
    present = Device.objects.exclude(health=Device.Health.ABSENT)
    rows = present.filter(node__in=[node.pk for node in on]).order_by("index", "uuid")
    found: dict[UUID, list[Gpu]] = defaultdict(list)
    for node_id, *columns in rows.values_list("node_id", *GPU_COLUMNS):
        found[node_id].append(Gpu(*columns))
    return found


def matching(rows: QuerySet[Node], state: str, gpu_model: str, search: str) -> QuerySet[Node]:
    """Those in one of the comma-separated states, with a GPU of the model, named like `search`."""
    if state:
        rows = rows.filter(state__in=state.upper().split(","))
    if gpu_model:
        rows = rows.filter(pk__in=Device.objects.filter(model=gpu_model).values("node"))
    if search:
        rows = rows.filter(name__icontains=search)
    return rows


def find(name: str) -> Node:
    """Raises NotFound."""
    node = nodes().filter(name=name).first()
    if node is None:
        raise NotFound(f"There is no node named {name}.")
    return node


def holders(user: Any, on: Sequence[Node]) -> dict[str, Holder]:
    """Who holds the GPUs of these nodes, by GPU UUID, in one query (and one for what the user may
    see)."""
    job = "leases__attempt__job"
    rows = (
        Device.objects.filter(
            node__in=[node.pk for node in on],
            leases__isnull=False,
            leases__released_at__isnull=True,
        )
        .annotate(seen=_seen(user, f"{job}__"))
        .values_list("uuid", "seen", f"{job}_id", f"{job}__name", f"{job}__vc__name")
    )
    told = _Telling(user)
    return {uuid: told.of(seen, *names) for uuid, seen, *names in rows}


def live(on: Sequence[Node]) -> dict[str, Live]:
    """The newest sample of every GPU of these nodes, by UUID, in one round trip to Valkey. A node
    that is not online has none; without Valkey there are none."""
    online = [node for node in on if node.state == NodeState.ONLINE]
    try:
        pipeline = valkey().pipeline(transaction=False)
        for node in online:
            pipeline.hgetall(LIVE_KEY.format(node.pk))
        found = pipeline.execute() if online else []
    except redis.RedisError as error:
        log.warning("live_values_missing", error=type(error).__name__)
        return {}
    return {uuid.decode(): _live(text) for gpus in found for uuid, text in gpus.items()}


def failed_jobs(user: Any, of: Sequence[NodeFault]) -> dict[UUID, Holder]:
    """Whose task it was that failed, by attempt id, in one query (and one for what the user may
    see)."""
    rows = (
        Node.objects.filter(attempts__in=[fault.attempt_id for fault in of])
        .annotate(seen=_seen(user, "attempts__job__"))
        .values_list(
            "attempts__id",
            "seen",
            "attempts__job_id",
            "attempts__job__name",
            "attempts__job__vc__name",
        )
    )
    told = _Telling(user)
    return {attempt: told.of(seen, *names) for attempt, seen, *names in rows}


DISK_LOW_MB = 2048
DISK_LOW_SHARE = 0.05


def disk_low(node: Node) -> bool:
    """Whether the disk that holds its containers is nearly full: less than 5 percent, or less
    than 2 GiB (on a small disk, less than a tenth)."""
    return _is_low(node.disk_free_mb, node.disk_total_mb)


def low_disks() -> list[tuple[str, int, int]]:
    """(name, free MiB, total MiB) of nodes with a nearly full disk, the fullest first."""
    known = Node.objects.filter(state=NodeState.ONLINE, disk_total_mb__gt=0)
    rows = known.exclude(disk_free_mb=None).order_by("disk_free_mb")
    found = rows.values_list("name", "disk_free_mb", "disk_total_mb")
    return [(name, free or 0, total or 0) for name, free, total in found if _is_low(free, total)]


def holding_logs() -> list[tuple[str, int]]:
    """(name, bytes) of nodes that hold back output that the log store has not taken, the most
    first. What waits for a moment in any case is not counted."""
    rows = Node.objects.filter(state=NodeState.ONLINE, log_bytes_waiting__gte=HELD_BACK_BYTES)
    return list(rows.order_by("-log_bytes_waiting").values_list("name", "log_bytes_waiting"))


def awaited() -> list[tuple[str, datetime]]:
    """(name, until when) of nodes without a connection that are waited for beyond a lease, since
    they were told of a planned absence of the server."""
    beyond = Now() + timedelta(seconds=settings.SKEP_LEASE_S + settings.SKEP_LEASE_MARGIN_S)
    rows = Node.objects.filter(state=NodeState.UNREACHABLE, lease_expires_at__gt=beyond)
    found = rows.order_by("name").values_list("name", "lease_expires_at")
    return [(name, until) for name, until in found if until is not None]


HELD_BACK_BYTES = 1024 * 1024


def _is_low(free_mb: int | None, total_mb: int | None) -> bool:
    if free_mb is None or not total_mb:
        return False
    return free_mb < total_mb * DISK_LOW_SHARE or free_mb < min(DISK_LOW_MB, total_mb // 10)


def count_nodes() -> dict[str, int]:
    """{state: number} without removed nodes."""
    rows = Node.objects.exclude(state=NodeState.REMOVED).values_list("state").order_by()
    return dict(rows.annotate(n=Count("pk")))


def gpus_by_model() -> dict[str, int]:
    """GPUs that nodes have, bad ones included."""
    rows = Device.objects.exclude(health=Device.Health.ABSENT).values_list("model").order_by()
    return dict(rows.annotate(n=Count("pk")))


def count_gpus() -> dict[str, dict[str, int]]:
    """{model: {"total", "used", "bad"}}; a bad GPU may also be in use."""
    held = Q(leases__isnull=False, leases__released_at__isnull=True)
    counts: dict[str, dict[str, int]] = defaultdict(lambda: {"total": 0, "used": 0, "bad": 0})
    present = Device.objects.exclude(health=Device.Health.ABSENT)
    for model, health, n in _by_model_and_health(present):
        counts[model]["total"] += n
        counts[model]["bad"] += n if health == Device.Health.BAD else 0
    in_use = Device.objects.filter(held).values_list("model").order_by()
    for model, n in in_use.annotate(n=Count("pk", distinct=True)):
        counts[model]["used"] += n
    return dict(sorted(counts.items()))


def _faults_of_node() -> QuerySet[NodeFault, Any]:
    """Their number, for the node of an outer query."""
    of_node = faults.recent().filter(node=OuterRef("pk")).order_by().values("node")
    return of_node.annotate(n=Count("pk")).values("n")


def _by_model_and_health(devices: QuerySet[Device]) -> Iterable[tuple[str, str, int]]:
    return devices.values_list("model", "health").order_by().annotate(n=Count("pk"))


def _seen(user: Any, path: str) -> ExpressionWrapper:
    """Whether the user may see the job that `path` leads to."""
    return ExpressionWrapper(visibility.of_jobs(user, path), output_field=BooleanField())


class _Telling:
    """What one reader may know of jobs of others."""

    def __init__(self, user: Any) -> None:
        self._own = tenancy.own_names(user)

    def of(self, seen: bool, *names: Any) -> Holder:
        """`names`: the job's id, its name and that of its virtual cluster."""
        job_id, job_name, vc = names
        if seen:
            return Holder(vc, job_id, job_name)
        return Holder(vc if self._own is None or vc in self._own else None, None, None)


def _live(text: bytes) -> Live:
    raw = json.loads(text)
    return Live(utilization=raw["util"], memory_used_mb=raw["mem"])
