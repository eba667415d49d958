"""Virtual clusters, what they own and who belongs to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models

from skep_platform.core.models import Entity
from skep_platform.core.remembered import NotedQuerySet
from skep_scheduler.model import PolicyChoice

NAME = RegexValidator(r"\A[a-zA-Z0-9][a-zA-Z0-9_-]{0,62}\Z", "Use letters, digits, '-' and '_'.")


class Visibility(models.TextChoices):
    """Who sees a job besides its owner, VC admins and admins."""

    OWNER = "owner"  # no other user
    MEMBERS = "members"  # the members of its virtual cluster
    EVERYONE = "everyone"  # every user of the cluster


@dataclass(frozen=True, slots=True)
class Preloaded:
    """What was read along with a virtual cluster, because a submit needs all of it: the limits that
    admins set, the patterns of images, (cell type, GPU model, number) of what it owns, and the
    references and least drivers of the catalogue's images that a job names."""

    limits: Mapping[str, int]
    image_patterns: Sequence[str]
    claims: Sequence[tuple[str, str, int]]
    images: Mapping[str, str]
    drivers: Mapping[str, str]


class VirtualCluster(Entity):
    """A team's share of the cluster. What it owns are its `Quota` rows."""

    name = models.CharField(max_length=63, unique=True, validators=[NAME])
    description = models.CharField(max_length=500, blank=True)
    # What its jobs may ask for between SIGTERM (or their checkpoint signal) and SIGKILL.
    max_stop_grace_s = models.PositiveIntegerField(default=300)
    # What forms and `skep run` put into a job file that is written without an image; a name of the
    # catalogue or a reference. "": they choose.
    default_image = models.CharField(max_length=512, blank=True, default="", db_default="")
    # Who sees those of its jobs that do not say otherwise.
    job_visibility = models.CharField(
        max_length=8, choices=Visibility.choices, default=Visibility.OWNER
    )
    # {name, parameters} of the policy that orders its waiting jobs; null: the default one.
    policy = models.JSONField(null=True, blank=True)

    objects = NotedQuerySet.as_manager()

    preloaded: Preloaded | None = None  # else each is read when it is needed

    def __str__(self) -> str:
        return self.name


class Quota(models.Model):
    """A count claim: so many GPUs of a model, owned in the largest cells that fit."""

    vc = models.ForeignKey(VirtualCluster, models.CASCADE, related_name="quotas")
    gpu_model = models.CharField(max_length=100)
    gpus = models.PositiveIntegerField()

    objects = NotedQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["vc", "gpu_model"], name="quota_once")]


class VcCell(models.Model):
    """A cell claim: so many cells of a type that a virtual cluster owns, wherever they lie."""

    vc = models.ForeignKey(VirtualCluster, models.CASCADE, related_name="cells")
    chain = models.CharField(max_length=200)
    cell_type = models.CharField(max_length=200)
    number = models.PositiveIntegerField()

    objects = NotedQuerySet.as_manager()

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


class Role(models.TextChoices):
    """What a user may do in a virtual cluster, in ascending order: each may do what those before it
    may. A viewer sees what its members see; a member runs jobs; an admin manages its members and
    all its jobs."""

    VIEWER = "viewer"
    MEMBER = "member"
    ADMIN = "admin"


class RoleGrant(models.Model):
    """A role in a virtual cluster that was given to a user, or to all users of a group."""

    vc = models.ForeignKey(VirtualCluster, models.CASCADE, related_name="grants")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="role_grants"
    )
    group = models.ForeignKey(
        "accounts.Group", models.CASCADE, null=True, related_name="role_grants"
    )
    role = models.CharField(max_length=16, choices=Role.choices)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(user=None) ^ models.Q(group=None), name="role_grant_to_one"
            ),
            models.UniqueConstraint(fields=["vc", "user"], name="role_grant_user_once"),
            models.UniqueConstraint(fields=["vc", "group"], name="role_grant_group_once"),
        ]


class Membership(models.Model):
    """The role of a user in a virtual cluster: the highest of the user's own grant and of those to
    the user's groups. Derived from `RoleGrant` and the groups by `tenancy.memberships.refresh`,
    and stored because every list, count and socket asks for it."""

    SUBMITTERS = (Role.MEMBER, Role.ADMIN)

    vc = models.ForeignKey(VirtualCluster, models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.MEMBER)

    objects = NotedQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["vc", "user"], name="membership_once")]


class ServiceAccount(Entity):
    """A user for programs that a virtual cluster owns. Its user has the name svc.VC.NAME, with the
    name that the virtual cluster had when it was created."""

    vc = models.ForeignKey(VirtualCluster, models.CASCADE, related_name="service_accounts")
    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="service_account"
    )
    name = models.CharField(max_length=63, validators=[NAME])
    description = models.CharField(max_length=500, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["vc", "name"], name="service_account_once")]

    def __str__(self) -> str:
        return self.name


class VcLimit(models.Model):
    """A limit that an admin set for this virtual cluster. Without a row the default of
    `tenancy.limits.LIMITS` holds."""

    vc = models.ForeignKey(VirtualCluster, models.CASCADE, related_name="limits")
    name = models.CharField(max_length=63)
    value = models.BigIntegerField()

    objects = NotedQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["vc", "name"], name="vc_limit_once")]


def choice_of(stored: Mapping[str, Any] | None) -> PolicyChoice:
    """Return what is stored in `VirtualCluster.policy` as the scheduler reads it."""
    if not stored:
        return PolicyChoice()
    parameters = stored.get("parameters") or {}
    return PolicyChoice(stored.get("name", ""), tuple(sorted(parameters.items())))
