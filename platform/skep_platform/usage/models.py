"""GPU time by job and day, as counted from leases, and the budgets of virtual clusters."""

from __future__ import annotations

from django.conf import settings
from django.db import models


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
        ]


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
