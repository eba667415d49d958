"""`skep submit`, `check`, `ls`, `show`, `events`, `stop`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from skep_client import exits
from skep_client.cli.common import (
    JobName,
    Json,
    ago,
    client,
    find_job,
    print_json,
    print_table,
    read_file,
    state_text,
    until,
)

if TYPE_CHECKING:
    from skep_client.models import Check, Job, JobSummary, Reason, Task

File = Annotated[str, typer.Argument(metavar="FILE", help="Job file; '-' reads stdin.")]
Files = Annotated[list[str], typer.Argument(metavar="FILE", help="Job files; '-' reads stdin.")]


def add_to(app: typer.Typer) -> None:
    for command in (submit, check, ls, show, events, stop):
        app.command()(command)


def submit(
    file: File,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show its log; fail when it fails.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Submit a job."""
    from skep_client.cli.logs import show_log

    text = read_file(file)
    with client() as skep:
        job = skep.submit(text)
        if as_json:
            print_json(job)
        else:
            print(f"Submitted {job.name} ({job.id})")
        if follow:
            raise typer.Exit(show_log(skep, job.id))


def check(
    files: Files,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no server.")] = False,
    cluster: Annotated[
        str, typer.Option(metavar="FILE", help="Offline: its virtual clusters and SKU types.")
    ] = "",
    user: Annotated[str, typer.Option(help="Offline: whose job it is.")] = "alice",
    as_json: Json = False,
) -> None:
    """Say what is wrong with job files, or when they would start; submits nothing. Offline, with
    --json, tell what each compiles to."""
    from skep_client.cli.offline import check_offline

    if offline:
        good = check_offline(files, cluster=cluster, user=user, as_json=as_json)
    else:
        good = _check_online(files, as_json)
    if not good:
        raise typer.Exit(exits.FAILED)


def ls(
    state: Annotated[list[str], typer.Option("--state", "-s", help="May be repeated.")] = [],  # noqa: B006
    vc: Annotated[str, typer.Option(help="Of this virtual cluster.")] = "",
    owner: str = "",
    search: Annotated[str, typer.Option(help="Part of the name.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most this many.")] = 30,
    as_json: Json = False,
) -> None:
    """List jobs, newest first."""
    from itertools import islice

    filters = {"virtual_cluster": vc, "owner": owner, "search": search}
    with client() as skep:
        found = skep.jobs(state=[s.upper() for s in state], limit=min(limit, 500), **filters)
        jobs = list(islice(found, limit))
    if as_json:
        print_json(jobs)
        return
    print_table(
        ("NAME", "OWNER", "VC", "STATE", "GPUS", "TASKS", "SUBMITTED", ""),
        [
            (
                job.name,
                job.owner,
                job.virtual_cluster,
                state_text(job.state),
                job.gpus,
                job.tasks,
                f"{ago(job.submitted_at)} ago",
                _note(job),
            )
            for job in jobs
        ],
    )


def show(job: JobName, as_json: Json = False) -> None:
    """Show a job and its tasks."""
    with client() as skep:
        found = skep.job(find_job(skep, job).id)
        if as_json:
            print_json(found)
            return
        _print_job(found)
        print_table(
            ("RANK", "TASK", "STATE", "NODE", "GPUS", "EXIT", ""),
            [_task_row(task) for task in skep.tasks(found.id)],
        )


def events(job: JobName, as_json: Json = False) -> None:
    """What happened to a job, oldest first."""
    with client() as skep:
        found = list(skep.events(find_job(skep, job).id))
    if as_json:
        print_json(found)
        return
    print_table(
        ("TIME", "EVENT", "", "BY"),
        [(f"{e.at:%Y-%m-%d %H:%M:%S}", e.kind, e.message, e.actor) for e in found],
    )


def stop(job: JobName, as_json: Json = False) -> None:
    """Stop a job."""
    with client() as skep:
        stopped = skep.stop(find_job(skep, job).id)
    if as_json:
        print_json(stopped)
        return
    print(f"{stopped.name} is {stopped.state}")


