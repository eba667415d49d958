"""Samples of what virtual clusters own and use, for their history."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection
from django.utils import timezone

from skep_platform.scheduling.models import VcUse
from skep_platform.tenancy.models import VirtualCluster
from skep_scheduler.usage import Use, measure
from skep_scheduler.world import World

FINE = timedelta(days=7)  # every minute; older samples every quarter of an hour
KEEP = timedelta(days=90)


def sample(world: World, now: datetime | None = None) -> int:
    """Store this minute's use of all virtual clusters; returns the number of rows. A minute that
    was sampled already is left alone."""
    at = (now or timezone.now()).replace(second=0, microsecond=0)
    vcs = dict(VirtualCluster.objects.values_list("name", "pk"))
    rows = [
        VcUse(vc_id=vcs[vc], gpu_model=model, at=at, **_columns(use))
        for (vc, model), use in measure(world).items()
        if vc in vcs
    ]
    return len(VcUse.objects.bulk_create(rows, ignore_conflicts=True))


def _columns(use: Use) -> dict[str, int]:
    return {
        "owned": use.owned,
        "used": use.used,
        "borrowed": use.borrowed,
        "lent": use.lent,
        "bad": use.bad,
        "unavailable": use.cordoned + use.offline,
        "waiting": use.waiting,
    }


def prune() -> None:
    now = timezone.now()
    with connection.cursor() as cursor:
        cursor.execute(PRUNE, [now - KEEP, now - FINE])


PRUNE = """
DELETE FROM scheduling_vcuse
 WHERE at < %s
    OR at < %s AND extract(minute FROM at)::int %% 15 <> 0
"""
