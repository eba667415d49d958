"""How jobs look over REST."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rest_framework import serializers

from skep_diagnosis.table import table
from skep_platform.core.models import Event
from skep_platform.jobs.models import Job
from skep_platform.jobs.states import AttemptState, JobState
from skep_platform.tenancy.models import Visibility

Serializer = serializers.Serializer[Any]
TASK_STATES = [JobState.WAITING.value, *AttemptState.values]


class ReasonSerializer(Serializer):
    code = serializers.CharField()
    message = serializers.CharField()
    details = serializers.DictField()


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
    title = serializers.SerializerMethodField(help_text="What a person calls the failure.")
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
    diagnosis_title = serializers.SerializerMethodField(
        help_text="What a person calls that failure."
    )
    submitted_at = serializers.DateTimeField(source="created_at")
    placed_at = serializers.DateTimeField(allow_null=True, help_text="Null: in the queue.")
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    duration_s = serializers.IntegerField(allow_null=True, help_text="As declared.")
    preemptions = serializers.IntegerField(help_text="How often it made room.")
    preempting = serializers.SerializerMethodField(help_text="It was asked to make room.")
    downgraded = ReasonSerializer(
        allow_null=True, help_text="Guaranteed, but runs as opportunistic now."
    )
    incremental = serializers.BooleanField(help_text="Each task starts when it finds a place.")
    unplaced = serializers.IntegerField(help_text="Tasks without a place, if it is incremental.")
    expected_start = serializers.SerializerMethodField(help_text="Null: nobody knows.")
    wait_reason = ReasonSerializer(allow_null=True)
    exit_reason = ReasonSerializer(allow_null=True)

    def get_diagnosis_code(self, job: Job) -> str | None:
        return job.diagnosis["name"] if job.diagnosis else None

    def get_diagnosis_title(self, job: Job) -> str | None:
        return table().code(job.diagnosis["code"]).heading if job.diagnosis else None

    def get_preempting(self, job: Job) -> bool:
        return job.preempting_at is not None

    def get_expected_start(self, job: Job) -> datetime | None:
        """As the scheduler said when it last looked; of a running job it is history."""
        told = (job.wait_reason or {}).get("details", {}).get("expected_start")
        waits = job.state == JobState.WAITING and job.placed_at is None
        return datetime.fromtimestamp(told, UTC) if waits and told is not None else None


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


class JobSerializer(JobSummarySerializer):
    spec_text = serializers.CharField()
    task_roles = TaskRoleSerializer(many=True)
    lazy_preemption = serializers.BooleanField()
    preemptible = serializers.BooleanField()
    pinned_cell = serializers.CharField()
    within = serializers.CharField(help_text="Type of the cell that holds it all, or empty.")
    stop_grace_s = serializers.IntegerField()
    checkpoint_signal = serializers.CharField(help_text="Sent first where it makes room.")
    checkpoint_grace_s = serializers.IntegerField()
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
        help_text="Who sees it besides its owner, managers of its virtual cluster and admins; "
        "null: as its virtual cluster says.",
    )
    seen_by = serializers.ChoiceField(Visibility.values, help_text="What follows from that.")
    bad_gpus = BadGpuSerializer(many=True, help_text="Of those that it holds now.")
    may_exec = serializers.BooleanField()
    may_stop = serializers.BooleanField()
    may_prioritise = serializers.BooleanField(help_text="Change its priority.")
    may_share = serializers.BooleanField(help_text="Change its visibility.")


class AttemptSerializer(Serializer):
    id = serializers.UUIDField()
    index = serializers.IntegerField(help_text="The job attempt it belongs to, from 1.")
    retry = serializers.IntegerField(help_text="Of the task by itself, within that.")
    node = serializers.CharField(source="node.name")
    state = serializers.ChoiceField(AttemptState.choices)
    phase = serializers.CharField(help_text="The node's newest word.")
    pull_percent = serializers.IntegerField(allow_null=True)
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


class CheckSerializer(Serializer):
    valid = serializers.BooleanField()
    errors = ProblemSerializer(many=True)  # type: ignore[assignment]
    notes = ProblemSerializer(many=True, help_text="Fields of a good file that have no effect.")
    summary = CheckSummarySerializer(allow_null=True)
    forecast = ReasonSerializer(allow_null=True)
