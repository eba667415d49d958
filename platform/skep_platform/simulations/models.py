"""Simulations that users asked for, with their results."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from skep_platform.core.models import Entity


class SimulationState(models.TextChoices):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


ACTIVE = (SimulationState.QUEUED, SimulationState.RUNNING)


class Simulation(Entity):
    """One what-if question and its answer. It is seen by admins, and by the VC admins of `vc`; one
    of the whole cluster (`vc` is null) by admins only."""

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="simulations", db_index=False
    )
    vc = models.ForeignKey(
        "tenancy.VirtualCluster", models.CASCADE, null=True, related_name="simulations"
    )
    state = models.CharField(
        max_length=16, choices=SimulationState.choices, default=SimulationState.QUEUED
    )
    request = models.JSONField()  # as it was asked, checked
    jobs_total = models.PositiveIntegerField(default=0)  # of all of its runs together
    jobs_ended = models.PositiveIntegerField(default=0)
    result = models.JSONField(null=True)  # {"runs": [...]}, figures and series of each run
    error = models.JSONField(null=True)  # {code, message, details}
    # Written by the worker that runs it, every few seconds.
    alive_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    stop_requested = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner"],
                condition=Q(state__in=["QUEUED", "RUNNING"]),
                name="simulation_one_active",
            ),
            # The workers have more to do than this: one at a time in the cluster.
            models.UniqueConstraint(
                fields=["state"], condition=Q(state="RUNNING"), name="simulation_one_running"
            ),
        ]
        indexes = [
            models.Index(fields=["finished_at"], name="simulation_old"),
            models.Index(fields=["owner", "-created_at"], name="simulation_by_owner"),
        ]
