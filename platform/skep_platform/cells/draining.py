"""Making nodes empty: nothing new comes, and the jobs that are there are asked to go.

A gang may be placed by a tick that looked before the node was cordoned; so who drains is asked
again and again, until the node is in use once more.
"""

from __future__ import annotations

from collections import defaultdict
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from skep_platform.accounts.models import User
from skep_platform.cluster import services as cluster
from skep_platform.jobs.life import preempting
from skep_platform.jobs.models import TaskAttempt


def drain(user: User | None, name: str) -> None:
    """Raises NotFound."""
    cluster.mark_draining(user, name)
    evict_all()


def evict_all() -> None:
    """Ask all jobs on draining nodes that were not asked yet. One query when there are none."""
    for node, job_ids in _staying().items():
        with transaction.atomic():
            preempting.evict(job_ids, f"Node {node} is being drained.", timezone.now())


def _staying() -> dict[str, set[UUID]]:
    """By node, the jobs that nobody has asked to go or to end."""
    rows = TaskAttempt.objects.filter(
        node__draining=True,
        released_at=None,
        job__preempting_at=None,
        job__stop_requested_at=None,
        job__exit_reason__isnull=True,
    )
    jobs: dict[str, set[UUID]] = defaultdict(set)
    for node, job_id in rows.values_list("node__name", "job_id").order_by("node__name"):
        jobs[node].add(job_id)
    return jobs
