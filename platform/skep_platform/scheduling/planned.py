"""What the scheduler planned, stored: reserved starts, cool-downs, and a time line for each virtual
cluster. A new scheduler goes on from the first two; the pages of queues show the last one.

Samples of what virtual clusters own and use are stored here, too, for their history.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db import DatabaseError, connection, transaction
from django.db.models import Q
from django.utils import timezone

from skep_platform.core.bulk import deletion_time, fetch
from skep_platform.core.deleting import delete_in_batches
from skep_platform.jobs.models import Job
from skep_platform.scheduling.models import PreemptionCooldown, ReservedStart, VcTimeline, VcUse
from skep_platform.tenancy.models import VirtualCluster
from skep_scheduler import forecast
from skep_scheduler.memory import Memory
from skep_scheduler.model import Options, TaskPlacement
from skep_scheduler.state import ClusterState
from skep_scheduler.state.cluster import Cancelled
from skep_scheduler.state.cluster import ReservedStart as Start
from skep_scheduler.usage.accounting import Use, measure

log = structlog.get_logger(__name__)

# Time lines take no more than this share of the scheduler's time, whatever changes.
TIMELINES_SHARE = 0.1
TIMELINES_S = 0.05  # of one round; what is left is done in the next one


def load(state: ClusterState) -> None:
    """Set the reserved starts and the cool-downs of the gangs that wait in a state as they are
    stored. Two queries."""
    rows = ReservedStart.objects.values_list("job", "start", "places")
    state.set_reservations({str(job): _start(start, places) for job, start, places in rows})
    cooldowns = PreemptionCooldown.objects.values_list("job", "times", "cancelled_at")
    state.set_cooldowns({str(job): Cancelled(times, at) for job, times, at in cooldowns})


def _start(start: float, places: list[dict[str, Any]]) -> Start:
    tasks = []
    for place in places:
        fields = {**place, "gpu_uuids": tuple(place["gpu_uuids"])}
        tasks.append((fields.pop("member"), TaskPlacement(**fields)))
    return Start(start, tuple(tasks))


def _start_row(job: UUID, known: Start) -> ReservedStart:
    places = [{"member": member, **asdict(task)} for member, task in known.tasks]
    return ReservedStart(job_id=job, start=known.start, places=places)


def _cooldown_row(job: UUID, known: Cancelled) -> PreemptionCooldown:
    return PreemptionCooldown(job_id=job, times=known.times, cancelled_at=known.at)


@dataclass(slots=True)
class Table:
    """A table with a row per gang that follows a mapping of the state. Only what changed is
    written; None: what is stored is not known yet."""

    model: type[ReservedStart] | type[PreemptionCooldown]
    row: Callable[[UUID, Any], Any]
    fields: tuple[str, ...]
    _stored: dict[str, Any] | None = None

    def store(self, wanted: Mapping[str, Any]) -> None:
        """Make the table equal to `wanted`, but for gangs whose job is gone."""
        if self._stored is None:
            known = self.model.objects.values_list("pk", flat=True)
            self._stored = {str(pk): None for pk in known}
        changed = {UUID(g): known for g, known in wanted.items() if self._stored.get(g) != known}
        gone = [UUID(gang_id) for gang_id in self._stored if gang_id not in wanted]
        if not changed and not gone:
            return
        stored, self._stored = dict(wanted), None  # unknown again, if this fails
        with transaction.atomic():
            self.model.objects.filter(pk__in=gone).delete()
            jobs = Job.objects.filter(pk__in=changed).values_list("pk", flat=True)
            self.model.objects.bulk_create(
                [self.row(pk, changed[pk]) for pk in jobs],
                update_conflicts=True,
                unique_fields=["job"],
                update_fields=list(self.fields),
            )
        self._stored = stored


@dataclass(slots=True)
class PlanStore:
    """Stores what a scheduler planned, and remembers what it stored."""

    starts: Table = field(
        default_factory=lambda: Table(ReservedStart, _start_row, ("start", "places"))
    )
    cooldowns: Table = field(
        default_factory=lambda: Table(PreemptionCooldown, _cooldown_row, ("times", "cancelled_at"))
    )
    _timelines: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # as stored
    _stale: dict[str, None] = field(default_factory=dict)  # virtual clusters, longest stale first
    _resumes: float = 0.0  # by the monotonic clock
    _failed: bool = False

    @property
    def is_behind(self) -> bool:
        """Whether something is left to be stored."""
        return self._failed or bool(self._stale)

    def store(
        self,
        state: ClusterState,
        memory: Memory,
        now: float,
        options: Options,
        placed: Collection[str],
    ) -> None:
        """Store the reserved starts and cool-downs of a state, and the time lines of the virtual
        clusters that were planned, as far as their share of the time allows. `placed` are the
        gangs that this round placed, which the state does not know yet."""
        self._failed = True
        try:
            self.starts.store(state.reservations)
            self.cooldowns.store(state.cancelled)
            self._store_timelines(state, memory, now, options, placed)
            self._failed = False
        except DatabaseError as error:
            if not connection.is_usable():
                raise
            # A job or virtual cluster was deleted meanwhile: the next round writes what is left.
            log.warning("plan_not_stored", error=str(error)[:300])

    def _store_timelines(
        self,
        state: ClusterState,
        memory: Memory,
        now: float,
        options: Options,
        placed: Collection[str],
    ) -> None:
        self._stale |= dict.fromkeys(sorted(vc for vc in memory.planned_domains if vc))
        memory.planned_domains.clear()
        began = time.monotonic()
        if began < self._resumes:
            return
        changed: dict[str, list[dict[str, Any]]] = {}
        while self._stale and time.monotonic() < began + TIMELINES_S:
            vc = next(iter(self._stale))
            del self._stale[vc]
            waiting = memory.waiting_in(vc)
            # Where all were placed just now, there is nothing to forecast.
            none_left = not state.nominated and all(gang.id in placed for gang in waiting)
            line = () if none_left else forecast.timeline(state, vc, now, options, waiting)
            entries = [asdict(expected) for expected in line]
            if self._timelines.get(vc) != entries:
                changed[vc] = entries
        self._resumes = time.monotonic() + (time.monotonic() - began) / TIMELINES_SHARE
        if changed:
            pks = VirtualCluster.objects.filter(name__in=changed).values_list("name", "pk")
            at = timezone.now()
            VcTimeline.objects.bulk_create(
                [VcTimeline(vc_id=pk, at=at, entries=changed[name]) for name, pk in pks],
                update_conflicts=True,
                unique_fields=["vc"],
                update_fields=["at", "entries"],
            )
            self._timelines |= changed


def timeline_of(vc: VirtualCluster) -> list[dict[str, Any]]:
    """Return the time line of a virtual cluster as it is stored: the fields of
    `forecast.ExpectedStart`. One query."""
    row = VcTimeline.objects.filter(vc=vc).values_list("entries", flat=True).first()
    return list(row or ())


FINE = timedelta(days=7)  # every minute; older samples every quarter of an hour
KEEP = timedelta(days=90)
QUARTERS = (0, 15, 30, 45)  # minutes of the older samples
PRUNED = 10_000  # samples at a time: each looks through the table, which has no index by time alone


def sample_use(state: ClusterState, now: datetime | None = None) -> int:
    """Store this minute's use of all virtual clusters; returns the number of rows. A minute that
    was sampled already is left alone."""
    at = (now or timezone.now()).replace(second=0, microsecond=0)
    vcs = dict(VirtualCluster.objects.values_list("name", "pk"))
    rows = [
        VcUse(vc_id=vcs[vc], gpu_model=model, at=at, **_use_columns(use))
        for (vc, model), use in measure(state).items()
        if vc in vcs
    ]
    return len(VcUse.objects.bulk_create(rows, ignore_conflicts=True))


def _use_columns(use: Use) -> dict[str, int]:
    return {
        "owned": use.owned,
        "used": use.used,
        "borrowed": use.borrowed,
        "lent": use.lent,
        "bad": use.bad,
        "unavailable": use.cordoned + use.offline,
        "waiting": use.waiting,
    }


def prune_samples() -> int:
    """Delete the samples whose time is over, and those between the quarters of an hour that are no
    longer needed every minute; return how many."""
    now = deletion_time()
    merged = Q(at__lt=now - FINE) & ~Q(at__minute__in=QUARTERS)
    return delete_in_batches(VcUse.objects.filter(Q(at__lt=now - KEEP) | merged), PRUNED)


def capacity(virtual_cluster: UUID, since: datetime, until: datetime) -> tuple[int, int] | None:
    """Return the GPU-seconds that a virtual cluster owned and lent, as the samples say: each stands
    for the time to the next one, at most a quarter of an hour. None without samples."""
    [(owned, lent)] = fetch(CAPACITY, [until, virtual_cluster, since, until])
    return None if owned is None else (owned, lent)


CAPACITY = """
SELECT sum(owned * seconds)::bigint, sum(lent * seconds)::bigint
  FROM (SELECT owned, lent, least(900, extract(epoch FROM
               lead(at, 1, %s::timestamptz) OVER (PARTITION BY gpu_model ORDER BY at) - at
               )) AS seconds
          FROM scheduling_vcuse WHERE vc_id = %s AND at >= %s AND at < %s) samples
"""
