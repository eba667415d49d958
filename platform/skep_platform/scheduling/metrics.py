"""What the scheduler measures of its rounds, and what it logs and records of each placement. The
process that leads has news; numbers of a scheduler that stands by stay where they were."""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import structlog
from django.db.models import Max
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from skep_agent import tracing
from skep_platform.core.metrics import FAST, add_collector
from skep_platform.jobs.models import Job, JobAttempt
from skep_platform.tenancy.models import VirtualCluster, choice_of
from skep_scheduler.model import Placement, Plan, Reason

log = structlog.get_logger(__name__)

# Apart, so that they show of a process that plans, and not of all that know this module.
OWN = CollectorRegistry()
ROUND_SECONDS = Histogram(
    "skep_scheduler_round_seconds", "Time of a round.", buckets=FAST, registry=OWN
)
PLAN_SECONDS = Histogram(
    "skep_scheduler_plan_seconds", "Time to make a plan.", buckets=FAST, registry=OWN
)
LAST_ROUND = Gauge(
    "skep_scheduler_last_round_timestamp_seconds",
    "When this process began its newest round.",
    registry=OWN,
)
DECISIONS = Counter(
    "skep_scheduler_decisions", "Decisions that were carried out.", ["decision"], registry=OWN
)
DECIDED = ("place", "preempt", "downgrade", "restore", "cancel_reservation")
for _decision in DECIDED:
    DECISIONS.labels(_decision)
STALE = Counter(
    "skep_scheduler_stale_decisions", "Decisions that were void: facts had changed.", registry=OWN
)
QUEUE = Gauge("skep_scheduler_queue_gangs", "Gangs that waited at the newest plan.", registry=OWN)


class PlanMetrics(Collector):
    """The reasons of the newest plan. They are counted when Prometheus asks, and not in each round:
    a long queue costs the scheduler nothing."""

    def __init__(self) -> None:
        self._reasons: Mapping[str, Reason] = {}
        self._begun = False
        add_collector(self)

    def describe(self) -> list[Metric]:
        """Return nothing: numbers come with the first round."""
        return []

    def begins(self) -> None:
        """Note that a round begins."""
        self._begun = True
        LAST_ROUND.set(time.time())

    def seen(self, plan: Plan, waiting: int) -> None:
        self._reasons = plan.reasons
        QUEUE.set(waiting)

    def acted(self, plan: Plan, placed: int, nominated: int) -> None:
        done = (placed, nominated, len(plan.downgrades), len(plan.restored), len(plan.cancels))
        for decision, number in zip(DECIDED, done, strict=True):
            if number:
                DECISIONS.labels(decision).inc(number)
        stale = len(plan.placements) - placed + len(plan.preemptions) - nominated
        if stale > 0:
            STALE.inc(stale)

    def collect(self) -> Iterator[Metric]:
        if not self._begun:
            return
        yield from OWN.collect()
        found = GaugeMetricFamily(
            "skep_scheduler_waiting_gangs",
            "Gangs that the newest plan left waiting, by the code of the reason.",
            labels=["reason"],
        )
        tally = Tally[str]()
        for group in getattr(self._reasons, "groups", ()):
            tally[group.code] += len(group.gangs)
        for code, number in sorted(tally.items()):
            found.add_metric([str(code)], number)
        yield found


MOST_NODES = 20  # named in a line or a span


@dataclass(frozen=True, slots=True)
class Placed:
    """A job of which tasks were placed; `job` is the row as it was before."""

    job: Job
    attempt: int
    placement: Placement


def report_placed(placed: Sequence[Placed]) -> None:
    """Log the placements and record the waits before them. No query without tracing."""
    for one in placed:
        log.info(
            "job_placed",
            job_id=str(one.job.pk),
            # Not that of the hint for which this round came: it may be of another job.
            request_id=one.job.request_id,
            attempt=one.attempt,
            nodes=list(one.placement.nodes)[:MOST_NODES],
            waited_for=_code(one.job),
        )
    traced = [one for one in placed if one.job.trace_parent]
    if traced and tracing.enabled():
        _record(traced)


def _record(placed: Sequence[Placed]) -> None:
    stored = VirtualCluster.objects.filter(pk__in={one.job.vc_id for one in placed})
    policies = {pk: choice_of(policy).name for pk, policy in stored.values_list("pk", "policy")}
    since = _since(placed)
    for one in placed:
        nodes = one.placement.nodes
        about: dict[str, tracing.Value] = {
            "skep.job.id": str(one.job.pk),
            "skep.attempt": one.attempt,
            "skep.policy": policies.get(one.job.vc_id) or "default",
            "skep.wait_reason": _code(one.job),
            "skep.tasks": len(one.placement.tasks),
            "skep.nodes": ",".join(list(nodes)[:MOST_NODES]),
        }
        start = since.get(one.job.pk, one.job.created_at)
        with tracing.span("job.wait", one.job.trace_parent, about, start=start):
            pass


def _since(placed: Sequence[Placed]) -> dict[UUID, datetime]:
    """Return since when jobs wait that were placed before: the end of the attempt before."""
    again = [one.job.pk for one in placed if one.attempt > 1]
    if not again:
        return {}
    ended = JobAttempt.objects.filter(job__in=again).order_by().values("job")
    return dict(ended.annotate(at=Max("finished_at")).values_list("job", "at"))


def _code(job: Job) -> str:
    return str((job.wait_reason or {}).get("code", ""))
