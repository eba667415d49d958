"""`skep jobs`: what can be asked of a job after its submit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from skep_client.cli.common import JobName, Json, client, find_job, print_json, say
from skep_client.cli.jobs import retry

if TYPE_CHECKING:
    from skep_client.models import Job


def add_to(app: typer.Typer) -> None:
    jobs = typer.Typer(help="Change a job that waits, runs or failed.", no_args_is_help=True)
    for command in (opportunistic, priority, retry, end_retries, move, again):
        jobs.command()(command)
    app.add_typer(jobs, name="jobs")


def opportunistic(job: JobName, as_json: Json = False) -> None:
    """Let a waiting job start now on GPUs that no job uses, without its guarantee."""
    with client() as skep:
        found = skep.run_opportunistically(find_job(skep, job).id)
    _show(
        found,
        f"{found.name} starts as opportunistic; it is preempted when the owners need their GPUs",
        as_json,
    )


def priority(
    job: JobName,
    value: Annotated[int, typer.Argument(min=0, max=1000, help="Higher ones start first.")],
    as_json: Json = False,
) -> None:
    """Change the priority of a job within its virtual cluster."""
    with client() as skep:
        found = skep.set_priority(find_job(skep, job).id, value)
    _show(found, f"{found.name} has priority {found.priority}", as_json)


def end_retries(job: JobName, as_json: Json = False) -> None:
    """Try a job no more after a failure; one that waits for its next attempt fails at once."""
    with client() as skep:
        found = skep.end_retries(find_job(skep, job).id)
    left = "" if found.state == "FAILED" else "; the present attempt is its last"
    _show(found, f"{found.name} is {found.state}{left}", as_json)


def move(
    job: JobName,
    node: Annotated[str, typer.Argument(help="Name of the node that it shall leave.")],
    as_json: Json = False,
) -> None:
    """Move a running job off a node: it ends and starts again on other nodes."""
    with client() as skep:
        found = skep.move(find_job(skep, job).id, node)
    _show(found, f"{found.name} leaves {node} and starts again elsewhere", as_json)


def again(
    job: JobName,
    name: Annotated[str, typer.Option(help="Name of the new job; default: numbered.")] = "",
    memory_mb: Annotated[
        int, typer.Option(min=1, help="Memory of each task that ran out of it, in MiB.")
    ] = 0,
    more_memory: Annotated[
        bool, typer.Option("--more-memory", help="Give it the next larger size of memory.")
    ] = False,
    elsewhere: Annotated[
        bool, typer.Option("--elsewhere", help="Prefer other nodes than those where it failed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Submit a job of yours again, with more memory or on other nodes."""
    with client() as skep:
        found = find_job(skep, job)
        if more_memory and not memory_mb:
            memory_mb = _suggested(skep.job(found.id))
        made = skep.run_again(found.id, name, memory_mb=memory_mb, elsewhere=elsewhere)
    _show(made, f"{made.name} is submitted", as_json)


def _suggested(job: Job) -> int:
    from skep_client.errors import SkepError

    if job.more_memory is None:
        message = f"{job.name} did not run out of memory: say how much with --memory-mb."
        raise SkepError(409, "memory_not_short", message)
    return job.more_memory.suggested_mb


def _show(job: Job, sentence: str, as_json: bool) -> None:
    if as_json:
        print_json(job)
    else:
        say(sentence)
