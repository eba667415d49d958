"""What is said about a job in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skep_client.cli.common import until

if TYPE_CHECKING:
    from skep_client.models import Attempt, Diagnosis, Job, JobSummary


def note(job: JobSummary) -> str:
    """For one row among many: when it starts, or how its reason begins; `show` has all of it."""
    if job.wait_reason is None:
        return reason(job)
    if job.expected_start:
        return f"Starts {until(job.expected_start)}"
    return job.wait_reason.message.partition(";")[0]


def reason(job: JobSummary) -> str:
    """One sentence: why it waits or how it ended; of one that runs, what it does without."""
    known = job.wait_reason or job.exit_reason
    if known:
        return known.message
    if job.downgraded:
        return f"Runs as opportunistic. {job.downgraded.message}"
    if job.unplaced and job.placed_at:
        return f"{job.unplaced} of {job.tasks} tasks wait for a place."
    return ""


def pulling(attempt: Attempt) -> str:
    """Say how far the pull of the attempt's image is."""
    said = f"pulling image, {attempt.pull_percent or 0} %"
    if not attempt.pull_bytes:
        return said
    gb, total = attempt.pull_bytes / 1024**3, (attempt.pull_total_bytes or 0) / 1024**3
    return f"{said}, {gb:.1f} of {total:.1f} GB" if total else f"{said}, {gb:.1f} GB"


def number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def standing(job: JobSummary) -> str:
    if job.downgraded:
        return f"runs as opportunistic: {job.downgraded.message}"
    if job.priority < 0:
        return "opportunistic"
    return f"priority {job.priority}"


def attempt(job: Job) -> str:
    used = f"{job.retries_used} {'retry' if job.retries_used == 1 else 'retries'} used"
    times = "once" if job.preemptions == 1 else f"{job.preemptions} times"
    return f"{job.attempt} ({used}{f', preempted {times}' if job.preemptions else ''})"


def diagnosis(found: Diagnosis) -> str:
    """Describe which failure it is, and where."""
    where = f" in {found.task}" if found.task else ""
    where += f" on {found.node}" if found.node else ""
    return f"{found.title or found.category} ({found.code} {found.name}){where}"


def size(count: int) -> str:
    """Say how many bytes that is."""
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"
