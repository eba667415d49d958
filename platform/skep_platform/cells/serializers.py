"""How cells look over REST. Quantities are cells unless a field's name says GPUs; trees of cells
count GPUs."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from skep_platform.core.api import Body
from skep_platform.jobs.reasons import ReasonSerializer, WaitReasonSerializer
from skep_platform.jobs.states import JobState
from skep_platform.tenancy.models import NAME

Serializer = serializers.Serializer[Any]
NO_VC = "Of which virtual cluster; null when none owns it, or one that you may not see."
STATES = ["free", "used", "reserved", "bad", "lent"]
MAX_VCS, MAX_CLAIMS, MAX_PINS = 2000, 500, 2000
MAX_NUMBER = 1_000_000


# Trees: a serializer cannot name itself.
@extend_schema_field({"type": "array", "items": {"$ref": "#/components/schemas/PhysicalCell"}})
class PhysicalCells(serializers.JSONField):
    pass


@extend_schema_field({"type": "array", "items": {"$ref": "#/components/schemas/VirtualCell"}})
class VirtualCells(serializers.JSONField):
    pass


class CellLevelSerializer(Serializer):
    type = serializers.CharField()
    level = serializers.IntegerField(help_text="1 is a single GPU.")
    gpus = serializers.IntegerField(help_text="Of one cell.")
    kind = serializers.CharField(help_text="gpu, switch, nvlink, socket, part, node, rack, fabric.")
    words = serializers.CharField(help_text='For people: "half node of 4 A100".')
    is_node = serializers.BooleanField()


class CellTotalSerializer(Serializer):
    type = serializers.CharField()
    total = serializers.IntegerField()
    owned = serializers.IntegerField(help_text="By the virtual clusters that you may see.")
    left = serializers.IntegerField(allow_null=True, help_text="Owned by none. Only for admins.")
    bad = serializers.IntegerField(help_text="With at least one GPU that cannot be used.")


class ChainSerializer(Serializer):
    chain = serializers.CharField()
    gpu_model = serializers.CharField()
    nodes = serializers.IntegerField()
    levels = CellLevelSerializer(many=True)
    totals = CellTotalSerializer(many=True)


class PlacedPinSerializer(Serializer):
    name = serializers.CharField()
    cell_type = serializers.CharField()
    node = serializers.CharField()
    device = serializers.CharField(allow_blank=True, help_text="GPU UUID, below node level.")
    virtual_cluster = serializers.CharField(allow_null=True)


class VcGpusSerializer(Serializer):
    virtual_cluster = serializers.CharField()
    gpu_model = serializers.CharField()
    owned = serializers.IntegerField()
    used = serializers.IntegerField(help_text="Of the owned ones, by guaranteed jobs.")
    free = serializers.IntegerField(help_text="A guaranteed job could have them now.")
    borrowed = serializers.IntegerField(help_text="Of others, used by opportunistic jobs.")
    lent = serializers.IntegerField(help_text="Used by opportunistic jobs of others.")
    bad = serializers.IntegerField(help_text="Owned, and broken.")
    cordoned = serializers.IntegerField(help_text="Owned, on nodes that an admin closed.")
    offline = serializers.IntegerField(help_text="Owned, on nodes that do not answer.")


class CellsSerializer(Serializer):
    revision = serializers.IntegerField()
    source = serializers.ChoiceField(["inventory", "file"])  # type: ignore[assignment]
    chains = ChainSerializer(many=True)
    pins = PlacedPinSerializer(many=True, help_text="Those that you may see.")
    gpus = VcGpusSerializer(
        many=True, help_text="What the virtual clusters that you may see own and use now."
    )


class CellJobSerializer(Serializer):
    id = serializers.UUIDField()
    name = serializers.CharField()


class PhysicalCellSerializer(Serializer):
    address = serializers.CharField()
    type = serializers.CharField()
    gpus = serializers.IntegerField()
    bad = serializers.IntegerField(help_text="GPUs.")
    used = serializers.IntegerField(help_text="GPUs.")
    lent = serializers.IntegerField(help_text="GPUs that are used opportunistically.")
    virtual_cluster = serializers.CharField(allow_null=True, help_text=NO_VC)
    pin = serializers.CharField(allow_null=True)
    node = serializers.CharField(allow_null=True, help_text="Null above node level.")
    children = PhysicalCells(
        allow_null=True, help_text="Null where they were not asked for: ask with `under`."
    )
    uuid = serializers.CharField(required=False, help_text="Of a GPU, as the rest.")
    index = serializers.IntegerField(required=False, allow_null=True)
    state = serializers.ChoiceField(STATES, required=False)
    job = CellJobSerializer(required=False, allow_null=True, help_text="Only one that you may see.")


class ClaimSerializer(Body):
    chain = serializers.CharField(max_length=200)
    cell_type = serializers.CharField(max_length=200)
    number = serializers.IntegerField(min_value=0, max_value=MAX_NUMBER)


class VcClaimsSerializer(Body):
    cells = ClaimSerializer(many=True, max_length=MAX_CLAIMS)  # type: ignore[call-arg]
    quotas = serializers.DictField(
        child=serializers.IntegerField(min_value=0, max_value=MAX_NUMBER),
        help_text="GPUs by model, in the largest cells that fit.",
    )
    pins = serializers.ListField(child=serializers.CharField(max_length=63), max_length=MAX_PINS)


class PinSerializer(Body):
    name = serializers.CharField(max_length=63, validators=[NAME])
    cell_type = serializers.CharField(max_length=200)
    node = serializers.CharField(max_length=63)
    device = serializers.CharField(
        max_length=80, allow_blank=True, help_text="GPU UUID, below node level."
    )


class AssignmentSerializer(Body):
    revision = serializers.IntegerField(
        min_value=0, help_text="That of the assignment which you changed."
    )
    virtual_clusters = serializers.DictField(
        child=VcClaimsSerializer(), help_text="By name. One that is not listed owns nothing."
    )
    pins = PinSerializer(many=True, max_length=MAX_PINS)  # type: ignore[call-arg]


class AssignmentErrorSerializer(Serializer):
    code = serializers.CharField()
    message = serializers.CharField()
    path = serializers.CharField()
    details = serializers.DictField()


class LeftSerializer(Serializer):
    chain = serializers.CharField()
    type = serializers.CharField()
    total = serializers.IntegerField()
    left = serializers.IntegerField()


class AffectedJobSerializer(Serializer):
    job_id = serializers.UUIDField()
    name = serializers.CharField()
    virtual_cluster = serializers.CharField()
    reason = ReasonSerializer(allow_null=True)


class ShortfallSerializer(Serializer):
    virtual_cluster = serializers.CharField()
    chain = serializers.CharField(allow_blank=True)
    cell_type = serializers.CharField()
    asked = serializers.IntegerField()
    got = serializers.IntegerField()


class OdditySerializer(Serializer):
    path = serializers.CharField()
    message = serializers.CharField()


class CheckedAssignmentSerializer(Serializer):
    revision = serializers.IntegerField(help_text="The present one.")
    fits = serializers.BooleanField()
    errors = AssignmentErrorSerializer(many=True)  # type: ignore[assignment]
    left = LeftSerializer(many=True, help_text="Cells that no virtual cluster would own.")
    downgraded = AffectedJobSerializer(
        many=True, help_text="Running jobs that would become opportunistic."
    )
    restored = AffectedJobSerializer(
        many=True, help_text="Opportunistic ones that would be guaranteed again."
    )
    shortfalls = ShortfallSerializer(
        many=True, help_text="Older claims that the cluster cannot meet at present."
    )
    problems = OdditySerializer(
        many=True, help_text="Where nodes or the file are odd; nothing is refused for it."
    )


class PhysicalPlaceSerializer(Serializer):
    address = serializers.CharField()
    node = serializers.CharField(allow_null=True)


class VirtualCellSerializer(Serializer):
    address = serializers.CharField()
    type = serializers.CharField()
    gpus = serializers.IntegerField()
    pin = serializers.CharField(allow_null=True)
    state = serializers.ChoiceField(STATES)
    used = serializers.IntegerField(help_text="GPUs.")
    bad = serializers.IntegerField(help_text="GPUs.")
    lent = serializers.IntegerField(help_text="GPUs, used opportunistically.")
    physical = PhysicalPlaceSerializer(
        allow_null=True, help_text="Null: it gets its place when it is used."
    )
    children = VirtualCells(
        allow_null=True,
        help_text="Null where there are too many to show: request them with `under`.",
    )
    job = CellJobSerializer(
        allow_null=True, help_text="Of a GPU; null also for one that you may not see."
    )


class OwnedTypeSerializer(Serializer):
    type = serializers.CharField()
    kind = serializers.CharField()
    words = serializers.CharField()
    gpus = serializers.IntegerField(help_text="Of one cell.")
    owned = serializers.IntegerField(help_text="Pinned ones and missing ones are counted, too.")
    used = serializers.IntegerField()
    free = serializers.IntegerField()
    bad = serializers.IntegerField(help_text="Free ones that cannot be had now: hardware is bad.")
    missing = serializers.IntegerField(help_text="Those that the cluster does not have any more.")
    borrowed_out = serializers.IntegerField(
        help_text="Free ones that opportunistic jobs must leave first; they will."
    )


class VcChainSerializer(Serializer):
    chain = serializers.CharField()
    gpu_model = serializers.CharField()
    types = OwnedTypeSerializer(many=True)
    cells = VirtualCellSerializer(many=True)
    more = serializers.IntegerField(help_text="Cells after the last one here: ask with `after`.")


class VcCellsSerializer(Serializer):
    chains = VcChainSerializer(many=True)
    borrowed_in = serializers.IntegerField(help_text="GPUs that its opportunistic jobs use.")
    shortfalls = ShortfallSerializer(many=True)


class ReservedSerializer(Serializer):
    start = serializers.DateTimeField(help_text="Not later.")
    nodes = serializers.ListField(
        child=serializers.CharField(), help_text="None of a job that you may not see."
    )


class QueuedJobSerializer(Serializer):
    """A job in the queue of a virtual cluster. Of one that the reader may not see it shows how
    large it is and since when it is there, and not whose it is."""

    id = serializers.UUIDField(allow_null=True, help_text="Null: you may not see this job.")
    name = serializers.CharField(allow_null=True)
    owner = serializers.CharField(allow_null=True)
    state = serializers.ChoiceField(JobState.choices)
    priority_class = serializers.CharField()
    priority = serializers.IntegerField()
    gpus = serializers.IntegerField()
    tasks = serializers.IntegerField()
    duration_s = serializers.IntegerField(allow_null=True)
    submitted_at = serializers.DateTimeField()
    placed_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    preempting = serializers.BooleanField()
    downgraded = ReasonSerializer(allow_null=True)


class RunningSerializer(Serializer):
    job = QueuedJobSerializer()
    expected_end = serializers.DateTimeField(allow_null=True, help_text="Null: not known.")
    opportunistic = serializers.BooleanField()
    preemptible = serializers.BooleanField()


class WaitingSerializer(Serializer):
    position = serializers.IntegerField(help_text="From 1.")
    job = QueuedJobSerializer()
    needs_words = serializers.CharField()
    reserved = ReservedSerializer(allow_null=True)
    expected_start = serializers.DateTimeField(allow_null=True, help_text="Null: not known.")
    reason = WaitReasonSerializer(
        allow_null=True, help_text="Null also for one that you may not see."
    )


class VcQueueSerializer(Serializer):
    running = RunningSerializer(many=True, help_text="On the first page only.")
    waiting = WaitingSerializer(many=True)
    running_total = serializers.IntegerField(help_text="Jobs that run, on whatever page they are.")
    waiting_total = serializers.IntegerField(help_text="Jobs that wait, on whatever page they are.")
    next = serializers.URLField(allow_null=True)


class UseSeriesSerializer(Serializer):
    points = serializers.ListField(
        child=serializers.ListField(child=serializers.FloatField()),
        help_text="[seconds since the epoch, owned, used, borrowed, lent, bad, waiting, "
        "unavailable] in GPUs, means over a step. Unavailable: on cordoned or offline nodes.",
    )


class VcHistorySerializer(Serializer):
    step_s = serializers.IntegerField()
    models = serializers.DictField(child=UseSeriesSerializer())


class FairnessFiguresSerializer(Serializer):
    jobs = serializers.IntegerField(help_text="Jobs with a rho.")
    active = serializers.IntegerField(help_text="Jobs that wait or run.")
    unknown = serializers.IntegerField(
        help_text="Jobs without one: they never ran, or nothing says how long they run."
    )
    rho_mean = serializers.FloatField(allow_null=True)
    rho_max = serializers.FloatField(allow_null=True)
    unfair_share = serializers.FloatField(
        allow_null=True, help_text="The part of the jobs with a rho above 1.05."
    )


class FairnessJobSerializer(Serializer):
    id = serializers.UUIDField()
    name = serializers.CharField()


class UserFairnessSerializer(FairnessFiguresSerializer):
    user = serializers.CharField()
    worst_job = FairnessJobSerializer(allow_null=True)


class VcFairnessSerializer(Serializer):
    days = serializers.IntegerField()
    gpus = serializers.IntegerField(help_text="Owned now: what jobs would share equally.")
    jain_index = serializers.FloatField(
        allow_null=True,
        help_text="Jain's fairness index over all users with a rho, of x = 1 / rho_mean: "
        "(sum x)^2 / (n * sum x^2). 1: jobs of all users are slowed alike; 1 / n: those of one "
        "user only get on. Null without a rho.",
    )
    total = FairnessFiguresSerializer()
    results = UserFairnessSerializer(
        many=True, help_text="The largest mean first. The own row only, for others than VC admins."
    )
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)


class ForecastJobSerializer(Serializer):
    id = serializers.UUIDField(allow_null=True, help_text="Null: you may not see this job.")
    name = serializers.CharField(allow_null=True)
    owner = serializers.CharField(allow_null=True)
    virtual_cluster = serializers.CharField(
        allow_null=True, help_text="Null: one that you do not belong to."
    )
    gpus = serializers.IntegerField(help_text="Of the whole job.")
    tasks = serializers.IntegerField(help_text="On this node.")
    what = serializers.ChoiceField(["preempted", "runs on", "lost"])


class LosingVcSerializer(Serializer):
    name = serializers.CharField()
    loses = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="Cells by type that it could not be given while the node is away.",
    )


class NodeForecastSerializer(Serializer):
    jobs = ForecastJobSerializer(many=True)
    virtual_clusters = LosingVcSerializer(many=True)
