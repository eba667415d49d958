"""The cluster in numbers for Prometheus: nodes, GPUs, jobs, quotas, queues of tasks and alerts; and
a virtual cluster with its jobs for the Prometheus of its team.

They are read with a constant number of queries and kept for some seconds, however many Prometheus
servers ask. Every web server answers with the same numbers: queries take `max by (...)` of them.
Numbers of single GPUs are those of the agents, so that this page stays small with 10,000 nodes.

A database or a broker that hangs, instead of refusing, must not keep these numbers from Prometheus,
whose scrape ends after 10 s by default: the alert about it would never fire. So what hangs is read
in a thread, and reported as away after PATIENCE_S.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog
from django.db import DatabaseError
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from redis import RedisError
from rest_framework.request import Request
from rest_framework.views import APIView

from skep_platform.cluster import queries as cluster
from skep_platform.core.bulk import fetch
from skep_platform.core.notifications import valkey
from skep_platform.core.serving import at_database
from skep_platform.env_settings import KEY_PREFIX, QUEUES
from skep_platform.jobs.queries import visible_to
from skep_platform.jobs.states import JobState
from skep_platform.telemetry import calibration
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import VirtualCluster
from skep_platform.web.api import current_alerts

log = structlog.get_logger(__name__)

KEEP_S = 10.0
PATIENCE_S = 6.0  # more than two attempts at a broker that hangs, and less than a scrape waits
Values = list[tuple[Sequence[str], float]]

JOBS = """
SELECT v.name, j.state, count(*)
  FROM jobs_job j JOIN tenancy_virtualcluster v ON v.id = j.vc_id
 WHERE j.state IN ('WAITING', 'RUNNING', 'STOPPING')
 GROUP BY 1, 2
"""

# The newest sample of each virtual cluster and GPU model; the scheduler takes one a minute.
USE = """
SELECT DISTINCT ON (u.vc_id, u.gpu_model) v.name, u.gpu_model, u.owned, u.used, u.borrowed, u.lent,
       u.bad, u.unavailable, u.waiting
  FROM scheduling_vcuse u JOIN tenancy_virtualcluster v ON v.id = u.vc_id
 WHERE u.at > now() - interval '5 minutes' AND (%(vc)s::uuid IS NULL OR u.vc_id = %(vc)s)
 ORDER BY u.vc_id, u.gpu_model, u.at DESC
"""
# A periodic task counts it once an hour; what is old is not served as if it were of now.
FAIRNESS = """
SELECT v.name, m.worst_rho, m.jain_index
  FROM usage_fairnessmeasure m JOIN tenancy_virtualcluster v ON v.id = m.vc_id
 WHERE m.at > now() - interval '3 hours'
"""
# Those of the rules of administrators that fire now.
FIRING = """
SELECT r.name, r.kind, count(*)
  FROM operations_alert a JOIN operations_alertrule r ON r.id = a.rule_id
 WHERE a.ended_at IS NULL AND a.fired_at IS NOT NULL
 GROUP BY 1, 2
