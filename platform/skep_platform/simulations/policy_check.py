"""What a policy asks of jobs, beside the jobs that a virtual cluster has now."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Exists, OuterRef, Q
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
# Which jobs lack a fact: `expected_s`, `deadline_at` and `predicted_s` of the scheduler.
LACKING: dict[str, Q] = {
    Knows.DURATION.value: Q(predicted_s=None, duration_s=None),
    Knows.DEADLINE.value: Q(deadline_at=None),
    Knows.HISTORY.value: Q(predicted_s=None),
}
Serializer = serializers.Serializer[Any]


class NamedJobSerializer(Serializer):
    id = serializers.UUIDField()
    name = serializers.CharField()


class LackingFactSerializer(Serializer):
    fact = serializers.ChoiceField(
        list(LACKING),
        help_text="What the policy must know of a job: its `duration`, its `deadline`, or "
        "`history`: earlier jobs that were like it.",
    )
    jobs = serializers.IntegerField(help_text="Jobs of which that is not known.")
    examples = NamedJobSerializer(many=True, help_text=f"The newest {EXAMPLES} of them.")


class PolicyCheckSerializer(Serializer):
    jobs = serializers.IntegerField(
        help_text="Jobs of the virtual cluster that wait or run, but for opportunistic ones, which "
        "no policy orders."
    )
    lacking = LackingFactSerializer(many=True, help_text="One for each fact that it must know.")
    otherwise = serializers.CharField(
        allow_blank=True, help_text="What happens to a job of which one of them is not known."
    )
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
        """Say what a policy must know of jobs, and how many of the present jobs of a virtual
        cluster lack it. Changes nothing. For its VC admins and admins."""
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
    active = [JobState.WAITING, JobState.RUNNING]
    jobs = Job.objects.filter(vc=vc, state__in=active, priority__gte=0)
    elastic = Exists(TaskRole.objects.filter(job=OuterRef("pk"), elastic_max__isnull=False))
    lacking = {fact: LACKING[fact] for fact in demands.facts}
    counted = jobs.aggregate(
        all=Count("pk"),
        fixed=Count("pk", filter=Q(preemptible=False)),
        **{fact: Count("pk", filter=lacks) for fact, lacks in lacking.items()},
    )
    return {
        "jobs": counted["all"],
        "lacking": [
            {
                "fact": fact,
                "jobs": counted[fact],
                "examples": list(
                    jobs.filter(lacks).order_by("-created_at").values("id", "name")[:EXAMPLES]
                )
                if counted[fact]
                else [],
            }
            for fact, lacks in lacking.items()
        ],
        "otherwise": demands.otherwise,
        "preempts": demands.preempts,
        "not_preemptible": counted["fixed"],
        "resizes": demands.resizes,
        "elastic": jobs.filter(elastic).count() if demands.resizes else 0,
    }
