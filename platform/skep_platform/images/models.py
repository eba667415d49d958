"""Images by name, so that users pick one instead of remembering a reference."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from skep_platform.core.models import Entity
from skep_platform.tenancy.models import NAME


class Image(Entity):
    """`reference` is what the engine pulls, for example "pytorch/pytorch:2.9". No virtual clusters
    listed means that everyone may use it."""

    name = models.CharField(max_length=63, unique=True, validators=[NAME])
    reference = models.CharField(max_length=512)
    description = models.CharField(max_length=500, blank=True)
    virtual_clusters = models.ManyToManyField("tenancy.VirtualCluster", related_name="images")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )

    def __str__(self) -> str:
        return self.name
