"""Tasks with scratch go back to the nodes where it lies, as far as their placement has these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from django.db.models import F

from skep_platform.jobs.models import Job, TaskAttempt
from skep_scheduler.model import Placement, TaskPlacement

Homes = Mapping[tuple[str, int], str]  # (role, index) -> node


def homes_of(jobs: Collection[Job]) -> Mapping[str, Homes]:
    """Return, by job, where the tasks of the newest attempt were, for gangs with scratch that are
    placed again. One query, or none."""
    again = [job.pk for job in jobs if job.attempt and not job.incremental]
    if not again:
        return {}
    attempts = TaskAttempt.objects.filter(
        job__in=again, index=F("job__attempt"), job__spec__extras__skep__has_key="scratch"
    )
    rows = attempts.order_by("pk").values_list("job_id", "role__name", "task__index", "node__name")
    found: dict[str, dict[tuple[str, int], str]] = defaultdict(dict)
    for job_id, role, index, node in rows:
        found[str(UUID(str(job_id)))][role, index] = node
    return found


def homeward(placement: Placement, homes: Homes) -> Placement:
    """Return the placement with places exchanged among the equal tasks of each role."""
    by_role: dict[str, list[TaskPlacement]] = defaultdict(list)
    for task in placement.tasks:
        by_role[task.role].append(task)
    moved = {}
    for role, tasks in by_role.items():
        for index, place in _assigned(tasks, homes).items():
            moved[role, index] = replace(place, index=index)
    return replace(placement, tasks=tuple(moved[t.role, t.index] for t in placement.tasks))


def _assigned(tasks: Sequence[TaskPlacement], homes: Homes) -> dict[int, TaskPlacement]:
    free: dict[str, list[TaskPlacement]] = defaultdict(list)
    for task in reversed(tasks):
        free[task.node].append(task)
    assigned, rest = {}, []
    for task in tasks:
        home = homes.get((task.role, task.index), "")
        if free.get(home):
            assigned[task.index] = free[home].pop()
        else:
            rest.append(task.index)
    left = [place for task in tasks if (place := task) in free[task.node]]
    return assigned | dict(zip(rest, left, strict=True))
