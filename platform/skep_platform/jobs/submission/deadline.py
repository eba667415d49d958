"""Whether a job can be done by the deadline that it declares, as far as is known when it is
submitted: it begins when the scheduler expects, and runs as long as is predicted or declared."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from skep_jobfile import Issue
from skep_platform.jobs.lifecycle.messages import Reason, duration
from skep_platform.jobs.models import Job
from skep_platform.tenancy.models import VirtualCluster, choice_of
from skep_scheduler import policies
from skep_scheduler.model import Code

CODE = "deadline_cannot_be_met"
PATH = ("extras", "skep", "deadline")
WARN, REFUSE = "warn", "refuse"


def admission_of(vc: VirtualCluster) -> str:
    """Return what is done about a job whose deadline cannot be met: what the policy says, else its
    owner is warned."""
    return str(policies.value_of(choice_of(vc.policy), "admission") or WARN)


def issue_of(job: Job, forecast: Reason | None) -> Issue | None:
    """Return why the deadline of a job cannot be met, with the earliest one that can; None: it may
    be, or nothing says how long the job runs. `forecast`: when it would start."""
    shortest_s = _shortest_s(job)
    if job.deadline_at is None or shortest_s is None:
        return None
    if (forecast or {}).get("code") == Code.NOT_ADMITTED:
        return _not_admitted(job, job.deadline_at, forecast or {})
    if policies.admits_by_deadline(choice_of(job.vc.policy)):
        return None  # it may begin earlier than places become free, and its size may change
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


def _not_admitted(job: Job, deadline: datetime, forecast: Mapping[str, Any]) -> Issue:
    """Return why the policy of the virtual cluster would not admit a job with this deadline."""
    earliest = forecast["details"].get("earliest")
    sizes = policies.chooses_sizes(choice_of(job.vc.policy))
    message = (
        f"Its deadline, {_words(deadline.timestamp())}, cannot be met without making another job "
        f"late{', even with as many tasks as it may have' if sizes else ''}. "
    )
    details: dict[str, Any] = {"deadline": deadline.isoformat()}
    if earliest is None:
        message += "It would be admitted with no deadline: leave it out."
    else:
        message += f"The earliest deadline is {_words(earliest)}."
        details |= {
            "earliest_deadline": _moment(earliest).isoformat(),
            "late_s": round(earliest - deadline.timestamp()),
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
