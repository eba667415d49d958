"""Archives of working files, named by what is in them."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Archive(models.Model):
    """A gzipped tar archive that a user uploaded. Its bytes lie in the storage "files" under its
    hash, once for all who uploaded the same; a row says who may use them."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    sha256 = models.CharField(max_length=64)  # of the archive as it came
    size = models.PositiveBigIntegerField()  # bytes
    unpacked_size = models.PositiveBigIntegerField()
    files = models.PositiveIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)
    used_at = models.DateTimeField(auto_now_add=True)  # for the newest job, or when uploaded

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "sha256"], name="archive_once_per_owner"),
        ]
        indexes = [
            models.Index(fields=["sha256"], name="archive_by_hash"),
            models.Index(fields=["used_at"], name="archive_by_use"),
        ]
