"""Where log bytes lie, rolled-up samples, and what jobs measure themselves."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q


class LogChunk(models.Model):
    """Bytes [offset, offset + size) of one stream of one attempt, stored under `key` in the log
    storage. `id` rises in order of arrival: it is the cursor of a job's merged log."""

    id = models.BigAutoField(primary_key=True)
    # Both have an index below that begins with them; each one more slows the path of every line.
    job = models.ForeignKey("jobs.Job", models.CASCADE, related_name="+", db_index=False)
    attempt = models.ForeignKey(
        "jobs.TaskAttempt", models.CASCADE, related_name="log_chunks", db_index=False
    )
    stream = models.CharField(max_length=8)  # "stdout" or "stderr"
    offset = models.PositiveBigIntegerField()
    size = models.PositiveIntegerField()
    at = models.DateTimeField()  # of its first line
    key = models.CharField(max_length=200)
    # Behind its bytes lie as many more with the time of each line (encode_times of the protocol);
    # 0: not known, and `at` stands for all. The default is the database's, for the web servers of
    # the version before, which go on during an upgrade.
    times_size = models.PositiveIntegerField(default=0, db_default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "stream", "offset"], name="chunk_once")
        ]
        indexes = [
            models.Index(fields=["job", "id"], name="chunk_by_job"),
            # One rank of a large gang, without a look at the others' chunks.
            models.Index(fields=["attempt", "id"], name="chunk_by_attempt"),
        ]


class GpuUse(models.Model):
    """Use of one GPU over `seconds` from `at`; `attempt` held it then, if any. Rows have no index
    by `id`; those of `device` and `attempt` are parts of others."""

    device = models.ForeignKey("cluster.Device", models.CASCADE, related_name="+", db_index=False)
    attempt = models.ForeignKey(
        "jobs.TaskAttempt", models.CASCADE, null=True, related_name="+", db_index=False
    )
    at = models.DateTimeField()
    seconds = models.PositiveIntegerField()
    samples = models.PositiveIntegerField()
    utilization_sum = models.FloatField()  # percent; divide by samples
    utilization_max = models.FloatField()
    memory_used_mb_max = models.PositiveIntegerField()
    power_w_sum = models.FloatField(null=True)  # divide by power_samples; null: not measured
    power_samples = models.PositiveIntegerField(null=True)  # null: as many as samples

    class Meta:
        abstract = True


class TaskUse(models.Model):
    """Use of CPU, memory and network of one attempt over `seconds` from `at`."""

    attempt = models.ForeignKey(
        "jobs.TaskAttempt", models.CASCADE, related_name="+", db_index=False
    )
    at = models.DateTimeField()
    seconds = models.PositiveIntegerField()
    samples = models.PositiveIntegerField()
    cpu_percent_sum = models.FloatField()  # 100 = one core
    cpu_percent_max = models.FloatField()
    memory_mb_max = models.PositiveIntegerField()
    # Bytes within these seconds; null: not measured.
    network_rx_bytes = models.BigIntegerField(null=True)
    network_tx_bytes = models.BigIntegerField(null=True)
    disk_read_bytes = models.BigIntegerField(null=True)
    disk_written_bytes = models.BigIntegerField(null=True)
    # How many samples had each of these four; null: all of them.
    byte_samples = ArrayField(models.PositiveIntegerField(), null=True)

    class Meta:
        abstract = True


class GpuRollup(GpuUse):
    """The rows by the minute. The table is partitioned by months of `at`."""

    # Of the first hour of an attempt: {"20": [percent, MB, W or null]}, means of FINE_S seconds
    # that begin so many seconds after `at`.
    fine = models.JSONField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["device", "at", "attempt"],
                nulls_distinct=False,
                name="gpu_rollup_once",
            )
        ]
        indexes = [
            models.Index(fields=["attempt", "at"], name="gpu_rollup_by_attempt"),
            # The oldest of each resolution, see `downsampling`.
            models.Index(fields=["seconds", "at"], name="gpu_rollup_oldest"),
        ]


class TaskRollup(TaskUse):
    """The rows by the minute; partitioned as `GpuRollup`."""

    # As of GPUs: {"20": [percent, MB, and these four in bytes per second]}.
    fine = models.JSONField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "at"], name="task_rollup_once")]
        indexes = [models.Index(fields=["seconds", "at"], name="task_rollup_oldest")]


