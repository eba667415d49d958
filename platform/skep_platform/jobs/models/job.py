"""Jobs with their task roles, and what belongs to a job as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Upper

from skep_limits import MAX_TAG
from skep_platform.core.models import Entity
from skep_platform.jobs.states import JobState
from skep_platform.tenancy.models import Visibility

ACTIVE_JOB_STATES = [JobState.WAITING, JobState.RUNNING, JobState.STOPPING]
# All retries of a job, whoever pays for them.
RETRIES = F("retries_used") + F("free_retries") + F("preemptions")


class Job(Entity):
    """One submitted job. Names are unique per owner, as in OpenPAI, until it is archived."""

    # Of one that was submitted a moment ago, so that they need not be read back; without keys.
    new_roles: Sequence[TaskRole] | None = None

    name = models.CharField(max_length=255)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="jobs", db_index=False
    )
    vc = models.ForeignKey(
        "tenancy.VirtualCluster", models.PROTECT, related_name="jobs", db_index=False
    )
    state = models.CharField(max_length=16, choices=JobState.choices, default=JobState.WAITING)
    priority_class = models.CharField(max_length=16, default="test")
    priority = models.SmallIntegerField(default=10)  # -1 opportunistic, 0..1000 guaranteed
    spec_text = models.TextField()  # as submitted, but for the values of its secrets
    spec_digest = models.CharField(max_length=64, blank=True)  # keyed, of all that was submitted
    spec = models.JSONField()  # validated, defaults filled in, without secrets
    tags = ArrayField(models.CharField(max_length=MAX_TAG), default=list)
    gpus = models.PositiveIntegerField()  # of the whole gang
    tasks_total = models.PositiveIntegerField()
    duration_s = models.PositiveIntegerField(null=True)  # as declared; null: not known
    # How long policies expect it to run, as earlier jobs like it did; null: as declared.
    predicted_s = models.PositiveIntegerField(null=True)
    prediction = models.JSONField(null=True)  # see submission.prediction.Prediction
    command_key = models.CharField(max_length=16, blank=True, default="", db_default="")
    max_duration_s = models.PositiveIntegerField(null=True)  # of one job attempt, from its start
    deadline_at = models.DateTimeField(null=True)  # when its owner wants it to be done
    rdma = models.BooleanField(default=False)  # a role of it asks for InfiniBand devices
    network_mode = models.CharField(max_length=8, blank=True)  # "bridge" or "": private; "host"
    environment = models.JSONField(default=dict)  # the owner's variables, before rendering
    work_dir = models.CharField(max_length=255, blank=True)  # where commands start
    barrier_s = models.PositiveIntegerField(default=600)  # until all tasks of a gang are ready
    incremental = models.BooleanField(default=False)  # gangAllocation false: task by task
    lazy_preemption = models.BooleanField(default=False)
    preemptible = models.BooleanField(default=True)
    pinned_cell = models.CharField(max_length=63, blank=True)
    within = models.CharField(max_length=200, blank=True)  # cell type that shall hold all of it
    stop_grace_s = models.PositiveIntegerField(default=30)
    checkpoint_signal = models.CharField(max_length=16, blank=True)  # sent before SIGTERM
    checkpoint_grace_s = models.PositiveIntegerField(default=0)
    client_token = models.CharField(max_length=64, blank=True)  # repeated submit = the same job
    # Rows of JobDependency do not hold yet: it is not queued.
    awaits_dependencies = models.BooleanField(default=False, db_default=False)
    # Of a job that was submitted with the token of another one (a follower): that job, the first
    # one of the row, and how many came before it.
    parent = models.ForeignKey("self", models.SET_NULL, null=True, related_name="followers")
    root_id = models.UUIDField(null=True)
    depth = models.PositiveIntegerField(default=0, db_default=0)
    # Who else sees it; "": as its virtual cluster says.
    visibility = models.CharField(
        max_length=8, choices=Visibility.choices, blank=True, default="", db_default=""
    )

    # Bits of the events of which the job file wants its owner to be notified.
    notified_events = models.PositiveIntegerField(default=0, db_default=0)

    # The span of its submit, as a traceparent of W3C; "": it is not traced.
    trace_parent = models.CharField(max_length=55, blank=True, default="", db_default="")
    request_id = models.CharField(max_length=64, default="", db_default="")  # that submitted it

    attempt = models.PositiveIntegerField(default=0)  # number of placements so far
    placed_at = models.DateTimeField(null=True)  # of the present attempt; null = in the queue
    not_before = models.DateTimeField(null=True)  # retry backoff
    # Of the present attempt: its tasks were all ready, and began.
    begun_at = models.DateTimeField(null=True)
    ends_at = models.DateTimeField(null=True)  # its maximum duration is over then
    # {node name: seconds since the epoch}: where it is not placed before then.
    avoid_nodes = models.JSONField(default=dict)
    unplaced = models.PositiveIntegerField(default=0)  # tasks of it without a place (incremental)
    preempting_at = models.DateTimeField(null=True)  # of the present attempt: when it was preempted
    # {code, message, details}: guaranteed, but runs opportunistically for the present attempt.
    downgraded = models.JSONField(null=True)
    preemptions = models.PositiveIntegerField(default=0)
    retries_used = models.PositiveIntegerField(default=0)  # counted against jobRetryCount
    free_retries = models.PositiveIntegerField(default=0)  # transient failures, not counted
    # A run of attempts that failed and were tried again for free, none of which ran for long:
    # since when, and how many.
    failing_since = models.DateTimeField(null=True)
    failing_retries = models.PositiveSmallIntegerField(default=0, db_default=0)
    # Its owner wants no more attempts after a failure; a preempted job is still started again.
    retries_ended = models.BooleanField(default=False, db_default=False)
    # The present attempt failed, and its logs were not read yet to find the cause.
    diagnosing_at = models.DateTimeField(null=True)
    diagnosis_claimed_until = models.DateTimeField(null=True)  # by a worker that reads them
    diagnosis = models.JSONField(null=True)  # of the newest job attempt that failed
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    stop_requested_at = models.DateTimeField(null=True)
    # How the present attempt ends, once that is decided (a `decisions.Verdict`); "": it goes on.
    verdict = models.CharField(max_length=16, blank=True, default="", db_default="")
    # {code, message, details}: why it waits (cleared when placed), how it ended. For people only:
    # codes of `exit_reason` come from nodes.
    wait_reason = models.JSONField(null=True)
    exit_reason = models.JSONField(null=True)
    # Its GPUs were idle for too long at that time; see telemetry.idle. Null: no warning stands.
    idle_warned_at = models.DateTimeField(null=True)
    # A VC admin lets it keep its GPUs however idle they are.
    idle_exempt = models.BooleanField(default=False, db_default=False)
    logs_deleted_at = models.DateTimeField(null=True)  # by the retention policy
    use_counted = models.BooleanField(default=False, db_default=False)  # see telemetry.JobUse
    # Of the task whose log is to be read for metrics; null: none, or all of it was read.
    metrics_rank = models.PositiveIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "name"], name="job_name_per_owner"),
            models.UniqueConstraint(
                fields=["owner", "client_token"],
                condition=~Q(client_token=""),
                name="job_client_token",
            ),
        ]
        # An update that changes a column of an index, or of its condition, writes to all of them.
        # None has `placed_at`, `attempt` or `updated_at`: what places a job stays on its page.
        indexes = [
            # The queue, and what begins: small however large the table grows.
            models.Index(
                fields=["vc", "-priority", "created_at"],
                condition=Q(state="WAITING"),
                name="job_in_queue",
            ),
            models.Index(fields=["id"], condition=Q(unplaced__gt=0), name="job_incomplete"),
            models.Index(
                fields=["id"],
                condition=Q(awaits_dependencies=True, state="WAITING"),
                name="job_with_dependencies",
            ),
            models.Index(
                fields=["diagnosing_at"],
                condition=Q(diagnosing_at__isnull=False),
                name="job_diagnosing",
            ),
            models.Index(fields=["ends_at"], condition=Q(ends_at__isnull=False), name="job_ends"),
            # Finished jobs whose logs still lie here, oldest first.
            models.Index(
                fields=["finished_at"],
                condition=Q(finished_at__isnull=False, logs_deleted_at__isnull=True),
                name="job_with_logs",
            ),
            # Finished jobs whose use was not counted yet.
            models.Index(
                fields=["finished_at"],
                condition=Q(finished_at__isnull=False, use_counted=False),
                name="job_uncounted",
            ),
            # Jobs whose metrics are to be read.
            models.Index(
                fields=["state"], condition=Q(metrics_rank__isnull=False), name="job_metrics_due"
            ),
            models.Index(
                fields=["root_id"], condition=Q(root_id__isnull=False), name="job_by_root"
            ),
            GinIndex(fields=["tags"], name="job_tags"),
            # Failed jobs by the code and the category of their diagnosis.
            GinIndex(
                fields=["diagnosis"],
                opclasses=["jsonb_path_ops"],
                condition=Q(diagnosis__isnull=False),
                name="job_by_cause",
            ),
            # What the name contains, compared as Django compares in any case.
            GinIndex(OpClass(Upper("name"), "gin_trgm_ops"), name="job_name_search"),
            # The orders of the list, each with the key that makes it unique.
            models.Index(fields=["name", "id"], name="job_order_name"),
            models.Index(fields=["state", "id"], name="job_order_state"),
            models.Index(fields=["priority", "id"], name="job_order_priority"),
            models.Index(fields=["gpus", "id"], name="job_order_gpus"),
            models.Index(fields=["tasks_total", "id"], name="job_order_tasks"),
            models.Index(fields=["finished_at", "id"], name="job_order_finished"),
            models.Index(RETRIES, F("id"), name="job_order_retries"),
            models.Index(fields=["-created_at", "id"], name="job_newest"),
            models.Index(fields=["owner", "-created_at"], name="job_by_owner"),
            models.Index(fields=["vc", "-created_at"], name="job_by_vc"),
            models.Index(fields=["state", "-created_at"], name="job_by_state"),
            models.Index(fields=["priority_class", "-created_at"], name="job_by_class"),
            # Durations of jobs with the same commands, for the prediction of the next one.
            models.Index(
                fields=["owner", "command_key", "-created_at"],
                condition=Q(state="SUCCEEDED", started_at__isnull=False, finished_at__isnull=False),
                name="job_by_command",
            ),
            # Those that their owners opened to others: few.
            models.Index(
                fields=["-created_at", "id"],
                condition=Q(visibility="everyone"),
                name="job_for_everyone",
            ),
            models.Index(
                fields=["vc", "-created_at"],
                condition=Q(visibility="members"),
                name="job_for_members",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class JobSecrets(models.Model):
    """What only the job's containers may know, encrypted with a key that the database has not."""

    job = models.OneToOneField(Job, models.CASCADE, primary_key=True, related_name="secrets")
    # JSON {"secrets": {…}, "auths": {image reference: {username, password, registry}}}
    sealed = models.BinaryField()


