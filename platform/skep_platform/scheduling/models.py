"""What the scheduler stores besides jobs: nominations and what it planned, the service that jobs
attained, the log of changes, and the use of virtual clusters."""

from __future__ import annotations

from django.db import models


class Nomination(models.Model):
    """The places of a preemptor until its victims are gone (Kubernetes: the nominated node).
    `placement` has an object per task: {role, index, node, gpu_uuids, gpu_model, cell_type}."""

    job = models.OneToOneField("jobs.Job", models.CASCADE, related_name="nomination")
    placement = models.JSONField()
    victims = models.JSONField()  # ids of jobs
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "scheduling_reservation"  # as it was called when its triggers were written


class ReservedStart(models.Model):
    """The start that the last plan reserved for a waiting gang: a new scheduler goes on from it.
    `start` is in seconds since the epoch, exactly as planned. `places` has an object per task:
    {member, role, index, node, gpu_uuids, gpu_model, cell_type}."""

    job = models.OneToOneField(
        "jobs.Job", models.CASCADE, primary_key=True, related_name="reserved_start"
    )
    start = models.FloatField()
    places = models.JSONField()


class ExpectedStart(models.Model):
    """The first interval in which a waiting job was said to start, `low` to `high`, until it starts
    or ends: then it is scored, see `expected_starts`."""

    job = models.OneToOneField("jobs.Job", models.CASCADE, primary_key=True, related_name="+")
    low = models.DateTimeField()
    high = models.DateTimeField()
    made_at = models.DateTimeField(auto_now_add=True)


class PreemptionCooldown(models.Model):
    """How often a nomination of a waiting gang was cancelled (`times`), and when the last time
    (`cancelled_at`, seconds since the epoch): it preempts again only after a pause."""

    job = models.OneToOneField("jobs.Job", models.CASCADE, primary_key=True, related_name="+")
    times = models.PositiveIntegerField()
    cancelled_at = models.FloatField()


class AttainedService(models.Model):
    """The GPU-seconds that a job attained (`gpu_s`): for each task attempt whose GPUs were
    released, from the start of the task to the release; and when the last of them was released. A
    trigger on the attempts adds it up, whatever releases them."""

    job = models.OneToOneField("jobs.Job", models.CASCADE, primary_key=True, related_name="+")
    gpu_s = models.FloatField()
    released_at = models.DateTimeField(null=True)


class VcTimeline(models.Model):
    """The first waiting gangs of a virtual cluster in their order, as the scheduler forecast them
    `at` a moment. `entries` has an object per gang: {job, needs, expected_start, reserved_start,
    nodes}; times are in seconds since the epoch, and null where unknown."""

    vc = models.OneToOneField(
        "tenancy.VirtualCluster", models.CASCADE, primary_key=True, related_name="timeline"
    )
    at = models.DateTimeField()
    entries = models.JSONField()


class Change(models.Model):
    """Something that the scheduler sees has changed. Written by triggers, whatever changed it;
    `txid` shows a reader which rows it may not have seen yet. One row "pruned" says from which
    transaction on the log is complete."""

    class Kind(models.TextChoices):
        NODE = "node"  # or a device of it; the subject is the node's id
        GANG = "gang"  # the subject is the job's id
        INVENTORY = "inventory"  # what virtual clusters own, or how cells are laid out
        ALL = "all"  # too much to name
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