class GpuHistory(GpuUse):
    """Rows of `GpuRollup` that became one of an hour or a day; see `downsampling`. The table is
    partitioned by `seconds`, and each part by months of `at`."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["device", "at", "attempt", "seconds"],
                nulls_distinct=False,
                name="gpu_history_once",
            )
        ]
        indexes = [
            models.Index(fields=["attempt", "at"], name="gpu_history_by_attempt"),
            models.Index(fields=["at"], name="gpu_history_oldest"),
        ]


class TaskHistory(TaskUse):
    """Rows of `TaskRollup` that became one of an hour or a day; partitioned as `GpuHistory`."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "at", "seconds"], name="task_history_once")
        ]
        indexes = [models.Index(fields=["at"], name="task_history_oldest")]


class JobUse(models.Model):
    """What a finished job made of what it was given, over all of its attempts."""

    job = models.OneToOneField("jobs.Job", models.CASCADE, primary_key=True, related_name="use")
    gpu_hours = models.FloatField()  # held, whether used or not
    gpu_utilization = models.FloatField(null=True)  # percent, mean over the time held; null: no GPU
    gpu_memory_peak_mb = models.PositiveIntegerField(null=True)  # of one GPU
    cpu_percent = models.FloatField(null=True)  # mean of a task; 100 = one core
    memory_peak_mb = models.PositiveIntegerField(null=True)  # of one task
    advice = models.JSONField(default=list)  # [{code, message, details}]


class PredictionDay(models.Model):
    """How well durations were predicted of the jobs that succeeded on one day; see
    `calibration`."""

    day = models.DateField()
    source = models.CharField(max_length=8, blank=True)  # of the prediction; "": there was none
    jobs = models.PositiveIntegerField(default=0)
    intervals = models.PositiveIntegerField(default=0)  # of them had an interval
    within = models.PositiveIntegerField(default=0)  # of these ended within it
    # Jobs by the part by which the prediction was off, see `calibration.BOUNDS`.
    errors = ArrayField(models.PositiveIntegerField())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["day", "source"], name="prediction_day_once")
        ]


class MetricLog(models.Model):
    """How far the log of a task attempt was read for metrics; see `user_metrics`."""

    attempt = models.OneToOneField(
        "jobs.TaskAttempt", models.CASCADE, primary_key=True, related_name="+"
    )
    job = models.ForeignKey("jobs.Job", models.CASCADE, related_name="+")
    # Bytes of each stream up to the line that is looked at next. A stream in `inside` goes on with
    # the rest of a line that is too long to be looked at.
    stdout = models.PositiveBigIntegerField(default=0)
    stderr = models.PositiveBigIntegerField(default=0)
    # How long the streams were then: one that did not grow is not read again.
    stdout_end = models.PositiveBigIntegerField(default=0)
    stderr_end = models.PositiveBigIntegerField(default=0)
    inside = ArrayField(models.CharField(max_length=8), default=list)
    dropped = models.JSONField(default=dict)  # {reason: numbers that were not taken}
    due_at = models.DateTimeField(null=True)  # read again then; null: all of it was read
    at = models.DateTimeField()  # when it was read last

    class Meta:
        indexes = [
            models.Index(
                fields=["due_at"], condition=Q(due_at__isnull=False), name="metric_log_due"
            ),
            models.Index(fields=["at"], name="metric_log_by_age"),
        ]


class UserMetric(models.Model):
    """A metric that a task attempt wrote into its log: every `stride`-th of its points."""

    job = models.ForeignKey("jobs.Job", models.CASCADE, related_name="+", db_index=False)
    attempt = models.ForeignKey(
        "jobs.TaskAttempt", models.CASCADE, related_name="+", db_index=False
    )
    name = models.CharField(max_length=64)
    stride = models.PositiveBigIntegerField(default=1)
    steps = ArrayField(models.FloatField())
    times = ArrayField(models.FloatField())  # seconds since the epoch
    values = ArrayField(models.FloatField())
    # Of all points, kept or not. NaN and infinity are no points, and counted by themselves.
    count = models.PositiveBigIntegerField()
    low = models.FloatField(null=True)
    high = models.FloatField(null=True)
    last = models.FloatField(null=True)
    last_step = models.FloatField(null=True)
    last_time = models.FloatField(null=True)
    not_finite = models.PositiveBigIntegerField(default=0)
    not_finite_step = models.FloatField(null=True)  # of the first one
    at = models.DateTimeField()  # when the newest point was stored

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "name"], name="user_metric_once")]
        indexes = [
            models.Index(fields=["job", "name"], name="user_metric_by_job"),
            models.Index(fields=["at"], name="user_metric_by_age"),
        ]
