"""REST: nodes with their GPUs, and how a node joins."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.conf import settings
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import acting
from skep_platform.cluster import floors, queries, services
from skep_platform.cluster.models import Device, JoinToken, Node, NodeFault, NodeState
from skep_platform.core.addresses import gateway_url
from skep_platform.core.api import AdminWrites, Body, IsAdmin, page, validated
from skep_platform.core.schema import PAGE_PARAMETERS, page_of

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
        allow_blank=True, help_text="Why it was cordoned; empty where an admin did it."
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
    below_floor = BelowFloorSerializer(
        many=True, help_text="Software of it that is too old to keep tenants apart."
    )
    agent_version = serializers.CharField(allow_blank=True)
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
    token = serializers.CharField(help_text="Told only here; lets nodes join.")
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
    credential = serializers.CharField(help_text="Told only here.")
    gateway_url = serializers.CharField(
        allow_blank=True, help_text="Where the agent connects; empty: at the address it joined."
    )


class NodeBody(Body):
    labels = serializers.DictField(
        child=serializers.CharField(max_length=63, allow_null=True),
        help_text="rack, fabric: overrule what the agent reports; null goes back to that.",
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
    @extend_schema(
        operation_id="list_nodes",
        parameters=[
            *PAGE_PARAMETERS,
            OpenApiParameter("state", str, description="Comma-separated states."),
            OpenApiParameter("gpu_model", str),
            OpenApiParameter("search", str, description="Part of the name."),
        ],
        responses=page_of(NodeSerializer),
        tags=TAGS,
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        rows = queries.matching(
            queries.nodes(),
            query.get("state", ""),
            query.get("gpu_model", ""),
            query.get("search", ""),
        )
        return page(self, request, rows, lambda nodes: show(request.user, nodes), "name")


class NodeView(APIView):
    permission_classes = (AdminWrites,)

    @extend_schema(operation_id="get_node", responses=NodeSerializer, tags=TAGS)
    def get(self, request: Request, name: str) -> Response:
        return _one(request, name)

    @extend_schema(
        operation_id="update_node", request=NodeBody, responses=NodeSerializer, tags=TAGS
    )
    def patch(self, request: Request, name: str) -> Response:
        services.set_labels(acting.user(request), name, validated(NodeBody, request)["labels"])
        return _one(request, name)

    @extend_schema(operation_id="remove_node", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, name: str) -> Response:
        """Only when nothing runs there. Its credential is worthless from then on."""
        services.remove_node(acting.user(request), name)
        return Response(status=204)


class FaultsView(APIView):
    @extend_schema(
        operation_id="list_node_faults",
        parameters=PAGE_PARAMETERS,
        responses=page_of(FaultSerializer),
        tags=TAGS,
    )
    def get(self, request: Request, name: str) -> Response:
        """Tasks that failed by the node's fault, newest first."""
        rows = NodeFault.objects.filter(node=queries.find(name))
        return page(self, request, rows, lambda faults: show_faults(request.user, faults), "-id")


class CordonView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(operation_id="cordon_node", request=None, responses=NodeSerializer, tags=TAGS)
    def post(self, request: Request, name: str) -> Response:
        """Nothing new is placed there; what runs goes on. (To make it go, drain.)"""
        services.cordon(acting.user(request), name)
        return _one(request, name)


class UncordonView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(operation_id="uncordon_node", request=None, responses=NodeSerializer, tags=TAGS)
    def post(self, request: Request, name: str) -> Response:
        services.uncordon(acting.user(request), name)
        return _one(request, name)


class DeclareLostView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(
        operation_id="declare_node_lost", request=None, responses=NodeSerializer, tags=TAGS
    )
    def post(self, request: Request, name: str) -> Response:
        """Do not wait until its lease is over: its tasks count as lost, and start elsewhere. Only
        when its machine is surely off; else they run twice."""
        services.declare_lost(acting.user(request), name)
        return _one(request, name)


class JoinTokensView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(
        operation_id="list_join_tokens",
        parameters=PAGE_PARAMETERS,
        responses=page_of(JoinTokenRowSerializer),
        tags=TAGS,
    )
    def get(self, request: Request) -> Response:
        """Those that still let nodes in, newest first; never the tokens themselves."""
        return page(self, request, services.join_tokens(), show_join_tokens, "-id")

    @extend_schema(
        operation_id="create_join_token",
        request=JoinTokenBody,
        responses={201: JoinTokenSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Works for one node, unless asked for more: then mind who can read it."""
        asked = validated(JoinTokenBody, request)
        ttl = asked.get("expires_in_s", DEFAULT_JOIN_TTL_S)
        nodes, node = asked.get("nodes", 1), asked.get("node", "")
        row, token = services.issue_join_token(acting.user(request), ttl, nodes, node)
        command = f"skep-agent join --server {settings.SKEP_PUBLIC_URL} --token {token}"
        answer = {"token": token, "expires_at": row.expires_at, "command": command}
        return Response(JoinTokenSerializer(answer).data, status=201)


class JoinTokenView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(operation_id="revoke_join_token", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, token_id: UUID) -> Response:
        """It lets nobody in from now on; nodes that joined with it stay."""
        services.revoke_join_token(acting.user(request), token_id)
        return Response(status=204)


class JoinView(APIView):
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
        """What `skep-agent join` calls: trades a join token for a node's credential."""
        node, credential = services.join_node(**validated(JoinBody, request))
        answer = {"node_id": node.pk, "name": node.name, "credential": credential}
        answer["gateway_url"] = gateway_url(request.get_host())
        return Response(JoinedSerializer(answer).data, status=201)


def show(user: Any, nodes: list[Node]) -> list[Any]:
    """Nodes from `queries.nodes()` as JSON; a fixed number of queries, however many they are."""
    held, live = queries.holders(user, nodes), queries.live(nodes)
    gpus = queries.gpus(nodes)
    return [_node(node, gpus.get(node.pk, []), held, live) for node in nodes]


def show_join_tokens(tokens: list[JoinToken]) -> list[Any]:
    """As JSON, without the secrets, of which only hashes are kept."""
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
    """As JSON; a fixed number of queries, however many they are."""
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


def _node(
    node: Any,
    gpus: list[queries.Gpu],
    held: dict[str, queries.Holder],
    live: dict[str, queries.Live],
) -> dict[str, Any]:
    return {
        "id": node.pk,
        "name": node.name,
        "state": node.state,
        "cordoned": node.cordoned,
        "cordon_reason": node.cordon_reason,
        "faults_24h": node.faults_24h,
        "draining": node.draining and node.busy,
        "empty": not node.busy,
        "address": node.address,
        "cpus": node.cpu_millis / 1000,
        "memory_mb": node.memory_mb,
        "runtime": node.runtime,
        "driver_version": node.driver_version,
        "engine_version": node.engine_version,
        "network_problem": node.network_problem,
        "below_floor": [
            asdict(one) for one in floors.below(node.components | {"driver": node.driver_version})
        ],
        "agent_version": node.agent_version,
        "labels": node.labels,
        "last_heartbeat_at": node.last_heartbeat_at,
        "lease_expires_at": node.lease_expires_at,
        "disk_free_mb": node.disk_free_mb,
        "disk_total_mb": node.disk_total_mb,
        "disk_low": queries.disk_low(node),
        "log_bytes_waiting": node.log_bytes_waiting,
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
        "index": gpu.index,
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
    return Response(show(request.user, [queries.find(name)])[0])
