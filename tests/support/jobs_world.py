"""Jobs in tests: submit a job file, tick the scheduler, and play the nodes by their facts."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from skep_agent.protocol import AttemptFact
from skep_platform.accounts.models import User
from skep_platform.cluster.models import Node
from skep_platform.jobs import services
from skep_platform.jobs.lifecycle import diagnosing
from skep_platform.jobs.lifecycle.advance import record_diagnosis
from skep_platform.jobs.lifecycle.diagnosing import COLUMNS, Failed
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.scheduling.tick import Scheduler, run_once
from skep_platform.tenancy.models import VirtualCluster

_numbers = itertools.count(1)
_seq = itertools.count(1)


def job_file(vc: VirtualCluster | str, *, name: str = "", **changes: Any) -> dict[str, Any]:
    """A job of one role "worker" as data. `instances`, `gpus`, `commands`, `completion` and so on
    change the role; `retries`, `priority`, `incremental`, `skep` (its extras) and `roles` the
    job."""
    retries, priority = changes.pop("retries", 0), changes.pop("priority", "test")
    gang, skep = not changes.pop("incremental", False), changes.pop("skep", {})
    roles = changes.pop("roles", None) or {"worker": changes}
    return {
        "protocolVersion": 2,
        "name": name or f"job-{next(_numbers)}",
        "type": "job",
        "jobRetryCount": retries,
        "prerequisites": [{"type": "dockerimage", "name": "image", "uri": "test/image:1"}],
        "taskRoles": {role: _role(**fields) for role, fields in roles.items()},
        "defaults": {"virtualCluster": getattr(vc, "name", vc)},
        "extras": {
            "hivedScheduler": {"jobPriorityClass": priority},
            "gangAllocation": gang,
            "skep": skep,
        },
    }


def _role(
    *, gpus: int = 1, cpu: float = 1, memory_mb: int = 1024, ports: Any = None, **fields: Any
) -> dict[str, Any]:
    resources = {"gpu": gpus, "cpu": cpu, "memoryMB": memory_mb}
    if ports:
        resources["ports"] = ports
    return {
        "dockerImage": "image",
        "resourcePerInstance": resources,
        "commands": ["true"],
        **fields,
    }


def submit(user: User, vc: VirtualCluster, **changes: Any) -> Job:
    return services.submit(user, json.dumps(job_file(vc, **changes)))


def ran(
    user: User, vc: VirtualCluster, name: str, seconds: float, state: str = "SUCCEEDED", **file: Any
) -> Job:
    """A job of this name that ended a day ago, after so many seconds."""
    job = submit(user, vc, name=name, **file)
    start = timezone.now() - timedelta(days=1)
    end = start + timedelta(seconds=seconds)
    Job.objects.filter(pk=job.pk).update(state=state, started_at=start, finished_at=end)
    job.refresh_from_db()
    return job


def tick(times: int = 1) -> set[str]:
    """Rounds of a fresh scheduler; returns the ids of the jobs that were placed."""
    scheduler = Scheduler()
    return set(itertools.chain.from_iterable(run_once(scheduler) for _ in range(times)))


def placed(user: User, vc: VirtualCluster, **changes: Any) -> Job:
    """A job that is placed, its attempts ASSIGNED."""
    job = submit(user, vc, **changes)
    assert str(job.pk) in tick(), Job.objects.get(pk=job.pk).wait_reason
    return Job.objects.get(pk=job.pk)


def partly_placed(user: User, vc: VirtualCluster, *, tasks: int, placed_tasks: int) -> Job:
    """An incremental job of which the first tasks are placed, the others wait."""
    job = placed(user, vc, instances=tasks)
    for attempt in attempts_of(job)[placed_tasks:]:
        attempt.delete()
    Job.objects.filter(pk=job.pk).update(incremental=True, unplaced=tasks - placed_tasks)
    job.refresh_from_db()
    return job


def fact(attempt: TaskAttempt, phase: str, **fields: Any) -> AttemptFact:
    known = {"seq": next(_seq), "epoch": attempt.epoch, "at": time.time()}
    return AttemptFact(attempt_id=str(attempt.pk), phase=phase, **{**known, **fields})


def report(attempts: TaskAttempt | Iterable[TaskAttempt], *phases: str, **fields: Any) -> None:
    """Report these phases from the nodes of the attempts, each node in one batch. "exited" takes
    `exit_code` (default 0), "failed" takes `error_code`."""
    listed = [attempts] if isinstance(attempts, TaskAttempt) else list(attempts)
    for node_id, mine in _by_node(listed).items():
        batch = [fact(a, phase, **_of(phase, fields)) for a in mine for phase in phases]
        services.apply_facts(node_id, batch)


def _of(phase: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"exit_code": 0, **fields} if phase == "exited" else fields


def _by_node(attempts: Sequence[TaskAttempt]) -> dict[Any, list[TaskAttempt]]:
    nodes: dict[Any, list[TaskAttempt]] = {}
    for attempt in attempts:
        nodes.setdefault(attempt.node_id, []).append(attempt)
    return nodes


def explain(job: Job, log: bytes = b"") -> bool:
    """Record the diagnosis that `log` gives for each failed task without one; return False when the
    job does not wait for a diagnosis."""
    rows = TaskAttempt.objects.filter(job=job, diagnosis__isnull=True)
    newest = Job.objects.values_list("attempt", flat=True).get(pk=job.pk)
    rows = rows.filter(index=newest, state__in=("FAILED", "LOST"))
    failed = [Failed(*row) for row in rows.values_list(*COLUMNS)]
    logs = {one.id: [log] for one in failed}
    return record_diagnosis(job.pk, newest, diagnosing.judge(failed, logs))


def attempts_of(job: Job) -> list[TaskAttempt]:
    """Of the newest job attempt, by rank."""
    rows = TaskAttempt.objects.filter(job=job).select_related("task", "role", "node")
    newest = Job.objects.values_list("attempt", flat=True).get(pk=job.pk)
    return list(rows.filter(index=newest).order_by("task__rank"))


def state_of(job: Job) -> str:
    return Job.objects.values_list("state", flat=True).get(pk=job.pk)


def states_of(job: Job) -> list[str]:
    return [attempt.state for attempt in attempts_of(job)]


def event_kinds(job: Job) -> list[str]:
    """The kinds of the job's events."""
    from skep_platform.jobs import queries

    return [event.kind for event in queries.events(job).order_by("id")]


def lose(node: Node) -> None:
    """The node's lease is over."""
    Node.objects.filter(pk=node.pk).update(state="LOST", connected=False)
