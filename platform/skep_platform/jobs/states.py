"""The state machines of jobs and task attempts. Names of job states are those OpenPAI shows."""

from __future__ import annotations

from django.db import models

from skep_platform.core.models import StateMachine


class JobState(models.TextChoices):
    WAITING = "WAITING"  # in the queue, or placed and being prepared
    RUNNING = "RUNNING"  # at least one task of the present job attempt has started
    STOPPING = "STOPPING"  # asked to end; its containers are being stopped
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


JOB = StateMachine(
    "job",
    {
        # back to WAITING: the gang is retried after a failure or a lost node
        "WAITING": ["RUNNING", "STOPPING", "STOPPED", "SUCCEEDED", "FAILED"],
        # straight to STOPPED: when all its tasks have ended already
        "RUNNING": ["WAITING", "STOPPING", "STOPPED", "SUCCEEDED", "FAILED"],
        "STOPPING": ["STOPPED"],
        "SUCCEEDED": [],
        "FAILED": [],
        "STOPPED": [],
    },
)


class AttemptState(models.TextChoices):
    ASSIGNED = "ASSIGNED"  # leases are written, the node was or will be notified
    PREPARING = "PREPARING"  # the node pulls the image and creates the container
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"  # the node was asked to stop it
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    LOST = "LOST"  # its node was lost or forgot it


ATTEMPT = StateMachine(
    "task attempt",
    {
        "ASSIGNED": ["PREPARING", "RUNNING", "STOPPING", "SUCCEEDED", "FAILED", "STOPPED", "LOST"],
        "PREPARING": ["RUNNING", "STOPPING", "SUCCEEDED", "FAILED", "STOPPED", "LOST"],
        "RUNNING": ["STOPPING", "SUCCEEDED", "FAILED", "LOST"],
        "STOPPING": ["STOPPED", "SUCCEEDED", "FAILED", "LOST"],
        "SUCCEEDED": [],
        "FAILED": [],
        "STOPPED": [],
        "LOST": [],
    },
)
