"""`skep ls`, `events`, `stop`, `tag`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from skep_client import exits
from skep_client.cli.common import (
    JobName,
    Json,
    VcName,
    ago,
    client,
    find_job,
    local_time,
    print_json,
    print_table,
    say,
    state_text,
)
from skep_client.cli.completion import job_names
from skep_client.cli.words import note
from skep_client.loglines import one_line

if TYPE_CHECKING:
    from skep_client.client import Skep
    from skep_client.models import Event

JobNames = Annotated[
    list[str],
    typer.Argument(metavar="JOB...", help="Ids or names of jobs.", autocompletion=job_names),
]


def add_to(app: typer.Typer) -> None:
    for command in (ls, events, stop, retry, tag):
        app.command()(command)


def ls(
    state: Annotated[
        list[str], typer.Option("--state", "-s", help="Only jobs in this state. May be repeated.")
    ] = [],  # noqa: B006
    vc: VcName = "",
    owner: Annotated[str, typer.Option(help="Only jobs of this user.")] = "",
    tag: Annotated[list[str], typer.Option(help="Only jobs with this tag. May be repeated.")] = [],  # noqa: B006
    search: Annotated[str, typer.Option(help="Only jobs with this text in their name.")] = "",
    shared: Annotated[
        bool, typer.Option("--shared", help="Only jobs that others shared with you.")
    ] = False,
    cause: Annotated[
        list[str],
        typer.Option(
            help="Only jobs that failed for this cause: a category, name or code of a diagnosis. "
            "May be repeated."
        ),
    ] = [],  # noqa: B006
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
    """List jobs, newest first."""
    from itertools import islice

    filters: dict[str, Any] = {"virtual_cluster": vc, "owner": owner, "search": search, "tag": tag}
    filters |= {"cause": cause, "since": since, "until": until}
    if shared:
        filters["shared"] = "true"
    with client() as skep:
        found = skep.jobs(state=[s.upper() for s in state], limit=min(limit + 1, 500), **filters)
        jobs = list(islice(found, limit + 1))
        if vc and not jobs:
            _check_vc(skep, vc)
    more, jobs = len(jobs) > limit, jobs[:limit]
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
                note(job),
            )
            for job in jobs
        ],
        cut_last=True,
    )
    if more:
        say(f"These are the newest {limit}; there are more: --limit.", err=True)


def _check_vc(skep: Skep, name: str) -> None:
    """Raises SkepError: no jobs are no answer about a virtual cluster that is not there."""
    from skep_client.errors import SkepError

    known = [vc.name for vc in skep.virtual_clusters()]
    if name not in known:
        listed = ", ".join(known[:10]) or "none"
        message = f"There is no virtual cluster named {name} that you may see; you see {listed}."
        raise SkepError(404, "unknown_virtual_cluster", message)


def events(
    job: JobName,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new events until the job ends.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON; with --follow one object per line.")
    ] = False,
) -> None:
    """Print the events of a job, oldest first."""
    with client() as skep:
        job_id = find_job(skep, job).id
        if follow:
            _follow_events(skep, job_id, as_json)
            return
        found = list(skep.events(job_id))
    if as_json:
        print_json(found)
        return
    print_table(("TIME", "EVENT", "", "BY"), [_event_row(event) for event in found])


def stop(jobs: JobNames, as_json: Json = False) -> None:
    """Stop jobs. If one cannot be stopped, the others still are."""
    from skep_client.errors import SkepError

    refused: SkepError | None = None
    with client() as skep:
        for name in jobs:
            try:
                stopped = skep.stop(find_job(skep, name).id)
            except SkepError as error:
                if len(jobs) == 1 or error.status in (0, 401):  # as it would be of all
                    raise
                say(f"{name}: {error.message} ({error.code})", err=True)
                refused = refused or error
                continue
            if as_json:
                print_json(stopped)
            else:
                say(f"{stopped.name} is {stopped.state}")
    if refused is not None:
        raise typer.Exit(exits.of_error(refused))


def retry(job: JobName, as_json: Json = False) -> None:
    """Start the next attempt of a job that waits for its retry at once."""
    with client() as skep:
        found = skep.retry(find_job(skep, job).id)
    if as_json:
        print_json(found)
    else:
        say(f"{found.name} starts again as soon as its resources are free")


def tag(
    job: JobName,
    tags: Annotated[
        list[str] | None, typer.Argument(metavar="[TAG]...", help="Tags to add.")
    ] = None,
    remove: Annotated[
        list[str], typer.Option("--remove", "-r", help="Tag to remove. May be repeated.")
    ] = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Add tags to a job, or remove some; without any, list them."""
    with client() as skep:
        found = skep.job(find_job(skep, job).id)
        wanted = [t for t in dict.fromkeys([*found.tags, *(tags or [])]) if t not in remove]
        if wanted != found.tags:
            found = skep.set_tags(found.id, wanted)
    if as_json:
        print_json(found)
    else:
        say("\n".join(found.tags))


def _follow_events(skep: Skep, job_id: str, as_json: bool) -> None:
    from skep_client.follow import follow_events

    for event in follow_events(skep, job_id):
        if as_json:
            print_json(event)
        else:
            time, kind, message, actor = _event_row(event)
            by = f" ({actor})" if actor else ""
            say(f"{time}  {kind:<16}  {one_line(message)}{by}")


def _event_row(event: Event) -> tuple[str, str, str, str]:
    # A row of the server may stand for many events of one kind; its time is that of the last.
    times = f" ×{event.count}" if event.count > 1 else ""
    return (local_time(event.at), event.kind, event.message + times, event.actor)