class JobApiToken(models.Model):
    """The API token of a job that asked for one, encrypted; its hash is an `ApiToken`. The row ends
    with the job."""

    job = models.OneToOneField(Job, models.CASCADE, primary_key=True, related_name="api_token")
    sealed = models.BinaryField()


class JobFiles(models.Model):
    """The working files that a job starts with."""

    job = models.OneToOneField(Job, models.CASCADE, primary_key=True, related_name="files")
    archive = models.ForeignKey("files.Archive", models.PROTECT, related_name="jobs")


class JobStorage(models.Model):
    """A storage that the containers of a job mount, by its name at the time of the submit; or a
    dataset in it, by NAME@VERSION."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="storages")
    storage = models.ForeignKey("storage.Storage", models.SET_NULL, null=True, related_name="+")
    dataset = models.ForeignKey("storage.Dataset", models.SET_NULL, null=True, related_name="+")
    name = models.CharField(max_length=127)
    target = models.CharField(max_length=1024)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "target"], name="storage_target_once")
        ]


class JobShare(models.Model):
    """A user, or all users of a group, who may read a job of another owner."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="shares", db_index=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="shared_jobs"
    )
    group = models.ForeignKey(
        "accounts.Group", models.CASCADE, null=True, related_name="shared_jobs"
    )
    shared_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(user=None) ^ models.Q(group=None), name="job_share_to_one"
            ),
            models.UniqueConstraint(fields=["job", "user"], name="job_share_user_once"),
            models.UniqueConstraint(fields=["job", "group"], name="job_share_group_once"),
        ]


