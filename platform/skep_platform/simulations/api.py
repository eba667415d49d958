"""REST of simulations on the server: policies side by side, and what-if questions."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.core.api import Body, validated
from skep_platform.core.paging import page, paged
from skep_platform.simulations import forecasting, queries, running, services, what_if
from skep_platform.simulations.export_api import TAGS, SharesSerializer, with_window
from skep_platform.simulations.models import Simulation, SimulationState
from skep_platform.tenancy import queries as tenancy
from skep_scheduler import policies
from skep_scheduler.policies.families import FAMILY_OF, Family
from skep_scheduler.simulator.presets import registry

PLACEMENTS = ["cells", "nodes"]
MOST_POLICIES = 6
MOST_CHANGES = 20
MOST_GPUS = 100_000


class SimulatedPolicySerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    family = serializers.ChoiceField([family.value for family in Family])
    placements = serializers.ListField(child=serializers.ChoiceField(PLACEMENTS))


class SimulationOptionsSerializer(serializers.Serializer[Any]):
    policies = SimulatedPolicySerializer(many=True)
    virtual_clusters = serializers.ListField(
        child=serializers.CharField(), help_text="Those whose jobs you may simulate."
    )
    whole_cluster = serializers.BooleanField(help_text="You may simulate the whole cluster.")
    most_jobs = serializers.DictField(
        child=serializers.IntegerField(), help_text="Of one simulation, by placement."
    )
    most_policies = serializers.IntegerField()
    most_seconds = serializers.FloatField()


class ChangeBody(Body):
    virtual_cluster = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=63,
        help_text="Who gets or gives them; empty: no one owns them. From now on: whose quota "
        "changes; empty: whole nodes come or go.",
    )
    gpu_model = serializers.CharField(max_length=100)
    gpus = serializers.IntegerField(
        min_value=-MOST_GPUS, max_value=MOST_GPUS, help_text="More, or fewer than now."
    )


class SimulationBody(Body):
    virtual_cluster = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=63,
        help_text="Simulate it alone, on what it owns; empty: the whole cluster (admins).",
    )
    source = serializers.ChoiceField(  # type: ignore[assignment]
        ["history", "made_up", what_if.SOURCE],
        required=False,
        default="history",
        help_text="Jobs that ended, made-up ones, or those that wait and run now.",
    )
    since = serializers.DateTimeField(required=False)
    until = serializers.DateTimeField(required=False)
    jobs = serializers.IntegerField(
        required=False, default=500, min_value=1, max_value=50_000, help_text="Of made-up ones."
    )
    load = serializers.FloatField(
        required=False, default=0.9, min_value=0.05, max_value=5.0, help_text="Of made-up ones."
    )
    seed = serializers.IntegerField(required=False, default=0, min_value=0, max_value=999_999_999)
    policies = serializers.ListField(
        child=serializers.CharField(max_length=200),
        max_length=MOST_POLICIES,
        help_text="From now on: those to compare to the present one, may be empty.",
    )
    policy_of = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=63,
        help_text="From now on, of the whole cluster: the virtual cluster that gets the policies; "
        "empty: all.",
    )
    placement = serializers.ChoiceField(
        PLACEMENTS,
        required=False,
        default="cells",
        help_text="cells: as the live scheduler does it; nodes: faster, one pool of all GPUs.",
    )
    changes = ChangeBody(many=True, required=False, default=list)
    restart_s = serializers.FloatField(
        required=False, default=0.0, min_value=0.0, max_value=86_400.0
    )
    node_events = serializers.BooleanField(
        required=False,
        default=False,
        help_text="With history, cells and the whole cluster: nodes are drained, lost and come "
        "back when they were.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if len(attrs["changes"]) > MOST_CHANGES:
            raise serializers.ValidationError({"changes": [f"At most {MOST_CHANGES}."]})
        most = running.MOST_JOBS[attrs["placement"]]
        if attrs["source"] == "made_up" and attrs["jobs"] > most:
            raise serializers.ValidationError({"jobs": [f"At most {most} with this placement."]})
        now = attrs["source"] == what_if.SOURCE
        if not now and not attrs["policies"]:
            raise serializers.ValidationError({"policies": ["Name at least one policy."]})
        if now and attrs["placement"] != "cells":
            message = "What runs now is simulated with cells only."
            raise serializers.ValidationError({"placement": [message]})
        vc = attrs["virtual_cluster"]
        replays = attrs["source"] == "history" and attrs["placement"] == "cells" and not vc
        if attrs["node_events"] and not replays:
            message = "It goes with history, cells and the whole cluster."
            raise serializers.ValidationError({"node_events": [message]})
        if attrs["policy_of"] not in ("", vc) and (vc or not now):
            message = "It goes with `now` and the whole cluster."
            raise serializers.ValidationError({"policy_of": [message]})
        if vc and any(change["virtual_cluster"] not in ("", vc) for change in attrs["changes"]):
            message = "Only the virtual cluster that is simulated can change."
            raise serializers.ValidationError({"changes": [message]})
        return with_window(attrs)


class FiguresSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    jobs = serializers.IntegerField()
    finished = serializers.IntegerField()
    avg_jct_s = serializers.FloatField()
    p50_jct_s = serializers.FloatField()
    p95_jct_s = serializers.FloatField()
    p99_jct_s = serializers.FloatField()
    avg_wait_s = serializers.FloatField()
    p99_wait_s = serializers.FloatField()
    wait_max_s = serializers.FloatField(
        required=False,
        help_text="The longest wait of a job. Not in simulations of earlier versions.",
    )
    starved = serializers.IntegerField(
        required=False, help_text="Jobs that waited longer than `starved_after_s` in all."
    )
    starved_after_s = serializers.FloatField(required=False)
    makespan_s = serializers.FloatField()
    utilisation = serializers.FloatField()
    rho_max = serializers.FloatField()
    preemptions = serializers.IntegerField()
    deadlines = serializers.IntegerField()
    deadlines_met = serializers.IntegerField()


class SimulatedRunSerializer(serializers.Serializer[Any]):
    scenario = serializers.ChoiceField(["as_is", "changed"])
    figures = FiguresSerializer()
    series = serializers.ListField(
        child=serializers.ListField(child=serializers.FloatField()),
        help_text="[second, jobs that wait, GPUs in use]; the first job comes at 0 s.",
    )


class SimulationErrorSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()


class SimulationSummarySerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    owner = serializers.CharField()
    virtual_cluster = serializers.CharField(help_text="Empty: the whole cluster.")
    state = serializers.ChoiceField(SimulationState.values)
    source = serializers.CharField()  # type: ignore[assignment]
    policies = serializers.ListField(child=serializers.CharField())
    jobs_total = serializers.IntegerField(help_text="Of all runs together.")
    jobs_ended = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    error = SimulationErrorSerializer(allow_null=True)


class SimulationInputsSerializer(serializers.Serializer[Any]):
    since = serializers.DateTimeField(allow_null=True)
    until = serializers.DateTimeField(allow_null=True)
    jobs = serializers.IntegerField()
    load = serializers.FloatField()
    seed = serializers.IntegerField()
    placement = serializers.ChoiceField(PLACEMENTS)
    restart_s = serializers.FloatField()
    changes = SharesSerializer(many=True)
    policy_of = serializers.CharField(help_text="Empty: all virtual clusters.")
    node_events = serializers.BooleanField()


class ForecastSideSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    finished = serializers.IntegerField(help_text="Jobs that end; the figures are of these.")
    avg_wait_s = serializers.FloatField(help_text="From now on, or from the later submission.")
    p95_wait_s = serializers.FloatField()
    last_end_at = serializers.FloatField(help_text="Seconds since the epoch.")


class ChangedJobSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    owner = serializers.CharField()
    state = serializers.ChoiceField(forecasting.STATES)
    by_s = serializers.FloatField(help_text="Later by so much; negative: earlier.")
    old_end_at = serializers.FloatField(help_text="Seconds since the epoch, as the next one.")
    new_end_at = serializers.FloatField()


class PolicyForecastSerializer(serializers.Serializer[Any]):
    """The present queue of a virtual cluster under its policy and under another one."""

    at = serializers.FloatField(help_text="Seconds since the epoch: the moment it begins with.")
    running = serializers.IntegerField()
    waiting = serializers.IntegerField()
    recent = serializers.IntegerField(help_text="Jobs of the last week that come once more.")
    unknown_durations = serializers.IntegerField(
        help_text="Jobs without estimate: they run as long as the median job."
    )
    opportunistic = serializers.IntegerField(help_text="Jobs that are left out.")
    never_end = serializers.IntegerField(help_text="Jobs that never start under the new policy.")
    sides = ForecastSideSerializer(many=True, help_text="The present policy, then the other one.")
    gaining = serializers.IntegerField(help_text="Jobs that end at least a minute earlier.")
    losing = serializers.IntegerField(help_text="Jobs that end at least a minute later.")
    gains = ChangedJobSerializer(many=True, help_text="The ten that gain most, if you see them.")
    losses = ChangedJobSerializer(many=True, help_text="The ten that lose most, if you see them.")
    hidden = serializers.IntegerField(help_text="Of these twenty those that you may not see.")


class MovedJobSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    owner = serializers.CharField()
    state = serializers.ChoiceField(forecasting.STATES)
    by_s = serializers.FloatField(
        allow_null=True,
        help_text="It ends later by so much; negative: earlier. Null: in one of the two never.",
    )
    old_start_at = serializers.FloatField(
        allow_null=True, help_text="As the cluster is; seconds since the epoch. Null: never."
    )
    new_start_at = serializers.FloatField(allow_null=True)
    old_end_at = serializers.FloatField(allow_null=True)
    new_end_at = serializers.FloatField(allow_null=True)


class WhatIfSideSerializer(serializers.Serializer[Any]):
    """A run from now on. Starts and ends are of the jobs that wait, in seconds from now on."""

    scenario = serializers.ChoiceField(["as_is", "changed"])
    policy = serializers.CharField()
    starting = serializers.IntegerField(help_text="Jobs that wait now and start.")
    avg_start_s = serializers.FloatField()
    p95_start_s = serializers.FloatField()
    avg_end_s = serializers.FloatField()
    p95_end_s = serializers.FloatField()
    never_end = serializers.IntegerField(help_text="Jobs that never start, or never again.")
    gaining = serializers.IntegerField(
        help_text="Jobs that end at least a minute earlier than in the first run."
    )
    losing = serializers.IntegerField(help_text="At least a minute later, or not at all.")
    gains = MovedJobSerializer(many=True, help_text="The ten that gain most, if you see them.")
    losses = MovedJobSerializer(many=True, help_text="The ten that lose most, if you see them.")
    hidden = serializers.IntegerField(help_text="Of these twenty those that you may not see.")


class WhatIfSerializer(serializers.Serializer[Any]):
    """The jobs of now, as the cluster is (the first side) and as it would be (the others)."""

    at = serializers.FloatField(help_text="Seconds since the epoch: the moment it begins with.")
    running = serializers.IntegerField()
    waiting = serializers.IntegerField()
    unknown_durations = serializers.IntegerField(
        help_text="Jobs without estimate: they run as long as the median job."
    )
    opportunistic = serializers.IntegerField(help_text="Jobs that are left out.")
    sides = WhatIfSideSerializer(many=True, help_text="In the order of `runs`.")


class SimulationSerializer(SimulationSummarySerializer):
    request = SimulationInputsSerializer()
    runs = SimulatedRunSerializer(many=True, help_text="Empty until it has succeeded.")
    forecast = PolicyForecastSerializer(
        allow_null=True, help_text="Of the forecast of a policy, once it has succeeded."
    )
    now = WhatIfSerializer(
        allow_null=True, help_text="Of a simulation from now on, once it has succeeded."
    )


class SimulationsView(APIView):
    @paged("list_simulations", SimulationSummarySerializer, TAGS)
    def get(self, request: Request) -> Response:
        """List simulations, newest first: all for admins, those of their virtual clusters for VC
        admins."""
        rows = queries.visible_to(request.user).defer("result")
        return page(request, rows, _summaries, "id", descending=True)

    @extend_schema(
        operation_id="create_simulation",
        request=SimulationBody,
        responses={201: SimulationSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Simulate policies in the background. An admin may simulate the whole cluster, a VC admin
        the own virtual cluster. One at a time for each user."""
        body = validated(SimulationBody, request)
        vc = queries.scope(request.user, body.pop("virtual_cluster"))
        for name in ("since", "until"):
            body[name] = body[name].isoformat()
        create = what_if.ask if body["source"] == what_if.SOURCE else services.create
        made = create(current_user.user(request), vc, body)
        return Response(shown(request.user, made), status=201)


