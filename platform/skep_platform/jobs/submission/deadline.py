"""Whether a job can be done by the deadline that it declares, as far as is known when it is
submitted: it begins when the scheduler expects, and runs as long as is predicted or declared."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from skep_jobfile import Issue
from skep_platform.jobs.lifecycle.messages import Reason, duration
from skep_platform.jobs.models import Job
from skep_platform.tenancy.models import VirtualCluster

CODE = "deadline_cannot_be_met"
PATH = ("extras", "skep", "deadline")
WARN, REFUSE = "warn", "refuse"


def admission_of(vc: VirtualCluster) -> str:
    """Return what is done about a job whose deadline cannot be met: what the policy says, else its
    owner is warned."""
    policy: dict[str, Any] = vc.policy or {}
    parameters = policy.get("parameters") or {}
    return str(parameters.get("admission", WARN))


def issue_of(job: Job, forecast: Reason | None) -> Issue | None:
    """Return why the deadline of a job cannot be met, with the earliest one that can; None: it may
    be, or nothing says how long the job runs. `forecast`: when it would start."""
    shortest_s = _shortest_s(job)
    if job.deadline_at is None or shortest_s is None:
        return None
    start = _earliest_start(job, forecast)
    end, due = start + shortest_s, job.deadline_at.timestamp()
    if end <= due:
        return None
    message = (
        f"Its deadline, {_words(due)}, cannot be met: it runs for {duration(round(shortest_s))} at "
        f"least and starts at {_words(start)} at the earliest. The earliest deadline is "
        f"{_words(end)}."
    )
    details = {
        "deadline": job.deadline_at.isoformat(),
        "duration_s": round(shortest_s),
        "earliest_start": _moment(start).isoformat(),
        "earliest_deadline": _moment(end).isoformat(),
        "late_s": round(end - due),
    }
    return Issue(CODE, message, PATH, details=details)


def _shortest_s(job: Job) -> float | None:
    """Return how long it runs at least: the lower end of what is predicted, else its median, else
    as its owner declares."""
    found = job.prediction
    if job.predicted_s is None or not found:
        return job.duration_s
    low_s = found.get("low_s")
    return float(found["median_s"] if low_s is None else low_s)


def _earliest_start(job: Job, forecast: Reason | None) -> float:
    start = time.time()
    if job.not_before is not None:
        start = max(start, job.not_before.timestamp())
    interval = (forecast or {}).get("details", {}).get("expected_interval")
    return max(start, interval[0]) if interval else start


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _words(seconds: float) -> str:
    return f"{_moment(seconds):%Y-%m-%d %H:%M:%S} UTC"
