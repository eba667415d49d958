"""Base models, and the append-only table of events."""

from __future__ import annotations

from django.db import models

from skep_platform.core.ids import uuid7


class Entity(models.Model):
    """A row with a time-ordered id and its times."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True


class Event(models.Model):
    """Something that happened, told once and never changed. `kind` is stable ("job.placed",
    "node.lost", "quota.changed"), `message` is a sentence for a person, `data` the numbers."""

    class Subject(models.TextChoices):
        JOB = "job"
        NODE = "node"
        VC = "vc"
        USER = "user"
        IMAGE = "image"
        CELLS = "cells"  # the layout of the cluster's cells; it has no id

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(auto_now_add=True)
    subject_type = models.CharField(max_length=16, choices=Subject.choices)
    subject_id = models.CharField(max_length=64)
    kind = models.CharField(max_length=64)
    message = models.TextField()
    data = models.JSONField(default=dict)
    actor = models.CharField(max_length=150, blank=True)  # username, or "" for the system

    class Meta:
        indexes = [models.Index(fields=["subject_type", "subject_id", "id"])]
