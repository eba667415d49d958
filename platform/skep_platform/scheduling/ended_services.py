"""What the jobs of a virtual cluster were served that ended, for policies that go by it.

It is read at the start of each hour, and counts what ended before: all readers of an hour have the
same, and queues are made anew no more often.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from django.utils import timezone

from skep_platform.core.bulk import fetch
from skep_scheduler import policies
from skep_scheduler.model import Inventory, PolicyChoice
from skep_scheduler.policies.base import MOST_SERVICES, SERVICES_S

KEEP = timedelta(days=90)


def hour_now() -> float:
    """Return the start of the present hour (seconds since the epoch)."""
    return timezone.now().timestamp() // SERVICES_S * SERVICES_S


def asked_for(choices: Mapping[str, PolicyChoice]) -> list[str]:
    """Return the virtual clusters whose policies go by such services."""
    return sorted(name for name, choice in choices.items() if policies.learns_services(choice))


def read(vcs: Collection[str], hour: float) -> dict[str, tuple[float, ...]]:
    """Return the GPU-seconds of the last guaranteed jobs of some virtual clusters that ended before
    a moment (seconds since the epoch), the first that ended first. One query; none without any."""
    if not vcs:
        return {}
    until = datetime.fromtimestamp(hour, UTC)
    rows = fetch(
        SERVICES, {"vcs": list(vcs), "until": until, "since": until - KEEP, "most": MOST_SERVICES}
    )
    return {name: tuple(services) for name, services in rows}


def with_services(inventory: Inventory, vcs: Collection[str], hour: float) -> Inventory:
    """Return an inventory whose virtual clusters of these names have their services."""
    found = read(vcs, hour)
    known = inventory.virtual_clusters
    filled = (replace(vc, services=found[vc.name]) if vc.name in found else vc for vc in known)
    return replace(inventory, virtual_clusters=tuple(filled))


SERVICES = """
SELECT v.name, array_agg(ended.gpu_s ORDER BY ended.finished_at, ended.id)
  FROM tenancy_virtualcluster v
 CROSS JOIN LATERAL (
    SELECT j.id, j.finished_at, s.gpu_s FROM jobs_job j
      JOIN scheduling_attainedservice s ON s.job_id = j.id
     WHERE j.vc_id = v.id AND j.priority >= 0 AND s.gpu_s > 0
       AND j.finished_at >= %(since)s AND j.finished_at < %(until)s
     ORDER BY j.finished_at DESC, j.id DESC LIMIT %(most)s) AS ended
 WHERE v.name = ANY(%(vcs)s)
 GROUP BY v.name
"""
