"""`skep archive`: jobs that finished long ago."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from skep_client.cli import words
from skep_client.cli.common import (
    Json,
    VcName,
    ago,
    client,
    local_time,
    print_json,
    print_table,
    say,
    state_text,
)

if TYPE_CHECKING:
    from skep_client.client import Skep
    from skep_client.models import ArchivedJob


def add_to(app: typer.Typer) -> None:
    archive = typer.Typer(
        no_args_is_help=True, help="Look up finished jobs that were moved to the archive."
    )
    archive.command("list")(list_archived)
    archive.command()(show)
    app.add_typer(archive, name="archive")


def list_archived(
    state: Annotated[
        list[str], typer.Option("--state", "-s", help="Only jobs in this state. May be repeated.")
    ] = [],  # noqa: B006
    vc: VcName = "",
    owner: Annotated[str, typer.Option(help="Only jobs of this user.")] = "",
    search: Annotated[str, typer.Option(help="Only jobs with this text in their name.")] = "",
    since: Annotated[
        str,
        typer.Option(help="Only jobs submitted since then: 7d, 12h, 2026-11-23 (UTC), or a time."),
    ] = "",
    until: Annotated[
        str, typer.Option(help="Only jobs submitted before then; a date is included.")
    ] = "",
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="List at most this many jobs.")
    ] = 30,
    as_json: Json = False,
) -> None:
    """List archived jobs, those submitted last first."""
    from itertools import islice

    filters: dict[str, Any] = {"virtual_cluster": vc, "owner": owner, "search": search}
    filters |= {"since": since, "until": until, "state": [one.upper() for one in state]}
    with client() as skep:
        found = list(islice(skep.archived_jobs(limit=min(limit + 1, 500), **filters), limit + 1))
    more, jobs = len(found) > limit, found[:limit]
    if as_json:
        print_json(jobs)
        return
    print_table(
        ("NAME", "OWNER", "VC", "STATE", "GPUS", "TASKS", "SUBMITTED", "ID"),
        [
            (
                job.name,
                job.owner,
                job.virtual_cluster,
                state_text(job.state),
                job.gpus,
                job.tasks,
                f"{ago(job.submitted_at)} ago",
                job.id,
            )
            for job in jobs
        ],
    )
    if more:
        say(f"There are more: --limit {limit * 2}", err=True)


def show(
    job: Annotated[
        str, typer.Argument(metavar="JOB", help="Id of an archived job, or its whole name.")
    ],
    as_json: Json = False,
) -> None:
    """Show what is kept of an archived job: its attempts, what it used, its events and its file."""
    with client() as skep:
        found = skep.archived_job(_id_of(skep, job))
    if as_json:
        print_json(found)
        return
    for name, value in _facts(found).items():
        if value:
            say(f"{name + ':':<11}{value}")
    say()
    print_table(
        ("ATTEMPT", "OUTCOME", "STARTED", "FINISHED", "NODES", "FAILURE", ""),
        [
            (
                one.index,
                one.outcome,
                local_time(one.started_at),
                local_time(one.finished_at),
                ", ".join(one.nodes),
                one.diagnosis_name,
                one.reason.message if one.reason else "",
            )
            for one in found.attempts
        ],
    )
    say()
    print_table(
        ("TIME", "EVENT", "BY", ""),
        [(local_time(one.at), one.kind, one.actor, one.message) for one in reversed(found.events)],
    )
    say()
    say(found.spec_text)


def _id_of(skep: Skep, name: str) -> str:
    """Return the id of the newest archived job of this name. Raises SkepError."""
    from skep_client.errors import SkepError
    from skep_client.naming import filters_of, is_id

    if is_id(name):
        return name
    for one in skep.archived_jobs(**filters_of(name)):
        if one.name == name:
            return one.id
    raise SkepError(404, "not_found", f"There is no job named {name} in the archive.")


def _facts(job: ArchivedJob) -> dict[str, str]:
    use = job.use
    return {
        "Job": f"{job.name} ({job.id})",
        "Owner": f"{job.owner}, virtual cluster {job.virtual_cluster}",
        "Tags": " ".join(job.tags),
        "State": job.state,
        "Why": job.exit_reason.message if job.exit_reason else "",
        "Size": f"{words.number(job.tasks, 'task')}, {words.number(job.gpus, 'GPU')}",
        "Submitted": local_time(job.submitted_at),
        "Started": local_time(job.started_at),
        "Finished": local_time(job.finished_at),
        "Archived": local_time(job.archived_at),
        "Used": f"{use.gpu_hours:.1f} GPU-hours" if use else "",
        "Cut off": ", ".join(job.shortened),
    }
