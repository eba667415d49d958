"""Periodic looks at the images of the catalogue."""

from __future__ import annotations

from celery import shared_task

from skep_platform.images import inspection, prefetching


@shared_task(name="skep.images.inspect")
def inspect() -> None:
    """Ask the registries of images that were not asked for lately."""
    inspection.inspect_due()


@shared_task(name="skep.images.tidy")
def tidy() -> None:
    """End prefetches whose time is over, and delete old ones."""
    prefetching.tidy()
