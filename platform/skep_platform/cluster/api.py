"""REST: nodes with their GPUs, and how a node joins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform import env_settings
from skep_platform.accounts import current_user
from skep_platform.cluster import checks, floors, queries, services
from skep_platform.cluster.models import Device, JoinToken, NodeFault, NodeState
from skep_platform.core.api import AdminWrites, Body, IsAdmin, validated
from skep_platform.core.errors import NotFound
from skep_platform.core.paging import page, paged
from skep_platform.core.parsers import LargeJsonRenderer
from skep_platform.core.serving import gateway_url
from skep_platform.core.throttling import CountsGuesses

TAGS = ["nodes"]
DEFAULT_JOIN_TTL_S = 3600


class UsedBySerializer(serializers.Serializer[Any]):
    virtual_cluster = serializers.CharField(
        allow_null=True, help_text="Null: one that you do not belong to."
    )
    job_id = serializers.UUIDField(required=False, help_text="Only of a job that you may see.")
    job_name = serializers.CharField(required=False)


class GpuSerializer(serializers.Serializer[Any]):
    uuid = serializers.CharField()
    model = serializers.CharField()
    index = serializers.IntegerField()
    memory_mb = serializers.IntegerField()
    health = serializers.ChoiceField(Device.Health.values)
    problem = serializers.CharField(allow_blank=True)
    used_by = UsedBySerializer(allow_null=True)
    utilization = serializers.FloatField(allow_null=True, help_text="Percent.")
    memory_used_mb = serializers.IntegerField(allow_null=True)


class NodeWarningSerializer(serializers.Serializer[dict[str, str]]):
    code = serializers.CharField()
    message = serializers.CharField(help_text="What is wrong.")
    action = serializers.CharField(help_text="What to do.")


class BelowFloorSerializer(serializers.Serializer[Any]):
    component = serializers.CharField(help_text="runc, toolkit or driver.")
    version = serializers.CharField()
    floor = serializers.CharField(help_text="The first version with the fix.")
    cve = serializers.CharField()
    message = serializers.CharField()


class NodeSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    state = serializers.ChoiceField(NodeState.values)
    cordoned = serializers.BooleanField()
    cordon_reason = serializers.CharField(
        allow_blank=True, help_text="As the admin wrote, or what the platform found."
    )
    faults_24h = serializers.IntegerField(help_text="Tasks that failed by its fault of late.")
    draining = serializers.BooleanField(help_text="Its jobs were asked to go, and some are there.")
    empty = serializers.BooleanField(help_text="No task is there.")
    address = serializers.CharField(allow_blank=True)
    cpus = serializers.FloatField()
    memory_mb = serializers.IntegerField()
    runtime = serializers.CharField(allow_blank=True)
    driver_version = serializers.CharField(allow_blank=True)
    engine_version = serializers.CharField(allow_blank=True)
    network_problem = serializers.CharField(
        allow_blank=True, help_text="Why it cannot isolate tasks, and starts none; empty: it can."
    )
    warnings = NodeWarningSerializer(
        many=True, help_text="What its operator should see to; it runs tasks all the same."
    )
    below_floor = BelowFloorSerializer(
        many=True, help_text="Software of it that is too old to keep tenants apart."
    )
    agent_version = serializers.CharField(allow_blank=True)
    components = serializers.DictField(
        child=serializers.CharField(), help_text="Versions of runc, toolkit, kernel and firmware."
    )
    checks_needed = serializers.IntegerField(
        help_text="Rounds of checks that it has yet to pass before it is used again by itself."
    )
    maintenance_from = serializers.DateTimeField(
        allow_null=True, help_text="Of the window of maintenance that is on or comes next."
    )
    maintenance_until = serializers.DateTimeField(
        allow_null=True,
        help_text="Of that window, or of the last one that follows without a break.",
    )
    labels = serializers.DictField(child=serializers.CharField())
    last_heartbeat_at = serializers.DateTimeField(allow_null=True)
    lease_expires_at = serializers.DateTimeField(
        allow_null=True, help_text="Until then its tasks may run, also without a connection."
    )
    disk_free_mb = serializers.IntegerField(
        allow_null=True, help_text="Of the disk that holds its containers; null: not known."
    )
    disk_total_mb = serializers.IntegerField(allow_null=True)
    disk_low = serializers.BooleanField(help_text="That disk is nearly full.")
    log_bytes_waiting = serializers.IntegerField(
        help_text="Output that the node has read and the log store has not taken yet."
    )
    gpus = GpuSerializer(many=True)


class FaultSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    code = serializers.IntegerField(help_text="Of the diagnosis.")
    name = serializers.CharField()
    evidence = serializers.CharField(
        allow_blank=True, help_text="A line of a log only where you may see the job."
    )
    counts = serializers.BooleanField(help_text="Towards taking the node out of use.")
    attempt_id = serializers.UUIDField(allow_null=True, help_text="Null: you may not see the job.")
    virtual_cluster = serializers.CharField(
        allow_null=True, help_text="Null: one that you do not belong to."
    )
    job_id = serializers.UUIDField(allow_null=True, help_text="Null: you may not see the job.")
    job_name = serializers.CharField(allow_null=True)


class JoinTokenSerializer(serializers.Serializer[Any]):
    token = serializers.CharField(help_text="Shown only once; lets nodes join.")
    expires_at = serializers.DateTimeField()
    command = serializers.CharField(help_text="What to type on the new node.")


class JoinTokenRowSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    created_by = serializers.CharField(allow_null=True, help_text="Null: the one-box supervisor.")
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    uses_left = serializers.IntegerField()
    node = serializers.CharField(allow_blank=True, help_text="Only for it; empty: any new one.")


class JoinedSerializer(serializers.Serializer[Any]):
    node_id = serializers.UUIDField()
    name = serializers.CharField()
    credential = serializers.CharField(help_text="Shown only once.")
    gateway_url = serializers.CharField(
        allow_blank=True, help_text="Where the agent connects; empty: at the address it joined."
    )


class NodeBody(Body):
    labels = serializers.DictField(
        child=serializers.CharField(max_length=63, allow_null=True),
        help_text="rack, fabric: overrule what the agent reports; null goes back to that.",
    )


class ReasonBody(Body):
    reason = serializers.CharField(
        max_length=300, required=False, allow_blank=True, help_text="Shown with the node."
    )


class JoinTokenBody(Body):
    expires_in_s = serializers.IntegerField(
        min_value=1, required=False, help_text="Default: an hour; at most 30 days."
    )
    nodes = serializers.IntegerField(
        min_value=1, max_value=100_000, required=False, help_text="How many may join; default 1."
    )
    node = serializers.CharField(
        max_length=63,
        required=False,
        help_text="Only a node of this name may join, also in the place of one that is lost.",
    )


class JoinBody(Body):
    token = serializers.CharField(max_length=200)
    name = serializers.CharField(max_length=63)
    instance_id = serializers.CharField(max_length=64)


class NodesView(APIView):
    renderer_classes = (LargeJsonRenderer,)

    @paged(
        "list_nodes",
        NodeSerializer,
        TAGS,
        OpenApiParameter("state", str, description="Comma-separated states."),
        OpenApiParameter("gpu_model", str),
        OpenApiParameter("search", str, description="Part of the name."),
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        rows = queries.matching(
            queries.nodes(),
            query.get("state", ""),
            query.get("gpu_model", ""),
            query.get("search", ""),
        )
        shown = partial(show, request.user)
        return page(request, queries.as_rows(rows), shown, "name")


class NodeView(APIView):
    permission_classes = (AdminWrites,)

    @extend_schema(operation_id="get_node", responses=NodeSerializer, tags=TAGS)
    def get(self, request: Request, name: str) -> Response:
        return _one(request, name)

    @extend_schema(
        operation_id="update_node", request=NodeBody, responses=NodeSerializer, tags=TAGS
    )
    def patch(self, request: Request, name: str) -> Response:
        services.set_labels(
            current_user.user(request), name, validated(NodeBody, request)["labels"]
        )
        return _one(request, name)

    @extend_schema(operation_id="remove_node", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, name: str) -> Response:
        """Remove a node on which nothing runs. Its credential is worthless from then on."""
        services.remove_node(current_user.user(request), name)
        return Response(status=204)


class FaultsView(APIView):
    @paged("list_node_faults", FaultSerializer, TAGS)
    def get(self, request: Request, name: str) -> Response:
        """List the tasks that failed by the node's fault, newest first."""
        rows = NodeFault.objects.filter(node=queries.find(name))
        return page(
            request, rows, lambda faults: show_faults(request.user, faults), "id", descending=True
        )


