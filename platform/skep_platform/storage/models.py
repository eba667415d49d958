"""Storages that an admin describes once, and their grants to virtual clusters and groups."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from skep_platform.core.models import Entity
from skep_platform.tenancy.models import NAME, VirtualCluster


class StorageType(models.TextChoices):
    """Where a storage lies: on a server that each node mounts, or in a folder that each has."""

    NFS = "nfs"
    HOST_PATH = "host_path"


class Storage(Entity):
    """A shared folder that nodes can reach. Tenants see its name; where it lies is for admins."""

    name = models.CharField(max_length=63, unique=True, validators=[NAME])
    description = models.CharField(max_length=500, blank=True)
    type = models.CharField(max_length=16, choices=StorageType.choices)
    # {server, path} of an export, {path} of a folder on every node.
    data = models.JSONField()
    mount_options = models.JSONField(default=list)  # of NFS, in the order of mount(8)
    read_only = models.BooleanField(default=False)  # for all, whatever a grant says
    # Each user gets a folder of its own below the storage; OpenPAI says `share: "false"`.
    per_user = models.BooleanField(default=False)
    # The folder of its owner is mounted in each job, at /home/USER. Only with `per_user`.
    home = models.BooleanField(default=False, db_default=False)
    # Mounted where a job file says `storages: []`.
    default = models.BooleanField(default=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )

    def __str__(self) -> str:
        return self.name


class StorageGrant(models.Model):
    """The right to mount a storage: of the jobs of a virtual cluster, or of the jobs of the users
    of a group, in whichever virtual cluster they run."""

    storage = models.ForeignKey(Storage, models.CASCADE, related_name="grants")
    vc = models.ForeignKey(VirtualCluster, models.CASCADE, null=True, related_name="storage_grants")
    group = models.ForeignKey(
        "accounts.Group", models.CASCADE, null=True, related_name="storage_grants"
    )
    read_only = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(vc=None) ^ models.Q(group=None), name="storage_grant_to_one"
            ),
            models.UniqueConstraint(fields=["storage", "vc"], name="storage_grant_once"),
            models.UniqueConstraint(fields=["storage", "group"], name="storage_grant_group_once"),
        ]
