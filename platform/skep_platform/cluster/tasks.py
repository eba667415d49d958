"""Periodic repair of the cluster's nodes."""

from __future__ import annotations

from celery import shared_task

from skep_platform.cluster import faults, maintenance, services
from skep_platform.core import steps


@shared_task(name="skep.cluster.reconcile")
def reconcile() -> None:
    """Take GPUs back from nodes that are gone, nodes that fail out of use, and nodes into and out
    of maintenance. Runs every 2 s and may overlap with itself."""
    steps.run(reconcile.name, services.expire_leases, faults.cordon_faulty, maintenance.reconcile)