class CordonView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(
        operation_id="cordon_node", request=ReasonBody, responses=NodeSerializer, tags=TAGS
    )
    def post(self, request: Request, name: str) -> Response:
        """Place nothing new on the node; what runs there goes on. To make it leave, drain the
        node."""
        services.cordon(current_user.user(request), name, reason_of(request))
        return _one(request, name)


class UncordonView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(operation_id="uncordon_node", request=None, responses=NodeSerializer, tags=TAGS)
    def post(self, request: Request, name: str) -> Response:
        services.uncordon(current_user.user(request), name)
        return _one(request, name)


class DeclareLostView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(
        operation_id="declare_node_lost", request=None, responses=NodeSerializer, tags=TAGS
    )
    def post(self, request: Request, name: str) -> Response:
        """Declare a node lost before its lease is over: its tasks count as lost, and start on other
        nodes. Do this only when the machine is surely off; else they run twice."""
        services.declare_lost(current_user.user(request), name)
        return _one(request, name)


class JoinTokensView(APIView):
    permission_classes = (IsAdmin,)

    @paged("list_join_tokens", JoinTokenRowSerializer, TAGS)
    def get(self, request: Request) -> Response:
        """List the join tokens that still let nodes in, newest first; never their secrets."""
        return page(request, services.join_tokens(), show_join_tokens, "id", descending=True)

    @extend_schema(
        operation_id="create_join_token",
        request=JoinTokenBody,
        responses={201: JoinTokenSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Create a join token, for one node unless the request asks for more."""
        asked = validated(JoinTokenBody, request)
        ttl = asked.get("expires_in_s", DEFAULT_JOIN_TTL_S)
        nodes, node = asked.get("nodes", 1), asked.get("node", "")
        row, token = services.issue_join_token(current_user.user(request), ttl, nodes, node)
        command = f"skep-agent join --server {settings.SKEP_PUBLIC_URL} --token {token}"
        if env_settings.public_url_problem(settings.SKEP_PUBLIC_URL, allow_http=False):
            command += " --allow-http"
        answer = {"token": token, "expires_at": row.expires_at, "command": command}
        return Response(JoinTokenSerializer(answer).data, status=201)


class JoinTokenView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(operation_id="revoke_join_token", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, token_id: UUID) -> Response:
        """Revoke a join token. Nodes that joined with it stay."""
        services.revoke_join_token(current_user.user(request), token_id)
        return Response(status=204)


class JoinView(CountsGuesses):
    authentication_classes = ()
    permission_classes = (AllowAny,)

    @extend_schema(
        operation_id="join_node",
        request=JoinBody,
        responses={201: JoinedSerializer},
        auth=[],
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Exchange a join token for a node's credential, as `skep-agent join` does."""
        with transaction.atomic():
            node, credential = services.join_node(**validated(JoinBody, request))
            checks.joined(node)
        answer = {"node_id": node.pk, "name": node.name, "credential": credential}
        answer["gateway_url"] = gateway_url(request.get_host())
        return Response(JoinedSerializer(answer).data, status=201)


def show(user: Any, nodes: list[dict[str, Any]]) -> list[Any]:
    """Return rows of `queries.as_rows` as JSON; a fixed number of queries, however many there
    are."""
    ids = [node["id"] for node in nodes]
    online = [node["id"] for node in nodes if node["state"] == NodeState.ONLINE]
    held, live, gpus = queries.holders(user, ids), queries.live(online), queries.gpus(ids)
    return [_node(node, gpus.get(node["id"], []), held, live) for node in nodes]


def show_one(user: Any, name: str) -> Any:
    """Return one node as JSON. Raises NotFound."""
    node = queries.as_rows(queries.nodes().filter(name=name)).first()
    if node is None:
        raise NotFound(f"There is no node named {name}.")
    return show(user, [node])[0]


def reason_of(request: Request) -> str:
    """Return why an admin takes a node out of use; "" where they did not say."""
    return str(validated(ReasonBody, request).get("reason", "")).strip()


def show_join_tokens(tokens: list[JoinToken]) -> list[Any]:
    """Return join tokens as JSON, without their secrets, of which only hashes are kept."""
    return [
        {
            "id": token.pk,
            "created_by": token.created_by.get_username() if token.created_by else None,
            "created_at": token.created_at,
            "expires_at": token.expires_at,
            "uses_left": token.uses_left,
            "node": token.node_name,
        }
        for token in tokens
    ]


def show_faults(user: Any, faults: list[NodeFault]) -> list[Any]:
    """Return faults as JSON, with a fixed number of queries."""
    failed = queries.failed_jobs(user, faults)
    return [_fault(fault, failed.get(fault.attempt_id)) for fault in faults]


def _fault(fault: NodeFault, failed: queries.Holder | None) -> dict[str, Any]:
    hidden = failed is None or failed.job_id is None
    return {
        "id": fault.pk,
        "at": fault.at,
        "code": fault.code,
        "name": fault.name,
        "evidence": "" if hidden and fault.from_log else fault.evidence,
        "counts": fault.witness is not None,
        "attempt_id": None if hidden else fault.attempt_id,
        "virtual_cluster": failed.virtual_cluster if failed else None,
        "job_id": failed.job_id if failed else None,
        "job_name": failed.job_name if failed else None,
    }


PLAIN = (
    *("id", "name", "state", "cordoned", "cordon_reason", "faults_24h", "address", "memory_mb"),
    *("runtime", "driver_version", "engine_version", "network_problem", "agent_version", "labels"),
    *("last_heartbeat_at", "lease_expires_at", "disk_free_mb", "disk_total_mb"),
    *("log_bytes_waiting", "components", "checks_needed"),
    *("maintenance_from", "maintenance_until", "warnings"),
)  # columns that are shown as they are


def _node(
    node: Mapping[str, Any],
    gpus: list[queries.Gpu],
    held: Mapping[str, queries.Holder],
    live: Mapping[str, queries.Live],
) -> dict[str, Any]:
    versions = node["components"] | {"driver": node["driver_version"]}
    return {
        **{name: node[name] for name in PLAIN},
        "draining": node["draining"] and node["busy"],
        "empty": not node["busy"],
        "cpus": node["cpu_millis"] / 1000,
        "below_floor": [asdict(one) for one in floors.below(versions)],
        "disk_low": queries.disk_low(node["disk_free_mb"], node["disk_total_mb"]),
        "gpus": [_gpu(gpu, held.get(gpu.uuid), live.get(gpu.uuid)) for gpu in gpus],
    }


def _gpu(
    gpu: queries.Gpu, holder: queries.Holder | None, live: queries.Live | None
) -> dict[str, Any]:
    if holder and holder.job_id is None:  # the metrics of a job are for those who may see it
        live = None
    return {
        "uuid": gpu.uuid,
        "model": gpu.model,
        "index": gpu.number,
        "memory_mb": gpu.memory_mb,
        "health": gpu.health,
        "problem": gpu.problem,
        "used_by": _used_by(holder) if holder else None,
        "utilization": live.utilization if live else None,
        "memory_used_mb": live.memory_used_mb if live else None,
    }


def _used_by(holder: queries.Holder) -> dict[str, Any]:
    if holder.job_id is None:
        return {"virtual_cluster": holder.virtual_cluster}
    return {
        "job_id": holder.job_id,
        "job_name": holder.job_name,
        "virtual_cluster": holder.virtual_cluster,
    }


def _one(request: Request, name: str) -> Response:
    return Response(show_one(request.user, name))
