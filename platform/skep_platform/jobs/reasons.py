"""How the reasons of waiting jobs look over REST: for each code, what is in its `details`.

The scheduler and the platform write reasons as plain data and readers get them as they are stored,
so nothing here runs when a job is read. It gives clients a union that `code` discriminates, and
tests hold every reason that is written against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema_field
from rest_framework import serializers

from skep_scheduler.model import Code

Serializer = serializers.Serializer[Any]

SECONDS = "Seconds since the epoch."
NOT_YOURS = "Null for a job that the reader may not see."


class ReasonSerializer(Serializer):
    """A reason of any kind: a stable code, one sentence, the numbers behind it."""

    code = serializers.CharField()
    message = serializers.CharField()
    details = serializers.DictField()


class NeedsSerializer(Serializer):
    """What a gang asks for."""

    gpus = serializers.IntegerField(help_text="Of all tasks.")
    gpu_model = serializers.CharField(allow_blank=True, help_text="Empty: any model would do.")
    tasks = serializers.IntegerField()
    shape = serializers.CharField(help_text='As in "2 nodes of 8 A100 within one rack".')
    whole_nodes = serializers.BooleanField(help_text="Each task fills a node.")


class OwnedNodesSerializer(Serializer):
    """Whole nodes, for a gang that needs such."""

    owns = serializers.IntegerField()
    used = serializers.IntegerField()
    bad = serializers.IntegerField()
    cordoned = serializers.IntegerField()
    offline = serializers.IntegerField()


class UsingJobSerializer(Serializer):
    """A job that uses what another one waits for."""

    gang = serializers.CharField(allow_null=True, help_text=NOT_YOURS)
    name = serializers.CharField(allow_null=True, required=False, help_text=NOT_YOURS)
    gpus = serializers.IntegerField()
    until = serializers.FloatField(allow_null=True, help_text=f"{SECONDS} Null: not known.")


class AmountSerializer(Serializer):
    """CPU and memory of a task or a node."""

    gpus = serializers.IntegerField(required=False)
    cpu_millis = serializers.IntegerField()
    memory_mb = serializers.IntegerField()


class StandingSerializer(Serializer):
    """Where a job stands under the policy of its virtual cluster; which numbers there are depends
    on the policy."""

    policy = serializers.CharField()
    served_gpu_s = serializers.IntegerField(required=False, help_text="GPU-seconds so far.")
    queue = serializers.IntegerField(required=False, help_text="From 1; the first goes first.")
    queues = serializers.IntegerField(required=False)
    share = serializers.FloatField(required=False, help_text="Part of the time, 0 to 1.")
    had = serializers.FloatField(required=False, help_text="Part of the time since submission.")
    next_round = serializers.FloatField(required=False, help_text=SECONDS)
    warning = serializers.CharField(
        required=False, allow_blank=True, help_text="Why shares are not those of the policy."
    )


class SchedulingDetailsSerializer(Serializer):
    """The numbers in every reason of the scheduler. Counts are GPUs of the virtual cluster (for
    opportunistic jobs: of the cluster) that the job could use."""

    vc = serializers.CharField()
    needs = NeedsSerializer()
    owns = serializers.IntegerField()
    used = serializers.IntegerField(help_text="At the job's priority or above.")
    free = serializers.IntegerField()
    bad = serializers.IntegerField()
    cordoned = serializers.IntegerField()
    offline = serializers.IntegerField()
    nodes = OwnedNodesSerializer()
    model = serializers.CharField()
    used_by = UsingJobSerializer(many=True)
    more = serializers.IntegerField(help_text="Jobs beside those in `used_by`.")
    ahead = serializers.IntegerField(help_text="Jobs before it in the queue.")
    expected_start = serializers.FloatField(
        allow_null=True, help_text=f"{SECONDS} Null: not known."
    )
    expected_interval = serializers.ListField(
        child=serializers.FloatField(),
        required=False,
        help_text="Of a dry run: it starts between these two in 80 % of the cases, by predicted "
        "durations; absent: not known.",
    )
    opportunistic_now = serializers.BooleanField(
        allow_null=True, help_text="Whether it would start at once as opportunistic."
    )
    pin = serializers.CharField(required=False, help_text="The pinned cell that it asks for.")
    standing = StandingSerializer(required=False)
    told_at = serializers.FloatField(help_text=f"{SECONDS} When these numbers were true.")


class ResourceDetailsSerializer(SchedulingDetailsSerializer):
    """CPU or memory of nodes is too small for a task, now or ever."""

    task = AmountSerializer()
    largest_free = AmountSerializer()
    largest_node = AmountSerializer()


class ClusterSizeDetailsSerializer(SchedulingDetailsSerializer):
    """The whole cluster is too small."""

    fits = serializers.IntegerField(required=False, help_text="Such tasks that would fit.")


class PreemptingDetailsSerializer(SchedulingDetailsSerializer):
    leaving = serializers.ListField(
        child=serializers.CharField(allow_null=True), help_text=f"Jobs. {NOT_YOURS}"
    )


class VictimsTooYoungDetailsSerializer(SchedulingDetailsSerializer):
    victims = serializers.ListField(
        child=serializers.CharField(allow_null=True), help_text=f"Jobs. {NOT_YOURS}"
    )
    at = serializers.FloatField(help_text=f"{SECONDS} They may be preempted from then on.")


class PauseDetailsSerializer(SchedulingDetailsSerializer):
    until = serializers.FloatField(help_text=SECONDS)


class NodeExcludedDetailsSerializer(PauseDetailsSerializer):
    avoids = serializers.ListField(child=serializers.CharField(), help_text="Nodes.")


class MaintenanceDetailsSerializer(SchedulingDetailsSerializer):
    closing = serializers.ListField(child=serializers.CharField(), help_text="Nodes.")
    at = serializers.FloatField(help_text=SECONDS)
    until = serializers.FloatField(help_text=SECONDS)


class HeldBackDetailsSerializer(SchedulingDetailsSerializer):
    by = serializers.CharField(required=False, help_text="Absent for a job you may not see.")
    by_name = serializers.CharField(required=False)
    by_start = serializers.FloatField(allow_null=True, help_text=f"{SECONDS} Null: not known.")


class UserLimitDetailsSerializer(SchedulingDetailsSerializer):
    owner = serializers.CharField(
        allow_blank=True, help_text="The owner of the job; empty where that is you."
    )
    holds = serializers.IntegerField(help_text="GPUs or jobs that the owner has in it now.")
    most = serializers.IntegerField(help_text="What a user may have in it at a time.")
    asks = serializers.IntegerField(required=False, help_text="GPUs that the job needs.")


class RetryDetailsSerializer(Serializer):
    cause = serializers.CharField(help_text="Code of the failure.")
    in_s = serializers.FloatField()
    retries_used = serializers.IntegerField()
    retry = serializers.CharField()


class PreemptedDetailsSerializer(Serializer):
    by = serializers.CharField(required=False, help_text="Absent for a job you may not see.")
    by_name = serializers.CharField(required=False)
    priority_class = serializers.CharField()
    peer = serializers.BooleanField(help_text="Both belong to one virtual cluster.")
    preemptions = serializers.IntegerField(required=False)
    standing = StandingSerializer(required=False)
    told_at = serializers.FloatField(required=False, help_text=SECONDS)


class EvictedDetailsSerializer(Serializer):
    why = serializers.CharField()
    preemptions = serializers.IntegerField(required=False)


class BeginTimeDetailsSerializer(Serializer):
    until = serializers.FloatField(help_text=SECONDS)


class ResizedDetailsSerializer(Serializer):
    tasks_before = serializers.IntegerField()
    tasks = serializers.IntegerField(help_text="0: it waits, and others get its GPUs.")
    gpus_before = serializers.IntegerField(help_text="Of all its tasks.")
    gpus = serializers.IntegerField()
    policy = serializers.CharField(help_text="What it orders by, in words.")
    preemptions = serializers.IntegerField(required=False)


class DependencyDetailsSerializer(Serializer):
    jobs = serializers.ListField(child=serializers.CharField())


class PostponedDetailsSerializer(Serializer):
    in_s = serializers.FloatField()


class StartDetailsSerializer(Serializer):
    nodes = serializers.ListField(child=serializers.CharField())
    expected_start = serializers.FloatField(help_text=SECONDS)


def _reason(name: str, codes: Iterable[str], details: type[Serializer]) -> dict[str, Serializer]:
    """Return a serializer for a kind of reason, by each of its codes."""
    codes = [str(code) for code in codes]
    fields = {
        "code": serializers.ChoiceField(codes),
        "message": serializers.CharField(),
        "details": details(),
    }
    kind = type(f"{name}ReasonSerializer", (serializers.Serializer,), fields)
    return dict.fromkeys(codes, kind())


OF_SCHEDULER_WITH_MORE = {
    **_reason(
        "Resource",
        (Code.CPU_BUSY, Code.MEMORY_BUSY, Code.NEVER_FITS_NODE),
        ResourceDetailsSerializer,
    ),
    **_reason("ClusterSize", [Code.NEVER_FITS_CLUSTER], ClusterSizeDetailsSerializer),
    **_reason("Preempting", [Code.PREEMPTING], PreemptingDetailsSerializer),
    **_reason("VictimsTooYoung", [Code.VICTIMS_TOO_YOUNG], VictimsTooYoungDetailsSerializer),
    **_reason("Pause", (Code.COOLING_DOWN, Code.BACKOFF), PauseDetailsSerializer),
    **_reason("Maintenance", [Code.MAINTENANCE], MaintenanceDetailsSerializer),
    **_reason("NodeExcluded", [Code.NODE_EXCLUDED], NodeExcludedDetailsSerializer),
    **_reason("UserLimit", (Code.USER_GPU_LIMIT, Code.USER_JOB_LIMIT), UserLimitDetailsSerializer),
    **_reason("HeldBack", [Code.HELD_BACK], HeldBackDetailsSerializer),
}
OF_SCHEDULER: Mapping[str, Serializer] = {
    **_reason(
        "Scheduling",
        (code for code in Code if str(code) not in OF_SCHEDULER_WITH_MORE),
        SchedulingDetailsSerializer,
    ),
    **OF_SCHEDULER_WITH_MORE,
}
OF_PLATFORM: Mapping[str, Serializer] = {
    **_reason("Retry", ["retry"], RetryDetailsSerializer),
    **_reason("Preempted", ["preempted"], PreemptedDetailsSerializer),
    **_reason("Evicted", ["evicted"], EvictedDetailsSerializer),
    **_reason("Resized", ["resized"], ResizedDetailsSerializer),
    **_reason("Dependency", ["dependency"], DependencyDetailsSerializer),
    **_reason("BeginTime", ["begin_time"], BeginTimeDetailsSerializer),
    **_reason("Postponed", ["commit_failed"], PostponedDetailsSerializer),
}
OF_FORECAST = _reason("Start", ["starts_now", "would_preempt"], StartDetailsSerializer)

WAIT_REASONS: Mapping[str, Serializer] = {**OF_SCHEDULER, **OF_PLATFORM}
FORECASTS: Mapping[str, Serializer] = {
    **OF_SCHEDULER,
    **OF_FORECAST,
    "begin_time": OF_PLATFORM["begin_time"],
}


@extend_schema_field(PolymorphicProxySerializer("WaitReason", dict(WAIT_REASONS), "code"))
class WaitReasonSerializer(ReasonSerializer):
    """Why a job waits."""


@extend_schema_field(PolymorphicProxySerializer("ForecastReason", dict(FORECASTS), "code"))
class ForecastSerializer(ReasonSerializer):
    """Why a job would wait, or that it would start."""
