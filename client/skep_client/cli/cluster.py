"""`skep queue`, `skep policy`, `skep join-token`, `skep announcements`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from skep_client import exits
from skep_client.cli.common import (
    Json,
    client,
    console,
    local_time,
    print_json,
    print_table,
    say,
    until,
)

if TYPE_CHECKING:
    from skep_client.models import Cells, Running, VcQueue, VirtualCluster, Waiting

ForNode = Annotated[
    str,
    typer.Option(
        "--node", help="Accept only a node of this name, also as the replacement of a lost node."
    ),
]
ANOTHER = "another job"  # one that its reader may not see
Vc = Annotated[str, typer.Argument(metavar="VC", help="Name of a virtual cluster.")]


def add_to(app: typer.Typer) -> None:
    app.command()(queue)
    app.command()(policy)
    app.command()(join_token)
    announcements = typer.Typer(
        invoke_without_command=True, help="List and change the announcements of administrators."
    )
    announcements.callback()(list_announcements)
    announcements.command("add")(add_announcement)
    announcements.command("delete")(delete_announcement)
    app.add_typer(announcements, name="announcements")


def list_announcements(context: typer.Context, as_json: Json = False) -> None:
    """List the announcements that have not expired, newest first."""
    if context.invoked_subcommand is not None:
        return
    with client() as skep:
        found = list(skep.announcements())
    if as_json:
        print_json(found)
        return
    print_table(
        ("ID", "SEVERITY", "UNTIL", "MESSAGE"),
        [(one.id, one.severity, local_time(one.expires_at), one.message) for one in found],
    )


def add_announcement(
    message: Annotated[str, typer.Argument(help="Text that every page shows.")],
    warning: Annotated[bool, typer.Option("--warning", help="Show it as a warning.")] = False,
    until: Annotated[
        str, typer.Option(help="Time at which it ends, such as 2027-01-31T18:00:00+01:00.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Show a message to all users (admin)."""
    severity = "warning" if warning else "info"
    with client() as skep:
        made = skep.announce(message, severity=severity, expires_at=until or None)
    if as_json:
        print_json(made)
    else:
        say(f"Announced as {made.id}.")


def delete_announcement(
    announcement: Annotated[str, typer.Argument(metavar="ID", help="ID, as listed.")],
) -> None:
    """Stop showing an announcement (admin)."""
    with client() as skep:
        skep.delete_announcement(announcement)
    say("Deleted.")


PolicyName = Annotated[str, typer.Argument(help="The policy to choose (admin).")]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--set", help="Parameter of the policy, as NAME=VALUE. May be repeated."),
]


def policy(
    vc: Annotated[str, typer.Argument(help="A virtual cluster.")] = "",
    name: PolicyName = "",
    parameters: Parameters = None,
    forecast: Annotated[
        bool,
        typer.Option(
            "--forecast", help="Show what NAME would do to the present queue; save nothing."
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Show what NAME, or the present policy, must know of jobs, and how many lack it; "
            "save nothing.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the policies that order waiting jobs, or choose the one of a virtual cluster.

    Without arguments it lists the policies, with VC it shows the one that orders its queue."""
    from skep_client import calls

    if forecast:
        if not name:
            raise typer.BadParameter("--forecast needs VC and NAME.")
        from skep_client.cli.forecast import show_forecast

        show_forecast(vc, name, _values(parameters or []), as_json=as_json)
        return

    if check:
        if not vc:
            raise typer.BadParameter("--check needs VC.")
        from skep_client.cli.forecast import show_check

        show_check(vc, name, _values(parameters or []), as_json=as_json)
        return
    with client() as skep:
        if not vc:
            listed = skep.run(calls.policies()).policies
            if as_json:
                print_json(listed)
                return
            rows = [
                (p.name, ", ".join(k.name for k in p.parameters), p.description) for p in listed
            ]
            print_table(("NAME", "PARAMETERS", "DESCRIPTION"), rows)
            return
        if name:
            chosen = skep.run(calls.choose_policy(vc, name, _values(parameters or []))).policy
        else:
            chosen = skep.virtual_cluster(vc).policy
    if chosen is None:
        say("This server is older than policies: it orders the queue by priority.", err=True)
        raise typer.Exit(exits.NOT_FOUND)
    if as_json:
        print_json(chosen)
        return
    values = " ".join(f"{key}={value}" for key, value in sorted(chosen.parameters.items()))
    say(f"{chosen.name} {values}".strip())


def _values(pairs: list[str]) -> dict[str, object]:
    """Return NAME=VALUE pairs as a mapping; a value that is a number in JSON is one here."""
    import json

    values: dict[str, object] = {}
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found:
            raise typer.BadParameter(f"{pair} is not NAME=VALUE.")
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    return values


def join_token(node: ForNode = "", as_json: Json = False) -> None:
    """Make a token that lets one machine join as a node (admin)."""
    from skep_client import calls

    with client() as skep:
        token = skep.run(calls.create_join_token(node))
    if as_json:
        print_json(token)
        return
    say(token.command or token.token)


def owned_gpus(vc: VirtualCluster, cells: Cells) -> dict[str, int]:
    """Count the GPUs that a virtual cluster owns, by model: by number, as cells, as pinned
    cells."""
    sizes = {
        (chain.chain, level.type): (chain.gpu_model, level.gpus)
        for chain in cells.chains
        for level in chain.levels
    }
    of_any_chain = {cell_type: size for (_, cell_type), size in sizes.items()}
    pins = {pin.name: pin.cell_type for pin in cells.pins}
    found = [(sizes.get((own.chain, own.cell_type)), own.number) for own in vc.cells]
    found += [(of_any_chain.get(pins.get(name, "")), 1) for name in vc.pins]
    owned = Counter(vc.quotas)
    for size, number in found:
        if size is not None:  # else its cells are gone with their last node
            owned[size[0]] += size[1] * number
    return dict(owned)


def queue(
    vc: Vc,
    limit: Annotated[
        int, typer.Option("--limit", "-n", help="List at most this many waiting jobs.")
    ] = 50,
    as_json: Json = False,
) -> None:
    """Who runs in a virtual cluster, and who waits in which order, with expected starts."""
    with client() as skep:
        found = skep.queue(vc, limit=min(max(limit, 1), 100))
    if as_json:
        print_json(found)
    else:
        _print_queue(found)


def _print_queue(found: VcQueue) -> None:
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
        standing = "preempted"
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