def _check_online(files: list[str], as_json: bool) -> bool:
    good = True
    with client() as skep:
        for file in files:
            found = skep.check(read_file(file))
            good = good and found.valid
            if as_json:
                print_json(found)
            else:
                _print_check(found, file)
    return good


def _print_check(found: Check, file: str) -> None:
    for problem in found.errors:
        place = "".join(f":{n}" for n in (problem.line, problem.column) if n is not None)
        print(f"{file}{place}: {problem.message} ({problem.code})")
    if found.valid and found.summary:
        s = found.summary
        print(f"{s.name} is valid: {s.tasks} tasks, {s.gpus} GPUs of {s.virtual_cluster}")
    for note in found.notes:
        place = "".join(f":{n}" for n in (note.line, note.column) if n is not None)
        print(f"{file}{place}: note: {note.message}")
    if found.forecast:
        print(found.forecast.message)
        if found.forecast.code != "starts_now":
            _print_start(found.forecast)


def _print_start(forecast: Reason) -> None:
    start, at_once = (forecast.details.get(key) for key in ("expected_start", "opportunistic_now"))
    if isinstance(start, int | float):
        print(f"Expected start: {until(datetime.fromtimestamp(start, UTC))}")
    if at_once:
        print("With jobPriorityClass oppo it would start at once.")


def _print_job(job: Job) -> None:
    facts = {
        "Job": f"{job.name} ({job.id})",
        "Owner": f"{job.owner}, virtual cluster {job.virtual_cluster}",
        "State": job.state,
        "Why": _reason(job),
        "Expected": f"to start {until(job.expected_start)}" if job.expected_start else "",
        "Standing": _standing(job),
        "Size": f"{job.tasks} tasks, {job.gpus} GPUs",
        "Submitted": f"{job.submitted_at:%Y-%m-%d %H:%M:%S %Z}",
        "Started": f"{job.started_at:%Y-%m-%d %H:%M:%S %Z}" if job.started_at else "",
        "Finished": f"{job.finished_at:%Y-%m-%d %H:%M:%S %Z}" if job.finished_at else "",
        "Attempt": _attempt(job) if job.attempt > 1 else "",
    }
    for name, value in facts.items():
        if value:
            print(f"{name + ':':<11}{value}")
    print()


def _task_row(task: Task) -> tuple[object, ...]:
    attempt = task.attempt
    name = f"{task.role}-{task.index}"
    if attempt is None:
        return (task.rank, name, state_text(task.state), "", "", "", "")
    pulling = f"pulling {attempt.pull_percent} %" if attempt.phase == "pulling" else ""
    code = "" if attempt.exit_code is None else attempt.exit_code
    word = "out of memory" if attempt.oom_killed else attempt.error_message or pulling
    gpus = len(attempt.gpu_uuids)
    return (task.rank, name, state_text(task.state), attempt.node or "", gpus, code, word)


def _attempt(job: Job) -> str:
    used = f"{job.retries_used} {'retry' if job.retries_used == 1 else 'retries'} used"
    times = "once" if job.preemptions == 1 else f"{job.preemptions} times"
    return f"{job.attempt} ({used}{f', made room {times}' if job.preemptions else ''})"


def _standing(job: JobSummary) -> str:
    if job.downgraded:
        return f"runs as opportunistic: {job.downgraded.message}"
    if job.priority < 0:
        return "opportunistic"
    return f"priority {job.priority}"


def _note(job: JobSummary) -> str:
    """For one row among many: when it starts, or how its reason begins; `show` has all of it."""
    if job.wait_reason is None:
        return _reason(job)
    if job.expected_start:
        return f"Starts {until(job.expected_start)}"
    return job.wait_reason.message.partition(";")[0]


def _reason(job: JobSummary) -> str:
    """One sentence: why it waits or how it ended; of one that runs, what it does without."""
    reason = job.wait_reason or job.exit_reason
    if reason:
        return reason.message
    if job.downgraded:
        return f"Runs as opportunistic. {job.downgraded.message}"
    if job.unplaced and job.placed_at:
        return f"{job.unplaced} of {job.tasks} tasks wait for a place."
    return ""
