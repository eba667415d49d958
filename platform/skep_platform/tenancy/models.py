"""Virtual clusters, what they own and who belongs to them."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models

from skep_platform.core.models import Entity

NAME = RegexValidator(r"\A[a-zA-Z0-9][a-zA-Z0-9_-]{0,62}\Z", "Use letters, digits, '-' and '_'.")


class VirtualCluster(Entity):
    """A team's share of the cluster. What it owns are its `Quota` rows."""

    name = models.CharField(max_length=63, unique=True, validators=[NAME])
    description = models.CharField(max_length=500, blank=True)

    def __str__(self) -> str:
        return self.name


class Quota(models.Model):
    """GPUs of one model that a virtual cluster owns."""

    vc = models.ForeignKey(VirtualCluster, models.CASCADE, related_name="quotas")
    gpu_model = models.CharField(max_length=100)
    gpus = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["vc", "gpu_model"], name="quota_once")]


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
