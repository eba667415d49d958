"""Tasks, their attempts, and what attempts hold: GPUs, ports and networks."""

from __future__ import annotations

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, BigIntegerRangeField, RangeOperators
from django.db import models
from django.db.models import F, Q

from skep_platform.core.models import Entity
from skep_platform.jobs.models.job import Job, TaskRole
from skep_platform.jobs.states import AttemptState


class Task(models.Model):
    """One task of a role: what stays the same over its attempts. `rank` counts over the gang."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="tasks", db_index=False)
    role = models.ForeignKey(TaskRole, models.CASCADE, related_name="tasks")
    index = models.PositiveIntegerField()  # within the role
    rank = models.PositiveIntegerField()  # within the job
    # Of the present job attempt, where tasks are retried by themselves.
    retries_used = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "rank"], name="task_rank_once")]


class TaskAttempt(Entity):
    """A task placed on a node once. A retry is a new row; rows are never reused."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="attempts", db_index=False)
    task = models.ForeignKey(Task, models.CASCADE, related_name="attempts", db_index=False)
    role = models.ForeignKey(TaskRole, models.CASCADE, related_name="+")
    node = models.ForeignKey("cluster.Node", models.PROTECT, related_name="attempts")
    index = models.PositiveIntegerField()  # the job attempt it belongs to, from 1
    retry = models.PositiveIntegerField(default=0)  # of the task alone, within the job attempt
    epoch = models.PositiveBigIntegerField()  # fences reports of an older life of this attempt
    state = models.CharField(
        max_length=16, choices=AttemptState.choices, default=AttemptState.ASSIGNED
    )
    gpu_uuids = models.JSONField(default=list)
    gpu_model = models.CharField(max_length=100, blank=True)
    cell_type = models.CharField(max_length=200, blank=True)  # of the VC's cell; "": opportunistic
    network = models.CharField(max_length=16)
    address = models.CharField(max_length=15, blank=True)  # in the network of its gang
    ports = models.JSONField(default=dict)  # label -> [numbers]
    container_id = models.CharField(max_length=80, blank=True)
    phase = models.CharField(max_length=16, blank=True)  # as the node reported it last
    pull_percent = models.PositiveSmallIntegerField(null=True)
    pull_bytes = models.PositiveBigIntegerField(null=True)  # of compressed layers
    pull_total_bytes = models.PositiveBigIntegerField(null=True)  # None: not known yet
    exit_code = models.IntegerField(null=True)
    exit_signal = models.PositiveSmallIntegerField(null=True)
    oom_killed = models.BooleanField(default=False)
    error_code = models.CharField(max_length=64, blank=True)
    error_message = models.TextField(blank=True)
    memory_peak_mb = models.PositiveIntegerField(null=True)
    xids = ArrayField(models.PositiveIntegerField(), default=list)  # of its GPUs while it ran
    disk_full = models.BooleanField(default=False)
    diagnosis = models.JSONField(null=True)  # of the task that is to blame, and of one retried
    ready_at = models.DateTimeField(null=True)  # its container waits for the rest of the gang
    log_sizes = models.JSONField(default=dict)  # stream -> final bytes, once its end was reported
    # When it was first sent to its node, or was about to be: from then on it may have started.
    sent_run_at = models.DateTimeField(null=True, db_column="told_run_at")
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    # Set when the node verified that the GPUs are clean, or its own lease ran out.
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["task", "index", "retry"], name="attempt_once_per_task"
            ),
            # One living attempt per task, whatever the scheduler thinks.
            models.UniqueConstraint(
                fields=["task"], condition=Q(released_at__isnull=True), name="attempt_one_alive"
            ),
        ]
        indexes = [
            models.Index(
                fields=["node"], condition=Q(released_at__isnull=True), name="attempt_on_node"
            ),
            models.Index(fields=["job", "index"], name="attempt_by_job"),
        ]


class Lease(models.Model):
    """An attempt's hold on one slot of a GPU. The constraint is the last wall: a slot cannot be
    held twice, whatever the scheduler believes."""

    device = models.ForeignKey("cluster.Device", models.PROTECT, related_name="leases")
    slot = models.PositiveSmallIntegerField(default=0)  # > 0 only where a GPU is shared
    attempt = models.ForeignKey(TaskAttempt, models.CASCADE, related_name="leases")
    acquired_at = models.DateTimeField(auto_now_add=True)
    released_at = models.DateTimeField(null=True)
    # What it held before then is in the rows of usage for good; `released_at`: all of it is.
    counted_until = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["device", "slot"],
                condition=Q(released_at__isnull=True),
                name="lease_slot_held_once",
            )
        ]
        indexes = [
            # Leases that are not counted for good: those that are held, and a few more.
            models.Index(
                fields=["id"],
                condition=Q(released_at__isnull=True)
                | Q(counted_until__isnull=True)
                | ~Q(counted_until=F("released_at")),
                name="lease_uncounted",
            )
        ]


class PortLease(models.Model):
    """A port of a node held by an attempt on the host network."""

    node = models.ForeignKey("cluster.Node", models.PROTECT, related_name="+")
    port = models.PositiveIntegerField()
    attempt = models.ForeignKey(TaskAttempt, models.CASCADE, related_name="port_leases")
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node", "port"],
                condition=Q(released_at__isnull=True),
                name="port_held_once",
            )
        ]


class GangNetwork(models.Model):
    """The network of a gang over several nodes: of one attempt of a job, while any of its tasks
    holds its node. The constraints are the last wall: no two have an address or a VNI in common."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="networks")
    index = models.PositiveIntegerField()  # of the job attempt
    vni = models.PositiveIntegerField(unique=True)
    addresses = BigIntegerRangeField()  # of IPv4 as numbers, without the last

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "index"], name="gang_network_once"),
            ExclusionConstraint(
                name="gang_addresses_once",
                expressions=[("addresses", RangeOperators.OVERLAPS)],
            ),
        ]