class JobDependency(models.Model):
    """`job` is queued once `upstream` has started or ended as `condition` says."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="dependencies")
    upstream = models.ForeignKey(Job, models.CASCADE, related_name="dependents")
    condition = models.CharField(max_length=16)  # afterok, afternotok, afterany or after

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job", "upstream", "condition"], name="job_dependency_once"
            ),
        ]


class JobAttempt(models.Model):
    """A placement of a job that has ended; the row of the job itself has the present one."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="job_attempts", db_index=False)
    index = models.PositiveIntegerField()  # from 1, as in TaskAttempt.index
    outcome = models.CharField(max_length=16)  # SUCCEEDED, FAILED, STOPPED or PREEMPTED
    retry = models.CharField(max_length=16, blank=True)  # why another one follows; "": none does
    placed_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField()
    reason = models.JSONField(null=True)  # {code, message, details}
    diagnosis = models.JSONField(null=True)
    # Seconds from when it was asked to leave until its places were free, and from its start to its
    # first metric, else its first line; null: it was not asked, or nothing was written.
    leave_s = models.FloatField(null=True)
    warmup_s = models.FloatField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "index"], name="job_attempt_once"),
        ]


class RankChange(models.Model):
    """A job that was downgraded while it ran (from then on not `guaranteed`), or restored. Until
    the first change of a job attempt its tasks rank as they were placed (`TaskAttempt.cell_type`).
    """

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, models.CASCADE, related_name="rank_changes", db_index=False)
    index = models.PositiveIntegerField()  # of the job attempt
    at = models.DateTimeField()
    guaranteed = models.BooleanField()

    class Meta:
        indexes = [models.Index(fields=["job", "index", "at"], name="rank_change_by_job")]