"""
USE_KINDS = ("owned", "used", "borrowed", "lent", "bad", "unavailable", "waiting")


@dataclass(frozen=True, slots=True, eq=False)  # a key of what is being read
class Source:
    """Families that are read together. `away` are those of a source that does not answer."""

    read: Callable[[], list[Metric]]
    away: tuple[Metric, ...] = ()


class ParallelReader:
    """Reads all sources at once, each in a thread, and waits for each until `patience_s` after its
    reading began. One that hangs is not begun a second time: it is away until it has come back.
    Not safe for threads."""

    def __init__(self, sources: Sequence[Source], patience_s: float = PATIENCE_S) -> None:
        self._sources = sources
        self._patience_s = patience_s
        self._begun: dict[Source, tuple[float, Future[list[Metric]]]] = {}

    def __call__(self) -> list[Metric]:
        """Return the families of all sources. Raises what a reading raised."""
        for source in self._sources:
            if source not in self._begun:
                self._begun[source] = time.monotonic(), _in_thread(source.read)
        return [metric for source in self._sources for metric in self._result(source)]

    def _result(self, source: Source) -> Sequence[Metric]:
        begun, reading = self._begun[source]
        wait([reading], max(begun + self._patience_s - time.monotonic(), 0.0))
        if not reading.done():
            log.warning("metrics_late", patience_s=self._patience_s)
            return source.away
        del self._begun[source]
        return reading.result()


def _in_thread(work: Callable[[], list[Metric]]) -> Future[list[Metric]]:
    """Begin the work in a thread of its own: one of a pool would keep a process that ends waiting
    for it."""
    future: Future[list[Metric]] = Future()

    def run() -> None:
        try:
            future.set_result(at_database(work))
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="metrics-source").start()
    return future


class ClusterMetrics(Collector):
    """Safe for threads. `read` returns the families."""

    def __init__(self, read: Callable[[], list[Metric]]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._known: list[Metric] = []
        self._until = 0.0

    def describe(self) -> list[Metric]:
        """Return nothing: to be added asks the database nothing."""
        return []

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            if time.monotonic() >= self._until:
                self._known = self._read()
                self._until = time.monotonic() + KEEP_S
            known = self._known
        yield from known


def read_cluster() -> list[Metric]:
    """Return the families of all sources, one after the other."""
    return [metric for source in SOURCES for metric in source.read()]


def _read_database() -> list[Metric]:
    """Without the database only `skep_database_up` is known."""
    try:
        return [*(_family(*family) for family in _of_database()), _database_up(1.0)]
    except DatabaseError as error:
        log.warning("metrics_not_read", error=str(error))
        return [_database_up(0.0)]


def _read_alerts() -> list[Metric]:
    """Return what the page Health names: nothing without the database."""
    try:
        alerts, held = current_alerts()
    except DatabaseError as error:
        log.warning("metrics_not_read", error=str(error))
        return []
    named: Values = [((each["code"], each["severity"]), 1.0) for each in alerts]
    return [
        _family("skep_alert", "What the page Health names.", ["code", "severity"], named),
        _family("skep_log_held_bytes", "Output that nodes hold back.", [], [((), held)]),
    ]


def _read_broker() -> list[Metric]:
    try:
        lengths: list[Any] = [valkey().llen(f"{KEY_PREFIX}{queue}") for queue in QUEUES]
    except (RedisError, OSError):
        return [_redis_up(0.0)]
    messages: Values = [((queue,), n) for queue, n in zip(QUEUES, lengths, strict=True)]
    about = "Messages of tasks that no worker has taken."
    return [_family("skep_task_queue_messages", about, ["queue"], messages), _redis_up(1.0)]


def _database_up(up: float) -> Metric:
    return _family("skep_database_up", "Whether the database answers.", [], [((), up)])


def _redis_up(up: float) -> Metric:
    return _family("skep_redis_up", "Whether Redis or Valkey answers.", [], [((), up)])


def _of_database() -> Iterator[tuple[str, str, list[str], Values]]:
    nodes = cluster.count_nodes().items()
    yield "skep_nodes", "Nodes.", ["state"], [((str(state),), n) for state, n in nodes]
    gpus: Values = [
        ((model, kind), n) for model, of in cluster.count_gpus().items() for kind, n in of.items()
    ]
    yield "skep_gpus", "GPUs; used and bad ones are part of the total.", ["gpu_model", "kind"], gpus
    jobs: Values = [((vc, state), n) for vc, state, n in fetch(JOBS, [])]
    yield "skep_jobs", "Jobs that did not end.", ["virtual_cluster", "state"], jobs
    yield _quotas(None)
    yield from _fairness()
    firing: Values = [((rule, kind), n) for rule, kind, n in fetch(FIRING, [])]
    yield "skep_rule_alerts", "Alerts of rules that fire.", ["rule", "kind"], firing
    starts = calibration.last_days().get(calibration.START)
    kept = starts.within if starts else 0
    counted: Values = [(("kept",), kept), (("broken",), starts.intervals - kept if starts else 0)]
    about = "Jobs of the last 30 days that started in the interval they were given, or not."
    yield "skep_expected_starts", about, ["outcome"], counted


def _quotas(vc: UUID | None) -> tuple[str, str, list[str], Values]:
    """Return those of one virtual cluster, or of all."""
    quotas: Values = [
        ((name, model, kind), n)
        for name, model, *numbers in fetch(USE, {"vc": vc})
        for kind, n in zip(USE_KINDS, numbers, strict=True)
    ]
    labels = ["virtual_cluster", "gpu_model", "kind"]
    about = "GPUs that a virtual cluster owns, uses, borrows, lends, lacks and waits for."
    return "skep_virtual_cluster_gpus", about, labels, quotas


def _fairness() -> Iterator[tuple[str, str, list[str], Values]]:
    rows = fetch(FAIRNESS, [])
    about = "The largest mean rho of a user over the last 7 days: 2 is twice as long as fair."
    worst: Values = [((vc,), rho) for vc, rho, _ in rows]
    yield "skep_virtual_cluster_worst_rho", about, ["virtual_cluster"], worst
    about = "Jain's index of the users' speeds, 1 / mean rho, over the last 7 days: 1 is equal."
    equal: Values = [((vc,), index) for vc, _, index in rows]
    yield "skep_virtual_cluster_jain_index", about, ["virtual_cluster"], equal


def _family(name: str, about: str, labels: list[str], values: Values) -> Metric:
    family = GaugeMetricFamily(name, about, labels=labels)
    for named, value in values:
        family.add_metric(list(named), value)
    return family


SOURCES = (
    Source(_read_database, (_database_up(0.0),)),
    Source(_read_alerts),
    Source(_read_broker, (_redis_up(0.0),)),
)


MOST_JOBS = 2000
# The newest minute of each GPU and each task of these jobs. Means of GPUs, sums of the rest.
GPUS = """
SELECT job_id, avg(utilization), sum(memory)
  FROM (SELECT DISTINCT ON (r.attempt_id, r.device_id) a.job_id,
               r.utilization_sum / nullif(r.samples, 0) AS utilization,
               r.memory_used_mb_max * 1048576.0 AS memory
          FROM jobs_taskattempt a JOIN telemetry_gpurollup r ON r.attempt_id = a.id
         WHERE a.job_id = ANY(%s) AND a.released_at IS NULL AND r.at > now() - interval '3 minutes'
         ORDER BY r.attempt_id, r.device_id, r.at DESC) newest
 GROUP BY 1
