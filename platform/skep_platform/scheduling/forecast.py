"""When a job would start if it were submitted now."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Lock

from skep_platform.jobs import stories
from skep_platform.jobs.models import Job, TaskRole
from skep_platform.scheduling.snapshot import SnapshotSource
from skep_scheduler import engine, state
from skep_scheduler.plan import Placement

_source = SnapshotSource()
_lock = Lock()  # the source is not made for threads


def forecast(job: Job, roles: Sequence[TaskRole]) -> stories.Reason:
    """What the next tick would answer: "starts_now" with the nodes, or why it would wait."""
    with _lock:
        snapshot = _source.take()
    answer = engine.explain(snapshot, _gang(job, roles), time.time())
    if not isinstance(answer, Placement):
        return stories.reason(str(answer.code), answer.message, **answer.details)
    names = {node.id: node.name for node in snapshot.nodes}
    nodes = sorted({names[task.node_id] for task in answer.tasks})
    where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
    return stories.reason("starts_now", f"It would start at once on {where}.", nodes=nodes)


def _gang(job: Job, roles: Sequence[TaskRole]) -> state.Gang:
    members = [
        state.Member(role.name, role.instances, role.gpus, role.cpu_millis, role.memory_mb)
        for role in roles
    ]
    return state.Gang("forecast", job.name, job.vc.name, job.priority, time.time(), tuple(members))