class TaskRole(models.Model):
    """A group of equal tasks of a job, and what each of them needs."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="roles", db_index=False)
    name = models.CharField(max_length=255)
    position = models.PositiveSmallIntegerField()  # order in the job file
    instances = models.PositiveIntegerField()
    gpus = models.PositiveIntegerField()  # per instance, as all that follow
    gpu_model = models.CharField(max_length=100, blank=True)  # "": any one model
    cell_type = models.CharField(max_length=200, blank=True)  # asked for instead of GPUs
    cells = models.PositiveIntegerField(default=0)
    within = models.CharField(max_length=200, blank=True)  # cell type that shall hold the role
    affinity_group = models.CharField(max_length=255, blank=True)
    parallelism = models.PositiveIntegerField(null=True)  # tasks at a time; null: all of them
    cpu_millis = models.PositiveIntegerField()
    memory_mb = models.PositiveIntegerField()
    shm_mb = models.PositiveIntegerField(default=512)
    rdma = models.BooleanField(default=False)
    ports = models.JSONField(default=dict)  # label -> count
    image = models.CharField(max_length=512)  # the reference to pull
    command = models.TextField()
    # -1: never by this count (OpenPAI's minFailedInstances, minSucceededInstances)
    min_failed = models.IntegerField(default=1)
    min_succeeded = models.IntegerField()
    task_retries = models.IntegerField(default=0)  # taskRetryCount; only where each starts alone
    # Of an elastic role: `instances` is chosen at each start, from the fewest to the most; null: it
    # is not elastic.
    elastic_min = models.PositiveIntegerField(null=True)
    elastic_max = models.PositiveIntegerField(null=True)
    asked_instances = models.PositiveIntegerField(null=True)  # as in the job file

    class Meta:
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["job", "name"], name="role_once")]
