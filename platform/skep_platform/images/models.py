"""Images by name, so that users pick one instead of remembering a reference, and the credentials
that pull private ones."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from skep_platform.cluster.models import Node
from skep_platform.core.models import Entity
from skep_platform.core.remembered import NotedQuerySet
from skep_platform.tenancy.models import NAME, VirtualCluster


class Image(Entity):
    """`reference` is what the engine pulls, for example "pytorch/pytorch:2.9". No virtual clusters
    listed means that everyone may use it. `managed_by` is the virtual cluster whose VC admins may
    change the entry; None: only admins may.

    What its registry said of it last: `digest`, `size` (bytes of its compressed layers), and
    `problem` where it said nothing; `inspected_at` is None until it was asked."""

    name = models.CharField(max_length=63, unique=True, validators=[NAME])
    reference = models.CharField(max_length=512)
    description = models.CharField(max_length=500, blank=True)
    framework = models.CharField(max_length=60, blank=True)  # "PyTorch 2.9"
    cuda_version = models.CharField(max_length=20, blank=True)
    min_driver = models.CharField(max_length=32, blank=True)  # NVIDIA's, "570.26"
    managed_by = models.ForeignKey(
        VirtualCluster, models.CASCADE, null=True, related_name="managed_images"
    )
    digest = models.CharField(max_length=80, blank=True)
    size = models.PositiveBigIntegerField(null=True)
    problem = models.CharField(max_length=300, blank=True)
    inspected_at = models.DateTimeField(null=True)
    virtual_clusters = models.ManyToManyField("tenancy.VirtualCluster", related_name="images")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )

    objects = NotedQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name


class NodeImage(models.Model):
    """An image on a node by one of its names, as its agent reported it last. Removed with the
    report that lacks it, and after its node."""

    node = models.ForeignKey(Node, models.CASCADE, related_name="images")
    reference = models.CharField(max_length=512, db_index=True)  # as `listed_name` has it
    size = models.PositiveBigIntegerField()  # bytes on the disk

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "reference"], name="node_image_once")
        ]

    def __str__(self) -> str:
        return self.reference


class Prefetch(Entity):
    """That an image of the catalogue shall be on some nodes until it expires. `vc` is whose rules
    hold and whose credentials may be used; None: an admin's. Kept for `prefetching.KEPT`."""

    image = models.CharField(max_length=63)  # its name at that time
    reference = models.CharField(max_length=512)
    vc = models.ForeignKey(VirtualCluster, models.CASCADE, null=True, related_name="prefetches")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.reference


class PrefetchState(models.TextChoices):
    WAITING = "WAITING"
    PULLING = "PULLING"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"


class NodePrefetch(models.Model):
    """A prefetch on one node, as its agent reported it last."""

    prefetch = models.ForeignKey(Prefetch, models.CASCADE, related_name="nodes")
    node = models.ForeignKey(Node, models.CASCADE, related_name="+")
    state = models.CharField(
        max_length=16, choices=PrefetchState.choices, default=PrefetchState.WAITING
    )
    percent = models.PositiveSmallIntegerField(default=0)
    done_bytes = models.PositiveBigIntegerField(default=0)
    total_bytes = models.PositiveBigIntegerField(null=True)  # None: not known yet
    message = models.CharField(max_length=300, blank=True)  # why it failed
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["prefetch", "node"], name="prefetch_once_on_node")
        ]
        indexes = [
            models.Index(
                fields=["node"],
                condition=models.Q(state__in=["WAITING", "PULLING"]),
                name="prefetch_open_on_node",
            )
        ]

    def __str__(self) -> str:
        return f"{self.prefetch_id} on {self.node_id}"


class RegistryCredential(Entity):
    """How a user, or the jobs of a virtual cluster, log in at a registry. `sealed` is encrypted
    JSON {registry, password}: a row that is copied to another registry does not open."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="registry_credentials"
    )
    vc = models.ForeignKey(
        VirtualCluster, models.CASCADE, null=True, related_name="registry_credentials"
    )
    registry = models.CharField(max_length=255)  # "docker.io", "registry.example.org:5000"
    username = models.CharField(max_length=255)
    sealed = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "registry"], name="registry_credential_of_user"
            ),
            models.UniqueConstraint(fields=["vc", "registry"], name="registry_credential_of_vc"),
            models.CheckConstraint(
                condition=models.Q(user=None, vc__isnull=False)
                | models.Q(user__isnull=False, vc=None),
                name="registry_credential_has_one_holder",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.username} at {self.registry}"


class ImageRule(models.Model):
    """A pattern of images that the jobs of a virtual cluster may use; see `rules`."""

    vc = models.ForeignKey(VirtualCluster, models.CASCADE, related_name="image_rules")
    pattern = models.CharField(max_length=512)

    objects = NotedQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["vc", "pattern"], name="image_rule_once")]

    def __str__(self) -> str:
        return self.pattern
