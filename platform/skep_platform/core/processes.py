"""Which processes of the control plane run, where, in which version and with which settings.

Each reports itself to Redis every `REPORT_S` from a thread of its own; there is nothing to restore
when that is lost. Settings are reported as short keyed digests: enough to see that two processes
have different ones, and nothing that shows a value.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import redis
import structlog
from django.conf import settings

from skep_platform import __version__
from skep_platform.core.notifications import valkey

log = structlog.get_logger(__name__)

KEY = "skep:processes"  # hash: id of a process -> JSON of Process
CLOCKS = "skep:node-clocks"  # hash: id of a node -> seconds that its clock is ahead
REPORT_S = 15.0
GONE_S = 60.0  # without a report

# All processes need the same: what one of them seals another one opens, and so on.
SHARED = (
    *("SKEP_SECRET_KEY", "SKEP_SECRETS_KEYS", "SKEP_PUBLIC_URL", "SKEP_LOG_STORE"),
    *("SKEP_REGISTRIES", "SKEP_APPS_URL", "SKEP_GANG_POOL", "SKEP_LEASE_S", "SKEP_EGRESS_ALLOW"),
    *("SKEP_LOG_RETENTION_DAYS", "SKEP_METRIC_RETENTION_DAYS", "SKEP_EVENT_RETENTION_DAYS"),
    *("SKEP_AUDIT_RETENTION_DAYS", "SKEP_SMTP_HOST", "SKEP_OIDC_ISSUER", "SKEP_LDAP_URI"),
    *("SKEP_METRIC_HOURLY_DAYS", "SKEP_METRIC_DAILY_DAYS"),
    *("SKEP_JOB_ARCHIVE_DAYS", "SKEP_JOB_ARCHIVE_KEEP_DAYS"),
)


@dataclass(frozen=True, slots=True)
class Process:
    """`clock_ahead_s`: of its machine's clock, against that of Redis. `settings`: digests."""

    kind: str
    host: str
    pid: int
    version: str
    started_at: float
    reported_at: float  # by the clock of Redis
    clock_ahead_s: float
    settings: Mapping[str, str]


_reporting = threading.Lock()


def report(kind: str) -> None:
    """Begin to report this process, once; `kind` is such as "web" or "worker (default)"."""
    if _reporting.acquire(blocking=False):
        started = time.time()
        threading.Thread(
            target=_go_on, args=(kind, started), daemon=True, name="process-report"
        ).start()


def running() -> list[Process]:
    """Return the processes that reported themselves of late, by kind and host. Raises
    redis.RedisError."""
    broker = valkey()
    stored: Any = broker.hgetall(KEY)
    now = _time(broker)
    found = [Process(**json.loads(text)) for text in stored.values()]
    alive = [process for process in found if now - process.reported_at < GONE_S]
    return sorted(alive, key=lambda process: (process.kind, process.host, process.pid))


def report_once(kind: str, started: float) -> None:
    """Raises redis.RedisError."""
    broker = valkey()
    before = time.time()
    now = _time(broker)
    ahead = (before + time.time()) / 2 - now
    host, pid = socket.gethostname(), os.getpid()
    found = Process(kind, host, pid, __version__, started, now, round(ahead, 3), _digests())
    broker.hset(KEY, f"{host}/{pid}/{kind}", json.dumps(asdict(found)))
    _forget_gone(broker, now)


def _go_on(kind: str, started: float) -> None:
    while True:
        try:
            report_once(kind, started)
        except (redis.RedisError, OSError) as error:
            log.info("process_not_reported", error=type(error).__name__)
        time.sleep(REPORT_S)


def _forget_gone(broker: redis.Redis, now: float) -> None:
    stored: Any = broker.hgetall(KEY)
    gone = [k for k, text in stored.items() if now - json.loads(text)["reported_at"] > 10 * GONE_S]
    if gone:
        broker.hdel(KEY, *gone)


def _time(broker: redis.Redis) -> float:
    seconds, microseconds = broker.time()
    return float(seconds) + float(microseconds) / 1e6


def _digests() -> dict[str, str]:
    key = settings.SECRET_KEY.encode()
    return {
        name: hmac.new(key, f"{name}={os.environ.get(name, '')}".encode(), hashlib.sha256)
        .hexdigest()[:8]
        for name in SHARED
    }  # fmt: skip


class NodeClocks:
    """By how much the clocks of nodes are ahead, as their samples show. Safe for threads: what is
    lost comes again with the next sample."""

    def __init__(self) -> None:
        self._seen: dict[object, float] = {}
        self._noted: dict[object, float] = {}

    def saw(self, node_id: object, at: float) -> None:
        """A message of the node was sent at this moment of its clock, and came now."""
        ahead = at - time.time()
        self._seen[node_id] = min(max(ahead, -MOST_AHEAD_S), MOST_AHEAD_S)

    def flush(self) -> None:
        """Write what has changed. Lost without Redis."""
        seen, self._seen = self._seen, {}
        changed = {
            node: ahead
            for node, ahead in seen.items()
            if abs(ahead - self._noted.get(node, MOST_AHEAD_S * 2)) > CHANGED_S
        }
        if not changed:
            return
        try:
            valkey().hset(CLOCKS, mapping={str(n): f"{a:.3f}" for n, a in changed.items()})
            self._noted |= changed
        except (redis.RedisError, OSError) as error:
            log.info("node_clocks_not_noted", error=type(error).__name__)


MOST_AHEAD_S = 1e9
CHANGED_S = 0.5


def node_clocks() -> dict[str, float]:
    """Return by how much the clocks of nodes are ahead, by the id of the node. Raises
    redis.RedisError."""
    stored: Any = valkey().hgetall(CLOCKS)
    return {node.decode(): float(ahead) for node, ahead in stored.items()}
