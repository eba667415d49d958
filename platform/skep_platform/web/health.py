"""REST: what an admin should see to, as a list of alerts. It stands here because it asks every app.

/readyz says whether one process can serve; this says how the cluster is.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import redis
from django.conf import settings
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.cluster import presence, queries
from skep_platform.core.api import IsAdmin
from skep_platform.telemetry import alerts

MOST_NODES = 20  # named in one alert
STORE_LOW_SHARE = 0.05
GIB = 1024**3


class AlertSerializer(serializers.Serializer[Any]):
    code = serializers.CharField(help_text="Stable.")
    severity = serializers.ChoiceField(["critical", "warning"])
    message = serializers.CharField()
    since = serializers.DateTimeField(allow_null=True)
    details = serializers.DictField()


class HealthSerializer(serializers.Serializer[Any]):
    healthy = serializers.BooleanField(help_text="No alert.")
    log_bytes_waiting = serializers.IntegerField(
        help_text="Output that nodes hold back, because the log store has not taken it."
    )
    alerts = AlertSerializer(many=True)


class HealthView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(operation_id="get_health", responses=HealthSerializer, tags=["cluster"])
    def get(self, request: Request) -> Response:
        """What an admin should see to: the log store, disks, nodes that are waited for."""
        holding = queries.holding_logs()
        found = [*_store(holding), *_store_space(), *_disks(), *_gateway(), *_awaited()]
        waiting = sum(n for _, n in holding)
        answer = {"healthy": not found, "log_bytes_waiting": waiting, "alerts": found}
        return Response(HealthSerializer(answer).data)


def alert(
    code: str, severity: str, message: str, since: datetime | None = None, **details: Any
) -> dict[str, Any]:
    return {
        "code": code,
        "severity": severity,
        "message": message,
        "since": since,
        "details": details,
    }


def _store(holding: list[tuple[str, int]]) -> Iterator[dict[str, Any]]:
    try:
        away = alerts.store_away()
    except redis.RedisError:
        text = "Valkey does not answer: pages are not live, and the scheduler starts late."
        yield alert("valkey_away", "critical", text)
        return
    waiting = sum(n for _, n in holding)
    held: dict[str, Any] = {
        "bytes": waiting,
        "nodes": dict(holding[:MOST_NODES]),
        "nodes_total": len(holding),
    }
    if away is not None:
        message = (
            f"The log store takes no output: {away.error}. Nodes hold back {waiting:,} bytes; "
            f"nothing is lost while they have room."
        )
        since = datetime.fromtimestamp(away.since, UTC)
        yield alert("log_store_away", "critical", message, since, error=away.error, **held)
    elif holding:
        message = f"{len(holding)} nodes hold back {waiting:,} bytes of output."
        yield alert("logs_waiting", "warning", message, **held)


def _store_space() -> Iterator[dict[str, Any]]:
    """Of chunks in local files; an object store has its own."""
    location = settings.STORAGES["logs"].get("OPTIONS", {}).get("location")
    if location is None:
        return
    try:
        disk = shutil.disk_usage(settings.SKEP_DATA_DIR)
    except OSError:
        return
    if disk.free < disk.total * STORE_LOW_SHARE:
        message = (
            f"The disk of the log store has {disk.free / GIB:.1f} of {disk.total / GIB:.1f} GiB "
            f"left. Make room, or keep logs for a shorter time (SKEP_LOG_RETENTION_DAYS)."
        )
        details: dict[str, Any] = {"free_bytes": disk.free, "total_bytes": disk.total}
        yield alert("log_store_nearly_full", "warning", message, **details)


def _disks() -> Iterator[dict[str, Any]]:
    low = queries.low_disks()
    if low:
        name, free, total = low[0]
        message = (
            f"{_nodes(len(low))} a nearly full disk; {name} has {free:,} of {total:,} MiB left. "
            f"Remove images that nobody uses, or cordon it."
        )
        nodes = [{"name": n, "free_mb": f, "total_mb": t} for n, f, t in low[:MOST_NODES]]
        yield alert("node_disk_low", "warning", message, nodes=nodes, nodes_total=len(low))


def _gateway() -> Iterator[dict[str, Any]]:
    row = presence.absent_since()
    if row is not None and timezone.now() - row.seen_at > 2 * presence.gap():
        message = (
            "No gateway is up: agents cannot connect, and stop their jobs when the lease is over."
        )
        yield alert("no_gateway", "critical", message, row.seen_at)


def _awaited() -> Iterator[dict[str, Any]]:
    awaited = queries.awaited()
    if awaited:
        until = max(at for _, at in awaited)
        message = (
            f"{len(awaited)} nodes have not come back since the server was stopped on purpose; "
            f"they are waited for until {until:%H:%M} UTC. Declare lost what is surely off."
        )
        nodes = [{"name": name, "until": at.isoformat()} for name, at in awaited[:MOST_NODES]]
        yield alert("nodes_awaited", "warning", message, nodes=nodes, nodes_total=len(awaited))


def _nodes(count: int) -> str:
    return "1 node has" if count == 1 else f"{count} nodes have"
