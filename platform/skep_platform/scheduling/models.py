"""What the scheduler keeps besides jobs: reservations, the log of changes, and the VCs' use."""

from __future__ import annotations

from django.db import models


class Reservation(models.Model):
    """A preemptor that holds its places until its victims are gone. `placement` has a task per
    entry: {role, index, node, gpu_uuids, gpu_model, cell_type}."""

    job = models.OneToOneField("jobs.Job", models.CASCADE, related_name="reservation")
    placement = models.JSONField()
    victims = models.JSONField()  # ids of jobs
    created_at = models.DateTimeField(auto_now_add=True)


class Change(models.Model):
    """Something that the scheduler sees has changed. Written by triggers, whatever changed it;
    `txid` tells a reader which rows it may not have seen yet. One row "pruned" tells from which
    transaction on the log is complete."""

    class Kind(models.TextChoices):
        NODE = "node"  # or a device of it; the subject is the node's id
        GANG = "gang"  # the subject is the job's id
        INVENTORY = "inventory"  # what virtual clusters own, or how cells are laid out
        ALL = "all"  # too much to tell
        PRUNED = "pruned"

    txid = models.BigIntegerField(db_index=True)
    kind = models.CharField(max_length=16, choices=Kind.choices)
    subject = models.CharField(max_length=80)
    at = models.DateTimeField(db_index=True)

    class Meta:
        indexes = [
            models.Index(fields=["txid"], condition=models.Q(kind="pruned"), name="change_pruned")
        ]


class VcUse(models.Model):
    """GPUs of one model of a virtual cluster at a moment. `lent`: owned, used by others
    opportunistically; `borrowed`: of others, used by it; `waiting`: asked for in its queue;
    `unavailable`: on nodes that are cordoned or offline."""

    vc = models.ForeignKey("tenancy.VirtualCluster", models.CASCADE, related_name="uses")
    gpu_model = models.CharField(max_length=100)
    at = models.DateTimeField()
    owned = models.PositiveIntegerField()
    used = models.PositiveIntegerField()
    borrowed = models.PositiveIntegerField()
    lent = models.PositiveIntegerField()
    bad = models.PositiveIntegerField()
    unavailable = models.PositiveIntegerField(default=0, db_default=0)
    waiting = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["vc", "gpu_model", "at"], name="use_once")]
