"""Who runs in a virtual cluster, and who waits in which order, with the starts to expect."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from rest_framework.request import Request

from skep_platform.cells import paging, view
from skep_platform.jobs.models import Job
from skep_platform.jobs.serializers import JobSummarySerializer
from skep_platform.scheduling.tick import limits
from skep_platform.tenancy.models import VirtualCluster
from skep_scheduler.queue import Reason, forecast

MAX_RUNNING = 200


def page(request: Request, vc: VirtualCluster, limit: int, cursor: int) -> dict[str, Any]:
    """Who runs is told with the first page, longest first."""
    with view.current() as now:
        told = forecast.queue(now.world, vc.name, time.time(), limit, limits(), cursor)
    running = told.running[:MAX_RUNNING] if not cursor else ()
    jobs = _jobs(vc, [*(r.gang for r in running), *(w.gang for w in told.waiting)])
    return {
        "running": [_running(known, jobs[known.gang]) for known in running if known.gang in jobs],
        "waiting": [_waiting(w, jobs[w.gang]) for w in told.waiting if w.gang in jobs],
        "next": paging.link(request, cursor + limit) if told.more else None,
    }


def _jobs(vc: VirtualCluster, ids: Iterable[str]) -> dict[str, Job]:
    rows = Job.objects.filter(vc=vc, pk__in=list(ids)).select_related("owner", "vc")
    return {str(job.pk): job for job in rows.defer("spec", "spec_text")}


def _running(known: forecast.Running, job: Job) -> dict[str, Any]:
    return {
        "job": JobSummarySerializer(job).data,
        "expected_end": _time(known.expected_end),
        "opportunistic": known.opportunistic,
        "preemptible": known.preemptible,
    }


def _waiting(known: forecast.Waiting, job: Job) -> dict[str, Any]:
    reserved = known.reservation
    return {
        "position": known.position,
        "job": JobSummarySerializer(job).data,
        "needs_words": known.needs,
        "reserved": reserved and {"start": _time(reserved.start), "nodes": list(reserved.nodes)},
        "expected_start": _time(known.expected_start),
        "reason": _reason(known.reason) if known.reason is not None else None,
    }


def _reason(why: Reason) -> dict[str, Any]:
    return {"code": why.code, "message": why.message, "details": dict(why.details)}


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
