"""Who runs in a virtual cluster, and who waits in which order, with the starts to expect."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rest_framework.request import Request

from skep_platform.cells import paging, view
from skep_platform.cells.serializers import QueuedJobSerializer
from skep_platform.jobs import queries, telling
from skep_platform.jobs.life.stories import Reason
from skep_platform.jobs.models import Job
from skep_platform.scheduling.tick import limits
from skep_platform.scheduling.waiting import plain
from skep_platform.tenancy.models import VirtualCluster
from skep_scheduler.queue import forecast

MAX_RUNNING = 200


def page(request: Request, vc: VirtualCluster, limit: int, cursor: int) -> dict[str, Any]:
    """Who runs is told with the first page, longest first. Jobs that the caller may not see have
    no names."""
    with view.current() as now:
        told = forecast.queue(now.world, vc.name, time.time(), limit, limits(), cursor)
    running = told.running[:MAX_RUNNING] if not cursor else ()
    jobs = _jobs(request.user, vc, [*(r.gang for r in running), *(w.gang for w in told.waiting)])
    waiting = [known for known in told.waiting if known.gang in jobs]
    reasons = telling.reasons_for_reader(
        request.user, [plain(w.reason) if w.reason is not None else None for w in waiting]
    )
    return {
        "running": [_running(known, jobs[known.gang]) for known in running if known.gang in jobs],
        "waiting": [
            _waiting(known, jobs[known.gang], reason)
            for known, reason in zip(waiting, reasons, strict=True)
        ],
        "running_total": len(told.running),
        "waiting_total": cursor + len(told.waiting) + told.more,
        "next": paging.link(request, cursor + limit) if told.more else None,
    }


def _jobs(user: Any, vc: VirtualCluster, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """As they are shown, by id."""
    rows = Job.objects.filter(vc=vc, pk__in=ids).select_related("owner").defer("spec", "spec_text")
    names = queries.names_for(user, ids)
    jobs = telling.jobs_for_reader(user, list(rows))
    return {str(job.pk): _job(job, seen=str(job.pk) in names) for job in jobs}


def _job(job: Job, *, seen: bool) -> dict[str, Any]:
    return {
        "id": job.pk if seen else None,
        "name": job.name if seen else None,
        "owner": job.owner.get_username() if seen else None,
        "state": job.state,
        "priority_class": job.priority_class,
        "priority": job.priority,
        "gpus": job.gpus,
        "tasks": job.tasks_total,
        "duration_s": job.duration_s,
        "submitted_at": job.created_at,
        "placed_at": job.placed_at,
        "started_at": job.started_at,
        "preempting": job.preempting_at is not None,
        "downgraded": job.downgraded if seen else None,
    }


_show = QueuedJobSerializer().to_representation


def _running(known: forecast.Running, job: dict[str, Any]) -> dict[str, Any]:
    return {
        "job": _show(job),
        "expected_end": _time(known.expected_end),
        "opportunistic": known.opportunistic,
        "preemptible": known.preemptible,
    }


def _waiting(known: forecast.Waiting, job: dict[str, Any], reason: Reason | None) -> dict[str, Any]:
    reserved, seen = known.reservation, job["id"] is not None
    nodes = list(reserved.nodes) if reserved and seen else []
    return {
        "position": known.position,
        "job": _show(job),
        "needs_words": known.needs,
        "reserved": reserved and {"start": _time(reserved.start), "nodes": nodes},
        "expected_start": _time(known.expected_start),
        "reason": reason if seen else None,
    }


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
