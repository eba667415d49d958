"""Making room: a gang whose cells are used by lesser ones reserves them and asks those to leave.

The reservation is a row, so that it outlives the scheduler; it ends when the gang is placed, when
the plan cancels it, and when the gang waits no more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from uuid import UUID

import structlog
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from skep_platform.core import doorbells
from skep_platform.core.events import record
from skep_platform.jobs import queries
from skep_platform.jobs.life import preempting
from skep_platform.jobs.life.advance import lock
from skep_platform.jobs.models import Job
from skep_platform.scheduling.models import Reservation
from skep_platform.scheduling.placing import Room
from skep_platform.scheduling.read_gangs import placement_data
from skep_scheduler.queue import Preemption

log = structlog.get_logger(__name__)


def reserve(preemptions: Iterable[Preemption]) -> set[str]:
    """Store the reservations and ask the victims; returns the ids of the gangs that have theirs."""
    return {p.gang for p in preemptions if _guarded(p)}


def cancel(gangs: Collection[str]) -> None:
    """These gangs lose their reservations, and wait like others. Victims that were asked already
    go on leaving, and start again from the queue."""
    if not gangs:
        return
    Reservation.objects.filter(job_id__in=gangs).delete()
    for gang in gangs:
        doorbells.ring_topic("job", gang)


def _guarded(preemption: Preemption) -> bool:
    try:
        return _reserve(preemption, timezone.now())
    except DatabaseError as error:
        if not connection.is_usable():
            raise
        log.warning("gang_not_reserved", job=preemption.gang, error=str(error)[:300])
        return False


@transaction.atomic
def _reserve(preemption: Preemption, now: datetime) -> bool:
    victims = [UUID(victim.gang) for victim in preemption.victims]
    # All in the order of their ids: whoever locks several of them does so too.
    lock(Job.objects.filter(pk__in=[*victims, preemption.gang]))
    job = queries.queue().filter(pk=preemption.gang).select_related("vc").first()
    if job is None or not Room([preemption.placement]).has(preemption.placement.tasks):
        return False
    leaving = [victim.gang for victim in preemption.victims] + list(preemption.leaving)
    Reservation.objects.update_or_create(
        job=job,
        defaults={"placement": placement_data(preemption.placement), "victims": leaving},
    )
    preempting.preempt(victims, job, now)
    _tell(job, preemption)
    return True


def _tell(job: Job, preemption: Preemption) -> None:
    """Those who make room are counted, not named: not everybody who reads this may know them."""
    count, nodes = len(preemption.victims), list(preemption.placement.nodes)
    message = f"Reserved its place on {_some(nodes)}"
    if count:
        message += f" and asked {count} running {_jobs(count)} to make room"
    record("job", job.pk, "job.reserved", message + ".", nodes=nodes, asked=count)
    doorbells.ring_topic("job", job.pk)


def _jobs(count: int) -> str:
    return "job" if count == 1 else "jobs"


def _some(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
