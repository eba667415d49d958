"""REST for administrators of the platform: its state, the doctor, and backups."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import redis
from django.db import OperationalError
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform import __version__
from skep_platform.cluster.queries import count_nodes, count_versions
from skep_platform.core import processes
from skep_platform.core.api import Body, IsAdmin, validated
from skep_platform.core.paging import page, paged
from skep_platform.operations import backups, doctor, readings
from skep_platform.operations.doctor.findings import SEVERITIES

TAGS = ["operations"]


class FindingSerializer(serializers.Serializer[Any]):
    code = serializers.CharField(help_text="Stable.")
    severity = serializers.ChoiceField(SEVERITIES)
    message = serializers.CharField()
    action = serializers.CharField(help_text="What to do.", allow_blank=True)
    details = serializers.DictField()


class ExaminedSerializer(serializers.Serializer[Any]):
    check = serializers.CharField()
    findings = FindingSerializer(many=True)


class DoctorSerializer(serializers.Serializer[Any]):
    healthy = serializers.BooleanField(help_text="No error; there may be warnings.")
    checks = ExaminedSerializer(many=True)


class DoctorView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(
        operation_id="run_doctor",
        parameters=[
            OpenApiParameter(
                "checks", str, description="Comma list of checks to run; all without it."
            )
        ],
        responses=DoctorSerializer,
        tags=TAGS,
    )
    def get(self, request: Request) -> Response:
        """Look at everything that the platform stands on, and say what to do. Takes seconds, as
        it asks other servers."""
        wanted = frozenset(n for n in request.query_params.get("checks", "").split(",") if n)
        found = doctor.run(wanted)
        body = {"healthy": doctor.healthy(found), "checks": [asdict(one) for one in found]}
        return Response(DoctorSerializer(body).data)


class ProcessSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text="Such as web, gateway or worker (default).")
    host = serializers.CharField()
    pid = serializers.IntegerField()
    version = serializers.CharField()
    started_at = serializers.DateTimeField()
    clock_ahead_s = serializers.FloatField(help_text="Of its machine, against Redis.")


class QueueSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    messages = serializers.IntegerField(help_text="That no worker has taken.")
    lag_s = serializers.FloatField(
        allow_null=True, help_text="Since the oldest of them was sent; null without one."
    )


class DatabaseSerializer(serializers.Serializer[Any]):
    version = serializers.CharField()
    bytes = serializers.IntegerField()
    connections = serializers.IntegerField()
    max_connections = serializers.IntegerField()
    oldest_transaction_s = serializers.FloatField()
    wraparound = serializers.FloatField(help_text="Part of the transaction ids that is used up.")
    archived_at = serializers.DateTimeField(
        allow_null=True, help_text="When write-ahead log was archived last; null: never."
    )


class TableSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    bytes = serializers.IntegerField(help_text="With its indexes.")
    rows = serializers.IntegerField(help_text="About.")
    dead_rows = serializers.IntegerField()
    vacuumed_at = serializers.DateTimeField(allow_null=True)


class RedisSerializer(serializers.Serializer[Any]):
    version = serializers.CharField()
    bytes = serializers.IntegerField()
    max_bytes = serializers.IntegerField(help_text="0: without a limit.")
    clients = serializers.IntegerField()


class StoreSerializer(serializers.Serializer[Any]):
    place = serializers.CharField(help_text='"local", or the address of an object store.')
    free_bytes = serializers.IntegerField(allow_null=True, help_text="Null for an object store.")
    total_bytes = serializers.IntegerField(allow_null=True)


class BackupSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    place = serializers.CharField()
    version = serializers.CharField(allow_blank=True)
    bytes = serializers.IntegerField(allow_null=True)


class PlatformSerializer(serializers.Serializer[Any]):
    version = serializers.CharField()
    processes = ProcessSerializer(many=True)
    queues = QueueSerializer(many=True)
    planned_at = serializers.DateTimeField(
        allow_null=True, help_text="When the scheduler planned last."
    )
    database = DatabaseSerializer()
    tables = TableSerializer(many=True, help_text=f"The largest {readings.MOST_TABLES}.")
    redis = RedisSerializer(allow_null=True, help_text="Null: it does not answer.")
    store = StoreSerializer()
    agents = serializers.DictField(
        child=serializers.IntegerField(), help_text="Number of nodes by version of the agent."
    )
    nodes = serializers.DictField(child=serializers.IntegerField(), help_text="By state.")
    last_backup = BackupSerializer(allow_null=True)


class PlatformView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(operation_id="get_platform", responses=PlatformSerializer, tags=TAGS)
    def get(self, request: Request) -> Response:
        """Return the state of the platform: processes, queues, database, stores, agents, and
        the last backup."""
        body = _of_redis() | {
            "version": __version__,
            "database": readings.database(),
            "tables": _largest_tables(),
            "store": readings.store(),
            "agents": count_versions()["agent"],
            "nodes": count_nodes(),
            "last_backup": backups.last(),
        }
        return Response(PlatformSerializer(body).data)


def _largest_tables() -> list[readings.TableFacts]:
    """Return none while one of them is rewritten."""
    try:
        return readings.tables()[: readings.MOST_TABLES]
    except OperationalError:
        return []


def _of_redis() -> dict[str, Any]:
    """Return what is known of it alone; nothing without it."""
    try:
        planned = readings.last_tick()
        return {
            "redis": readings.redis_server(),
            "queues": readings.queues(),
            "processes": [
                asdict(one) | {"started_at": datetime.fromtimestamp(one.started_at, UTC)}
                for one in processes.running()
            ],
            "planned_at": datetime.fromtimestamp(planned, UTC) if planned else None,
        }
    except (redis.RedisError, OSError):
        return {"redis": None, "queues": [], "processes": [], "planned_at": None}


class BackupBody(Body):
    place = serializers.CharField(max_length=300, help_text="Where it lies, for people.")
    bytes = serializers.IntegerField(required=False, min_value=0, max_value=2**62)


class BackupsView(APIView):
    permission_classes = (IsAdmin,)

    @paged("list_backups", BackupSerializer, TAGS)
    def get(self, request: Request) -> Response:
        """List the backups that were recorded, newest first."""
        return page(request, backups.recorded(), _show_backups, "at", descending=True)

    @extend_schema(
        operation_id="record_backup",
        request=BackupBody,
        responses={201: BackupSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Record that a backup was made now, by whatever makes yours, so that a missing one is
        seen."""
        body = validated(BackupBody, request)
        return Response(_show_backups([backups.record(**body)])[0], status=201)


def _show_backups(rows: list[Any]) -> list[Any]:
    return list(BackupSerializer(rows, many=True).data)