class SimulationView(APIView):
    @extend_schema(operation_id="get_simulation", responses=SimulationSerializer, tags=TAGS)
    def get(self, request: Request, id: UUID) -> Response:
        """Return a simulation, with the figures and the series of its runs once it has
        succeeded."""
        return Response(shown(request.user, queries.find(request.user, id)))


class SimulationStopView(APIView):
    @extend_schema(
        operation_id="stop_simulation", request=None, responses=SimulationSerializer, tags=TAGS
    )
    def post(self, request: Request, id: UUID) -> Response:
        """Stop a simulation. One that is over stays as it is."""
        found = queries.find(request.user, id)
        services.stop(found)
        return Response(shown(request.user, found))


class OptionsView(APIView):
    @extend_schema(
        operation_id="get_simulation_options", responses=SimulationOptionsSerializer, tags=TAGS
    )
    def get(self, request: Request) -> Response:
        """Return the policies that can be simulated, and what you may simulate."""
        user = request.user
        vcs = tenancy.visible_to(user).order_by("name")
        if not tenancy.is_admin(user):
            vcs = vcs.filter(pk__in=tenancy.managed_by(user))
        live, fast = policies.names(), registry.find("native").policies
        body = {
            "policies": [
                {
                    "name": name,
                    "family": FAMILY_OF[name],
                    "placements": [
                        *(["cells"] if name in live else []),
                        *(["nodes"] if name in fast else []),
                    ],
                }
                for name in [*live, *sorted(set(fast) - set(live))]
            ],
            "virtual_clusters": list(vcs.values_list("name", flat=True)),
            "whole_cluster": tenancy.is_admin(user),
            "most_jobs": running.MOST_JOBS,
            "most_policies": MOST_POLICIES,
            "most_seconds": running.MOST_S,
        }
        return Response(SimulationOptionsSerializer(body).data)


