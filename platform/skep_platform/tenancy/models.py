"""Virtual clusters, what they own and who belongs to them."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models

from skep_platform.core.models import Entity

NAME = RegexValidator(r"\A[a-zA-Z0-9][a-zA-Z0-9_-]{0,62}\Z", "Use letters, digits, '-' and '_'.")


class Visibility(models.TextChoices):
    """Who sees a job besides its owner, the managers of its virtual cluster and admins."""

    OWNER = "owner"  # nobody else
    MEMBERS = "members"  # the members of its virtual cluster
    EVERYONE = "everyone"  # every user of the cluster


class VirtualCluster(Entity):
    """A team's share of the cluster. What it owns are its `Quota` rows."""

    name = models.CharField(max_length=63, unique=True, validators=[NAME])
    description = models.CharField(max_length=500, blank=True)
    # What its jobs may ask for between SIGTERM (or their checkpoint signal) and SIGKILL.
    max_stop_grace_s = models.PositiveIntegerField(default=300)
    # Who sees those of its jobs that do not say otherwise.
    job_visibility = models.CharField(
        max_length=8, choices=Visibility.choices, default=Visibility.OWNER
    )

    def __str__(self) -> str:
        return self.name


class Quota(models.Model):
    """A count claim: so many GPUs of a model, owned in the largest cells that fit."""

    vc = models.ForeignKey(VirtualCluster, models.CASCADE, related_name="quotas")
    gpu_model = models.CharField(max_length=100)
    gpus = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["vc", "gpu_model"], name="quota_once")]


class VcCell(models.Model):
    """A cell claim: so many cells of a type that a virtual cluster owns, wherever they lie."""

    vc = models.ForeignKey(VirtualCluster, models.CASCADE, related_name="cells")
    chain = models.CharField(max_length=200)
    cell_type = models.CharField(max_length=200)
    number = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["vc", "chain", "cell_type"], name="vc_cell_once")
        ]


class PinnedCell(models.Model):
    """One particular cell with a name: that of the type which contains the node (and, below node
    level, the device). `vc` owns it."""

    name = models.CharField(max_length=63, unique=True, validators=[NAME])
    cell_type = models.CharField(max_length=200)
    node_name = models.CharField(max_length=255)
    device_uuid = models.CharField(max_length=80, blank=True)
    vc = models.ForeignKey(
        VirtualCluster, models.SET_NULL, null=True, blank=True, related_name="pinned_cells"
    )


class Membership(models.Model):
    """A user's place in a virtual cluster. A manager may stop every job of it."""

    class Role(models.TextChoices):
        MEMBER = "member"
        MANAGER = "manager"

    vc = models.ForeignKey(VirtualCluster, models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.MEMBER)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["vc", "user"], name="membership_once")]


class VcLimit(models.Model):
    """A limit that an admin set for this virtual cluster. Without a row the default of
    `tenancy.limits.LIMITS` holds."""

    vc = models.ForeignKey(VirtualCluster, models.CASCADE, related_name="limits")
    name = models.CharField(max_length=63)
    value = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["vc", "name"], name="vc_limit_once")]
