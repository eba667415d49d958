"""What this process measures, and the port where Prometheus reads it.

Each process serves its own numbers at `SKEP_METRICS_LISTEN`, apart from the ports that people and
agents reach: web server, gateway, proxy of apps, Celery workers and beat. They are single processes
(Celery's pools are threads), so that no numbers have to be gathered from children. Numbers of the
cluster, which are read from the database, are the web server's (`web.metrics`).
"""

from __future__ import annotations

import hmac
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import structlog
from celery.signals import (
    beat_init,
    before_task_publish,
    task_postrun,
    task_prerun,
    worker_init,
)
from django.conf import settings
from django.db import connections
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from prometheus_client import REGISTRY, Counter, Gauge, Histogram, make_wsgi_app
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from skep_platform.core import processes
from skep_platform.env_settings import host_and_port

log = structlog.get_logger(__name__)

FAST = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds

# A route is a pattern of an address, such as "api/v1/jobs/<uuid:id>": there are a few hundred.
REQUESTS = Counter(
    "skep_http_requests", "Requests that were answered.", ["method", "route", "status"]
)
REQUEST_SECONDS = Histogram(
    "skep_http_request_seconds", "Time to the answer.", ["method", "route"], buckets=FAST
)
AGENTS = Gauge("skep_gateway_agents", "Agents that are connected to this gateway.")
LOG_BYTES = Counter("skep_log_received_bytes", "Output that nodes sent to this process.")

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NO_ROUTE = "none"  # a path that leads nowhere


def count_request(request: HttpRequest, response: HttpResponseBase, seconds: float) -> None:
    match = request.resolver_match
    route = match.route if match is not None else NO_ROUTE
    method = request.method if request.method in METHODS else "other"
    REQUESTS.labels(method, route, str(response.status_code)).inc()
    REQUEST_SECONDS.labels(method, route).observe(seconds)


class DatabasePool(Collector):
    """The connections of this process to the database, as psycopg's pool counts them."""

    def collect(self) -> Iterator[Metric]:
        size = GaugeMetricFamily(
            "skep_database_pool_connections", "Connections of this process.", labels=["state"]
        )
        waiting = GaugeMetricFamily(
            "skep_database_pool_waiting", "Requests that wait for a connection."
        )
        most = GaugeMetricFamily(
            "skep_database_pool_max_connections", "Connections that this process may open."
        )
        connection: Any = connections["default"]
        pool = connection._connection_pools.get("default")
        if pool is not None:  # without one nothing was read yet
            found = pool.get_stats()
            idle = found.get("pool_available", 0)
            size.add_metric(["idle"], idle)
            size.add_metric(["used"], found.get("pool_size", 0) - idle)
            waiting.add_metric([], found.get("requests_waiting", 0))
            most.add_metric([], found.get("pool_max", 0))
        yield from (size, waiting, most)


Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

_serving = threading.Lock()
_collectors: list[Collector] = []


def add_collector(collector: Collector) -> None:
    """Have a collector asked for its numbers at each scrape of this process."""
    _collectors.append(collector)


def serve() -> None:
    """Serve this process's numbers from a thread, where `SKEP_METRICS_LISTEN` says. A port that
    is taken is logged: no job waits for numbers."""
    host, port = host_and_port(settings.SKEP_METRICS_LISTEN)
    if not port or not _serving.acquire(blocking=False):
        return
    for collector in (DatabasePool(), *_collectors):
        REGISTRY.register(collector)
    application = guarded(make_wsgi_app(REGISTRY), settings.SKEP_METRICS_TOKEN)
    try:
        server = listening(host, port, application)
    except OSError as error:
        log.error("metrics_not_served", listen=settings.SKEP_METRICS_LISTEN, error=str(error))
        return
    threading.Thread(target=server.serve_forever, daemon=True, name="metrics").start()


def listening(host: str, port: int, application: Application) -> WSGIServer:
    """Return an HTTP server at an address of IPv4 or IPv6; "" is all of both families. Raises
    OSError."""
    every = not host and socket.has_dualstack_ipv6()

    class Server(ThreadingWSGIServer):
        address_family = socket.AF_INET6 if every or ":" in host else socket.AF_INET

        def server_bind(self) -> None:
            if every:
                self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            super().server_bind()

    return make_server(host, port, application, Server, _Silent)


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log no scrape."""


def guarded(application: Application, token: str) -> Application:
    """Return a WSGI application that answers only requests with this bearer token; "" is none."""
    wanted = f"Bearer {token}".encode()

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        given = str(environ.get("HTTP_AUTHORIZATION", "")).encode()
        if token and not hmac.compare_digest(given, wanted):
            start_response("401 Unauthorized", [("WWW-Authenticate", "Bearer")])
            return [b"SKEP_METRICS_TOKEN is to be sent as a bearer token.\n"]
        return application(environ, start_response)

    return answer


TASKS = Counter("skep_tasks", "Tasks that ended.", ["task", "state"])
LONG = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0)
FAILED_STEPS = Counter(
    "skep_task_step_failures", "Steps of tasks that failed; the others ran.", ["task", "step"]
)
TASK_SECONDS = Histogram("skep_task_seconds", "Time that tasks ran.", ["task"], buckets=LONG)
LAG_SECONDS = Histogram(
    "skep_task_lag_seconds",
    "Time from when a task was sent to when it began.",
    ["queue"],
    buckets=LONG,
)
SENT = "skep_sent_at"  # header of a task's message: seconds since the epoch
_begun = threading.local()


def measure_tasks() -> None:
    """Measure the tasks of this process, and serve the numbers of a worker or beat."""
    before_task_publish.connect(_note_sent, weak=False)
    task_prerun.connect(_note_begun, weak=False)
    task_postrun.connect(_note_ended, weak=False)
    worker_init.connect(_serve_worker, weak=False)
    beat_init.connect(_serve_beat, weak=False)


@contextmanager
def measured(task: str) -> Iterator[None]:
    """Measure a task that has no message of its own, under its name."""
    begun, state = time.perf_counter(), "FAILURE"
    try:
        yield
        state = "SUCCESS"
    finally:
        TASKS.labels(task, state).inc()
        TASK_SECONDS.labels(task).observe(time.perf_counter() - begun)


def _serve_worker(sender: Any = None, **_: Any) -> None:
    queues = ",".join(sorted(sender.app.amqp.queues.consume_from))
    processes.report(f"worker ({queues})")
    serve()


def _serve_beat(**_: Any) -> None:
    processes.report("beat")
    serve()


def _note_sent(headers: dict[str, Any] | None = None, **_: Any) -> None:
    if headers is not None:
        headers[SENT] = time.time()


def _note_begun(task: Any = None, **_: Any) -> None:
    _begun.at = time.perf_counter()
    sent = task.request.get(SENT)
    if isinstance(sent, int | float):
        queue = (task.request.delivery_info or {}).get("routing_key") or ""
        LAG_SECONDS.labels(queue).observe(max(time.time() - sent, 0.0))


def _note_ended(task: Any = None, state: str | None = None, **_: Any) -> None:
    TASKS.labels(task.name, state or "UNKNOWN").inc()
    begun = getattr(_begun, "at", None)
    if begun is not None:
        TASK_SECONDS.labels(task.name).observe(time.perf_counter() - begun)
