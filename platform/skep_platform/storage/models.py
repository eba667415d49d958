"""Storages that an admin, or a VC admin, describes once, and their grants to virtual clusters and
groups; datasets, which are folders in them."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models

from skep_platform.core.models import Entity
from skep_platform.tenancy.models import NAME, VirtualCluster

VERSION = RegexValidator(
    r"\A[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}\Z", "Use letters, digits, '.', '-' and '_'."
)


class StorageType(models.TextChoices):
    """Where a storage lies: on a server that each node mounts, in a folder that each has, or in a
    bucket, of which each task gets a copy."""

    NFS = "nfs"
    HOST_PATH = "host_path"
    S3 = "s3"


class Storage(Entity):
    """A shared folder that nodes can reach. Tenants see its name; where it lies is for those who
    may change it."""

    name = models.CharField(max_length=63, unique=True, validators=[NAME])
    description = models.CharField(max_length=500, blank=True)
    type = models.CharField(max_length=16, choices=StorageType.choices)
    # {server, path} of an export, {path} of a folder on every node, {endpoint, region, bucket,
    # prefix, path_style} of a bucket.
    data = models.JSONField()
    # Of a bucket: its keys with the place that they are for, encrypted. Null: it needs none.
    sealed = models.BinaryField(null=True)
    mount_options = models.JSONField(default=list)  # of NFS, in the order of mount(8)
    read_only = models.BooleanField(default=False)  # for all, whatever a grant says
    # Each user gets a folder of its own below the storage; OpenPAI says `share: "false"`.
    per_user = models.BooleanField(default=False)
    # The folder of its owner is mounted in each job, at /home/USER. Only with `per_user`.
    home = models.BooleanField(default=False, db_default=False)
    # Mounted where a job file says `storages: []`.
    default = models.BooleanField(default=False)
    # Whose VC admins may change it, a bucket; None: only admins may.
    managed_by = models.ForeignKey(
        VirtualCluster, models.CASCADE, null=True, related_name="managed_storages"
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )

    def __str__(self) -> str:
        return self.name

    @property
    def host(self) -> str:
        """Return what its path is on: a server, a bucket of a store, or "" for the nodes."""
        if self.type == StorageType.S3:
            return f"{self.data['endpoint']}/{self.data['bucket']}"
        return str(self.data.get("server", ""))

    @property
    def path(self) -> str:
        """Return the folder that it is: of a bucket, below its root."""
        if self.type == StorageType.S3:
            return "/" + self.data.get("prefix", "")
        return str(self.data["path"])


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


class Dataset(Entity):
    """A version of a dataset: a folder of a storage under a name, which jobs of a virtual cluster
    mount read-only. Where it lies never changes; another folder is another version."""

    vc = models.ForeignKey(VirtualCluster, models.CASCADE, related_name="datasets")
    name = models.CharField(max_length=63, validators=[NAME])
    version = models.CharField(max_length=63, validators=[VERSION])
    description = models.CharField(max_length=2000, blank=True)
    storage = models.ForeignKey(Storage, models.CASCADE, related_name="datasets")
    # In a storage with folders for users: whose folder the path is in.
    user_folder = models.CharField(max_length=255, blank=True)
    path = models.CharField(max_length=1024, blank=True)  # below the storage, or that folder
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="datasets"
    )
    # Of the job whose outputs it is; its name at that time stays when the job is forgotten.
    job_id = models.UUIDField(null=True)
    job_name = models.CharField(max_length=255, blank=True)
    # What was counted when it was made; null where the server does not have the storage's files.
    size = models.BigIntegerField(null=True)
    files = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["vc", "name", "version"], name="dataset_version_once")
        ]

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def exposes_users(self) -> bool:
        """Return whether it may hold the folders of other users, as it was made before its storage
        had any."""
        return self.storage.per_user and not self.user_folder

    @property
    def abandoned(self) -> bool:
        """Return whether it lies in the folder of a user who does not own it (any longer)."""
        owner = self.owner.get_username() if self.owner else ""
        return bool(self.user_folder) and self.user_folder != owner

    @property
    def folder(self) -> str:
        """Return where it lies below the storage; "": it is all of it."""
        return "/".join(filter(None, [self.user_folder, self.path]))
