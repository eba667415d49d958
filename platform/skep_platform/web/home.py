"""REST of the page that a user sees first: own jobs, free GPUs, what waits, and own usage.

One request with a constant number of queries and a bounded answer, however many jobs, virtual
clusters and GPUs there are.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.db.models import Count
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.accounts.models import User
from skep_platform.cells.queries import current_state
from skep_platform.jobs import queries as jobs
from skep_platform.jobs.models import ACTIVE_JOB_STATES, Job
from skep_platform.jobs.serializers import JobSummarySerializer
from skep_platform.jobs.states import JobState
from skep_platform.tenancy.models import VirtualCluster
from skep_platform.usage import queries as usage
from skep_platform.usage.models import UsageRollup
from skep_platform.usage.serializers import SumsSerializer
from skep_scheduler import usage as gpus_of_vcs

MOST_JOBS = 5  # of each kind
MOST_VCS = 20
HEAVY = ("spec", "spec_text", "environment")


class HomeGpusSerializer(serializers.Serializer[Any]):
    gpu_model = serializers.CharField()
    owned = serializers.IntegerField()
    used = serializers.IntegerField(help_text="Of the owned ones, by guaranteed jobs.")
    free = serializers.IntegerField(help_text="A guaranteed job could have them now.")
    borrowed = serializers.IntegerField(help_text="Of others, used by opportunistic jobs.")


class HomeVcSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    role = serializers.CharField()
    gpus = HomeGpusSerializer(many=True)


class HomeSerializer(serializers.Serializer[Any]):
    states = serializers.DictField(
        child=serializers.IntegerField(), help_text="Your unfinished jobs by state."
    )
    running = JobSummarySerializer(many=True, help_text=f"The newest {MOST_JOBS}.")
    waiting = JobSummarySerializer(many=True, help_text=f"The newest {MOST_JOBS}.")
    failed = JobSummarySerializer(many=True, help_text=f"The newest {MOST_JOBS}.")
    submitted = serializers.BooleanField(help_text="You have submitted a job before.")
    virtual_clusters = HomeVcSerializer(many=True, help_text=f"At most {MOST_VCS} of yours.")
    usage = SumsSerializer(help_text="Your GPU time of this month (UTC).")


class HomeView(APIView):
    @extend_schema(operation_id="get_home", responses=HomeSerializer, tags=["cluster"])
    def get(self, request: Request) -> Response:
        """Return what concerns you now: your jobs, the free GPUs of your virtual clusters, and
        your usage of this month."""
        user = current_user.user(request)
        mine = Job.objects.filter(owner=user)
        active = mine.filter(state__in=ACTIVE_JOB_STATES).order_by()
        shown = {
            "running": _newest(user, JobState.RUNNING),
            "waiting": _newest(user, JobState.WAITING),
            "failed": _newest(user, JobState.FAILED),
        }
        jobs.jobs_for_reader(user, [job for found in shown.values() for job in found])
        body = shown | {
            "states": dict(active.values_list("state").annotate(n=Count("pk"))),
            "submitted": any(shown.values()) or mine.exists(),
            "virtual_clusters": _virtual_clusters(user),
            "usage": _usage(user),
        }
        return Response(HomeSerializer(body).data)


def _newest(user: User, state: str) -> list[Job]:
    rows = Job.objects.filter(owner=user, state=state).select_related("owner", "vc")
    return list(rows.defer(*HEAVY).order_by("-created_at")[:MOST_JOBS])


def _virtual_clusters(user: User) -> list[dict[str, Any]]:
    """Return the virtual clusters in which the user has a role, and their GPUs. One query."""
    rows = VirtualCluster.objects.filter(memberships__user_id=user.pk).order_by("name")
    roles = dict(rows.values_list("name", "memberships__role")[:MOST_VCS])
    with current_state() as state:
        uses = gpus_of_vcs.measure(state)
    gpus: dict[str, list[dict[str, Any]]] = {name: [] for name in roles}
    for (vc, model), use in sorted(uses.items()):
        if vc in gpus:
            gpus[vc].append({"gpu_model": model} | asdict(use))
    return [{"name": name, "role": role, "gpus": gpus[name]} for name, role in roles.items()]


def _usage(user: User) -> dict[str, Any]:
    first = timezone.now().date().replace(day=1)
    return usage.total(UsageRollup.objects.filter(user_id=user.pk, monthly=True, day__gte=first))
