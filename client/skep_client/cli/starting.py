"""While a job starts: what it waits for, and how far its images are pulled."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from skep_client.cli.words import reason

if TYPE_CHECKING:
    from skep_client.client import Skep
    from skep_client.models import JobSummary, Task

LOOK_S = 1.0
MOST_TASKS = 500


def show_start(skep: Skep, job_id: str) -> None:
    """A bar on standard error until the first task runs; nothing where nobody looks at it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    from skep_client import calls
    from skep_client.follow import Doorbell

    console = Console(stderr=True)
    if not console.is_terminal:
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(20))
    with (
        Progress(*columns, console=console, transient=True) as progress,
        Doorbell(skep, "job", job_id) as bell,
    ):
        shown = progress.add_task("", total=100)
        while not (job := skep.job(job_id)).started_at and not job.is_finished:
            placed = job.placed_at is not None
            tasks = skep.run(calls.tasks(job_id, limit=MOST_TASKS)).results if placed else []
            words, percent = said(job, tasks)
            progress.update(shown, description=words, completed=percent)
            bell.wait(LOOK_S)


def said(job: JobSummary, tasks: Sequence[Task]) -> tuple[str, float]:
    """A sentence, and percent of the way."""
    attempts = [task.attempt for task in tasks if task.attempt is not None]
    if job.placed_at is None or not attempts:
        return f"{job.name} waits. {reason(job)}".strip(), 0.0
    pulling = [attempt.pull_percent or 0 for attempt in attempts if attempt.phase == "pulling"]
    ready = sum(attempt.phase in ("ready", "running", "exited") for attempt in attempts)
    if pulling:
        whole = [100] * (len(attempts) - len(pulling))
        return f"{len(pulling)} of {len(attempts)} tasks pull their image", fmean(pulling + whole)
    return f"{ready} of {len(attempts)} tasks are ready", 100.0 * ready / len(attempts)
