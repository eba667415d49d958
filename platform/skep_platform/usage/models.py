"""GPU time by job and day, as counted from leases, its sums, and budgets of virtual clusters."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.indexes import GistIndex
from django.db import models
from django.db.models import F, Func, GeneratedField, Q, Value


class UsageDay(models.Model):
    """GPU time of a job on one day (UTC), on GPUs of one model, either guaranteed or borrowed.

    Times are GPU-microseconds, the resolution of the leases: no sum is ever rounded. `used_us` is
    weighted by utilisation; of the allocated time, `known_us` is covered by samples. Rows of old
    days are merged into one for all jobs of a user in a virtual cluster: `job` is null then."""

    id = models.BigAutoField(primary_key=True)
    day = models.DateField()
    job = models.ForeignKey(
        "jobs.Job", models.CASCADE, null=True, related_name="usage_days", db_index=False
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="usage_days", db_index=False
    )
    vc = models.ForeignKey(
        "tenancy.VirtualCluster", models.CASCADE, related_name="usage_days", db_index=False
    )
    gpu_model = models.CharField(max_length=100)
    guaranteed = models.BooleanField()  # in cells that the virtual cluster owns; else borrowed
    allocated_us = models.BigIntegerField()
    used_us = models.BigIntegerField(default=0)
    known_us = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job", "day", "gpu_model", "guaranteed", "vc", "user"],
                nulls_distinct=False,
                name="usage_day_once",
            )
        ]
        indexes = [
            models.Index(fields=["day"], name="usage_by_day"),
            models.Index(fields=["vc", "day"], name="usage_by_vc"),
            models.Index(fields=["user", "day"], name="usage_by_user"),
            models.Index(fields=["day"], name="usage_merged", condition=Q(job=None)),
        ]


class UsageRollup(models.Model):
    """Sums of `UsageDay` over one day or one calendar month, for each GPU model and class: of a
    user in a virtual cluster, of a virtual cluster (`user` is null) and of all (`vc` is, too).

    Triggers on `UsageDay` write them in the transaction of each change (migration 0004)."""

    id = models.BigAutoField(primary_key=True)
    monthly = models.BooleanField()
    day = models.DateField()  # the first one, of a month
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+", db_index=False
    )
    vc = models.ForeignKey(
        "tenancy.VirtualCluster", models.CASCADE, null=True, related_name="+", db_index=False
    )
    gpu_model = models.CharField(max_length=100)
    guaranteed = models.BooleanField()
    allocated_us = models.BigIntegerField()
    used_us = models.BigIntegerField()
    known_us = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["monthly", "day", "vc", "user", "gpu_model", "guaranteed"],
                nulls_distinct=False,
                name="usage_rollup_once",
            )
        ]
        indexes = [
            models.Index(fields=["user", "day"], name="usage_rollup_by_user"),
            models.Index(fields=["vc", "day"], name="usage_rollup_by_vc"),
            models.Index(
                fields=["monthly", "day"], name="usage_rollup_of_vcs", condition=Q(user=None)
            ),
        ]


class JobUsage(models.Model):
    """The sums of all `UsageDay` of a job, written by the same triggers, for lists in the order of
    what jobs used: an index has them by the month in which a job began."""

    job = models.OneToOneField(
        "jobs.Job", models.CASCADE, primary_key=True, related_name="usage_sums"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False
    )
    vc = models.ForeignKey(
        "tenancy.VirtualCluster", models.CASCADE, related_name="+", db_index=False
    )
    gpu_model = models.CharField(max_length=100, null=True)  # null: several
    month = models.DateField()  # its first day; that in which `first_day` lies
    first_day = models.DateField()
    last_day = models.DateField()
    allocated_us = models.BigIntegerField()
    guaranteed_us = models.BigIntegerField()
    used_us = models.BigIntegerField()
    known_us = models.BigIntegerField()
    idle_us = GeneratedField(
        expression=F("known_us") - F("used_us"),
        output_field=models.BigIntegerField(),
        db_persist=True,
    )

    class Meta:
        indexes = [
            models.Index(fields=["month", "allocated_us", "job"], name="job_usage_by_allocated"),
            models.Index(fields=["month", "used_us", "job"], name="job_usage_by_used"),
            models.Index(fields=["month", "idle_us", "job"], name="job_usage_by_idle"),
            models.Index(fields=["month", "job"], name="job_usage_by_job"),
            models.Index(fields=["vc", "month"], name="job_usage_by_vc"),
            models.Index(fields=["user", "month"], name="job_usage_by_user"),
            models.Index(
                fields=["last_day"], name="job_usage_of_models", condition=Q(gpu_model=None)
            ),
            GistIndex(
                Func(F("first_day"), F("last_day"), Value("[]"), function="daterange"),
                name="job_usage_by_days",
            ),
        ]


class FairnessMeasure(models.Model):
    """How users of a virtual cluster fared in the last 7 days, as counted `at` a moment: the
    largest mean rho of a user, and Jain's index of the users' speeds. No row where nothing is
    known."""

    vc = models.OneToOneField(
        "tenancy.VirtualCluster", models.CASCADE, primary_key=True, related_name="+"
    )
    at = models.DateTimeField()
    worst_rho = models.FloatField()
    jain_index = models.FloatField()


class Budget(models.Model):
    """The guaranteed GPU-hours that a virtual cluster may use in a calendar month (UTC).

    `used_us` and `used_up` are of `month`, as the last count found; the scheduler reads them."""

    vc = models.OneToOneField(
        "tenancy.VirtualCluster", models.CASCADE, primary_key=True, related_name="budget"
    )
    gpu_hours = models.PositiveIntegerField()  # per month
    month = models.DateField()  # its first day
    used_us = models.BigIntegerField(default=0)  # GPU-microseconds
    warned = models.BooleanField(default=False)  # an event reported that most of it is used
    used_up = models.BooleanField(default=False)
