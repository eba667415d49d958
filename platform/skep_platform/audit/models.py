"""The append-only table of audit entries."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from django.db import models

from skep_platform.core.models import uuid7

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Outcome(models.TextChoices):
    DONE = "done"
    REFUSED = "refused"


class ActorKind(models.TextChoices):
    USER = "user"
    ANONYMOUS = "anonymous"  # a client that is not logged in
    NODE = "node"
    SYSTEM = "system"  # a Celery task or a management command


class AuditEntry(models.Model):
    """Something that was done or refused. A row is never changed: a trigger refuses it.

    Actor, token, target and virtual cluster are plain values as they were at the time, not foreign
    keys: an entry outlives what it is about. The table is partitioned by month of `id`, which holds
    the time, so that retention drops whole months; Django does not manage it (`managed`), so that
    `flush` does not try to empty it.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    at = models.DateTimeField()  # the time in `id`
    action = models.CharField(max_length=64)  # a name in `audit.actions.ACTIONS`
    outcome = models.CharField(max_length=8, choices=Outcome.choices)

    actor_kind = models.CharField(max_length=9, choices=ActorKind.choices)
    actor_id = models.BigIntegerField(null=True)
    actor_name = models.CharField(max_length=255, blank=True)
    token_id = models.UUIDField(null=True)
    token_name = models.CharField(max_length=100, blank=True)
    token_scope = models.CharField(max_length=8, blank=True)
    address = models.CharField(max_length=64, blank=True)
    user_agent = models.CharField(max_length=200, blank=True)
    request_id = models.CharField(max_length=64, blank=True)

    target_type = models.CharField(max_length=32)
    target_id = models.CharField(max_length=64, blank=True)
    target_name = models.CharField(max_length=255, blank=True)
    vc_id = models.UUIDField(null=True)
    vc_name = models.CharField(max_length=63, blank=True)

    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    facts = models.JSONField(default=dict)

    class Meta:
        managed = False  # the migration has the table, its partitions and its indexes
        db_table = "audit_entry"

    def __str__(self) -> str:
        return f"{self.action} {self.target_type} {self.target_name}"


def time_of(entry_id: uuid.UUID) -> datetime:
    """Return the time that a UUID of version 7 holds, to the millisecond."""
    return EPOCH + timedelta(milliseconds=entry_id.int >> 80)


def first_id_at(at: datetime) -> uuid.UUID:
    """Return the smallest id that an entry of this time or later has."""
    ms = max((at - EPOCH) // timedelta(milliseconds=1), 0)
    return uuid.UUID(int=min(ms, 2**48 - 1) << 80)
