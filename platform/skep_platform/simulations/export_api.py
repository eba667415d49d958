"""REST of what the simulator reads: history as a trace, the cluster as it is, and what happened to
its nodes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.http import HttpResponse, StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.core.api import parameters
from skep_platform.core.throttling import Exports
from skep_platform.simulations import history, node_history
from skep_platform.simulations.history import MOST_SPAN
from skep_platform.tenancy import queries as tenancy
from skep_scheduler.simulator.command import plain_model

TAGS = ["simulations"]
SPAN = timedelta(days=30)  # of a window without a beginning


class TraceQuery(serializers.Serializer[Any]):
    since = serializers.DateTimeField(
        required=False, help_text="Jobs that were submitted from then on; default: 30 days ago."
    )
    until = serializers.DateTimeField(required=False, help_text="And before then; default: now.")
    virtual_cluster = serializers.CharField(
        required=False, max_length=63, help_text="Only its jobs."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        return with_window(attrs)


class WindowQuery(serializers.Serializer[Any]):
    since = serializers.DateTimeField(
        required=False, help_text="What happened from then on; default: 30 days ago."
    )
    until = serializers.DateTimeField(required=False, help_text="And before then; default: now.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        return with_window(attrs)


class SharesSerializer(serializers.Serializer[Any]):
    virtual_cluster = serializers.CharField()
    gpu_model = serializers.CharField()
    gpus = serializers.IntegerField()


class NodeGroupSerializer(serializers.Serializer[Any]):
    nodes = serializers.IntegerField()
    gpus = serializers.IntegerField(help_text="Of each node.")
    gpu_model = serializers.CharField()


class NamedNodeSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    gpus = serializers.IntegerField()
    gpu_model = serializers.CharField(help_text="As the shape names it.")


class SimulatedClusterQuery(serializers.Serializer[Any]):
    nodes = serializers.BooleanField(required=False, default=False, help_text="Name all nodes.")


class SimulatedClusterSerializer(serializers.Serializer[Any]):
    shape = serializers.CharField(help_text="As `skep simulate --cluster` takes it.")
    groups = NodeGroupSerializer(many=True)
    owned = SharesSerializer(many=True, help_text="By the virtual clusters that you may know.")
    nodes = NamedNodeSerializer(
        many=True, help_text="With `nodes=true`; one with GPUs of two models is two."
    )


class TraceView(APIView):
    throttle_classes = (Exports,)

    @extend_schema(
        operation_id="export_trace",
        parameters=[TraceQuery],
        responses={(200, "text/csv"): OpenApiTypes.STR},
        tags=TAGS,
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """Download the finished jobs that you may see as a trace for the simulator, by submission,
        at most 100,000."""
        asked = parameters(TraceQuery, request)
        name = asked.get("virtual_cluster")
        vc = tenancy.find(request.user, name).pk if name else None
        window = history.Window(asked["since"], asked["until"], vc)
        content = history.csv_pieces(request.user, window)
        answer = StreamingHttpResponse(content, content_type="text/csv; charset=utf-8")
        answer["Content-Disposition"] = 'attachment; filename="history.csv"'
        return answer


class SimulatedClusterView(APIView):
    @extend_schema(
        operation_id="get_simulated_cluster",
        parameters=[SimulatedClusterQuery],
        responses=SimulatedClusterSerializer,
        tags=TAGS,
    )
    def get(self, request: Request) -> Response:
        """Return the cluster as it is, for the simulator."""
        asked = parameters(SimulatedClusterQuery, request)
        known = history.cluster(request.user)
        named = node_history.parts() if asked["nodes"] else []
        body = {
            "shape": "+".join(
                f"{nodes}x{gpus}x{plain_model(model)}" for nodes, gpus, model in known.groups
            ),
            "groups": [
                {"nodes": nodes, "gpus": gpus, "gpu_model": model}
                for nodes, gpus, model in known.groups
            ],
            "owned": [
                {"virtual_cluster": vc, "gpu_model": model, "gpus": gpus}
                for vc, of_models in known.owned.items()
                for model, gpus in of_models.items()
            ],
            "nodes": [
                {"name": one.name, "gpus": one.gpus, "gpu_model": one.model} for one in named
            ],
        }
        return Response(SimulatedClusterSerializer(body).data)


class NodeEventsView(APIView):
    throttle_classes = (Exports,)

    @extend_schema(
        operation_id="export_node_events",
        parameters=[WindowQuery],
        responses={(200, "text/csv"): OpenApiTypes.STR},
        tags=TAGS,
    )
    def get(self, request: Request) -> HttpResponse:
        """Download what happened to the nodes that there are, for the simulator: they were drained,
        cordoned, lost, or came back. The first lines are of nodes that took no jobs at `since`."""
        asked = parameters(WindowQuery, request)
        text = node_history.events_csv(node_history.parts(), asked["since"], asked["until"])
        answer = HttpResponse(text, content_type="text/csv; charset=utf-8")
        answer["Content-Disposition"] = 'attachment; filename="node-events.csv"'
        return answer


def with_window(attrs: dict[str, Any]) -> dict[str, Any]:
    """Fill in the window that was left out. Raises ValidationError for one that is too long, or
    ends before it begins."""
    until: datetime = attrs.get("until") or timezone.now()
    since: datetime = attrs.get("since") or until - SPAN
    if not timedelta(0) < until - since <= MOST_SPAN:
        message = f"`since` is before `until`, by at most {MOST_SPAN.days} days."
        raise serializers.ValidationError({"since": [message]})
    return attrs | {"since": since, "until": until}
