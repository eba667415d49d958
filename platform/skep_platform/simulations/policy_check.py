"""What a policy asks of jobs, beside the jobs that a virtual cluster has now and those that ended
lately."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q, Sum
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.core.api import validated
from skep_platform.core.errors import SkepError
from skep_platform.jobs.models import Job, TaskRole
from skep_platform.jobs.states import JobState
from skep_platform.simulations import api, queries
from skep_platform.tenancy.api import PolicyChoiceBody
from skep_platform.tenancy.models import VirtualCluster
from skep_platform.tenancy.services import choice_of
from skep_scheduler import policies
from skep_scheduler.policies.base import Knows

EXAMPLES = 3
LAST_DAYS = 30
MOST_ENDED = 5_000  # jobs of the past that are looked at, the newest ones
US_OF_HOUR = 3_600_000_000
MEASURED = KT("prediction__leave_s"), KT("prediction__warmup_s")
# Which jobs lack a fact: `expected_s`, `deadline_at`, `predicted_s`, `speeds`, the `speedup` of its
# elastic role, and `restart_s` of the scheduler.
LACKING: dict[str, Q] = {
    Knows.DURATION.value: Q(predicted_s=None, duration_s=None),
    Knows.DEADLINE.value: Q(deadline_at=None),
    Knows.HISTORY.value: Q(predicted_s=None),
    # Of a key, "=None" would ask for the null of JSON.
    Knows.SPEEDS.value: Q(known_speeds__isnull=True),
    Knows.SPEEDUP.value: Q(is_elastic=True, known_speedup__isnull=True),
    Knows.RESTART.value: Q(known_leave__isnull=True, known_warmup__isnull=True),
}
# What is read of jobs to see it, where the fact is asked for.
READ: dict[str, dict[str, Any]] = {
    Knows.SPEEDS.value: {"known_speeds": KT("spec__extras__skep__speeds")},
    Knows.SPEEDUP.value: {"known_speedup": KT("spec__extras__skep__elastic__speedup")},
    Knows.RESTART.value: dict(zip(("known_leave", "known_warmup"), MEASURED, strict=True)),
}
FACT = (
    "`duration`, `deadline`, `history` (earlier jobs that were like it), `speeds` (on each GPU "
    "model), `speedup` (of an elastic job, at each size) or `restart` (what it costs, as measured)."
)
Serializer = serializers.Serializer[Any]


class NamedJobSerializer(Serializer):
    id = serializers.UUIDField()
    name = serializers.CharField()


class LackingFactSerializer(Serializer):
    fact = serializers.ChoiceField(list(LACKING), help_text=FACT)
    jobs = serializers.IntegerField(help_text="Jobs of which that is not known.")
    examples = NamedJobSerializer(many=True, help_text=f"The newest {EXAMPLES} of them.")
    ended_jobs = serializers.IntegerField(help_text="The same, of the jobs in `ended`.")
    ended_share = serializers.FloatField(
        allow_null=True,
        help_text="Their part of the GPU time of all jobs in `ended`, 0 to 1. Null: there is none.",
    )


class AssumedFactSerializer(LackingFactSerializer):
    otherwise = serializers.CharField(help_text="What the policy takes for true of such a job.")


class EndedJobsSerializer(Serializer):
    days = serializers.IntegerField(help_text="They were submitted in so many days.")
    jobs = serializers.IntegerField(
        help_text=f"Jobs that ended, of the newest {MOST_ENDED} of that time."
    )
    gpu_hours = serializers.FloatField(help_text="The GPU time of these.")


class PolicyCheckSerializer(Serializer):
    jobs = serializers.IntegerField(
        help_text="Jobs of the virtual cluster that wait or run, but for opportunistic ones, which "
        "no policy orders."
    )
    lacking = LackingFactSerializer(many=True, help_text="One for each fact that it must know.")
    otherwise = serializers.CharField(
        allow_blank=True, help_text="What happens to a job of which one of them is not known."
    )
    assumed = AssumedFactSerializer(
        many=True,
        help_text="One for each fact that it also decides by, and does without where it must.",
    )
    ended = EndedJobsSerializer()
    preempts = serializers.BooleanField(
        help_text="Whether running jobs yield to others of the same priority."
    )
    not_preemptible = serializers.IntegerField(help_text="Jobs that never yield.")
    resizes = serializers.BooleanField(
        help_text="Whether it chooses with how many tasks elastic jobs run."
    )
    elastic = serializers.IntegerField(help_text="Jobs whose size it may choose.")


class PolicyCheckView(APIView):
    @extend_schema(
        operation_id="check_policy",
        request=PolicyChoiceBody,
        responses=PolicyCheckSerializer,
        tags=api.TAGS,
    )
    def post(self, request: Request, name: str) -> Response:
        """Say what a policy must know of jobs and what it assumes, and how many of the present
        jobs of a virtual cluster lack it, and of those that ended in the last 30 days. Changes
        nothing. For its VC admins and admins."""
        vc = queries.scope(request.user, name)
        assert vc is not None
        body = validated(PolicyChoiceBody, request)
        wanted = {"name": body["name"], "parameters": body.get("parameters", {})}
        return Response(PolicyCheckSerializer(check(vc, wanted)).data)


def check(vc: VirtualCluster, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `PolicyCheckSerializer` for a policy `{name, parameters}`. Raises
    SkepError for one that a virtual cluster cannot have."""
    try:
        demands = policies.demands(choice_of(wanted))
    except policies.PolicyError as error:
        raise SkepError(error.message, code=error.code, **error.details) from None
    asked = (*demands.facts, *(fact for fact, _ in demands.assumed))
    elastic = Exists(TaskRole.objects.filter(job=OuterRef("pk"), elastic_max__isnull=False))
    reads = {name: read for fact in asked for name, read in READ.get(fact, {}).items()}
    lacking = {fact: LACKING[fact] for fact in asked}
    if Knows.RESTART.value in lacking:  # it matters where a job may have to leave
        leaves = Q(is_elastic=True) if demands.resizes else Q(preemptible=True)
        lacking[Knows.RESTART.value] &= leaves
    active = [JobState.WAITING, JobState.RUNNING]
    jobs = Job.objects.filter(vc=vc, state__in=active, priority__gte=0)
    jobs = jobs.annotate(is_elastic=elastic, **reads)
    counted = jobs.aggregate(
        all=Count("pk"),
        fixed=Count("pk", filter=Q(preemptible=False)),
        elastic=Count("pk", filter=Q(is_elastic=True)),
        **{fact: Count("pk", filter=lacks) for fact, lacks in lacking.items()},
    )
    past = _ended(vc, lacking, {"is_elastic": elastic, **reads})

    def line(fact: str) -> dict[str, Any]:
        newest = jobs.filter(lacking[fact]).order_by("-created_at").values("id", "name")
        return {
            "fact": fact,
            "jobs": counted[fact],
            "examples": list(newest[:EXAMPLES]) if counted[fact] else [],
            "ended_jobs": past[fact],
            "ended_share": past[f"{fact}_us"] / past["us"] if past["us"] else None,
        }

    return {
        "jobs": counted["all"],
        "lacking": [line(fact) for fact in demands.facts],
        "otherwise": demands.otherwise,
        "assumed": [line(fact) | {"otherwise": text} for fact, text in demands.assumed],
        "ended": {
            "days": LAST_DAYS,
            "jobs": past["all"],
            "gpu_hours": round(past["us"] / US_OF_HOUR, 3),
        },
        "preempts": demands.preempts,
        "not_preemptible": counted["fixed"],
        "resizes": demands.resizes,
        "elastic": counted["elastic"] if demands.resizes else 0,
    }


def _ended(
    vc: VirtualCluster, lacking: Mapping[str, Q], reads: Mapping[str, Any]
) -> dict[str, int]:
    """Return how many guaranteed jobs of the last days ended, and their GPU time (microseconds):
    of `all` and `us`, and of those that lack each fact. One query, which reads the newest
    MOST_ENDED jobs of the virtual cluster at most, by the index of its jobs."""
    since = timezone.now() - timedelta(days=LAST_DAYS)
    newest = Job.objects.filter(vc=vc, created_at__gte=since).order_by("-created_at")
    found = Job.objects.filter(
        pk__in=newest.values("pk")[:MOST_ENDED], finished_at__isnull=False, priority__gte=0
    )
    gpu_us = Coalesce(F("usage_sums__allocated_us"), 0)
    counted = found.annotate(**reads, gpu_us=gpu_us).aggregate(
        all=Count("pk"),
        us=Sum("gpu_us"),
        **{fact: Count("pk", filter=lacks) for fact, lacks in lacking.items()},
        **{f"{fact}_us": Sum("gpu_us", filter=lacks) for fact, lacks in lacking.items()},
    )
    return {name: int(value or 0) for name, value in counted.items()}