def _summaries(rows: list[Simulation]) -> list[Any]:
    return list(SimulationSummarySerializer([_summary(row) for row in rows], many=True).data)


def _summary(row: Simulation) -> dict[str, Any]:
    return {
        "id": row.pk,
        "owner": row.owner.get_username(),
        "virtual_cluster": row.vc.name if row.vc else "",
        "state": row.state,
        "source": row.request["source"],
        "policies": row.request["policies"],
        "jobs_total": row.jobs_total,
        "jobs_ended": row.jobs_ended,
        "created_at": row.created_at,
        "started_at": row.started_at,
        "finished_at": row.finished_at,
        "error": row.error,
    }


def shown(user: Any, row: Simulation) -> Any:
    """Return a simulation as its reader sees it."""
    stored = (row.result or {}).get("forecast")
    runs = (row.result or {}).get("runs", [])
    window: dict[str, Any] = {"since": None, "until": None}
    if row.request["source"] == "history":
        window = {name: datetime.fromisoformat(row.request[name]) for name in window}
    body = _summary(row) | {
        "request": {"policy_of": "", "node_events": False} | row.request | window,
        "runs": runs,
    }
    body["forecast"] = forecasting.shown(user, stored) if stored else None
    now = (row.result or {}).get("now")
    body["now"] = what_if.shown(user, now) if now else None
    return SimulationSerializer(body).data
