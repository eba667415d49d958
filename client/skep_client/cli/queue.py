"""`skep queue`: who runs in a virtual cluster, who waits, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from skep_client.cli.common import Json, client, console, print_json, print_table, say, until

if TYPE_CHECKING:
    from skep_client.models import Running, VcQueue, Waiting

ANOTHER = "another job"  # one that its reader may not see
Vc = Annotated[str, typer.Argument(metavar="VC", help="Name of a virtual cluster.")]


def add_to(app: typer.Typer) -> None:
    app.command()(queue)


def queue(
    vc: Vc,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many that wait.")] = 50,
    as_json: Json = False,
) -> None:
    """Who runs in a virtual cluster, and who waits in which order, with expected starts."""
    with client() as skep:
        found = skep.queue(vc, limit=min(max(limit, 1), 100))
    if as_json:
        print_json(found)
    else:
        _print(found)


def _print(found: VcQueue) -> None:
    print_table(
        ("RUNNING", "OWNER", "GPUS", "UNTIL", ""), [_running_row(job) for job in found.running]
    )
    console().print()
    print_table(
        ("#", "WAITING", "OWNER", "GPUS", "NEEDS", "STARTS", ""),
        [_waiting_row(job) for job in found.waiting],
    )
    if found.next:
        say(f"{len(found.waiting)} of {found.waiting_total:,} that wait; more with --limit.")


def _running_row(entry: Running) -> tuple[object, ...]:
    job = entry.job
    end = until(entry.expected_end) if entry.expected_end else "unknown"
    standing = "opportunistic" if entry.opportunistic else ""
    if job.preempting:
        standing = "makes room"
    return (job.name or ANOTHER, job.owner or "", job.gpus, end, standing)


def _waiting_row(entry: Waiting) -> tuple[object, ...]:
    job = entry.job
    if entry.reserved:
        start = f"{until(entry.reserved.start)}, reserved"
    else:
        start = until(entry.expected_start) if entry.expected_start else "unknown"
    why = entry.reason.message if entry.reason else ""
    name, owner = job.name or ANOTHER, job.owner or ""
    return (entry.position, name, owner, job.gpus, entry.needs_words, start, why)
