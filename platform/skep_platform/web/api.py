"""REST for the pages of the whole cluster: its numbers, its health, and the grid of its nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import redis
from django.db.models import Count
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform import __version__
from skep_platform.cluster import queries, sessions
from skep_platform.cluster import queries as cluster
from skep_platform.cluster.models import NodeState
from skep_platform.core.api import IsAdmin
from skep_platform.core.errors import SkepError
from skep_platform.core.notifications import valkey
from skep_platform.env_settings import KEY_PREFIX
from skep_platform.jobs.models import ACTIVE_JOB_STATES
from skep_platform.jobs.queries import visible_to
from skep_platform.operations import readings
from skep_platform.scheduling.source import Reader
from skep_platform.telemetry import store
from skep_platform.tenancy import queries as tenancy
from skep_platform.web import grid
from skep_platform.web.grid import GridNode


class GpuCountSerializer(serializers.Serializer[Any]):
    total = serializers.IntegerField()
    used = serializers.IntegerField()
    bad = serializers.IntegerField()


class ClusterSerializer(serializers.Serializer[Any]):
    nodes = serializers.DictField(child=serializers.IntegerField(), help_text="By state.")
    gpus = serializers.DictField(child=GpuCountSerializer(), help_text="By GPU model.")
    jobs = serializers.DictField(
        child=serializers.IntegerField(), help_text="Active ones that you may see, by state."
    )
    version = serializers.CharField()
    versions = serializers.DictField(
        child=serializers.DictField(child=serializers.IntegerField()),
        required=False,
        help_text="With `versions`: the number of nodes by version of agent, engine and driver.",
    )


class ClusterView(APIView):
    @extend_schema(
        operation_id="get_cluster",
        parameters=[OpenApiParameter("versions", bool, description="Count versions as well.")],
        responses=ClusterSerializer,
        tags=["cluster"],
    )
    def get(self, request: Request) -> Response:
        body: dict[str, Any] = {
            "nodes": cluster.count_nodes(),
            "gpus": cluster.count_gpus(),
            "jobs": _active_jobs(request.user),
            "version": __version__,
        }
        if request.query_params.get("versions", "").lower() in TRUE:
            body["versions"] = cluster.count_versions()
        return Response(body)


def _active_jobs(user: Any) -> dict[str, int]:
    jobs = visible_to(user).select_related(None).filter(state__in=ACTIVE_JOB_STATES)
    return dict(jobs.values_list("state").order_by().annotate(n=Count("pk")))


MOST_NODES = 20  # named in one alert
MOST_ROUNDS = 60  # of the scheduler in its queue: two minutes of those that beat sends
TRUE = ("1", "true")
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
        found, waiting = current_alerts()
        answer = {"healthy": not found, "log_bytes_waiting": waiting, "alerts": found}
        return Response(HealthSerializer(answer).data)


def current_alerts() -> tuple[list[dict[str, Any]], int]:
    """Return what an admin should see to, and how many bytes of output nodes hold back."""
    holding = queries.holding_logs()
    found = [*_broker(holding), *_store_space(), *_gateway(), *_disks(), *_awaited()]
    return found, sum(n for _, n in holding)


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


def _broker(holding: list[tuple[str, int]]) -> Iterator[dict[str, Any]]:
    """What Valkey knows. One that hangs is waited for once."""
    try:
        away = store.store_away()
        rounds: Any = valkey().llen(f"{KEY_PREFIX}scheduler")
    except redis.RedisError:
        text = "Valkey does not answer: no job is placed until it does, and pages are not live."
        yield alert("valkey_away", "critical", text)
        return
    yield from _store(away, holding)
    yield from _scheduler(rounds)


def _store(
    away: store.StoreAway | None, holding: list[tuple[str, int]]
) -> Iterator[dict[str, Any]]:
    waiting = sum(n for _, n in holding)
    held: dict[str, Any] = {
        "bytes": waiting,
        "nodes": dict(holding[:MOST_NODES]),
        "nodes_total": len(holding),
    }
    if away is not None:
        message = (
            f"The log store takes no output: {away.error}. Nodes hold back {waiting:,} bytes; "
            f"nothing is lost while their disks have space."
        )
        since = datetime.fromtimestamp(away.since, UTC)
        yield alert("log_store_away", "critical", message, since, error=away.error, **held)
    elif holding:
        message = f"{len(holding)} nodes hold back {waiting:,} bytes of output."
        yield alert("logs_waiting", "warning", message, **held)


def _store_space() -> Iterator[dict[str, Any]]:
    """Of chunks in local files; an object store has its own."""
    disk = readings.store()
    if disk.free_bytes is None or disk.total_bytes is None:
        return
    if disk.free_bytes < disk.total_bytes * STORE_LOW_SHARE:
        message = (
            f"The disk of the log store has {disk.free_bytes / GIB:.1f} of "
            f"{disk.total_bytes / GIB:.1f} GiB left. Free space, or keep logs for a shorter time "
            f"(SKEP_LOG_RETENTION_DAYS)."
        )
        details: dict[str, Any] = {"free_bytes": disk.free_bytes, "total_bytes": disk.total_bytes}
        yield alert("log_store_nearly_full", "warning", message, **details)


def _scheduler(waiting: int) -> Iterator[dict[str, Any]]:
    """Beat sends a round every 2 s, and hints more: they pile up where no worker takes them."""
    if waiting > MOST_ROUNDS:
        message = (
            f"No worker takes the rounds of the scheduler, {waiting:,} wait: no job starts. "
            f"Start a worker of the queue `scheduler`."
        )
        yield alert("scheduler_stopped", "critical", message, rounds=waiting)


def _disks() -> Iterator[dict[str, Any]]:
    low = queries.low_disks()
    if low:
        name, free, total = low[0]
        message = (
            f"{_nodes(len(low))} a nearly full disk; {name} has {free:,} of {total:,} MiB left. "
            f"Remove unused images, or cordon it."
        )
        nodes = [{"name": n, "free_mb": f, "total_mb": t} for n, f, t in low[:MOST_NODES]]
        yield alert("node_disk_low", "warning", message, nodes=nodes, nodes_total=len(low))


def _gateway() -> Iterator[dict[str, Any]]:
    row = sessions.absent_since()
    if row is not None and timezone.now() - row.seen_at > 2 * sessions.gap():
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


TAGS = ["cluster"]
MOST_NAMES = 200


class PlaceSerializer(serializers.Serializer[Any]):
    fabric = serializers.CharField(allow_blank=True)
    rack = serializers.CharField(allow_blank=True)


class GridNodeSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    state = serializers.ChoiceField(NodeState.values)
    cordoned = serializers.BooleanField(required=False, help_text="Left out where false.")
    draining = serializers.BooleanField(
        required=False, help_text="Its jobs were asked to go, and some are there."
    )
    place = serializers.IntegerField(required=False, help_text="Index in `places`.")
    models = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Index in `models` of each GPU; a single one is that of all.",
    )
    used_by = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Of each GPU, the index in `virtual_clusters`; -1: free.",
    )
    bad = serializers.ListField(
        child=serializers.IntegerField(), required=False, help_text="Which of its GPUs are bad."
    )


class GridSerializer(serializers.Serializer[Any]):
    revision = serializers.CharField(help_text="Ask for what has changed `since` it.")
    whole = serializers.BooleanField(
        help_text="These are all nodes; else those that may have changed since the revision."
    )
    models = serializers.ListField(child=serializers.CharField())
    virtual_clusters = serializers.ListField(
        child=serializers.CharField(allow_null=True), help_text="Null: any that is not yours."
    )
    places = PlaceSerializer(many=True)
    nodes = GridNodeSerializer(many=True)
    removed = serializers.ListField(
        child=serializers.CharField(), help_text="Names of nodes that are no more."
    )


class UseSerializer(serializers.Serializer[Any]):
    use = serializers.DictField(
        child=serializers.ListField(child=serializers.IntegerField(allow_null=True)),
        help_text="By node: percent of each of its GPUs; null: not known, or not yours to know.",
    )


class GridView(APIView):
    @extend_schema(
        operation_id="get_cluster_grid",
        parameters=[OpenApiParameter("since", str, description="`revision` of an earlier answer.")],
        responses=GridSerializer,
        tags=TAGS,
    )
    def get(self, request: Request) -> HttpResponseBase:
        """All nodes and their GPUs in short, by name; with `since`, those that may have changed.
        An unknown or old revision answers with all of them."""
        viewer = _viewer(request.user)
        horizon, _, known_by = request.query_params.get("since", "").partition(".")
        known = int(horizon) if horizon.isdecimal() and len(horizon) < 19 else None
        # First: what changes meanwhile is in this answer or in that to its revision.
        now, nodes = grid.CLUSTER.look()
        revision, own = f"{now}.{viewer}", tenancy.own_names(request.user)
        changed = _changed_since(known) if known is not None and known_by == viewer else None
        if changed is None:
            return _compressed(request, grid.ANSWERS.get(own, nodes, revision))
        shown = grid.Shown(own)
        rows = [shown.node(node) for node in _among(nodes, changed)]
        removed = grid.names_of_removed(changed, nodes)
        head = {"revision": revision, "whole": False} | shown.tables()
        return Response(head | {"nodes": rows, "removed": removed})


def _compressed(request: Request, answer: grid.Whole) -> HttpResponse:
    """Return an answer that was compressed when it was made, to who takes that."""
    packed = "gzip" in request.headers.get("Accept-Encoding", "")
    content = answer.compressed if packed else answer.body
    response = HttpResponse(content, content_type="application/json")
    response["Vary"] = "Accept-Encoding"
    if packed:
        response["Content-Encoding"] = "gzip"
    return response


def _changed_since(horizon: int) -> set[UUID] | None:
    """Return the nodes that may have changed; None: all of them."""
    reader = Reader(horizon)
    news = reader.look()
    if horizon > reader.horizon:  # of another database
        return None
    return grid.changed_nodes(news)


def _among(nodes: Mapping[UUID, GridNode], ids: Collection[UUID]) -> list[GridNode]:
    """Return the nodes with these ids, by name."""
    return sorted((nodes[pk] for pk in ids if pk in nodes), key=lambda node: node.name)


class UseView(APIView):
    @extend_schema(
        operation_id="get_cluster_use",
        parameters=[
            OpenApiParameter("nodes", str, description="Comma list of names; none without.")
        ],
        responses=UseSerializer,
        tags=TAGS,
    )
    def get(self, request: Request) -> Response:
        """How busy the GPUs of some nodes are: of those on a screen, not of the whole cluster."""
        names = [name for name in request.query_params.get("nodes", "").split(",") if name]
        if len(names) > MOST_NAMES:
            message = f"At most {MOST_NAMES} nodes at a time."
            raise SkepError(message, code="too_many_nodes", limit=MOST_NAMES, nodes=len(names))
        nodes = list(cluster.nodes().filter(name__in=names))
        ids = [node.pk for node in nodes]
        online = [node.pk for node in nodes if node.state == NodeState.ONLINE]
        held, live = cluster.holders(request.user, ids), cluster.live(online)
        gpus = cluster.gpus(ids)

        def percent(uuid: str) -> int | None:
            holder, sample = held.get(uuid), live.get(uuid)
            hidden = holder is not None and holder.job_id is None
            return None if sample is None or hidden else round(sample.utilization)

        use = {node.name: [percent(gpu.uuid) for gpu in gpus.get(node.pk, [])] for node in nodes}
        return Response({"use": use})


def _viewer(user: Any) -> str:
    """Return a digest of what the reader may know. When it changes, everything is new to them."""
    own = tenancy.own_names(user)
    names = "*" if own is None else ",".join(sorted(own))
    return hashlib.blake2b(names.encode(), digest_size=4).hexdigest()