"""
TASKS = """
SELECT job_id, sum(cores), sum(memory)
  FROM (SELECT DISTINCT ON (r.attempt_id) a.job_id,
               r.cpu_percent_sum / nullif(r.samples, 0) / 100 AS cores,
               r.memory_mb_max * 1048576.0 AS memory
          FROM jobs_taskattempt a JOIN telemetry_taskrollup r ON r.attempt_id = a.id
         WHERE a.job_id = ANY(%s) AND a.released_at IS NULL AND r.at > now() - interval '3 minutes'
         ORDER BY r.attempt_id, r.at DESC) newest
 GROUP BY 1
"""
OF_JOBS = (
    ("skep_job_gpu_utilization_percent", "Mean of its GPUs in the newest minute.", GPUS, 1),
    ("skep_job_gpu_memory_used_bytes", "Of all of its GPUs.", GPUS, 2),
    ("skep_job_cpu_cores", "Cores that its tasks use.", TASKS, 1),
    ("skep_job_memory_used_bytes", "Of all of its tasks.", TASKS, 2),
)


class VcMetricsView(APIView):
    @extend_schema(
        operation_id="get_vc_metrics",
        responses={(200, "text/plain"): OpenApiTypes.STR},
        tags=["cluster"],
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        """The GPUs of a virtual cluster and those of its running jobs that you may see, at most
        2,000, in the format of Prometheus. A token with the scope "read" is enough."""
        vc = tenancy.find(request.user, name)
        registry = CollectorRegistry()
        registry.register(_Read([_family(*family) for family in _of_team(request.user, vc)]))
        return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


@dataclass(frozen=True, slots=True, eq=False)  # a registry keeps it as a key
class _Read(Collector):
    families: list[Metric]

    def collect(self) -> list[Metric]:
        return self.families


def _of_team(user: Any, vc: VirtualCluster) -> Iterator[tuple[str, str, list[str], Values]]:
    """Five queries, however many jobs there are."""
    yield _quotas(vc.pk)
    running = visible_to(user).filter(vc=vc, state=JobState.RUNNING).order_by("-pk")
    jobs = list(running.values_list("pk", "name", "owner__username", "gpus")[:MOST_JOBS])
    labels = ["virtual_cluster", "job_id", "name", "owner"]
    named = {pk: (vc.name, str(pk), title, owner) for pk, title, owner, _ in jobs}
    held: Values = [(named[pk], gpus) for pk, _, _, gpus in jobs]
    yield "skep_job_gpus", "GPUs that a running job asked for.", labels, held
    read = {statement: fetch(statement, [list(named)]) for statement in (GPUS, TASKS)}
    for metric, about, statement, column in OF_JOBS:
        values: Values = [
            (named[row[0]], float(row[column]))
            for row in read[statement]
            if row[column] is not None
        ]
        yield metric, about, labels, values
