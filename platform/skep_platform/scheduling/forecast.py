"""When a job would start if it were submitted now."""

from __future__ import annotations

import time
from collections.abc import Sequence

from skep_platform.jobs.life import stories
from skep_platform.jobs.models import Job, TaskRole
from skep_platform.scheduling import world
from skep_platform.scheduling.read_gangs import gang_of
from skep_platform.scheduling.tick import limits
from skep_scheduler import queue


def forecast(job: Job, roles: Sequence[TaskRole]) -> stories.Reason:
    """What the next tick would answer: "starts_now" or "would_preempt" with the nodes, or why it
    would wait, as a waiting job is told it."""
    now = time.time()
    with world.view() as known:
        answer = queue.explain(known, gang_of(job, roles, now), now, limits())
    if isinstance(answer, queue.Placement):
        message = f"It would start at once on {_where(answer)}."
        return _reason("starts_now", message, answer, now)
    if isinstance(answer, queue.Preemption):
        return _preempts(answer, now)
    return stories.reason(str(answer.code), answer.message, **answer.details)


def _preempts(answer: queue.Preemption, now: float) -> stories.Reason:
    count = len(answer.victims) + len(answer.leaving)
    jobs = "1 running job" if count == 1 else f"{count} running jobs"
    message = f"It would start on {_where(answer.placement)} as soon as {jobs} made room."
    return _reason("would_preempt", message, answer.placement, now + limits().leave_s)


def _reason(
    code: str, message: str, placement: queue.Placement, expected_start: float
) -> stories.Reason:
    nodes = sorted(placement.nodes)
    return stories.reason(code, message, nodes=nodes, expected_start=expected_start)


def _where(placement: queue.Placement) -> str:
    nodes = placement.nodes
    return nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
