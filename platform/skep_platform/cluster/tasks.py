"""Periodic repair of the cluster's nodes."""

from __future__ import annotations

from celery import shared_task

from skep_platform.cluster import faults, services


@shared_task(name="skep.cluster.reconcile")
def reconcile() -> None:
    """Take GPUs back from nodes that are gone, and nodes that fail out of use. Runs every 2 s and
    may overlap with itself."""
    services.expire_leases()
    faults.cordon_faulty()
