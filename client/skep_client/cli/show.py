"""`skep show`: all that is known of one job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from skep_client.cli import words
from skep_client.cli.common import (
    JobName,
    Json,
    client,
    find_job,
    local_time,
    print_json,
    print_table,
    say,
    state_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skep_client.client import Skep
    from skep_client.models import Job, JobAttempt, JobUse, Task


def add_to(app: typer.Typer) -> None:
    app.command()(show)


def show(job: JobName, as_json: Json = False) -> None:
    """Show a job and its tasks: why it failed and what to do, its attempts, what it used."""
    with client() as skep:
        found = skep.job(find_job(skep, job).id)
        if as_json:
            print_json(found)
            return
        _print_facts(_facts(found))
        _print_diagnosis(found)
        _print_use(_use(skep, found))
        if found.attempt > 1:
            _print_attempts(list(skep.attempts(found.id)))
        print_table(
            ("RANK", "TASK", "STATE", "NODE", "GPUS", "EXIT", ""),
            [_task_row(task) for task in skep.tasks(found.id)],
        )


def _facts(job: Job) -> dict[str, str]:
    return {
        "Job": f"{job.name} ({job.id})",
        "Owner": f"{job.owner}, virtual cluster {job.virtual_cluster}",
        "Tags": " ".join(job.tags),
        "State": job.state,
        "Why": words.reason(job),
        "Expected": _expected(job),
        "After": ", ".join(f"{one.job} ({one.condition})" for one in job.depends_on),
        "Standing": words.standing(job),
        "Size": f"{words.number(job.tasks, 'task')}, {words.number(job.gpus, 'GPU')}",
        "Submitted": local_time(job.submitted_at),
        "Started": local_time(job.started_at),
        "Ends": ""
        if job.is_finished or not job.ends_at
        else f"at the latest {local_time(job.ends_at)}",
        "Finished": local_time(job.finished_at),
        "Attempt": words.attempt(job) if job.attempt > 1 else "",
        "Logs": f"deleted {local_time(job.logs_deleted_at)}" if job.logs_deleted_at else "",
    }


def _expected(job: Job) -> str:
    span = job.expected_start_interval
    if span and span.low and span.high:
        low, high = words.until(span.low), words.until(span.high)
        return f"to start {low} to {high}, in {span.coverage:.0%} of cases"
    return f"to start {words.until(job.expected_start)}" if job.expected_start else ""


def _print_facts(facts: dict[str, str]) -> None:
    for name, value in facts.items():
        if value:
            say(f"{name + ':':<11}{value}")
    say()


def _print_diagnosis(job: Job) -> None:
    if job.diagnosing:
        say("Its logs are being read to find out why it failed.\n")
    found = job.diagnosis
    if found is None:
        return
    evidence, source = found.evidence, ""
    if evidence and evidence.text:
        line = f", line {evidence.line}" if evidence.line else ""
        source = f"{evidence.log or evidence.source}{line}"
    _print_facts({
        # A job may succeed although tasks of it failed: that is no failure of the job.
        "Failed task" if job.state == "SUCCEEDED" else "Failure": words.diagnosis(found),
        "Evidence": evidence.text if evidence else "",
        "Found in": source,
        "Remedy": found.remedy,
    })  # fmt: skip


def _use(skep: Skep, job: Job) -> JobUse | None:
    """None until it is counted."""
    from skep_client.errors import SkepError

    try:
        return skep.use(job.id) if job.is_finished else None
    except SkepError as error:
        if error.status != 404:
            raise
        return None


def _print_use(use: JobUse | None) -> None:
    if use is None:
        return
    percent = "" if use.gpu_utilization is None else f", {use.gpu_utilization:.0f} % of them busy"
    memory = "" if use.memory_peak_mb is None else f"{use.memory_peak_mb} MiB at most"
    if memory and use.asked:
        memory += f" of {use.asked.memory_mb} MiB asked for"
    _print_facts({
        "GPU-hours": f"{use.gpu_hours:.2f}{percent}" if use.gpu_hours else "",
        "Memory": memory,
        "Advice": " ".join(advice.message for advice in use.advice),
    })  # fmt: skip


def _print_attempts(attempts: Sequence[JobAttempt]) -> None:
    print_table(
        ("ATTEMPT", "PLACED", "ENDED", "OUTCOME", ""),
        [
            (a.index, local_time(a.placed_at), local_time(a.finished_at), a.outcome, _end_of(a))
            for a in sorted(attempts, key=lambda attempt: attempt.index)
        ],
    )
    say()


def _end_of(attempt: JobAttempt) -> str:
    if attempt.diagnosis is not None:
        return words.diagnosis(attempt.diagnosis)
    return attempt.reason.message if attempt.reason else ""


def _task_row(task: Task) -> tuple[object, ...]:
    attempt = task.attempt
    name = f"{task.role}-{task.index}"
    if attempt is None:
        return (task.rank, name, state_text(task.state), "", "", "", "")
    pulling = words.pulling(attempt) if attempt.phase == "pulling" else ""
    code = "" if attempt.exit_code is None else attempt.exit_code
    word = "out of memory" if attempt.oom_killed else attempt.error_message or pulling
    gpus = len(attempt.gpu_uuids)
    return (task.rank, name, state_text(task.state), attempt.node or "", gpus, code, word)
