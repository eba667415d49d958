"""The cluster in numbers for Prometheus: nodes, GPUs, jobs, quotas, queues of tasks and alerts.

They are read with a constant number of queries and kept for some seconds, however many Prometheus
servers ask. Every web server answers with the same numbers: queries take `max by (...)` of them.
Numbers of single GPUs are those of the agents, so that this page stays small with 10,000 nodes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import structlog
from django.db import DatabaseError
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from redis import RedisError

from skep_platform.cluster import queries as cluster
from skep_platform.core.bulk import fetch
from skep_platform.core.notifications import valkey
from skep_platform.env_settings import KEY_PREFIX, QUEUES
from skep_platform.web.api import current_alerts

log = structlog.get_logger(__name__)

KEEP_S = 10.0
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
 WHERE u.at > now() - interval '5 minutes'
 ORDER BY u.vc_id, u.gpu_model, u.at DESC
"""
USE_KINDS = ("owned", "used", "borrowed", "lent", "bad", "unavailable", "waiting")


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
    """Return all families. Without the database only `skep_database_up` is known."""
    try:
        found = [_family(*family) for family in _of_database()]
        up = 1.0
    except DatabaseError as error:
        log.warning("metrics_not_read", error=str(error))
        found, up = [], 0.0
    return [
        *found,
        _family("skep_database_up", "Whether the database answers.", [], [((), up)]),
        *_of_broker(),
    ]


def _of_database() -> Iterator[tuple[str, str, list[str], Values]]:
    nodes = cluster.count_nodes().items()
    yield "skep_nodes", "Nodes.", ["state"], [((str(state),), n) for state, n in nodes]
    gpus: Values = [
        ((model, kind), n) for model, of in cluster.count_gpus().items() for kind, n in of.items()
    ]
    yield "skep_gpus", "GPUs; used and bad ones are part of the total.", ["gpu_model", "kind"], gpus
    jobs: Values = [((vc, state), n) for vc, state, n in fetch(JOBS, [])]
    yield "skep_jobs", "Jobs that did not end.", ["virtual_cluster", "state"], jobs
    quotas: Values = [
        ((vc, model, kind), n)
        for vc, model, *numbers in fetch(USE, [])
        for kind, n in zip(USE_KINDS, numbers, strict=True)
    ]
    labels = ["virtual_cluster", "gpu_model", "kind"]
    about = "GPUs that a virtual cluster owns, uses, borrows, lends, lacks and waits for."
    yield "skep_virtual_cluster_gpus", about, labels, quotas
    alerts, held = current_alerts()
    named: Values = [((each["code"], each["severity"]), 1.0) for each in alerts]
    yield "skep_alert", "What the page Health names.", ["code", "severity"], named
    yield "skep_log_held_bytes", "Output that nodes hold back.", [], [((), held)]


def _of_broker() -> list[Metric]:
    messages: Values = []
    try:
        for queue in QUEUES:
            length: Any = valkey().llen(f"{KEY_PREFIX}{queue}")
            messages.append(((queue,), length))
        up = 1.0
    except (RedisError, OSError):
        up = 0.0
    about = "Messages of tasks that no worker has taken."
    return [
        _family("skep_task_queue_messages", about, ["queue"], messages),
        _family("skep_redis_up", "Whether Redis or Valkey answers.", [], [((), up)]),
    ]


def _family(name: str, about: str, labels: list[str], values: Values) -> Metric:
    family = GaugeMetricFamily(name, about, labels=labels)
    for named, value in values:
        family.add_metric(list(named), value)
    return family
