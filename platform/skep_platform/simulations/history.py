"""The finished jobs of a time as a trace, and the cluster as it is: what a simulation begins with.

How long a job ran is the sum of its attempts, from their start to their end. A job that held no
GPU, or never ran, is no job of a trace.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db.models import DurationField, F, Func, OuterRef, Q, QuerySet, Subquery

from skep_platform.cells.queries import current_state
from skep_platform.core.serving import at_database
from skep_platform.jobs import visibility
from skep_platform.jobs.models import Job, JobAttempt, TaskRole
from skep_platform.tenancy import queries as tenancy
from skep_scheduler import usage
from skep_scheduler.model import Node
from skep_scheduler.simulator.command import plain_model

COLUMNS = (
    "id",
    "submit_s",
    "duration_s",
    "gpus",
    "vc",
    "user",
    "priority",
    "deadline_s",
    "gpu_model",
    "name",
)
PIECE = 1000  # jobs that are read at a time
MOST_JOBS = 100_000  # of one export
MOST_SPAN = timedelta(days=366)
ZERO = timedelta(0)


@dataclass(frozen=True, slots=True)
class Window:
    """Jobs that were submitted from `since` on and before `until`. `guaranteed`: without those that
    only used idle GPUs of others."""

    since: datetime
    until: datetime
    vc: UUID | None = None
    guaranteed: bool = False


def jobs(user: Any, window: Window) -> QuerySet[Job, dict[str, Any]]:
    """Return the finished jobs of a time that a user may see, by submission."""
    ran = Func(F("finished_at") - F("started_at"), function="sum", output_field=DurationField())
    attempts = JobAttempt.objects.filter(job=OuterRef("pk"), started_at__isnull=False)
    roles = TaskRole.objects.filter(job=OuterRef("pk")).order_by("position")
    found = Job.objects.filter(
        visibility.of_jobs(user),
        created_at__gte=window.since,
        created_at__lt=window.until,
        finished_at__isnull=False,
        gpus__gt=0,
    )
    if window.vc is not None:
        found = found.filter(vc=window.vc)
    if window.guaranteed:
        found = found.filter(priority__gte=0)
    return (
        found.annotate(
            ran=Subquery(attempts.order_by().values("job").annotate(ran=ran).values("ran")),
            gpu_model=Subquery(roles.values("gpu_model")[:1]),
        )
        .filter(ran__gt=ZERO)
        .order_by("created_at", "pk")
        .values(
            *("pk", "created_at", "ran", "gpus", "priority", "deadline_at", "gpu_model", "name"),
            vc_name=F("vc__name"),
            user_name=F("owner__username"),
        )
    )


def rows(user: Any, window: Window, most: int) -> Iterator[list[Any]]:
    """Yield at most so many jobs as rows of COLUMNS."""
    for job in jobs(user, window)[:most].iterator(chunk_size=PIECE):
        yield _row(job)


async def csv_pieces(user: Any, window: Window) -> AsyncIterator[bytes]:
    """Yield the trace as CSV. Between two pieces no database connection is held, however slowly the
    file is taken."""
    yield (",".join(COLUMNS) + "\n").encode()
    after: tuple[datetime, UUID] | None = None
    for _ in range(MOST_JOBS // PIECE):
        found = await sync_to_async(at_database)(_piece, user, window, after)
        if found:
            yield _text(map(_row, found)).encode()
        if len(found) < PIECE:
            return
        after = found[-1]["created_at"], found[-1]["pk"]


def _piece(user: Any, window: Window, after: tuple[datetime, UUID] | None) -> list[dict[str, Any]]:
    found = jobs(user, window)
    if after is not None:
        at, pk = after
        found = found.filter(created_at__gte=at).filter(Q(created_at__gt=at) | Q(pk__gt=pk))
    return list(found[:PIECE])


def _text(lines: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _row(job: Mapping[str, Any]) -> list[Any]:
    due = job["deadline_at"]
    return [
        job["pk"],
        round(job["created_at"].timestamp(), 3),
        round(job["ran"].total_seconds(), 3),
        job["gpus"],
        job["vc_name"],
        job["user_name"],
        job["priority"],
        "" if due is None else round(due.timestamp(), 3),
        plain_model(job["gpu_model"] or ""),  # as the shape of the cluster names it
        job["name"],
    ]


@dataclass(frozen=True, slots=True)
class Cluster:
    """Groups of equal nodes as (nodes, GPUs of each, model), and the GPUs of each model that
    virtual clusters own."""

    groups: tuple[tuple[int, int, str], ...]
    owned: Mapping[str, Mapping[str, int]]

    @property
    def gpus(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for nodes, gpus, model in self.groups:
            found[model] = found.get(model, 0) + nodes * gpus
        return found


def cluster(user: Any) -> Cluster:
    """Return the nodes of the cluster, and what the virtual clusters own that the user may know. A
    node with GPUs of two models is two nodes."""
    visible = tenancy.own_names(user)
    with current_state() as state:
        counted = Counter(
            (gpus, model) for node in state.nodes.values() for model, gpus in _models(node)
        )
        uses = usage.measure(state)
    groups = tuple((nodes, *group) for group, nodes in sorted(counted.items(), reverse=True))
    owned: dict[str, dict[str, int]] = {}
    for (vc, model), use in sorted(uses.items()):
        if use.owned and (visible is None or vc in visible):
            owned.setdefault(vc, {})[model] = use.owned
    return Cluster(groups, owned)


def _models(node: Node) -> list[tuple[str, int]]:
    return sorted(Counter(device.model for device in node.devices).items())
