"""What the scheduler measures of its rounds. The process that holds the scheduler's lock has news;
numbers of a scheduler that stands by stay where they were."""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from skep_platform.core.metrics import FAST, add_collector
from skep_scheduler.model import Plan, Reason

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
        tally = Tally(reason.code for reason in list(self._reasons.values()))
        for code, number in sorted(tally.items()):
            found.add_metric([str(code)], number)
        yield found
