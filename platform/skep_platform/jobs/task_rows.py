"""The rows of a list of tasks, made of plain values of the database.

To make models of a page of 500 tasks and their attempts, and to serialize these, takes four times
as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skep_platform.jobs import queries
from skep_platform.jobs.models import Job
from skep_platform.jobs.serializers import DiagnosisSerializer
from skep_platform.jobs.states import JobState

Row = dict[str, Any]
COLUMNS = ("pk", "role__name", "index", "rank", "not_before")
# Those of an attempt that are shown as they are stored: as `AttemptSerializer` names them.
ATTEMPT_COLUMNS = (
    *("id", "index", "retry", "state", "phase", "pull_percent", "pull_bytes", "pull_total_bytes"),
    *("gpu_uuids", "gpu_model", "network", "ports", "exit_code", "exit_signal", "oom_killed"),
    *("error_code", "error_message", "memory_peak_mb", "xids", "disk_full"),
    *("ready_at", "started_at", "finished_at"),
)


def shown(job: Job, tasks: Sequence[Row]) -> list[Row]:
    """Return the rows of tasks, of which `COLUMNS` were read, each with its newest attempt. One
    query."""
    diagnosed = DiagnosisSerializer().to_representation
    newest = queries.newest_of([task["pk"] for task in tasks])
    columns = ("task_id", "node__name", "diagnosis", *ATTEMPT_COLUMNS)
    attempts = {row.pop("task_id"): row for row in newest.values(*columns)}
    rows = []
    for task in tasks:
        state: str = JobState.WAITING
        attempt = attempts.get(task["pk"])
        if attempt is not None:
            state = queries.task_state(job, attempt["index"], attempt["state"], task["not_before"])
            attempt["node"] = attempt.pop("node__name")
            if attempt["diagnosis"] is not None:
                attempt["diagnosis"] = diagnosed(attempt["diagnosis"])
        row = {"id": task["pk"], "role": task["role__name"], "index": task["index"]}
        rows.append(row | {"rank": task["rank"], "state": state, "attempt": attempt})
    return rows
