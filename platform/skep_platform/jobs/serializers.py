"""How jobs look over REST."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rest_framework import serializers

from skep_diagnosis.table import table
from skep_platform.core.models import Event
from skep_platform.jobs.models import Job
from skep_platform.jobs.reasons import ForecastSerializer, ReasonSerializer, WaitReasonSerializer
from skep_platform.jobs.states import AttemptState, JobState
from skep_platform.jobs.submission.prediction import SOURCES
from skep_platform.tenancy.models import Visibility

Serializer = serializers.Serializer[Any]
TASK_STATES = [JobState.WAITING.value, *AttemptState.values]


class EvidenceSerializer(Serializer):
    source = serializers.ChoiceField(["log", "facts", "none"])  # type: ignore[assignment]
    text = serializers.CharField(allow_blank=True)
    log = serializers.CharField(allow_blank=True, help_text="Whose log.")
    line = serializers.IntegerField(help_text="From 1; 0: of no log.")


class DiagnosisSerializer(Serializer):
    """Why an attempt failed: a row of the table of failures, and what pointed at it."""

    code = serializers.IntegerField()
    name = serializers.CharField()
    type = serializers.CharField()
    title = serializers.SerializerMethodField(help_text="The failure in plain words.")
    category = serializers.CharField(help_text="The reason, as the Philly study names it.")
    axis = serializers.CharField()
    retry = serializers.CharField()
    reaction = serializers.CharField()
    blame = serializers.CharField(help_text='"node": it is retried elsewhere.')
    rule = serializers.CharField(allow_blank=True)
    evidence = EvidenceSerializer()
    remedy = serializers.CharField()
    task = serializers.CharField(allow_null=True, help_text="Which failed first.")
    rank = serializers.IntegerField(allow_null=True)
    node = serializers.CharField(allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)

    def get_title(self, diagnosis: dict[str, Any]) -> str:
        return table().code(diagnosis["code"]).heading


class BadGpuSerializer(Serializer):
    node = serializers.CharField()
    index = serializers.IntegerField(help_text="Of the GPU on its node.")
    uuid = serializers.CharField()
    problem = serializers.CharField(allow_blank=True)
    task = serializers.CharField()


class JobSummarySerializer(serializers.Serializer[Job]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    owner = serializers.CharField(source="owner.username")
    virtual_cluster = serializers.CharField(source="vc.name")
    state = serializers.ChoiceField(JobState.choices)
    priority_class = serializers.CharField()
    priority = serializers.IntegerField()
    gpus = serializers.IntegerField(help_text="Of the whole gang.")
    tasks = serializers.IntegerField(source="tasks_total")
    attempt = serializers.IntegerField(help_text="Number of placements so far.")
    retries_used = serializers.IntegerField(help_text="Counted against jobRetryCount.")
    free_retries = serializers.IntegerField(help_text="Not counted.")
    tags = serializers.ListField(child=serializers.CharField())
    diagnosis_code = serializers.SerializerMethodField(
        help_text="Name of the newest attempt's failure."
    )
    diagnosis_title = serializers.SerializerMethodField(help_text="That failure in plain words.")
    submitted_at = serializers.DateTimeField(source="created_at")
    placed_at = serializers.DateTimeField(allow_null=True, help_text="Null: in the queue.")
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    duration_s = serializers.IntegerField(allow_null=True, help_text="As declared.")
    preemptions = serializers.IntegerField(help_text="How often it was preempted.")
    preempting = serializers.SerializerMethodField(help_text="It was asked to leave its nodes.")
    downgraded = ReasonSerializer(
        allow_null=True, help_text="Guaranteed, but runs as opportunistic now."
    )
    incremental = serializers.BooleanField(help_text="Each task starts when it finds a place.")
    unplaced = serializers.IntegerField(help_text="Tasks without a place, if it is incremental.")
    expected_start = serializers.SerializerMethodField(help_text="Null: not known.")
    wait_reason = WaitReasonSerializer(allow_null=True)
    exit_reason = ReasonSerializer(allow_null=True)

    def get_diagnosis_code(self, job: Job) -> str | None:
        return job.diagnosis["name"] if job.diagnosis else None

    def get_diagnosis_title(self, job: Job) -> str | None:
        return table().code(job.diagnosis["code"]).heading if job.diagnosis else None

    def get_preempting(self, job: Job) -> bool:
        return job.preempting_at is not None

    def get_expected_start(self, job: Job) -> datetime | None:
        """Return the start that the scheduler expected last; None once the job is placed."""
        start = (job.wait_reason or {}).get("details", {}).get("expected_start")
        waits = job.state == JobState.WAITING and job.placed_at is None
        return datetime.fromtimestamp(start, UTC) if waits and start is not None else None


class ElasticSerializer(Serializer):
    min = serializers.IntegerField()
    max = serializers.IntegerField()
    asked = serializers.IntegerField(help_text="As in the job file.")


class TaskRoleSerializer(Serializer):
    name = serializers.CharField()
    instances = serializers.IntegerField()
    gpus = serializers.IntegerField(help_text="Per task, as all that follow.")
    gpu_model = serializers.CharField(help_text="Empty: any one model.")
    cell_type = serializers.CharField(help_text="Of whole cells that it asks for, or empty.")
    cells = serializers.IntegerField()
    within = serializers.CharField(help_text="Type of the cell that holds the role, or empty.")
    affinity_group = serializers.CharField()
    cpus = serializers.FloatField()
    memory_mb = serializers.IntegerField()
    image = serializers.CharField()
    command = serializers.CharField()
    ports = serializers.DictField(child=serializers.IntegerField(), help_text="Number by label.")
    task_retries = serializers.IntegerField(help_text="Of each task by itself.")
    parallelism = serializers.IntegerField(
        allow_null=True, help_text="Tasks that may run at the same time; null: all of them."
    )
    elastic = ElasticSerializer(
        allow_null=True, help_text="Within what `instances` is chosen; null: it is always the same."
    )
    states = serializers.DictField(
        child=serializers.IntegerField(), help_text="Number of tasks by state."
    )


class WorkingFilesSerializer(Serializer):
    sha256 = serializers.CharField()
    size = serializers.IntegerField(help_text="Bytes, packed.")
    path = serializers.CharField()


class GitSourceSerializer(Serializer):
    url = serializers.CharField()
    commit = serializers.CharField()
    path = serializers.CharField()


class DependencySerializer(Serializer):
    """A job that another one waits for."""

    job = serializers.CharField(help_text="As the job file calls it.")
    condition = serializers.ChoiceField(["afterok", "afternotok", "afterany", "after"])


class MoreMemorySerializer(Serializer):
    """What a job that ran out of memory is run again with."""

    role = serializers.CharField()
    memory_mb = serializers.IntegerField(help_text="Of each task, as it asked for.")
    suggested_mb = serializers.IntegerField(help_text="The next larger size.")


class ParentSerializer(Serializer):
    """The job with whose API token another one was submitted."""

    id = serializers.UUIDField()
    name = serializers.CharField()


class PredictionSerializer(Serializer):
    median_s = serializers.IntegerField(help_text="From its start to its success.")
    low_s = serializers.IntegerField(
        allow_null=True,
        help_text="It runs at least so long, and at most `high_s`, in 80 % of the cases. "
        "Null: too few jobs were like it.",
    )
    high_s = serializers.IntegerField(allow_null=True)
    source = serializers.ChoiceField(  # type: ignore[assignment]
        SOURCES, help_text="How they were like it: by name, by command, or by number of GPUs."
    )
    jobs = serializers.IntegerField(help_text="Earlier jobs of its owner that were like it.")
    leave_s = serializers.FloatField(
        allow_null=True,
        help_text="How long jobs of its name take to save and leave when they are preempted "
        "(median); null: not measured.",
    )
    warmup_s = serializers.FloatField(
        allow_null=True,
        help_text="How long they take after a start to their first metric, else their first line.",
    )


class StartIntervalSerializer(Serializer):
    low = serializers.DateTimeField()
    high = serializers.DateTimeField()
    coverage = serializers.FloatField(help_text="The share of the cases in which it holds.")


class JobSerializer(JobSummarySerializer):
    expected_start_interval = StartIntervalSerializer(
        allow_null=True,
        help_text="Of a waiting job, by the predicted durations of the jobs before it; null: one "
        "of them has no prediction.",
    )
    parent = ParentSerializer(
        allow_null=True, help_text="The job that submitted it by its API token, if you may see it."
    )
    api_token = serializers.ChoiceField(
        ["read", "submit"], allow_null=True, help_text="Scope of the token that its containers get."
    )
    depends_on = DependencySerializer(many=True, help_text="It is queued when all of these hold.")
    spec_text = serializers.CharField()
    task_roles = TaskRoleSerializer(many=True)
    lazy_preemption = serializers.BooleanField()
    preemptible = serializers.BooleanField()
    pinned_cell = serializers.CharField()
    within = serializers.CharField(help_text="Type of the cell that holds it all, or empty.")
    stop_grace_s = serializers.IntegerField()
    checkpoint_signal = serializers.CharField(help_text="Sent first when it is preempted.")
    checkpoint_grace_s = serializers.IntegerField()
    prediction = PredictionSerializer(
        allow_null=True,
        help_text="How long it probably runs, for those who may stop it; null: no earlier job of "
        "its owner was like it.",
    )
    max_duration_s = serializers.IntegerField(allow_null=True, help_text="Of one attempt.")
    ends_at = serializers.DateTimeField(allow_null=True, help_text="Then that is over.")
    deadline_at = serializers.DateTimeField(allow_null=True)
    network_mode = serializers.CharField(help_text="As asked for; empty: by its places.")
    environment = serializers.DictField(child=serializers.CharField())
    work_dir = serializers.CharField()
    working_files = WorkingFilesSerializer(allow_null=True, help_text="An uploaded archive.")
    git = GitSourceSerializer(allow_null=True, help_text="Working files out of a repository.")
    begun_at = serializers.DateTimeField(
        allow_null=True, help_text="When all tasks of the present attempt were ready."
    )
    retry_at = serializers.DateTimeField(allow_null=True, help_text="It is not placed before then.")
    diagnosing = serializers.BooleanField(help_text="The logs of a failed attempt are being read.")
    diagnosis = DiagnosisSerializer(allow_null=True, help_text="Of the newest failed attempt.")
    logs_deleted_at = serializers.DateTimeField(allow_null=True)
    visibility = serializers.ChoiceField(
        Visibility.values,
        allow_null=True,
        help_text="Who sees it besides its owner, VC admins and admins; "
        "null: as its virtual cluster says.",
    )
    seen_by = serializers.ChoiceField(Visibility.values, help_text="What follows from that.")
    bad_gpus = BadGpuSerializer(many=True, help_text="Of those that it holds now.")
    may_exec = serializers.BooleanField()
    may_stop = serializers.BooleanField()
    may_prioritise = serializers.BooleanField(help_text="Change its priority.")
    may_exempt = serializers.BooleanField(help_text="Change whether the idle rule holds for it.")
    idle_exempt = serializers.BooleanField(
        help_text="It keeps its GPUs whatever the idle rule of its virtual cluster says."
    )
    may_share = serializers.BooleanField(help_text="Change its visibility.")
    may_clone = serializers.BooleanField(help_text="Run it again.")
    retries_ended = serializers.BooleanField(help_text="A failure is not tried again.")
    more_memory = MoreMemorySerializer(
        allow_null=True, help_text="Null: its newest failure was not for want of memory."
    )


class AttemptSerializer(Serializer):
    id = serializers.UUIDField()
    index = serializers.IntegerField(help_text="The job attempt it belongs to, from 1.")
    retry = serializers.IntegerField(help_text="Of the task by itself, within that.")
    node = serializers.CharField(source="node.name")
    state = serializers.ChoiceField(AttemptState.choices)
    phase = serializers.CharField(help_text="As the node reported it last.")
    pull_percent = serializers.IntegerField(allow_null=True)
    pull_bytes = serializers.IntegerField(
        allow_null=True, help_text="Of its image's compressed layers, so far."
    )
    pull_total_bytes = serializers.IntegerField(
        allow_null=True, help_text="Of all layers that the node does not have; null: not known yet."
    )
    gpu_uuids = serializers.ListField(child=serializers.CharField())
    gpu_model = serializers.CharField()
    network = serializers.CharField()
    ports = serializers.DictField(child=serializers.ListField(child=serializers.IntegerField()))
    exit_code = serializers.IntegerField(allow_null=True)
    exit_signal = serializers.IntegerField(allow_null=True)
    oom_killed = serializers.BooleanField()
    error_code = serializers.CharField()
    error_message = serializers.CharField()
    memory_peak_mb = serializers.IntegerField(allow_null=True)
    xids = serializers.ListField(
        child=serializers.IntegerField(), help_text="NVIDIA's error numbers of its GPUs."
    )
    disk_full = serializers.BooleanField()
    diagnosis = DiagnosisSerializer(allow_null=True)
    ready_at = serializers.DateTimeField(allow_null=True, help_text="It waits for the gang.")
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)


class JobAttemptSerializer(Serializer):
    index = serializers.IntegerField(help_text="From 1.")
    outcome = serializers.CharField(
        allow_blank=True, help_text="SUCCEEDED, FAILED, STOPPED, PREEMPTED; empty: it goes on."
    )
    retry = serializers.CharField(
        allow_blank=True, help_text="Why another one follows; empty: none does."
    )
    placed_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    reason = ReasonSerializer(allow_null=True)
    diagnosis = DiagnosisSerializer(allow_null=True)


class TaskSerializer(Serializer):
    id = serializers.IntegerField()
    role = serializers.CharField()
    index = serializers.IntegerField(help_text="Within the role.")
    rank = serializers.IntegerField(help_text="Within the job.")
    state = serializers.ChoiceField(TASK_STATES)
    attempt = AttemptSerializer(allow_null=True, help_text="The newest one.")


class EventSerializer(serializers.Serializer[Event]):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    kind = serializers.CharField()
    message = serializers.CharField()
    data = serializers.DictField()  # type: ignore[assignment]
    actor = serializers.CharField(help_text="Username, or empty for the system.")
    count = serializers.IntegerField(
        help_text="More than 1: the row stands for so many events of one kind; `at` is the last."
    )
    first_at = serializers.DateTimeField(
        allow_null=True, help_text="When the first of them was; null for a single event."
    )


class ProblemSerializer(Serializer):
    code = serializers.CharField()
    message = serializers.CharField()
    path = serializers.CharField()
    line = serializers.IntegerField()
    column = serializers.IntegerField()


class CheckSummarySerializer(Serializer):
    name = serializers.CharField()
    virtual_cluster = serializers.CharField()
    gpus = serializers.IntegerField()
    tasks = serializers.IntegerField()


class JobCountSerializer(serializers.Serializer[Any]):
    total = serializers.IntegerField(help_text="At most 10,000.")
    more = serializers.BooleanField(help_text="There are more than these.")


class FailureSerializer(Serializer):
    code = serializers.IntegerField()
    name = serializers.CharField()
    title = serializers.CharField(help_text="The failure in plain words.")
    category = serializers.CharField()


class CausesSerializer(Serializer):
    categories = serializers.ListField(child=serializers.CharField())
    failures = FailureSerializer(many=True)


class CheckSerializer(Serializer):
    valid = serializers.BooleanField()
    errors = ProblemSerializer(many=True)  # type: ignore[assignment]
    notes = ProblemSerializer(many=True, help_text="Fields of a good file that have no effect.")
    summary = CheckSummarySerializer(allow_null=True)
    forecast = ForecastSerializer(allow_null=True)
