"""Where log bytes lie, and rolled-up samples."""

from __future__ import annotations

from django.db import models


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


class GpuRollup(models.Model):
    """Use of one GPU over `seconds` from `at`; `attempt` held it then, if any."""

    device = models.ForeignKey("cluster.Device", models.CASCADE, related_name="+")
    attempt = models.ForeignKey("jobs.TaskAttempt", models.CASCADE, null=True, related_name="+")
    at = models.DateTimeField()
    seconds = models.PositiveIntegerField()
    samples = models.PositiveIntegerField()
    utilization_sum = models.FloatField()  # percent; divide by samples
    utilization_max = models.FloatField()
    memory_used_mb_max = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["device", "at", "attempt"],
                nulls_distinct=False,
                name="gpu_rollup_once",
            )
        ]
        indexes = [models.Index(fields=["attempt", "at"], name="gpu_rollup_by_attempt")]


class TaskRollup(models.Model):
    """Use of CPU, memory and network of one attempt over `seconds` from `at`."""

    attempt = models.ForeignKey("jobs.TaskAttempt", models.CASCADE, related_name="rollups")
    at = models.DateTimeField()
    seconds = models.PositiveIntegerField()
    samples = models.PositiveIntegerField()
    cpu_percent_sum = models.FloatField()  # 100 = one core
    cpu_percent_max = models.FloatField()
    memory_mb_max = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "at"], name="task_rollup_once")]


class JobUse(models.Model):
    """What a finished job made of what it was given, over all of its attempts."""

    job = models.OneToOneField("jobs.Job", models.CASCADE, primary_key=True, related_name="use")
    gpu_hours = models.FloatField()  # held, whether used or not
    gpu_utilization = models.FloatField(null=True)  # percent, mean over the time held; null: no GPU
    gpu_memory_peak_mb = models.PositiveIntegerField(null=True)  # of one GPU
    cpu_percent = models.FloatField(null=True)  # mean of a task; 100 = one core
    memory_peak_mb = models.PositiveIntegerField(null=True)  # of one task
    advice = models.JSONField(default=list)  # [{code, message, details}]
