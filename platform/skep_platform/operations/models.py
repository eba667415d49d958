"""Backups that were made, and the rules by which alerts act."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from skep_platform.core.models import Entity


class Backup(models.Model):
    """A backup that was made: `onebox.backups` writes it, or by REST whatever else backs up. Its
    place is for people to read."""

    at = models.DateTimeField()
    place = models.CharField(max_length=300)
    version = models.CharField(max_length=64, blank=True)
    bytes = models.PositiveBigIntegerField(null=True)

    class Meta:
        indexes = [models.Index(fields=["-at"], name="backup_by_age")]


class RuleKind(models.TextChoices):
    """What is looked for; `operations.rules` says how."""

    IDLE_GPUS = "idle_gpus"
    BAD_NODE = "bad_node"
    NODE_AWAY = "node_away"
    STUCK_JOB = "stuck_job"
    FULL_DISK = "full_disk"
    CERTIFICATE = "certificate"
    DOCTOR = "doctor"


class RuleAction(models.TextChoices):
    NOTIFY = "notify"
    CORDON = "cordon"  # the node
    STOP = "stop"  # the job, whose owner is notified


class AlertRule(Entity):
    """One rule of the administrators. `threshold` is in the unit of its kind."""

    name = models.CharField(max_length=63, unique=True)
    kind = models.CharField(max_length=16, choices=RuleKind.choices)
    threshold = models.FloatField()
    for_minutes = models.PositiveIntegerField(default=0)  # so long before it fires
    action = models.CharField(max_length=8, choices=RuleAction.choices, default=RuleAction.NOTIFY)
    enabled = models.BooleanField(default=True)
    evaluated_at = models.DateTimeField(null=True)  # when the newest reading that was taken began
    # None of them: all administrators.
    recipients = models.ManyToManyField(settings.AUTH_USER_MODEL, related_name="+", blank=True)

    def __str__(self) -> str:
        return self.name


class Alert(Entity):
    """A rule that is, or was, met by one node, job or host. A row that has not ended is the state;
    ended ones are the history."""

    rule = models.ForeignKey(AlertRule, models.CASCADE, related_name="alerts")
    # Of a node the name, of a job the id, of a certificate host and port, of the doctor the check;
    # or "log store".
    subject = models.CharField(max_length=300)
    message = models.CharField(max_length=500)
    details = models.JSONField(default=dict)
    fired_at = models.DateTimeField(null=True)  # null: met, and not for long enough yet
    acted = models.CharField(max_length=300, blank=True)  # what was done
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "subject"],
                condition=models.Q(ended_at=None),
                name="alert_once",
            )
        ]
        indexes = [models.Index(fields=["ended_at"], name="alert_by_end")]
